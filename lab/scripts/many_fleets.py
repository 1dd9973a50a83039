"""Many small fleets in one service on SQLite: a restart, the first answers after it, and what it costs while idle.

.venv/bin/python lab/scripts/many_fleets.py [--fleets 1000] [--rewards 5] [--idle 30]

Processor seconds are those of the service and of the processes that it started; on a machine that is busy they say
more than the clock does. A false answer is any but a decision of the fleet that was asked. Run `posse warmup` first,
or compiling is part of the first start.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ARMS = ["coffee", "cake", "newspaper"]
JSON = {"content-type": "application/json"}
TICKS = os.sysconf("SC_CLK_TCK")


class Service:
    """``posse serve`` over a file, and one connection to it."""

    def __init__(self, folder, fleets):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.begin = time.monotonic()
        settings = Path(folder) / "settings.toml"
        settings.write_text(
            f'database = "{folder}/posse.db"\nport = {self.port}\n[limits]\nfleets = {fleets}\n', "utf-8"
        )
        command = [sys.executable, "-m", "posse", "serve", "--config", str(settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._http = None

    def ask(self, method, path, body=None):
        if self._http is None:
            self._http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            self._http.connect()
            self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._http.request(method, path, None if body is None else json.dumps(body), JSON)
        answer = self._http.getresponse()
        return answer.status, json.loads(answer.read())

    def readiness(self):
        """Return what the service says about itself, None if it does not listen yet."""
        try:
            return self.ask("GET", "/readyz")
        except OSError:
            self._http = None
            return None

    def wait_until(self, done):
        """Return seconds by the clock and of processors since the start, when what it says is as it should be."""
        while True:
            found = self.readiness()
            if found is not None and found[0] == 200 and done(found[1]):
                return time.monotonic() - self.begin, self.processor()
            if self.process.poll() is not None:
                raise SystemExit(f"the service ended with {self.process.returncode}")
            time.sleep(0.02)

    def processor(self):
        """Seconds of processors: user and system, its own and of children that have ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def stop(self):
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        return time.monotonic() - begin


def feed(service, fleet, rewards, rng):
    asks = [{"task": f"task-{i % 3}", "context": {"hour": float(rng.normal())}} for i in range(rewards)]
    status, made = service.ask("POST", f"/v1/fleets/{fleet}/decisions/batch", {"decisions": asks})
    assert status == 200, made
    given = [{"id": one["id"], "reward": float(rng.normal())} for one in made["decisions"]]
    status, told = service.ask("POST", "/v1/rewards", {"rewards": given})
    assert status == 200, told


def measure(service, names, idle):
    wall, processor = service.wait_until(lambda _: True)
    print(f"ready after {processor:.2f} s of processors, {wall:.1f} s by the clock")
    before, false, took = service.processor(), 0, []
    for name in reversed(names):  # those whose turn to be loaded comes last are asked first
        begin = time.monotonic()
        status, answer = service.ask(
            "POST", f"/v1/fleets/{name}/decisions", {"task": "task-0", "context": {"hour": 1.0}}
        )
        took.append(1000 * (time.monotonic() - begin))
        false += status != 200 or answer["arm"] not in ARMS
    print(
        f"{len(names)} decisions: {false} false answers, {np.median(took):.1f} ms (median), "
        f"{np.quantile(took, 0.99):.0f} ms (99 %), {service.processor() - before:.2f} s of processors"
    )
    wall, processor = service.wait_until(lambda found: found["fleets"] == len(names))
    print(f"all in memory by {processor:.2f} s of processors, {wall:.1f} s by the clock")
    time.sleep(5)
    before, begin = service.processor(), time.monotonic()
    time.sleep(idle)
    share = (service.processor() - before) / (time.monotonic() - begin)
    print(f"idle for {idle:g} s: {100 * share:.1f} % of a core")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=1000)
    parser.add_argument("--rewards", type=int, default=5)
    parser.add_argument("--idle", type=float, default=30.0, help="seconds for which nobody asks")
    given = parser.parse_args()
    names, rng = [f"fleet-{i:05d}" for i in range(given.fleets)], np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        with Service(folder, given.fleets) as service:
            service.wait_until(lambda _: True)
            for name in names:
                status, made = service.ask("PUT", f"/v1/fleets/{name}", {"arms": ARMS, "features": ["hour"]})
                assert status == 201, made
                feed(service, name, given.rewards, rng)
            print(f"stopped in {service.stop():.1f} s")
        with Service(folder, given.fleets) as service:
            measure(service, names, given.idle)


if __name__ == "__main__":
    main()
