"""A fleet that has some of the tasks: an ordinary one, whose population is estimated elsewhere.

Deciding and learning never leave the shard. Of the other shards it knows the population that was published last, and
what their tasks said about the shared means then; what its own tasks say is always up to date. It never subtracts its
own from what all said: it may have learned, died or been restored since it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.core.state import Elsewhere
from posse.core.sums import Moments, Pairs
from posse.distributed.cluster import OtherArms
from posse.errors import ExpiredDecision
from posse.families.sites import NUMBER
from posse.features import FeatureSpec
from posse.fleet.decision import Decision, Decisions
from posse.fleet.fleet import Fleet
from posse.fleet.joining import know_tasks
from posse.fleet.late import Lesson, expire, news_among, teach
from posse.fleet.learning import learn_rows
from posse.fleet.ledger import Ledger, parse_id
from posse.fleet.merge import add
from posse.fleet.names import Label
from posse.fleet.notes import Notes
from posse.fleet.posse import Posse

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.fleet.file import Reader
    from posse.types import Array, IntArray

    Arrays = dict[str, npt.NDArray[Any]]
    Write = Callable[[str, float, list[Any], Arrays], None]

COLUMNS = ("chosen", "propensity", "probabilities", "mean", "sd")  # of decisions
FEW = 256  # rows that are learned one by one, so that messages need not all be summed again
SUMMED = [name for name in Moments._fields if name not in ("prior", "covariance", "distance")]
NOWHERE = np.zeros(0, dtype=np.int64)


class Journaled(Notes):
    """Writes changes of a shard to its journal; what is known about tasks is written by whoever asks for it."""

    def __init__(self, write: Write) -> None:
        super().__init__(lambda _: None)
        self.write_entry = write

    def decisions(
        self, fleet: Fleet, decisions: Sequence[Decision] | Decisions, contexts: Any, X: Array, now: float, *,
        ranking: bool = False,
    ) -> None:  # fmt: skip
        """Write decisions."""
        del contexts
        if not len(decisions):
            return
        first, decided = decisions[0].id, fleet.stream.decided + len(decisions)
        if isinstance(decisions, Decisions):  # as columns: an entry per row would take longer than to decide
            given = [first, decided, decisions.tasks, list(decisions.arms)]
            columns = {name: getattr(decisions, name) for name in COLUMNS}
            self.write_entry("decide_again", now, given, {"X": X} | columns)
            return
        given = [first, decided, [one.task for one in decisions], [one.arm for one in decisions]]
        answer = ranking, [[*one[:4], *([*part.items()] for part in one[4:7])] for one in decisions]
        self.write_entry("decide_again", now, [*given, answer], {"X": np.tile(X, (len(decisions), 1))})

    def rewards(self, fleet: Fleet, ids: list[str], values: list[float], now: float) -> None:
        """Write rewards; those that stand for none come again when it is read at the same time."""
        try:
            fleet.ledgers.find(ids[0], fleet.settings.oldest(now))
        except ExpiredDecision:
            self.write_entry("expire_again", now, [], {})
        else:
            self.write_entry("reward_again", now, [ids, values], {})


class ShardFleet(Posse):
    """Some of the tasks of a fleet. Parameters are those of :class:`posse.Posse`.

    Attributes
    ----------
    others : tuple of int
        Decisions and rewards of other shards, as published last.
    publication : int
        The number of the one that is in force, or that what was published ended with.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.others, self.publication = (0, 0), 0
        self._write: Write = lambda *_: None
        self._asked: tuple[Any, Pairs] | None = None
        self.components = (self,)
        if self.estimates:
            self.core.method = "elsewhere"  # it is given a population

    @property
    def estimates(self) -> bool:
        """Whether there is a population to estimate."""
        return self.settings.learns_population

    @property
    def steps(self) -> tuple[int, int]:
        """The steps of the next decision of all shards together."""
        by_decisions, by_rewards = super().steps
        return by_decisions + self.others[0], by_rewards + self.others[1]

    def write_to(self, write: Write) -> None:
        """Write changes here before they are made; what it raises, the change raises."""
        self._write = write
        self.notes = Journaled(write)

    # What the coordinator asks.

    def take_sums(
        self, n_arms: int, what: str, now: float, every: list[int] | None, given: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return sums over the pairs of this shard.

        Parameters
        ----------
        n_arms : int
            How many arms there must be.
        what : {"counts", "tasks", "measures", "messages", "moments", "rows"}
        now : float
            The time as of which rewards count.
        every : list of int, optional
            Only one in this many tasks, by arm. Default: all.
        given : dict of arrays
            What the sum is taken with.
        """
        with self.lock:
            self._require_arms(n_arms)
            pairs, store = self._pairs_of(now, every), self.core.state.store
            if what == "counts":
                return pairs.n_pairs, pairs.rewards()
            if what == "tasks":
                return tuple(pairs.about_tasks())
            if what == "measures":
                return (pairs.measures() if store.family == NUMBER else pairs.plain_measures(),)
            # What came through Ray cannot be written to, and compiled code expects arrays that can.
            given = {name: np.array(array) for name, array in given.items()}
            known = np.where(store.given[:, None], store.known, given["average"])
            noise, prior = given["noise"], given["prior"]
            if what == "messages":
                precision, moment = pairs.messages(noise, prior, known, store.weight)
                return (np.concatenate([precision, moment[:, None]], axis=1),)
            if what == "rows":
                there = store._replace(noise=noise, prior=prior, shared=given["shared"], known=known)
                return (pairs.believed_rows(there, int(given["arm"][0])),)
            found = pairs.moments(noise, prior, given["shared"], known, store.weight, distances=False)
            return tuple(getattr(found, name) for name in SUMMED)

    def remake(self, **asked: Any) -> Array:
        """Make sites of clicks or counts of an arm again, as :meth:`RemotePairs.remake` asks for; return its messages.

        Done again, or after rows have come, it is as right: what this shard's own pairs say is summed anew.
        """
        with self.lock:
            self._require_arms(len(asked["noise"]))
            self._write("remake", self.clock(), [], asked)
            return self.core.remake(**{name: np.array(array) for name, array in asked.items()})

    def _pairs_of(self, now: float, every: list[int] | None) -> Pairs:
        """Return all pairs or some, those of the last question if nothing was learned since."""
        core = self.core
        asked = now, every, core.version, core.state.numbers.tolist()
        if self._asked is None or self._asked[0] != asked:
            pairs = core.pairs(now)
            self._asked = asked, pairs if every is None else pairs.sample(np.array(every), self.names.tasks.keys)
        return self._asked[1]

    def adopt(self, **population: Any) -> bool:
        """Believe in a population that was estimated from all shards, unless a later one is in force; say which.

        What its own tasks say is taken from their sums as they are now.

        Parameters
        ----------
        **population : ndarrays
            As :func:`posse.distributed.population.published` gives it, for all shards and for this one together.
        """
        with self.lock:
            self._require_arms(len(population["noise"]))
            self._asked = None
            number, now = int(population["publication.number"][0]), float(population["publication.now"][0])
            if number < self.publication:
                return False
            parts = {name: array for name, array in population.items() if not name.startswith("publication.")}
            elsewhere = Elsewhere(*(np.array(population[f"publication.{name}"]) for name in Elsewhere._fields))
            self._write("adopt", self.clock(), [], population)
            if self.core.adopt(parts, elsewhere, now):
                self.others, self.publication = tuple(population["publication.others"].tolist()), number
            return True

    def population(self) -> Arrays | None:
        """Return the population in force as arrays, None before the first."""
        with self.lock:
            has_one = self.estimates and self.core.state.population.at_last[0] > 0
            return self.core.population() if has_one else None

    def reset_population(self, publication: int) -> None:
        """Go back to before the first estimate; what was published before this number is in force no more."""
        with self.lock:
            self.core.forget(NOWHERE)
            self.core.ensure_fresh()
            self.publication = max(publication, self.publication)

    def _require_arms(self, n_arms: int) -> None:
        if n_arms != self.core.n_arms:
            raise OtherArms(f"expected {self.core.n_arms} arms, as this shard has, got {n_arms}; ask for its arms")

    # What is done once for every request.

    def decide_columns(
        self, tasks: Any, contexts: Any, eligible: Any, explore: bool, record: bool = True
    ) -> dict[str, Any]:
        """See :meth:`posse.Posse.decide_many`; return columns."""
        found = self.decide_many(tasks, contexts, eligible, explore, record)
        return {"ids": found.ids, "arms": found.arms, **{name: getattr(found, name) for name in COLUMNS}}

    def reward_rows(self, ids: list[Any], values: list[Any], errors: str) -> tuple[int, list[Any]]:
        """See :meth:`posse.Posse.reward_many`; return how many were news, and what was left out."""
        learned = self.reward_many(ids, values, errors=errors)
        return int(learned), [tuple(one) for one in learned.skipped]

    def learn_table(
        self, labels: list[Label], codes: IntArray, arms: IntArray, X: Array, y: Array, times: Array | None = None
    ) -> int:
        """Learn rows that were checked and encoded elsewhere; only their sums are taken."""
        if not len(y):
            return 0
        codes, arms, X, y = np.array(codes), np.array(arms), np.array(X), np.array(y)
        arrays = {"codes": codes, "arms": arms, "X": X, "y": y}
        if times is not None:
            arrays["times"] = times = np.array(times)
        with self.lock:
            numbers, _ = self.names.tasks.numbered(self.core, labels)
            self.core.prepare(numbers[codes], arms, sums_only=True)
            self._write("learn_table", self.clock(), [labels], arrays)
            learn_rows(self, labels, codes, arms, X, y, times, refresh=len(y) <= FEW)
        return len(y)

    def check_rewards(self, ids: list[Any], values: list[Any]) -> None:
        """Raise what :meth:`reward_many` would raise; nothing changes."""
        with self.lock:
            news_among(self, ids, values, self.settings.oldest(self.clock()), skip=False)

    def shown_probabilities(self, *asked: Any) -> dict[str, Any]:
        """See :meth:`posse.Posse.probabilities`; return them with the arms that they are of."""
        return {"arms": self.arms, "probabilities": self.probabilities(*asked)}

    # Changes that are written by whoever asks for them.

    def forget_tasks(self, tasks: list[Label], publication: int) -> None:
        """Forget tasks, and the population that they helped to learn; see :meth:`reset_population`."""
        self.forget(*tasks)
        self.publication = max(publication, self.publication)

    def have_features(self, features: dict[str, Any]) -> None:
        """Encode contexts by the scaling that was learned from the first table."""
        self.features = FeatureSpec.from_json(features)

    def know_tasks(self, labels: list[Label], rows: list[list[Any]], features: dict[str, Any]) -> None:
        """Know something about tasks; ``features`` have the scaling that was learned from the first of all shards."""
        with self.lock:
            side = self.known.tasks
            side.spec = FeatureSpec.from_json(features)
            know_tasks(
                self, {label: dict(zip(side.names, row, strict=True)) for label, row in zip(labels, rows, strict=True)}
            )

    # What is done again from a journal.

    def decide_again(
        self, first: str, decided: int, tasks: list[Label], arms: list[Label], answer: Any = None, *, X: Array,
        chosen: IntArray | None = None, **_: Any,
    ) -> None:  # fmt: skip
        """Take notice of decisions that were made before this process began; ``decided`` is how many there are then.

        Arms are those of every row, or all of them, with the place of every row's among them.
        """
        del answer  # of the call, for whoever makes it again
        with self.lock:
            now, core, place = self.clock(), self.core, parse_id(first)
            assert place is not None
            expire(self, now)
            core.ensure_fresh()
            number = np.array([self.names.arms.number(arm) for arm in arms], dtype=np.int64)
            chose = number if chosen is None else number[chosen]
            labels = list(dict.fromkeys(tasks))
            numbers, new = self.names.tasks.numbered(core, labels)
            number_of = dict(zip(labels, numbers.tolist(), strict=True))
            rows = np.array([number_of[task] for task in tasks], dtype=np.int64)
            own = self.ledgers.own
            ledger = own if own.prefix == place[0] else self.ledgers.adopted.get(place[0])
            if ledger is None:
                ledger = self.ledgers.adopted[place[0]] = Ledger(place[0], self.features.n_features, place[1])
                self.ledgers.origins.add(place[0])
            ledger.reserve(len(rows))
            places = ledger.write_many(rows, chose, now, X)
            self.names.tasks.take_new(core, new)
            absent = self.settings.counted
            if absent is not None:
                core.prepare(rows, chose)
                values, times = np.full(len(rows), absent), np.full(len(rows), now)
                kept = core.learn_rows(rows, chose, X, values, times, is_open=True, estimate=chosen is None)
                ledger.keep_many(places, absent, kept)
            ledger.size += len(rows)
            self.stream.decided = decided

    def reward_again(self, ids: list[str], values: list[float]) -> None:
        """Learn rewards and corrections of before."""
        with self.lock:
            now = self.clock()
            expire(self, now)
            teach(
                self,
                [
                    Lesson(*self.ledgers.find(one, self.settings.oldest(now)), value)
                    for one, value in zip(ids, values, strict=True)
                ],
                now,
            )

    def expire_again(self) -> None:
        """Let decisions go that are past their time."""
        with self.lock:
            expire(self, self.clock())

    # Files.

    def take_over(self, other: Posse, wanted: list[Label], *, decided: int) -> None:
        """Add some tasks of another fleet, with their decisions that may still get a reward."""
        with self.lock:
            add(self, other, wanted=set(wanted), estimate=False)
            self.core.ensure_fresh()
            self.stream.decided += decided

    def arrays(self) -> Arrays:
        """Return what only a shard saves."""
        elsewhere = self.core.elsewhere
        found: Arrays = {"shard.numbers": np.array([*self.others, self.publication], dtype=np.int64)}
        return found | (
            {} if elsewhere is None else {f"shard.{name}": array for name, array in elsewhere._asdict().items()}
        )

    def take(self, reader: Reader) -> None:
        """Have that again; a template has none of it."""
        if "shard.numbers" not in reader.box.names:
            return
        decided, rewarded, self.publication = reader.array("shard.numbers", (3,), np.int64).tolist()
        self.others = decided, rewarded
        if "shard.told" in reader.box.names:
            store = self.core.state.store
            p1 = store.known.shape[1]
            shapes = store.told.shape, (p1,), (p1 - 1, p1 - 1)
            parts = zip(Elsewhere._fields, shapes, strict=True)
            self.core.elsewhere = Elsewhere(*(reader.array(f"shard.{name}", shape) for name, shape in parts))
