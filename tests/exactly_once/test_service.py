"""A service's fleet has learned its log up to the change that it says, whatever raises, and after a restart too."""

import json
from contextlib import suppress

import numpy as np
import pytest

from posse.core.state import CLOCK, FAILURES, RETRY_AT
from posse.fleet.replica import Replica
from posse.fleet.residuals import Residuals
from posse.service.definition import new_definition, new_replica, task_line
from posse.service.live_fleet import LiveFleet
from posse.service.settings import Limits
from posse.service.verify import Verification
from posse.storage import NewDecision, NewReward, digest_of, open_storage

from .injecting import QUIET, places

ARMS = ["red", "green"]
KINDS = {
    "ebm-ts": {},
    "ebm-rand-ucb": {"policy": "ebm-rand-ucb", "evaluation_budget": 0.01},
    "ebm-ucb, robust": {"policy": "ebm-ucb", "robust": True},
    "ebm-ts, paper": {"prior": "paper"},
    "ebm-ucb, moments": {"policy": "ebm-ucb", "prior": "moments"},
    "lin-ucb": {"policy": "lin-ucb"},
    "random": {"policy": "random"},
    "counting": {"absent_reward": 0.25},
    "counting, paper": {"absent_reward": 0.25, "prior": "paper"},
    "held": {"absent_reward": 0.25, "count_pending": False},
    "clicks": {"rewards": "binary"},
    "counts": {"rewards": "count"},
    "clicks, counting": {"rewards": "binary", "absent_reward": 0.0},
    "clicks, held": {"rewards": "binary", "absent_reward": 0.0, "count_pending": False},
    "clicks, drift": {"rewards": "binary", "drift": 1e-3},
    "clicks, drift, learned": {"rewards": "binary", "drift": "learn"},
    "counts, drift": {"rewards": "count", "drift": 1e-3},
    "revenue": {"rewards": "revenue"},
    "revenue, counting": {"rewards": "revenue", "absent_reward": 0.0},
    "revenue, drift": {"rewards": "revenue", "drift": 1e-3},
    "corrections": {"reward_events": "last"},
    "events": {"reward_events": "sum"},
    "drift": {"drift": 1e-3},  # 86 seconds, at one decision in a second
    "drift, learned": {"drift": "learn"},
    "drift, held": {"drift": 1e-3, "absent_reward": 0.25, "count_pending": False},
    "known": {"task_features": ["size"], "arm_features": ["price"]},
    "clicks, known": {"rewards": "binary", "task_features": ["size"], "arm_features": ["price"]},
    "known, drift": {"task_features": ["size"], "drift": 1e-3},
    "catalogue": {"kind": "catalogue", "arm_features": ["price"], "interactions": True, "max_arms": 100},
}
GIVEN = {
    "intercept": True, "policy": "ebm-ts", "prior": None, "exploration": None, "floor": 0.0, "evaluation_budget": 0.0,
    "refresh_growth": 0.0,
    "robust": False, "time_to_live": 1e6, "absent_reward": None, "count_pending": True, "retention": None,
}  # fmt: skip
EXACT = {"rtol": 1e-9, "atol": 1e-9}


