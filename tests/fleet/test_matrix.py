"""Every combination of what a fleet may be learns, decides, forgets, grows, is saved, loaded and merged.

Family of rewards x drift x features of tasks x features of arms x absent reward x background: 192 fleets. REFUSED says
which of them there are not, and why; a combination that is lifted fails here until its line is deleted. The same list
makes docs/combinations.md: ``python tests/fleet/test_matrix.py`` writes the page.
"""

import itertools
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from posse import Catalogue, FeatureSpec, Posse
from posse.errors import InvalidValue, UnknownDecision
from posse.features import one_hot

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"
FAMILIES, DRIFTS = ("number", "binary", "count", "revenue"), (None, 2.0, "learn")
HOUR, START = 3600.0, 1.8e9
TIME_TO_LIVE = 40 * HOUR
TASKS = ("north", "south", "east", "west", "centre")
REGIONS = {"north": "cold", "south": "warm", "east": "cold", "west": "warm"}  # nothing is known about the centre
ARMS = {"red": {"price": 1.0}, "green": {"price": 2.0}, "blue": {"price": 1.2}}


PAGE_BEGINS = """\
# What goes together

A fleet is declared by what its rewards are, whether the world drifts, what is known about tasks and arms, whether a
missing reward stands for one, and where its population is estimated: {n_cells} combinations, of which {n_works} work.
One test goes through all of them: it decides, rewards late and out of order, learns a table, forgets a task, adds an
arm, changes what is known, saves and loads (what is believed is the same to the last bit), and merges. It also writes
this table, to which `background` makes no difference.

"""


OF_SHOPS = """\
## Catalogues

[Catalogues](catalogues.md) know arms by their features. They take `absent_reward` with `count_pending=False`,
and no revenue. Another test goes through these.

| rewards | drift | absent reward | works |
|---|---|---|---|
"""


class Cell(NamedTuple):
    """One combination of options."""

    family: str
    drift: object
    task_features: bool
    arm_features: bool
    absent: bool
    background: bool

    def __str__(self):
        named = {"task features": self.task_features, "arm features": self.arm_features, "absent reward": self.absent}
        parts = [
            self.family,
            *([f"drift {self.drift}"] if self.drift else []),
            *(name for name in named if named[name]),
        ]
        return ", ".join([*parts, *(["background"] if self.background else [])])


CELLS = [Cell(*values) for values in itertools.product(FAMILIES, DRIFTS, *[(False, True)] * 4)]


class Refusal(NamedTuple):
    """Why some combinations do not exist: which, what their error says, and the reason for the documentation."""

    concerns: object
    error: str
    reason: str


REFUSED: tuple[Refusal, ...] = ()


def refusal_of(cell):
    """Return the first refusal that concerns a combination, or None."""
    return next((one for one in REFUSED if one.concerns(cell)), None)


def cells():
    for cell in CELLS:
        refused = refusal_of(cell)
        marks = () if refused is None else pytest.mark.xfail(raises=InvalidValue, strict=True, reason=refused.reason)
        yield pytest.param(cell, id=str(cell), marks=marks)


class Clock:
    now = START

    def __call__(self):
        return self.now


def settle(fleet):
    """Wait for an estimate in the background, after which all depends on the seed alone."""
    until = time.monotonic() + 60.0
    while fleet.refreshing:
        assert time.monotonic() < until
        time.sleep(1e-4)


class Row(NamedTuple):
    """A decision or a row of a table: what its reward is, and when it was made."""

    task: str
    arm: str
    x: float
    value: float
    made: float


