"""What processes read of a long log is what would be read here, and leads to the same sums to the last bit."""

import json

import numpy as np
import pytest

from posse.service import ahead as module
from posse.service.ahead import Ahead
from posse.service.definition import new_definition
from posse.service.live_fleet import LiveFleet
from posse.service.schemas import Definition
from posse.service.settings import Limits
from posse.storage import NewDecision, NewReward, open_storage

SIZE, N = 600, 5000


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "posse.db")


@pytest.fixture
def storage(path, monkeypatch):
    """A log of rewards that had two populations among them, of which the newest is left."""
    for name, value in {"BLOCK": SIZE, "MANY": 1000, "LONG": 0}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr("posse.service.live_fleet.AT_ONCE", SIZE)
    storage = open_storage(path)
    storage.create_fleet("stores", new_definition(definition(), Limits()), 1.0)
    write(storage, 0, 1500)
    storage.add_population("stores", b"none that can be read")
    write(storage, 1500, 2400 - 1)
    storage.add_population("stores", b"none that can be read")
    write(storage, 2400 - 1, N)
    yield storage
    storage.close()


def definition(**rest):
    return Definition(arms=["a", "b"], features=["x", "y"], **rest).model_dump()


def write(storage, begin, end, arm=None):
    rng = np.random.default_rng(begin)
    decisions, rewards = [], []
    for number in range(begin, end):
        x, y = rng.normal(size=2).tolist()
        body = {"context": {"x": x, "y": y}, "eligible": ["a", "b"], "probabilities": [0.5, 0.5], "mean": [], "sd": []}
        decisions.append([NewDecision(
            "stores", f"{begin}-{number}", 2.0, f"task-{number % 7}", arm or "ab"[number % 2], 0.5,
            json.dumps(body, separators=(",", ":")), "ebm-ts", "0",
        )])  # fmt: skip
        rewards.append([NewReward(decisions[-1][0].id, x + 0.1 * y, 3.0)])
    storage.write(decisions)
    storage.write(rewards)


def sums(live):
    _, found = live.replica.learned(live.replica.tasks)
    return {pair: [np.asarray(part).tobytes() for part in some] for pair, some in found.items()}


@pytest.mark.slow
def test_processes_read_what_is_learned(storage, path):
    row = storage.fleet("stores")
    alone, ahead = LiveFleet(storage, row), Ahead(path)
    used = []
    real = ahead.run
    ahead.run = lambda *asked: used.append(real(*asked)) or used[-1]
    try:
        together = LiveFleet(storage, row, ahead=ahead)
    finally:
        ahead.end()
    assert sums(together) == sums(alone)
    assert together.applied == alone.applied == row.changes
    assert sum(len(run.numbers) for run, _ in filter(None, used)) > 2 * N // 3


def test_what_was_read_of_another_time_is_not_learned(storage, path):
    ahead = Ahead(path)
    try:
        row = storage.fleet("stores")
        assert ahead.run(row, 0, row.changes) is not None
        write(storage, N, N + 10)
        newer = storage.fleet("stores")
        assert ahead.run(newer, 2 * SIZE, newer.changes) is None
        assert sums(LiveFleet(storage, newer, ahead=ahead)) == sums(LiveFleet(storage, newer))
    finally:
        ahead.end()


def test_a_row_that_cannot_be_learned_is_left_out_alone(storage, path, caplog):
    write(storage, N, N + 1, arm="c")  # there is no such arm
    write(storage, N + 1, N + 1000)
    row, ahead = storage.fleet("stores"), Ahead(path)
    try:
        together = LiveFleet(storage, row, ahead=ahead)
    finally:
        ahead.end()
    assert sums(together) == sums(LiveFleet(storage, row))
    assert together.replica.unlearned == 1
    assert "cannot be learned" in caplog.text


@pytest.mark.slow
def test_a_process_that_dies_is_no_harm(storage, path):
    row, ahead = storage.fleet("stores"), Ahead(path)
    for reader in ahead._readers:
        reader._process._process.kill()
    try:
        assert sums(LiveFleet(storage, row, ahead=ahead)) == sums(LiveFleet(storage, row))
    finally:
        ahead.end()
