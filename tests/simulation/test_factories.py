import json
from functools import partial

import numpy as np
import pytest

from posse.environments import Draw, SyntheticWorld
from posse.errors import InvalidValue
from posse.model import Prior
from posse.policies import EbmUCB, HierTS, LinUCB, Oracle
from posse.simulation.factories import build, describe, named_factories

SIZES = {"n_tasks": 3, "n_arms": 2, "n_features": 2}


def test_policies_without_a_name_go_by_their_label_or_key():
    class Mine:
        pass

    named = named_factories([EbmUCB, "lin-ts", Mine, partial(LinUCB, exploration=0.5), partial(LinUCB, exploration=2)])
    assert list(named) == ["ebmUCB", "lin-ts", "Mine", "LinUCB (exploration=0.5)", "LinUCB (exploration=2)"]


def test_a_mapping_keeps_its_names_and_their_order():
    assert list(named_factories({"z": EbmUCB, "a": "lin-ts"})) == ["z", "a"]


def test_descriptions_are_plain_and_tell_settings_apart():
    priors = [Prior.isotropic(n_arms=2, n_features=2, variance=v) for v in (1.0, 2.0)]
    factories = [
        EbmUCB,
        HierTS,
        partial(EbmUCB, exploration=0.2),
        partial(EbmUCB, exploration=np.float64(0.3)),
        partial(EbmUCB, prior="moments"),
        *(partial(EbmUCB, prior=prior) for prior in priors),
        partial(Oracle, coefficients=np.zeros((2, 3, 2))),
        partial(Oracle, coefficients=np.ones((2, 3, 2))),
    ]
    written = [json.dumps(describe(factory)) for factory in factories]
    assert len(set(written)) == len(factories)
    again = Prior.isotropic(n_arms=2, n_features=2, variance=2.0)
    assert describe(partial(EbmUCB, prior=again)) == describe(partial(EbmUCB, prior=priors[1]))


def test_a_known_prior_and_the_oracle_come_from_the_draw():
    draw = SyntheticWorld(**SIZES).draw(0, 5)
    known = build(partial(EbmUCB, prior="known"), draw, **SIZES)
    np.testing.assert_array_equal(known.prior.covariance, draw.prior.covariance)
    oracle = build(Oracle, draw, **SIZES)
    assert oracle.choose(0, draw.contexts[0], 1, np.random.default_rng(0)) in (0, 1)


def test_a_world_that_does_not_know_cannot_tell():
    draw = SyntheticWorld(**SIZES).draw(0, 5)
    silent = Draw(draw.tasks, draw.contexts, draw.expected, draw.rewards, None, None, draw.arrival_probabilities)
    with pytest.raises(InvalidValue, match="population"):
        build(partial(EbmUCB, prior="known"), silent, **SIZES)
    with pytest.raises(InvalidValue, match="coefficients"):
        build(Oracle, silent, **SIZES)
