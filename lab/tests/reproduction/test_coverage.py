"""Coverage: measured as defined, and judged on tables made by hand."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from posse.environments import SyntheticWorld
from posse.model import Prior, Statistics, posterior
from posse_lab.reproduction import coverage
from posse_lab.reproduction.claims import FAILS, HOLDS
from posse_lab.reproduction.coverage import (
    FORMS,
    LEVELS,
    PRIORS,
    Settings,
    measure_intervals,
    measure_opposed,
    measure_radius,
    own_errors,
)

SMALL = Settings(
    n_tasks=4, n_arms=2, n_features=2, steps=(20, 60), noise_sds=(0.01, 1.0), shared_precisions=(0.5,), n_contexts=10
)


def test_rows_of_every_prior_step_and_level():
    rows = measure_intervals(SMALL, 3)

    assert [(row["prior"], row["step"], row["level"]) for row in rows] == [
        (prior, step, level) for prior in PRIORS for step in (20, 60) for level in LEVELS
    ]
    for row in rows:
        # 10 contexts, 2 arms, 4 tasks.
        assert row["covered"] * 80 == pytest.approx(round(row["covered"] * 80))
    for prior in PRIORS:
        for step in (20, 60):
            shares = [row["covered"] for row in rows if (row["prior"], row["step"]) == (prior, step)]
            assert shares == sorted(shares)


def test_a_step_is_looked_at_in_passing():
    """Stopping at an earlier step to look changes nothing about a later one."""
    both = [row for seed in range(8) for row in measure_intervals(SMALL, seed) if row["step"] == 60]
    once = [row for seed in range(8) for row in measure_intervals(replace(SMALL, steps=(60,)), seed)]

    assert both == once


def test_given_the_population_intervals_cover_as_often_as_they_say():
    """A posterior is right on average over worlds drawn from its prior, whatever the policy did to get its data."""
    tables = [measure_intervals(SMALL, seed) for seed in range(40)]
    for level in (0.5, 0.8, 0.95):
        for step in (20, 60):
            shares = np.array(
                [
                    row["covered"]
                    for rows in tables
                    for row in rows
                    if (row["prior"], row["step"], row["level"]) == ("known", step, level)
                ]
            )
            # Seeds are independent; the mean of 40 is normal to good approximation, and 4 standard errors are 1 in
            # 16,000 for each of the six.
            assert abs(shares.mean() - level) < 4 * shares.std(ddof=1) / np.sqrt(40)


def test_the_errors_of_theorem_1_by_its_own_formula():
    """Of one arm and task: the root of (m - b)' (A + noise variance inverse-Sigma) (m - b)."""
    rng = np.random.default_rng(0)
    prior = Prior(covariance=[[[2.0, 0.3], [0.3, 0.5]]], noise_variance=[0.7], shared_precision=0.4)
    stats = Statistics.from_data(
        task=rng.integers(0, 3, 30),
        arm=np.zeros(30, dtype=int),
        context=rng.normal(size=(30, 2)),
        reward=rng.normal(size=30),
        n_tasks=3,
        n_arms=1,
    )
    beta = rng.normal(size=(1, 3, 2))
    found = own_errors(posterior(stats, prior), stats, prior, beta)

    for task in range(3):
        weight = stats.gram[0, task] + 0.7 * np.linalg.inv(prior.covariance[0])
        away = posterior(stats, prior).mean[0, task] - beta[0, task]
        assert found[0, task] == pytest.approx(np.sqrt(away @ weight @ away), rel=1e-12)


def test_rows_of_every_noise_norm_and_form():
    rows = measure_radius(SMALL, 1)

    assert len(rows) == 2 * 1 * 3 * 3
    assert {(row["noise_sd"], row["norm"], row["form"]) for row in rows} == {
        (sd, norm, form) for sd in (0.01, 1.0) for norm in ("posterior", "one context", "own") for form in FORMS
    }
    for row in rows:
        assert row["largest_error"] > 0
        assert (row["covered"] == 1.0) == (row["largest_error"] <= row["radius"])
    by_norm = {(row["noise_sd"], row["norm"], row["largest_error"]) for row in rows}
    assert len(by_norm) == 6  # the error does not depend on the form
    largest = {(row["noise_sd"], row["norm"]): row["largest_error"] for row in rows}
    for sd in (0.01, 1.0):
        assert largest[sd, "one context"] <= largest[sd, "posterior"]  # which is the largest over contexts


def test_contexts_of_the_theorem_are_bounded():
    draw = SyntheticWorld(n_tasks=2, n_arms=2, n_features=3, contexts="uniform").draw(0, 500)

    assert np.abs(draw.contexts).max() <= 1


