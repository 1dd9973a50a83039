"""Rankings of distinct arms: each place is a decision among the arms that are left."""

import numpy as np
import pytest
from scipy.stats import chisquare

from posse.errors import InvalidValue
from posse.fleet import Posse
from posse.logs import check_log, read_log
from posse.offline import evaluate

X = np.array([0.3, -0.8])


@pytest.mark.parametrize("policy", ["ebm-rand-ucb", "ebm-ts", "ebm-ucb", "random"])
def test_a_ranking_is_decisions_among_the_arms_that_are_left(fleet_of, same_prefixes, exactly, policy):
    one = fleet_of(4, policy=policy)
    same_prefixes()
    other = fleet_of(4, policy=policy)
    for task in ("t1", "never seen", "t1"):
        ranking = one.decide(task, X, k=3)
        left = list(other.arms)
        for place in ranking:
            decision = other.decide(task, X, left)
            assert exactly(place[1:]) == exactly(decision[1:])
            assert place.id.split("-")[1] == decision.id.split("-")[1]
            left.remove(decision.arm)
        assert sorted(ranking.arms) == sorted(one.arms)
        assert ranking.propensities[-1] == 1  # one arm was left


def test_rankings_come_as_often_as_their_propensities_say(fleet_of):
    fleet = fleet_of(4, policy="ebm-ts")
    chances, counts, n = {}, {}, 2000
    for _ in range(n):
        ranking = fleet.decide("t1", X, k=2)
        arms = tuple(ranking.arms)
        counts[arms] = counts.get(arms, 0) + 1
        chances.setdefault(arms, []).append(np.prod(ranking.propensities))
    # The rule widens with the logarithm of the step; averages over the run are close to what was in force.
    expected = {arms: n * np.mean(values) for arms, values in chances.items() if n * np.mean(values) > 5}
    assert len(expected) > 2
    rest = n - sum(expected.values())
    observed = [counts[arms] for arms in expected]
    assert abs(rest) < 0.02 * n  # nearly all rankings were seen
    total = sum(observed)
    scaled = np.array(list(expected.values())) * total / sum(expected.values())
    assert chisquare(observed, scaled).pvalue > 0.01


def test_every_place_has_its_reward(fleet_of, snapshot, differences):
    fleet = fleet_of()
    ranking = fleet.decide("t1", X, k=3)
    before = fleet.n_rewards

    assert fleet.reward_many(ranking, [1.0, 0.0, 0.5]) == 3
    assert fleet.n_rewards == before + 3
    assert not fleet.reward(ranking[1], 0.0)  # the same again
    assert fleet.pending() == []


def test_a_ranking_survives_saving(fleet_of, tmp_path):
    fleet = fleet_of()
    ranking = fleet.decide("t1", X, k=2)
    fleet.save(tmp_path / "fleet.posse")
    loaded = Posse.load(tmp_path / "fleet.posse", clock=fleet.clock)

    assert loaded.reward_many(ranking.ids, [1.0, 2.0]) == 2
    fleet.reward_many(ranking, [1.0, 2.0])
    assert loaded.decide("t1", X, k=3).arms == fleet.decide("t1", X, k=3).arms


def test_places_count_as_the_absent_reward_until_theirs_comes(fleet_of, snapshot, differences):
    fleet, taught = fleet_of(absent_reward=0.0), fleet_of(absent_reward=0.0)
    before = fleet.n_rewards
    ranking = fleet.decide("t1", X, k=2)
    assert fleet.n_rewards == before + 2
    fleet.reward_many(ranking, [1.0, 2.0])
    taught.learn_many({"task": ["t1"] * 2, "arm": ranking.arms, "a": [X[0]] * 2, "b": [X[1]] * 2, "reward": [1.0, 2.0]})
    np.testing.assert_allclose(fleet.statistics.moment, taught.statistics.moment)


def test_what_is_refused_or_not_recorded_leaves_no_trace(fleet_of, snapshot, differences):
    fleet = fleet_of()
    before = snapshot(fleet)
    for k, message in ((4, "at most the 3 eligible arms, got 4"), (0, "k to be"), (True, "k to be")):
        with pytest.raises(InvalidValue, match=message):
            fleet.decide("new", X, k=k)
    looked = fleet.decide("new", X, k=2, record=False)

    assert looked.ids == ["", ""]
    assert differences(before, snapshot(fleet)) == []
    assert fleet.decide("new", X, k=2).arms == looked.arms


def test_a_log_of_rankings_is_evaluated_by_place(fleet_of, tmp_path):
    fleet = fleet_of(0, policy="random", log=tmp_path / "log.jsonl")
    rng = np.random.default_rng(3)
    worth = {"red": 0.0, "green": 1.0, "blue": 2.0}
    for row in range(300):
        ranking = fleet.decide(f"t{row % 3}", rng.normal(size=2), k=2)
        fleet.reward_many(ranking, [worth[arm] + 0.1 * rng.normal() for arm in ranking.arms])

    log = read_log(tmp_path / "log.jsonl")
    assert log.frame["ranking_place"].to_list() == [1, 2] * 300
    assert log.frame["ranking_id"].n_unique() == 300
    assert log.frame["eligible"].list.len().to_list() == [3, 2] * 300
    assert not [finding for finding in check_log(log) if finding.severity == "error"]
    # The best arm that is left is blue at the first place, so green at the second.

    def best(data):
        value = np.where(data.eligible, [worth[arm] for arm in data.arm_labels], -np.inf)
        return np.eye(3)[value.argmax(axis=1)]

    found = evaluate(log, best, estimators=["snips"], groups=["ranking_place"])
    by_place = {row["group"]: row["value"] for row in found.by_group.to_dicts()}
    assert by_place["1"] == pytest.approx(2.0, abs=0.05)
    assert by_place["2"] == pytest.approx(1.0, abs=0.05)  # not 5/3, the best of what other first places have left
    assert found.estimate("best", "snips").value == pytest.approx(1.5, abs=0.15)  # per place; 3 per ranking
