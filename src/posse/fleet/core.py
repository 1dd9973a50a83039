"""The inside of a fleet: names, arrays, decisions that wait, and the lock that keeps them together."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time as clock_module
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from posse._version import __version__
from posse.checks import number
from posse.errors import (
    ExpiredDecision,
    InvalidValue,
    NotFinite,
    RewardConflict,
    ShapeError,
    UnknownArm,
    UnknownDecision,
    UnknownTask,
)
from posse.families import Rewards
from posse.features import FeatureSpec
from posse.fleet.behaviour import Behaviour, new_behaviour
from posse.fleet.commit import Steps, commit
from posse.fleet.decision import Decision
from posse.fleet.fading import HalfLife, new_fading
from posse.fleet.known import Known
from posse.fleet.labels import Label, Labels
from posse.fleet.ledger import FORGOTTEN, PENDING, REWARDED, Ledger, parse_id
from posse.fleet.loading import require_loaded
from posse.fleet.menu import read_menu
from posse.fleet.room import memory
from posse.fleet.rows import label_codes, listed, required, sequence_codes
from posse.fleet.site_store import SiteStore, new_store
from posse.kernels import estimators
from posse.kernels.evidence import SETTLED, STEPS
from posse.kernels.fleet import decide, decide_rows, pick
from posse.kernels.fleet_sites import show_rewards
from posse.kernels.lanes import new_lanes
from posse.kernels.linalg import LARGEST
from posse.kernels.propensity import score_room
from posse.kernels.rule import action_probabilities
from posse.kernels.sites import NUMBER
from posse.keywords import KnownKeywords
from posse.threads import MANY_ROWS, spread_parts, workers

if TYPE_CHECKING:
    from posse.engine.refresh import Refresh
    from posse.logs.writer import Record
    from posse.model.prior import Prior
    from posse.types import Array, BoolArray, IntArray

MONTH = 30 * 24 * 3600.0
CELL_BYTES = 110  # that a fleet takes for every entry of its arms' covariances, as measured
FIT_ROUNDS = 4  # of effects and population in turn after a batch; one at every other refresh
FIT_STEPS, FIT_SETTLED = 30, 1e-2  # of the prior after a batch, which may be all the data there will ever be

logger = logging.getLogger("posse")


class Active(NamedTuple):
    """The arms that may be chosen."""

    arms: IntArray
    names: tuple[Label, ...]


class Lesson(NamedTuple):
    """Rows that are about to be learned: the steps that do it, and what follows."""

    steps: Steps
    way: str  # "one by one", or "sums", or sums and then "refresh"
    refresh: Refresh | None = None
    provisional: bool = False  # whether all rows are decisions that wait for their reward


class Core(KnownKeywords):
    """What the public object is built on. Methods that begin with an underscore expect that the lock is held."""

    def __init__(
        self,
        arms: Iterable[Label],
        features: FeatureSpec | Sequence[Any],
        policy: str = "ebm-rand-ucb",
        seed: int | None = None,
        *,
        prior: str | Prior | None = None,
        exploration: float | None = None,
        floor: float = 0.0,
        evaluation_budget: float = 0.0,
        refresh_growth: float | None = None,
        robust: bool = False,
        rewards: Rewards = "number",
        drift: HalfLife | Literal["learn"] | None = None,
        time_to_live: float | None = MONTH,
        absent_reward: float | None = None,
        count_pending: bool = True,
        task_features: FeatureSpec | Sequence[Any] | None = None,
        arm_features: FeatureSpec | Sequence[Any] | None = None,
        background: bool = False,
        clock: Callable[[], float] = clock_module.time,
        log: str | os.PathLike[str] | Callable[[list[Record]], None] | None = None,
    ) -> None:
        self._features = features if isinstance(features, FeatureSpec) else FeatureSpec(features)
        self._arms, self._tasks = Labels("arm"), Labels("task")
        if isinstance(arms, str):
            raise InvalidValue(f"arms must be a sequence of names, but the text {arms!r} came; pass [{arms!r}]")
        known_arms = None
        if arm_features is not None and not isinstance(arms, list | tuple):
            known_arms = read_menu(arms, spec_of(arm_features), self._arms)
            arms = known_arms.arms
        names = self._arms.checked_all(listed(arms, "arms must be a sequence of names"))
        if not names:
            raise InvalidValue("a fleet needs at least one arm, but arms is empty")
        for position, name in enumerate(names):
            if name in self._arms:
                raise InvalidValue(f"arms must differ, but {name!r} came twice")
            self._arms.add(name, position)
        require_room(len(names), self._features.n_features)
        self._behaviour = new_behaviour(
            policy,
            n_arms=len(names),
            n_features=self._features.n_features,
            prior=prior,
            exploration=exploration,
            floor=floor,
            evaluation_budget=evaluation_budget,
            refresh_growth=refresh_growth,
            robust=robust,
            rewards=rewards,
        )
        self._seed = checked_seed(seed)
        self._time_to_live = None if time_to_live is None else number(time_to_live, "time_to_live", above=0)
        self._absent_reward = None if absent_reward is None else self._checked_reward(absent_reward)
        require_truth_value(count_pending, "count_pending")
        self._count_pending = bool(count_pending)
        if not self._count_pending and self._absent_reward is None:
            raise InvalidValue(
                "count_pending=False learns every decision when its time_to_live is over, its reward or absent_reward; "
                "expected absent_reward to be a number, got None: pass absent_reward, or leave count_pending out"
            )
        if not self._count_pending and self._time_to_live is None:
            raise InvalidValue(
                "count_pending=False learns every decision when its time_to_live is over; "
                "expected time_to_live to be a number of seconds, got None"
            )
        self._fading = new_fading(drift, self)
        self._clock = clock
        self._lock = threading.RLock()
        self._retired: set[int] = set()
        self._store = new_store(self._behaviour)
        self._store.task_keys = self._tasks.keys
        self._in_background = bool(background)
        self._background: threading.Thread | None = None  # that estimates the population
        self._decided = 0
        self._prefix = secrets.token_hex(6)
        self._ledger = Ledger(self._prefix, self._features.n_features)
        self._adopted: dict[str, Ledger] = {}
        self._origins = {self._prefix}  # of all fleets that this one learned from, itself included
        self._elsewhere: frozenset[Label] = frozenset()  # tasks of the file that were not loaded
        self._partial = False
        self._known: Known | None = None
        if task_features is not None or arm_features is not None:
            require_numbers(self._behaviour)
            of_tasks, of_arms = (None if given is None else spec_of(given) for given in (task_features, arm_features))
            if known_arms is not None:
                of_arms = known_arms.spec  # with its scaling
            for of_units, units in ((of_tasks, len(names)), (of_arms, 1)):
                if of_units is not None:
                    require_room(units, of_units.n_features * self._features.n_features)
            self._known = Known(of_tasks, of_arms, len(names), self._features.n_features)
            both = set(self._features.names) & set(self._known.task_names)
            if both:
                raise InvalidValue(
                    f"expected names of features and task_features that differ, got {min(both)!r} in both; rename one"
                )
            if known_arms is not None:
                commit(self._known.arms.setting(np.arange(len(names)), known_arms.columns, known_arms.all_raw()))
        self._log: Callable[[list[Record]], None] | None = None
        self.log_to(log)
        self._seek()
        self._list_active()

    def log_to(self, log: str | os.PathLike[str] | Callable[[list[Record]], None] | None) -> None:
        """Note decisions and rewards here from now on; None is nowhere."""
        if log is not None and not callable(log):
            from posse.logs.writer import LogWriter

            log = LogWriter(log)
        self._log = log

    def _checked_reward(self, value: Any) -> float:
        """Return a reward that can be learned, or raise one clear error."""
        family = self._behaviour.family
        return checked_reward(value) if family.name == "number" else family.check(value)

    def _show_rewards(self, mean: Array, sd: Array) -> None:
        """Turn what is believed about linear predictors into what people see, in place: expected rewards."""
        family = self._behaviour.family.code
        if family != NUMBER:
            show_rewards(family, mean.reshape(-1), sd.reshape(-1))

    def _step(self) -> int:
        """Return the step that the next decision is: rewards learned from tables are experience, too."""
        return max(self._steps())

    def _steps(self) -> tuple[int, int]:
        """Return the step that the next decision is by decisions, and by rewards."""
        return self._decided + 1, self._store.experience + 1

    def _ledgers(self) -> list[Ledger]:
        return [self._ledger, *self._adopted.values()]

    @property
    def _counts_pending(self) -> bool:
        """Whether a decision counts as the absent reward from the moment it is made."""
        return self._absent_reward is not None and self._count_pending and not self._partial

    @property
    def _holds_rewards(self) -> bool:
        """Whether nothing of a decision is learned before its time to live is over."""
        return not self._count_pending

    def _n_pending(self) -> int:
        return sum(ledger.n_pending for ledger in self._ledgers())

    def _note(self, decisions: list[Decision], contexts: list[Any], now: float, *, ranking: bool = False) -> None:
        """Write decisions, or the places of one ranking, to the log before they count."""
        from posse.logs.writer import moment

        assert self._log is not None
        names, when = self._features.names, moment(now)
        about: dict[Label, dict[str, Any]] = {decision.task: {} for decision in decisions}
        if self._known is not None:
            about = {task: self._known.about(self._tasks.get(task)) for task in about}
        self._log(
            [
                {
                    "decision_id": decision.id,
                    "time": when,
                    "task": decision.task,
                    "arm": decision.arm,
                    "eligible": list(decision.probabilities),
                    "probabilities": list(decision.probabilities.values()),
                    "expected_rewards": list(decision.mean.values()),
                    "propensity": decision.propensity,
                    "context": dict(zip(names, self._features.raw(context), strict=True), **about[decision.task]),
                    "policy": self._behaviour.policy,
                    "version": __version__,
                    **({"ranking_id": decisions[0].id, "ranking_place": place + 1} if ranking else {}),
                }
                for place, (decision, context) in enumerate(zip(decisions, contexts, strict=True))
            ]
        )

    def _note_rewards(self, ids: list[str], values: list[float], now: float) -> None:
        """Write rewards to the log before they are learned."""
        if self._log is not None:
            from posse.logs.writer import moment

            when = moment(now)
            self._log(
                [
                    {"decision_id": decision_id, "reward": value, "reward_time": when}
                    for decision_id, value in zip(ids, values, strict=True)
                ]
            )

    _active: IntArray
    _active_names: tuple[Label, ...]

    def _seek(self) -> None:
        """Go to the place in the seed's stream that the next decision draws from."""
        self._rng = self._stream(self._decided)

    def _stream(self, decided: int) -> np.random.Generator:
        """Return the seed's stream at the place of the decision after so many."""
        generator = np.random.PCG64(np.random.SeedSequence(self._seed))
        generator.advance(decided)
        return np.random.Generator(generator)

    def _list_active(self) -> None:
        commit(self._showing_active(self._active_among(self._arms.numbers, self._retired)))

    def _active_among(self, numbers: Mapping[Label, int], retired: Collection[int]) -> Active:
        """Return which arms may be chosen, given the numbers of all."""
        active = [(label, arm) for label, arm in numbers.items() if arm not in retired]
        return Active(
            np.array([arm for _, arm in active], dtype=np.int64),
            tuple(label for label, _ in active),
        )

    def _showing_active(self, active: Active) -> Steps:
        return [partial(self.__dict__.update, _active=active.arms, _active_names=active.names)]

    def _require_whole(self) -> None:
        if self._partial:
            raise InvalidValue(
                "only some tasks of this fleet were loaded, so it decides but does not learn; load all of it"
            )

    def _require_floor(self, n_arms: int) -> None:
        """Raise if so many arms cannot all have the floor."""
        floor = self._behaviour.rule.floor
        if self._behaviour.policy != "random" and floor * n_arms > 1:
            raise InvalidValue(
                f"{n_arms} arms cannot all have a probability of floor={floor:g}; make a fleet with a lower floor"
            )

    def _require_loaded(self, label: Label) -> None:
        """Raise if a task is in the file that this fleet was loaded from, but was not loaded."""
        if label in self._elsewhere:
            raise UnknownTask(f"task {label!r} is in the file but was not loaded; load it with tasks=[..., {label!r}]")

    def _arm_number(self, arm: Any) -> int:
        number = self._arms.get(arm)
        if number is None:
            names = ", ".join(repr(label) for label in self._arms)
            raise UnknownArm(f"no arm {arm!r}; the arms are {names} (add it with add_arm({arm!r}))")
        return number

    def _task_number(self, task: Any) -> int:
        number = self._tasks.get(task)
        if number is None:
            raise UnknownTask(f"no task {task!r} among the {len(self._tasks)} tasks of this fleet")
        return number

    def _eligible(self, eligible: Iterable[Label]) -> tuple[IntArray, tuple[Label, ...]]:
        if isinstance(eligible, str):
            raise InvalidValue(f"eligible must be a sequence of arms, but the text {eligible!r} came")
        names = listed(eligible, "eligible must be a sequence of arms")
        numbers = [self._arm_number(name) for name in names]
        if not numbers:
            raise InvalidValue("eligible is empty; at least one arm must be eligible")
        if len(set(numbers)) < len(numbers):
            raise InvalidValue(f"eligible has an arm twice: {', '.join(map(repr, names))}")
        for name, arm in zip(names, numbers, strict=True):
            if arm in self._retired:
                raise UnknownArm(
                    f"arm {name!r} is retired and cannot be eligible (bring it back with add_arm({name!r}))"
                )
        numbers.sort()  # so that the arm does not depend on the order in which they were named
        return np.array(numbers, dtype=np.int64), tuple(self._arms.label(arm) for arm in numbers)

    def _mask(self, eligible: Iterable[Iterable[Label] | None] | None, n: int) -> BoolArray:
        """Return which arms are eligible, one row for all or one for each."""
        active = np.zeros((1, len(self._arms)), dtype=np.bool_)
        active[0, self._active] = True
        if eligible is None:
            return active
        rows = listed(eligible, "eligible must have a sequence of arms, or None, for every row")
        alone = [names for names in rows if isinstance(names, str | int)]
        if alone:
            raise InvalidValue(
                f"eligible of many rows must have a sequence of arms, or None, for every row, but the arm {alone[0]!r} "
                f"came; for the same arms in every row pass [{alone[: len(self._arms)]!r}] * {n}"
            )
        if len(rows) != n:
            raise ShapeError(f"eligible must have one entry per row, but {len(rows)} came for {n} rows")
        mask = np.repeat(active, n, axis=0)
        for row, names in enumerate(rows):
            if names is not None:
                mask[row] = False
                mask[row, self._eligible(names)[0]] = True
        return mask

    def _rows(self, tasks: Any, contexts: Any) -> tuple[list[Label], IntArray, Array]:
        """Return distinct task names, every row's position among them, and encoded contexts."""
        if isinstance(tasks, str):
            from posse.tables import as_frame

            contexts = as_frame(contexts, name="contexts")
            labels, codes = label_codes(required(contexts, tasks, "task"), self._tasks)
        else:
            labels, codes = sequence_codes(tasks, self._tasks)
        X = self._features.encode_many(contexts)
        for label in labels if self._elsewhere else ():
            self._require_loaded(label)
        if len(X) != len(codes):
            raise ShapeError(f"as many contexts as tasks are needed, but {len(codes)} tasks and {len(X)} contexts came")
        return labels, codes, X

    def _numbers(self, labels: list[Label], known: IntArray) -> tuple[IntArray, list[tuple[Label, int]]]:
        """Return the numbers of all labels, and the labels that have none yet with what they will get."""
        missing = np.flatnonzero(known < 0)
        if not missing.size:
            return known, []
        reserved = self._store.reserve_tasks(missing.size)
        numbers = known.copy()
        numbers[missing] = reserved
        return numbers, [
            (labels[position], number) for position, number in zip(missing.tolist(), reserved, strict=True)
        ]

    def _taking(self, new: list[tuple[Label, int]]) -> Steps:
        """Let tasks be there whose numbers were reserved."""
        return [*self._store.taking_tasks(len(new)), *self._tasks.adding(new)] if new else []

    def _choose(self, task: int, x: Array, arms: IntArray, step: int, explore: bool, uniform: float, out: Array) -> int:
        """Decide among ``arms``, see :func:`posse.kernels.fleet.decide`; a negative task is one never seen."""
        if self._known is None:
            return int(decide(self._store.address, task, x, arms, step, explore, uniform, out))
        if decide(self._store.address, task, x, arms, step, False, 0.0, out) < 0:
            return -1
        self._known.add(self._store, task, x, arms, out[1], out[2])
        scratch = np.empty((5, score_room(arms.size)))
        action_probabilities(out[1], out[2], step, self._behaviour.rule, explore, scratch, out[0])
        return int(pick(out[0], uniform))

    def _decide_rows(
        self,
        rows: IntArray,
        X: Array,
        mask: BoolArray,
        explore: bool,
        uniforms: Array,
        *,
        advance: bool = True,
    ) -> tuple[IntArray, Array, Array, Array]:
        n, n_arms = len(rows), len(self._arms)
        chosen = np.empty(n, dtype=np.int64)
        probabilities, mean, sd = (np.empty((n, n_arms)) for _ in range(3))
        ground = self._store.ground  # kept while compiled code works on it
        address = ground.address
        first_step, least_step = self._steps()
        if self._known is not None:
            probabilities[...], mean[...], sd[...] = 0.0, np.nan, np.nan
            for row in range(n):
                arms = np.flatnonzero(mask[row if len(mask) > 1 else 0])
                step, out = max(first_step + (row if advance else 0), least_step), np.empty((3, arms.size))
                position = self._choose(int(rows[row]), X[row], arms, step, explore, float(uniforms[row]), out)
                chosen[row] = arms[position] if position >= 0 else -1
                probabilities[row, arms], mean[row, arms], sd[row, arms] = out
            return chosen, probabilities, mean, sd
        # Rows of one task together, so that what belongs to it is fetched once; answers do not depend on the order.
        order = np.argsort(rows, kind="stable")

        def block(first: int, last: int) -> None:
            decide_rows(
                address, order, rows, X, mask, first_step, least_step, advance, explore, uniforms, first, last,
                new_lanes(self._features.n_features), chosen, probabilities, mean, sd,
            )  # fmt: skip

        if n < MANY_ROWS or workers() == 1:
            block(0, n)
        else:
            cuts = np.linspace(0, n, 4 * workers() + 1).astype(int)
            # All rows of one task in one block, as the first that comes settles what it believes.
            sorted_rows = rows[order]
            inner = np.searchsorted(sorted_rows, sorted_rows[cuts[1:-1]])
            # Tasks never seen have nothing to settle, and may be many.
            inner = np.where(sorted_rows[cuts[1:-1]] < 0, cuts[1:-1], inner)
            cuts = np.unique(np.concatenate([[0], inner, [n]]))
            parts = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
            spread_parts([partial(block, first, last) for first, last in parts])
        return chosen, probabilities, mean, sd

    def _lesson(
        self,
        tasks: IntArray,
        arms: IntArray,
        contexts: Array,
        rewards: Array,
        *,
        old: Array | None = None,
        refresh: bool = True,
        provisional: bool = False,
        waiting: bool = False,
        fit: bool = False,
        times: Array | None = None,
    ) -> Lesson:
        """Return rows with all that learning them needs; without ``refresh`` only their sums are taken.

        With ``fit`` they are a table, after which clicks and counts have their population estimated to the end. ``old``
        is the reward that each row was learned with before, NaN for those that are new; default: all are new. New ones
        that are ``waiting``, or ``provisional``, may be replaced by their reward. ``times`` is when each row came, in a
        fleet with drift; it then learns them in turn.
        """
        require_loaded()
        store = self._store
        # Kernels are compiled for the kinds of their arguments, and only one kind was loaded.
        contexts, rewards = (np.require(array, np.float64, ["C", "A", "W"]) for array in (contexts, rewards))
        tasks, arms = (np.require(array, np.int64, ["C", "A", "W"]) for array in (tasks, arms))
        slots = store.claim(tasks, arms)
        if self._fading is not None and times is not None:
            store.keep(slots, arms)
            learn = partial(self._fading.learn_rows, tasks, arms, contexts, rewards, times, estimate=refresh)
            return Lesson([learn], "one by one" if refresh else "sums")
        if self._known is not None:
            shift = self._known.shift(tasks, arms, contexts)
            rewards, old = rewards - shift, None if old is None else old - shift
        due = store.refresh_due(self._growth(), len(rewards), provisional=provisional)
        if isinstance(store, SiteStore):
            fit = fit and refresh
            waiting = waiting or provisional
            later = self._refresh_later if refresh and not fit and self._later() else None
            steps = store.learning_in_turn(
                tasks, arms, contexts, rewards, old=old, waiting=waiting, fit=fit, later=later
            )  # fmt: skip
            return Lesson(steps, "refresh" if fit and due else "one by one")
        if refresh and store.stale:
            due = True
        elif self._estimates_after(len(rewards)):
            due = False  # one by one, and the estimate follows in the background
        new: Any = slice(None) if old is None else np.isnan(old)
        new_refresh, one_by_one = None, refresh and not due
        store.keep(slots, arms)
        if one_by_one:
            steps = store.learning_rows(tasks[new], arms[new], contexts[new], rewards[new])
        else:
            new_refresh = store.new_refresh(slots[new], arms[new]) if refresh else None
            parts = store.parts_of(slots[new])
            steps = store.adding_rows(slots[new], arms[new], contexts[new], rewards[new], parts)
        if old is not None:
            # After those that are new: a decision and its reward may come together.
            known, before = ~new, np.require(old[~new], np.float64, ["C", "A", "W"])
            if one_by_one:
                steps += store.replacing_rows(tasks[known], arms[known], contexts[known], before, rewards[known])
            else:
                steps += store.exchanging_rows(slots[known], contexts[known], before, rewards[known])
        way = "one by one" if one_by_one else "refresh" if refresh else "sums"
        return Lesson(steps, way, new_refresh, provisional)

    def _ready_for_one(self, task: int, arm: int, *, provisional: bool = False) -> tuple[bool, Refresh | None]:
        """Prepare for one reward of a pair; return whether an estimate is due after it, and what that needs.

        The task may only have been reserved. :meth:`_estimate_one` follows when the reward was learned.
        """
        store = self._store
        if store.slot_of(task, arm) < 0:
            store.claim(np.array([task]), np.array([arm]))
        # What is behind on a whole table is estimated by whoever looks next, with more steps than here.
        due = not store.stale and store.refresh_due(self._growth(), 1.0, provisional=provisional)
        if due or store.is_read:
            slots, arms = np.array([store.slot_of(task, arm)]), np.array([arm])
            store.keep(slots, arms)
            if due and not self._later():
                return True, store.new_refresh(slots, arms)
        return due, None

    def _estimate_one(self, refresh: Refresh | None) -> None:
        """Estimate the population after one reward after which that is due."""
        if self._later():
            self._refresh_later()
        else:
            self._renew(refresh, steps=STEPS, settled=SETTLED)

    def _growth(self) -> float:
        """Return by which fraction rewards must grow for the population to be estimated anew."""
        return self._behaviour.refresh_growth

    def _later(self) -> bool:
        """Whether the population is estimated in the background."""
        evidence = self._behaviour.method == estimators.EVIDENCE
        return self._in_background and evidence and self._known is None

    def _estimates_after(self, n_rows: int) -> bool:
        """Whether so many rows are learned under the population in force; its estimate follows in the background."""
        return self._later() and n_rows <= self._store.n_rewards

    def _refresh_later(
        self, *, steps: int = STEPS, settled: float = SETTLED, sample: int | None = None, look: bool = False
    ) -> None:
        """Start an estimate of the population in the background unless one is under way.

        With ``look`` only what follows from the one in force is computed: sums have faded.
        """
        if self._is_refreshing():
            return
        self._store.kept = None
        try:
            from posse.fleet.background import run_beside, run_later

            if isinstance(self._store, SiteStore):
                run_beside(self, steps=steps, settled=settled)
            else:
                run_later(self, steps=steps, settled=settled, sample=sample, look=look)
        except Exception as error:  # no memory, no thread, no file
            self._store.postpone(error)
            logger.exception("a refresh in the background could not be started; the population stays as it is")

    def _end_beside(self) -> None:
        """Wait for an estimate of clicks or counts that is under way, and go on from there."""
        if isinstance(self._store, SiteStore) and self._store.beside is not None:
            from posse.fleet.background import end_beside

            end_beside(self)

    def _is_refreshing(self) -> bool:
        """Whether the population is being estimated; a forked child does not have its parent's thread."""
        return self._background is not None and self._background.is_alive()

    def _look(self) -> None:
        """Make sure that what is believed is about all that was learned."""
        store = self._store
        if store.stale and store.n_rewards > 0 and not store.postponed:
            self._renew()
        if store.stale:
            store.rebuild()

    def _renew(self, refresh: Refresh | None = None, *, steps: int = FIT_STEPS, settled: float = FIT_SETTLED) -> None:
        """Estimate the population anew. If that fails, it stays as it was and what was learned counts all the same."""
        try:
            self._store.refresh(refresh, steps=steps, settled=settled)
            self._learn_effects(steps=steps, settled=settled)
        except Exception as error:
            self._store.postpone(error)
            logger.exception(
                "the population could not be estimated and stays as it is until more rewards have come; all rewards "
                "so far are learned"
            )

    def _learn_effects(self, *, steps: int, settled: float) -> None:
        """Learn what features of tasks and arms say, after the population, and then the population around that."""
        store = self._store
        if self._known is not None and store.memory.evidence.refreshed_at[0] > 0:
            for _ in range(FIT_ROUNDS if steps >= FIT_STEPS else 1):
                commit(self._known.learning(store))
                if store.stale:
                    store.refresh(steps=steps, settled=settled)

    def _shift_of(self, task: int, arm: int, x: Array) -> float:
        """Return by how much a reward is lowered before it is learned: what features of task and arm say of it."""
        if self._known is None:
            return 0.0
        return float(self._known.shift(np.array([task]), np.array([arm]), x[None])[0])

    def _estimate(self, lesson: Lesson) -> None:
        """Estimate the population after a lesson, if it is due. Who is interrupted here has learned all the same."""
        if lesson.way == "refresh":
            if not self._store.postponed:
                self._renew(lesson.refresh)
            return
        due = self._store.refresh_due(self._growth(), provisional=lesson.provisional)
        if lesson.way == "one by one" and self._later() and due:
            self._refresh_later()

    def _find(self, decision_id: str, now: float) -> tuple[Ledger, int]:
        """Return where a decision stands that may get a reward, or has one."""
        place = parse_id(decision_id)
        ledger = None
        if place is not None:
            ledger = self._ledger if place[0] == self._prefix else self._adopted.get(place[0])
        if place is None or ledger is None or place[1] >= ledger.next:
            shown = f"{decision_id!r} " if isinstance(decision_id, str) else f"{type(decision_id).__name__} "
            raise UnknownDecision(f"no decision {shown}was made by this fleet; pass the id of a Decision")
        row = place[1] - ledger.first
        if row < 0 or (self._time_to_live is not None and row < ledger.late(now - self._time_to_live).size):
            raise ExpiredDecision(
                f"decision {decision_id!r} is older than its time to live; "
                "make the fleet with a longer time_to_live if rewards come this late"
            )
        if ledger.status[row] == FORGOTTEN:
            raise UnknownDecision(f"decision {decision_id!r} belongs to a task that was forgotten")
        return ledger, row

    def _require_same(self, decision_id: str, old: float, new: float) -> None:
        if old != new:
            raise RewardConflict(
                f"decision {decision_id!r} has the reward {old:g} already, but {new:g} came; it is rewarded once"
            )

    def _expire(self, now: float) -> None:
        """Let decisions go that are past their time; those without a reward get the absent one, if there is one."""
        if self._time_to_live is None:
            return
        before = now - self._time_to_live
        if not self._adopted and not self._ledger.has_late(before):
            return  # the path of every decision
        late = [(ledger, ledger.late(before)) for ledger in self._ledgers() if ledger.has_late(before)]
        if not late:
            return
        lesson, note = None, None
        if self._absent_reward is not None and not self._partial:
            waiting = [(ledger, rows[ledger.status[rows] == PENDING]) for ledger, rows in late]
            ids = [f"{ledger.prefix}-{ledger.first + row}" for ledger, rows in waiting for row in rows.tolist()]
            if self._holds_rewards:
                lesson = self._held(late, now)
            elif ids and isinstance(self._store, SiteStore):
                lesson = self._over(waiting)
            if ids:
                note = partial(self._note_rewards, ids, [self._absent_reward] * len(ids), now)
        commit([*(lesson.steps if lesson is not None else ()), *_dropping(late)], note)
        if lesson is not None:
            self._estimate(lesson)

    def _over(self, waiting: list[tuple[Ledger, IntArray]]) -> Lesson:
        """Return what decisions teach whose time is over: what they counted as, from now on for good."""
        absent = np.full(sum(rows.size for _, rows in waiting), self._absent_reward)
        return self._lesson(
            np.concatenate([ledger.task[rows] for ledger, rows in waiting]),
            np.concatenate([ledger.arm[rows] for ledger, rows in waiting]),
            np.concatenate([ledger.context[rows] for ledger, rows in waiting]),
            absent,
            old=absent,
        )

    def _held(self, late: list[tuple[Ledger, IntArray]], now: float) -> Lesson | None:
        """Return what decisions past their time teach: the reward that came meanwhile, or the absent one."""
        kept = [(ledger, rows[ledger.status[rows] != FORGOTTEN]) for ledger, rows in late]
        rewards = [
            np.where(ledger.status[rows] == REWARDED, ledger.reward[rows], self._absent_reward) for ledger, rows in kept
        ]
        if not sum(rows.size for _, rows in kept):
            return None
        return self._lesson(
            np.concatenate([ledger.task[rows] for ledger, rows in kept]),
            np.concatenate([ledger.arm[rows] for ledger, rows in kept]),
            np.concatenate([ledger.context[rows] for ledger, rows in kept]),
            np.concatenate(rewards),
            times=self._times(now, sum(rows.size for _, rows in kept)),
        )

    def _times(self, now: float, n: int) -> Array | None:
        """Return when ``n`` rows came that came now, if that matters."""
        return None if self._fading is None else np.full(n, now)