class Logged:
    """A storage with one fleet, whose log grows by what a test writes."""

    def __init__(self, folder, **settings):
        self.storage = open_storage(str(folder / "posse.db"))
        arms = {arm: {"price": 1.0 + number} for number, arm in enumerate(ARMS)}
        given = {"arms": arms if "arm_features" in settings else ARMS, "features": ["a"]}
        if settings.get("kind") == "catalogue":
            given |= {"arms": None, "policy": "ebm-rand-ucb"}
        definition = new_definition(GIVEN | given | settings, Limits())
        self.storage.create_fleet("f", definition, 1.0)
        self.absent, self.rewards = definition["absent_reward"], definition["rewards"]
        self.corrects = definition["reward_events"] != "once"
        self.catalogue, self.knows = "kind" in definition, "task_features" in definition
        self.fades = isinstance(definition.get("drift"), float)
        self.rng, self.made = np.random.default_rng(2), 0
        self.erased = {}

    @property
    def row(self):
        return self.storage.fleet("f")

    def write(self, n, tasks=6):
        """Decisions and their rewards; return what was written.

        Where a missing reward means something, one decision in three waits; the time of a decision is its number.
        """
        groups = []
        for _ in range(n):
            self.made += 1
            body = json.dumps({"context": self.context()})
            task, arm = f"t{self.rng.integers(tasks)}", ARMS[self.rng.integers(2)]
            groups.append([NewDecision("f", f"d{self.made}", float(self.made), task, arm, 0.5, body, "p", "v")])
            if self.absent is None or self.made % 3:
                event = f"first of {self.made}" if self.corrects else None
                groups.append([NewReward(f"d{self.made}", self.value(), self.made + 1.0, event=event)])
            if self.corrects and self.made % 2:
                groups.append([NewReward(f"d{self.made}", self.value(), self.made + 1.0, event=f"e{self.made}")])
        return self.storage.write(groups)

    def context(self):
        about = {"price": float(self.rng.integers(1, 5))} if self.catalogue else {}
        return {"a": float(self.rng.normal())} | about

    def value(self):
        if self.rewards == "number":
            return float(self.rng.normal())
        return float(self.rng.integers(2 if self.rewards == "binary" else 5))

    def expire(self, kept=0):
        """Let the time of all decisions but the newest be over, as the engine does; return what was written."""
        late = self.storage.waiting("f", self.made - kept + 0.5)
        return self.storage.write([[NewReward(one, self.absent, 2e6, expiring=True)] for one in late])

    def erase(self, task):
        number = self.storage.erase("f", task)
        if number is not None:
            self.erased[task] = number

    def turn_arms(self):
        """Retire an arm, or bring it back."""
        old = self.row.definition
        assert self.storage.change_arms("f", old | {"retired": [] if old["retired"] else ["green"]}, old)

    def sums(self, up_to):
        expected = {}
        for row in self.storage.decisions("f", limit=100_000):
            if row.change is not None and row.change <= up_to:
                value = row.reward
                if row.corrected is not None and row.corrected > up_to:
                    events = self.storage.reward_events(row.id)
                    value = next(one.old for one in events if one.number is not None and one.number > up_to)
            elif row.counted is not None and row.counted <= up_to:
                value = self.absent
            else:
                continue
            x, arm = np.array([1.0, json.loads(row.body)["context"]["a"]]), row.arm
            if self.catalogue:
                entry, arm = [1.0], "reward"  # what it weighs depends on those before it
            elif self.rewards == "number":
                entry = [1.0, value**2, *(value * x), *np.outer(x, x)[np.triu_indices(2)]]
            else:
                entry = [1.0, value, *x, *x**2]
            expected[row.task, arm] = expected.get((row.task, arm), 0.0) + np.array(entry)
        return expected

    def faded(self, up_to, at):
        """What a fleet has learned that nothing ever happened to, as of a time: the clock may be ahead of the log."""
        replica = new_replica(self.row.definition)
        for change in self.storage.changes("f", 0, 100_000):
            if change.number > up_to:
                break
            if change.kind == "reward":
                context = [json.loads(change.body)["context"]["a"]]
                replica.learn(
                    [change.task], [change.arm], [context], [change.reward], catching_up=True, times=[change.time]
                )
            elif change.kind == "erase":
                replica.discard(lambda task: digest_of("f", task) == change.data)  # noqa: B023
        replica.core.state.numbers[CLOCK] = at
        return sums_of(replica)

    def check(self, replica):
        """Check that a replica has learned what the log has up to the change that it has applied."""
        up_to, found = replica.applied, sums_of(replica)
        expected = self.faded(up_to, replica.now()) if self.fades else self.sums(up_to)
        for task, number in self.erased.items():
            # The log does not have it any more; whoever has not come to that change still does.
            if replica.applied < number:
                found = {pair: sums for pair, sums in found.items() if pair[0] != task}
                expected = {pair: sums for pair, sums in expected.items() if pair[0] != task}
        assert found.keys() == expected.keys()
        for pair, sums in expected.items():
            np.testing.assert_allclose(found[pair], sums, **EXACT, err_msg=str(pair))
        if not self.fades:
            assert replica.n_rewards == sum(sums[0] for sums in sums_of(replica).values())

    def check_all(self, live):
        self.check(live.replica)
        assert live.applied == self.row.changes
        if self.fades:
            return
        assert live.replica.n_rewards == self.storage.rewards_up_to("f", live.applied)
        if self.absent is None:
            assert live.replica.n_rewards == self.row.rewards


