"""Ask a service in this process for everything there is, and print what was compiled or loaded once it was ready.

Run as a script, so that nothing was loaded before. ``NUMBA_CACHE_DIR`` says where compiled code is found: an empty
folder makes it a cold machine. Prints one JSON object: kernels that were compiled and kernels that were loaded after
``/readyz`` said yes, and the longest requests in seconds. Arguments: decisions in the largest requests, and which
kinds of fleets (1 is all, 4 every fourth).
"""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from numba.core import event
from numba.core.dispatcher import Dispatcher

from conftest import InProcess, settle
from posse.fleet.settings import LEARNING, POLICIES
from posse.fleet.settings import PRIORS as METHODS
from posse.service.settings import Limits, Settings

PATIENCE = 1200.0  # seconds that compiling may take where others are at work, too
FEATURES = [
    "hour",
    {"kind": "numeric", "name": "basket", "scale": "standard", "center": 1.0, "spread": 2.0},
    {"kind": "one_hot", "name": "weather", "categories": ["sun", "rain"]},
    {"kind": "hashed", "name": "city", "buckets": 4},
]
LOOKS = (
    "", "/population", "/pending", "/activity", "/tasks", "/tasks/task-1", "/history/task-1", "/export/task-1",
    "/value", "/log?format=jsonl", "/log?format=parquet",
)  # fmt: skip
CONTEXT = {"hour": 9.5, "basket": 3, "weather": "rain", "city": "Ulm"}
PLAIN = [{"policy": policy} for policy in POLICIES]
PRIORS = [{"policy": policy, "prior": prior} for policy in LEARNING for prior in METHODS]
KINDS = [
    {"robust": True},
    *PLAIN[:3],
    {"rewards": "binary"},
    *PLAIN[3:],
    *PRIORS,
    {"policy": "ebm-ts", "robust": True, "floor": 0.05, "evaluation_budget": 0.01},
    {"absent_reward": 0.0, "time_to_live": 2.0},
    {"absent_reward": 0.0, "time_to_live": 2.0, "count_pending": False, "retention": 3.0},
    {"policy": "ebm-ucb", "prior": "paper", "absent_reward": 0.0},
    {"policy": "lin-ucb", "absent_reward": 0.0},
    {"time_to_live": 2.0, "retention": 2.0, "refresh_growth": 0.0},
    {"intercept": False, "features": ["x"], "arms": ["only"]},
    {"intercept": True, "features": [], "arms": [f"arm-{i}" for i in range(30)]},
    {"features": [f"x{i}" for i in range(40)], "arms": ["a", "b"]},
    {"rewards": "count", "policy": "ebm-ts", "absent_reward": 0.0, "time_to_live": 2.0, "count_pending": False},
]


class Compiled(event.Listener):
    """Notes what the compiler works on."""

    def __init__(self):
        self.found = []

    def on_start(self, event):
        self.found.append(f"{event.data['module']}.{event.data['qualname']}{event.data['args']}")

    def on_end(self, event):
        """Learn nothing more."""