def _dropping(late: list[tuple[Ledger, IntArray]]) -> Steps:
    return [step for ledger, rows in late for step in ledger.dropping_oldest(rows.size)]


def spec_of(features: Any) -> FeatureSpec:
    """Return declared features, or names as numbers."""
    return features if isinstance(features, FeatureSpec) else FeatureSpec(features)


def require_numbers(behaviour: Behaviour) -> None:
    """Raise unless features of tasks and arms can be learned from."""
    if behaviour.method != estimators.EVIDENCE or behaviour.family.name != "number":
        raise InvalidValue(
            "expected rewards='number', a policy that learns the population and prior='evidence' with task_features or "
            f"arm_features, got rewards={behaviour.family.name!r}, policy={behaviour.policy!r} and "
            f"prior={behaviour.prior!r}; leave the features out, or take those"
        )


def require_room(n_arms: int, n_features: int) -> None:
    """Raise if what is believed about all tasks together would not fit in the memory of this machine."""
    needed = n_arms * n_features**2 * CELL_BYTES
    if needed > memory():
        raise InvalidValue(
            f"expected a fleet that fits in {memory() / 1e9:.3g} GB of memory, got {n_arms} arms x {n_features} "
            f"columns squared, which take {needed / 1e9:.3g} GB before the first task; declare fewer arms, or fewer or "
            "hashed features"
        )


