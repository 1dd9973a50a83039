"""What only a file can do wrong."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest

from posse.errors import StorageMismatch, StorageUnavailable
from posse.storage import ACCEPTED, open_storage
from posse.storage.sqlite import SqliteStorage

LEADER = """
import sys
from posse.storage import open_storage
storage = open_storage(sys.argv[1])
print(storage.lead(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def address(tmp_path):
    return str(tmp_path / "posse.db")


def bytes_of(address):
    """All bytes of all files, read by another process: reading here would take the locks from SQLite."""
    files = [address + end for end in ("", "-wal", "-shm", ".lock") if os.path.exists(address + end)]
    return subprocess.run(["cat", *files], capture_output=True, check=True).stdout


def test_urls_and_paths_name_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in ("a.db", "sqlite:///a.db", f"sqlite:///{tmp_path}/a.db", tmp_path / "a.db"):
        storage = open_storage(address)
        storage.create_fleet("one", {}, 1.0)
        assert len(storage.fleets()) == 1
        storage.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db"]


def test_file_is_for_its_owner(storage, address):
    assert stat.S_IMODE(os.stat(address).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(address + "-wal").st_mode) == 0o600


def test_commits_wait_for_the_disk(storage):
    # Crashes of the machine cannot be had in a test; this is what SQLite needs to survive them.
    with storage._transaction() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to look at " * 100, b"SQLite format 3\0" + b"x" * 4096]
)
def test_file_of_something_else_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StorageMismatch):
        open_storage(path)
    assert path.read_bytes() == content


def test_database_of_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE fleets (ships INTEGER)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StorageMismatch, match="not a storage of posse"):
        open_storage(path)
    assert path.read_bytes() == before


def test_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StorageUnavailable, match="folder exists"):
        open_storage(tmp_path / "nowhere" / "posse.db")
    with pytest.raises(StorageUnavailable):
        open_storage(tmp_path)


def test_a_task_that_goes_in_slices_is_in_no_byte_of_the_files(storage, address, make, sweep, monkeypatch):
    monkeypatch.setattr("posse.storage.sql.AT_ONCE", 20)
    storage.write([[make.decision(task=f"customer-{n % 2}", body=f"customer-{n % 2} {'x' * 400}")] for n in range(100)])
    assert storage.erase("stores", "customer-1") == 1
    assert b"customer-1" in bytes_of(address)
    assert sweep(storage, 20) == 2
    assert b"customer-1" not in bytes_of(address)
    assert storage.fleet("stores").decisions == len(storage.decisions("stores")) == 50


def test_deleted_snapshots_are_in_no_byte_of_the_files(storage, address, sweep):
    for number, data in ((1, b"old snapshot " * 10_000), (2, b"new")):
        snapshot = storage.start_snapshot("stores", number, 1.0)
        storage.add_snapshot_part(snapshot, 0, data)
        assert (b"old snapshot" in bytes_of(address)) is True
        storage.finish_snapshot(snapshot)
    sweep(storage)
    assert b"old snapshot" not in bytes_of(address)


def test_full_disk_is_an_error_that_passes(storage, make, monkeypatch):
    storage.write([[make.decision("before")]])
    full = [True]
    connect = SqliteStorage._connect_writer

    def connect_to_full(self):
        connection = connect(self)
        if full[0]:
            connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the size that the file has
        return connection

    monkeypatch.setattr(SqliteStorage, "_connect_writer", connect_to_full)
    storage._drop_writer()
    big = [[make.decision(body="x" * 5000)] for _ in range(50)]
    for _ in range(3):
        with pytest.raises(StorageUnavailable, match="disk is full; free some space"):
            storage.write(big)
        assert storage.fleet("stores").decisions == 1
        assert [row.id for row in storage.decisions("stores")] == ["before"]
    full[0] = False
    assert [group[0].kind for group in storage.write(big).outcomes] == [ACCEPTED] * 50
    assert storage.fleet("stores").decisions == 51


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="only root can mount a small disk")
def test_disk_that_is_really_full(tmp_path, make):
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        storage = open_storage(folder / "posse.db")
        storage.create_fleet("stores", {}, 1.0)
        acknowledged = []

        def fill():
            for _ in range(500):
                new = make.decision(body="x" * 4000)
                storage.write([[new]])
                acknowledged.append(new.id)

        with pytest.raises(StorageUnavailable, match=r"free some space|look at the disk"):
            fill()
        assert len(acknowledged) > 20
        with pytest.raises(StorageUnavailable):
            storage.write([[make.decision(body="x" * 100_000)]])
        assert [row.id for row in storage.decisions("stores")] == acknowledged
        subprocess.run(["mount", "-o", "remount,size=20m", str(folder)], check=True)
        assert storage.write([[make.decision("after", body="x" * 100_000)]]).outcomes[0][0].kind == ACCEPTED
        assert [row.id for row in storage.decisions("stores")] == [*acknowledged, "after"]
        storage.close()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_another_process_that_writes_is_waited_for_but_not_for_ever(storage, address, make, monkeypatch):
    monkeypatch.setattr("posse.storage.sqlite.BUSY_TIMEOUT", 0.3)
    storage._drop_writer()
    other = sqlite3.connect(address, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageUnavailable, match="another process"):
        storage.write([[make.decision("a")]])
    assert storage.decisions("stores") == []
    other.execute("ROLLBACK")
    other.close()
    assert storage.write([[make.decision("a")]]).outcomes[0][0].kind == ACCEPTED


