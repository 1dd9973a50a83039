"""The folder of a shard: numbered snapshots and journals, and the lock of who writes there."""

from __future__ import annotations

import re
from pathlib import Path

SNAPSHOT = re.compile(r"snapshot-(\d{9})\.posse")
JOURNAL = re.compile(r"journal-(\d{9})\.log")


class ShardFolder:
    """Snapshots and journals by number; made, and waited for, when nobody else writes there.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        import fcntl

        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        # A shard that was taken for dead may live a little longer. Kept open for as long as this process lives; the
        # system lets it go with the process.
        self._held = open(path / "lock", "wb")  # noqa: SIM115
        fcntl.flock(self._held, fcntl.LOCK_EX)

    def let_go(self) -> None:
        """Let another process write here."""
        self._held.close()

    def snapshots(self) -> list[int]:
        """Return the numbers of the snapshots that there are."""
        return self._numbers(SNAPSHOT)

    def journals(self) -> list[int]:
        """Return the numbers of the journals that there are."""
        return self._numbers(JOURNAL)

    def snapshot(self, number: int) -> Path:
        """Return the path of a snapshot."""
        return self._path / f"snapshot-{number:09d}.posse"

    def journal(self, number: int) -> Path:
        """Return the path of a journal."""
        return self._path / f"journal-{number:09d}.log"

    def drop_before(self, *, snapshot: int, journal: int) -> None:
        """Remove snapshots and journals of lower numbers than these."""
        for path in [
            *(self.snapshot(number) for number in self.snapshots() if number < snapshot),
            *(self.journal(number) for number in self.journals() if number < journal),
        ]:
            path.unlink(missing_ok=True)

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        found = (pattern.fullmatch(path.name) for path in self._path.iterdir())
        return sorted(int(match[1]) for match in found if match)
