import errno
import os
import stat
import subprocess
import sys
import textwrap

import pytest

from posse.container.replace import replacing
from posse.errors import MissingFile, SavedFileError


def write(path, data=b"new"):
    with replacing(path) as file:
        file.write(data)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "fleet.posse"
    path.write_bytes(b"old")
    return path


def alone(file):
    """Whether the old file stands in its folder and nothing else does."""
    return file.read_bytes() == b"old" and os.listdir(file.parent) == [file.name]


def test_a_file_is_made_or_replaced(file):
    write(file)
    write(str(file.with_name("other")), b"more")

    assert file.read_bytes() == b"new"
    assert sorted(path.name for path in file.parent.iterdir()) == ["fleet.posse", "other"]


def test_nothing_shows_until_the_block_ends(file):
    with replacing(file) as out:
        out.write(b"new")
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"


def test_bytes_are_on_the_disk_before_the_name_changes_and_the_name_after(file, monkeypatch):
    done = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real_fsync(descriptor)

    def replace(*names):
        done.append("replace")
        real_replace(*names)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write(file)

    assert done == ["file", "replace", "folder"]


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
def test_a_failing_block_leaves_the_old_file_alone(file, error):
    expected = SavedFileError if isinstance(error, OSError) else type(error)

    def interrupted():
        with replacing(file) as out:
            out.write(b"ne")
            raise error

    with pytest.raises(expected):
        interrupted()
    assert alone(file)


@pytest.mark.parametrize("name", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failing_system_call_leaves_the_old_file_alone(file, monkeypatch, name, code):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(SavedFileError, match=f"cannot write .*{os.strerror(code)}.*nothing was changed") as caught:
        write(file)
    assert isinstance(caught.value.__cause__, OSError)
    assert alone(file)


def test_a_full_disk_says_what_to_do(file, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(SavedFileError, match="No space left on device; free some space or choose another disk"):
        write(file)


def test_a_write_that_the_system_refuses_leaves_the_old_file_alone(file):
    # The limit on file sizes makes write itself fail, as a full disk does.
    program = """
        import resource, sys
        from posse.container import SavedFileError
        from posse.container.replace import replacing
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            with replacing(sys.argv[1]) as file:
                data = memoryview(bytes(5000))
                while len(data):
                    data = data[file.write(data):]
        except SavedFileError as error:
            print(error)
    """
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(file)], capture_output=True, text=True, check=True
    )

    assert f"cannot write {file}: File too large; nothing was changed" in done.stdout
    assert alone(file)


def test_a_folder_that_cannot_be_flushed_is_not_an_error_unless_the_disk_fails(file, monkeypatch):
    real = os.fsync

    def fail_with(code):
        def fsync(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(code, os.strerror(code))
            real(descriptor)

        return fsync

    monkeypatch.setattr(os, "fsync", fail_with(errno.EINVAL))
    write(file)
    assert file.read_bytes() == b"new"

    monkeypatch.setattr(os, "fsync", fail_with(errno.EIO))
    with pytest.raises(SavedFileError, match=r"is written, but its folder could not be flushed .*save again"):
        write(file, b"newer")
    assert file.read_bytes() == b"newer"
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o007])
def test_a_new_file_is_for_its_owner_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


@pytest.mark.parametrize("permissions", [0o600, 0o664, 0o400, 0o000])
def test_a_replaced_file_keeps_its_permissions(file, permissions):
    file.chmod(permissions)
    before = os.umask(0o027)
    try:
        with replacing(file) as out:
            # Never more open than the file will be, not even for a moment.
            assert os.fstat(out.fileno()).st_mode & 0o777 & ~permissions == 0
            out.write(b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == permissions


def test_a_link_stays_and_its_file_is_replaced(tmp_path, file):
    there = tmp_path / "links"
    there.mkdir()
    link = there / "latest"
    link.symlink_to("../fleet.posse")
    write(link)

    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert os.listdir(there) == ["latest"]


def test_a_link_to_nothing_yet_makes_the_file(tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "first")
    write(link)

    assert link.is_symlink()
    assert (tmp_path / "first").read_bytes() == b"new"


def test_a_circle_of_links_is_an_error(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(SavedFileError, match="cannot write"):
        write(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_another_name_of_the_old_file_keeps_the_old_bytes(file):
    os.link(file, file.with_name("backup"))
    write(file)

    assert file.with_name("backup").read_bytes() == b"old"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(MissingFile, match=r"the folder .*nowhere does not exist; make it first"):
        write(tmp_path / "nowhere" / "fleet.posse")


def test_what_is_not_a_file_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SavedFileError, match="it is a folder"):
        write(tmp_path / "folder")
    with pytest.raises(SavedFileError, match="it is not a regular file"):
        write(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert len(os.listdir(tmp_path)) == 2


def test_a_file_in_the_place_of_the_folder_is_an_error(file):
    with pytest.raises(SavedFileError, match=r"cannot write .*Not a directory"):
        write(file / "inside")
    assert alone(file)


def test_permission_denied_names_the_folder(file, monkeypatch):
    # Not by chmod: the tests may run as root, whom no permission stops.
    def fail(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(
        SavedFileError, match=f"Permission denied; .*write access to {file.parent}; nothing was changed"
    ):
        write(file)
    monkeypatch.undo()
    assert alone(file)


def test_a_name_as_long_as_names_can_be(tmp_path):
    write(tmp_path / ("x" * 255))

    assert os.listdir(tmp_path) == ["x" * 255]
