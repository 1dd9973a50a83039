import numpy as np
import pytest

from posse_lab.benchmarks import floor as module
from posse_lab.benchmarks.floor import Floor, bytes_of_task, measure_floor, parts_of_step, time_kernel, working_set
from posse_lab.benchmarks.machine import Timing
from posse_lab.benchmarks.peak import Rate
from posse_lab.benchmarks.workload import Size


class Counted(np.ndarray):
    """Numbers that count what is done to them."""

    done = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **settings):
        plain = [np.asarray(value) for value in inputs]
        result = getattr(ufunc, method)(*plain, **settings)
        if ufunc is np.matmul:
            # An inner product of n numbers is n multiplications and, from zero, n additions.
            Counted.done += 2 * np.size(result) * plain[0].shape[-1]
        else:
            Counted.done += np.size(result)
        return result.view(Counted) if isinstance(result, np.ndarray) else result


def counted(d):
    rng = np.random.default_rng(d)
    matrix = rng.standard_normal((d, d))
    return (matrix @ matrix.T).view(Counted), rng.standard_normal(d).view(Counted)


@pytest.mark.parametrize("d", [3, 10, 32])
def test_a_decision_takes_the_operations_that_are_counted(d):
    # The lines of the kernel, one arm, with full matrices.
    (covariance, x), (gram, mean), (shared, shared_mean) = counted(d), counted(d), counted(d)
    Counted.done = 0
    v = covariance @ x
    w = x - gram @ v
    own, spread, common, spread_of_shared = x @ mean, x @ v, w @ shared_mean, w @ (shared @ w)
    assert np.isfinite(float(own + common))
    assert spread > 0
    assert spread_of_shared > 0

    assert parts_of_step(1, d)[0].operations == Counted.done
    assert parts_of_step(4, d)[0].operations == 4 * Counted.done


@pytest.mark.parametrize("d", [3, 10, 32])
def test_a_lesson_takes_the_operations_that_are_counted(d):
    (covariance, x), (gram, mean), (shared, moment) = counted(d), counted(d), counted(d)
    own_moment = moment.copy()
    Counted.done = 0
    v = covariance @ x
    w = (x - gram @ v) / 2.0
    length, surprise = x @ v, x @ mean
    mean = mean + float(surprise) * v
    moment = moment + float(surprise) * w
    p = shared @ w
    weight = w @ p
    assert length > 0
    assert weight > 0
    shared_mean = shared @ moment
    own_moment = own_moment + 0.5 * x
    assert shared_mean.shape == own_moment.shape
    # A symmetric matrix plus a multiple of z z': the multiple of z, then one product and one sum per entry.
    s = d * (d + 1) // 2
    Counted.done += 3 * (d + 2 * s)

    assert parts_of_step(1, d)[1].operations == Counted.done


def test_bytes_are_those_of_symmetric_matrices_and_vectors():
    k, d, n = 5, 10, 7
    s = 55
    decide, learn = parts_of_step(k, d)
    assert decide.numbers == k * (2 * s + d + s + d)  # of the task: Ct, A, m; shared: Phi, m0
    assert learn.numbers == 2 * (3 * s + 4 * d)
    assert working_set(Size(n, k, d)) == 8 * (n * k * (2 * s + 2 * d) + k * (s + 2 * d))
    assert bytes_of_task(Size(n, k, d)) == 8 * (k * (2 * s + d) + (2 * s + 2 * d))


def test_the_floor_is_the_longer_of_arithmetic_and_traffic():
    size = Size(10, 5, 10)
    slow, fast = Rate(1e9, 1e9), Rate(1e12, 1e12)
    kernel = Timing(best=2e-5, median=3e-5, calls=10)
    busy, waiting = Floor(size, slow, fast, kernel), Floor(size, fast, slow, kernel)

    assert busy.seconds == busy.arithmetic_seconds == pytest.approx(4750 / 1e9)
    assert waiting.seconds == waiting.traffic_seconds == pytest.approx(8 * 1335 / 1e9)
    assert busy.ratio == pytest.approx(2e-5 / 4.75e-6)
    said = busy.to_dict()
    assert (said["operations"], said["bytes"], said["n_features"]) == (4750, 10680, 10)
    assert sum(part["operations"] for part in said["parts"]) == 4750


def test_the_kernel_plays_steps_that_decide_and_learn(monkeypatch):
    policies = []
    taught = module.taught_policy
    monkeypatch.setattr(module, "taught_policy", lambda size: policies.append(taught(size)) or policies[-1])
    timing = time_kernel(Size(3, 2, 4), rounds=2, at_least=1e-4)

    learned = policies[0].statistics.count.sum() - 3 * 2
    assert learned > 0
    assert learned % module.STEPS == 0
    assert policies[0].prior_report.iterations <= 1  # it did not refresh on the way
    assert timing.best <= timing.median


def test_everything_is_measured(monkeypatch):
    measured = measure_floor(Size(3, 2, 4), rounds=1, at_least=1e-4)
    assert measured.ratio > 0
    assert measured.peak.best > 0
    assert measured.bandwidth.best > 0
