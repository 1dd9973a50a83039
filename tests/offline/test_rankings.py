"""Rankings: a place counts as often as the target would come to it, by the places above."""

from itertools import permutations

import numpy as np
import pytest

from posse import Posse
from posse.errors import InvalidValue
from posse.logs import Log
from posse.offline import Always, Column, Fleet, Learned, Limits, Logged, LoggedBandit, Rule, Uniform, evaluate

ARMS = ("a", "b", "c")
LIKES = {"a": 1.0, "b": 2.0, "c": 5.0}
LENIENT = Limits(max_missing=1.0)


def worth(above, arm):
    """A reward at the second place depends on what stands above it, so its value is that of the whole ranking."""
    return LIKES[arm] + (3.0 if (*above, arm) == ("b", "a") else 0.0)


def every_ranking(repeats=8, tasks=10, first_rewards=True):
    """A log with every ranking of two arms as often as drawing at random makes it: estimates have no noise."""
    rows = []
    for task in range(tasks):
        for number, (first, second) in enumerate(list(permutations(ARMS, 2)) * repeats):
            ranking = f"r{task}-{number}"
            for place, arm in enumerate((first, second)):
                left = [one for one in ARMS if place == 0 or one != first]
                rows.append(
                    {
                        "decision_id": f"{ranking}-{place}", "task": f"t{task}", "arm": arm, "eligible": left,
                        "probabilities": [1 / len(left)] * len(left), "propensity": 1 / len(left),
                        "context": {"x": float(task)}, "ranking_id": ranking, "ranking_place": place + 1,
                        "reward": worth((first,) if place else (), arm) if place or first_rewards else None,
                    }
                )  # fmt: skip
    return Log(rows)


def by_liking(task, context, arms):
    total = sum(LIKES[arm] for arm in arms)
    return {arm: LIKES[arm] / total for arm in arms}


def true_places(rule):
    """The expected rewards of both places, by going through all rankings."""
    values = np.zeros(2)
    for first, second in permutations(ARMS, 2):
        left = [arm for arm in ARMS if arm != first]
        p, q = rule(None, None, ARMS)[first], rule(None, None, left)[second]
        values += p * q * np.array([worth((), first), worth((first,), second)])
    return values


@pytest.mark.parametrize("estimator", ["ips", "snips", "dr"])
def test_places_are_worth_what_the_targets_own_rankings_are(estimator):
    found = evaluate(every_ranking(), Rule(by_liking), estimators=[estimator], groups=["ranking_place"])
    true = true_places(by_liking)
    assert abs(true[1] - 2.0) > 0.1  # what the second place would be worth below the log's first places is another
    tolerance = 1e-9 if estimator != "dr" else 0.02  # its model is cross-fitted: folds are not all rankings
    by_place = [row["value"] for row in found.by_group.sort("group").to_dicts()]
    np.testing.assert_allclose(by_place, true, atol=tolerance)
    assert found.estimate("by_liking", estimator).value == pytest.approx(true.mean(), abs=tolerance)
    assert found.targets[0].diagnostics.mean_weight == pytest.approx(1.0)


def test_places_without_a_reward_count_for_those_below():
    log = every_ranking(first_rewards=False)
    found = evaluate(log, Rule(by_liking), against=Logged(), estimators=["ips"], limits=LENIENT)
    assert found.estimate("by_liking", "ips").value == pytest.approx(true_places(by_liking)[1])
    assert found.estimate("logged", "ips").value == pytest.approx(log.frame["reward"].mean())


def test_places_below_one_that_is_missing_are_left_out():
    log = every_ranking()
    few = Log(log.frame.filter(log.frame["decision_id"] != "r0-0-0"))
    data = LoggedBandit.from_log(few)
    assert (data.rows_without_place_above, data.rows_left_out, data.n_rows) == (1, 1, log.n_rows - 2)
    none = Log(log.frame.filter(log.frame["ranking_place"] == 2))
    with pytest.raises(InvalidValue, match="place"):
        evaluate(none, Uniform())
    many = Log(log.frame.filter((log.frame["ranking_place"] == 2) | (log.frame["task"] == "t0")))
    (report,) = evaluate(many, Uniform()).targets
    assert "missing-place-above" in [one.code for one in report.refusals]


def test_who_does_not_rank_is_refused():
    log = every_ranking()
    targets = [Always("a"), Learned("ebm-ts"), Column("x"), Rule(lambda task, context: "a", "plain")]
    found = evaluate(log, [*targets, Uniform()], estimators=["ips"])
    assert [[one.code for one in report.refusals] for report in found.targets] == [["rankings"]] * 4 + [[]]
    first = Log(log.frame.filter(log.frame["ranking_place"] == 1))
    assert not evaluate(first, Rule(lambda task, context: "a", "plain"), estimators=["ips"]).refused


def test_a_fleet_is_worth_what_its_own_rankings_earn():
    fleet = Posse(ARMS, ["x"], seed=1)
    fleet.learn_many({"task": ["t1"] * 6, "arm": [*ARMS] * 2, "x": [1.0] * 6, "reward": [1, 2, 1.8, 1.1, 1.9, 2.1]})
    log = every_ranking()
    found = evaluate(log, Fleet(fleet, "fleet"), estimators=["ips"], groups=["ranking_place"])
    true = np.zeros(2)
    for task in range(10):

        def rule(_task, _context, arms, at=task):
            chances = fleet.probabilities([f"t{at}"], [[float(at)]], [list(arms)])[0]
            return {arm: chances[ARMS.index(arm)] for arm in arms}

        true += true_places(rule) / 10
    by_place = [row["value"] for row in found.by_group.sort("group").to_dicts()]
    np.testing.assert_allclose(by_place, true, atol=1e-9)
