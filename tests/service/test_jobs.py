"""Long logs are read by a process of their own, which makes the same of them."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
import time

import polars as pl
import pytest

from posse.errors import InvalidValue
from posse.service import jobs
from posse.service.jobs import MOST_STREAMS, Job, run_job, stream_job

pytestmark = pytest.mark.slow

pytest.importorskip("fastapi")

LOG = "/v1/fleets/stores/log"


@pytest.fixture(scope="module")
def busy(service):
    service.make_fleet("stores", policy="random")
    for n in range(40):
        decision = service.decide(f"store-{n % 7}")
        if n % 4:
            service.reward(decision, float(n))
    return service


@pytest.fixture
def started(monkeypatch):
    """The processes that were started."""
    found, real = [], Job.__init__

    def noting(self, work):
        real(self, work)
        found.append((work["job"], self._process))

    monkeypatch.setattr(Job, "__init__", noting)
    return found


def test_a_long_log_is_exported_and_valued_as_a_short_one_is(busy, started, monkeypatch):
    asked = [LOG, f"{LOG}?format=parquet", "/v1/fleets/stores/value?rows=30", "/v1/fleets/stores/value?rows=29"]
    here = [busy.get(path) for path in asked[:3]]
    assert started == []
    monkeypatch.setattr("posse.service.export.LONG", 29)
    monkeypatch.setattr("posse.service.insights._answers", {})
    there = [busy.get(path) for path in asked]
    assert [job for job, _ in started] == ["jsonl", "parquet", "value"], "29 rows are few"
    assert [answer.status_code for answer in here + there] == [200] * 7
    assert here[0].content == there[0].content
    assert here[0].content.count(b"\n") == 40
    tables = [pl.read_parquet(io.BytesIO(answer.content)) for answer in (here[1], there[1])]
    assert tables[0].equals(tables[1])
    assert here[2].json() == there[2].json()
    assert all(process.returncode == 0 for _, process in started)


def test_a_stream_whose_process_is_killed_does_not_look_whole(busy, monkeypatch):
    """Whoever reads it must not take what came so far for all of it."""
    work = {"job": "jsonl", "database": busy.runtime.settings.database, "fleet": "stores", "rewards": "number"}
    real = Job.__init__

    def killed(self, work):
        real(self, work)
        self._process.send_signal(signal.SIGKILL)

    monkeypatch.setattr(Job, "__init__", killed)

    async def read():
        return [block async for block in stream_job(work)]

    with pytest.raises(RuntimeError, match="ended with -9"):
        asyncio.run(read())


def test_a_reader_that_stops_ends_the_process(busy, started):
    work = {"job": "jsonl", "database": busy.runtime.settings.database, "fleet": "stores", "rewards": "number"}

    async def read():
        stream = stream_job(work)
        assert (await anext(stream)).startswith(b"{")
        await stream.aclose()

    asyncio.run(read())
    [(_, process)] = started
    assert process.returncode is not None


def test_what_the_process_refuses_is_refused_in_its_words(tmp_path):
    work = {"job": "jsonl", "database": str(tmp_path / "none.db"), "fleet": "stores", "rewards": "number"}
    with pytest.raises(InvalidValue, match=r"none\.db does not exist"):
        run_job(work)
    with pytest.raises(RuntimeError, match="KeyError"):
        run_job({})


def test_what_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(jobs, "LONGEST", 0.0)
    with pytest.raises(InvalidValue, match="given up"):
        run_job({})


def test_too_many_exports_at_once_are_refused(busy, monkeypatch):
    monkeypatch.setattr("posse.service.export.LONG", 0)
    alone = busy.app.state.jobs
    monkeypatch.setattr(alone, "streams", MOST_STREAMS)
    answer = busy.get(LOG)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
    monkeypatch.setattr(alone, "streams", 0)
    assert busy.get(LOG).status_code == 200
    assert alone.streams == 0


def test_the_process_ends_with_its_parent():
    work = '{"job": "jsonl", "database": "x", "fleet": "x", "rewards": "number", "temporary_folder": null}'
    script = (
        "import sys, time\nfrom posse.service.jobs import do\n"
        "def job(work):\n    print('begun', flush=True)\n    time.sleep(60)\ndo({'jsonl': job})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(work + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "begun\n"
    assert os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    process.stdin.close()
    process.wait(30)  # and not for the minute that its job takes
    process.stdout.close()


def never_ready(monkeypatch):
    """Let every log be long, and let the process that exports it read for ever; return when one was given up."""
    ended = []

    class Endless(Job):
        def __init__(self, work):
            super().__init__(work | {"fleet": "stores"})
            os.kill(self._process.pid, signal.SIGSTOP)

        def close(self):
            super().close()
            ended.append(time.monotonic())

    monkeypatch.setattr("posse.service.export.LONG", 0)
    monkeypatch.setattr(jobs, "Job", Endless)
    return ended


def test_an_export_keeps_no_stop_waiting(start, monkeypatch):
    service = start()
    service.make_fleet("stores", policy="random")
    service.decide("a")
    ended, answers = never_ready(monkeypatch), []
    asking = threading.Thread(target=lambda: answers.append(service.get(f"{LOG}?format=parquet")))
    asking.start()
    time.sleep(1.0)
    assert not ended
    service.runtime.stop()
    asking.join(15)
    assert ended
    assert "given up" in answers[0].text
