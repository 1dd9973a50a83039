"""Whether files are still those that were opened: another file under the same name would get nothing of what we write.

Asked by device and inode, never by opening the file: locks of a file belong to a process, which loses all of them when
it closes the file anywhere, and SQLite would not know.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from posse.errors import StorageMismatch, StorageUnavailable

ADVICE = (
    "what is written now would be lost, so nothing is accepted: put the file back, or restart the service if it is "
    "to use the new one"
)

logger = logging.getLogger("posse.storage")


class OwnFile:
    """A database file and its write-ahead log, as they were when they were opened.

    Parameters
    ----------
    path : Path
        As it was given. A symbolic link must go on leading to the file, or a restart would open another one.
    """

    def __init__(self, path: Path) -> None:
        self.given = path.absolute()
        self.path = self.given.resolve()
        self._wal = f"{self.path}-wal"
        self._own: os.stat_result | None = None
        self._own_wal: os.stat_result | None = None
        self._said = False

    def opened(self) -> None:
        """Note the file, or raise if it is another one than before; call it after every connection was made."""
        if self._own is None:
            self._own = os.stat(self.given)
        self.require()

    def opened_wal(self) -> None:
        """Note the write-ahead log, which stays the same file for as long as one connection is open."""
        self._own_wal = _stat(self._wal)

    def closed_wal(self) -> None:
        """Forget the write-ahead log: SQLite deletes it with the last connection, and makes another."""
        self._own_wal = None

    def require(self) -> None:
        """Raise unless both are still there under their names; the first time is an error in the log, too."""
        for name, own in ((self.given, self._own), (self._wal, self._own_wal)):
            if own is None:
                continue
            now = _stat(name)
            if now is None or not os.path.samestat(own, now):
                fate = "is gone" if now is None else "was replaced by another file"
                if not self._said:
                    self._said = True
                    logger.error("%s %s while it was in use; %s", name, fate, ADVICE)
                raise StorageUnavailable(f"{name} {fate}; {ADVICE}")
        if self._said:
            self._said = False
            logger.warning("%s is back; what comes is accepted again", self.given)

    def require_one_name(self) -> None:
        """Raise if the file has several names: each would have a write-ahead log and a lock of its own."""
        found = os.stat(self.path)
        if found.st_nlink > 1:
            raise StorageMismatch(
                f"expected {self.path} to have one name, got {found.st_nlink} (hard links): two processes could write "
                "to it without knowing of each other; remove the other links (find -samefile), or copy it instead"
            )


def _stat(path: str | Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
