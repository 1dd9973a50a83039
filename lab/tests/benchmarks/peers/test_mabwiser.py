import numpy as np
import pytest

pytest.importorskip("mabwiser")

from numpy.testing import assert_allclose

from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED
from posse_lab.benchmarks.peers.mabwiser import PEER


@pytest.mark.parametrize("form", PEER.forms)
def test_it_learns_an_easy_world(form, easy, late_regret):
    assert late_regret(PEER.build(easy.size, form, 0, PEER.recommended)) < 0.2


@pytest.mark.parametrize("setting", PEER.grid, ids=str)
def test_every_setting_of_the_grid_runs(setting, easy, late_regret):
    assert late_regret(PEER.build(easy.size, POOLED, 0, setting)) < 0.5


def test_it_begins_knowing_nothing_and_learns_ridge_regression(easy):
    entry = PEER.build(easy.size, PER_TASK, 0, PEER.recommended)
    X, y = np.array(easy.contexts[:5]), [1.0, -2.0, 0.5, 0.0, 3.0]
    model = entry.given(1, X[0], 1)[0]._imp.arm_to_model
    assert_allclose(model[0].A, np.eye(3))

    for context, reward in zip(X, y, strict=True):
        entry.update(*entry.outcome(entry.given(1, context, 1), 2, reward))
    model = entry.given(1, X[0], 1)[0]._imp.arm_to_model
    assert_allclose(model[2].beta, np.linalg.solve(np.eye(3) + X.T @ X, X.T @ y))
    assert_allclose(model[0].A, np.eye(3))
    assert_allclose(entry.given(0, X[0], 1)[0]._imp.arm_to_model[2].A, np.eye(3))
