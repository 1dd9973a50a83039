"""What compiled calls of a fleet open, made from a belief with whole matrices."""

import numpy as np
import pytest

from posse.kernels.decision_arrays import DECISION_ARRAYS, DecisionArrays, set_roots, set_triangles
from posse.kernels.lanes import new_lanes
from posse.kernels.llvm.handle import Handle
from posse.kernels.propensity import score_room
from posse.kernels.rule import Rule
from posse.kernels.select import SAMPLING


def spoiled_lanes(d):
    """Return what one thread works in; whatever was there before must not matter."""
    lanes = new_lanes(d)
    lanes.room[:] = np.nan
    return lanes


def make_ground(belief, rule=None):
    """Return a handle of a copy of ``belief`` with symmetric matrices over slots as triangles, all of it settled."""
    n_arms, d = belief.shared_mean.shape
    upper = np.triu_indices(d)
    sums = belief.sums._replace(gram=belief.sums.gram[:, *upper])
    packed = belief._replace(sums=sums, local_covariance=belief.local_covariance[:, *upper])
    copied = packed._replace(
        sums=type(sums)(*(np.array(field, order="C") for field in sums)),
        **{
            name: np.array(field, order="C")
            for name, field in zip(packed._fields, packed, strict=True)
            if name != "sums"
        },
    )
    root, triangle = np.empty((n_arms, d, d)), np.empty((n_arms, d * (d + 1) // 2))
    set_roots(belief.covariance, root)
    set_triangles(belief.covariance, triangle)
    return Handle(
        DECISION_ARRAYS,
        DecisionArrays(
            belief=copied,
            root=root,
            triangle=triangle,
            silent=np.zeros(n_arms),
            settled=np.zeros(belief.task_of.size, dtype=np.int64),
            generation=np.zeros(1, dtype=np.int64),
            rule=rule or Rule(SAMPLING.scaled(0.7), 0.0, 0.0),
            lanes=spoiled_lanes(d),
            vectors=np.full((4, d), np.nan),
            scores=np.full((5, score_room(n_arms)), np.nan),
            one=np.zeros(1, dtype=np.int64),
        ),
    )


@pytest.fixture(scope="session")
def ground_of():
    return make_ground
