"""What a reward is worth: decisions in money, prices that change, and what is refused."""

import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm

from posse import Posse
from posse.core.rule import minimum_probabilities
from posse.distributed import ShardedPosse
from posse.errors import InvalidValue, NotFinite, PosseError, ShapeError, UnknownArm
from posse.fleet.file import state_of
from posse.fleet.settings import LEARNING

ARMS = ("coffee", "sandwich", "cake")
VALUES = {"coffee": 1.6, "sandwich": 2.8, "cake": 0.9}
COSTS = {"coffee": 0.05, "cake": 0.02}
X = [0.3]


def shop(rows=60, *, rewards="binary", values=VALUES, costs=COSTS, seed=3, **settings):
    """A fleet that has learned a few rewards, and knows what they are worth."""
    rng = np.random.default_rng(5)
    fleet = Posse(ARMS, ["hour"], seed=seed, rewards=rewards, values=values, costs=costs, clock=lambda: 0.0, **settings)
    if rows:
        clicks = (rng.random(rows) < 0.4).astype(float)
        fleet.learn_many(
            {
                "task": rng.choice(["a", "b"], rows), "arm": np.array(ARMS)[np.arange(rows) % 3],
                "hour": rng.normal(size=rows), "reward": clicks,
            }
        )  # fmt: skip
    return fleet


def money(fleet, task="a", x=X, values=VALUES, costs=COSTS, arms=ARMS):
    """Mean and standard deviation of value x reward - cost, from what the fleet says of rewards."""
    mean, sd = fleet.expected(task, x)
    value, cost = (np.array([prices.get(arm, 0.0) for arm in arms]) for prices in (values, costs))
    return value * [mean[arm] for arm in arms] - cost, value * [sd[arm] for arm in arms]


def growth(fleet, policy):
    step = int(max(fleet.n_decisions, fleet.n_rewards)) + 1
    return LEARNING[policy].exploration * np.sqrt(np.log(max(step, 2)))


def chance_to_win(mean, sd):
    found = []
    for k in range(len(mean)):
        others = [j for j in range(len(mean)) if j != k]

        def integrand(score, k=k, others=others):
            return norm.pdf(score, mean[k], sd[k]) * np.prod([norm.cdf(score, mean[j], sd[j]) for j in others])

        found.append(quad(integrand, mean[k] - 9 * sd[k], mean[k] + 9 * sd[k], epsabs=1e-11, limit=400)[0])
    return np.array(found)


@pytest.mark.parametrize("rewards", ["binary", "count", "number"])
def test_sampling_reports_the_chance_to_earn_most(rewards):
    fleet = shop(rewards=rewards, policy="ebm-ts")
    for task in ("a", "never seen"):
        mean, sd = money(fleet, task)
        decision = fleet.decide(task, X)
        chances = chance_to_win(mean, growth(fleet, "ebm-ts") * sd)
        # One decision more was made than when the chances were taken, and rewards are more than those.
        assert_allclose(list(decision.probabilities.values()), chances, atol=1e-6)
        assert decision.propensity == decision.probabilities[decision.arm]


@pytest.mark.parametrize("rewards", ["binary", "count", "number"])
def test_one_draw_for_all_arms_reports_the_share_of_draws_in_which_an_arm_earns_most(rewards):
    fleet = shop(24, rewards=rewards)
    for task in ("a", "never seen"):
        mean, sd = money(fleet, task)
        factor = growth(fleet, "ebm-rand-ucb")
        lines = np.array([0.0, *np.sort([
            (mean[i] - mean[j]) / (sd[j] - sd[i]) for i in range(3) for j in range(i) if sd[i] != sd[j]
        ]), np.inf])  # fmt: skip
        cuts = np.unique(lines[lines >= 0])
        chances = np.zeros(3)
        for low, high in pairwise(cuts):  # between two crossings one arm is the best
            middle = low + 1.0 if np.isinf(high) else (low + high) / 2
            below = 0.0 if low == 0 else norm.cdf((low / factor - 1) / 0.25)
            chances[np.argmax(mean + middle * sd)] += (
                1.0 if np.isinf(high) else norm.cdf((high / factor - 1) / 0.25)
            ) - below
        assert_allclose(list(fleet.decide(task, X).probabilities.values()), chances, atol=1e-6)


