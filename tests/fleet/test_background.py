"""A refresh that runs beside the fleet: held at chosen points, while the fleet goes on."""

import faulthandler
import logging
import os
import random
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import posse.core.background
from posse import FeatureSpec, Posse
from posse.core.background import Background
from posse.core.estimate import Climb, with_posterior
from posse.model import posterior

X = np.array([0.3, -0.8])
NEVER = 1e12  # rewards never grow by so much: a refresh comes when it is asked for
POINTS = ("begin", "middle", "end")  # of the estimate


class Held:
    """A refresh that stops at one point until it is let go."""

    def __init__(self):
        self.reached, self.go = threading.Event(), threading.Event()

    def stop(self):
        self.reached.set()
        assert self.go.wait(60)

    def wait(self):
        assert self.reached.wait(60)


@pytest.fixture
def hold(monkeypatch):
    """Let estimates in the background stop at a point: before sums are copied, in the midst, at the end."""
    gates = []

    def at(point):
        gate = Held()
        gates.append(gate)
        owner, name = {
            "begin": (Background, "_copy_all"), "middle": (Climb, "step"), "end": (Background, "_finish"),
            "catching up": (posse.core.background, "take_over"),
        }[point]  # fmt: skip
        plain = getattr(owner, name)

        def held(*arguments, **settings):
            # Only in the background: whoever estimates at once is not held.
            if threading.current_thread().name.startswith("posse-refresh") and not gate.reached.is_set():
                gate.stop()
            return plain(*arguments, **settings)

        monkeypatch.setattr(owner, name, held)
        return gate

    yield at
    for gate in gates:
        gate.go.set()


def finish(fleet, gate=None):
    """Let a refresh go and wait for its end."""
    if gate is not None:
        gate.go.set()
    until = time.monotonic() + 60
    while fleet.refreshing:
        assert time.monotonic() < until
        time.sleep(0.001)


def prior_of(fleet):
    prior = fleet.prior
    return [prior.covariance.tobytes(), prior.noise_variance.tobytes(), prior.shared_precision.tobytes()]


def weights_of(fleet):
    return fleet.core.state.store.weight[list(fleet.names.tasks.numbers.values())]


def require_rebuilt(fleet, tolerance=1e-8):
    """The posterior is the one that follows from all sums under the prior in force."""
    fleet.expected("t1", X)  # as after any look
    before, now = fleet.core.state.store.shared, with_posterior(fleet.core.state, learned=False)[0].store.shared
    assert_allclose(before, now, rtol=tolerance, atol=tolerance * np.abs(now).max())
    if not fleet.n_rewards:
        return
    # And that is the direct model's.
    post = posterior(fleet.statistics, fleet.prior, weights_of(fleet))
    for place, task in enumerate(fleet.tasks[:10]):
        expected = list(fleet.expected(task, X).mean.values())
        full = fleet.features.encode(X)
        assert_allclose(expected, post.mean[:, place] @ full, rtol=1e-6, atol=1e-6)


def live(fleet, table, seed):
    """Decisions and rewards of old tasks, new tasks and new pairs, one by one and some at once; no estimate."""
    rng = random.Random(seed)
    for i in range(12):
        task = f"t{rng.randrange(5)}" if i % 3 else f"new-{seed}-{i}"
        decision = fleet.decide(task, [rng.gauss(0, 1), rng.gauss(0, 1)])
        if i % 4:
            fleet.reward(decision.id, rng.gauss(0, 1))
    made = fleet.decide_many([f"t{i}" for i in range(5)] + [f"more-{seed}"], np.tile(X, (6, 1)))
    fleet.reward_many(made.ids, [0.1 * i for i in range(6)])
    fleet.learn_many(table(15, seed + 100, n_tasks=9))


def in_thread(work):
    """Do something on another thread, to its end."""
    failures = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("point", [*POINTS, "catching up"])
