"""Probabilities, seeds and batches of decisions."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import chisquare, norm

import posse.core.core
from posse import Posse
from posse.core.rule import KEPT
from posse.errors import InvalidValue
from posse.fleet.settings import POLICIES
from posse.policies.ebm import EbmTS, EbmUCB

X = np.array([0.3, -0.8])


SAMPLING = ["ebm-ts"]
BOUNDS = ["ebm-ucb", "lin-ucb"]


def next_step(fleet):
    return int(max(fleet.n_decisions, fleet.n_rewards)) + 1


def spread(fleet, policy, sd):
    """Standard deviations of the scores: those of the beliefs times the scale of the exploration."""
    scale = {"ebm-ts": EbmTS.evidence_exploration, "ebm-ucb": EbmUCB.evidence_exploration}.get(policy, 1.0)
    if policy.startswith("ebm"):
        scale *= math.sqrt(math.log(max(next_step(fleet), 2)))
    return scale * np.array(sd)


def chance_to_win(mean, sd):
    """Adaptive quadrature of each arm by itself, cut where another arm's chance changes fast."""
    mean, sd = np.asarray(mean), np.asarray(sd)
    found = []
    for k in range(len(mean)):
        others = [j for j in range(len(mean)) if j != k]

        def integrand(score, k=k, others=others):
            below = np.prod([norm.cdf((score - mean[j]) / sd[j]) for j in others])
            return norm.pdf((score - mean[k]) / sd[k]) / sd[k] * below

        low, high = mean[k] - 9 * sd[k], mean[k] + 9 * sd[k]
        cuts = sorted(
            {point for j in range(len(mean)) for c in (-3, 0, 3) if low < (point := mean[j] + c * sd[j]) < high}
        )
        found.append(quad(integrand, low, high, points=cuts, epsabs=1e-11, limit=400)[0])
    return np.array(found)


@pytest.mark.parametrize("eligible", [None, ["blue", "red"], ["green"]])
@pytest.mark.parametrize("policy", SAMPLING)
def test_sampling_reports_the_chance_to_win(fleet_of, policy, eligible):
    fleet = fleet_of(3, policy=policy)  # few rows, so that no arm is certain to lose
    for task in ("t1", "t3", "never seen"):
        expected = fleet.expected(task, X)
        arms = eligible or list(fleet.arms)
        mean, sd = ([values[arm] for arm in arms] for values in expected)
        chances = chance_to_win(mean, spread(fleet, policy, sd))

        decision = fleet.decide(task, X, eligible)

        assert_allclose([decision.probabilities[arm] for arm in arms], chances, atol=1e-6)
        assert sum(decision.probabilities.values()) == pytest.approx(1, abs=1e-12)
        assert min(decision.probabilities.values()) > 0
        assert decision.propensity == decision.probabilities[decision.arm]
        assert decision.mean == {arm: expected.mean[arm] for arm in arms}
        assert decision.sd == {arm: expected.sd[arm] for arm in arms}
        assert decision.task == task


@pytest.mark.parametrize("policy", BOUNDS)
def test_bounds_take_the_most_optimistic_arm(fleet_of, policy):
    fleet = fleet_of(policy=policy)
    rng = np.random.default_rng(1)
    taken = set()
    for _ in range(30):
        x = rng.normal(size=2)
        expected = fleet.expected("t2", x)
        bound = np.array(list(expected.mean.values())) + spread(fleet, policy, list(expected.sd.values()))

        decision = fleet.decide("t2", x)

        assert decision.arm == fleet.arms[int(np.argmax(bound))]
        assert decision.propensity == 1
        assert sorted(decision.probabilities.values()) == [0, 0, 1]
        taken.add(decision.arm)
    assert len(taken) > 1


def test_equal_bounds_share_the_chance(fleet_of):
    fleet = fleet_of(0, policy="ebm-ucb")

    assert fleet.decide("t0", X).probabilities == dict.fromkeys(fleet.arms, 1 / 3)
    assert fleet.decide("t0", X, ["blue", "red"]).probabilities == {"blue": 0.5, "red": 0.5}


