"""All that a core does between a log and what is believed is compiled when it is made, for its own settings."""

import subprocess
import sys

import pytest

USE = """
import sys, threading
import numpy as np
from posse.core.compiler import announcement, functions
from posse.core.core import Core
from posse.core.forgetting import HalfLife, Learned, Never
from posse.core.revenue import Revenue
from posse.core.rule import Rule
from posse.core.select import SAMPLING
from posse.families import family_of

announcement.quiet = True
family, forgets, background = family_of(sys.argv[1]), sys.argv[2], sys.argv[3] == "background"

def forgetting(of, n_features):
    learned = Learned((30.0, 90.0), 3, n_features, family_of(of))
    return {"never": Never(), "half-life": HalfLife(50.0), "learned": learned}[forgets]

settings = {
    "family": family, "rule": Rule(SAMPLING, 0.01, 0.1), "n_task_features": 2, "arm_features": np.ones((3, 1)),
    "robust": True,
}
n_values = 4 if family.name == "revenue" else 2
if family.name == "revenue":
    core = Revenue(3, 4, forgetting=(forgetting("binary", 4), forgetting("number", 5)), **settings)
else:
    core = Core(3, 4, forgetting=forgetting(family.name, 4), **settings)
lock = threading.RLock()
core.run_in_background(lock if background else None)

def compiled():
    return {function.py_func.__qualname__: len(function.signatures) for function in functions}

before, rng, out = compiled(), np.random.default_rng(1), np.empty((3, 3))
lock.acquire()
core.take_tasks(core.reserve_tasks(20), rng.normal(size=(20, 2)))
core.decide(3, np.ones(4), 0.0, np.arange(3), 1, True, 0.3, out)
receipts = []
for n in range(200):
    task, arm, x = int(rng.integers(20)), int(rng.integers(3)), rng.normal(size=4)
    receipts.append(core.learn(task, arm, x, float(n % n_values), float(n), is_open=n % 3 == 0))
    core.estimate_if_due()
for n in range(180, 200):
    core.close(core.replace(receipts[n], float(n_values - 1 - n % n_values), float(n)))
rows = rng.integers(20, size=90), rng.integers(3, size=90), rng.normal(size=(90, 4)), np.arange(90.0) % n_values
core.learn_rows(*rows, 201.0)
core.learn_rows(*rows, 202.0, estimate=False)
core.ensure_fresh()
core.know(np.array([1, 5]), np.ones((2, 2)), np.array([True, False]))
core.add_arm()
core.forget(np.array([3, 4]))
core.renew()
core.finish_background()
after = compiled()
print({name: count for name, count in after.items() if count != before[name]})
"""


@pytest.mark.parametrize("forgets", ["never", "half-life", "learned"])
@pytest.mark.parametrize("family", ["number", "binary", "revenue"])
def test_nothing_is_compiled_or_loaded_once_a_core_is_made(family, forgets):
    for place in ("foreground", "background"):
        asked = [sys.executable, "-c", USE, family, forgets, place]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "{}\n"
