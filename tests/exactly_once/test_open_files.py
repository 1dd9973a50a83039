"""A process that may open no more files goes on: compiled code is loaded when a fleet is made, and none after that.

Found from outside: under a limit of open files the refresh of a service's fleet raised after its sums had changed, and
a fleet with 5 rewards in its log had learned 241.
"""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("resource")

LEARNING = """
    import os, resource
    from posse import Posse

    log = []
    fleet = Posse(arms=["red", "green"], features=["a"], seed=1, refresh_growth=0.0, log=log.extend)
    made = [fleet.decide(f"t{i % 2}", [float(i)]) for i in range(5)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    assert all(fleet.reward(decision.id, 1.0) for decision in made)
    assert fleet.refresh_problem is None
    assert fleet.n_rewards == 5 == sum("reward" in record for record in log)
    print("ok")
"""

ESTIMATING = """
    import json, os, resource, tempfile
    import numpy as np
    from posse.service.definition import new_definition
    from posse.service.live_fleet import LiveFleet
    from posse.service.settings import Limits
    from posse.storage import NewDecision, NewReward, open_storage

    given = {
        "arms": ["red", "green"], "features": ["a"], "intercept": True, "policy": "ebm-ts", "prior": None,
        "exploration": None, "floor": 0.0, "evaluation_budget": 0.0, "refresh_growth": 0.0, "robust": False,
        "time_to_live": 1e6, "absent_reward": None, "count_pending": True, "retention": None,
    }
    folder = tempfile.TemporaryDirectory()
    storage = open_storage(folder.name + "/posse.db")
    storage.create_fleet("f", new_definition(given, Limits()), 1.0)
    live = LiveFleet(storage, storage.fleet("f"))
    live.replica.features.encode_many(np.ones((2, 1)))
    body = json.dumps({"context": {"a": 1.0}})
    made = [NewDecision("f", f"d{i}", 10.0, f"t{i}", "red", 0.5, body, "p", "v") for i in range(5)]
    storage.write([[one] for one in made])
    storage.write([[NewReward(one.id, 1.0, 11.0)] for one in made])
    storage.changes("f", 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for attempt in range(20):
        live.follow()
    assert live.replica.n_rewards == 5, live.replica.n_rewards
    assert live.replica.refresh_problem is None
    for file in held:
        os.close(file)
    live.write_snapshot(lambda job: job(), 12.0)
    assert LiveFleet(storage, storage.fleet("f")).replica.n_rewards == 5
    storage.close()
    folder.cleanup()
    print("ok")
"""


def run(script):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rewards_are_learned(compiled):
    assert run(LEARNING) == "ok\n"


def test_rewards_are_learned_by_a_service(compiled):
    assert run(ESTIMATING) == "ok\n"
