"""Asking a service whether what it has learned is what its log says."""

import pytest

from posse.service.verify import Verification


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    return str(tmp_path / "posse.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def running(start, address):
    service = start(address)
    service.make_fleet(absent_reward=0.25, time_to_live=1000.0)
    made = [service.decide(task=f"store-{number % 7}") for number in range(20)]
    for number, decision in enumerate(made[:15]):
        service.reward(decision, float(number))
    return service


def test_a_comparison_stops_for_others_at_every_task(running):
    """Whoever asks for a decision waits for the interpreter meanwhile."""
    storage, live = running.runtime.storage, running.live()
    comparison = Verification(storage, storage.fleet("stores"), live.replica, live.contexts)
    assert sum(1 for _ in comparison.steps()) >= 3 * 7
    assert (comparison.found.tasks, comparison.found.different) == (7, 0)


def test_what_was_learned_is_compared_and_learned_again(running, wait_for, caplog):
    found = running.read("/v1/fleets/stores/verify")
    assert (found["different"], found["tasks"], found["rewards"], found["next"]) == (0, 7, 20, None)
    wait_for(lambda: "stores" in running.runtime.checker.last)
    replica = running.live().replica
    replica.learn(["store-3"], ["cake"], [{"hour": 1.0, "weather": "sun"}], [1.0])
    found = running.read("/v1/fleets/stores/verify")
    assert found["different"] == 1
    assert [one["task"] for one in found["differences"]] == ["store-3"]
    first = running.read("/v1/fleets/stores/verify", params={"limit": 2})
    assert (first["tasks"], first["next"], first["different"]) == (2, "store-1", 0)
    rest = running.read("/v1/fleets/stores/verify", params={"after": first["next"]})
    assert (rest["tasks"], rest["different"]) == (5, 1)
    assert running.post("/v1/fleets/stores/repair").status_code == 200
    assert running.read("/v1/fleets/stores/verify")["different"] == 0
    assert 'posse_fleet_differing_tasks{fleet="stores"} 0.0' in running.get("/metrics").text
    running.reward(running.decide(task="store-3"), 1.0)
    assert running.read("/v1/fleets/stores/verify")["rewards"] == 21


def test_a_fleet_whose_rows_have_left_the_log_is_not_learned_from_it(running, shape):
    running.make_fleet("short", retention=1000.0, time_to_live=1000.0)
    running.reward(running.decide(fleet="short"), 1.0)
    running.snapshot("short")
    assert running.runtime.writer.run(lambda: running.runtime.storage.prune("short", 1e12)) == 1
    assert running.read("/v1/fleets/short/verify")["partial"] == 1
    assert running.post("/v1/fleets/short/repair").status_code == 200  # from its snapshot: the log does not have it all
    assert running.live("short").replica.n_rewards == 1
    shape(running.get("/v1/fleets/nothing/verify"), 404, "unknown_fleet")
