"""One shard: a fleet of some tasks, its journal and its snapshots.

Everything that is acknowledged is in the journal before it is done. A shard that dies is made again from its last
snapshot and what the journal has since; a call that is made again because its answer was lost gets the same answer.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.container import open_container
from posse.distributed.journal import Journal, Record, decode, read_journal
from posse.distributed.shard_fleet import COLUMNS, ShardFleet
from posse.fleet.decision import Decision, Ranking
from posse.fleet.file import KIND, VERSION, freeze_fleet, load_fleet
from posse.fleet.ledger import parse_id
from posse.fleet.names import Label, buckets_of
from posse.fleet.posse import Posse
from posse.fleet.settings import Stream

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.types import Array

    Arrays = dict[str, npt.NDArray[Any]]

SNAPSHOT, JOURNAL = "snapshot", "journal"
CHANGES = ("add_arm", "retire_arm", "forget_tasks", "reset_population", "have_features", "know_tasks")
NEVER_REFUSED = ("decide_again", "reward_again", "expire_again")
ANSWERS = 2000  # that are remembered
ANSWER_ROWS, FEWEST_ANSWERS = 200_000, 16  # decisions in them, unless there are few answers


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
        # A shard that was taken for dead may live a little longer. Open for as long as this process lives; the system
        # lets it go with the process.
        self._held = open(path / "lock", "wb")  # noqa: SIM115
        fcntl.flock(self._held, fcntl.LOCK_EX)

    def let_go(self) -> None:
        """Let another process write here."""
        self._held.close()

    def numbers(self, kind: str) -> list[int]:
        """Return the numbers of the files of a kind, "snapshot" or "journal", that there are."""
        found = (re.fullmatch(kind + r"-(\d{9})\.(posse|log)", path.name) for path in self._path.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def file(self, kind: str, number: int) -> Path:
        """Return the path of a file."""
        return self._path / f"{kind}-{number:09d}.{'posse' if kind == SNAPSHOT else 'log'}"

    def drop_before(self, kind: str, number: int) -> None:
        """Remove files of lower numbers than this."""
        for there in self.numbers(kind):
            if there < number:
                self.file(kind, there).unlink(missing_ok=True)


class Shard:
    """Some of the tasks of a fleet.

    Parameters
    ----------
    template : bytes or str
        The file of a fleet with all settings, all arms, and no tasks, or its path.
    seed : int
        Of its decisions.
    folder : str, optional
        Where its journal and snapshots are, on storage that outlives the machine if the shard should. Default: nowhere.
    fsync : bool, default True
        See :class:`posse.distributed.journal.Journal`.
    snapshot_bytes : int, default 64 MiB
        A snapshot is made when the journal is larger than this, and than the last snapshot.
    """

    def __init__(
        self,
        template: bytes | str,
        seed: int,
        folder: str | None = None,
        *,
        fsync: bool = True,
        snapshot_bytes: int = 64 << 20,
    ) -> None:
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self._now: float | None = None  # the time of a request, and of what is done again
        self._request = ""
        self._fsync, self._limit = fsync, snapshot_bytes
        self._folder = None if folder is None else ShardFolder(Path(folder))
        self._journal: Journal | None = None
        self._writing: threading.Thread | None = None
        self._number = self._last = 0  # of the journal, and bytes of the last snapshot
        self._pieces: set[int] = set()  # of the files of a fit that may be continued, learned so far
        self._piece: int | None = None  # that is being learned
        self._filled = False  # with tasks of other shards, which is done before anything else
        if self._folder is None or not self._folder.numbers(SNAPSHOT):
            self.fleet = load_template(ShardFleet, template)
            self.fleet.stream, self.fleet.clock = Stream(seed), self._clock
        if self._folder is not None:
            if not self._folder.numbers(SNAPSHOT):
                freeze_fleet(self.fleet)(self._folder.file(SNAPSHOT, 0))
            self._restore(self._folder)
        self.fleet.write_to(self._write)

    def _clock(self) -> float:
        return time.time() if self._now is None else self._now

    def do(self, request: str, what: str, *arguments: Any, **settings: Any) -> Any:
        """Have the fleet do something; a request that was answered before gets the same answer."""
        if request in self._answers:
            answer = self._answers[request]
            if what == "reward_rows" and isinstance(answer, int):  # of one that was made again after a death
                return answer, self.fleet.reward_rows(*arguments)[1]
            return answer
        self._request, self._now = request, time.time()
        try:
            if what in CHANGES:  # noted first; one that is refused is refused again when it is made again
                self._write(what, self._now, list(arguments), {})
            answer = getattr(self.fleet, what)(*arguments, **settings)
        finally:
            self._request, self._now = "", None
        if request:
            self._remember(request, answer)
        if self._piece is not None:
            self._pieces.add(self._piece)  # before anybody makes a snapshot
        # No smaller than the last snapshot: what a large shard writes to snapshots is no more than it journals.
        writing = self._writing is not None and self._writing.is_alive()
        if self._journal is not None and self._journal.size > max(self._limit, self._last) and not writing:
            self.snapshot(wait=False)
        return answer

    def look(self, what: str, *arguments: Any, **settings: Any) -> Any:
        """Return what the fleet answers; nothing that is asked so changes it."""
        return getattr(self.fleet, what)(*arguments, **settings)

    def learn_part(self, request: str, parts: list[bytes]) -> int:
        """Learn rows as :func:`posse.distributed.fit.encode_pieces` sends them; pieces with a number only once."""
        learned = 0
        for number, part in enumerate(parts):
            record, name = decode(part), f"{request}.{number}"
            piece = record.facts["piece"]
            if piece in self._pieces and name not in self._answers:
                continue  # of a fit that was interrupted and goes on
            self._piece = piece
            try:
                learned += self.do(name, "learn_table", record.facts["tasks"], *record.arrays.values())
            finally:
                self._piece = None
        return learned

    def pieces(self) -> list[int]:
        """Return which pieces of a fit that may be continued were learned here."""
        return sorted(self._pieces)

    # Arms and tasks.

    def add_arm(self, arm: Label, features: Any = None) -> None:
        """Have an arm that may be chosen; nothing happens if it is there. Whoever asks has checked it."""
        if arm not in self.fleet.arms:
            self.do("", "add_arm", arm, features)

    def add_arms(self, arms: list[tuple[Label, Any]]) -> None:
        """Have all arms that there are, in this order; nothing happens to those that are here."""
        for arm, features in arms[self.fleet.core.n_arms :]:
            self.add_arm(arm, features)

    def retire_arm(self, arm: Label) -> None:
        """Choose an arm no more; nothing happens if it is retired. Whoever asks has checked it."""
        if arm in self.fleet.arms:
            self.do("", "retire_arm", arm)

    def forget(self, tasks: list[Label], request: str, publication: int) -> None:
        """Forget tasks, and the population that they helped to learn; see :meth:`reset_population`."""
        if tasks:
            self.do(request, "forget_tasks", tasks, publication)

    def reset_population(self, publication: int) -> None:
        """Go back to the population of before the first reward, since some shard has forgotten tasks.

        What was published before this number, and is still on its way, will not be believed.
        """
        if publication >= self.fleet.publication:
            self.do("", "reset_population", publication)

    def knows(self, tasks: list[Label]) -> list[bool]:
        """Return which tasks are here."""
        return [task in self.fleet.names.tasks for task in tasks]

    def take_over(self, files: list[str], buckets: list[int], decided_of: list[int]) -> None:
        """Add the tasks of some buckets from the files of other shards, and make a snapshot; only once."""
        if self._filled:
            return  # it died when that was done, and before it could say so
        for number, file in enumerate(files):
            other = Posse.load(file)
            labels = list(other.tasks)
            there = np.isin(buckets_of(labels), buckets)
            wanted = [label for label, is_mine in zip(labels, there.tolist(), strict=True) if is_mine]
            self.fleet.take_over(other, wanted, decided=other.n_decisions if number in decided_of else 0)
        self._filled = True
        self.snapshot()

    def adopt(self, own: Arrays, common: Arrays) -> None:
        """Believe in a population that was estimated from all shards: what this one is told, and what all are."""
        self.do("", "adopt", **common, **own)

    def remake(self, asked: Arrays) -> Array:
        """Make sites of clicks or counts of an arm again; see :meth:`ShardFleet.remake`."""
        answer: Array = self.do("", "remake", **asked)
        return answer

    # Looking.

    def state(self) -> dict[str, Any]:
        """Return counts and names that whoever asks all shards adds up."""
        fleet = self.fleet
        arms, about = fleet.names.arms, fleet.known.arms.raw
        return {
            "tasks": len(fleet),
            "rewards": fleet.core.n_rewards,
            "counted": fleet.n_rewards,
            "now": fleet.core.now,
            "decisions": fleet.n_decisions,
            "pending": fleet.ledgers.n_pending,
            "arms": [(label, about.get(number)) for label, number in arms.numbers.items()],
            "retired": list(fleet.retired_arms),
            "kind": fleet.names.tasks.kind,
            "ready": fleet.features.ready,
            "publication": fleet.publication,
            "pid": os.getpid(),
        }

    def tasks(self) -> list[Label]:
        """Return the names of its tasks."""
        return list(self.fleet.tasks)

    def sums(self) -> tuple[list[Label], Arrays]:
        """Return tasks, and arms and sums of every pair with rewards."""
        with self.fleet.lock:
            sums = self.fleet.core.sums()
            return [self.fleet.names.tasks.label(task) for task in sums.tasks.tolist()], sums._asdict()

    # Files.

    def save(self, path: str) -> None:
        """Write an ordinary fleet file of this shard's tasks."""
        self.fleet.save(path)

    def snapshot(self, wait: bool = True) -> None:
        """Write a snapshot, from which on a new journal counts."""
        folder = self._folder
        if folder is None:
            return
        if self._writing is not None:
            self._writing.join()
        number = self._number + 1
        journal = Journal(folder.file(JOURNAL, number), fsync=self._fsync)
        write = freeze_fleet(self.fleet, more={"pieces": self.pieces(), "filled": self._filled})
        old, self._journal, self._number = self._journal, journal, number
        if old is not None:
            old.close()

        def work() -> None:
            write(folder.file(SNAPSHOT, number))
            self._last = folder.file(SNAPSHOT, number).stat().st_size
            # The journal before it stays: answers that were lost on the way may still be asked for.
            folder.drop_before(SNAPSHOT, number)
            folder.drop_before(JOURNAL, number - 1)

        self._writing = threading.Thread(target=work, name="posse-snapshot")
        self._writing.start()
        if wait:
            self._writing.join()

    def let_go(self) -> None:
        """Let another process have the folder; nothing may be done here any more."""
        if self._writing is not None:
            self._writing.join()
        if self._folder is not None:
            self._folder.let_go()

    def _write(self, what: str, now: float, given: list[Any], arrays: Arrays) -> None:
        """Write what is to be called, with which arguments, to make a change again."""
        if self._journal is not None:
            request = "" if what == "expire_again" else self._request
            facts = {"now": now, "given": given, "request": request, "piece": self._piece}
            # Sites are made again often, and what was only on its way to the disk can be made again once more.
            self._journal.append(what, facts, arrays, waits=what != "remake")

    # Restoring.

    def _restore(self, folder: ShardFolder) -> None:
        number = folder.numbers(SNAPSHOT)[-1]
        path = folder.file(SNAPSHOT, number)
        with open_container(path, kind=KIND, versions=(VERSION,)) as box:
            self._filled = box.header.get("filled", False)
            self._pieces.update(box.header.get("pieces", []))
        self._last = path.stat().st_size
        self.fleet = load_fleet(ShardFleet, path, clock=self._clock)
        for known in folder.numbers(JOURNAL):
            for record in read_journal(folder.file(JOURNAL, known)):
                self._now = record.facts["now"]
                done = known < number or self._do_again(record)
                if done and record.facts["request"]:
                    self._remember(record.facts["request"], _answer_of(record))
        self._now = None
        self._number = max([number, *folder.numbers(JOURNAL)])
        self._journal = Journal(folder.file(JOURNAL, self._number), fsync=self._fsync)

    def _do_again(self, record: Record) -> bool:
        """Make a change again that a journal has; return False if it is refused, as it was then."""
        what, facts, arrays = record
        try:
            getattr(self.fleet, what)(*facts["given"], **arrays)
        except (ValueError, LookupError, ArithmeticError):
            if what in NEVER_REFUSED:
                raise
            return False
        self._pieces.update([] if facts["piece"] is None else [facts["piece"]])
        return True

    def _remember(self, request: str, answer: Any) -> None:
        """Remember an answer; the oldest are let go where there are too many."""
        self._answers[request] = answer
        while len(self._answers) > ANSWERS or (
            len(self._answers) > FEWEST_ANSWERS and sum(map(_rows_in, self._answers.values())) > ANSWER_ROWS
        ):
            self._answers.popitem(last=False)