class World:
    """A fleet that lives, its clock and log, and what it should have learned."""

    def __init__(self, cell, seed, arms=ARMS, prefix=""):
        settings = {"background": cell.background, "drift": cell.drift, "rewards": cell.family}
        if cell.task_features:
            settings["task_features"] = FeatureSpec([one_hot("region", ["cold", "warm"])])
        if cell.arm_features:
            settings["arm_features"] = ["price"]
        if cell.absent:
            settings["absent_reward"] = 0.0
        self.cell, self.clock, self.log, self.prefix, self.arms = cell, Clock(), [], prefix, arms
        self.fleet = Posse(
            arms if cell.arm_features else list(arms), ["x"], seed=seed, clock=self.clock, time_to_live=TIME_TO_LIVE,
            log=self.log.extend, **settings,
        )  # fmt: skip
        self.rng = np.random.default_rng(seed)
        self.waiting, self.learned = {}, []
        if cell.task_features:
            self.fleet.set_task_features({task: {"region": region} for task, region in REGIONS.items()})

    def draw(self, arm, x):
        """Return a reward: arms differ."""
        predictor = (len(arm) - 4.0) * 0.5 + 0.3 * x
        if self.cell.family == "number":
            return float(predictor + 0.5 * self.rng.normal())
        if self.cell.family == "binary":
            return float(self.rng.random() < 1.0 / (1.0 + np.exp(-predictor)))
        if self.cell.family == "revenue":
            return float(self.rng.random() < 1.0 / (1.0 + np.exp(-predictor))) * float(self.rng.lognormal(3.0, 0.5))
        return float(self.rng.poisson(np.exp(predictor)))

    def wait_for(self, decision, x):
        self.waiting[decision.id] = Row(decision.task, decision.arm, x, self.draw(decision.arm, x), self.clock.now)

    def decide(self):
        task, x = self.prefix + str(self.rng.choice(TASKS)), float(self.rng.normal())
        decision = self.fleet.decide(task, [x])
        assert_distribution(list(decision.probabilities.values()))
        self.wait_for(decision, x)

    def reward(self, decision_id):
        row = self.waiting.pop(decision_id)
        assert self.fleet.reward(decision_id, row.value) is True
        assert self.fleet.reward(decision_id, row.value) is False
        self.learned.append(row)

    def live(self, steps):
        """Decide; rewards come out of order, some after many other decisions, some never."""
        for _ in range(steps):
            self.clock.now += HOUR
            self.decide()
            settle(self.fleet)
            for decision_id, row in list(self.waiting.items()):
                if self.clock.now - row.made > TIME_TO_LIVE:
                    del self.waiting[decision_id]
                    self.learned += [row._replace(value=0.0)] * self.cell.absent
                elif int(decision_id.rsplit("-", 1)[1]) % 7 and self.rng.random() < 0.3:
                    self.reward(decision_id)
                    settle(self.fleet)

    def learn_table(self, n):
        rows = []
        for _ in range(n):
            task, arm, x = self.prefix + str(self.rng.choice(TASKS)), str(self.rng.choice([*ARMS])), self.rng.normal()
            rows.append(Row(task, arm, x, self.draw(arm, x), self.clock.now - HOUR * self.rng.random()))
        table = dict(zip(["task", "arm", "x", "reward", "when"], map(list, zip(*rows, strict=True)), strict=True))
        assert self.fleet.learn_many(table, time="when" if self.cell.drift else None) == n
        self.learned += rows
        settle(self.fleet)

    def forget(self, task):
        self.fleet.forget(task)
        settle(self.fleet)
        for one in [decision_id for decision_id, row in self.waiting.items() if row.task == task]:
            with pytest.raises(UnknownDecision):
                self.fleet.reward(one, 0.0)
            del self.waiting[one]
        self.learned = [row for row in self.learned if row.task != task]

    def check(self):
        fleet = self.fleet
        assert {one.id for one in fleet.pending()} == self.waiting.keys()
        noted = [record for record in self.log if "reward" not in record and "arm" in record]
        assert fleet.n_decisions == len(noted)
        rows = self.learned + [row._replace(value=0.0) for row in self.waiting.values()] * self.cell.absent
        if self.cell.drift:
            assert 0 < fleet.n_rewards <= len(rows) + 1e-9
        else:
            assert fleet.n_rewards == len(rows)
            self.check_sums(rows)
        self.check_beliefs()

    def check_sums(self, rows):
        """Nothing faded: what was learned of every pair is its number of rewards, and of numbers the plain sums."""
        statistics, arms = self.fleet.statistics, [*self.arms, "white", "black"]
        for place, task in enumerate(self.fleet.tasks):
            for arm, count in enumerate(statistics.count[:, place].tolist()):
                own = [row for row in rows if (row.task, row.arm) == (task, arms[arm])]
                assert count == len(own)
                if self.cell.family == "number":
                    X, y = np.array([[1.0, row.x] for row in own]).reshape(-1, 2), np.array([row.value for row in own])
                    np.testing.assert_allclose(statistics.gram[arm, place], X.T @ X, atol=1e-9)
                    np.testing.assert_allclose(statistics.moment[arm, place], X.T @ y, atol=1e-9)
                    np.testing.assert_allclose(statistics.sum_of_squares[arm, place], y @ y, atol=1e-9)

    def check_beliefs(self):
        for mean, sd, probabilities in beliefs_of(self.fleet):
            assert np.isfinite(mean).all()
            assert np.isfinite(sd).all()
            assert (sd > 0).all()
            assert_distribution(probabilities)
            if self.cell.family != "number":
                assert (mean > 0).all()
            if self.cell.family == "binary":
                assert (mean < 1).all()
        prior = self.fleet.prior
        assert all(np.isfinite(part).all() for part in (prior.covariance, prior.noise_variance))