@pytest.mark.parametrize("policy", [*LEARNING])
def test_without_exploration_the_arm_that_earns_most_is_taken(policy):
    fleet = shop(policy=policy)
    for hour in np.linspace(-2, 2, 9):
        best = ARMS[int(np.argmax(money(fleet, "b", [hour])[0]))]
        assert fleet.decide("b", [hour], explore=False).arm == best


def test_upper_bounds_are_those_of_money():
    fleet = shop(policy="ebm-ucb")
    for hour in np.linspace(-2, 2, 9):
        mean, sd = money(fleet, "b", [hour])
        bound = mean + growth(fleet, "ebm-ucb") * sd
        assert fleet.decide("b", [hour]).arm == ARMS[int(np.argmax(bound))]


def test_a_value_of_one_and_no_cost_change_nothing_for_numbers():
    bare = shop(rewards="number", values=None, costs=None)
    priced = shop(rewards="number", values=dict.fromkeys(ARMS, 1.0), costs=None)
    for step in range(20):
        one, other = bare.decide("a", [step / 10]), priced.decide("a", [step / 10])
        assert one[1:7] == other[1:7]
        assert one.worth is None
        assert other.worth == other.mean


@pytest.mark.parametrize("policy", [*LEARNING])
def test_cents_and_euros_decide_alike(policy):
    euros = shop(policy=policy, floor=0.01, evaluation_budget=0.1)
    cents = shop(
        policy=policy, floor=0.01, evaluation_budget=0.1, values={arm: 100 * value for arm, value in VALUES.items()},
        costs={arm: 100 * cost for arm, cost in COSTS.items()},
    )  # fmt: skip
    for step in range(30):
        one, other = (fleet.decide("a", [step / 10 - 1]) for fleet in (euros, cents))
        assert one.arm == other.arm
        assert_allclose(list(one.probabilities.values()), list(other.probabilities.values()), atol=1e-12)
        assert_allclose([100 * worth for worth in one.worth.values()], list(other.worth.values()), rtol=1e-12)
        euros.reward(one, float(step % 3 == 0))
        cents.reward(other, float(step % 3 == 0))


def shop_of_revenue(unit=1.0, values=VALUES, costs=COSTS, rows=90, **settings):
    """A fleet that has learned amounts, in this unit of money."""
    rng = np.random.default_rng(8)
    fleet = Posse(ARMS, ["hour"], seed=3, rewards="revenue", values=values, costs=costs, clock=lambda: 0.0, **settings)
    amounts = (rng.random(rows) < 0.4) * rng.lognormal(0.5, 0.6, size=rows)
    fleet.learn_many(
        {
            "task": rng.choice(["a", "b"], rows), "arm": np.array(ARMS)[np.arange(rows) % 3],
            "hour": rng.normal(size=rows), "reward": unit * amounts,
        }
    )  # fmt: skip
    return fleet


@pytest.mark.parametrize("policy", [*LEARNING])
def test_revenue_is_worth_its_margin_less_what_the_arm_costs(policy):
    fleet = shop_of_revenue(policy=policy)
    bare = shop_of_revenue(policy=policy, values=None, costs=None)
    margins = {"coffee": 0.2, "sandwich": 0.9, "cake": 0.5}
    for hour in np.linspace(-2, 2, 9):
        expected, earned = fleet.expected("b", [hour]), money(fleet, "b", [hour])[0]
        assert expected.mean == bare.expected("b", [hour]).mean  # prices say nothing about revenue
        assert_allclose(list(expected.worth.values()), earned, rtol=1e-12)
        greedy = fleet.decide("b", [hour], explore=False)
        assert greedy.arm == ARMS[int(np.argmax(earned))]
        assert_allclose(list(greedy.worth.values()), earned, rtol=1e-9)
        earned = money(bare, "b", [hour], values=margins, costs={})[0]
        assert bare.decide("b", [hour], explore=False, values=margins).arm == ARMS[int(np.argmax(earned))]