@pytest.mark.slow
def test_log_of_recent_writes_stays_small_under_readers(storage, address, make, monkeypatch):
    monkeypatch.setattr("posse.storage.sqlite.WAL_LIMIT", 8 * 2**20)
    monkeypatch.setattr("posse.storage.checkpoints.LARGE", 8 * 2**20)
    over = threading.Event()

    def read():
        while not over.is_set():
            storage.decisions("stores", limit=200)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    most = 0
    try:
        for _ in range(60):
            storage.write([[make.decision(body="x" * 2000)] for _ in range(100)])
            most = max(most, os.path.getsize(address + "-wal"))
    finally:
        over.set()
        for reader in readers:
            reader.join()
    assert most < 12 * 2**20


def test_leader_that_is_killed_is_followed(storage, address):
    process = subprocess.Popen([sys.executable, "-c", LEADER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"True\n"
    assert not storage.lead()
    process.kill()
    process.communicate()
    assert storage.lead()


def test_lock_whose_file_was_removed_is_taken_again(storage, address):
    assert storage.lead()
    os.remove(address + ".lock")
    assert storage.lead()
    other = open_storage(address)
    assert not other.lead()
    other.close()


def test_another_name_of_the_file_lets_no_second_leader_in(storage, address, tmp_path):
    assert storage.lead()
    os.symlink(address, tmp_path / "link.db")
    (tmp_path / "folder").symlink_to(tmp_path)
    for name in ("link.db", "folder/posse.db", "folder/link.db"):
        other = open_storage(tmp_path / name)
        assert not other.lead()
        other.close()
    os.link(address, tmp_path / "hard.db")
    other = open_storage(tmp_path / "hard.db")
    with pytest.raises(StorageMismatch, match=r"expected .* one name, got 2"):
        other.lead()
    other.close()
    assert storage.lead()  # whoever leads goes on


def test_hard_link_is_refused_before_anybody_leads(storage, address, tmp_path):
    os.link(address, tmp_path / "hard.db")
    with pytest.raises(StorageMismatch, match="hard links"):
        storage.lead()
    os.remove(tmp_path / "hard.db")
    assert storage.lead()


def refuses(storage, make, match):
    """Check that nothing is acknowledged, nor answered from another file."""
    for ask in (storage.ping, storage.lead, lambda: storage.write([[make.decision()]])):
        with pytest.raises(StorageUnavailable, match=match):
            ask()


def test_file_that_was_taken_away_is_noticed(storage, address, make, caplog):
    assert storage.lead()
    storage.write([[make.decision("kept")]])
    storage.ping()
    os.rename(address, address + ".away")
    refuses(storage, make, "is gone; .*put the file back")
    assert caplog.text.count("while it was in use") == 1
    os.rename(address + ".away", address)
    assert storage.lead()
    storage.write([[make.decision("later")]])
    assert [row.id for row in storage.decisions("stores")] == ["kept", "later"]


def test_file_that_was_replaced_is_noticed(storage, address, make, tmp_path):
    storage.write([[make.decision("kept")]])
    new = open_storage(tmp_path / "new.db")
    new.create_fleet("stores", {}, 1.0)
    new.close()
    os.rename(tmp_path / "new.db", address)
    refuses(storage, make, "was replaced")
    # Connections that are made now would read the new file.
    storage._readers.clear()
    with pytest.raises(StorageUnavailable, match="was replaced"):
        storage.decisions("stores")
    storage.close()
    # Those of the old file, which SQLite would take for the new one's: docs/operations.md says so.
    for end in ("-wal", "-shm"):
        os.remove(address + end)
    again = open_storage(address)
    assert again.decisions("stores") == []
    assert again.write([[make.decision("new")]]).outcomes[0][0].kind == ACCEPTED
    again.close()


def test_link_that_leads_to_another_file_is_noticed(address, make, tmp_path):
    for name in ("one.db", "two.db"):
        made = open_storage(tmp_path / name)
        made.create_fleet("stores", {}, 1.0)
        made.close()
    os.symlink(tmp_path / "one.db", address)
    storage = open_storage(address)
    storage.write([[make.decision("kept")]])
    os.remove(address)
    os.symlink(tmp_path / "two.db", address)
    refuses(storage, make, "was replaced")
    storage.close()


def test_write_ahead_log_that_was_taken_away_is_noticed(storage, address, make):
    """As when a backup is put back under a running service; what is written then is in no file with a name."""
    storage.write([[make.decision("kept")]])
    os.rename(address + "-wal", address + "-wal.away")
    refuses(storage, make, "-wal is gone")
    os.rename(address + "-wal.away", address + "-wal")
    storage.write([[make.decision("later")]])
    storage._drop_writer()  # the log may be another file when the last connection was closed
    storage._readers.clear()
    storage.write([[make.decision("last")]])
    assert [row.id for row in storage.decisions("stores")] == ["kept", "later", "last"]


def test_file_that_goes_while_it_is_committed_is_not_acknowledged(storage, address, make, monkeypatch):
    storage.write([[make.decision("kept")]])
    checked = []

    def goes(require=storage._file.require):
        require()
        checked.append(1)
        if len(checked) == 1:
            os.rename(address, address + ".away")

    monkeypatch.setattr(storage._file, "require", goes)
    with pytest.raises(StorageUnavailable, match="is gone"):
        storage.write([[make.decision("lost")]])
    assert checked == [1]


def test_damaged_file_says_so(storage, address, make):
    storage.write([[make.decision(body="x" * 2000)] for _ in range(100)])
    storage.close()
    size = os.path.getsize(address)
    with open(address, "r+b") as file:
        file.seek(8192)
        file.write(os.urandom(size - 8192))
    with pytest.raises(StorageMismatch, match="backup"):
        open_storage(address).decisions("stores")  # where the damage is decides which of them notices


def test_checkpoints_are_made_beside_writers(storage, make, monkeypatch):
    """No commit makes one; a thread does, and the write-ahead log does not grow without end."""
    monkeypatch.setattr("posse.storage.checkpoints.DUE", 2**20)
    makers = set()
    real = storage._checkpoints.make
    storage._checkpoints.make = lambda **how: makers.add(threading.current_thread().name) or real(**how)
    body = '{"context": {}, "x": "' + "x" * 100_000 + '"}'
    for _ in range(60):
        storage.write([[make.decision(body=body)]])
    storage._checkpoints.close()
    assert makers == {"posse-checkpoints"}
    assert storage._writer.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    assert storage._checkpoints.made >= 1
    assert len(storage.decisions("stores")) == 60


def test_what_was_written_is_acknowledged_though_no_thread_is_to_be_had(open_one, make, monkeypatch):
    """As where a limit of processes is reached; the checkpoint is made when there is room again."""
    monkeypatch.setattr("posse.storage.checkpoints.DUE", 0)
    storage = open_one()

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr("threading.Thread.start", refuse)
        assert storage.create_fleet("stores", make.DEFINITION, 12.5)
        assert storage.write([[make.decision("kept")]]).outcomes[0][0].kind == ACCEPTED
        other = open_one()
        assert other.create_fleet("quiet", make.DEFINITION, 12.5)
        other.close()  # there is nothing to wait for
    assert storage._checkpoints.made == 0
    storage.write([[make.decision("later")]])
    end = time.monotonic() + 60
    while not storage._checkpoints.made:
        assert time.monotonic() < end
        time.sleep(0.01)
