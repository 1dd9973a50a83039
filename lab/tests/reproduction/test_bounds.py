"""Bounds beside regret: measured as defined, and judged on tables made by hand."""

import polars as pl
import pytest

from posse_lab.reproduction import bounds
from posse_lab.reproduction.bounds import (
    FORMS,
    Settings,
    measure_growth,
    measure_horizons,
    measure_lemmas,
    measure_tasks,
)
from posse_lab.reproduction.claims import FAILS, HOLDS

SMALL = Settings(n_tasks=3, n_arms=2, n_features=2, horizons=(20, 80), more_tasks=(2, 4), lemma_horizon=60)


def test_rows_of_every_method_and_horizon():
    rows = measure_horizons(SMALL, 2)

    assert [(row["method"], row["n_tasks"], row["horizon"]) for row in rows] == [
        (method, 3, horizon) for method in ("ebmUCB", "ebmTS") for horizon in (20, 80)
    ]
    for row in rows:
        assert 0 <= row["regret"] <= row["trivial"]
        assert row["regret"] <= row["corrected"]
        assert all(row[form] > 0 for form in FORMS)


def test_regret_at_a_shorter_horizon_is_that_of_a_shorter_run():
    long = {(row["method"], row["horizon"]): row for row in measure_horizons(SMALL, 2)}
    short = measure_horizons(Settings(n_tasks=3, n_arms=2, n_features=2, horizons=(20,)), 2)

    for row in short:
        same = long[row["method"], 20]
        assert row.keys() == same.keys()
        for name, value in row.items():
            assert same[name] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name


def test_rows_of_every_number_of_tasks():
    rows = measure_tasks(SMALL, 0)

    assert [(row["method"], row["n_tasks"], row["horizon"]) for row in rows] == [
        (method, n_tasks, 60) for n_tasks in (2, 4) for method in ("ebmUCB", "ebmTS")
    ]


def test_sums_of_variances_stay_below_their_bounds():
    for seed in range(3):
        own, shared = measure_lemmas(SMALL, seed)
        assert (own["lemma"], shared["lemma"]) == ("own", "shared")
        for row in (own, shared):
            assert row["sum"] > 0
            assert 0 < row["largest_ratio"] < 1
        assert shared["largest_ratio"] == pytest.approx(shared["sum"] / shared["bound"])


# ---- verdicts


def table(**columns):
    return pl.DataFrame(columns)


@pytest.mark.parametrize(("factor", "verdict"), [(0.5, HOLDS), (1.5, FAILS)])
def test_a_bound_is_useful_if_it_is_below_what_no_policy_can_exceed(factor, verdict):
    made = table(
        seed=[0, 1, 0, 1],
        method=["ebmUCB"] * 4,
        horizon=[10, 10, 90, 90],
        printed=[1.0, 1.0, 100.0 * factor, 300.0 * factor],
        trivial=[9.0, 9.0, 100.0, 300.0],
        regret=[1.0, 1.0, 10.0, 30.0],
    )
    claim = bounds._informative(made, "ebmUCB", "an-id")

    assert claim.verdict == verdict
    assert claim.value == pytest.approx(factor)
    assert claim.interval == pytest.approx((factor, factor))
    assert "at n = 90" in claim.measure
    assert f"{200 * factor / 20:.2g} times the regret that occurs" in claim.measure


def powers(exponent, column="printed", tasks=(50, 2, 10), seeds=(1.0, 2.0)):
    """A column that grows like this power of the number of tasks; that of ebmUCB with one more."""
    rows = [
        {"seed": seed, "method": method, "n_tasks": n, column: scale * n**exponent * (1 if method == "ebmTS" else n)}
        for n in tasks
        for seed, scale in enumerate(seeds)
        for method in ("ebmTS", "ebmUCB")
    ]
    return pl.DataFrame(rows)


def test_the_power_of_the_number_of_tasks():
    for method, power in (("ebmTS", 0.7), ("ebmUCB", 1.7)):
        value, ends = bounds._exponents(powers(0.7), method, "printed")
        assert value == pytest.approx(power)
        assert ends == pytest.approx((power, power))


@pytest.mark.parametrize(
    ("few", "many", "verdict"),
    [
        (0.2, 1.0, "holds"),
        (0.9, 1.04, "holds"),
        (0.2, 2.0, "holds only if tasks are few: from N = 2 to 50 other terms hide the factor N in α"),
        (0.9, 2.0, "does not hold"),
    ],
)
def test_the_order_of_the_bound_is_that_of_large_numbers_of_tasks(few, many, verdict):
    growth = powers(many, "exploration", tasks=(1_000, 10_000, 100_000))
    claim = bounds._no_worse_than_separate(powers(few), growth)

    assert claim.verdict == verdict
    assert claim.value == pytest.approx(many)
    assert claim.seeds == 2


def test_large_numbers_of_tasks_are_computed_and_not_played():
    """200 arrivals per task; the world is that of the lemmas, so only N and n change."""
    rows = measure_growth(SMALL, 0)

    assert [(row["method"], row["n_tasks"]) for row in rows] == [
        (method, n_tasks) for n_tasks in (1_000, 10_000, 100_000) for method in ("ebmUCB", "ebmTS")
    ]
    table = pl.DataFrame([{"seed": 0, **row} for row in rows])
    # The root of n N is N here, and α has N once more: between the two powers, and near the second in the end.
    for method in ("ebmUCB", "ebmTS"):
        last = table.filter((pl.col("method") == method) & (pl.col("n_tasks") > 1_000))
        assert 1.8 < bounds._exponents(last, method, "exploration")[0] < 2.1


@pytest.mark.parametrize(("ratios", "verdict"), [([0.2, 0.7, 0.4], HOLDS), ([0.2, 1.1, 0.4], FAILS)])
def test_a_lemma_fails_if_it_fails_once(ratios, verdict):
    made = table(seed=[0, 1, 2], lemma=["own"] * 3, largest_ratio=ratios)
    claim = bounds._lemma(made, "own", "an-id")

    assert claim.verdict == verdict
    assert claim.value == pytest.approx(sum(ratios) / 3)
    assert f"the largest of all seeds is {max(ratios):g}" in claim.measure
    assert claim.seeds == 3
