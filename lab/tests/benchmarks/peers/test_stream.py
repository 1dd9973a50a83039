import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from posse_lab.benchmarks.peers.stream import TUNING_SEED, draw_stream, lessons, world_of
from posse_lab.benchmarks.workload import Size

SIZE = Size(7, 3, 4)


def test_a_stream_is_the_draw_of_its_world():
    stream, draw = draw_stream(SIZE, 5, 30), world_of(SIZE).draw(5, 30)

    assert stream.tasks == draw.tasks.tolist()
    assert_array_equal(stream.contexts, draw.contexts)
    assert_array_equal(stream.expected, draw.expected)
    assert_array_equal(stream.rewards, draw.rewards)
    assert all(context.base is None and context.flags.c_contiguous for context in stream.contexts)


def test_a_longer_stream_begins_alike():
    short, long = draw_stream(SIZE, 2, 10), draw_stream(SIZE, 2, 25)

    assert long.tasks[:10] == short.tasks
    assert_array_equal(long.rewards[:10], short.rewards)


def test_the_head_of_a_stream_is_its_first_steps():
    head, short = draw_stream(SIZE, 2, 25).head(10), draw_stream(SIZE, 2, 10)

    assert (len(head), head.tasks) == (10, short.tasks)
    assert_array_equal(head.contexts, short.contexts)
    assert head.random_regret == short.random_regret


def test_regret_is_what_was_missed_on_average():
    stream = draw_stream(SIZE, 0, 12)
    worst, best = stream.expected.argmin(axis=1), stream.expected.argmax(axis=1)
    missed = np.ptp(stream.expected, axis=1)

    assert_allclose(stream.regret(best), 0.0)
    assert_allclose(stream.regret(worst), np.cumsum(missed))
    assert_allclose(stream.regret(worst[:5]), np.cumsum(missed)[:5])


def test_random_regret_is_the_mean_over_arms():
    stream = draw_stream(SIZE, 0, 12)
    each = [stream.regret(np.full(12, arm))[-1] for arm in range(SIZE.n_arms)]

    assert_allclose(stream.random_regret, np.mean(each))


def test_settings_are_tuned_on_a_seed_that_is_not_reported():
    assert TUNING_SEED > 10**6
    assert draw_stream(SIZE, TUNING_SEED, 10).tasks != draw_stream(SIZE, 0, 10).tasks


def test_lessons_have_every_pair_equally_often_and_fit_the_world():
    rows = lessons(SIZE, 3, 400)
    pairs = np.zeros((SIZE.n_arms, SIZE.n_tasks))
    np.add.at(pairs, (rows.arms, rows.tasks), 1)
    truth = world_of(SIZE).draw(3, 1).coefficients

    assert (pairs == 400).all()
    # Least squares finds the coefficients of the world again: 400 rewards, noise of standard deviation 1, contexts of
    # variance 2, so five standard errors are 0.18.
    for arm, task in ((0, 0), (2, 6), (1, 3)):
        some = (rows.arms == arm) & (rows.tasks == task)
        found = np.linalg.lstsq(rows.contexts[some], rows.rewards[some])[0]
        assert_allclose(found, truth[arm, task], atol=0.2)
    residuals = rows.rewards - np.einsum("nd,nd->n", rows.contexts, truth[rows.arms, rows.tasks])
    assert 0.9 < residuals.std() < 1.1
