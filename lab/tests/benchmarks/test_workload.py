import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from posse.model import Statistics, estimate_prior
from posse.policies import EbmTS, EbmUCB
from posse_lab.benchmarks import workload
from posse_lab.benchmarks.workload import (
    NEVER,
    Around,
    Size,
    draw_rows,
    each,
    feature_names,
    new_fleet,
    table_of,
    tables,
    taught_fleet,
    taught_policy,
)

SIZE = Size(7, 5, 3)


def test_every_pair_comes_once_in_a_turn():
    rows = draw_rows(SIZE, 35, 70)
    assert sorted(zip(rows.tasks.tolist(), rows.arms.tolist(), strict=True)) == [
        (task, arm) for task in range(7) for arm in range(5)
    ]


def test_rows_are_the_same_whenever_they_are_drawn_and_differ_from_others():
    one, again, other = (draw_rows(SIZE, first, first + 50) for first in (0, 0, 50))
    for a, b in zip(one, again, strict=True):
        assert_array_equal(a, b)
    assert not np.array_equal(one.contexts, other.contexts)


def test_coefficients_are_of_one_population_and_stay_with_their_task():
    size = Size(200, 2, 3)
    rows = draw_rows(size, 0, 40_000)
    stats = Statistics.from_data(
        task=rows.tasks, arm=rows.arms, context=rows.contexts, reward=rows.rewards, n_tasks=200, n_arms=2
    )
    prior = estimate_prior(stats, method="moments").prior

    # 200 tasks leave a standard error of a tenth of a variance; sines have a variance of 0.09.
    assert_allclose(np.diagonal(prior.covariance, axis1=1, axis2=2), 0.09, rtol=0.4)
    assert_allclose(prior.noise_variance, 1.0, rtol=0.05)


def test_a_table_names_what_a_fleet_knows():
    rows = draw_rows(SIZE, 0, 30)
    table = table_of(rows, SIZE.n_arms)

    assert table.columns == ["task", "arm", *feature_names(3), "reward"]
    assert table["task"].to_list() == rows.tasks.tolist()
    assert table["arm"].to_list() == [f"arm-{arm}" for arm in rows.arms]
    assert_array_equal(table["x1"].to_numpy(), rows.contexts[:, 1])
    assert new_fleet(SIZE).learn_many(table) == 30


def test_pieces_make_up_the_whole(monkeypatch):
    monkeypatch.setattr(workload, "FIRST_PIECE", 10)
    monkeypatch.setattr(workload, "PIECE", 100)
    pieces = list(tables(SIZE, 250))

    assert [len(piece) for piece in pieces] == [10, 100, 100, 40]
    assert sum(len(piece) for piece in tables(SIZE, 5)) == 5


def test_a_taught_fleet_has_four_rewards_of_every_pair_and_refreshes_no_more():
    fleet = taught_fleet(SIZE)
    before = fleet.prior.covariance.copy()
    assert_array_equal(fleet.statistics.count, 4.0)

    fleet.learn_many(table_of(draw_rows(SIZE, 0, 500), SIZE.n_arms))
    assert_array_equal(fleet.prior.covariance, before)


def test_a_taught_policy_has_seen_every_pair_and_refreshes_no_more():
    for sampling in (True, False):
        policy = taught_policy(SIZE, sampling=sampling)
        assert isinstance(policy, EbmTS if sampling else EbmUCB)
        assert policy.refresh_growth == NEVER
        assert_array_equal(policy.statistics.count, 1.0)
        before = policy.prior.covariance
        for task, arm, x, reward in each(draw_rows(SIZE, 0, 200)):
            policy.update(task, arm, x, reward)
        assert_array_equal(policy.prior.covariance, before)


def test_going_around():
    around = Around([1, 2, 3])
    assert [list(around.take(2)), list(around.take(4))] == [[1, 2], [3, 1, 2, 3]]