@pytest.mark.parametrize("policy", [*LEARNING])
def test_revenue_in_cents_and_in_euros_decides_alike(policy):
    settings = {"policy": policy, "floor": 0.01, "evaluation_budget": 0.1}
    in_cents = {arm: 100 * cost for arm, cost in COSTS.items()}
    euros, cents = shop_of_revenue(**settings), shop_of_revenue(100.0, costs=in_cents, **settings)
    rng = np.random.default_rng(1)
    for step in range(30):
        one, other = (fleet.decide("a", [step / 10 - 1]) for fleet in (euros, cents))
        assert one.arm == other.arm
        assert_allclose(list(one.probabilities.values()), list(other.probabilities.values()), atol=1e-7)
        assert_allclose([100 * worth for worth in one.worth.values()], list(other.worth.values()), rtol=1e-6)
        amount = float(rng.random() < 0.3) * float(rng.lognormal())
        euros.reward(one, amount)
        cents.reward(other, 100 * amount)


def test_costs_count_once_revenue_has_a_size():
    """Before that nobody knows what they are to be compared with: else the dear arm would never be tried."""
    fleet = Posse(ARMS, ["hour"], seed=3, rewards="revenue", costs={"coffee": 50.0, "sandwich": 50.0})
    assert min(fleet.decide("a", X, record=False).probabilities.values()) > 0.2
    fleet.learn_many([{"task": "a", "arm": "cake", "hour": 0.3, "reward": 3.0}])
    assert fleet.decide("a", X, explore=False, record=False).arm == "cake"


def test_a_budget_is_spent_on_gaps_in_money():
    fleet, least = shop(evaluation_budget=0.2), np.empty(3)
    minimum_probabilities(money(fleet)[0], 0.0, 0.2, least)
    decision = fleet.decide("a", X)
    assert (np.array(list(decision.probabilities.values())) >= least - 1e-12).all()
    assert min(decision.probabilities.values()) == pytest.approx(least.min(), abs=1e-12)


def test_many_rows_rankings_and_previews_decide_as_one_row_does():
    fleet, again, ranked = shop(), shop(), shop()
    hours = np.linspace(-1, 1, 6)
    tasks, eligible = ["a", "b", "new", "a", "b", "new"], [None, ["coffee", "cake"], None, None, ["sandwich"], None]
    preview = fleet.probabilities(tasks, hours[:, None], eligible)
    many = fleet.decide_many(tasks, hours[:, None], eligible)
    for row, (one, hour) in enumerate(zip(many, hours, strict=True)):
        single = again.decide(tasks[row], [hour], eligible[row])
        assert one[1:4] == single[1:4]
        for name in ("probabilities", "mean", "sd", "worth", "values", "costs"):
            assert getattr(one, name) == pytest.approx(getattr(single, name), abs=1e-13)
        assert single.worth == pytest.approx(
            {arm: VALUES[arm] * mean - COSTS.get(arm, 0.0) for arm, mean in single.mean.items()}
        )
    assert_array_equal(many.probabilities[0], preview[0])
    frame = many.to_frame()
    assert_array_equal(frame["worth_coffee"].to_numpy(), many.worth[:, 0])
    first, second = ranked.decide("a", [-1.0], k=2)
    left = [arm for arm in ARMS if arm != first.arm]
    assert list(second.worth) == left
    assert second.values == {arm: VALUES[arm] for arm in left}


def test_prices_of_one_decision_stand_in_for_those_of_the_fleet():
    fleet, other = shop(), shop(values=VALUES | {"cake": 9.0}, costs={"coffee": 0.05})
    one = fleet.decide("a", X, values={"cake": 9.0}, costs={"cake": 0.0}, record=False)
    assert one.probabilities == other.decide("a", X, record=False).probabilities
    assert one.values == VALUES | {"cake": 9.0}
    assert fleet.decide("a", X, record=False).values == VALUES
    bare = shop(values=None, costs=None)
    assert bare.decide("a", X, values=VALUES, costs=COSTS).worth == fleet.decide("a", X).worth
    with pytest.raises(InvalidValue, match="expected a value of every arm, got none of 'coffee'"):
        bare.decide("a", X, values={"cake": 1.0, "sandwich": 1.0})
    assert set(bare.decide("a", X, ["cake"], values={"cake": 1.0}).worth) == {"cake"}


