"""Sites that are made again, against a rebuild from scratch and against their own fixed point."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.families import LINKED
from posse.kernels.kept_rows import change_site, make_sites_again
from posse.kernels.posterior import new_buffers, predict_arm, rebuild
from posse.kernels.sites import expectations
from posse.model import Prior, Statistics, new_belief, posterior
from posse.model.family_prior import table_rows

BINARY, COUNT = (LINKED[name].code for name in ("binary", "count"))
D, N = 3, 12
PRIOR = Prior(
    covariance=[[[0.8, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.3]]], noise_variance=1.0, shared_precision=0.3
)


def taught(family, n_rows=150, seed=2):
    rng = np.random.default_rng(seed)
    slot = rng.integers(0, N, n_rows)
    X = np.column_stack([np.ones(n_rows), rng.normal(size=(n_rows, D - 1))])
    eta = np.einsum("ni,ni->n", X, (np.array([-0.7, 0.5, 0.2]) + 0.6 * rng.normal(size=(N, D)))[slot])
    y = rng.poisson(np.exp(eta)) * 1.0 if family == COUNT else (rng.random(n_rows) < 1 / (1 + np.exp(-eta))) * 1.0
    rows = table_rows(slot, X, y, N)
    stats = Statistics.zeros(n_tasks=N, n_arms=1, n_features=D)
    stats.count[0] = rows.kept
    return rows, stats, new_belief(stats, PRIOR)


@pytest.mark.parametrize("family", [BINARY, COUNT])
def test_passes_end_where_every_site_fits_its_own_belief(family):
    rows, stats, belief = taught(family)
    moves = [make_sites_again(belief, rows, 0, family, 1, new_buffers(D)) for _ in range(12)]
    assert moves[0] > 1e-2
    assert moves[-1] < 1e-6

    # What the rows' own sums say, by plain formulas.
    after = posterior(stats, PRIOR)
    for slot in range(N):
        for place in range(rows.first[slot], rows.first[slot] + rows.kept[slot]):
            x = rows.contexts[place]
            e, q = x @ after.mean[0, slot], x @ after.covariance[0, slot] @ x
            mean, slope = expectations.py_func(family, e, q)[:2]
            assert_allclose(rows.precision[place], slope, rtol=1e-4)
            assert_allclose(rows.moment[place], rows.rewards[place] - mean + slope * e, rtol=1e-4, atol=1e-5)


def test_a_changed_site_changes_the_belief_as_a_rebuild_would():
    rows, _, belief = taught(BINARY)
    make_sites_again(belief, rows, 0, BINARY, 1, new_buffers(D))
    x = np.array([1.0, -0.4, 2.0])
    vectors = np.empty((3, D))
    for precision, moment in ((0.7, -1.3), (-0.3, 0.4)):
        predict_arm.py_func(belief, 4, 0, x, vectors)
        change_site.py_func(belief, 0, 4, x, precision, moment, vectors)
    stepped = [field.copy() for field in (belief.local_mean[4], belief.local_covariance[4])]
    shared = [belief.shared_mean.copy(), belief.shared_covariance.copy()]
    rebuild(belief, 0, new_buffers(D))
    assert_allclose(stepped[0], belief.local_mean[4], rtol=1e-9)
    assert_allclose(stepped[1], belief.local_covariance[4], rtol=1e-9, atol=1e-12)
    assert_allclose(shared[0], belief.shared_mean, rtol=1e-9)
    assert_allclose(shared[1], belief.shared_covariance, rtol=1e-9, atol=1e-12)
