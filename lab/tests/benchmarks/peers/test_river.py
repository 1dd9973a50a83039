import numpy as np
import pytest

pytest.importorskip("river")

from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED
from posse_lab.benchmarks.peers.river import PEER


@pytest.mark.parametrize("form", PEER.forms)
def test_it_learns_an_easy_world(form, easy, late_regret):
    assert late_regret(PEER.build(easy.size, form, 0, PEER.recommended)) < 0.2


@pytest.mark.parametrize("setting", PEER.grid, ids=str)
def test_every_setting_of_the_grid_runs(setting, easy, late_regret):
    assert late_regret(PEER.build(easy.size, POOLED, 0, setting)) < 0.5


def test_what_it_is_given_and_told(easy):
    entry = PEER.build(easy.size, PER_TASK, 0, PEER.recommended)
    given = entry.given(2, np.array([0.5, -2.0, 1.0]), 1)

    assert given[1:] == ([0, 1, 2], {0: 0.5, 1: -2.0, 2: 1.0})
    assert entry.outcome(given, 1, 0.25) == (given[0], 1, given[2], 0.25)
    assert entry.given(3, np.zeros(3), 1)[0] is not given[0]
