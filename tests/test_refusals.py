"""What does not go together, beyond the options of a fleet (tests/fleet/test_matrix.py), says so in one clear error.

Those of TO_COME are to be lifted: when one is, it fails here until its line is deleted. Those of STAYS are not.
"""

import numpy as np
import polars as pl
import pytest

from posse import Catalogue, Posse
from posse.errors import InvalidValue, PosseError
from posse.model import Prior
from posse.policies import EbmUCB

ARMS = ["red", "green"]
ROWS = {"task": ["a", "b", "a", "b"], "arm": ["red", "green"] * 2, "x": [0.1, 0.2, 0.3, 0.4], "reward": [0, 1, 1, 0]}


def fleet(**settings):
    return Posse(ARMS, ["x"], seed=1, **settings)


def defined(**given):
    """Declare a fleet of a service."""
    from posse.service.definition import new_definition
    from posse.service.settings import Limits

    plain = {
        "arms": ARMS, "features": ["x"], "intercept": True, "policy": "ebm-ts", "prior": None, "exploration": None,
        "floor": 0.0, "evaluation_budget": 0.0, "refresh_growth": 0.3, "robust": False, "time_to_live": 1e6,
        "absent_reward": None, "count_pending": True, "retention": None,
    }  # fmt: skip
    return new_definition(plain | given, Limits())


def sharded(**settings):
    """Declare a fleet in shards; one that may be then asks for Ray, and for a cluster that is not there."""
    from posse.distributed import ShardedPosse

    try:
        ShardedPosse(ARMS, ["x"], address="127.0.0.1:1", **settings)
    except InvalidValue:
        raise
    except PosseError:
        return


def catalogue(**settings):
    return Catalogue(["x"], ["price"], seed=1, **settings)


def written(folder):
    """Write two files of rows; return their pattern."""
    for place in range(2):
        pl.DataFrame(ROWS | {"when": [1e9 + place] * 4}).write_parquet(folder / f"{place}.parquet")
    return str(folder / "*.parquet")


def own_population(stats):
    return Prior.isotropic(n_arms=2, n_features=2, variance=1.0)


def decided(**settings):
    policy = EbmUCB(n_tasks=2, n_arms=2, n_features=2, **settings)
    return policy.choose(0, [1.0, 0.5], 1, np.random.default_rng(0))


def sampled(rewards):
    one = fleet(rewards=rewards)
    one.learn_many(ROWS)
    one.refresh(sample=2)


def part_of_a_file(folder, **settings):
    one = fleet(**settings)
    one.learn_many(ROWS)
    one.save(folder / "fleet.posse")
    return Posse.load(folder / "fleet.posse", tasks=["a"])


def merged(first, second):
    north, south = fleet(**first), fleet(**second)
    south.learn_many(ROWS)
    north.merge(south)


def twice(folder):
    one = fleet()
    one.learn_many(ROWS)
    one.save(folder / "fleet.posse")
    one.merge(Posse.load(folder / "fleet.posse"))


def with_a_known_population():
    known = Prior.isotropic(n_arms=2, n_features=2, variance=1.0)
    fleet(prior=known).add_arm("blue")


TO_COME = {
    "shards that learn half-lives": (lambda _: sharded(drift="learn"), "expected a half-life, or no drift"),
    "robust shards": (lambda _: sharded(robust=True), "expected robust=False for a sharded fleet"),
    "shards estimated in the background": (
        lambda _: sharded(background=True), "expected no background for a sharded fleet"
    ),
    "a population of one's own with drift": (
        lambda _: decided(prior=own_population, drift=100.0), "expected prior='evidence' with drift"
    ),
    "robust clicks": (lambda _: fleet(rewards="binary", robust=True), "expected robust=False for rewards='binary'"),
}  # fmt: skip
STAYS = {
    "a new arm in a population that is known": (lambda _: with_a_known_population(), "is known about a new arm"),
    "a merge of fleets with other drift": (
        lambda _: merged({"drift": 30.0}, {}), "only if old rewards fade in the same way in both"
    ),
    "a merge with a fleet's own past": (twice, "have a common past"),
    "a merge of numbers and clicks": (lambda _: merged({}, {"rewards": "binary"}), "a fleet of rewards='number'"),
    "shards under another prior than evidence": (lambda _: sharded(prior="paper"), "prior='evidence' for a sharded"),
    "a population of one's own for clicks": (
        lambda _: decided(rewards="binary", prior=own_population), "expected prior='evidence'"
    ),
    "clicks under another prior than evidence": (
        lambda _: fleet(rewards="binary", prior="paper"), "expected prior='evidence' for rewards='binary'"
    ),
    "a sample of clicks": (lambda _: sampled("binary"), "expected no sample for binary rewards"),
    "clicks under a policy without a population": (
        lambda _: fleet(rewards="binary", policy="lin-ucb"), "expected a policy of "
    ),
    "learning with some tasks only": (
        lambda folder: part_of_a_file(folder, drift="learn").learn_many(ROWS), "only some tasks of this fleet"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TO_COME)
def test_what_is_refused_until_it_is_lifted(tmp_path, name):
    attempt, words = TO_COME[name]
    with pytest.raises((InvalidValue, TypeError)) as refused:
        attempt(tmp_path)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_refused(tmp_path, name):
    attempt, words = STAYS[name]
    with pytest.raises(InvalidValue) as refused:
        attempt(tmp_path)
    assert words in str(refused.value)
