"""Claims about laws of contexts."""

import numpy as np
import pytest

from posse_lab.reproduction.claims import FAILS, HOLDS
from posse_lab.reproduction.contexts import SCALES, exploration_price, no_diversity, relative, scaled
from posse_lab.reproduction.reading import Reading

SEEDS = np.array([4.0, 5.0, 6.0, 7.0])


def law(result, name, factors):
    """A result in which ebmUCB with each scale of exploration has these factors."""
    curves = {scaled(scale): (factor * SEEDS)[:, None] for scale, factor in zip(SCALES, factors, strict=True)}
    return Reading(result(curves, [10]), name, name)


def test_names_of_scales():
    assert [scaled(scale) for scale in SCALES] == ["ebmUCB 0", "ebmUCB 0.03", "ebmUCB", "ebmUCB 0.3", "ebmUCB 1"]


def test_greed_that_costs_less_under_uniform_contexts(result):
    uniform = law(result, "uniform", [1.1, 1.0, 1.2, 1.3, 3.0])
    mixed = law(result, "mixed-gaussian", [2.0, 1.7, 1.5, 1.0, 1.2])
    claim = exploration_price(mixed, uniform)

    assert claim.value == pytest.approx(1.1 / 2.0)
    assert claim.verdict == HOLDS
    assert "under uniform contexts (1.10 times), over the same under mixed Gaussian ones (2.00 times)" in claim.measure
    assert exploration_price(uniform, mixed).verdict == FAILS
    assert relative(mixed) == pytest.approx({0.0: 2.0, 0.03: 1.7, 0.1: 1.5, 0.3: 1.0, 1.0: 1.2})


def test_greed_that_is_best_under_both_laws_is_no_difference(result):
    greedy = law(result, "uniform", [1.0, 1.1, 1.2, 1.3, 3.0])
    claim = exploration_price(greedy, greedy)

    assert claim.value == 1.0
    assert claim.verdict == FAILS


def test_laws_with_different_numbers_of_seeds_are_compared_on_those_they_share(result):
    uniform = law(result, "uniform", [1.1, 1.0, 1.2, 1.3, 3.0])
    mixed = law(result, "mixed-gaussian", [2.0, 1.7, 1.5, 1.0, 1.2])
    fewer = Reading(mixed.result.only_seeds([0, 1]), "mixed-gaussian")

    assert exploration_price(fewer, uniform).seeds == 2
    assert exploration_price(fewer, uniform).value == pytest.approx(1.1 / 2.0)


def test_the_mixed_gaussian_has_covariate_diversity_after_all():
    claim = no_diversity()

    assert claim.verdict == FAILS
    assert claim.value == 1.0
    assert claim.interval == (1.0, 1.0)
    assert (claim.seeds, claim.sources) == (0, ())
