"""A file that is replaced at once or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from posse.errors import MissingFile, SavedFileError

# Some file systems cannot flush a folder, and some folders may be written to but not opened.
_CANNOT_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[FileIO]:
    """Give a new file to write to; when the block ends well it takes the place of ``path``, otherwise nothing changes.

    The bytes are on the disk before the name changes, so a crash leaves the old file or the new one, both whole. A new
    file is for its owner alone, since names of tasks may be personal; a replaced one keeps the permissions it had. A
    symbolic link stays and the file it points to is replaced. Readers that have the old file open keep reading the old
    one.
    """
    target = Path(os.path.realpath(path))
    permissions = _permissions_of(target)
    # Not made from the target's name, which may already be as long as a name can be.
    partial = target.with_name(f".posse-{secrets.token_hex(8)}.partial")
    mode = 0o600 if permissions is None else permissions
    try:
        with FileIO(partial, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            os.fsync(file.fileno())
        if permissions is not None:
            partial.chmod(permissions)
        os.replace(partial, target)
    except OSError as error:
        raise _explained(error, target) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    flush_folder(target)


def _permissions_of(target: Path) -> int | None:
    """Return the permissions of the file that stands there, if one does."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _explained(error, target) from error
    # A device or a pipe would be gone, with something else under its name.
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise SavedFileError(f"cannot write {target}: it is {what}; choose the name of a file")
    return stat.S_IMODE(status.st_mode) & 0o777


def _explained(error: OSError, target: Path) -> SavedFileError:
    folder = target.parent
    if error.errno == errno.ENOENT and not folder.is_dir():
        return MissingFile(f"cannot write {target}: the folder {folder} does not exist; make it first")
    remedies = {
        errno.ENOSPC: "; free some space or choose another disk",
        errno.EDQUOT: "; free some space or choose another disk",
        errno.EACCES: f"; choose a folder that you may write to, or ask for write access to {folder}",
        errno.EPERM: f"; choose a folder that you may write to, or ask for write access to {folder}",
        errno.EROFS: "; choose a folder that can be written to",
    }
    reason = error.strerror or str(error) or type(error).__name__
    return SavedFileError(f"cannot write {target}: {reason}{remedies.get(error.errno or 0, '')}; nothing was changed")


def flush_folder(target: Path) -> None:
    """Make the new name last through a power failure."""
    try:
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise SavedFileError(
                f"{target} is written, but its folder could not be flushed ({error.strerror}): after a power failure "
                "the older file may be back; check the disk and save again"
            ) from error
