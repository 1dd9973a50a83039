"""A restart without a snapshot: how long `posse serve` takes to be ready with a long log in its SQLite file.

python lab/scripts/restart.py                                    # a million decisions, three starts
python lab/scripts/restart.py --decisions 100000 --starts 1
python lab/scripts/restart.py --keep FOLDER                      # keeps the log there, and takes it from there

Every start has a copy of the file that nobody has opened yet, and is killed when it is ready. Besides the seconds on
the clock those of the processor are told, which say more on a machine that is busy with other things, and those of
learning the log alone in this process, with a digest of all sums: it must be the same before and after a change.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from posse.client import Client, ServiceUnavailable
from posse.service.definition import new_definition
from posse.service.live_fleet import LiveFleet
from posse.service.schemas import Definition
from posse.service.settings import Limits
from posse.storage import NewDecision, NewReward, open_storage
from posse_lab.benchmarks.ports import free_port
from posse_lab.benchmarks.started import processor_seconds

BAR = 6.0  # seconds until a million decisions are learned and requests are answered
N_TASKS, N_ARMS, N_FEATURES = 10_000, 5, 10
BLOCK = 5_000  # decisions of one transaction
NAME = "stores"


def fill(path, n_decisions):
    """Write a log as a service does: decisions, then their rewards, of one fleet."""
    arms = [f"arm-{arm}" for arm in range(N_ARMS)]
    names = [f"x{i}" for i in range(N_FEATURES)]
    asked = Definition(arms=arms, features=names, intercept=False)
    rng = np.random.default_rng(0)
    effects = rng.normal(0.0, 0.3, (N_ARMS, N_FEATURES)) + rng.normal(0.0, 0.4, (N_TASKS, N_ARMS, N_FEATURES))
    storage = open_storage(str(path))
    storage.create_fleet(NAME, new_definition(asked.model_dump(), Limits()), 1.7e9)
    for begin in range(0, n_decisions, BLOCK):
        count = min(BLOCK, n_decisions - begin)
        task, arm = rng.integers(N_TASKS, size=count), rng.integers(N_ARMS, size=count)
        X = np.round(rng.normal(size=(count, N_FEATURES)), 4)
        y = np.round((effects[task, arm] * X).sum(axis=1) + rng.normal(0.0, 0.5, count), 4)
        chances, believed = rng.dirichlet(np.ones(N_ARMS), count), rng.normal(size=(count, N_ARMS))
        decisions, rewards = [], []
        for i in range(count):
            chance = chances[i].tolist()
            body = {
                "context": dict(zip(names, X[i].tolist(), strict=True)), "eligible": arms, "probabilities": chance,
                "mean": believed[i].tolist(), "sd": chance,
            }  # fmt: skip
            number, time_ = begin + i, 1.7e9 + 0.01 * (begin + i)
            decisions.append(NewDecision(
                NAME, f"{hashlib.blake2b(b'%d' % number, digest_size=8).hexdigest()}-{number}", time_,
                f"task-{task[i]}", arms[arm[i]], chance[arm[i]], json.dumps(body, separators=(",", ":")), "ebm-ts", "0",
                key=f"key-{number}", digest="0" * 32,
            ))  # fmt: skip
            rewards.append(NewReward(decisions[-1].id, float(y[i]), time_ + 60.0))
        storage.write([[one] for one in decisions])
        storage.write([[one] for one in rewards])
        print(f"\r{begin + count:,} decisions", end="", file=sys.stderr)
    storage.close()
    print(file=sys.stderr)


def learn(path):
    """Learn the log in this process; return seconds, those of the processor, and a digest of what was learned."""
    storage = open_storage(str(path))
    try:
        begin, processor = time.perf_counter(), time.process_time()
        live = LiveFleet(storage, storage.fleet(NAME), from_log=True)
        seconds = time.perf_counter() - begin, time.process_time() - processor
        digest = hashlib.blake2b(live.replica.dump_population(), digest_size=8)
        _, sums = live.replica.learned([f"task-{task}" for task in range(N_TASKS)])
        for pair in sorted(sums):
            digest.update(repr(pair).encode())
            for array in sums[pair]:
                digest.update(np.asarray(array, dtype=np.float64).tobytes())
        return *seconds, digest.hexdigest()
    finally:
        storage.close()


def start(path):
    """Start a service; return seconds until it is ready, and those of the processor."""
    port = free_port()
    command = [sys.executable, "-m", "posse", "serve", "--port", str(port), "--database", str(path)]
    begin = time.perf_counter()
    with (path.parent / "serve.log").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=path.parent)
    try:
        with Client(f"http://127.0.0.1:{port}", timeout=5.0) as client:
            while process.poll() is None:
                try:
                    if client.health().ready:
                        taken = time.perf_counter() - begin, processor_seconds([process.pid])
                        rewards = client.fleet(NAME).rewards
                        return *taken, rewards
                except ServiceUnavailable:
                    pass
                time.sleep(0.02)
        raise SystemExit((path.parent / "serve.log").read_text("utf-8")[-800:])
    finally:
        process.kill()
        process.wait()


def main(decisions, starts, learns, keep):
    with tempfile.TemporaryDirectory(prefix="posse-bench-") as temporary:
        folder = Path(temporary)
        there = Path(keep) if keep else folder
        there.mkdir(parents=True, exist_ok=True)
        log = there / f"log-{decisions}.db"
        if not log.exists():
            partial = log.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            fill(partial, decisions)
            os.replace(partial, log)
        told = {"decisions": decisions, "bytes": log.stat().st_size, "bar": BAR, "starts": [], "learns": []}
        for _ in range(learns):
            shutil.copy(log, folder / "posse.db")
            seconds, processor, digest = learn(folder / "posse.db")
            print(f"learned in {seconds:.2f} s, {processor:.2f} s of the processor; sums {digest}", flush=True)
            told["learns"].append((seconds, processor, digest))
        for _ in range(starts):
            for old in folder.glob("posse.db*"):
                old.unlink()
            shutil.copy(log, folder / "posse.db")
            seconds, processor, rewards = start(folder / "posse.db")
            assert rewards == decisions
            print(f"ready after {seconds:.2f} s, {processor:.2f} s of the processor", flush=True)
            told["starts"].append((seconds, processor))
        print(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--learns", type=int, default=1)
    parser.add_argument("--keep", help="a folder for the log")
    given = parser.parse_args()
    main(given.decisions, given.starts, given.learns, given.keep)