def sums_of(replica):
    _, found = replica.learned(replica.tasks)
    return {
        pair: [sums.rewards, sums.squares, *sums.moment, *sums.gram] if sums.moment.size else [sums.rewards]
        for pair, sums in found.items()
    }


def apply(logged, live, injection):
    written = logged.write(3)
    before, changes = written.before["f"], written.changes["f"]
    injection.run(lambda: live.apply(before, changes))


def follow(logged, live, injection):
    news(logged, live, injection.place)
    injection.run(live.follow)


def catch_up(logged, live, injection):
    logged.write(2)
    replica = new_replica(logged.row.definition)
    injection.run(lambda: live._catch_up(replica))
    logged.check(replica)
    live._catch_up(replica)
    logged.check(replica)
    assert replica.applied == logged.row.changes


def news(logged, live, place):
    """Rewards, arms, an erased task and a population, as other processes write them."""
    logged.write(3)
    if place % 3 == 0 and not logged.catalogue:
        logged.turn_arms()
    if place % 3 == 1 and logged.knows:
        line = task_line(f"t{place % 6}", {"size": float(place % 5)})
        logged.storage.know_tasks("f", [(f"t{place % 6}", line)], 1.0)
    if place % 4 == 0:
        logged.erase(f"t{place % 6}")
    population = live.replica.dump_population()
    if population is not None and place % 2:
        logged.storage.add_population("f", population)
    logged.write(2)


def load(logged, live, injection):
    """A snapshot is read, and then what the log has since."""
    if injection.place % 3 == 0:
        live.write_snapshot(lambda job: job(), 1.0)
    news(logged, live, injection.place)
    again = injection.run(lambda: LiveFleet(logged.storage, logged.row))
    if again is not None:
        logged.check_all(again)
    logged.check_all(LiveFleet(logged.storage, logged.row))


def relearn(logged, live, injection):
    """All of it is learned again while more comes; whatever raises, what was there before stays."""
    logged.write(2)
    injection.run(live.relearn)


def snapshot(logged, live, injection):
    logged.write(2)
    live.follow()
    injection.run(lambda: live.write_snapshot(lambda job: job(), 1.0))


def learn(logged, live, injection):
    """The replica by itself: rewards and the position change together."""
    logged.write(2)
    if logged.absent is not None:
        logged.expire(kept=1)
    for change in logged.storage.changes("f", live.applied):
        context = [*json.loads(change.body)["context"].values()]
        injection.run(
            lambda: live.replica.learn(
                [change.task], [change.arm], np.array([context]), [change.reward], replaces=[change.old],  # noqa: B023
                provisional=change.kind == "decision", applied=change.number, times=[change.time],  # noqa: B023
                numbers=[change.number], first=[change.first],  # noqa: B023
            )
        )  # fmt: skip
        if live.applied < change.number:
            break


def expire(logged, live, injection):
    """Decisions whose time is over, and one more that comes behind them."""
    logged.write(4)
    live.follow()
    for written in (logged.expire(kept=1), logged.write(1)):
        if "f" in written.changes:
            injection.run(lambda: live.apply(written.before["f"], written.changes["f"]))  # noqa: B023


OPERATIONS = {operation.__name__: operation for operation in (apply, follow, catch_up, load, relearn, snapshot, learn)}
LATE = OPERATIONS | {"expire": expire}  # where a missing reward means something


