"""What each part buys, on regret made by hand, and that each variant is the one its name says."""

import numpy as np
import pytest

from posse.simulation.factories import describe
from posse_lab.reproduction.ablation import GROUPS, REFERENCE, policies, section
from posse_lab.reproduction.claims import FAILS, HOLDS

LEVELS = np.array([90.0, 110.0, 95.0, 105.0])
WORLDS = ("balanced", "sparse", "anisotropic")


def results(result, *factors):
    """The three worlds; a variant has 2 times the level of the seed unless these say otherwise."""
    return {
        world: result({name: (LEVELS * own.get(name, 2.0))[:, None] for name in policies(2, 3)}, [10])
        for world, own in zip(WORLDS, factors, strict=True)
    }


def claim_of(made, identity):
    return next(claim for claim in made.claims if claim.id == identity)


def test_every_variant_is_shown_and_every_name_is_a_variant():
    names = [name for group in GROUPS.values() for name in group]

    assert sorted([REFERENCE, *names]) == sorted(policies(2, 3))


def test_no_two_variants_are_the_same():
    described = [str(describe(policy)) for policy in policies(2, 3).values()]

    assert len(set(described)) == len(described)


@pytest.mark.parametrize("scale", [1.0, 2.0, 4.0])
def test_a_fixed_covariance_is_fixed(scale):
    prior = policies(2, 3)[f"fixed {scale:g} I"](n_tasks=3, n_arms=2, n_features=3).prior

    assert np.array_equal(prior.covariance, np.tile(scale * np.eye(3), (2, 1, 1)))
    assert np.array_equal(prior.noise_variance, [1.0, 1.0])


def test_a_part_that_helps_everywhere(result):
    worse = {"paper, no threshold": 3.0, "fixed 2 I": 2.5}
    made = section(results(result, worse, worse | {"paper, no threshold": 2.2}, worse))

    claim = claim_of(made, "threshold-helps")
    assert claim.verdict == HOLDS
    assert claim.value == pytest.approx(2.0 / 2.2)
    assert "sparse world, the weakest of 3" in claim.measure
    assert claim_of(made, "learning-the-covariance-helps").verdict == HOLDS


def test_a_part_that_helps_in_places(result):
    made = section(results(result, {"paper, no threshold": 3.0}, {"paper, no threshold": 1.0}, {}))
    claim = claim_of(made, "threshold-helps")

    assert claim.verdict == "holds only if the world is balanced"
    assert claim.value == pytest.approx(2.0)


def test_a_part_that_makes_no_difference(result):
    made = section(results(result, {}, {}, {}))

    # Two parts are claimed to help; the printed formula only has to do no harm.
    assert [claim.verdict for claim in made.claims] == [FAILS, FAILS, HOLDS]
    assert claim_of(made, "threshold-helps").value == 1.0


def test_the_literal_estimator_is_compared_the_other_way_round(result):
    better = {"paper-literal": 1.0}
    claim = claim_of(section(results(result, better, better, better)), "printed-covariance-works")

    assert claim.verdict == HOLDS
    assert claim.value == pytest.approx(0.5)


def test_a_missing_world_is_not_passed_over(result):
    made = results(result, {}, {}, {})
    del made["balanced"]

    with pytest.raises(KeyError):
        section(made)
