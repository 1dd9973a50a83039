"""What operators see: ids of requests, lines of the log, and numbers that add up over workers."""

import json
import logging
import os
import re
import subprocess
import sys

import pytest

from posse.cli.doctor import ask
from posse.service.log_lines import JsonLines, TextLines, without_secrets
from posse.service.measures import OF_PROCESSES, Measures


def numbers(text):
    """What /metrics tells, by name with labels."""
    found = (re.fullmatch(r"(\w+(?:{.*})?) (\S+)", line) for line in text.splitlines() if not line.startswith("#"))
    return {match[1]: float(match[2]) for match in found if match}


def test_a_request_keeps_its_id_or_gets_one(service):
    answer = service.get("/v1/fleets", headers={"x-request-id": "order-991"})
    assert answer.headers["x-request-id"] == "order-991"
    made = [service.get("/healthz").headers["x-request-id"] for _ in range(3)]
    assert len(set(made)) == 3
    failed = service.get("/v1/fleets/none", headers={"x-request-id": "a-404"})
    assert (failed.status_code, failed.headers["x-request-id"]) == (404, "a-404")


@pytest.mark.parametrize("forged", ["a b", 'x"} {"level": "error', "x" * 129, ""])
def test_an_id_that_could_forge_lines_is_replaced(service, forged):
    answer = service.get("/healthz", headers={"x-request-id": forged})
    assert answer.headers["x-request-id"] != forged


def test_lines_hold_no_secrets():
    line = "posse_3f1c0a9b2d4e_aB-c_dEf at postgresql://posse:hush@db/posse, password=hush"
    assert without_secrets(line) == "posse_3f1c0a9b2d4e_*** at postgresql://posse:***@db/posse, password=***"
    for formatter in (JsonLines(), TextLines()):
        record = logging.LogRecord("posse.service", logging.ERROR, "", 0, "no %s", (line,), None)
        assert "hush" not in formatter.format(record)
        assert "dEf" not in formatter.format(record)