def assert_distribution(probabilities):
    assert min(probabilities) >= 0.0
    assert abs(sum(probabilities) - 1.0) < 1e-9


def beliefs_of(fleet):
    """Return means, standard deviations and probabilities of all arms, by task, that of one never seen included."""
    found = []
    for task in [*fleet.tasks, "nowhere"]:
        for x in (-1.0, 0.7):
            expected = fleet.expected(task, [x])
            mean, sd = np.array([*expected.mean.values()]), np.array([*expected.sd.values()])
            found.append((mean, sd, fleet.probabilities([task], [[x]])[0]))
    return found


def assert_same_beliefs(first, second):
    assert (first.arms, first.tasks) == (second.arms, second.tasks)
    for mine, theirs in zip(beliefs_of(first), beliefs_of(second), strict=True):
        assert all((a == b).all() for a, b in zip(mine, theirs, strict=True))


def change(world):
    """Forget a task, add an arm, say something else about tasks, choose several arms and many at once."""
    fleet, cell = world.fleet, world.cell
    world.forget(world.prefix + "south")
    assert world.prefix + "south" not in fleet.tasks
    fleet.add_arm("white", {"price": 1.5} if cell.arm_features else None)
    fleet.add_arm("black")  # about which nothing is known
    fleet.retire_arm("red")
    if cell.task_features:
        assert fleet.set_task_features({world.prefix + "west": {"region": "cold"}}) == 1
    settle(world.fleet)
    places = fleet.decide(world.prefix + "east", [0.2], k=2)
    many = fleet.decide_many([world.prefix + "west", world.prefix + "north"], [[0.1], [0.4]])
    for one, x in zip((*places, *many), (0.2, 0.2, 0.1, 0.4), strict=True):
        world.wait_for(one, x)
    rows = [world.waiting.pop(one.id) for one in many]
    assert fleet.reward_many(many, [row.value for row in rows]) == 2
    world.learned += rows
    settle(world.fleet)


def go_on(fleet, clock, family, seed, steps):
    """Decide and reward; return all that was decided."""
    clock.now, made = START + 1000 * HOUR, []
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        clock.now += HOUR
        decision = fleet.decide(str(rng.choice(TASKS)), [float(rng.normal())])
        settle(fleet)
        value = float(rng.normal()) if family == "number" else float(rng.integers(2))
        fleet.reward(decision.id, value)
        settle(fleet)
        made.append((decision.arm, decision.probabilities, decision.mean, decision.sd))
    return made


