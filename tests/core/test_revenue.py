"""Revenue: two cores with one expectation, against plain formulas and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posse.core.core import Core
from posse.core.forgetting import HalfLife
from posse.core.revenue import Revenue
from posse.families import family_of
from posse.families.revenue import log_revenue

from .cores import RULE, messages_are_those_of_the_sums

N_TASKS, N_ARMS, D = 3, 3, 2


def new_revenue(half_life=None, **settings):
    forgetting = None if half_life is None else (HalfLife(half_life), HalfLife(half_life))
    core = Revenue(N_ARMS, D, family=family_of("revenue"), rule=RULE, forgetting=forgetting, **settings)
    core.take_tasks(core.reserve_tasks(N_TASKS))
    return core


def rows(n, seed=0, share=0.4, scale=20.0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = (rng.random(n) < share) * scale * np.exp(0.3 * x[:, 1] + 0.5 * rng.normal(size=n))
    return rng.integers(N_TASKS, size=n), rng.integers(N_ARMS, size=n), x, y, np.arange(float(n))


def learn(core, data, estimate=True):
    receipts = []
    for task, arm, x, y, now in zip(*data, strict=True):
        receipts.append(core.learn(int(task), int(arm), x, float(y), now))
        if estimate:
            core.estimate_if_due()
    return receipts


def believed(core, now=0.0):
    out = np.empty((len(POINTS) * (N_TASKS + 1), 2, core.n_arms))
    for place, (task, x) in enumerate((task, x) for task in range(-1, N_TASKS) for x in POINTS):
        assert core.predict(task, x, now, np.arange(core.n_arms), out[place])
    return out


POINTS = [np.array([1.0, -1.0]), np.array([1.0, 0.8])]


def same_state(first, second):
    one, other = first.snapshot(), second.snapshot()
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize(("mean", "sd"), [(-4.0, 0.3), (-2.0, 0.6), (1.0, 0.5)])
def test_the_law_has_the_mean_and_the_spread_of_draws(mean, sd, slope):
    rng, level, width, noise = np.random.default_rng(1), 3.0, 0.3, 0.4
    logit = mean + sd * rng.standard_normal(400_000)
    amounts = level + slope * (logit - mean) + width * rng.standard_normal(logit.size)
    revenue = np.exp(amounts + noise / 2) / (1.0 + np.exp(-logit))
    centre, wide, narrow, tight = log_revenue(mean, sd, level, width, slope, noise)
    if slope == 0.0:  # exact where both are independent, but for the draws
        assert math.exp(narrow + tight**2 / 2) == pytest.approx(revenue.mean(), rel=0.005)
        assert math.sqrt(math.expm1(tight**2)) == pytest.approx(revenue.std() / revenue.mean(), rel=0.02)
    assert math.exp(centre + wide**2 / 2) == pytest.approx(revenue.mean(), rel=0.04)
    low, high = np.quantile(revenue, [0.05, 0.95])
    assert centre - 1.645 * wide == pytest.approx(math.log(low), abs=0.25 * wide)
    assert centre + 1.645 * wide == pytest.approx(math.log(high), abs=0.25 * wide)


def test_intervals_of_a_rare_purchase_that_is_little_known_hold_as_many_draws_as_they_say():
    rng = np.random.default_rng(2)
    logit = -5.0 + 2.4 * rng.standard_normal(200_000)
    revenue = np.exp(1.0 + 0.2 * rng.standard_normal(logit.size)) / (1.0 + np.exp(-logit))
    centre, wide, *_ = log_revenue(-5.0, 2.4, 1.0, 0.2, 0.0, 0.0)
    inside = np.abs(np.log(revenue) - centre) < 1.645 * wide
    assert 0.86 < inside.mean() < 0.94


def test_both_parts_are_the_cores_that_learn_purchases_and_amounts_alone():
    data, core = rows(80), new_revenue()
    tasks, arms, x, y, times = data
    receipts = learn(core, data, estimate=False)
    clicks = Core(N_ARMS, D, family=family_of("binary"), rule=RULE, n_notes=5)
    clicks.take_tasks(clicks.reserve_tasks(N_TASKS))
    amounts = Core(N_ARMS, D + 1, family=family_of("number"), rule=RULE)
    amounts.take_tasks(amounts.reserve_tasks(N_TASKS))
    unit, out = math.log(y[y > 0][0]), np.empty((2, N_ARMS))
    for n in range(80):
        task, arm = int(tasks[n]), int(arms[n])
        clicks.learn(task, arm, x[n], float(y[n] > 0), times[n])
        if y[n] > 0:
            clicks.predict(task, x[n], 0.0, np.arange(N_ARMS), out)
            amounts.learn(task, arm, np.append(x[n], out[0, arm]), math.log(y[n]) - unit, times[n])
    for mine, alone in ((core.purchases, clicks), (core.amounts, amounts)):
        sums = [one.sums() for one in (mine, alone)]
        order, other = (np.lexsort((found.arms, found.tasks)) for found in sums)
        np.testing.assert_array_equal(sums[0].gram[order], sums[1].gram[other])
        np.testing.assert_allclose(mine.state.store.shared, alone.state.store.shared, rtol=1e-9, atol=1e-12)
    # What is decided by is what both say, by the formula.
    for part in (*core.parts, clicks, amounts):
        part.renew()
    point, both = POINTS[1], np.empty((2, N_ARMS))
    core.predict(1, point, 0.0, np.arange(N_ARMS), both)
    clicks.predict(1, point, 0.0, np.arange(N_ARMS), out)
    for arm in range(N_ARMS):
        level = np.empty((2, N_ARMS))
        amounts.predict(1, np.append(point, out[0, arm]), 0.0, np.arange(N_ARMS), level)
        slope = float(amounts.state.store.shared[arm, -1, D])
        width = min(float(level[1, arm]), 1.5)
        law = log_revenue(out[0, arm], out[1, arm], level[0, arm], width, slope, float(amounts.state.store.noise[arm]))
        assert both[:, arm] == pytest.approx([law[0] + unit, law[1]], rel=1e-6)
    assert [receipt.reward for receipt in receipts] == y.tolist()


def test_probabilities_are_those_of_the_rule_on_the_law_of_the_revenue():
    core = new_revenue()
    learn(core, rows(60))
    out, x = np.empty((3, N_ARMS)), POINTS[0]
    core.decide(0, x, 0.0, np.arange(N_ARMS), 50, True, 0.3, out)
    drawn = np.random.default_rng(0).standard_normal(200_000)
    purchases, amounts = np.empty((2, N_ARMS)), np.empty((2, N_ARMS))
    core.purchases.predict(0, x, 0.0, np.arange(N_ARMS), purchases)
    scores = np.empty((N_ARMS, drawn.size))
    for arm in range(N_ARMS):
        core.amounts.predict(0, np.append(x, purchases[0, arm]), 0.0, np.arange(N_ARMS), amounts)
        store = core.amounts.state.store
        _, _, mean, sd = log_revenue(
            *purchases[:, arm], amounts[0, arm], min(amounts[1, arm], 1.5), store.shared[arm, -1, D], store.noise[arm]
        )
        width = 0.4 * math.sqrt(math.log(50)) * (1.0 + 0.25 * drawn)
        scores[arm] = mean + np.maximum(width, 0.0) * sd
    share = np.bincount(scores.argmax(axis=0), minlength=N_ARMS) / drawn.size
    np.testing.assert_allclose(out[0], share, atol=0.005)
    many = core.decide_rows(
        np.array([0, -1]), np.array([x, x]), 0.0, np.ones((1, N_ARMS), dtype=np.bool_), (50, 1), True, np.full(2, 0.3)
    )
    np.testing.assert_array_equal(many[1][0], out[0])
    np.testing.assert_array_equal(many[2][0], out[1])


def test_without_exploring_the_arm_with_the_highest_mean_is_taken():
    core = new_revenue()
    learn(core, rows(60))
    for task in range(-1, N_TASKS):
        out = np.empty((3, N_ARMS))
        chosen = core.decide(task, POINTS[0], 0.0, np.arange(N_ARMS), 50, False, 0.3, out)
        core.show(out[1], out[2])
        assert chosen == out[1].argmax()


def test_cents_and_euros_decide_the_same():
    one, other = new_revenue(), new_revenue()
    tasks, arms, x, y, times = rows(150)
    learn(one, (tasks, arms, x, y, times))
    learn(other, (tasks, arms, x, 100.0 * y, times))
    for place, (task, point) in enumerate((task, point) for task in range(-1, N_TASKS) for point in POINTS):
        outs = np.empty((2, 3, N_ARMS))
        for core, out in zip((one, other), outs, strict=True):
            core.decide(task, point, 0.0, np.arange(N_ARMS), 7 + place, True, 0.5, out)
        np.testing.assert_allclose(outs[0, 0], outs[1, 0], atol=1e-9)
        np.testing.assert_allclose(outs[0, 1] + math.log(100.0), outs[1, 1], atol=1e-9)
        np.testing.assert_allclose(outs[0, 2], outs[1, 2], atol=1e-9)


PRICES = np.array([[0.4, 1.0, 0.7], [0.9, 1.6, 0.0]])


def money(core, task, x, prices=PRICES):
    """Mean and standard deviation of value x expected revenue - cost, from the beliefs of both parts."""
    purchases, amounts, arms = np.empty((2, core.n_arms)), np.empty((2, core.n_arms)), np.arange(core.n_arms)
    core.purchases.predict(task, x, 0.0, arms, purchases)
    store, result = core.amounts.state.store, np.empty((2, core.n_arms))
    for arm in range(core.n_arms):
        core.amounts.predict(task, np.append(x, purchases[0, arm]), 0.0, arms, amounts)
        _, _, mean, sd = log_revenue(
            *purchases[:, arm], amounts[0, arm], min(amounts[1, arm], 1.5), store.shared[arm, -1, D], store.noise[arm]
        )
        revenue = math.exp(core.unit + mean + sd**2 / 2)
        result[:, arm] = (
            prices[0, arm] * revenue - prices[1, arm],
            (prices[0, arm] * revenue * math.sqrt(math.exp(sd**2) - 1.0)),
        )
    return result


def test_with_prices_probabilities_are_those_of_the_rule_on_money():
    core, arms = new_revenue(), np.arange(N_ARMS)
    learn(core, rows(120))
    drawn = np.maximum(0.4 * math.sqrt(math.log(50)) * (1.0 + 0.25 * np.random.default_rng(0).normal(size=200_000)), 0)
    for task, x in ((0, POINTS[0]), (-1, POINTS[1])):
        mean, sd = money(core, task, x)
        bare, out = np.empty((3, N_ARMS)), np.empty((3, N_ARMS))
        core.decide(task, x, 0.0, arms, 50, True, 0.3, bare)
        core.decide(task, x, 0.0, arms, 50, True, 0.3, out, PRICES)
        share = np.bincount((mean + np.outer(drawn, sd)).argmax(axis=1), minlength=N_ARMS) / drawn.size
        np.testing.assert_allclose(out[0], share, atol=0.005)
        assert np.abs(out[0] - bare[0]).max() > 0.05
        assert task < 0 or 0.1 < out[0].max() < 0.9
        np.testing.assert_array_equal(out[1:], bare[1:])  # what is believed of revenue is the same
        # What is shown of an arm has the mean that is compared, and playing greedily takes the highest.
        shown = core.decide(task, x, 0.0, arms, 50, False, 0.3, out, PRICES)
        assert shown == mean.argmax()
        core.show(out[1], out[2])
        np.testing.assert_allclose(PRICES[0] * out[1] - PRICES[1], mean, rtol=1e-9)


def test_rows_with_prices_of_their_own_are_decided_as_one_by_one():
    core, rng, n = new_revenue(), np.random.default_rng(3), 12
    learn(core, rows(120))
    tasks, X, uniforms = rng.integers(-1, N_TASKS, size=n), rng.normal(size=(n, D)), rng.random(n)
    mask = np.ones((n, N_ARMS), dtype=np.bool_)
    mask[::3, 1] = False
    for worth in (PRICES[:, None], rng.uniform(0.0, 3.0, size=(2, n, N_ARMS))):
        chosen, *found = core.decide_rows(tasks, X, 0.0, mask, (40, 1), True, uniforms, worth=worth)
        for row in range(n):
            among, prices = np.flatnonzero(mask[row]), worth[:, row if worth.shape[1] > 1 else 0]
            out = np.empty((3, among.size))
            offered = np.ascontiguousarray(prices[:, among])
            at = core.decide(tasks[row], X[row], 0.0, among, 40 + row, True, uniforms[row], out, offered)
            assert chosen[row] == among[at]
            np.testing.assert_array_equal([part[row, among] for part in found], out)


def test_money_is_compared_alike_in_cents_and_in_euros_and_costs_count_from_the_first_amount_on():
    euros, cents, arms = new_revenue(), new_revenue(), np.arange(N_ARMS)
    tasks, of, x, y, times = rows(100)
    y[:20] = 0.0
    out, other = np.empty((3, N_ARMS)), np.empty((3, N_ARMS))
    in_cents, per_cent = PRICES * [[1.0], [100.0]], PRICES / [[100.0], [1.0]]
    for n in range(100):
        euros.decide(tasks[n], x[n], 0.0, arms, n + 1, True, 0.5, out, PRICES)
        for prices in (in_cents, per_cent):  # money in cents, or euros that are paid by cents of revenue
            cents.decide(tasks[n], x[n], 0.0, arms, n + 1, True, 0.5, other, prices)
            np.testing.assert_allclose(other[0], out[0], atol=1e-8)
        euros.learn(int(tasks[n]), int(of[n]), x[n], float(y[n]), times[n])
        cents.learn(int(tasks[n]), int(of[n]), x[n], 100.0 * float(y[n]), times[n])
        for core in (euros, cents):
            core.estimate_if_due()


@pytest.mark.parametrize("half_life", [None, 40.0])
def test_a_table_is_learned_as_its_rows_one_by_one(half_life):
    data, one, other = rows(120), new_revenue(half_life), new_revenue(half_life)
    receipts = learn(one, data)
    found = other.learn_rows(*data)
    same_state(one, other)
    assert found.serial.tolist() == [receipt.serial for receipt in receipts]
    assert found.decay.tolist() == [receipt.decay for receipt in receipts]
    third = new_revenue(half_life)
    for part in (slice(0, 1), slice(1, 50), slice(50, 120)):
        third.learn_rows(*(column[part] for column in data))
    same_state(one, third)


def assert_close(one, other):
    """Compare beliefs: sites of clicks are made again in turns, so not to the last digit."""
    for core in (one, other):
        for _ in range(5):
            core.renew()
    (mean, sd), (right, right_sd) = (believed(core, 60.0).transpose(1, 0, 2) for core in (one, other))
    assert (np.abs(mean - right) < 0.2 * right_sd).all()
    np.testing.assert_allclose(sd, right_sd, rtol=0.2)


CHANGES = [(0.0, 30.0), (30.0, 0.0), (30.0, 12.0)]


@pytest.mark.parametrize("half_life", [None, 40.0])
@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_reward_takes_the_place_of_another(before, after, half_life):
    """What is learned is as if the right reward had been there at once; logits of others are as they were then."""
    data, right, wrong = rows(60, seed=3), new_revenue(half_life), new_revenue(half_life)
    tasks, arms, x, y, times = data
    first, last = np.append(y, after), np.append(y, before)
    where = (np.append(tasks, 1), np.append(arms, 2), np.vstack([x, [1.0, 0.4]]))
    learn(right, (*where, first, np.append(times, 60.0)), estimate=False)
    receipts = learn(wrong, (*where, last, np.append(times, 60.0)), estimate=False)
    changed = wrong.replace(receipts[-1], after, 60.0)
    assert changed.reward == after
    counts = [core.amounts.sums(None, 60.0).counts.sum() for core in (right, wrong)]
    assert counts[0] == pytest.approx(counts[1], rel=0.05 if half_life else 1e-12)
    assert_close(wrong, right)
    # And back.
    wrong.replace(changed, before, 60.0)
    third = new_revenue(half_life)
    learn(third, (*where, last, np.append(times, 60.0)), estimate=False)
    assert_close(wrong, third)


def test_what_is_taken_away_leaves_nothing():
    core, x = new_revenue(), np.array([1.0, 0.7])
    receipt = core.learn(0, 0, x, 25.0, 0.0)
    core.replace(receipt, 0.0, 0.0)
    assert core.amounts.sums().counts.size == 0
    assert not core.amounts.state.store.pairs[:, :-2].any()
    core.renew()
    restored = new_revenue()
    restored.restore(core.snapshot())


def test_messages_are_those_of_the_sums_after_amounts_came_and_went():
    core = new_revenue(40.0)
    receipts = learn(core, rows(80, seed=5))
    rng = np.random.default_rng(0)
    for place in rng.permutation(80)[:40].tolist():
        if core.replaceable(receipts[place]):
            value = float(rng.choice([0.0, 5.0, 50.0]))
            receipts[place] = core.replace(receipts[place], value, 80.0)
    for part in core.parts:
        messages_are_those_of_the_sums(part, 1e-6)
    again = new_revenue(40.0)
    again.restore(core.snapshot())
    same_state(core, again)


def test_a_snapshot_goes_on_as_the_core_does():
    core, again = new_revenue(40.0), new_revenue(40.0)
    learn(core, rows(70))
    again.restore(core.snapshot())
    same_state(core, again)
    more = rows(40, seed=9)
    learn(core, more)
    learn(again, more)
    same_state(core, again)


def test_merged_cores_have_the_sums_of_one_that_learned_all_in_whatever_unit_they_count():
    first, second = rows(60, seed=1), rows(60, seed=2, scale=700.0)
    one, other, whole = new_revenue(), new_revenue(), new_revenue()
    learn(one, first, estimate=False)
    learn(other, second, estimate=False)
    learn(whole, first, estimate=False)
    learn(whole, second, estimate=False)
    assert one.unit != other.unit
    one.merge(other, np.arange(N_TASKS), np.arange(N_ARMS), 0.0)
    for core in (one, whole):
        core.renew()
    got, asked = one.amounts.sums(), whole.amounts.sums()
    order, wanted = (np.lexsort((sums.arms, sums.tasks)) for sums in (got, asked))
    np.testing.assert_allclose(got.counts[order], asked.counts[wanted])
    np.testing.assert_allclose(got.moment[order][:, :D], asked.moment[wanted][:, :D], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got.squares[order], asked.squares[wanted], rtol=1e-9)
    mean, sd = believed(whole).transpose(1, 0, 2)
    assert (np.abs(believed(one)[:, 0] - mean) < 0.2 * sd).all()


def test_forgotten_tasks_leave_nothing_and_the_unit_goes_with_the_last_amount():
    core = new_revenue()
    learn(core, rows(50))
    core.forget(np.array([1]))
    core.renew()
    assert 1 not in core.amounts.sums().tasks
    assert not math.isnan(core.unit)
    core.forget(np.array([0, 2]))
    assert math.isnan(core.unit)
    assert core.n_rewards == 0


@pytest.mark.parametrize("amounts", ["none", "one", "equal", "tails"])
def test_odd_amounts_give_beliefs_that_are_numbers(amounts):
    tasks, arms, x, y, times = rows(200, seed=4)
    rng = np.random.default_rng(4)
    if amounts == "none":
        y = np.zeros(200)
    elif amounts == "one":
        y = np.where(np.arange(200) == 60, 35.0, 0.0)
    elif amounts == "equal":
        y = np.where(y > 0, 9.99, 0.0)
    else:
        y = np.where(y > 0, np.exp(3.0 * rng.standard_t(1, size=200)).clip(1e-40, 1e40), 0.0)
    core = new_revenue()
    learn(core, (tasks, arms, x, y, times))
    mean, sd = believed(core).transpose(1, 0, 2)
    core.show(mean, sd)
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()
    if amounts in ("one", "equal"):
        assert (mean < 10 * y.max()).all()
    if amounts == "equal":  # money is the purchase rate times the price
        rates = np.empty((2, N_ARMS))
        core.purchases.predict(0, POINTS[0], 0.0, np.arange(N_ARMS), rates)
        out = np.empty((2, N_ARMS))
        core.predict(0, POINTS[0], 0.0, np.arange(N_ARMS), out)
        core.show(out[0], out[1])
        np.testing.assert_allclose(out[0], 9.99 * family_of("binary").expected(rates[0], rates[1]), rtol=0.15)


def test_a_new_arm_and_what_is_known_of_tasks_reach_both_parts():
    core = new_revenue(n_task_features=1)
    core.know(np.array([0, 1]), np.array([[1.0], [-1.0]]), np.array([True, True]))
    learn(core, rows(50))
    assert core.add_arm() == N_ARMS
    assert [part.n_arms for part in core.parts] == [N_ARMS + 1] * 2
    out = np.empty((3, N_ARMS + 1))
    assert core.decide(2, POINTS[0], 0.0, np.arange(N_ARMS + 1), 3, True, 0.5, out) >= 0
    core.learn(2, N_ARMS, POINTS[0], 8.0, 0.0)
    core.renew()
