"""One shard: a fleet of some tasks, its journal and its snapshots.

Everything that is acknowledged is in the journal before it is done. A shard that dies is made again from its last
snapshot and what the journal has since; a call that is made again because its answer was lost gets the same answer.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.container import open_container
from posse.distributed.answers import Answers
from posse.distributed.journal import Journal, Record, decode, read_journal
from posse.distributed.shard_fleet import COLUMNS, ShardFleet
from posse.errors import PosseError
from posse.features import FeatureSpec
from posse.fleet.decision import Decisions
from posse.fleet.file import load_fleet
from posse.fleet.file_format import KIND, SUMS_ONLY, VERSION
from posse.fleet.labels import Label
from posse.fleet.ledger import parse_id
from posse.fleet.posse import Posse
from posse.fleet.snapshot import freeze_fleet
from posse.fleet.task_keys import buckets_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.types import Array, IntArray

    Arrays = dict[str, npt.NDArray[Any]]

PUBLISHED = "published_"  # arrays of a snapshot that a fleet's file does not have


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
        self._answers = Answers()
        self._now: float | None = None  # the time of what is done again
        self._request = ""
        self._fsync, self._limit = fsync, snapshot_bytes
        self._folder = None if folder is None else ShardFolder(Path(folder))
        self._journal: Journal | None = None
        self._writing: threading.Thread | None = None
        self._number = 0
        self._last = 0  # bytes of the last snapshot
        self._pieces: set[int] = set()  # of the files of a fit that may be continued, learned so far
        self._piece: int | None = None  # that is being learned
        self._filled = False  # with tasks of other shards, which is done before anything else
        if self._folder is None:
            self.fleet = _new_fleet(template, seed)
        else:
            if not self._folder.snapshots():
                freeze_fleet(_new_fleet(template, seed))(self._folder.snapshot(0))
            self._restore(self._folder)
            self.fleet.write_to(self._write)

    # Deciding and learning, once for every request.

    def decide(
        self, request: str, task: Label, context: Any, eligible: Any, explore: bool, record: bool = True,
        k: int | None = None,
    ) -> Any:  # fmt: skip
        """See :meth:`posse.Posse.decide`."""
        decide = partial(self.fleet.decide, task, context, eligible, explore, record, k=k)
        return self._once(request, decide) if record else decide()

    def decide_many(
        self, request: str, tasks: Any, contexts: Any, eligible: Any, explore: bool, record: bool = True
    ) -> dict[str, Any]:
        """See :meth:`posse.Posse.decide_many`; return columns."""

        def decide() -> dict[str, Any]:
            return _columns(self.fleet.decide_many(tasks, contexts, eligible, explore, record))

        answer: dict[str, Any] = self._once(request, decide) if record else decide()
        return answer

    def reward(self, request: str, decision_id: str, value: float) -> bool:
        """See :meth:`posse.Posse.reward`."""
        return bool(self._once(request, lambda: self.fleet.reward(decision_id, value)))

    def reward_many(self, request: str, ids: list[Any], values: list[Any], errors: str) -> tuple[int, list[Any]]:
        """See :meth:`posse.Posse.reward_many`; return how many were news, and what was left out."""

        def learn() -> tuple[int, list[Any]]:
            learned = self.fleet.reward_many(ids, values, errors=errors)
            return int(learned), [tuple(one) for one in learned.skipped]

        answer: Any = self._once(request, learn)
        # Of one that was made again after a death, what was left out is found again.
        return answer if isinstance(answer, tuple) else (answer, learn()[1])

    def check_rewards(self, ids: list[Any], values: list[Any]) -> None:
        """Raise what :meth:`reward_many` would raise; nothing changes."""
        from posse.fleet.rewarding import news_among

        with self.fleet._lock:
            news_among(self.fleet, ids, values, self.fleet._clock(), skip=False)

    def learn_rows(self, request: str, labels: list[Label], codes: IntArray, arms: IntArray, X: Array, y: Array) -> int:
        """Learn rows that were checked and encoded by whoever sends them."""
        # What came through Ray's object store cannot be written to, and compiled code expects arrays that can.
        codes, arms = np.array(codes), np.array(arms)
        X, y = np.array(X), np.array(y)
        return int(self._once(request, lambda: self.fleet.learn_rows(labels, codes, arms, X, y)))

    def learn_part(self, request: str, parts: list[bytes]) -> int:
        """Learn rows as :func:`posse.distributed.fit.encode_pieces` sends them; pieces with a number only once."""
        learned = 0
        for number, part in enumerate(parts):
            record, name = decode(part), f"{request}.{number}"
            arrays, piece = record.arrays, record.facts.get("piece")
            if piece in self._pieces and name not in self._answers:
                continue  # of a fit that was interrupted and goes on
            self._piece = piece
            try:
                learned += self._once(name, partial(self._learn_piece, record.facts["tasks"], arrays, piece))
            finally:
                self._piece = None
        return learned

    def _learn_piece(self, labels: list[Label], arrays: Arrays, piece: int | None) -> int:
        rows = len(arrays["rewards"])
        if rows:
            self.fleet.learn_rows(labels, arrays["codes"], arrays["arms"], arrays["contexts"], arrays["rewards"])
        if piece is not None:
            self._pieces.add(piece)  # before anybody makes a snapshot
        return rows

    def pieces(self) -> list[int]:
        """Return which pieces of a fit that may be continued were learned here."""
        return sorted(self._pieces)

    def look(self, what: str, *arguments: Any, **settings: Any) -> Any:
        """Return what a fleet of these tasks answers; nothing that is asked so changes it."""
        return getattr(self.fleet, what)(*arguments, **settings)

    def probabilities(self, tasks: Any, contexts: Any, eligible: Any, explore: bool) -> dict[str, Any]:
        """See :meth:`posse.Posse.probabilities`; return them with the arms that they are of."""
        found = self.fleet.probabilities(tasks, contexts, eligible, explore)
        return {"arms": self.fleet.arms, "probabilities": found}

    # Arms and tasks.

    def add_arm(self, arm: Label) -> None:
        """Have an arm that may be chosen; nothing happens if it is there. Whoever asks has checked it."""
        arms = self.fleet._arms
        if arm not in arms or arms.number(arm) in arms.retired:
            self._change("add_arm", {"arm": arm})

    def add_arms(self, arms: list[Label]) -> None:
        """Have all arms that there are, in this order; nothing happens to those that are here."""
        for arm in arms[len(self.fleet._arms) :]:
            self.add_arm(arm)

    def retire_arm(self, arm: Label) -> None:
        """Choose an arm no more; nothing happens if it is retired. Whoever asks has checked it."""
        arms = self.fleet._arms
        if arms.number(arm) not in arms.retired:
            self._change("retire_arm", {"arm": arm})

    def set_features(self, request: str, features: dict[str, Any]) -> None:
        """Encode contexts by the scaling that was learned from the first table, given as JSON."""
        self._once(request, lambda: self._change("features", {"features": features}))

    def forget(self, tasks: list[Label], request: str, publication: int) -> None:
        """Forget tasks, and the population that they helped to learn; see :meth:`reset_population`."""
        if tasks:
            self._once(request, lambda: self._change("forget", {"tasks": tasks, "publication": publication}))

    def reset_population(self, publication: int) -> None:
        """Go back to the population of before the first reward, since some shard has forgotten tasks.

        What was published before this number, and is still on its way, will not be believed.
        """
        if publication >= self.fleet.publication:
            self._change("reset", {"publication": publication})

    def knows(self, tasks: list[Label]) -> list[bool]:
        """Return which tasks are here."""
        return [task in self.fleet._tasks for task in tasks]

    def take_over(self, files: list[str], buckets: list[int], decided_of: list[int]) -> None:
        """Add the tasks of some buckets from the files of other shards, and make a snapshot; only once."""
        if self._filled:
            return  # it died when that was done, and before it could say so
        mine = np.zeros(int(max(buckets, default=0)) + 1, dtype=np.bool_)
        mine[buckets] = True
        for number, file in enumerate(files):
            other = Posse.load(file)
            labels = list(other.tasks)
            places = buckets_of(labels)
            wanted = [
                label for label, place in zip(labels, places.tolist(), strict=True) if place < mine.size and mine[place]
            ]
            self.fleet.take_over(other, wanted, decided=other.n_decisions if number in decided_of else 0)
        self._filled = True
        self.snapshot()

    # The population.

    def counts(self, n_arms: int) -> Any:
        """Return pairs with rewards, and rewards, of every arm."""
        return self.fleet.counts(n_arms)

    def take_sums(self, n_arms: int, wanted: int, every: list[int] | None, given: Arrays) -> Arrays:
        """Return a sum over the pairs of this shard."""
        return self.fleet.take_sums(n_arms, wanted, every, given)

    def adopt(self, own: Arrays, common: Arrays) -> None:
        """Believe in a population that was estimated from all shards: what this one is told, and what all are."""
        population = {name: np.array(array) for name, array in (common | own).items()}
        if self.fleet.is_news(population):
            self._write("adopt", {"now": self.fleet._clock()}, population)
            self.fleet.adopt(population)

    def population(self) -> Arrays | None:
        """Return the population in force, None before the first."""
        return self.fleet.population()

    # Looking.

    def state(self) -> dict[str, Any]:
        """Return counts and names that whoever asks all shards adds up."""
        fleet = self.fleet
        return {
            "tasks": len(fleet),
            "pairs": int(fleet._engine.store.belief.n_seen.sum()),
            "rewards": fleet.n_rewards,
            "decisions": fleet.n_decisions,
            "pending": sum(ledger.n_pending for ledger in fleet._ledgers()),
            "arms": list(fleet._arms),
            "retired": list(fleet.retired_arms),
            "kind": fleet._tasks.kind,
            "ready": fleet.features.ready,
            "publication": fleet.publication,
            "pid": os.getpid(),
        }

    def tasks(self) -> list[Label]:
        """Return the names of its tasks."""
        return list(self.fleet.tasks)

    def sums(self) -> tuple[list[Label], Arrays]:
        """Return tasks, and arms and sums of every pair with rewards."""
        with self.fleet._lock:
            tasks, arms, sums = self.fleet._engine.store.copy_of_sums()
            labels = [self.fleet._tasks.label(task) for task in tasks.tolist()]
        return labels, {"arms": arms, **dict(zip(sums._fields, sums, strict=True))}

    # Files.

    def save(self, path: str) -> dict[str, Any]:
        """Write an ordinary fleet file of this shard's tasks; return what a manifest says about it."""
        freeze_fleet(self.fleet, replaced=self._own_totals())(path)
        return self.state()

    def snapshot(self, wait: bool = True) -> None:
        """Write a snapshot, from which on a new journal counts."""
        folder = self._folder
        if folder is None:
            return
        if self._writing is not None:
            self._writing.join()
        number = self._number + 1
        journal = Journal(folder.journal(number), fsync=self._fsync)
        population = {f"{PUBLISHED}{name}": array for name, array in (self.fleet.population() or {}).items()}
        write = freeze_fleet(
            self.fleet,
            more={
                "others": list(self.fleet._others),
                "publication": self.fleet.publication,
                "pieces": self.pieces(),
                "filled": self._filled,
            },
            replaced=self._own_totals() | population,
        )
        old, self._journal, self._number = self._journal, journal, number
        if old is not None:
            old.close()

        def work() -> None:
            write(folder.snapshot(number))
            self._last = folder.snapshot(number).stat().st_size
            # The journal before it stays: answers that were lost on the way may still be asked for.
            folder.drop_before(snapshot=number, journal=number - 1)

        self._writing = threading.Thread(target=work, name="posse-snapshot")
        self._writing.start()
        if wait:
            self._writing.join()

    def _once(self, request: str, do: Any) -> Any:
        """Answer a request; one that was answered before gets the same answer."""
        if request in self._answers:
            return self._answers.of(request)
        self._request = request
        try:
            answer = do()
        finally:
            self._request = ""
        self._answers.remember(request, answer)
        # No smaller than the last snapshot: what a large shard writes to snapshots is no more than it journals.
        limit = max(self._limit, self._last)
        if self._journal is not None and self._journal.size > limit and not self._busy():
            self.snapshot(wait=False)
        return answer

    def _busy(self) -> bool:
        return self._writing is not None and self._writing.is_alive()

    def _change(self, what: str, facts: dict[str, Any]) -> None:
        """Make a change that is noted first; one that is refused is refused again when it is made again."""
        self._write(what, {"now": self.fleet._clock(), **facts}, {})
        self._apply(what, facts)

    def _apply(self, what: str, facts: dict[str, Any]) -> None:
        fleet = self.fleet
        if what == "add_arm":
            fleet.add_arm(facts["arm"])
        elif what == "retire_arm":
            fleet.retire_arm(facts["arm"])
        elif what == "forget":
            fleet.forget(*facts["tasks"])
            fleet.publication = max(facts.get("publication", 0), fleet.publication)
        elif what == "features":
            with fleet._lock:
                fleet._features = FeatureSpec.from_json(facts["features"])
        else:
            fleet.end_publication(facts.get("publication", 0))

    def _write(self, what: str, facts: dict[str, Any], arrays: Arrays) -> None:
        if self._journal is not None:
            piece = {} if self._piece is None else {"piece": self._piece}
            self._journal.append(what, facts | {"request": self._request} | piece, arrays)

    # Restoring.

    def let_go(self) -> None:
        """Let another process have the folder; nothing may be done here any more."""
        if self._writing is not None:
            self._writing.join()
        if self._folder is not None:
            self._folder.let_go()

    def _restore(self, folder: ShardFolder) -> None:
        number = folder.snapshots()[-1]
        path = folder.snapshot(number)
        with open_container(path, kind=KIND, versions=(VERSION, SUMS_ONLY)) as box:
            others, publication = box.header.get("others", [0, 0]), box.header.get("publication", 0)
            self._filled = box.header.get("filled", False)
            self._pieces.update(box.header.get("pieces", []))
            names = [name for name in box.names if name.startswith(PUBLISHED)]
            population = {name.removeprefix(PUBLISHED): box.read(name) for name in names}
        self._last = path.stat().st_size
        self.fleet = load_fleet(ShardFleet, path, clock=self._clock)
        if population:
            self.fleet.adopt(population)
        self.fleet._others = (int(others[0]), int(others[1]))
        self.fleet.publication = max(int(publication), self.fleet.publication)
        for known in folder.journals():
            for record in read_journal(folder.journal(known)):
                if known < number:
                    self._answers.remember_record(record)
                else:
                    self._now = record.facts["now"]
                    self._do_again(record)
        self._now = None
        self._number = max([number, *folder.journals()])
        self._journal = Journal(folder.journal(self._number), fsync=self._fsync)

    def _clock(self) -> float:
        import time

        return time.time() if self._now is None else self._now

    def _do_again(self, record: Record) -> None:
        """Make a change again that a journal has."""
        facts, fleet = record.facts, self.fleet
        if record.what in ("decide", "decide_many"):
            place = parse_id(facts["first"])
            assert place is not None
            positions: dict[Label, int] = {}
            codes = [positions.setdefault(task, len(positions)) for task in facts["tasks"]]
            arms = np.array([fleet._arms.number(arm) for arm in facts["arms"]], dtype=np.int64)
            if record.what == "decide":
                X = np.array([fleet.features.encode(context) for context in facts["contexts"]])
            else:
                arms, X = arms[record.arrays["chosen"]], record.arrays["contexts"]
            fleet.decide_again(*place, list(positions), np.array(codes), arms, X, facts["decided"])
        elif record.what == "reward":
            fleet.reward_many(facts["ids"], facts["values"])
        elif record.what == "learn":
            arrays = record.arrays
            fleet.learn_rows(facts["tasks"], arrays["codes"], arrays["arms"], arrays["contexts"], arrays["rewards"])
            if "piece" in facts:
                self._pieces.add(facts["piece"])
        elif record.what == "adopt":
            fleet.adopt(record.arrays)
        else:
            with suppress(PosseError):  # what was refused then is refused again
                self._apply(record.what, facts)
        self._answers.remember_record(record)

    def _own_totals(self) -> dict[str, Array]:
        """Return what a file of this shard alone may say: it has no more rewards than its own."""
        at = self.fleet._engine.store.memory.evidence.refreshed_at
        return {"evidence_refreshed_at": np.minimum(at, self.fleet.n_rewards)}


def load_template(cls: type[Any], template: bytes | str) -> Any:
    """Return a fleet of a class with the settings of a file, given as its bytes or its path."""
    if isinstance(template, str):
        return cls.load(template)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "template.posse"
        path.write_bytes(template)
        return cls.load(path)


def _new_fleet(template: bytes | str, seed: int) -> ShardFleet:
    fleet: ShardFleet = load_template(ShardFleet, template)
    fleet._seed = seed
    fleet._seek()
    return fleet


def _columns(decisions: Decisions) -> dict[str, Any]:
    return {"ids": decisions.ids, "arms": decisions.arms, **{name: getattr(decisions, name) for name in COLUMNS}}
