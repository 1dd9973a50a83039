"""``posse serve`` starts, says where, and refuses what would not be safe or could not work."""

import json
import re
import signal
import socket
import subprocess
import time
import urllib.request

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue, PosseError, StorageMismatch
from posse.service.http.server import require_safe
from posse.service.keys import new_key
from posse.service.settings import Settings
from posse.storage import open_storage
from posse_lab.servers.service import SERVE, Service

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    """Call the command in this process; for what is refused before anything is served."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSSE_DATABASE", raising=False)

    def call(*arguments):
        return CliRunner().invoke(app, ["serve", *map(str, arguments)], catch_exceptions=False)

    return call


@pytest.fixture
def launch(tmp_path):
    """Start the command as a process; ``printed_url`` and ``words`` are what it says."""
    started = []

    def start(*arguments, env=None):
        started.append(Service(tmp_path, *arguments, port=0, environment=env))
        started[-1].start(ready=False)
        return started[-1]

    yield start
    for launched in started:
        launched.clear()


def ask(url):
    end = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 503 or time.monotonic() > end:
                    return error.code
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def test_help_says_what_can_be_set(invoke):
    text = re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", invoke("--help").stdout))
    for option in ("--config", "--database", "--host", "--port", "--workers", "--demo", "--verbose"):
        assert option in text
    for words in ("SQLite", "postgresql://", "127.0.0.1", "8080", "keys", "POSSE_DATABASE"):
        assert words in text


def test_others_than_this_machine_are_served_with_keys_only(invoke, tmp_path):
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(InvalidValue, match=r"without API keys .* this machine only.*posse service keys create"):
            invoke("--host", host)
    storage = open_storage(tmp_path / "posse.db")
    storage.add_key(new_key(["read"], "", 0.0)[1])
    storage.close()
    found = require_safe(Settings(database=str(tmp_path / "posse.db"), host="0.0.0.0"))
    assert found is not None
    assert len(found) == 1


def test_a_refusal_is_one_line_and_status_2(tmp_path):
    done = subprocess.run([*SERVE, "--host", "0.0.0.0", "--port", "0"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("posse: without API keys")
    assert done.stderr.count("\n") == 1


def test_processes_share_postgres_only(invoke):
    with pytest.raises(InvalidValue, match=r"2 processes cannot share the SQLite file.*--workers 1"):
        invoke("--workers", "2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "65535"),
        (["--workers", "0"], "workers"),
        (["--config", "none.toml"], "cannot read the settings"),
        (["--database", "none/posse.db"], "folder"),
        (["--database", "mysql://host/name"], "no storage is known"),
        (["--database", ":memory:"], "a storage is a file"),
        (["--host", "no such host"], "without API keys|cannot listen"),
    ],
)
def test_what_cannot_work_is_said_at_once(invoke, arguments, words):
    with pytest.raises(PosseError, match=words):
        invoke("--port", "0", *arguments)


@pytest.mark.parametrize("data", [b"hello", b"SQLite format 3\0" + b"x" * 500])
def test_a_file_that_is_something_else_is_left_alone(invoke, tmp_path, data):
    path = tmp_path / "notes.txt"
    path.write_bytes(data)
    with pytest.raises(StorageMismatch):
        invoke("--database", path)
    assert path.read_bytes() == data


def test_a_port_that_is_taken_is_refused(invoke):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidValue, match=f"cannot listen to 127.0.0.1:{port}.*another --port"):
            invoke("--port", port)


def test_it_starts_with_nothing_said_and_tells_where(launch, tmp_path):
    first = launch()
    url = first.printed_url()
    assert ask(f"{url}/healthz") == 200
    assert ask(f"{url}/readyz") == 200
    assert ask(f"{url}/v1/fleets") == 200
    assert (tmp_path / "posse.db").exists()
    assert (tmp_path / "posse.db").stat().st_mode & 0o077 == 0

    second = launch()
    assert second.wait() == 2
    assert second.output.read_text() == "", "it said that it serves, and does not"
    assert "another posse serve uses" in second.words
    assert "Traceback" not in second.words
    assert ask(f"{url}/readyz") == 200

    assert first.stop() in (0, -signal.SIGTERM)
    said = first.words
    assert "posse.db" in said
    assert "no API keys" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_connection_right_after_the_address_was_printed_is_taken(launch):
    host, port = launch().printed_url().removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5):
        pass


@pytest.mark.slow
def test_with_keys_it_listens_to_others_and_asks_for_them(launch, tmp_path):
    storage = open_storage(tmp_path / "kept.db")
    key, row = new_key(["read"], "", 0.0)
    storage.add_key(row)
    storage.close()
    (tmp_path / "posse.toml").write_text('host = "0.0.0.0"\nport = 0\n')
    launched = launch("--config", "posse.toml", env={"POSSE_DATABASE": "kept.db"})
    local = f"http://127.0.0.1:{launched.printed_url().rpartition(':')[2]}"
    assert ask(f"{local}/readyz") == 200
    assert ask(f"{local}/v1/fleets") == 401
    request = urllib.request.Request(f"{local}/v1/fleets", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.status == 200
    launched.kill()
    assert key.split("_", 2)[2] not in launched.words


@pytest.mark.slow
def test_a_start_away_from_this_machine_waits_for_its_database(launch, postgres_server, postgres_url):
    storage = open_storage(postgres_url)
    key, row = new_key(["read"], "", 0.0)
    storage.add_key(row)
    storage.close()
    postgres_server.stop()
    try:
        launched = launch("--host", "0.0.0.0", "--database", postgres_url)
        url = launched.printed_url()
        assert url is not None, launched.words
        local = f"http://127.0.0.1:{url.rpartition(':')[2]}"
        for path in ("/readyz", "/v1/fleets"):
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(local + path, timeout=5)
    finally:
        postgres_server.start()
    assert ask(f"{local}/readyz") == 200
    assert ask(f"{local}/v1/fleets") == 401
    request = urllib.request.Request(f"{local}/v1/fleets", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.status == 200


@pytest.mark.slow
def test_it_says_how_to_make_a_key_if_the_last_was_revoked(launch, tmp_path):
    storage = open_storage(tmp_path / "posse.db")
    _, row = new_key(["read"], "", 0.0)
    storage.add_key(row)
    storage.revoke_key(row.id)
    storage.close()
    launched = launch()
    assert ask(f"{launched.printed_url()}/v1/fleets") == 401
    launched.kill()
    said = launched.words
    assert "the last was revoked" in said
    assert "posse service keys create --scope admin --database posse.db" in said


def test_a_password_is_not_printed():
    from posse.cli.serve import _without_password

    for address in ("postgresql://user:secret@host:5432/name", "postgresql://user:s%40cret@host/name?x=1"):
        assert "cret" not in _without_password(address)
        assert "host" in _without_password(address)
    assert _without_password("some/posse.db") == "some/posse.db"
    assert "secret" not in _without_password("postgresql://host/name?user=me&password=secret")


@pytest.mark.slow
def test_the_demo_is_announced_and_its_history_written_once(launch):
    for said in ("wrote 4 simulated weeks of 20 stores", "so no history is written"):
        demo = launch("--demo", "--database", "demo.db")
        url = demo.printed_url()
        assert ask(f"{url}/readyz") == 200
        assert said in demo.words
        with urllib.request.urlopen(f"{url}/v1/fleets/stores", timeout=20) as answer:
            first = json.loads(answer.read())
        assert first["arms"] == ["coffee", "croissant", "sandwich", "smoothie"]
        end = time.monotonic() + 30
        while True:  # customers go on coming
            with urllib.request.urlopen(f"{url}/v1/fleets/stores", timeout=20) as answer:
                if json.loads(answer.read())["decisions"] > first["decisions"]:
                    break
            assert time.monotonic() < end
            time.sleep(0.2)
        assert demo.stop() == 0