def test_what_came_meanwhile_is_in_the_posterior_and_not_in_the_prior(
    fleet_of, table, hold, monkeypatch, same_prefixes, point, robust
):
    if point == "catching up":
        monkeypatch.setattr(posse.core.background, "FEW", 3)
    settings = {"background": True, "refresh_growth": NEVER, "robust": robust}
    fleet, plain = fleet_of(60, **settings), fleet_of(60, **settings)
    for each in (fleet, plain):
        each.forget("t3", "t4")  # their slots go to pairs that come meanwhile
        live(each, table, 1)  # rewards since the last refresh
        each.forget("t2")
    plain.refresh()
    expected, weights, old = prior_of(plain), weights_of(plain), prior_of(fleet)

    gate = hold("end" if point == "catching up" else point)
    fleet.refresh(wait=False)
    gate.wait()
    assert fleet.refreshing
    in_thread(lambda: live(fleet, table, 2))
    if point == "catching up":
        # More rewards come while those are caught up with.
        later = hold(point)
        gate.go.set()
        later.wait()
        in_thread(lambda: live(fleet, table, 3))
        gate = later
    assert prior_of(fleet) == old
    finish(fleet, gate)

    assert weights_of(fleet)[: weights.size].tobytes() == weights.tobytes()
    assert (weights_of(fleet)[weights.size :] == 1).all()
    assert prior_of(fleet) == expected != old
    require_rebuilt(fleet)


@pytest.mark.parametrize("point", POINTS)
def test_decisions_meanwhile_are_those_of_the_old_population(fleet_of, table, hold, same_prefixes, point, exactly):
    def build():
        same_prefixes()
        fleet = fleet_of(60, background=True, refresh_growth=NEVER)
        live(fleet, table, 1)
        return fleet

    twin, fleet = build(), build()
    gate = hold(point)
    fleet.refresh(wait=False)
    gate.wait()

    def answers(each):
        made = [each.decide(task, X) for task in ("t1", "t4", "never seen", "t1")]
        each.reward(made[0].id, 1.5)
        batch = each.decide_many(["t1", "t2", "new"], np.tile(X, (3, 1)))
        coefficients = [each.coefficients(task) for task in ("t1", "nobody")]
        return exactly([*made, *batch, each.expected("t1", X), coefficients, each.borrowing("t2"), each.prior])

    assert answers(fleet) == answers(twin)
    finish(fleet, gate)
    before = fleet.expected("t1", X)
    assert fleet.prior.covariance.tobytes() != twin.prior.covariance.tobytes()
    assert before != twin.expected("t1", X)
    require_rebuilt(fleet)


def test_no_reader_sees_half_a_population(fleet_of, table):
    # No rewards come: all that can be seen is the old population, or the new one.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        fleet = fleet_of(60, background=True, refresh_growth=NEVER)
        for turn in range(5):
            live(fleet, table, turn)
            tasks = ["t1", "t3", "nobody"]
            old, seen, ended = [fleet.expected(task, X) for task in tasks], [[], [], []], threading.Event()

            def read(place, tasks=tasks, seen=seen, ended=ended):
                while not ended.is_set():
                    seen[place].append(fleet.expected(tasks[place], X))

            readers = [threading.Thread(target=read, args=(place,)) for place in range(3)]
            for reader in readers:
                reader.start()
            fleet.refresh(wait=False)
            finish(fleet)
            new = [fleet.expected(task, X) for task in tasks]
            ended.set()
            for reader in readers:
                reader.join(60)
            for place in range(3):
                assert new[place] != old[place]
                assert all(found in (old[place], new[place]) for found in seen[place])
    finally:
        sys.setswitchinterval(before)


CHANGES = {
    "forget": lambda fleet, table: fleet.forget("t1", "t3"),
    "forget all": lambda fleet, table: fleet.forget(*fleet.tasks),
    "add_arm": lambda fleet, table: fleet.add_arm("new"),
    "merge": lambda fleet, table: fleet.merge(other_fleet(table)),
    "a large table": lambda fleet, table: fleet.learn_many(table(400, 5, n_tasks=20)),
    "refresh": lambda fleet, table: fleet.refresh(),
}