@pytest.mark.parametrize("policy", ["ebm-rand-ucb", "ebm-ts", "ebm-ucb", "lin-ucb"])
def test_every_eligible_arm_has_the_floor(fleet_of, policy):
    fleet, bare = fleet_of(policy=policy, floor=0.3), fleet_of(policy=policy)
    for eligible in (None, ["blue", "red"], ["green"]):
        decision, plain = fleet.decide("t1", X, eligible), bare.decide("t1", X, eligible)
        n = len(decision.probabilities)
        assert min(decision.probabilities.values()) >= 0.3 - 1e-15
        assert sum(decision.probabilities.values()) == pytest.approx(1, abs=1e-12)
        # One factor for all that are above it.
        above = {arm for arm, chance in decision.probabilities.items() if chance > 0.3 + 1e-12}
        factor = (1 - 0.3 * (n - len(above))) / math.fsum(plain.probabilities[arm] for arm in above) if above else 0.0
        for arm, chance in decision.probabilities.items():
            assert chance == pytest.approx(max(0.3, factor * plain.probabilities[arm]), abs=1e-12)
    if policy.startswith("ebm"):
        with pytest.raises(InvalidValue, match=r"4 arms cannot all have a probability of floor=0\.3"):
            fleet.add_arm("black")
        assert fleet.arms == ("red", "green", "blue")


def test_one_draw_for_all_arms_reports_the_share_of_draws_that_an_arm_wins(fleet_of):
    fleet, rng = fleet_of(4), np.random.default_rng(4)
    u = np.maximum(0.4 + 0.1 * norm.ppf((np.arange(200_000) + 0.5) / 200_000), 0.0)
    random = 0
    for task in ("t1", "t3", "never seen"):
        for eligible in (None, ["blue", "red"], ["green"]):
            x = rng.normal(size=2)
            arms = eligible or list(fleet.arms)
            mean, sd = (np.array([values[arm] for arm in arms]) for values in fleet.expected(task, x))
            scores = mean + np.sqrt(np.log(next_step(fleet))) * u[:, None] * sd
            share = np.bincount(scores.argmax(axis=1), minlength=len(arms)) / len(u)

            decision = fleet.decide(task, x, eligible)

            # A breakpoint is off by one cell of 1 / 200,000 at most.
            assert_allclose([decision.probabilities[arm] for arm in arms], share, atol=1e-5)
            assert decision.propensity == decision.probabilities[decision.arm]
            random += 0.01 < decision.propensity < 0.99
    assert random >= 2


def test_before_any_reward_all_arms_have_the_same_probability(fleet_of):
    fleet = fleet_of(0)

    assert fleet.decide("t0", X).probabilities == pytest.approx(dict.fromkeys(fleet.arms, 1 / 3), rel=1e-15)