def radii(slack, norm="one context"):
    """A table in which the largest error is 1 and the printed radius this, by noise sd and a list over seeds."""
    return pl.DataFrame(
        [
            {
                "seed": seed,
                "noise_sd": sd,
                "shared_precision": 1.0,
                "norm": norm,
                "form": form,
                "radius": value if form == "printed" else 50.0,
                "largest_error": 1.0,
                "covered": float(value >= 1),
            }
            for sd, values in slack.items()
            for seed, value in enumerate(values)
            for form in FORMS
        ]
    )


def predictions(slack):
    return coverage._theorem_1_predictions(radii(slack))


def test_a_radius_that_is_never_exceeded():
    claim = predictions({0.1: [3.0, 5.0], 1.0: [20.0, 30.0]})

    assert claim.verdict == HOLDS
    assert claim.value == pytest.approx(4.0)
    assert claim.interval == (3.0, 5.0)
    assert "noise sd 0.1 and" in claim.measure
    assert "one context" in claim.measure
    assert claim.seeds == 2


def test_a_radius_that_is_exceeded_where_there_is_little_noise():
    claim = predictions({0.01: [0.5, 0.7], 1.0: [20.0, 30.0]})

    assert claim.verdict == "holds only if the noise is not small: it fails at sd 0.01"
    assert claim.value == pytest.approx(0.6)


def test_a_radius_may_be_exceeded_as_often_as_it_says():
    """5 % of 20 seeds is one; it fails where chance does not explain more, not at the second."""
    rarely, chance, often = ([0.5] * count + [5.0] * (20 - count) for count in (1, 2, 9))

    assert predictions({1.0: rarely, 2.0: [9.0] * 20}).verdict == HOLDS
    assert predictions({1.0: chance, 2.0: [9.0] * 20}).verdict == HOLDS
    assert predictions({1.0: often, 2.0: [9.0] * 20}).verdict != HOLDS


def test_a_radius_that_is_exceeded_everywhere():
    assert predictions({0.01: [0.5, 0.7], 1.0: [0.9, 0.3]}).verdict == FAILS


def test_a_radius_that_is_exceeded_where_there_is_much_noise():
    assert "not small" not in predictions({0.01: [5.0, 7.0], 1.0: [0.3, 0.5]}).verdict


@pytest.mark.parametrize(
    ("drawn", "constructed", "verdict"),
    [
        ([3.0, 5.0], [2.0, 4.0], HOLDS),
        ([3.0, 5.0], [0.2, 0.4], FAILS),
        ([3.0, 0.5], [0.2, 0.4], FAILS),
    ],
)
def test_coefficients_in_drawn_worlds_and_in_one_made_for_it(drawn, constructed, verdict):
    opposed = pl.DataFrame(
        [
            {"seed": seed, "form": form, "radius": value if form == "printed" else 99.0, "largest_error": 1.0}
            for seed, value in enumerate(constructed)
            for form in FORMS
        ]
    )
    claim = coverage._theorem_1_coefficients(radii({1.0: drawn}, "own"), opposed)

    assert claim.verdict == verdict
    assert claim.value == pytest.approx(np.mean(constructed))
    assert f"never below {min(drawn):.1f}" in claim.measure
    assert claim.seeds == 2


def test_a_world_made_to_break_the_first_line_of_theorem_1():
    """Two tasks that are seen in nearly the same direction and disagree; the third inherits what they make of it."""
    rows = {row["form"]: row for row in measure_opposed(0)}

    assert list(rows) == list(FORMS)
    assert len({row["largest_error"] for row in rows.values()}) == 1
    assert rows["printed"]["radius"] < rows["printed"]["largest_error"]
    assert rows["corrected"]["radius"] > rows["corrected"]["largest_error"]
    assert measure_opposed(1)[0]["largest_error"] != rows["printed"]["largest_error"]


def covered(early, late, evidence=0.95):
    shares = {("paper", 50): early, ("paper", 200): late, ("evidence", 200): evidence, ("evidence", 50): evidence}
    return pl.DataFrame(
        [
            {"seed": seed, "prior": prior, "step": step, "level": level, "covered": share if level == 0.95 else 0.0}
            for (prior, step), share in shares.items()
            for seed in range(3)
            for level in LEVELS
        ]
    )


@pytest.mark.parametrize(
    ("early", "late", "verdict"),
    [
        (0.94, 0.94, HOLDS),
        (0.80, 0.94, "holds only if enough was seen: 80.0 % are covered at step 50"),
        (0.94, 0.90, FAILS),
        (0.80, 0.90, FAILS),
    ],
)
def test_coverage_of_the_papers_intervals(early, late, verdict):
    claim = coverage._tau(covered(early, late, evidence=0.951), 200)

    assert claim.verdict == verdict
    assert claim.value == pytest.approx(late)
    assert "at step 200" in claim.measure
    assert "with the evidence prior 0.951" in claim.measure
    assert claim.seeds == 3