def test_json_lines_are_whole_whatever_the_message_is(capsys):
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "", 0, 'quo"te\nand more', (), (type(error), error, None))
    line = JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == 'quo"te\nand more'
    assert "two" in found["traceback"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"])


def test_metrics_of_what_happened(start):
    service = start()
    service.make_fleet()
    arms = [service.decide(f"store-{i}")["arm"] for i in range(6)]
    decision = service.decide("store-1")
    service.reward(decision, 2.5)
    service.get("/v1/fleets/none")
    service.post("/v1/decisions/none/reward", json={"reward": 1.0})
    service.snapshot()
    found = numbers(service.get("/metrics").text)
    chosen = sum(value for name, value in found.items() if name.startswith("posse_arm_decisions_total{"))
    assert chosen == len(arms) + 1
    assert found['posse_errors_total{code="unknown_fleet"}'] == 1
    assert found['posse_errors_total{code="unknown_decision"}'] == 1
    assert found["posse_write_seconds_count"] >= 8
    assert found["posse_write_failures_total"] == 0
    assert found['posse_fleet_mean_reward{fleet="stores"}'] == 2.5
    assert 0 <= found['posse_fleet_snapshot_age_seconds{fleet="stores"}'] < 60
    assert 0 < found['posse_fleet_oldest_pending_seconds{fleet="stores"}'] < 60
    assert 0 <= found['posse_fleet_population_age_seconds{fleet="stores"}'] < 60
    assert found['posse_fleet_rewards_since_population{fleet="stores"}'] <= 1
    assert found["posse_resident_bytes"] > 1e7
    assert found["posse_database_bytes"] > 1e4
    assert found["posse_disk_free_bytes"] > 0
    service.delete("/v1/fleets/stores")
    assert 'fleet="stores"' not in service.get("/metrics").text


def test_arms_that_are_counted_have_a_limit(monkeypatch):
    monkeypatch.setattr("posse.service.measures.MOST_ARMS", 2)
    measures = Measures()
    for arm in ("a", "b", "c", "d"):
        measures.decided("stores", arm)
    text = {sample.labels["arm"]: sample.value for metric in measures.registry.collect() for sample in metric.samples
            if sample.name == "posse_arm_decisions_total"}  # fmt: skip
    assert text == {"a": 1, "b": 1, "other": 2}


WORKERS = """
import os, sys, time
from prometheus_client.exposition import generate_latest
from posse.service.measures import OF_PROCESSES, Measures
measures = Measures()
child = os.fork()
if child == 0:  # the worker that leads, and is not asked
    measures.note_clock(held=True, off=-300.0)
    measures.note_fleets({"stores": {"degraded": True, "rewards_since_population": 7, "differing_tasks": 3}})
    os.close(1)
    sys.stdin.read()  # until it has been told of
    os._exit(0)
measures.note_clock(held=False, off=0.0)
measures.note_fleets({"stores": {"degraded": False, "rewards_since_population": 9}})
text = b""
while b"differing_tasks{" not in text:
    time.sleep(0.01)
    text = generate_latest(measures.registry)
print(text.decode())
"""


def test_every_worker_reports_the_metrics_of_all(tmp_path):
    """Gauges are shared through files that Prometheus' library chooses when it is imported, so in another process."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "gauge_livesum_1.db").touch()  # of a worker that is just starting
    with subprocess.Popen(
        [sys.executable, "-c", WORKERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "shared")},
    ) as process:  # fmt: skip
        found = numbers(process.stdout.read())
        process.stdin.close()
    told = {name: value for name, value in found.items() if name.startswith(("posse_clock_", "posse_fleet_"))}
    assert told == {
        "posse_clock_held": 1,
        "posse_clock_off_seconds": -300,
        'posse_fleet_degraded{fleet="stores"}': 1,
        'posse_fleet_differing_tasks{fleet="stores"}': 3,
        'posse_fleet_rewards_since_population{fleet="stores"}': 9,
    }


@pytest.mark.slow
def test_workers_log_json_and_count_together(postgres_url, serve, keys, tmp_path, wait_for):
    """Each request is counted once, whichever worker is asked; lines are JSON, and hold no key, task or context."""
    (key,) = keys(postgres_url, ("decide", "reward", "read", "admin"))
    served = serve(
        "--database", postgres_url, "--workers", "2", "--log-format", "json", "--access-log", key=key
    )  # fmt: skip
    served.make_fleet()
    served.client.headers["connection"] = "close"  # so that both are asked
    for i in range(30):
        served.reward(served.decide(f"secret-task-{i}", {"hour": 9.125, "weather": "rain"}), 1.0)
    served.get("/v1/fleets/stores/tasks/secret-task-1", headers={"x-request-id": "find-me"})
    told = [numbers(served.get("/metrics").text) for _ in range(8)]
    name = 'posse_requests_total{method="POST",route="/v1/fleets/{fleet}/decisions",status="200"}'
    assert {found[name] for found in told} == {30}
    assert {sum(v for k, v in found.items() if k.startswith("posse_arm_decisions_total")) for found in told} == {30}
    assert {found["posse_leading"] for found in told} == {1}
    for number in OF_PROCESSES:
        if number != "differing_tasks":  # which is there once a comparison has been made
            assert all(f'posse_fleet_{number}{{fleet="stores"}}' in found for found in told), number
    assert {found["posse_clock_held"] for found in told} == {found["posse_clock_off_seconds"] for found in told} == {0}
    workers = {k for found in told for k in found if k.startswith("posse_resident_bytes{")}
    assert len(workers) == 2
    served.stop()
    lines = [json.loads(line) for line in served.errors.read_text().splitlines()]
    asked = [line for line in lines if line["logger"] == "posse.access"]
    assert len({line["process"] for line in asked}) == 2
    assert len([line for line in asked if line["route"] == "/v1/fleets/{fleet}/decisions"]) == 30
    (found,) = [line for line in asked if line["request_id"] == "find-me"]
    assert (found["fleet"], found["status"], found["key"]) == ("stores", 200, key.split("_")[1])
    words = served.errors.read_text()
    for secret in (key, "secret-task", "9.125"):
        assert secret not in words


@pytest.mark.slow
def test_the_doctor_asks_a_service(serve, keys, tmp_path):
    (key,) = keys(str(tmp_path / "posse.db"), ("read", "admin"))
    served = serve(key=key)
    served.make_fleet()
    found = {finding.what: finding for finding in ask(served.url, key)}
    assert {finding.level for finding in found.values()} == {"ok"}
    assert {"service, database", "service, disk", "service, leader"} <= set(found)
    assert [finding.level for finding in ask(served.url, None)][-1] == "warning"