@pytest.mark.parametrize("cell", [*cells()])
def test_a_fleet_of_every_combination(tmp_path, cell):
    world = World(cell, seed=11)
    world.live(25)
    world.learn_table(30)
    world.check()
    change(world)
    world.live(30)
    world.fleet.refresh()
    world.check()

    # A loaded fleet believes and decides the same, also after it has learned on; rewards of before still come.
    path = tmp_path / "fleet.posse"
    world.fleet.save(path)
    clock = Clock()
    clock.now = world.clock.now
    loaded = Posse.load(path, clock=clock, background=cell.background)
    assert_same_beliefs(world.fleet, loaded)
    assert loaded.n_rewards == world.fleet.n_rewards
    for decision_id, row in list(world.waiting.items())[:3]:
        assert loaded.reward(decision_id, row.value)
        world.reward(decision_id)
    assert go_on(world.fleet, world.clock, cell.family, 5, 12) == go_on(loaded, clock, cell.family, 5, 12)
    assert_same_beliefs(world.fleet, loaded)

    # Merged with a fleet of the same kind: names of both, and decisions of the other are rewarded here.
    other, before = World(cell, seed=12, arms=ARMS | {"a new one": {"price": 0.3}}, prefix="their "), loaded.n_rewards
    other.clock.now = clock.now
    other.live(15)
    other.learn_table(10)
    other.check()
    clock.now = other.clock.now
    loaded.merge(other.fleet)
    world.fleet = loaded
    settle(world.fleet)
    assert set(other.fleet.tasks) < set(loaded.tasks)
    assert "a new one" in loaded.arms
    if not cell.drift:
        assert loaded.n_rewards == before + other.fleet.n_rewards
    for decision_id, row in other.waiting.items():
        assert loaded.reward(decision_id, row.value)
    settle(world.fleet)
    world.check_beliefs()


# A reward that takes the place of another counts as if it had been the first, however late it comes.


def replaced(cell, seed, late, correct=False):
    """Return a fleet that got other rewards first, and its twin, which got the right ones at once.

    Thirty hours pass before those take their place if ``late``. What was first is the absent reward, or a wrong one.
    """
    fleets = []
    for first in (True, False):
        world = World(cell._replace(absent=cell.absent and first), seed)
        rng, waiting = np.random.default_rng(seed), []
        for row in range(30):
            task, arm, x = TASKS[row % 4], [*ARMS][row % 3], float(rng.normal())
            decision = world.fleet.decide(task, [x], eligible=[arm])
            right = float(rng.normal() + 2.0) if cell.family == "number" else float(rng.random() < 0.8)
            if not first or correct:
                world.fleet.reward(decision.id, right if not first else 0.0)
            waiting.append((decision, right))
        world.clock.now += 30 * HOUR * late
        for place in rng.permutation(30).tolist() if first else ():
            decision, right = waiting[place]
            if correct and right != 0.0:
                assert world.fleet.correct(decision.id, right) is True
                assert world.fleet.correct(decision.id, right) is False
            elif not correct:
                assert world.fleet.reward(decision.id, right) is True
        # A further reward of every pair, so that each has told its arm what it knows as of now.
        for row in range(12):
            last = world.fleet.decide(TASKS[row % 4], [0.5], eligible=[[*ARMS][row % 3]])
            world.fleet.reward(last.id, 1.0)
        for _ in range(5):
            world.fleet.refresh()
        fleets.append(world.fleet)
    return fleets


def assert_close_beliefs(cell, fleets):
    # Estimates stop when they hardly move, and sites of clicks are made again in turns: not to the last digit.
    within = 0.002 if cell.family == "number" else 0.2
    for (mean, sd, _), (right, right_sd, _) in zip(*map(beliefs_of, fleets), strict=True):
        np.testing.assert_array_less(np.abs(mean - right), within * right_sd)
        np.testing.assert_allclose(sd, right_sd, rtol=within)