def test_prices_of_many_rows_are_a_number_a_sequence_or_a_column():
    contexts = pl.DataFrame({"task": ["a", "b"], "hour": [0.1, 0.2], "margin": [2.0, 8.0], "fee": [0.0, None]})
    fleet = shop()
    eligible = [None, ["cake", "coffee"]]
    many = fleet.decide_many(
        "task",
        contexts,
        eligible,
        record=False,
        values={"cake": "margin", "coffee": [1.0, 2.0]},
        costs={"sandwich": "fee"},
    )
    singles = [
        fleet.decide("a", [0.1], record=False, values={"cake": 2.0, "coffee": 1.0}, costs={"sandwich": 0.0}),
        fleet.decide("b", [0.2], eligible[1], record=False, values={"cake": 8.0, "coffee": 2.0}),
    ]
    for one, single in zip(many, singles, strict=True):
        assert one.probabilities == pytest.approx(single.probabilities, abs=1e-13)
        assert one.values == single.values
        assert one.costs == single.costs
    for given, words in (
        ({"cake": "gain"}, "did you mean 'margin'|columns are"), ({"cake": [1.0]}, "one number per row"),
        ({"cake": [1.0, -1.0]}, "from 0 to"), ({"tea": 1.0}, "no arm 'tea'"), ({"cake": [1.0, "x"]}, "to be numbers"),
    ):  # fmt: skip
        with pytest.raises(PosseError, match=words):
            fleet.decide_many("task", contexts, values=given)
    with pytest.raises(ShapeError, match="got shape"):
        fleet.decide_many("task", contexts, costs={"cake": np.ones(3)})
    assert fleet.n_decisions == 0


def test_another_price_changes_the_next_decision_and_nothing_that_was_learned():
    fleet = shop()
    before = {name: array.copy() for name, array in state_of(fleet)[1].items()}
    old = fleet.decide("a", X, explore=False, record=False)
    fleet.set_values({"cake": 50.0}, {"cake": 0.1})
    assert fleet.decide("a", X, explore=False, record=False).arm == "cake" != old.arm
    assert fleet.values == VALUES | {"cake": 50.0}
    assert fleet.costs == {"coffee": 0.05, "sandwich": 0.0, "cake": 0.1}
    for name, array in state_of(fleet)[1].items():
        assert_array_equal(array, before[name])


def test_expected_money_and_the_chance_of_earning_most():
    fleet = shop()
    mean, sd = money(fleet)
    assert list(fleet.expected("a", X).worth.values()) == pytest.approx(mean)
    table = fleet.expected_many(["a"], [X])
    assert_allclose(table["worth"].to_numpy(), mean)
    assert_allclose(table["probability_best"].to_numpy(), chance_to_win(mean, sd), atol=1e-6)
    bare = shop(values=None, costs=None)
    assert "worth" not in bare.expected_many(["a"], [X]).columns
    assert bare.expected("a", X).worth is None
    assert "worth" in repr(fleet.expected("a", X))
    assert "worth" not in repr(bare.decide("a", X))


def test_arms_come_and_go_with_their_prices():
    fleet = shop()
    with pytest.raises(InvalidValue, match="expected the value of arm 'tea'"):
        fleet.add_arm("tea")
    assert fleet.arms == ARMS
    fleet.add_arm("tea", value=1.2, cost=0.01)
    assert fleet.decide("a", X).values == VALUES | {"tea": 1.2}
    fleet.retire_arm("coffee")
    fleet.rename("cake", "tart")
    assert fleet.values == {"sandwich": 2.8, "tart": 0.9, "tea": 1.2}
    fleet.set_values({"coffee": 1.7})
    fleet.add_arm("coffee")
    assert fleet.values["coffee"] == 1.7
    bare = shop(values=None, costs=None)
    with pytest.raises(InvalidValue, match="this fleet has no values"):
        bare.add_arm("tea", value=2.0)
    bare.retire_arm("cake")
    bare.set_values({"coffee": 1.0, "sandwich": 2.0})
    with pytest.raises(InvalidValue, match="expected the value of arm 'cake'"):
        bare.add_arm("cake")
    bare.add_arm("cake", value=3.0)
    assert bare.values == {"coffee": 1.0, "sandwich": 2.0, "cake": 3.0}


