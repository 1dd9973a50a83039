"""A fleet whose decisions are stored elsewhere: in the database of a service, which several processes may share."""

from __future__ import annotations

import base64
import json
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.core.forgetting import Event
from posse.core.noticing import ALL_TASKS
from posse.core.state import Receipt, Receipts
from posse.errors import InvalidValue
from posse.fleet.decays import Decays
from posse.fleet.deciding import asked_of, draw
from posse.fleet.decision import Decision
from posse.fleet.fleet import Fleet
from posse.fleet.joining import checked_arm, know_tasks, new_core
from posse.fleet.learning import learn_numbered
from posse.fleet.names import Label
from posse.fleet.settings import Stream, require_truth_value
from posse.fleet.views import arm_overviews
from posse.fleet.worth import worth_among
from posse.interrupts import finish

if TYPE_CHECKING:
    from posse.features import FeatureSpec
    from posse.fleet.overview import ArmOverview
    from posse.types import Array, BoolArray, IntArray

NEVER = math.inf  # times as many rewards


class Learned(NamedTuple):
    """Sums over the rewards of a pair of task and arm.

    Of numbers these are products; of clicks and counts ``squares`` is the sum of rewards, ``moment`` that of contexts,
    and ``gram`` that of their squares; of revenue ``squares`` is the number of rewards above 0.
    """

    gram: Array
    moment: Array
    squares: float
    rewards: float


