"""A service whose file is taken away, replaced, damaged, or given another name."""

import os
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest

from posse.errors import InvalidValue, StorageMismatch
from posse.storage import open_storage


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_nothing_is_acknowledged_that_would_be_lost(start, tmp_path, shape, caplog, wait_for, what):
    service = start()
    service.make_fleet()
    decision = service.decide()
    path = tmp_path / "posse.db"
    os.rename(path, tmp_path / "away.db")
    if what == "replaced":
        # By another process: one that closes the file loses SQLite's locks of it.
        subprocess.run(["cp", tmp_path / "away.db", path], check=True)
    asked = service.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1.0})
    said = "is gone" if what == "removed" else "was replaced"
    assert said in shape(asked, 503, "storage_unavailable")["message"]
    ready = service.get("/readyz")
    assert (ready.status_code, said in ready.json()["error"]["message"]) == (503, True)
    new = {"task": "t", "context": {"hour": 1.0, "weather": "sun"}}
    shape(service.post("/v1/fleets/stores/decisions", json=new), 503, "storage_unavailable")
    assert service.get("/healthz").status_code == 200
    assert any(record.levelname == "ERROR" and said in record.message for record in caplog.records)
    # Put back, it goes on, and the reward that was refused is new.
    os.replace(tmp_path / "away.db", path)
    assert service.reward(decision, 1.0)["new"] is True
    # Whoever learns may have given that up meanwhile, and takes it up again within seconds.
    wait_for(lambda: service.get("/readyz").status_code == 200)
    assert service.counts()["rewards"] == 1


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_another_name_of_its_file_starts_no_second_service(start, tmp_path, link):
    start()
    link(tmp_path / "posse.db", tmp_path / "other.db")
    with pytest.raises((InvalidValue, StorageMismatch), match=r"another posse serve|hard links"):
        start(tmp_path / "other.db")


def test_a_start_that_fails_lets_go_of_its_file(start, tmp_path):
    path = tmp_path / "posse.db"
    storage = open_storage(path)
    with storage._writing() as session:
        session.run("ALTER TABLE clock RENAME TO another")
    storage.close()
    with pytest.raises(StorageMismatch):
        start(path)
    storage = open_storage(path)
    assert storage.lead()
    storage.close()


def damage(path, table):
    """Overwrite the first page of a table."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        [(size,)] = connection.execute("PRAGMA page_size")
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.slow
def test_a_damaged_file_is_unavailable_not_ready_and_logged_once(start, tmp_path, shape, caplog, rainy):
    service = start()
    service.make_fleet()
    decision = service.decide()
    service.stop()
    damage(tmp_path / "posse.db", "tasks")
    service = start()
    ask = {"task": "another", "context": rainy}
    for _ in range(3):
        for answer in (
            service.post("/v1/fleets/stores/decisions", json=ask),
            service.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1.0}),
            service.get("/v1/fleets/stores/tasks"),
        ):
            message = shape(answer, 503, "storage_unavailable")["message"]
            assert str(tmp_path) not in message
            assert int(answer.headers["retry-after"]) >= 1
        ready = service.get("/readyz")
        assert (ready.status_code, "retry-after" in ready.headers) == (503, True)
        assert "restore it from a backup" in ready.json()["checks"]["disk"]["detail"]
        time.sleep(1.2)  # as long as it takes until something is written to try it out
    assert sum("is damaged" in record.getMessage() for record in caplog.records) == 1
