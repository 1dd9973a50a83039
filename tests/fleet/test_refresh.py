"""The refresh of a fleet against the compiled one of the policies, bit for bit."""

import numpy as np
import pytest

import posse.fleet.refresh
from posse import FeatureSpec, Posse
from posse.fleet.refresh import new_rooms, refresh_evidence
from posse.kernels import evidence as kernels
from posse.kernels.evidence import new_evidence
from posse.kernels.fleet import observe_rows
from posse.kernels.posterior import new_buffers
from posse.model import Prior, Statistics
from posse.model.belief import new_belief
from posse.model.evidence import STUDENT_FREEDOM
from posse.policies import EbmTS, EbmUCB

K, N, D = 3, 8, 3
STEPS = [(3, 0.2), (30, 1e-2), (0, 0.2)]


def world(kind, seed=0):
    """Statistics and the rows they come from, of a kind that takes its own way through a refresh."""
    rng = np.random.default_rng(seed)
    n = {"few": K - 1, "none": 0, "one": 1}.get(kind, 120)
    tasks, arms = rng.integers(N, size=n), rng.integers(K, size=n)
    X = rng.normal(size=(n, D)) * [1.0, 3.0, 0.2]
    y = X @ [0.5, 1.0, -2.0] + rng.normal(size=n)
    if kind == "zeros":
        y[:] = 0.0
    if kind == "absent feature":
        X[:, 1] = 0.0
    if kind == "absent arm":
        arms %= K - 1
    return tasks, arms, X, y


def new_state(robust):
    stats = Statistics.zeros(n_tasks=N, n_arms=K, n_features=D)
    belief = new_belief(stats, Prior.isotropic(n_arms=K, n_features=D))
    return belief, new_evidence(K, K * N, D, STUDENT_FREEDOM if robust else 0.0)


def all_bytes(belief, evidence):
    names = [*(f"sums.{name}" for name in belief.sums._fields), *belief._fields[1:], *evidence._fields]
    # Beliefs of pairs that were never seen mean nothing.
    seen = np.concatenate([belief.seen[arm, : belief.n_seen[arm]] for arm in range(K)])
    values = [*belief.sums, *belief[1:], *evidence]
    return {
        name: np.asarray(value)[seen].tobytes() if name.startswith("local_") else np.asarray(value).tobytes()
        for name, value in zip(names, values, strict=True)
    }


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("kind", ["none", "one", "few", "plenty", "zeros", "absent feature", "absent arm"])
def test_it_is_the_compiled_refresh(monkeypatch, kind, robust, threads):
    # With threads the limit is passed by any data; on a machine of one core there are two all the same.
    monkeypatch.setattr(posse.fleet.refresh, "MANY", 0 if threads else 10**9)
    monkeypatch.setattr(posse.fleet.refresh, "workers", lambda: 2)
    (one, its), (two, other) = new_state(robust), new_state(robust)
    buffers = new_buffers(D)

    for turn, (steps, settled) in enumerate(STEPS):
        for belief in (one, two):
            # The second lot brings a feature that was absent and rewards that were zero.
            observe_rows(belief, *world(kind if turn == 0 else "plenty", turn), buffers)
        kernels.refresh_evidence(one, its, steps, settled, buffers)
        refresh_evidence(two, other, new_rooms(two), rebuild=False, steps=steps, settled=settled)
        mine, theirs = all_bytes(one, its), all_bytes(two, other)
        assert [name for name in mine if mine[name] != theirs[name]] == []


@pytest.mark.parametrize("robust", [False, True])
def test_sums_that_the_posterior_does_not_know_are_learned_first(robust):
    (one, its), (two, other) = new_state(robust), new_state(robust)
    buffers = new_buffers(D)
    for belief, evidence in ((one, its), (two, other)):
        observe_rows(belief, *world("plenty"), buffers)
        kernels.refresh_evidence(belief, evidence, 3, 0.2, buffers)
        observe_rows(belief, *world("plenty", 1), buffers)
    # What the posterior says does not matter: here it is right, there it is spoiled.
    for array in (two.local_covariance, two.local_mean, two.shared_covariance, two.shared_mean, two.shared_moment):
        array[...] = 7.0
    for belief, evidence in ((one, its), (two, other)):
        refresh_evidence(belief, evidence, new_rooms(belief), rebuild=True, steps=5, settled=0.0)

    mine, theirs = all_bytes(one, its), all_bytes(two, other)
    assert [name for name in mine if mine[name] != theirs[name]] == []


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize(("key", "policy"), [("ebm-ts", EbmTS), ("ebm-ucb", EbmUCB)])
@pytest.mark.parametrize("threads", [False, True])
def test_a_fleet_that_learns_online_believes_what_the_policy_does(monkeypatch, threads, key, policy, robust):
    monkeypatch.setattr(posse.fleet.refresh, "MANY", 0 if threads else 10**9)
    monkeypatch.setattr(posse.fleet.refresh, "workers", lambda: 2)
    names = [f"x{i}" for i in range(D)]
    arms = [f"arm-{arm}" for arm in range(K)]
    fleet = Posse(arms=arms, features=FeatureSpec(names, intercept=False), policy=key, seed=3, robust=robust)
    theirs = policy(n_tasks=N, n_arms=K, n_features=D, prior="evidence", refresh_growth=0.1, robust=robust)
    rng = np.random.default_rng(1)
    for step in range(150):
        task, arm = int(rng.integers(N)), int(rng.integers(K))
        x, y = rng.normal(size=D), float(rng.normal() + arm)
        decision = fleet.decide(f"task-{task}", x, eligible=[arms[arm]])
        fleet.reward(decision.id, y)
        theirs.update(task=task, arm=arm, context=x, reward=y)
        if step % 10:
            continue
        for name in ("covariance", "noise_variance", "shared_precision"):
            assert getattr(fleet.prior, name).tobytes() == getattr(theirs.prior, name).tobytes(), (step, name)
        for where in range(N):
            x = rng.normal(size=D)
            mine, prediction = fleet.expected(f"task-{where}", x), theirs.predict(where, x)
            assert list(mine.mean.values()) == prediction.mean.tolist()
            assert list(mine.sd.values()) == prediction.sd.tolist()
