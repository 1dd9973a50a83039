import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse import Posse
from posse.errors import InvalidValue, ShapeError, UnknownArm
from posse.logs import Log
from posse.offline import Always, Fleet, Function, Logged, LoggedBandit, Uniform
from posse.offline.targets import as_target, checked_probabilities, weights_of

ELIGIBLE = np.array([[True, True, True], [True, False, True]])


def data(**changes):
    plain = {
        "tasks": [0, 1],
        "arms": [0, 2],
        "contexts": [[1.0], [1.0]],
        "rewards": [1.0, 2.0],
        "propensities": [0.5, 0.4],
        "eligible": ELIGIBLE,
        "arm_labels": ("a", "b", "c"),
    }
    return LoggedBandit(**{**plain, **changes})


def test_uniform_shares_among_eligible_arms():
    assert_allclose(Uniform().probabilities(data()), [[1 / 3] * 3, [0.5, 0, 0.5]])


def test_always_takes_its_arm():
    assert_array_equal(Always("c").probabilities(data()), [[0, 0, 1], [0, 0, 1]])
    assert Always("c").name == "always c"
    with pytest.raises(UnknownArm, match="no arm 'd' in the log; the arms are 'a', 'b', 'c'"):
        Always("d").probabilities(data())


def test_what_was_logged_has_weight_one_with_or_without_probabilities():
    logged = np.array([[0.5, 0.25, 0.25], [0.6, 0, 0.4]])
    known, unknown = data(probabilities=logged), data()

    assert_array_equal(Logged().probabilities(known), logged)
    assert_array_equal(Logged().probabilities(unknown), [[1, 0, 0], [0, 0, 1]])
    for one in (known, unknown):
        assert_array_equal(weights_of(Logged(), Logged().probabilities(one), one), [1, 1])


def test_weights_of_others_are_ratios_and_may_be_clipped():
    assert_allclose(weights_of(Uniform(), Uniform().probabilities(data()), data()), [2 / 3, 1.25])
    assert_allclose(weights_of(Uniform(), Uniform().probabilities(data()), data(), clip=1.0), [2 / 3, 1.0])


def test_functions_are_targets():
    def nothing_but_a(log):
        return np.tile([1.0, 0.0, 0.0], (log.n_rows, 1))

    assert as_target(nothing_but_a).name == "nothing_but_a"
    assert as_target(Function(nothing_but_a, "mine")).name == "mine"
    for wrong in ("uniform", Uniform, 3):
        with pytest.raises(InvalidValue, match="expected a target such as"):
            as_target(wrong)


@pytest.mark.parametrize(
    ("matrix", "error", "words"),
    [
        (np.ones((2, 2)) / 2, ShapeError, r"must have shape \(2, 3\), but \(2, 2\)"),
        (np.ones((2, 3)) / 2, InvalidValue, "add up to 1, but those of row 0 add up to 1.5"),
        ([[2, -1, 0], [1, 0, 0]], InvalidValue, "not be negative"),
        ([[np.nan, 1, 0], [1, 0, 0]], InvalidValue, "to be finite"),
    ],
)
def test_what_is_no_distribution_is_refused(matrix, error, words):
    with pytest.raises(error, match=words):
        checked_probabilities(Function(lambda _: matrix, "odd"), data())


@pytest.fixture
def fleet():
    fleet = Posse(arms=["a", "c", "z"], features=["age"], policy="ebm-ts", seed=1)
    rng = np.random.default_rng(0)
    rows = pl.DataFrame(
        {
            "task": [f"t{i % 4}" for i in range(200)],
            "arm": [["a", "c", "z"][i % 3] for i in range(200)],
            "age": rng.standard_normal(200),
            "reward": rng.standard_normal(200),
        }
    )
    fleet.learn_many(rows, task="task", arm="arm", reward="reward")
    return fleet


def raw(**changes):
    return data(raw=pl.DataFrame({"age": [0.3, -1.0]}), task_labels=("t1", "new"), **changes)


def test_a_fleet_decides_among_the_arms_that_it_knows_and_that_were_eligible(fleet):
    found = Fleet(fleet).probabilities(raw())
    expected = fleet.probabilities(["t1", "new"], pl.DataFrame({"age": [0.3, -1.0]}), [["a", "c"], ["a", "c"]])

    assert fleet.arms == ("a", "c", "z")
    assert_allclose(found, expected[:, [0, 2, 1]] * [1, 0, 1])
    assert_allclose(found.sum(axis=1), 1)
    assert_array_equal(found[:, 1], 0)


def test_a_greedy_fleet_takes_the_best_mean(fleet):
    found = Fleet(fleet, explore=False).probabilities(raw())
    best = fleet.expected("t1", {"age": 0.3}).mean

    assert_array_equal(np.sort(found, axis=1), [[0, 0, 1], [0, 0, 1]])
    assert found[0, 0] == (best["a"] > best["c"])
    assert Fleet(fleet, explore=False).name == "ebm-ts, greedy"
    assert Fleet(fleet, "mine").name == "mine"


def test_a_fleet_stays_as_it_was(fleet, tmp_path):
    fleet.save(tmp_path / "before.posse")
    Fleet(fleet).probabilities(raw())
    fleet.save(tmp_path / "after.posse")

    assert (tmp_path / "before.posse").read_bytes() == (tmp_path / "after.posse").read_bytes()


def test_a_fleet_without_any_eligible_arm_is_refused(fleet):
    with pytest.raises(UnknownArm, match=r"none of the arms \['b'\] that were eligible in row 1"):
        Fleet(fleet).probabilities(raw(eligible=np.array([[True, True, True], [False, True, False]]), arms=[0, 1]))


def test_a_fleet_needs_features_as_they_were_logged(fleet):
    with pytest.raises(InvalidValue, match="evaluate it on a Log"):
        Fleet(fleet).probabilities(data())


@pytest.mark.parametrize("rewards", ["number", "binary"])
def test_a_task_that_a_fleet_has_never_met_is_known_by_its_features_in_the_log(rewards):
    rng = np.random.default_rng(1)
    fleet = Posse(["a", "b"], ["x"], rewards=rewards, task_features=["region"], seed=1)
    fleet.set_task_features({f"t{i}": {"region": float(i % 2)} for i in range(20)})
    rows = {"task": [f"t{i % 20}" for i in range(800)], "arm": rng.choice(["a", "b"], 800), "x": rng.normal(size=800)}
    better = (rows["arm"] == "b") == (np.arange(800) % 2 == 1)
    numbers, clicks = 3.0 * better + 0.3 * rng.normal(size=800), rng.random(800) < 0.1 + 0.8 * better
    fleet.learn_many(rows | {"reward": numbers if rewards == "number" else clicks})
    log = Log(
        {
            "task": ["new", "new", "other", "t1", "nothing"], "arm": ["a"] * 5, "reward": [1.0] * 5,
            "propensity": [0.5] * 5, "eligible": [["a", "b"]] * 5,
            "context": [{"x": 0.0, "region": r} for r in (0.0, 1.0, 1.0, 0.0, None)],
        }
    )  # fmt: skip
    before = (fleet.tasks, fleet.n_decisions)
    found = Fleet(fleet).probabilities(LoggedBandit.from_log(log))[:, 1]
    assert found[0] < 0.01  # arm b in a region like the even tasks
    assert found[1] > 0.99
    assert found[2] == found[1]
    assert found[3] > 0.99  # one that the fleet knows is as it was
    np.testing.assert_allclose(found[4], fleet.probabilities(["nothing"], [[0.0]])[0, 1])
    assert (fleet.tasks, fleet.n_decisions) == before
