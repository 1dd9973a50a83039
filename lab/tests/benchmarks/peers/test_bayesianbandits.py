import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse_lab.benchmarks.peers.bayesianbandits import BLOCKS, PEER, AgentEntry, block_row, block_rows, solver
from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED, TASK_BLOCKS
from posse_lab.benchmarks.peers.stream import lessons
from posse_lab.benchmarks.workload import Size

SIZE = Size(4, 3, 2)


def test_a_row_has_the_context_twice():
    row = block_row(SIZE, 2, np.array([0.5, -2.0]))

    assert row.shape == (1, 2 + 4 * 2)
    assert_array_equal(row.toarray(), [[0.5, -2.0, 0, 0, 0, 0, 0.5, -2.0, 0, 0]])
    assert row.has_canonical_format


@pytest.mark.parametrize("task", range(4))
def test_one_row_is_as_many_rows_are(task):
    contexts = np.array([[0.5, -2.0], [3.0, 1.0]])
    many = block_rows(SIZE, [task, 1], contexts)

    assert many.format == "csc"
    assert_array_equal(many.toarray()[:1], block_row(SIZE, task, contexts[0]).toarray())
    assert_array_equal(many.toarray()[1:], block_row(SIZE, 1, contexts[1]).toarray())


def test_the_solver_is_named():
    assert solver() in ("CHOLMOD", "SuperLU")


@pytest.mark.parametrize("form", PEER.forms)
def test_it_learns_an_easy_world(form, easy, late_regret):
    pytest.importorskip("bayesianbandits")

    assert late_regret(PEER.build(easy.size, form, 0, PEER.recommended)) < 0.2


@pytest.mark.parametrize("setting", PEER.grid, ids=str)
def test_every_setting_of_the_grid_runs(setting, easy, late_regret):
    pytest.importorskip("bayesianbandits")

    assert late_regret(PEER.build(easy.size, POOLED, 0, setting)) < 0.3


@pytest.mark.parametrize("setting", BLOCKS.trials, ids=str)
def test_task_blocks_learn_an_easy_world(setting, easy, late_regret):
    pytest.importorskip("bayesianbandits")

    assert late_regret(BLOCKS.build(easy.size, TASK_BLOCKS, 0, setting)) < 0.3


def test_a_task_learns_alone_or_from_the_others():
    pytest.importorskip("bayesianbandits")
    x = np.array([1.0, 0.5])
    means = {}
    for peer, form in ((PEER, PER_TASK), (PEER, POOLED), (BLOCKS, TASK_BLOCKS)):
        entry = peer.build(SIZE, form, 0, BLOCKS.recommended)
        given = entry.given(0, x, 1)
        decided = entry.decide(*given)
        entry.update(*entry.outcome(given, decided, 3.0))
        found = []
        for task in (0, 1):
            agent, row = entry.given(task, x, 1)
            learner = agent.arm(entry.arm(decided)).learner
            found.append(float(learner.predict(row)[0]) if hasattr(learner, "coef_") else 0.0)
        means[form] = found

    # x'x = 1.25. One reward of 3 under precision 1: alone 3 * 1.25 / 2.25; with the context twice, 3 * 2.5 / 3.5, half
    # of it through the shared part.
    assert_allclose(means[PER_TASK], [3 * 1.25 / 2.25, 0.0])
    assert_allclose(means[POOLED], [3 * 1.25 / 2.25] * 2)
    assert_allclose(means[TASK_BLOCKS], [3 * 2.5 / 3.5, 3 * 1.25 / 3.5])


def test_lessons_at_once_are_lessons_one_by_one():
    pytest.importorskip("bayesianbandits")
    rows = lessons(SIZE, 0, 2)
    at_once, by_one = (AgentEntry(SIZE, TASK_BLOCKS, 0, BLOCKS.recommended) for _ in range(2))
    at_once.teach(rows)
    for task, arm, context, reward in zip(rows.tasks, rows.arms, rows.contexts, rows.rewards, strict=True):
        by_one.agents[0].select_for_update(int(arm)).update(block_row(SIZE, task, context), np.array([reward]))

    for arm in range(SIZE.n_arms):
        one, other = (entry.agents[0].arm(arm).learner.coef_ for entry in (at_once, by_one))
        assert_allclose(one, other, atol=1e-9)