def inject(tmp_path, caplog, kind, what, **where):
    logged, count, quiet = Logged(tmp_path, **KINDS[kind]), 0, 0
    try:
        logged.write(20)
        live = LiveFleet(logged.storage, logged.row)
        for injection in places(**where):
            live.replica.core.state.numbers[[RETRY_AT, FAILURES]] = 0.0
            if logged.absent is not None and injection.place % 2:
                logged.expire(kept=3)
                live.follow()
            LATE[what](logged, live, injection)
            logged.check(live.replica)
            live.follow()
            logged.check_all(live)
            if injection.place % 5 == 0:
                compared = Verification(logged.storage, logged.row, live.replica, live.contexts).all()
                assert compared.different == 0
                assert logged.fades or compared.rewards == live.replica.n_rewards
                # With the newest snapshot, and with one more.
                logged.check_all(LiveFleet(logged.storage, logged.row))
                live.write_snapshot(lambda job: job(), 1.0)
                logged.check_all(LiveFleet(logged.storage, logged.row))
            while live.replica.refreshing:
                pass
            count += injection.fired
            quiet = 0 if injection.fired else quiet + 1
            if quiet == QUIET:
                break
    finally:
        logged.storage.close()
    # What a fleet has learned and what its log says were compared at every snapshot.
    assert "learned again" not in caplog.text
    return count


QUICK = [
    *(("ebm-ts", what) for what in OPERATIONS),
    *(("counting", what) for what in LATE if what != "snapshot"),
    *(("held", what) for what in ("follow", "catch_up", "expire")),
    *(("catalogue", what) for what in ("apply", "follow", "catch_up")),
    *(("clicks", what) for what in ("apply", "catch_up")),
    *(("clicks, counting", what) for what in ("apply", "catch_up", "expire")),
    *(("drift", what) for what in ("apply", "catch_up")),
    *(("clicks, drift", what) for what in ("apply", "catch_up")),
    ("clicks, drift, learned", "apply"),
    *(("corrections", what) for what in ("follow", "catch_up")),
    ("drift, learned", "apply"),
    ("known", "follow"),
    ("clicks, known", "follow"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "what"), QUICK)
def test_a_fleet_has_learned_its_log_whatever_raises(tmp_path, caplog, kind, what):
    assert inject(tmp_path, caplog, kind, what, most=200, stride=53, dense=7, middle=60) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", LATE)
def test_every_place_between_log_and_belief(tmp_path, caplog, kind, what):
    if what == "expire" and "absent_reward" not in KINDS[kind]:
        pytest.skip("nothing is learned from decisions without a reward")
    if what == "apply" and kind.endswith("held"):
        pytest.skip("decisions and rewards change nothing before their time is over: see expire")
    # A row of a catalogue takes several times as many calls.
    stride = 4 if kind == "catalogue" else 1
    assert inject(tmp_path, caplog, kind, what, most=150 * stride, stride=stride) >= 30


def test_a_log_that_is_learned_from_its_start_goes_on_with_the_rewards_it_began_with(tmp_path, monkeypatch):
    """Corrections up to there are in the rewards already."""
    logged = Logged(tmp_path)
    logged.write(6)
    logged.storage.write([[NewReward("d1", 7.0, 9.0, event="c", corrects=True)]])
    live, replica = LiveFleet(logged.storage, logged.row), new_replica(logged.row.definition)
    learn = Replica.learn

    def some(self, tasks, arms, contexts, rewards, **rest):
        learn(self, tasks[:3], arms[:3], contexts[:3], rewards[:3], replaces=rest["replaces"][:3], applied=3)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Replica, "learn", some)
        with pytest.raises(MemoryError):
            live._catch_up(replica)
    assert (replica.applied, replica.settled) == (3, 7)
    live._catch_up(replica)
    logged.check(replica)
    logged.storage.close()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("row", [1, 2, 3])