def other_fleet(table):
    other = Posse(arms=["red", "other"], features=FeatureSpec(["a", "b"]), seed=2, clock=lambda: 1000.0)
    other.learn_many(table(50, 6, n_tasks=7, arms=("red", "other")))
    other.decide("t1", X)
    return other


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("point", [*POINTS, "catching up"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_it_knows_nothing_of_makes_it_be_dropped(
    fleet_of, table, hold, snapshot, differences, same_prefixes, monkeypatch, change, point, robust
):
    def build():
        same_prefixes()
        # Due after 180 rewards more: only a large table brings so many.
        fleet = fleet_of(60, background=True, refresh_growth=3.0, robust=robust)
        live(fleet, table, 1)
        return fleet

    def go_on(fleet):
        CHANGES[change](fleet, table)
        # Without any rewards the first one would make a refresh due, in the background.
        if change != "forget all":
            live(fleet, table, 3)

    twin = build()
    live(twin, table, 2)
    go_on(twin)
    fleet = build()
    if point == "catching up":
        monkeypatch.setattr(posse.core.background, "FEW", 3)
        first = hold("end")
    gate = hold(point)
    fleet.refresh(wait=False)
    (first if point == "catching up" else gate).wait()
    in_thread(lambda: live(fleet, table, 2))
    if point == "catching up":
        first.go.set()
        gate.wait()
    in_thread(lambda: go_on(fleet))
    finish(fleet, gate)

    assert differences(snapshot(fleet), snapshot(twin)) == []
    require_rebuilt(fleet)
    # And it can be done again.
    version = fleet.core.version
    fleet.refresh(wait=False)
    twin.refresh()
    finish(fleet)
    assert fleet.core.version == version + 1
    assert prior_of(fleet) == prior_of(twin)


@pytest.mark.parametrize("point", POINTS)
def test_sums_that_are_added_meanwhile_are_in_the_posterior(fleet_of, table, hold, point):
    fleet = fleet_of(60, background=True, refresh_growth=NEVER)
    gate = hold(point)
    fleet.refresh(wait=False)
    gate.wait()
    in_thread(lambda: fleet.learn_many(table(30, 5, n_tasks=20), refresh=False))
    finish(fleet, gate)
    fleet.expected("t1", X)
    assert fleet.n_rewards == 90
    require_rebuilt(fleet)


@pytest.mark.parametrize("error", [RuntimeError("a defect"), MemoryError("no more memory")])
@pytest.mark.parametrize("where", ["measure", "step", "look", "installed", "take_over", "_with_capacity"])
def test_what_fails_leaves_the_old_population(fleet_of, table, hold, snapshot, caplog, monkeypatch, where, error):
    fleet = fleet_of(60, background=True, refresh_growth=NEVER)
    live(fleet, table, 1)
    owner = Climb if hasattr(Climb, where) else posse.core.background
    working = getattr(owner, where)

    def failing(*args, **kwargs):
        raise error

    gate = hold("begin")
    fleet.refresh(wait=False)
    gate.wait()
    live(fleet, table, 2)
    before, numbers = snapshot(fleet), fleet.core.state.numbers.copy()
    monkeypatch.setattr(owner, where, failing)
    with caplog.at_level(logging.ERROR, logger="posse"):
        finish(fleet, gate)

    assert [record.exc_info[1] for record in caplog.records] == [error]
    assert "stays as it was" in caplog.text
    assert type(error).__name__ in fleet.refresh_problem
    fleet.core.state.numbers[:] = numbers  # but for when it is tried again
    assert snapshot(fleet) == before
    monkeypatch.setattr(owner, where, working)
    require_rebuilt(fleet)
    fleet.refresh(wait=False)
    finish(fleet)
    assert fleet.refresh_problem is None
    assert snapshot(fleet)["core.population.covariance"] != before["core.population.covariance"]
    require_rebuilt(fleet)


def test_it_comes_by_itself_when_rewards_have_grown(fleet_of, table, hold):
    fleet = fleet_of(60, background=True, refresh_growth=0.5)
    gate = hold("begin")
    version = fleet.core.version
    for i in range(29):
        fleet.reward(fleet.decide(f"t{i % 5}", X).id, 0.1 * i)
    assert not fleet.refreshing
    fleet.reward(fleet.decide("t1", X).id, 0.5)
    assert fleet.refreshing
    gate.wait()
    # One is under way: others wait until it is over.
    fleet.reward(fleet.decide("t2", X).id, 0.7)
    fleet.refresh(wait=False)
    fleet.learn_many(table(20, 3))
    finish(fleet, gate)

    assert fleet.core.version == version + 1
    assert fleet.core.estimated_at == 90
    assert fleet.n_rewards == 111
    require_rebuilt(fleet)


def test_a_fleet_with_nothing_in_it_is_refreshed_as_well(fleet_of, table):
    fleet = fleet_of(0, background=True)
    fleet.refresh(wait=False)
    finish(fleet)
    fleet.reward(fleet.decide("t1", X).id, 1.0)
    finish(fleet)
    fleet.learn_many(table(50))
    finish(fleet)
    assert fleet.n_rewards == 51
    assert not fleet.refreshing
    require_rebuilt(fleet)


def test_a_sample_will_do(fleet_of, table, hold):
    fleet, plain = (fleet_of(300, background=True, refresh_growth=NEVER) for _ in range(2))
    for each in (fleet, plain):
        live(each, table, 1)
    plain.refresh(sample=5)
    gate = hold("middle")
    fleet.refresh(wait=False, sample=5)
    gate.wait()
    in_thread(lambda: live(fleet, table, 2))
    finish(fleet, gate)
    assert fleet.prior.covariance.tobytes() == plain.prior.covariance.tobytes()
    require_rebuilt(fleet)


def test_a_fleet_is_saved_while_it_runs(fleet_of, table, hold, tmp_path, snapshot, same_prefixes, new_clock):
    same_prefixes()
    fleet = fleet_of(60, background=True, refresh_growth=NEVER)
    live(fleet, table, 1)
    gate = hold("middle")
    fleet.refresh(wait=False)
    gate.wait()
    fleet.save(tmp_path / "fleet.posse")
    before = snapshot(fleet)
    finish(fleet, gate)
    assert snapshot(fleet) != before

    loaded = Posse.load(tmp_path / "fleet.posse", background=True, clock=new_clock())

    assert snapshot(loaded) == before
    # A loaded fleet goes on in the background if it is told to.
    loaded.refresh(wait=False)
    finish(loaded)
    assert loaded.prior.covariance.tobytes() == fleet.prior.covariance.tobytes()


def test_rewards_that_are_refused_by_the_log_leave_no_trace(fleet_of, table, hold):
    fleet = fleet_of(60, background=True, refresh_growth=NEVER)
    live(fleet, table, 1)
    made = [fleet.decide(task, X) for task in ("t1", "unseen")]
    gate = hold("middle")
    fleet.refresh(wait=False)
    gate.wait()

    def full(records):
        raise OSError("disk full")

    fleet.log_to(full)
    for decision in made:
        with pytest.raises(OSError, match="disk full"):
            fleet.reward(decision.id, 5.0)
    fleet.log_to(None)
    live(fleet, table, 2)
    finish(fleet, gate)
    require_rebuilt(fleet)


@pytest.mark.parametrize("robust", [False, True])
def test_many_threads_and_a_refresh_every_few_rewards(fleet_of, robust):
    fleet = fleet_of(40, background=True, refresh_growth=0.05, robust=robust)
    before = fleet.statistics
    installed = fleet.core.version
    rows, failures = [], []
    interval = sys.getswitchinterval()

    def decide_and_reward(seed):
        rng = random.Random(seed)
        try:
            for i in range(250):
                task, x = f"t{rng.randrange(5 + i // 5)}", [rng.gauss(0, 1), rng.gauss(0, 1)]
                decision = fleet.decide(task, x)
                y = rng.gauss(1.0, 1.0)
                if i % 10:
                    fleet.reward(decision.id, y)
                else:
                    fleet.reward_many([decision.id], [y])
                rows.append((task, decision.arm, x, y))
        except BaseException as error:
            failures.append(error)

    sys.setswitchinterval(1e-5)
    try:
        for first in range(0, 24, 6):
            threads = [threading.Thread(target=decide_and_reward, args=(seed,)) for seed in range(first, first + 6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            if fleet.core.version > installed + 1:
                break  # estimates stand back behind decisions: on a busy machine one may take all this time
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    finish(fleet)

    assert fleet.core.version > installed + 1  # they did come in between
    stats, tasks = fleet.statistics, list(fleet.tasks)
    known = before.gram.shape[1]
    gram, moment, count = np.zeros_like(stats.gram), np.zeros_like(stats.moment), np.zeros_like(stats.count)
    gram[:, :known], moment[:, :known], count[:, :known] = before.gram, before.moment, before.count
    for task, arm, x, y in rows:
        place, full = (fleet.arms.index(arm), tasks.index(task)), np.array([1.0, *x])
        gram[place] += np.outer(full, full)
        moment[place] += full * y
        count[place] += 1
    assert stats.count.tolist() == count.tolist()
    assert_allclose(stats.gram, gram, rtol=1e-12, atol=1e-12 * gram.max())
    assert_allclose(stats.moment, moment, rtol=1e-12, atol=1e-12 * np.abs(moment).max())
    require_rebuilt(fleet)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_goes_on_by_itself(fleet_of, table, hold):
    fleet = fleet_of(60, background=True, refresh_growth=NEVER)
    live(fleet, table, 1)
    gate = hold("begin")
    fleet.refresh(wait=False)
    gate.wait()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks with threads
        child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True, file=writer)  # rather than wait for ever
        try:
            alone = not fleet.refreshing
            # Not the parent's event: its thread may hold the lock of it at the fork, and is not there to let go.
            gate.go = threading.Event()
            gate.go.set()
            for i in range(10):  # no tables: Polars does not survive a fork
                fleet.reward(fleet.decide(f"new-{i}", X).id, 0.1 * i)
            old = fleet.prior
            fleet.refresh(wait=False)
            finish(fleet)
            require_rebuilt(fleet)
            os.write(writer, b"fine" if alone and not np.array_equal(fleet.prior.covariance, old.covariance) else b"no")
        except BaseException as error:
            os.write(writer, repr(error).encode()[:500])
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 5000) == b"fine"
    os.close(reader)
    finish(fleet, gate)
    require_rebuilt(fleet)


ENDING = """
import concurrent.futures.thread as futures, threading, time
import numpy as np
from posse import Posse
from posse.core.estimate import Climb

fleet = Posse(arms=["x", "y"], features=["a"], background=True, refresh_growth=1e12, seed=1)
n = 60
fleet.learn_many({"task": [f"t{i % 20}" for i in range(n)], "arm": ["x", "y"] * (n // 2), "a": np.sin(np.arange(n)),
                  "reward": np.cos(np.arange(n))})
step = Climb.step

def after_the_end(self, *arguments):
    while not futures._shutdown:  # which the interpreter sets when it ends
        time.sleep(0.01)
    return step(self, *arguments)

def wait():
    while fleet.refreshing:
        time.sleep(0.01)

Climb.step = after_the_end
fleet.refresh(wait=False)
# The interpreter waits for this one, and so does not kill the other.
threading.Thread(target=wait).start()
"""


@pytest.mark.slow
def test_a_program_may_end_while_it_runs():
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=300, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
