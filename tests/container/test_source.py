import errno
import os
from io import FileIO

import pytest

from posse.container.read import Source
from posse.errors import DamagedFile, InvalidValue, MissingFile, SavedFileError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(100)))
    return path


def test_bytes_at_any_place(file):
    source = Source(str(file))

    assert source.size == 100
    assert source.bytes_at(90, 10) == bytes(range(90, 100))
    assert source.bytes_at(3, 4) == bytes([3, 4, 5, 6])
    assert source.bytes_at(100, 0) == b""
    source.close()
    source.close()
    with pytest.raises(InvalidValue, match="is closed; read it inside the with block"):
        source.bytes_at(0, 1)


def test_all_bytes_or_an_error(file):
    source = Source(file)
    with pytest.raises(DamagedFile, match="cut off while it was read; restore"):
        source.bytes_at(95, 6)
    source.close()


def test_short_reads_are_continued(file, monkeypatch):
    class Slow(FileIO):
        def readinto(self, target):
            return super().readinto(target[:7])

    monkeypatch.setattr("posse.container.read.FileIO", Slow)
    source = Source(file)
    assert source.bytes_at(0, 100) == bytes(range(100))
    source.close()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissingFile, match=r"no file .*nothing; check the path"):
        Source(tmp_path / "nothing")


def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(SavedFileError, match="it is not a file"):
            Source(tmp_path / name)


def test_a_failing_disk_or_permission_is_our_error(file, monkeypatch):
    class Failing(FileIO):
        def readinto(self, target):
            raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("posse.container.read.FileIO", Failing)
        source = Source(file)
        with pytest.raises(SavedFileError, match="Input/output error; check the disk") as caught:
            source.bytes_at(0, 1)
        assert not isinstance(caught.value, DamagedFile)
        source.close()

    def denied(*args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("posse.container.read.FileIO", denied)
    with pytest.raises(SavedFileError, match=r"cannot read .*Permission denied; check .* your permissions"):
        Source(file)