def no_belief(task: Label) -> NotFinite:
    """Return the error of a decision that has no probabilities."""
    return NotFinite(
        f"what this fleet believes about task {task!r} is not a number: values of too different size were learned "
        "(1e20 beside 1, say), or this context is one; find such rows, forget their tasks and learn them again without"
    )


def require_beliefs(chosen: IntArray, codes: IntArray, labels: list[Label]) -> None:
    """Raise if some row has no arm because a belief is not a number."""
    if (chosen < 0).any():
        raise no_belief(labels[codes[int(np.argmax(chosen < 0))]])


def require_truth_value(value: Any, name: str = "explore") -> None:
    """Raise unless a value is True or False."""
    if type(value) is not bool and not isinstance(value, np.bool_):
        raise InvalidValue(f"{name} must be True or False, but {value!r} came")


def checked_reward(value: Any) -> float:
    """Return a reward that can be learned."""
    if isinstance(value, bool | np.bool_):
        return float(value)  # whether there was a click
    if value is None or (isinstance(value, float) and value != value):
        raise NotFinite(f"reward must be a finite number, but {value} came; where there is none, leave out the call")
    reward = number(value, "reward")
    if abs(reward) > LARGEST:
        raise NotFinite(f"reward {reward:g} is too large: sums of squares would overflow; rescale the rewards")
    return reward


def checked_seed(seed: Any) -> int:
    """Return the seed, or one from the operating system."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0 or seed >= 2**128:
        raise InvalidValue(f"seed must be a whole number from 0 to 2**128 - 1, but {seed!r} came")
    return int(seed)