def _rows_in(answer: Any) -> int:
    return len(answer["ids"]) if isinstance(answer, dict) else 1


def _answer_of(record: Record) -> Any:
    """Return the answer of a request, as a journal has it."""
    what, given, arrays = record.what, record.facts["given"], record.arrays
    if what == "decide_again" and "chosen" in arrays:
        place = parse_id(given[0])
        assert place is not None
        ids = [f"{place[0]}-{place[1] + row}" for row in range(len(given[2]))]
        return {"ids": ids, "arms": tuple(given[3])} | {name: arrays[name] for name in COLUMNS}
    if what == "decide_again":
        is_ranking, decisions = given[4]
        places = [Decision(*one[:4], *(dict(map(tuple, part)) for part in one[4:])) for one in decisions]
        return Ranking(places) if is_ranking else places[0]
    return len(given[0]) if what == "reward_again" else len(arrays["y"]) if what == "learn_table" else None


def load_template(cls: type[Any], template: bytes | str) -> Any:
    """Return a fleet of a class with the settings of a file, given as its bytes or its path."""
    if isinstance(template, str):
        return cls.load(template)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "template.posse"
        path.write_bytes(template)
        return cls.load(path)


def file_of(fleet: Posse) -> bytes:
    """Return the file of a fleet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "template.posse"
        fleet.save(path)
        return path.read_bytes()