def test_rows_of_a_catalogue_before_one_that_raises_are_not_learned_again(tmp_path, monkeypatch, row, after):
    """Each row is a commit of its own, and the position in the log moves with it; estimates come after it."""
    logged, left = Logged(tmp_path, **KINDS["catalogue"]), [row]
    logged.write(20)
    live = LiveFleet(logged.storage, logged.row)
    name = "estimate" if after else "of_one"
    original = getattr(Residuals, name)

    def fail(*arguments):
        left[0] -= 1
        if left[0] == 0:
            raise MemoryError
        return original(*arguments)

    written = logged.write(4)
    with monkeypatch.context() as patch:
        patch.setattr(Residuals, name, fail)
        if after:
            live.apply(written.before["f"], written.changes["f"])
        else:
            with suppress(MemoryError):  # a row that has begun is learned to its end
                live.apply(written.before["f"], written.changes["f"])
                after = True
    assert left[0] <= 0
    logged.check(live.replica)
    assert live.applied == written.before["f"] + (4 if after else row - 1)
    live.follow()
    logged.check_all(live)
    logged.storage.close()


def test_a_decision_that_cannot_be_learned_is_left_out_with_its_reward(tmp_path, caplog):
    logged = Logged(tmp_path, absent_reward=0.25)
    body = json.dumps({"context": {"a": 1.0}})
    odd = NewDecision("f", "odd", 10.0, "t1", "an arm that never was", 0.5, body, "p", "v")
    logged.storage.write([[odd]])
    logged.write(3)
    live = LiveFleet(logged.storage, logged.row)
    assert (live.replica.n_rewards, live.replica.unlearned) == (3, 1)
    # The reward would have replaced what was never learned: no reward more is missing.
    logged.storage.write([[NewReward("odd", 1.0, 11.0)]])
    live.follow()
    assert (live.replica.n_rewards, live.replica.unlearned, live.applied) == (3, 1, logged.row.changes)
    live.write_snapshot(lambda job: job(), 1.0)
    assert "learned again" not in caplog.text
    logged.storage.close()


def test_changes_with_nothing_new_are_applied(tmp_path):
    """Decisions whose time is over have counted as the absent reward all the while."""
    logged = Logged(tmp_path, absent_reward=0.25)
    logged.write(3)
    live = LiveFleet(logged.storage, logged.row)
    before, number = sums_of(live.replica), live.applied
    written = logged.expire()
    live.apply(written.before["f"], written.changes["f"])
    assert live.applied == number + 1 == logged.row.changes
    assert sums_of(live.replica) == before
    logged.check_all(live)
    logged.storage.close()


def test_a_reward_that_cannot_be_learned_is_left_out(tmp_path, caplog):
    logged = Logged(tmp_path)
    logged.write(4)
    body = json.dumps({"context": {"a": 1.0}})
    odd = NewDecision("f", "odd", 10.0, "t1", "an arm that never was", 0.5, body, "p", "v")
    logged.storage.write([[odd], [NewReward("odd", 1.0, 11.0)]])
    logged.write(3)
    live = LiveFleet(logged.storage, logged.row)
    assert (live.replica.n_rewards, live.replica.unlearned, live.applied) == (7, 1, 8)
    assert "cannot be learned" in caplog.text
    caplog.clear()
    # It is known, so a snapshot is no reason to learn all of it again.
    live.write_snapshot(lambda job: job(), 1.0)
    assert "learned again" not in caplog.text
    logged.storage.close()


# A snapshot that has learned more or less than the log.


def put_wrong_snapshot(logged, live, extra):
    """Write a snapshot of a fleet that has learned some rewards twice, as if it were right."""
    wrong, number = new_replica(logged.row.definition), live.applied
    live._catch_up(wrong)
    wrong.learn(["t1"] * extra, ["red"] * extra, [[0.5]] * extra, [2.0] * extra)
    path = "wrong.posse"
    wrong.save(path)
    snapshot = logged.storage.start_snapshot("f", number, 1.0)
    with open(path, "rb") as stream:
        logged.storage.add_snapshot_part(snapshot, 0, stream.read())
    logged.storage.finish_snapshot(snapshot)
    return wrong


