"""Everything is compiled and loaded before a service says that it is ready."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from posse.service import upkeep as upkeep_module
from posse.service import warming


def asked_for_everything(rows, every, **environment):
    """What a service that was just started compiled and loaded after it was ready; see compiling.py."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("compiling.py"), str(rows), str(every)],
        capture_output=True, text=True, env={**os.environ, **environment}, timeout=2400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_every_route_finds_its_compiled_code_loaded():
    found = asked_for_everything(100, 4)
    assert found["requests"] > 500
    assert (found["compiled"], found["loaded"]) == ([], {})


@pytest.mark.slow
def test_a_cold_machine_compiles_nothing_after_it_is_ready(tmp_path):
    found = asked_for_everything(1000, 1, NUMBA_CACHE_DIR=str(tmp_path))
    assert any("1 of 7" in words for words in found["said"])
    assert (found["compiled"], found["loaded"]) == ([], {})
    print(f"ready after {found['ready_after']} s; the longest requests: {found['longest']}")


def test_it_is_not_ready_until_compiled_code_is_there(start, monkeypatch, caplog):
    tries = []

    def no_files():
        tries.append(1)
        if len(tries) < 3:
            raise OSError(24, "Too many open files")

    monkeypatch.setattr(warming, "parts", lambda: {"files": no_files})
    monkeypatch.setattr(upkeep_module, "WARM_SECONDS", 0.01)
    service = start()
    assert len(tries) == 3
    assert caplog.text.count("compiled code could not be loaded") == 2
    assert service.get("/readyz").status_code == 200


def test_readiness_has_a_check_for_everything(start, monkeypatch):
    service = start()
    service.make_fleet()
    assert service.read("/readyz")["checks"] == {
        "compiled": {"ok": True, "detail": "all compiled code is loaded"},
        "database": {"ok": True, "detail": "answers"},
        "loaded": {"ok": True, "detail": "1 fleet"},
        "disk": {"ok": True, "detail": "writable"},
        "leader": {"ok": True, "detail": "this process learns"},
    }
    monkeypatch.setattr(service.runtime.upkeep, "_lead", lambda: None)
    time.sleep(2 * service.settings.follow_seconds)
    service.runtime.leader_known = False
    answer = service.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["error"]["field"] == "leader"
    assert answer.headers["retry-after"] == "1"
