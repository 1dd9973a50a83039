"""The hierarchical policies' kernels: an opened handle gives what the arrays themselves give, to the last bit."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.kernels import ebm, estimators
from posse.kernels.batches import REWARD_BATCH, RewardBatch
from posse.kernels.llvm.handle import Handle
from posse.kernels.posterior import new_buffers, observe, predict, rebuild
from posse.kernels.select import OPTIMISTIC, explore
from posse.model import Prior, Statistics, new_belief
from posse.policies import EbmTS, EbmUCB

N, K, D = 6, 3, 4
rng = np.random.default_rng(8)
KNOWN = Prior(
    covariance=[np.diag([2.0, 0.5, 0.3, 1.0]) + 0.1] * K,
    noise_variance=[0.3, 1.2, 3.0],
    shared_precision=[0.2, 0.5, 0.05],
)


class Plain:
    """The policy with a known prior, from the kernels that take named tuples."""

    def __init__(self, exploration, first_pulls):
        self.exploration, self.first_pulls = exploration, first_pulls
        self.buffers = new_buffers(D)
        self.belief = new_belief(Statistics.zeros(n_tasks=N, n_arms=K, n_features=D), KNOWN, self.buffers)
        self.rebuilt_at = np.zeros(K)

    def choose(self, task, context, step, rng):
        draws = rng.standard_normal(K)
        if self.first_pulls and step <= K:
            return step - 1
        mean, sd = self.predict(task, context)
        return explore(mean, sd, step, self.exploration, draws)

    def predict(self, task, context):
        mean, sd = np.empty(K), np.empty(K)
        predict(self.belief, task, context, self.buffers, mean, sd)
        return mean, sd

    def update(self, task, arm, context, reward):
        observe(self.belief, arm, task, context, reward, self.buffers)
        at = self.rebuilt_at[arm]
        if self.belief.rewards[arm] - at >= max(1.0, at):
            rebuild(self.belief, arm, self.buffers)
            self.rebuilt_at[arm] = self.belief.rewards[arm]


@pytest.mark.parametrize("policy", [EbmUCB, EbmTS])
@pytest.mark.parametrize("first_pulls", [True, False])
def test_decisions_and_beliefs_are_those_of_the_named_tuples(policy, first_pulls):
    quick = policy(
        n_tasks=N, n_arms=K, n_features=D, prior=KNOWN, exploration=0.7, refresh_growth=1.0, first_pulls=first_pulls
    )
    plain = Plain(policy.explores.scaled(0.7), first_pulls)
    stream, other = np.random.default_rng(1), np.random.default_rng(1)
    for step in range(1, 400):
        task, x = int(rng.integers(N)), rng.standard_normal(D)
        arm = quick.choose(task, x, step, stream)
        assert arm == plain.choose(task, x, step, other)
        reward = float(rng.standard_normal())
        quick.update(task, arm, x, reward)
        plain.update(task, arm, x, reward)
        believed = quick.predict(task, x)
        assert_array_equal([believed.mean, believed.sd], plain.predict(task, x))
    assert stream.bit_generator.state == other.bit_generator.state


def handle_of(method, growth, n_arms=K):
    belief = new_belief(
        Statistics.zeros(n_tasks=N, n_arms=n_arms, n_features=D), Prior.isotropic(n_arms=n_arms, n_features=D)
    )
    return Handle(
        ebm.STATE,
        ebm.State(
            belief,
            estimators.new_memory(n_arms, N, D),
            new_buffers(D),
            OPTIMISTIC.scaled(0.1),
            True,
            method,
            np.array([growth]),
            loop_at=0,
            advance_at=0,
        ),
    )


def rows_of(arms):
    n = len(arms)
    return Handle(
        REWARD_BATCH,
        RewardBatch(np.zeros(n, dtype=np.int64), np.array(arms), rng.standard_normal((n, D)), rng.standard_normal(n)),
    )


@pytest.mark.parametrize(
    ("method", "rewards", "refreshed_at", "expected"),
    [
        # Arm 1 has 20 rewards and was refreshed at 20: at growth 0.1 two more are needed, of its own.
        (estimators.PAPER, [5.0, 20.0, 5.0], [5.0, 20.0, 5.0], 1),
        (estimators.PAPER, [40.0, 20.0, 40.0], [40.0, 20.0, 40.0], 5),
        # A known prior is rebuilt when rewards have doubled, whatever the growth.
        (estimators.KNOWN, [9.0, 2.0, 9.0], [9.0, 2.0, 9.0], 5),
        (estimators.KNOWN, [9.0, 20.0, 9.0], [9.0, 20.0, 9.0], -6),
    ],
)
def test_the_next_refresh_is_found_by_counting(method, rewards, refreshed_at, expected):
    handle = handle_of(method, 0.1)
    handle.parts.belief.rewards[:] = rewards
    handle.parts.memory.refreshed_at[:] = refreshed_at
    rows = rows_of([2, 1, 0, 0, 1, 2])

    assert ebm.next_refresh(handle.address, rows.address, 0) == expected
    assert_array_equal(handle.parts.belief.rewards, rewards)


def test_the_evidence_prior_counts_the_rewards_of_all_arms():
    handle = handle_of(estimators.EVIDENCE, 0.1)
    handle.parts.belief.rewards[:] = [10.0, 7.0, 3.0]
    handle.parts.memory.evidence.refreshed_at[0] = 18.0  # two more have come; 1.8 are enough
    rows = rows_of([2, 1, 0, 0])
    assert ebm.next_refresh(handle.address, rows.address, 0) == 1

    handle.parts.memory.evidence.refreshed_at[0] = 20.0
    assert ebm.next_refresh(handle.address, rows.address, 0) == 2
    assert ebm.next_refresh(handle.address, rows.address, 1) == 3
    assert ebm.next_refresh(handle.address, rows.address, 3) == -4


def test_many_arms_need_no_stack():
    # More than fit: the room is taken elsewhere.
    n_arms = 3000
    handle = handle_of(estimators.KNOWN, 1.0, n_arms)
    out = np.empty((2, n_arms))
    x = rng.standard_normal(D)
    ebm.believe(handle.address, 2, x, out)
    arm = ebm.decide(handle.address, 2, x, n_arms + 1, np.zeros(n_arms))
    assert arm == np.argmax(out[0] + 0.1 * np.sqrt(np.log(n_arms + 1)) * out[1])