@pytest.fixture
def kind():
    return "ebm-ts"


@pytest.fixture
def logged(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    logged = Logged(tmp_path, **KINDS[kind])
    logged.write(25)
    if logged.absent is not None:
        logged.expire(kept=15)
    yield logged
    logged.storage.close()


@pytest.mark.parametrize("kind", ["ebm-ts", "counting", "held"])
@pytest.mark.parametrize("then", ["at once", "more rewards", "an erased task"])
def test_a_snapshot_that_disagrees_with_the_log_is_not_believed(logged, caplog, then):
    live = LiveFleet(logged.storage, logged.row)
    put_wrong_snapshot(logged, live, 236)
    if then == "more rewards":
        logged.write(5)
    if then == "an erased task":
        logged.erase("t2")
    again = LiveFleet(logged.storage, logged.row)
    assert "learned again" in caplog.text
    logged.check_all(again)
    # The next snapshot is right, so nothing is said.
    again.write_snapshot(lambda job: job(), 1.0)
    caplog.clear()
    logged.check_all(LiveFleet(logged.storage, logged.row))
    assert caplog.text == ""


@pytest.mark.parametrize("kind", ["ebm-ts", "counting", "held"])
def test_what_disagrees_with_the_log_is_not_written_but_learned_again(logged, caplog):
    live = LiveFleet(logged.storage, logged.row)
    live.replica.learn(["t1"], ["red"], [[0.5]], [2.0])
    wrong = live.replica
    assert live.write_snapshot(lambda job: job(), 1.0) == logged.row.changes
    assert live.replica is not wrong
    assert "learned again" in caplog.text
    logged.check_all(live)
    caplog.clear()
    logged.check_all(LiveFleet(logged.storage, logged.row))
    assert caplog.text == ""


@pytest.mark.parametrize(("kind", "pruned"), [("ebm-ts", 25), ("counting", 20), ("held", 10)])
def test_a_running_fleet_is_learned_again_from_the_snapshot_where_the_log_was_pruned(logged, caplog, pruned):
    live = LiveFleet(logged.storage, logged.row)
    live.write_snapshot(lambda job: job(), 1.0)
    before = sums_of(live.replica)
    # Not those that wait, nor those whose reward is held.
    assert logged.storage.prune("f", 1e9) == pruned
    assert not logged.storage.is_whole("f")
    live.replica.learn(["t1"], ["red"], [[0.5]], [2.0])
    live.write_snapshot(lambda job: job(), 1.0)
    found = sums_of(live.replica)
    assert found.keys() == before.keys()
    for pair, sums in before.items():
        np.testing.assert_allclose(found[pair], sums, **EXACT)
    assert "learned again" in caplog.text


def test_a_wrong_snapshot_of_a_pruned_log_is_used_and_logged(logged, caplog):
    live = LiveFleet(logged.storage, logged.row)
    put_wrong_snapshot(logged, live, 3)
    assert logged.storage.prune("f", 1e9) == 25
    again = LiveFleet(logged.storage, logged.row)
    assert "have left its log" in caplog.text
    assert again.replica.n_rewards == 28
    caplog.clear()
    logged.write(2)
    again.follow()
    again.write_snapshot(lambda job: job(), 1.0)
    assert caplog.text == ""


def test_a_refresh_that_fails_repeats_nothing(logged, monkeypatch, caplog):
    live = LiveFleet(logged.storage, logged.row)
    live.replica.run_in_background(False)

    def fail(*_, **__):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr("posse.core.core.estimated", fail)
        for _ in range(10):
            written = logged.write(1)
            live.apply(written.before["f"], written.changes["f"])
            live.replica.propose("t1", {"a": 1.0})
        assert live.replica.core.problem == "OSError: [Errno 24] Too many open files"
        # After 1, 2, 4 and 8 rewards, not after every one.
        assert caplog.text.count("could not be estimated") <= 5
    logged.check_all(live)
    logged.write(40)
    live.follow()
    assert live.replica.core.problem is None
    logged.check_all(live)