@pytest.mark.parametrize("policy", ["ebm-rand-ucb", "ebm-ts", "ebm-ucb", "lin-ucb"])
@pytest.mark.parametrize("eligible", [None, ["blue", "red"], ["green"]])
def test_an_evaluation_budget_bounds_probabilities_and_loss(fleet_of, policy, eligible):
    fleet, bare, rng = (
        fleet_of(policy=policy, evaluation_budget=0.02),
        fleet_of(policy=policy),
        np.random.default_rng(5),
    )
    for _ in range(10):
        x = rng.normal(size=2)
        decision, plain = fleet.decide("t1", x, eligible), bare.decide("t1", x, eligible)
        mean = np.array(list(decision.mean.values()))
        found, own = (np.array(list(one.probabilities.values())) for one in (decision, plain))
        gap = mean.max() - mean
        n = len(mean)
        for k in range(n):
            least = 1 / n if gap[k] == 0 else min(1 / n, 0.02 * gap.mean() / ((n - 1) * gap[k]))
            assert found[k] >= least * (1 - 1e-12)
            assert found[k] > 0
        assert found @ gap <= own @ gap + 0.02 * gap.mean() * (1 + 1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_without_exploring_the_best_mean_is_taken_for_sure(fleet_of, policy):
    fleet = fleet_of(policy=policy, **({} if policy == "random" else {"floor": 0.2}))
    rng = np.random.default_rng(2)
    for eligible in (None, ["blue", "red"]):
        for _ in range(10):
            decision = fleet.decide("t4", rng.normal(size=2), eligible, explore=False)
            assert decision.propensity == 1
            assert decision.mean[decision.arm] == max(decision.mean.values())
            assert sum(decision.probabilities.values()) == 1


def test_random_gives_every_eligible_arm_the_same_chance(fleet_of):
    fleet = fleet_of(policy="random")

    assert fleet.decide("t1", X).probabilities == pytest.approx(dict.fromkeys(fleet.arms, 1 / 3))
    assert fleet.decide("t1", X, ["red", "blue"]).probabilities == pytest.approx({"red": 0.5, "blue": 0.5})


def matches(counts, expected):
    """Whether counts may well be drawn with these expectations: a right one fails once in ten thousand."""
    assert (expected > 5).all()  # what the chi-square law needs
    return chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4


@pytest.mark.parametrize(
    "settings",
    [{"policy": "ebm-ts"}, {"policy": "ebm-ucb", "floor": 0.1}, {"evaluation_budget": 0.2}, {"policy": "random"}],
)
def test_arms_are_drawn_as_often_as_reported(fleet_of, settings):
    # The same context 3000 times without rewards, so that chances drift only with the logarithm of the step.
    fleet = fleet_of(8, **settings, exploration=1.0)

    made = fleet.decide_many(["t1"] * 3000, np.tile([0.2, 0.1], (3000, 1)))

    assert matches(np.bincount(made.chosen, minlength=3), made.probabilities.sum(axis=0))


@pytest.mark.slow
def test_seeds_decide_as_often_as_reported(fleet_of):
    # The first decision of 1500 fleets that differ in the seed alone.
    chances, counts = None, dict.fromkeys(("red", "green", "blue"), 0)
    for seed in range(1500):
        fleet = Posse(arms=counts, features=["a"], policy="ebm-ts", seed=seed)
        decision = fleet.decide("t1", [0.4])
        chances = chances or decision.probabilities
        assert decision.probabilities == chances
        counts[decision.arm] += 1

    assert matches(np.array(list(counts.values())), 1500 * np.array(list(chances.values())))


def test_the_same_seed_makes_the_same_decisions(fleet_of):
    one, two, other = (fleet_of(seed=seed, evaluation_budget=0.2) for seed in (5, 5, 6))
    rng = np.random.default_rng(0)
    asked = [(f"t{rng.integers(9)}", rng.normal(size=2)) for _ in range(60)]
    first, second, third = ([fleet.decide(*what)[1:] for what in asked] for fleet in (one, two, other))
    assert first == second
    assert [decision[1] for decision in first] != [decision[1] for decision in third]
    assert len({fleet.decide("t1", X).id for fleet in (one, two, other)}) == 3


def row_by_row(fleet, tasks, contexts, eligible, explore):
    rows = eligible or [None] * len(tasks)
    return [fleet.decide(*row, explore=explore) for row in zip(tasks, contexts, rows, strict=True)]


@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_many_decisions_are_one_after_another(fleet_of, same_prefixes, policy, listed, explore):
    one = fleet_of(0, policy=policy)
    same_prefixes()
    many = fleet_of(0, policy=policy)
    rng = np.random.default_rng(1)
    for round_ in range(3):
        tasks, contexts = [f"t{i}" for i in rng.integers(8, size=25)], rng.normal(size=(25, 2))
        choices = [None, ["red", "blue"], ["green"], ["red", "green", "blue"]]
        eligible = [choices[i] for i in rng.integers(4, size=25)] if listed else None

        single = row_by_row(one, tasks, contexts, eligible, explore)
        batch = many.decide_many(tasks, contexts, eligible, explore)

        assert list(batch) == single
        assert batch.ids == [decision.id for decision in single]
        assert batch.arm == [decision.arm for decision in single]
        assert batch.tasks == tasks
        assert one.tasks == many.tasks
        for fleet in (one, many):
            rewards = np.random.default_rng(round_).normal(size=25)
            fleet.reward_many([decision.id for decision in single], rewards)
        if round_ == 1:
            for fleet in (one, many):
                fleet.retire_arm("green")
                fleet.add_arm("green")


def test_many_decisions_are_one_after_another_after_a_table(fleet_of):
    # 60 rows from a table and no decision: the step stays where the table has brought it until decisions catch up.
    one, many = fleet_of(60), fleet_of(60)
    tasks, contexts = ["t1", "t2", "t1"], np.arange(6.0).reshape(3, 2)

    single = row_by_row(one, tasks, contexts, None, True)

    assert [decision[1:] for decision in many.decide_many(tasks, contexts)] == [decision[1:] for decision in single]


def test_the_order_of_eligible_arms_does_not_matter(fleet_of):
    # Three decisions with a fair chance for either arm.
    for seed in range(5):
        one, other, many = (fleet_of(0, seed=seed) for _ in range(3))
        first = one.decide("t1", X, ["red", "blue"])
        assert other.decide("t1", X, ["blue", "red"]).arm == first.arm
        assert many.decide_many(["t1"], [X], [["blue", "red"]])[0].arm == first.arm


def test_large_batches_with_threads_are_small_ones(fleet_of, monkeypatch):
    monkeypatch.setattr(posse.core.core, "workers", lambda: 3)
    rng = np.random.default_rng(4)
    tasks, contexts = [f"t{i}" for i in rng.integers(40, size=900)], rng.normal(size=(900, 2))
    eligible = [[None, ["red", "blue"], ["green"]][i] for i in rng.integers(3, size=900)]
    fleets = [fleet_of(policy="ebm-ts") for _ in range(2)]

    monkeypatch.setattr(posse.core.core, "MANY_ROWS", 10**9)
    small = fleets[0].decide_many(tasks, contexts, eligible)
    monkeypatch.setattr(posse.core.core, "MANY_ROWS", 100)
    large = fleets[1].decide_many(tasks, contexts, eligible)

    for name in ("chosen", "propensity", "probabilities", "mean", "sd"):
        assert getattr(small, name).tobytes() == getattr(large, name).tobytes()
    assert fleets[0].probabilities(tasks, contexts).tobytes() == fleets[1].probabilities(tasks, contexts).tobytes()


@pytest.mark.parametrize("policy", ["ebm-ts", "ebm-ucb"])
def test_probabilities_are_those_of_the_next_decision(fleet_of, policy):
    fleet = fleet_of(policy=policy)
    fleet.retire_arm("green")
    tasks = ["t1", "new", "t3"]
    contexts = np.random.default_rng(1).normal(size=(3, 2))

    found = fleet.probabilities(tasks, contexts, [None, ["blue"], None])

    for row, eligible in enumerate([None, ["blue"], None]):
        chances = fleet_of(policy=policy)
        chances.retire_arm("green")
        chances = chances.decide(tasks[row], contexts[row], eligible).probabilities
        assert dict(zip(fleet.arms, found[row].tolist(), strict=True)) == {"red": 0.0, "blue": 0.0} | chances
    certain = fleet.probabilities(tasks, contexts, explore=False)
    assert sorted(certain.ravel().tolist()) == [0, 0, 0, 1, 1, 1]


def test_looking_changes_nothing(fleet_of, snapshot, differences, clock):
    fleet = fleet_of(clock=clock, policy="ebm-ts", robust=True)
    fleet.decide("t1", X)
    before = snapshot(fleet)

    fleet.expected("t1", X)
    fleet.expected("never seen", X)
    fleet.probabilities(["t1", "never seen"], np.zeros((2, 2)))
    fleet.pending()
    fleet.export("t1")
    fleet.borrowing("t1")
    fleet.coefficients("t1")
    fleet.coefficients("never seen")
    fleet.overview()
    assert fleet.statistics.count.sum() == 60
    assert fleet.prior.n_arms == 3
    assert "1 pending" in repr(fleet)

    assert differences(before, snapshot(fleet)) == []
    assert "never seen" not in fleet.tasks


def test_what_is_returned_is_not_the_inside(fleet_of, snapshot, differences):
    fleet = fleet_of()
    before = snapshot(fleet)
    for array in (*fleet.statistics.sums, fleet.prior.covariance, fleet.prior.noise_variance):
        array[...] = -1.0
    coefficients = fleet.coefficients("t1")
    for values in (*coefficients.mean.values(), *coefficients.covariance.values()):
        values[...] = -1.0
    for arm in fleet.overview().arms:
        arm.mean[...], arm.covariance[...] = -1.0, -1.0
    borrowing = fleet.borrowing("t1")
    borrowing.own_share[...], borrowing.borrowed[...], borrowing.rewards[...] = -1, -1, -1

    assert differences(before, snapshot(fleet)) == []


def test_every_row_of_probabilities_is_the_next_decision():
    # Exploration grows with the step, so a row that counted as a later step would be more uncertain.
    fleet = Posse(arms=["x", "y"], features=["a"], seed=1)
    fleet.learn_many([{"task": "t", "arm": "xy"[i % 2], "a": 1.0 + i, "reward": float(i % 3)} for i in range(6)])

    chances = fleet.probabilities(["t"] * 5, [[1.0]] * 5)

    assert (chances == chances[0]).all()
    assert dict(zip(fleet.arms, chances[0], strict=True)) == fleet.decide("t", [1.0]).probabilities


SILENT = {"clicks": 0.0, "amounts": 0.3}


def with_a_silent_arm(kind, seed=5, n=1600, **settings):
    """A fleet of four arms, the first of which has paid the same 100 times."""
    rng = np.random.default_rng(seed)
    task, arm = rng.integers(0, 20, n), rng.integers(1, 4, n)
    reward = rng.normal(0.3, 1.0, n) if kind == "amounts" else (rng.random(n) < 0.02) * 1.0
    arm[n - 100 :], reward[n - 100 :] = 0, SILENT[kind]
    fleet = Posse(arms=["a", "b", "c", "d"], features=["x"], seed=seed, **settings)
    fleet.learn_many(
        {"task": task, "arm": list(np.array(list("abcd"))[arm]), "reward": reward, "x": rng.normal(size=n)}
    )
    return fleet


def silent_rows(fleet):
    return fleet.probabilities(np.arange(20), np.zeros((20, 1)))


@pytest.mark.parametrize("kind", SILENT)
def test_an_arm_that_always_paid_the_same_is_not_abandoned(kind, tmp_path):
    fleet = with_a_silent_arm(kind)
    found = silent_rows(fleet)

    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    # Were it like the others, UCB's rule would give it nothing in most tasks.
    silent = fleet.core.state.silent
    assert silent.tolist() == [-KEPT, 0.0, 0.0, 0.0]
    silent[:] = 0.0
    plain = silent_rows(fleet)
    silent[0] = -KEPT
    assert (plain[:, 0] < 1e-6).mean() > 0.5
    assert (found[:, 0] > 0.01).all()
    # A file has it, and a copy that was loaded decides the same.
    fleet.save(tmp_path / "fleet")
    assert silent_rows(Posse.load(tmp_path / "fleet")).tolist() == found.tolist()


def test_silent_arms_are_drawn_as_often_as_reported():
    fleet = with_a_silent_arm("clicks")
    expected = fleet.decide(3, {"x": 0.0}, record=False).probabilities
    n = 20_000
    decided = fleet.decide_many([3] * n, np.zeros((n, 1)), record=False)

    assert expected["a"] == KEPT
    arms, counts = np.unique(decided.arm, return_counts=True)
    wanted = np.array([expected[arm] * n for arm in arms.tolist()])
    assert wanted.sum() == pytest.approx(n, rel=1e-3)  # arms that never came are hardly likely
    assert chisquare(counts, wanted * n / wanted.sum()).pvalue > 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_who_has_dug_without_a_find_digs_again(seed):
    # To do nothing pays 0; to dig costs 1, and one dig in eight finds something worth 20, where x is large. Whoever
    # gives up after the first digs earns nothing for ever. A tenth of what could be earned is a low bar for the rest.
    rng = np.random.default_rng(100 + seed)
    fleet, n = Posse(arms=["nothing", "dig"], features=["x"], seed=seed), 2000
    x = rng.normal(size=n)
    chance = 1 / (1 + np.exp(3.0 - 1.5 * x))
    found, earned = rng.random(n) < chance, 0.0
    for row in range(n):
        decision = fleet.decide(int(rng.integers(20)), [x[row]])
        value = 0.0 if decision.arm == "nothing" else 20.0 * found[row] - 1.0
        fleet.reward(decision, value)
        earned += value

    assert earned > 0.1 * np.maximum(20 * chance - 1, 0).sum()
