"""Everything is compiled and loaded before a service says that it is ready."""

import sys

import pytest
from numba.core.dispatcher import Dispatcher

from posse.service import engine as engine_module
from posse.service.warming import warm

KINDS = [
    {},
    {"policy": "ebm-ucb", "floor": 0.05},
    {"robust": True},
    {"prior": "paper"},
    {"policy": "lin-ts"},
    {"policy": "hier-ts"},
    {"absent_reward": 0.0},
    {"absent_reward": 0.0, "count_pending": False},
]


def loaded_kernels():
    """Return how many kinds of arguments every kernel was compiled or loaded for."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("posse"):
            for value in vars(module).values():
                if isinstance(value, Dispatcher):
                    found[f"{value.py_func.__module__}.{value.py_func.__name__}"] = len(value.signatures)
    return found


def use(service, name, wait_for, **kind):
    """A round of all that is asked of a fleet, from its first reward on."""
    for step in range(25):
        decision = service.decide(f"task-{step % 4}", fleet=name)
        service.reward(decision, float(step % 3))
    body = {"decisions": [{"task": "new", "context": {"hour": 1.0, "weather": "sun"}}] * 3}
    made = service.post(f"/v1/fleets/{name}/decisions/batch", json=body).json()["decisions"]
    rewards = [{"id": one["id"], "reward": 1.0} for one in made]
    assert service.post("/v1/rewards", json={"rewards": rewards}).status_code == 200
    service.decide("task-1", fleet=name, eligible=["cake"])
    service.read(f"/v1/fleets/{name}/population")
    service.task("task-1", name)
    for part in ("tasks", "activity", "pending", "value", "log"):
        assert service.get(f"/v1/fleets/{name}/{part}").status_code == 200
    assert service.get(f"/v1/fleets/{name}/export/task-1").status_code == 200
    if kind.get("policy") != "hier-ts":
        assert service.post(f"/v1/fleets/{name}/arms", json={"arm": "tea"}).status_code < 300
        service.decide("task-1", fleet=name, eligible=["tea"])
    service.snapshot(name)
    assert service.delete(f"/v1/fleets/{name}/tasks/task-1").status_code == 204
    wait_for(lambda: not service.live(name).replica.refreshing)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_nothing_is_compiled_after_it_is_ready(start, wait_for, kind):
    service = start()
    service.make_fleet("used", **kind)
    before = loaded_kernels()
    assert sum(before.values()) > 20
    use(service, "used", wait_for, **kind)
    service.stop()
    again = start(service.settings.database)
    again.decide("task-2", fleet="used")
    assert {name: count for name, count in loaded_kernels().items() if count != before.get(name, 0)} == {}


def test_it_is_not_ready_until_compiled_code_is_there(start, monkeypatch, caplog):
    tries = []

    def no_files(*arguments):
        tries.append(arguments)
        if len(tries) < 3:
            raise OSError(24, "Too many open files")
        return warm(*arguments)

    monkeypatch.setattr(engine_module, "warm", no_files)
    monkeypatch.setattr(engine_module, "WARM_SECONDS", 0.01)
    service = start()
    assert len(tries) == 3
    assert caplog.text.count("compiled code could not be loaded") == 2
    assert service.get("/readyz").status_code == 200