LATE = [param for param in cells() if param.values[0].absent and not param.values[0].background]
CORRECTED = [cell for cell in CELLS if not cell.absent and not cell.background]
LATELY = pytest.mark.parametrize("late", [False, True], ids=["at once", "30 hours later"])


@LATELY
@pytest.mark.parametrize("cell", LATE)
def test_a_reward_takes_the_place_of_the_absent_one(cell, late):
    assert_close_beliefs(cell, replaced(cell, 3, late))


@LATELY
@pytest.mark.parametrize("cell", CORRECTED, ids=str)
def test_a_reward_takes_the_place_of_a_wrong_one(cell, late):
    assert_close_beliefs(cell, replaced(cell, 4, late, correct=True))


# Catalogues: arms come with the request, and decisions count as nothing while they wait.

SHOPS = [*itertools.product(("number", "binary", "count"), DRIFTS, (False, True))]
MENU = {name: {"price": float(place)} for place, name in enumerate("abcdef")}


def shop_of(family, drift, absent, clock, seed):
    absent = {"absent_reward": 0.0, "count_pending": False} if absent else {}
    return Catalogue(
        ["x"], ["price"], seed=seed, rewards=family, drift=drift, clock=clock, time_to_live=TIME_TO_LIVE, **absent
    )


def keep_shop(shop, clock, rng, steps, prefix=""):
    """Decide, and reward late and out of order; return what was decided, and what waits."""
    made, waiting = [], {}
    for _ in range(steps):
        clock.now += HOUR
        one = shop.decide(prefix + str(rng.choice(TASKS)), [float(rng.normal())], MENU)
        made.append((one.task, one.arm, one.probabilities, one.mean, one.sd))
        assert_distribution([*one.probabilities.values()])
        waiting[one.id] = float(rng.normal() if shop.rewards == "number" else rng.integers(2))
        for decision_id in [decision_id for decision_id in waiting if rng.random() < 0.3]:
            assert shop.reward(decision_id, waiting[decision_id]) is True
            assert shop.reward(decision_id, waiting.pop(decision_id)) is False
    return made, waiting


def beliefs_of_shop(shop):
    found = [shop.expected(task, [x], MENU) for task in (*shop.tasks, "nowhere") for x in (-1.0, 0.7)]
    for one in found:
        assert np.isfinite([*one.mean.values(), *one.sd.values()]).all()
        assert shop.rewards != "binary" or all(0.0 < mean < 1.0 for mean in one.mean.values())
        assert shop.rewards != "count" or all(mean > 0.0 for mean in one.mean.values())
    return found


