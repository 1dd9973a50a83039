import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.environments import SyntheticWorld
from posse.environments.base import POLICY, stream
from posse.policies import EbmUCB
from posse.simulation.run import play
from posse_lab.benchmarks.direct import DirectEbmUCB

SIZE = {"n_tasks": 4, "n_arms": 3, "n_features": 2}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_it_pulls_the_arms_that_the_rank_one_step_pulls(seed):
    draw = SyntheticWorld(**SIZE).draw(seed, 300)
    direct = play(DirectEbmUCB(**SIZE), draw, stream(seed, POLICY), name="direct", seed=seed)
    policy = EbmUCB(**SIZE, prior="paper-unthresholded")
    quick = policy.play(draw.tasks, draw.contexts, draw.rewards, stream(seed, POLICY))

    assert_array_equal(direct.arms, quick.arms)


@pytest.mark.slow
@pytest.mark.slow
def test_another_estimator_pulls_others():
    # So that the test above can fail.
    draw = SyntheticWorld(**SIZE).draw(0, 300)
    direct = play(DirectEbmUCB(**SIZE), draw, stream(0, POLICY), name="direct", seed=0)
    other = EbmUCB(**SIZE, prior="moments").play(draw.tasks, draw.contexts, draw.rewards, stream(0, POLICY))

    assert np.mean(direct.arms != other.arms) > 0.05