def loaded():
    """How many kinds of arguments every kernel was compiled or loaded for."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("posse"):
            for value in vars(module).values():
                if isinstance(value, Dispatcher):
                    found[f"{value.py_func.__module__}.{value.py_func.__name__}"] = len(value.signatures)
    return found


class Timed:
    """Requests, and how long each took."""

    def __init__(self, service):
        self.service, self.longest = service, []

    def ask(self, method, path, *expected, **rest):
        begin = time.perf_counter()
        answer = self.service.request(method, path, **rest)
        self.longest.append((round(time.perf_counter() - begin, 3), f"{method} {path}"))
        assert answer.status_code in (expected or (200,)), (method, path, answer.text)
        return answer

    def get(self, path, *expected):
        return self.ask("GET", path, *expected)

    def post(self, path, body, *expected):
        return self.ask("POST", path, *expected, json=body)


def context_of(kind):
    features = kind.get("features", FEATURES)
    return CONTEXT if features is FEATURES else dict.fromkeys(features, 0.5)


def use(timed, name, kind, rows):
    """All that is asked of a fleet, from its first reward on; ``rows`` decisions in its largest requests."""
    context, path = context_of(kind), f"/v1/fleets/{name}"
    definition = {"arms": ["coffee", "cake", "tea"], "features": FEATURES} | kind
    timed.ask("PUT", path, 201, json=definition)
    timed.ask("PUT", path, 200, json=definition)
    arm, ids, most = definition["arms"][0], [], 2 if kind.get("rewards") == "binary" else 3
    for step in range(12):
        body = {"task": f"task-{step % 4}", "context": context if step % 2 else list(context.values())}
        body |= {"eligible": [arm]} if step % 3 == 0 else {}
        made = timed.post(f"{path}/decisions", body | {"explore": step % 5 != 0}).json()
        timed.post(f"/v1/decisions/{made['id']}/reward", {"reward": float(step % most)})
        ids.append(made["id"])
    for count in (3, rows):
        asks = {"decisions": [{"task": f"task-{i % 40}", "context": context} for i in range(count)]}
        made = timed.post(f"{path}/decisions/batch", asks).json()["decisions"]
        rewards = [{"id": one["id"], "reward": float(i % most)} for i, one in enumerate(made)]
        timed.post("/v1/rewards", {"rewards": rewards[: len(rewards) // 2]})
        timed.post("/v1/rewards", {"rewards": rewards})
    look(timed, path, ids[0], arm)
    timed.post(f"{path}/arms", {"arm": "new"})
    made = timed.post(f"{path}/decisions", {"task": "task-1", "context": context, "eligible": ["new"]}).json()
    timed.post(f"/v1/decisions/{made['id']}/reward", {"reward": 1.0})
    timed.ask("DELETE", f"{path}/arms/new")
    timed.ask("DELETE", f"{path}/tasks/task-1", 204)
    timed.post(f"{path}/decisions", {"task": "task-1", "context": context})
    timed.post(f"{path}/decisions", {"task": "task-2", "context": context})


def look(timed, path, decision, arm):
    for part in (*LOOKS, f"/value?baseline=arm:{arm}"):
        timed.get(path + part)
        timed.ask("HEAD", path + part)
    timed.get(f"/v1/decisions/{decision}")
    for place in ("/v1/fleets", "/healthz", "/readyz", "/metrics", "/", "/openapi.json"):
        timed.get(place)


def drive(settings, rows, every):
    kinds = KINDS[::every]
    compiled = Compiled()
    begin = time.monotonic()
    said = []
    service = InProcess(settings, patience=PATIENCE, progress=said)
    ready_after = time.monotonic() - begin
    before, timed = loaded(), Timed(service)
    with event.install_listener("numba:run_pass", compiled):
        timed.get("/readyz")
        for number, kind in enumerate(kinds):
            use(timed, f"fleet-{number}", kind, rows)
        # Decisions that go by themselves, populations, and snapshots.
        settle(lambda: not any(service.live(f"fleet-{n}").replica.refreshing for n in range(len(kinds))))
        time.sleep(4.0)
        for number in range(0, len(kinds), 2):
            service.snapshot(f"fleet-{number}")
        service.stop()
        # Some from a snapshot and some from the log alone.
        timed.service = again = InProcess(settings)
        for number, kind in enumerate(kinds):
            path = f"/v1/fleets/fleet-{number}"
            timed.post(f"{path}/decisions", {"task": "task-2", "context": context_of(kind)})
            timed.get(f"{path}/population")
            timed.ask("DELETE", path, 204)
        again.stop()
    news = {name: count for name, count in loaded().items() if count != before.get(name, 0)}
    return {
        "ready_after": round(ready_after, 1), "said": said, "compiled": sorted(set(compiled.found)), "loaded": news,
        "longest": sorted(timed.longest, reverse=True)[:8], "requests": len(timed.longest),
    }  # fmt: skip


def main():
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            database=str(Path(folder) / "posse.db"), snapshot_seconds=3600.0, limits=Limits(rate=0.0, batch=10_000)
        )
        print(json.dumps(drive(settings, *map(int, sys.argv[1:])), indent=1))


if __name__ == "__main__":
    main()
    assert threading.active_count() < 50