@pytest.mark.parametrize(("family", "drift", "absent"), SHOPS)
def test_a_catalogue_of_every_combination(tmp_path, family, drift, absent):
    clock, rng = Clock(), np.random.default_rng(3)
    shop = shop_of(family, drift, absent, clock, seed=1)
    _, waiting = keep_shop(shop, clock, rng, 50)
    table = {
        "task": ["north", "south", "north"], "arm": ["a", "z", "b"], "x": [0.1, 0.2, 0.3], "price": [0.0, 9.0, 1.0],
        "reward": [1.0, 0.0, 1.0], "when": [clock.now, clock.now - HOUR, clock.now],
    }  # fmt: skip
    assert shop.learn_many(table, time="when" if drift else None) == 3
    wrong = shop.decide("west", [0.3], MENU)
    assert [shop.correct(wrong, value) for value in (1.0, 0.0, 0.0)] == [True, True, False]
    gone = [one.id for one in shop.pending() if one.task == "south"]
    assert {one.id for one in shop.pending()} <= waiting.keys()
    shop.forget("south")
    for decision_id in gone:
        with pytest.raises(UnknownDecision):
            shop.reward(decision_id, 1.0)
    late = [shop.decide("east", [0.1], MENU).id for _ in range(2)]
    shop.refresh()
    beliefs_of_shop(shop)

    # A loaded catalogue believes and decides the same, also after it has learned on; rewards of before still come.
    shop.save(tmp_path / "shop.posse")
    twin_clock = Clock()
    twin_clock.now = clock.now
    twin = Catalogue.load(tmp_path / "shop.posse", clock=twin_clock)
    assert beliefs_of_shop(twin) == beliefs_of_shop(shop)
    for one in (shop, twin):
        assert one.reward_many(late, [1.0, 0.0]) == 2
        assert one.correct(late[0], 0.0)
    goes_on = [
        keep_shop(one, time, np.random.default_rng(5), 60)[0] for one, time in ((shop, clock), (twin, twin_clock))
    ]
    assert goes_on[0] == goes_on[1]
    assert beliefs_of_shop(twin) == beliefs_of_shop(shop)

    # Merged with another: names of both, and decisions of the other are rewarded and corrected here.
    other = shop_of(family, drift, absent, clock, seed=2)
    _, waiting = keep_shop(other, clock, rng, 20, prefix="their ")
    before = shop.n_rewards
    shop.merge(other)
    assert set(other.tasks) < set(shop.tasks)
    if not drift:
        assert shop.n_rewards == before + other.n_rewards
    for decision_id, value in waiting.items():
        assert shop.reward(decision_id, value)
        assert shop.correct(decision_id, 1.0) is (value != 1.0)
    beliefs_of_shop(shop)


def rendered():
    """Return the page about combinations, as REFUSED has it."""
    features = {
        "no features": (False, False), "of tasks": (True, False), "of arms": (False, True), "of both": (True, True)
    }  # fmt: skip
    n_works = sum(refusal_of(cell) is None for cell in CELLS)
    lines = [
        *PAGE_BEGINS.format(n_cells=len(CELLS), n_works=n_works).splitlines(),
        "| rewards | drift | absent reward | " + " | ".join(features) + " |",
        "|---|---|---|" + "---|" * len(features),
    ]
    for family, drift, absent in itertools.product(FAMILIES, DRIFTS, (False, True)):
        entries = []
        for tasks, arms in features.values():
            in_background, refused = (
                refusal_of(Cell(family, drift, tasks, arms, absent, background)) for background in (True, False)
            )
            assert in_background is refused
            entries.append("yes" if refused is None else f"no ({REFUSED.index(refused) + 1})")
        words = {None: "none", "learn": '`"learn"`'}.get(drift, "half-life")
        lines.append(f"| {family} | {words} | {'yes' if absent else 'no'} | {' | '.join(entries)} |")
    reasons = [f"{number}. {one.reason[0].upper()}{one.reason[1:]}." for number, one in enumerate(REFUSED, start=1)]
    words = {None: "none", "learn": '`"learn"`'}
    shops = [
        f"| {family} | {words.get(drift, 'half-life')} | {'yes' if absent else 'no'} | yes |"
        for family, drift, absent in SHOPS
    ]
    return "\n".join([*lines, *([""] if reasons else []), *reasons, "", *OF_SHOPS.splitlines(), *shops, ""])


def test_the_page_about_combinations_says_what_is_so():
    assert PAGE.read_text("utf-8") == rendered(), "write the page again: python tests/fleet/test_matrix.py"


def test_a_refusal_says_what_was_expected_and_what_to_do():
    for cell in CELLS:
        if refusal_of(cell) is not None:
            with pytest.raises(InvalidValue, match=refusal_of(cell).error) as refused:
                World(cell, seed=1)
            assert all(word in str(refused.value) for word in ("expected", "got")), refused.value


if __name__ == "__main__":
    PAGE.write_text(rendered(), "utf-8")