class Replica(Fleet):
    """A fleet that decides and learns, and remembers no decision.

    Whoever asks stores what was decided, and passes all of it to :meth:`learn` with the reward. All replicas that have
    learned the same rewards believe the same, up to when the population was estimated last; one of them estimates
    (``leading``), the others :meth:`adopt` what it found. Of clicks and counts every replica estimates, at places that
    the order of the rewards determines, so it must learn them in the order of the others.

    Parameters are those of :class:`posse.Posse`.

    Attributes
    ----------
    applied : int
        The number of the last change of a log that was learned; it changes together with what is learned.
    settled : int
        The change as of which rewards were learned, if that is later than the one that was applied.
    unlearned : int
        Rewards of the log that were left out, since they cannot be learned.
    unsettled : bool
        Whether rewards took the place of others in another way than a fleet that learns the log from its start would
        have it: then the log is to be learned again.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.applied = self.settled = self.unlearned = 0
        self.unsettled = False
        self._decays, self._leads = Decays(), True
        self.components = (self._decays,)
        self._take_part()

    def _take_part(self) -> None:
        """Have the core notice changes, but let them count once they are in the log."""
        self.core.deferred = True
        self.leading = self._leads

    @property
    def leading(self) -> bool:
        """Whether this replica estimates the population when rewards have grown."""
        return self._leads

    @leading.setter
    def leading(self, value: bool) -> None:
        with self.lock:
            self._leads = self.core.watching = bool(value)
            # Before the first estimate even a follower makes its own: 0 rewards times anything is 0.
            follows = not self._leads and self.shares_population
            self.core.growth = NEVER if follows else self.settings.refresh_growth

    @property
    def shares_population(self) -> bool:
        """Whether one replica estimates the population for all; else each estimates its own."""
        return self.settings.prior == "evidence" and not self.settings.robust and self.rewards == "number"

    @property
    def learns_in_order(self) -> bool:
        """Whether what a reward says depends on those before it, as it does of clicks and counts."""
        return self.rewards != "number"

    def run_in_background(self, background: Any) -> None:
        """Estimate the population on other threads, but where each replica estimates: then at places of the log."""
        super().run_in_background(background and not self.learns_in_order)

    @property
    def logged_features(self) -> FeatureSpec:
        """What the context of a decision in the log is made of."""
        return self._features

    @property
    def now(self) -> float:
        """The time as of which the fleet is looked at: that of the latest reward, the same for all replicas."""
        return self.core.now if self.fades else 0.0

    def look(self) -> None:
        """Estimate the population now if that is due before anything can be believed, after catching up, say."""
        with self.lock:
            self.core.ensure_fresh()

    def knows(self, task: Label) -> bool:
        """Whether a task has rewards."""
        with self.lock:
            return task in self.names.tasks

    @contextmanager
    def reserved(self, patience: float = 0.0) -> Iterator[bool]:
        """Have this fleet for oneself; False if somebody else has it for more seconds than ``patience``.

        A negative patience waits for ever.
        """
        got = self.lock.acquire(timeout=patience)
        try:
            yield got
        finally:
            if got:
                self.lock.release()

    def populations(self) -> dict[Label, ArmOverview]:
        """Return every arm's population."""
        with self.lock:
            self.core.ensure_fresh()
            return {arm.arm: arm for arm in arm_overviews(self)}

    def start_apart(self, decided: int) -> None:
        """Draw from a stream of its own from here on, and go on counting from this number of decisions."""
        with self.lock:
            self.stream = Stream(secrets.randbits(63), decided)

    def propose(
        self, task: Label, context: Any, eligible: Iterable[Label] | None = None, explore: bool = True, *,
        values: Mapping[Any, float] | None = None, costs: Mapping[Any, float] | None = None,
    ) -> Decision:  # fmt: skip
        """Choose an arm as :meth:`posse.Posse.decide` does, and store nothing; the id is new in all the world."""
        x = self._features.encode(context)
        require_truth_value(explore)
        with self.lock:
            asked = asked_of(self, task, eligible)
            self.core.ensure_fresh()
            ids = [f"{self.ledgers.own.prefix}-{self.stream.decided + 1}"]
            worth = worth_among(self, asked.active, values, costs)
            _, (decision,) = draw(self, asked, x, self.now, explore, [self.stream.next()], ids, worth)
            self.stream.decided += 1
        return decision

    def learn(
        self,
        tasks: Sequence[Label],
        arms: Sequence[Label],
        contexts: Any,
        rewards: Sequence[float],
        *,
        replaces: Sequence[float | None] | None = None,
        provisional: bool = False,
        applied: int | None = None,
        catching_up: bool = False,
        times: Sequence[float] | None = None,
        numbers: Sequence[int] | None = None,
        first: Sequence[int | None] | None = None,
    ) -> None:
        """Learn rewards, those of retired arms too: all of them, or none if one is refused.

        Parameters
        ----------
        tasks, arms, contexts, rewards
            One row each.
        replaces : sequence, optional
            The reward that each row was learned with before, None for those that are new. A row may be new and replaced
            in one call. Default: all are new.
        provisional : bool
            Whether all of them are decisions that wait for their reward.
        applied : int, optional
            The number of the last of these in a log: what :attr:`applied` is from then on. Whatever is raised, it is
            so if and only if the rewards are learned.
        catching_up : bool
            Only add them up, which is fast; the next decision estimates the population unless :meth:`adopt` or
            :meth:`refresh` came before it.
        times : sequence of float, optional
            When each reward came, for a fleet with drift, whose sums depend on nothing else. Default: now.
        numbers : sequence of int, optional
            The number of each of them in a log.
        first : sequence, optional
            The number with which each was learned first, of those that replace another. Default: found by its values.
        """
        X = self._features.encode_many(contexts) if len(rewards) else np.zeros((0, self._features.n_features))
        y = self.settings.family.check_many(np.array(rewards, dtype=np.float64))
        old = np.full(y.size, np.nan)
        if replaces is not None:
            old = np.array([np.nan if value is None else value for value in replaces], dtype=np.float64)
        came = np.full(y.size, self.clock()) if times is None else np.array(times, dtype=np.float64)
        with self.lock:
            core, labels = self.core, self.names.tasks.checked_all(dict.fromkeys(tasks))
            known, new = self.names.tasks.numbered(core, labels)
            of_tasks = _looked_up(dict(zip(labels, known.tolist(), strict=True)), tasks)
            of_arms = _looked_up({arm: self.names.arms.number(arm) for arm in dict.fromkeys(arms)}, arms)
            self._require_learned(of_tasks, of_arms, np.isnan(old))
            core.prepare(of_tasks, of_arms, sums_only=catching_up)
            at = None if numbers is None else np.array(numbers, dtype=np.int64)
            was = [None] * y.size if first is None else first
            waits = provisional or self.settings.counts_pending
            steps: list[Callable[[], object]] = [partial(self.names.tasks.take_new, core, new)] if new.labels else []
            for is_new, rows in self._parts(np.isnan(old)):
                some = of_tasks[rows], of_arms[rows], X[rows], y[rows], came[rows]
                if not is_new:
                    steps += self._replacing(*some, old[rows], [was[row] for row in rows.tolist()])
                    continue
                serials = None if at is None or not self._finds_by_number else at[rows]
                steps += self._learning(some, serials, refresh=not catching_up, is_open=waits)
            if applied is not None:
                steps.append(partial(setattr, self, "applied", applied))
            finish(steps)
            if not catching_up or self.learns_in_order:
                core.ensure_fresh()
                core.estimate_if_due(provisional=provisional)

    @property
    def _finds_by_number(self) -> bool:
        """Whether what a reward said when it was learned is to be found again by its number."""
        return self.fades or self.rewards != "number"

    def _parts(self, new: BoolArray) -> Iterator[tuple[bool, IntArray]]:
        """Yield rows that are all new, or all not, in an order that says the same as their own."""
        if not self._finds_by_number:  # sums mind no order
            yield from ((is_new, np.flatnonzero(new == is_new)) for is_new in (True, False) if (new == is_new).any())
            return
        cuts = np.flatnonzero(new[1:] != new[:-1]) + 1
        for rows in np.split(np.arange(new.size), cuts):
            if rows.size:
                yield bool(new[rows[0]]), rows

    def _learning(
        self, rows: Any, serials: IntArray | None, *, refresh: bool, is_open: bool
    ) -> list[Callable[[], object]]:
        """Return the steps that learn new rewards."""
        receipts: list[Receipts] = []

        def learn() -> None:
            receipts.append(learn_numbered(self, *rows, refresh=refresh, is_open=is_open, serials=serials))

        if serials is None or self.rewards != "number":
            return [learn]
        return [learn, lambda: self._decays.add(serials, receipts[0].decay, wait=is_open)]

    def _replacing(
        self, tasks: IntArray, arms: IntArray, X: Array, y: Array, times: Array, old: Array, first: list[int | None]
    ) -> Iterator[Callable[[], object]]:
        """Yield the steps that put rewards in the place of those that their decisions counted as."""
        columns: Any = tasks.tolist(), arms.tolist(), X, y.tolist(), times.tolist(), old.tolist(), first
        for row in zip(*columns, strict=True):
            found: list[tuple[Receipt, bool]] = []
            yield partial(self._replace, found, *row)
            yield partial(self._close, found, row[-1])
            if self.learns_in_order:
                yield self.core.estimate_if_due

    def _replace(
        self, found: list[tuple[Receipt, bool]], task: int, arm: int, x: Array, value: float, now: float,
        before: float, number: int | None,
    ) -> None:  # fmt: skip
        """Put a reward in the place of another; add its receipt, and whether it waited for that, to ``found``."""
        receipt, waited = self._learned_first(task, arm, x, before, number)
        # What clicks and counts said of others, and estimates until now, came of the reward that was there.
        self.unsettled |= receipt is None or (not waited and self.learns_in_order)
        if receipt is not None:
            # A correction is no news about the time: a log that has it from the start does not say when it came.
            receipt = self.core.replace(receipt, value, now if waited else self.core.now)
            found.append((receipt, waited))

    def _close(self, found: list[tuple[Receipt, bool]], number: int | None) -> None:
        """Note that a reward that was replaced waits for no other."""
        if number is not None and found and self.rewards == "number" and self._finds_by_number:
            self._decays.close(number)
        for receipt, waited in found:
            if waited:
                self.core.close(receipt)

    def _learned_first(
        self, task: int, arm: int, x: Array, before: float, number: int | None
    ) -> tuple[Receipt | None, bool]:
        """Return what was learned of a decision, None if that is known no more, and whether it waits for its reward."""
        if number is None or not self._finds_by_number:
            return self.core.open_receipt(task, arm, x, before), True
        if self.rewards != "number":
            receipt = self.core.receipt_of(task, arm, number)
            return receipt, receipt is not None and self.core.is_open(receipt)
        found = self._decays.find(number)
        if found is None:
            return None, False
        return Receipt(task, arm, x, before, found[0], -1, -1), found[1]

    def _require_learned(self, tasks: IntArray, arms: IntArray, new: BoolArray) -> None:
        """Raise if a row is to be replaced whose pair has learned nothing and is not among the new ones."""
        if new.all():
            return
        sums = self.core.sums(np.unique(tasks[~new]))
        there = set(zip(sums.tasks.tolist(), sums.arms.tolist(), strict=True))
        there |= set(zip(tasks[new].tolist(), arms[new].tolist(), strict=True))
        if not there.issuperset(zip(tasks[~new].tolist(), arms[~new].tolist(), strict=True)):
            raise InvalidValue("a reward replaces one that was never learned; learn its decision first")

    def know_tasks(self, tasks: Mapping[Label, Mapping[str, Any]], *, applied: int) -> None:
        """Know something about tasks, which is the change of this number in a log; see :meth:`set_task_features`.

        Of clicks and counts, which learn in order, one task at a time: an estimate may be due after each.
        """
        with self.lock:
            know_tasks(self, tasks, lambda: setattr(self, "applied", applied))

    def know_arms(self, arms: Mapping[Any, Any]) -> None:
        """Know something about arms before the first reward; about the others nothing is known."""
        from posse.fleet.menu import read_menu

        arms = {arm: values for arm, values in arms.items() if arm in self.names.arms}
        if not arms:
            return
        with self.lock:
            assert self.known.arms.spec is not None
            assert not self.core.n_rewards
            menu = read_menu(arms, self.known.arms.spec, self.names.arms)
            self.known.arms.raw = {
                self.names.arms.number(arm): raw for arm, raw in zip(menu.arms, menu.all_raw(), strict=True)
            }
            self.core = new_core(self)
            self.run_in_background(self.background)
            self._take_part()

    def try_arms(
        self, arms: Iterable[Label], retired: Iterable[Label], features: Mapping[Any, Any] | None = None
    ) -> None:
        """Raise what would be wrong with having these arms, of which some are retired; nothing changes.

        Parameters
        ----------
        arms : iterable
            All of them; those that this fleet has, and at most one that it does not.
        retired : iterable
            Those of them that may not be chosen.
        features : mapping, optional
            What is known about arms.

        Raises
        ------
        InvalidValue
            If an arm cannot be added to this fleet, or none would be left to choose.
        """
        with self.lock:
            active = set(arms) - set(retired)
            if not active:
                raise InvalidValue("all arms would be retired; keep at least one that can be chosen")
            for arm in active.difference(self.arms):
                checked_arm(self, arm, (features or {}).get(arm) if arm not in self.names.arms else None)

    def leave_out(self, applied: int, *, counts: bool = True) -> None:
        """Go on without a row that cannot be learned, which is the change of this number.

        ``counts`` is False for one that was to replace another: then there is not one reward less.
        """
        with self.lock:
            self.__dict__.update(unlearned=self.unlearned + counts, applied=applied)

    def learned(self, tasks: Sequence[Label]) -> tuple[int, dict[tuple[Label, Label], Learned]]:
        """Return :attr:`applied`, and sums over the rewards of every pair that has some, as they came.

        Gram matrices are upper triangles, row after row. Tasks without rewards are left out. In a fleet with drift sums
        are aged, of clicks and counts they are not.
        """
        with self.lock:
            numbers = [number for task in tasks if (number := self.names.tasks.get(task)) is not None]
            applied, asked = self.applied, np.array(numbers, dtype=np.int64)
            if self.rewards == "number":
                sums: Any = self.core.sums(asked, self.now)
                parts = sums.gram, sums.moment, sums.squares, sums.counts
            else:
                sums = self.core.plain_sums(asked)
                parts = sums.squares, sums.contexts, sums.total, sums.counts
            label, arm = self.names.tasks.label, self.names.arms.label
            pairs = [(label(task), arm(k)) for task, k in zip(sums.tasks.tolist(), sums.arms.tolist(), strict=True)]
        return applied, {pair: Learned(*row) for pair, row in zip(pairs, zip(*parts, strict=True), strict=True)}

    # The population of a replica that leads.

    @property
    def estimated_at(self) -> float:
        """How many rewards the population in force was estimated from."""
        return self.core.estimated_at

    @property
    def estimate(self) -> int:
        """A number that is another whenever another population is in force."""
        return self.core.version

    def dump_population(self) -> bytes | None:
        """Return the population in force, or None if it is not one that replicas share or none was estimated."""
        if not self.shares_population or not self.estimated_at > 0:
            return None
        with self.lock:
            arrays = self.core.population()
        return json.dumps(
            {
                name: {"shape": one.shape, "type": one.dtype.str, "data": base64.b64encode(one.tobytes()).decode()}
                for name, one in arrays.items()
            }
        ).encode()

    def adopt(self, population: bytes) -> bool:
        """Believe in the population that another replica estimated; False if it is of other arms."""
        if not self.shares_population:
            return False
        given = _read(population)
        with self.lock:
            try:
                return self.core.adopt(given)
            except ValueError as error:
                raise InvalidValue(
                    f"expected a population of this version of posse, got another version's ({error}); let all "
                    "processes run the same version"
                ) from None

    # Changes that are noticed.

    def noticed(self) -> list[dict[str, Any]]:
        """Return what was noticed about changes since the last time, as plain values for :meth:`notice`.

        Nothing of it counts before all replicas have it, this one too; so it counts at one place of the log.
        """
        with self.lock:
            events, self.core.events = list(self.core.events), []
            return [self._as_json(event) for event in events]

    def _as_json(self, event: Any) -> dict[str, Any]:
        if event.half_life is not None:
            whose = {"of_amounts": True} if event.of_amounts else {}
            return whose | {"time": event.time, "half_life": None if event.half_life == math.inf else event.half_life}
        task = self.names.tasks.label(event.task) if self.names.tasks.has(event.task) else None
        return {"time": event.time, "everywhere": event.task == ALL_TASKS, "task": task}

    def notice(self, event: dict[str, Any], matches: Callable[[Label], bool]) -> None:
        """Let what some replica noticed be so; ``matches`` says which task it is of."""
        with self.lock:
            if "half_life" in event:
                half_life = math.inf if event["half_life"] is None else float(event["half_life"])
                of_amounts = bool(event.get("of_amounts", False))
                self.core.apply(Event(event["time"], half_life=half_life, of_amounts=of_amounts))
                return
            numbers = self.names.tasks.numbers
            task: int | None = ALL_TASKS
            if not event["everywhere"]:
                task = next((number for label, number in numbers.items() if matches(label)), None)
            if task is not None:
                self.core.apply(Event(event["time"], task=task))

    def discard(self, matches: Callable[[Label], bool]) -> int:
        """Forget all tasks whose names match; return how many."""
        found = [task for task in self.tasks if matches(task)]
        self.forget(*found)
        return len(found)


def _looked_up(numbers: dict[Label, int], labels: Sequence[Label]) -> IntArray:
    return np.fromiter(map(numbers.__getitem__, labels), np.int64, len(labels))


def _read(data: bytes) -> dict[str, Any]:
    try:
        return {
            name: np.frombuffer(base64.b64decode(entry["data"]), dtype=entry["type"]).reshape(entry["shape"]).copy()
            for name, entry in json.loads(data).items()
            if entry["type"] in ("<f8", "<i8", "|b1")
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidValue(f"this is not a population that posse wrote: {error}") from None
