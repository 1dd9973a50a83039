"""The population of the arms, against the joint Gaussian of the common mean, all shared means and all rewards."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from posse.kernels import arms, evidence
from posse.kernels.posterior import new_buffers
from posse.model import Prior, Statistics, new_belief, posterior
from posse.model import log_evidence as plain_log_evidence
from posse.model.refresh import LiveReader, Refresh

K, N, D = 3, 4, 2
SPREAD = 0.7  # precision of the shared means around the common one, in standardised features


def draw_rows(seed=0, n=40):
    rng = np.random.default_rng(seed)
    context = rng.standard_normal((n, D)) * [1.0, 2.0] + 0.5
    # The last arm has no rewards: it knows what the others say, and says nothing.
    return {
        "task": rng.integers(N, size=n),
        "arm": rng.integers(K - 1, size=n),
        "context": context,
        "reward": 2.0 + context @ [0.7, -0.3] + rng.standard_normal(n),
    }


class State:
    """A belief and an evidence memory at a population that is neither 0, 1 nor the identity."""

    def __init__(self, rows, n_arms=K, weights=False):
        self.rows = rows
        self.stats = Statistics.from_data(**rows, n_tasks=N, n_arms=n_arms)
        half = np.random.default_rng(5).standard_normal((n_arms, D + 2, D))
        self.prior = Prior(covariance=half.transpose(0, 2, 1) @ half / 3, noise_variance=np.linspace(0.4, 0.9, n_arms))
        self.buffers = new_buffers(D)
        self.belief = new_belief(self.stats, self.prior, self.buffers)
        if weights:
            self.belief.task_weight[:] = np.linspace(0.4, 1.7, N)
        self.evidence = evidence.new_evidence(n_arms, N, D, 0.0)
        # Learned before, from these features: to begin is only to measure.
        self.evidence.refreshed_at[0], self.evidence.feature_seen[:] = n_arms, True
        self.refresh = Refresh(self.belief, self.evidence, in_place=True)
        self.refresh.begin(LiveReader(self.belief), steps=1, settled=0.0)
        self.evidence.shared_scale[0] = SPREAD
        self.evidence.arm_mean[:] = 0.8, -0.2
        self.evidence.arm_covariance[:] = 0.3 * np.eye(D)

    def rebuild(self):
        self.refresh.look_from(LiveReader(self.belief), shared=True)

    @property
    def lam(self):
        return np.diag(self.evidence.shared_scale[0] * self.evidence.feature_square)

    @property
    def width(self):
        """W, at which the common mean was last learned."""
        return np.diag(1 / self.evidence.arm_precision)

    def joint(self, lam=None, width=None):
        """Covariance of (M, b_1 .. b_K, rewards), all of mean 0."""
        lam, width = self.lam if lam is None else lam, self.width if width is None else width
        n_arms, X = self.stats.n_arms, self.rows["context"]
        task, arm, weight = self.rows["task"], self.rows["arm"], self.belief.task_weight
        shared = np.tile(width, (n_arms + 1, n_arms + 1))
        shared[D:, D:] += np.kron(np.eye(n_arms), np.linalg.inv(lam))
        pick = np.zeros((len(X), (n_arms + 1) * D))
        for row, k in enumerate(arm):
            pick[row, (k + 1) * D : (k + 2) * D] = X[row]
        same = (task[:, None] == task) & (arm[:, None] == arm)
        own = np.einsum("na,nab,mb->nm", X, self.belief.covariance[arm] / weight[task, None, None], X)
        rewards = pick @ shared @ pick.T + same * own + np.diag(self.belief.noise_variance[arm])
        return np.block([[shared, shared @ pick.T], [pick @ shared, rewards]])

    def condition(self):
        """Mean and covariance of (M, b_1 .. b_K) given all rewards."""
        total, n = self.joint(), (self.stats.n_arms + 1) * D
        gain = np.linalg.solve(total[n:, n:], total[n:, :n]).T
        return gain @ self.rows["reward"], total[:n, :n] - gain @ total[n:, :n]

    def dense_log_evidence(self, lam=None):
        n, y = (self.stats.n_arms + 1) * D, self.rows["reward"]
        return multivariate_normal(np.zeros(len(y)), self.joint(lam)[n:, n:]).logpdf(y)


@pytest.fixture(params=[False, True], ids=["tasks alike", "tasks weighted"])
def state(request):
    state = State(draw_rows(), weights=request.param)
    state.rebuild()
    return state


def test_the_common_mean_and_all_shared_means_are_those_of_the_joint_gaussian(state):
    mean, covariance = state.condition()

    assert_allclose(state.evidence.arm_mean, mean[:D], rtol=1e-9)
    assert_allclose(state.evidence.arm_covariance, covariance[:D, :D], rtol=1e-9, atol=1e-12)
    for arm in range(K):
        here = slice((arm + 1) * D, (arm + 2) * D)
        assert_allclose(state.belief.shared_mean[arm], mean[here], rtol=1e-9)
        assert_allclose(state.belief.shared_covariance[arm], covariance[here, here], rtol=1e-8, atol=1e-12)


def test_the_prior_of_an_arm_is_what_the_rewards_of_all_others_say_about_it(state):
    for arm in range(K):
        others = State({name: values[state.rows["arm"] != arm] for name, values in state.rows.items()})
        others.belief.task_weight[:] = state.belief.task_weight
        others.evidence.feature_square[:] = state.evidence.feature_square
        others.evidence.arm_precision[:] = state.evidence.arm_precision
        mean, covariance = others.condition()
        here = slice((arm + 1) * D, (arm + 2) * D)

        assert_allclose(state.belief.shared_location[arm], mean[here], rtol=1e-9)
        assert_allclose(np.linalg.inv(state.belief.shared_precision[arm]), covariance[here, here], rtol=1e-8)


def test_what_tasks_say_is_read_back_from_the_posterior_in_force(state):
    information, moment = state.evidence.information.copy(), state.evidence.moment.copy()
    state.evidence.information[:], state.evidence.moment[:] = np.nan, np.nan

    arms.gather_arms(state.belief, state.evidence, state.buffers)

    assert_allclose(state.evidence.information, information, rtol=1e-8, atol=1e-10)
    assert_allclose(state.evidence.moment, moment, rtol=1e-8, atol=1e-10)
    assert (state.evidence.information[K - 1] == 0).all(), "no rewards, nothing said"
    # Not in force any more: a reward came in between, and is part of what is read.
    belief, x = state.belief, np.array([0.3, -1.2])
    from posse.kernels.posterior import observe

    observe(belief, 0, 1, x, 2.5, state.buffers)
    arms.gather_arms(belief, state.evidence, state.buffers)
    # The belief works on the arrays of the statistics, so they have the reward too.
    flat = Prior(
        covariance=belief.covariance,
        noise_variance=belief.noise_variance,
        shared_precision=np.tile(np.eye(D), (K, 1, 1)),
    )
    alone = np.linalg.inv(posterior(state.stats, flat, belief.task_weight).shared_covariance[0]) - np.eye(D)
    assert_allclose(state.evidence.information[0], alone, rtol=1e-8)


def test_log_evidence_is_the_density_of_all_rewards(state):
    found = evidence.log_evidence_of(state.belief, state.evidence, state.buffers)

    assert found == pytest.approx(state.dense_log_evidence(), rel=1e-10)


def test_a_lone_arm_has_the_plain_evidence_of_a_wide_shared_mean():
    rows = draw_rows()
    state = State(rows | {"arm": np.zeros(len(rows["arm"]), dtype=int)}, n_arms=1)
    state.rebuild()
    wide = Prior(
        covariance=state.belief.covariance,
        noise_variance=state.belief.noise_variance,
        shared_precision=np.linalg.inv(np.linalg.inv(state.lam) + state.width)[None],
    )

    found = evidence.log_evidence_of(state.belief, state.evidence, state.buffers)

    assert found == pytest.approx(plain_log_evidence(state.stats, wide)[0], rel=1e-10)
    assert_allclose(state.belief.shared_precision, wide.shared_precisions, rtol=1e-9)
    assert_allclose(state.belief.shared_location, 0.0, atol=1e-12)


def test_the_slope_of_the_spread_is_that_of_the_evidence(state):
    # Of the log variance, W held: pool_arms takes W from the common mean as it was before.
    h = 1e-5
    rise = [state.dense_log_evidence(state.lam * np.exp(-move)) for move in (h, -h)]

    assert state.evidence.arm_summary[arms.SLOPE] == pytest.approx((rise[0] - rise[1]) / (2 * h), rel=1e-6)


def test_the_information_about_the_spread_is_fishers(state):
    # 1/2 tr (V^-1 dV)^2 of the covariance V of all rewards, where they settle the coefficients; pool_arms leaves out
    # what arms have in common, so that many arms are counted, not their mean.
    n = (K + 1) * D
    total, more = state.joint(), state.joint(state.lam * np.exp(-1e-6))
    change = np.linalg.solve(total[n:, n:], (more[n:, n:] - total[n:, n:]) / 1e-6)
    known = 0.5 * np.trace(change @ change)

    assert known < state.evidence.arm_summary[arms.INFORMATION] < 0.5 * D * K


def test_a_common_mean_far_from_zero_is_let_go_and_a_small_one_is_held():
    state = State(draw_rows())
    scale = arms.NARROW * SPREAD * state.evidence.feature_square
    for mean, covariance in ((np.zeros(D), 0.0), (np.full(D, 1e3), 0.01)):
        state.evidence.arm_mean[:], state.evidence.arm_covariance[:] = mean, covariance * np.eye(D)
        arms.set_width(state.evidence)
        # The slope of log(1 + t^2) / 2 at the root mean square of the common mean, over that.
        assert_allclose(state.evidence.arm_precision, scale / (1 + scale * (mean**2 + covariance)))
    assert (state.evidence.arm_precision < 1.1e-6).all()


def test_a_constant_that_is_added_to_all_rewards_moves_the_common_mean_and_nothing_else():
    # The first feature is an intercept; W is that of an offset of 1e4 in both, so that only the data differ.
    rows = draw_rows()
    rows["context"][:, 0] = 1.0
    found = []
    for offset in (0.0, 1e4):
        state = State(rows | {"reward": rows["reward"] + offset})
        state.evidence.arm_covariance[:] = 1e14 * np.eye(D)
        arms.set_width(state.evidence)
        state.rebuild()
        found.append((state.belief.shared_mean - [offset, 0.0], state.belief.shared_covariance, state.evidence))

    assert_allclose(found[1][0], found[0][0], atol=1e-5)
    assert_allclose(found[1][1], found[0][1], rtol=1e-6)
    assert_allclose(found[1][2].arm_summary[arms.SLOPE], found[0][2].arm_summary[arms.SLOPE], rtol=1e-4)
    assert_allclose(found[1][2].reward_scatter, found[0][2].reward_scatter, rtol=1e-4)


def test_the_order_of_arms_does_not_matter_and_rounding_of_a_large_arm_drowns_no_small_one():
    state = State(draw_rows())
    state.rebuild()
    # An arm with 1e12 times the information of the others: what they say about it must survive to twelve digits.
    state.evidence.information[0] *= 1e12
    state.evidence.moment[0] *= 1e12
    arms.pool_arms(state.evidence, state.buffers)
    arms.share_arms(state.belief, state.evidence, state.buffers)
    lam, G = state.lam, state.evidence.information[1]
    passed = lam @ np.linalg.solve(lam + G, G) + np.diag(state.evidence.arm_precision)

    assert_allclose(state.belief.shared_precision[0], lam @ np.linalg.solve(lam + passed, passed), rtol=1e-9)
