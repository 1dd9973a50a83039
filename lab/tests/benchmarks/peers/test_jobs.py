import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from posse_lab.benchmarks.peers import ours
from posse_lab.benchmarks.peers.catalogue import POSSE
from posse_lab.benchmarks.peers.jobs import Job, best_of, run_job, run_jobs
from posse_lab.benchmarks.peers.play import play
from posse_lab.benchmarks.peers.stream import draw_stream
from posse_lab.benchmarks.workload import Size

SIZE = Size(4, 3, 2)


def job(seed, **changes):
    settings = {"package": "posse", "form": ours.UCB, "settings": POSSE.recommended, "size": SIZE, "n_steps": 40}
    return Job(**settings | changes, seed=seed)


def test_a_job_is_the_regret_of_a_learner_on_the_stream_of_its_seed():
    stream = draw_stream(SIZE, 5, 40)
    entry = POSSE.build(SIZE, ours.UCB, 5, POSSE.recommended)

    assert_allclose(run_job(job(5)), stream.regret(play(entry, stream).arms))


def test_results_come_in_the_order_of_the_jobs():
    jobs = [job(seed, n_steps=n) for seed, n in ((0, 60), (1, 20), (2, 40))]
    alone, together = run_jobs(jobs, workers=1), run_jobs(jobs, workers=2)

    assert [len(regret) for regret in alone] == [60, 20, 40]
    for one, other in zip(alone, together, strict=True):
        assert_array_equal(one, other)


def test_a_job_stops_when_its_time_is_up():
    assert len(run_job(job(0, n_steps=200, seconds=0.0))) <= 20


def test_the_best_settings_are_those_with_the_least_regret_over_common_steps():
    trials = [{"a": 1}, {"a": 2}, {"a": 3}]
    # The second is best over the two steps that all made, whatever came later.
    regrets = [np.array([1.0, 5.0, 6.0]), np.array([2.0, 4.0, 9.0]), np.array([3.0, 7.0])]

    assert best_of(trials, regrets) == {"a": 2}
    assert best_of(trials[:2], [np.array([1.0]), np.array([1.0])]) == {"a": 1}