def test_costs_alone_are_in_the_unit_of_rewards():
    fleet = shop(values=None, costs={"coffee": 5.0})
    mean = fleet.expected("a", X).mean
    decision = fleet.decide("a", X)
    assert decision.worth == {arm: mean[arm] - (5.0 if arm == "coffee" else 0.0) for arm in ARMS}
    assert fleet.values is None
    fleet.add_arm("tea", cost=2.0)
    assert fleet.costs["tea"] == 2.0


def test_a_file_has_prices_to_the_bit(tmp_path):
    fleet = shop(values={"coffee": 0.1 + 0.2, "sandwich": 1e-300, "cake": 7.0})
    fleet.retire_arm("cake")
    fleet.save(tmp_path / "f.posse")
    again = Posse.load(tmp_path / "f.posse", clock=lambda: 0.0)
    assert (again.values, again.costs) == (fleet.values, fleet.costs)
    assert json.dumps(again.worth.to_json()) == json.dumps(fleet.worth.to_json())
    assert again.decide("a", X)[1:] == fleet.decide("a", X)[1:]
    some = Posse.load(tmp_path / "f.posse", tasks=["a"], clock=lambda: 0.0)
    assert some.values == fleet.values


def test_merging_keeps_prices_and_arms_bring_theirs():
    mine, other = shop(), shop(seed=4)
    other.set_values({"coffee": 99.0})
    other.add_arm("tea", value=1.1, cost=0.3)
    mine.merge(other)
    assert mine.values == VALUES | {"tea": 1.1}
    assert mine.costs["tea"] == 0.3
    bare, before = shop(values=None, costs=None, seed=5), mine.values
    bare.add_arm("juice")
    with pytest.raises(InvalidValue, match="expected values in both fleets, as arm 'juice' joins"):
        mine.merge(bare)
    assert mine.values == before
    assert "juice" not in mine.arms
    plain = shop(values=None, costs=None, seed=6)
    plain.merge(shop(seed=8))
    assert plain.values is None


BAD = [
    ({"coffee": -1.0}, InvalidValue, "expected the value of arm 'coffee' to be at least 0, got -1"),
    ({"coffee": float("nan")}, NotFinite, "expected the value of arm 'coffee' to be finite, got nan"),
    ({"coffee": "much"}, InvalidValue, "expected the value of arm 'coffee' to be a number, got 'much'"),
    ({"coffee": 1e60}, InvalidValue, "at most 1e"),
    ({"tea": 1.0}, UnknownArm, "no arm 'tea'"),
    ([1.0, 2.0, 3.0], InvalidValue, "expected values to be a mapping from arms to numbers"),
]


@pytest.mark.parametrize(("values", "error", "words"), BAD)
def test_a_bad_value_is_refused_and_nothing_has_changed(values, error, words):
    fleet = shop()
    prices, stream = fleet.worth.to_json(), fleet.stream.decided
    for call in (
        lambda: fleet.set_values(values),
        lambda: fleet.decide("new", X, values=values),
        lambda: fleet.decide("new", X, values=values, k=2),
    ):
        with pytest.raises(error, match=words):
            call()
    assert fleet.worth.to_json() == prices
    assert fleet.stream.decided == stream
    assert "new" not in fleet.tasks
    with pytest.raises(error, match=words.replace("value", "cost")):
        fleet.set_values({"coffee": 3.0}, values)
    assert fleet.worth.to_json() == prices


def test_values_of_a_new_fleet_name_every_arm():
    with pytest.raises(InvalidValue, match="expected a value of every arm, got none of 'cake'"):
        shop(0, values={"coffee": 1.0, "sandwich": 2.0})
    with pytest.raises(UnknownArm, match="no arm 'tea'"):
        shop(0, costs={"tea": 1.0})


def test_shards_refuse_prices():
    with pytest.raises(InvalidValue, match="expected no values and costs for a sharded fleet"):
        ShardedPosse(ARMS, ["hour"], values=VALUES)


def test_an_arm_that_is_worth_nothing_is_the_last_one():
    fleet = shop(values=VALUES | {"sandwich": 0.0})
    decision = fleet.decide("a", X)
    assert decision.worth["sandwich"] == 0.0
    assert decision.arm != "sandwich"
