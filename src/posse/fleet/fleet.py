"""What every fleet has and shows: a core, names, settings, and changes of arms and tasks.

What is here neither takes decisions nor rewards: :class:`posse.fleet.posse.Posse` does that for a program, and
:class:`posse.fleet.replica.Replica` for a service that keeps decisions in its database.
"""

from __future__ import annotations

import os
import threading
import time as clock_module
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from posse.checks import KnownKeywords, whole_number
from posse.core.core import Core
from posse.core.estimate import FIT_SETTLED, FIT_STEPS
from posse.core.looking import effects_of
from posse.core.revenue import of_all_rewards
from posse.errors import InvalidValue
from posse.families import Rewards
from posse.features import FeatureSpec
from posse.fleet.decision import Expectation
from posse.fleet.joining import add_to, checked_arm, know_tasks, new_core
from posse.fleet.known import Known, declared_arms, spec_of
from posse.fleet.ledger import Ledgers
from posse.fleet.names import Arms, Label, Tasks, require_one_by_one
from posse.fleet.notes import Notes
from posse.fleet.settings import (
    MONTH,
    Drift,
    Settings,
    Stream,
    checked_seed,
    declared,
    require_memory,
    require_truth_value,
)
from posse.fleet.worth import Prices, changed_worth, with_arm
from posse.interrupts import defer_interrupts

if TYPE_CHECKING:
    from posse.fleet.file import Component
    from posse.fleet.overview import Coefficients, NoticedChange, Overview
    from posse.logs.writer import Record
    from posse.model.borrowing import Borrowing
    from posse.model.prior import Prior
    from posse.model.statistics import Statistics
    from posse.report import Report
    from posse.types import Array


class Names(NamedTuple):
    """The names that a fleet knows."""

    tasks: Tasks
    arms: Arms


class Fleet(KnownKeywords):
    """Tasks and arms by name, over a core that knows them by number. Parameters are those of :class:`posse.Posse`.

    Attributes
    ----------
    core : Core
        All that was learned.
    names : Names
    known : Known
        Raw features of tasks and arms.
    settings : Settings
    worth : Worth or None
        Prices of the arms; None where rewards alone count.
    ledgers : Ledgers
        The decisions that may still get a reward.
    stream : Stream
        Of random numbers.
    lock : RLock
        Held by whoever reads or changes any of these.
    clock : callable
    partial : bool
        Whether only some tasks of a file were loaded.
    """

    def __init__(
        self,
        arms: Iterable[Label] = (),
        features: FeatureSpec | Sequence[Any] | None = (),
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
        drift: Drift | Literal["learn"] | None = None,
        time_to_live: float | None = MONTH,
        absent_reward: float | None = None,
        count_pending: bool = True,
        task_features: FeatureSpec | Sequence[Any] | None = None,
        arm_features: FeatureSpec | Sequence[Any] | None = None,
        values: Mapping[Label, float] | None = None,
        costs: Mapping[Label, float] | None = None,
        background: bool = False,
        clock: Callable[[], float] = clock_module.time,
        log: str | os.PathLike[str] | Callable[[list[Record]], None] | None = None,
    ) -> None:
        self._features = spec_of(() if features is None else features)
        self.names = Names(Tasks(), Arms())
        labels, menu = declared_arms(arms, arm_features, self.names.arms)
        n_arms, n_features = len(labels), self._features.n_features
        require_memory(n_arms, n_features)
        self.settings: Settings = declared(
            n_arms=n_arms, n_features=n_features, policy=policy, prior=prior, exploration=exploration, floor=floor,
            evaluation_budget=evaluation_budget, refresh_growth=refresh_growth, robust=robust, rewards=rewards,
            drift=drift, time_to_live=time_to_live, absent_reward=absent_reward, count_pending=count_pending,
        )  # fmt: skip
        of_tasks, of_arms = (None if given is None else spec_of(given) for given in (task_features, arm_features))
        self.known = Known(of_tasks, of_arms if menu is None else menu.spec)  # with its scaling
        if menu is not None:
            self.known.arms.raw = dict(enumerate(menu.all_raw()))
        self.known.require(self._features, self.settings, n_arms)
        self.names.arms.change({label: number for number, label in enumerate(labels)}, ())
        self.worth = changed_worth(None, self.names.arms, values, costs)
        self.core = new_core(self)
        self.stream = Stream(checked_seed(seed))
        self.ledgers = Ledgers(self.core.context_width)
        self.lock, self.clock, self.partial = threading.RLock(), clock, False
        self.notes: Notes | None = None
        self.components: tuple[Component, ...] = ()
        self.run_in_background(background)
        self.log_to(log)

    def __repr__(self) -> str:
        with self.lock:
            partial = ", partial" if self.partial else ""
            return (
                f"<{type(self).__name__} {self.policy}{partial}: {len(self.arms)} arms, {len(self)} tasks, "
                f"{self.n_rewards:g} rewards{self._pending_words()}>"
            )

    def _pending_words(self) -> str:
        return ""

    def __len__(self) -> int:
        return len(self.names.tasks)

    def __bool__(self) -> bool:
        return True  # also before the first task

    def _repr_html_(self) -> str:
        return self.overview()._repr_html_()

    def __reduce_ex__(self, _: Any) -> Any:
        # A copy would share arrays and lock with this fleet, or draw the same random numbers and ids.
        raise TypeError("a fleet cannot be copied or pickled; use save(path) and Posse.load(path)")

    def log_to(self, log: str | os.PathLike[str] | Callable[[list[Record]], None] | None) -> None:
        """Note decisions and rewards here from now on, in place of where they were noted.

        Parameters
        ----------
        log : path, callable or None
            A .jsonl file that lines are added to, or a function that takes a list of records
            (:mod:`posse.logs.writer`); it is called before what it notes counts, and if it raises, nothing was decided
            or learned. None: nowhere.

        Raises
        ------
        InvalidValue
            If the path does not end in .jsonl or .ndjson, or cannot be written.
        """
        if log is not None and not callable(log):
            from posse.logs.writer import LogWriter

            log = LogWriter(log)
        self.notes = None if log is None else Notes(log)

    @property
    def core_kind(self) -> type[Core]:
        """The class of its core."""
        return Core

    @property
    def log(self) -> Callable[[list[Record]], None] | None:
        """Where decisions and rewards are noted."""
        return None if self.notes is None else self.notes.write

    def run_in_background(self, background: bool) -> None:
        """Estimate the population on other threads from now on, or no more.

        Parameters
        ----------
        background : bool
            See :class:`posse.Posse`.
        """
        self.background = bool(background)
        self.core.run_in_background(self.lock if self.background else None)

    # What it is.

    @property
    def arms(self) -> tuple[Label, ...]:
        """The arms that may be chosen."""
        return self.names.arms.active.names

    @property
    def retired_arms(self) -> tuple[Label, ...]:
        """The arms that are no longer chosen; what they taught stays."""
        with self.lock:
            arms = self.names.arms
            return tuple(label for label, arm in arms.numbers.items() if arm in arms.retired)

    @property
    def values(self) -> dict[Label, float] | None:
        """What one unit of reward is worth, by arm that may be chosen; None where nobody said it."""
        with self.lock:
            worth, (arms, names) = self.worth, self.names.arms.active
            return dict(zip(names, worth.table[0, arms].tolist(), strict=True)) if worth and worth.valued else None

    @property
    def costs(self) -> dict[Label, float] | None:
        """What playing an arm costs, by arm that may be chosen; None in a fleet without values and costs."""
        with self.lock:
            worth, (arms, names) = self.worth, self.names.arms.active
            return dict(zip(names, worth.table[1, arms].tolist(), strict=True)) if worth else None

    @property
    def tasks(self) -> tuple[Label, ...]:
        """The tasks that there are, in the order in which they came."""
        with self.lock:
            return tuple(self.names.tasks)

    @property
    def features(self) -> FeatureSpec:
        """What a context is made of."""
        return self._features

    @features.setter
    def features(self, features: FeatureSpec) -> None:
        with self.lock:
            self._features = features

    @property
    def policy(self) -> str:
        """The key of the policy."""
        return self.settings.policy

    @property
    def rewards(self) -> str:
        """What rewards are: "number", "binary", "count" or "revenue"."""
        return self.settings.family.name

    @property
    def n_decisions(self) -> int:
        """Decisions that were made and recorded so far; every place of a ranking is one."""
        return self.stream.decided

    @property
    def n_rewards(self) -> float:
        """Rewards learned; with ``absent_reward``, decisions that wait count among them (see ``count_pending``)."""
        if not self.fades:
            return self.core.n_rewards
        with self.lock:
            return self.core.count(self.now)

    @property
    def steps(self) -> tuple[int, int]:
        """The step of the next decision by decisions, and the least one by rewards."""
        return self.stream.decided + 1, self.core.experience + 1

    @property
    def fades(self) -> bool:
        """Whether old rewards count less; see ``drift``."""
        return self.settings.drift is not None

    @property
    def half_life(self) -> timedelta | None:
        """How long it takes until half of what differs in a task is believed to have changed; None is for ever."""
        seconds = self.core.half_life
        return timedelta(seconds=seconds) if np.isfinite(seconds) else None

    @property
    def changes(self) -> list[NoticedChange]:
        """The sudden changes that were noticed, the oldest first; see ``drift``."""
        from posse.fleet.overview import NoticedChange

        with self.lock:
            label = self.names.tasks.label
            return [
                NoticedChange(datetime.fromtimestamp(time, UTC), None if task < 0 else label(task))
                for time, task in self.core.changes
                if task < 0 or self.names.tasks.has(task)
            ]

    @property
    def prior(self) -> Prior:
        """The population in force, of all arms in the order in which they came, retired ones too.

        Of binary rewards and counts it is that of logits and logarithms, with noise variance 1.
        """
        with self.lock:
            self.core.ensure_fresh()
            return self.core.prior

    @property
    def statistics(self) -> Statistics:
        """All that was learned, as dense arrays over all arms (retired too) and tasks, each in the order they came."""
        from posse.fleet.views import statistics_of

        return statistics_of(self)

    @property
    def now(self) -> float:
        """The time as of which the fleet is looked at; 0 where nothing fades."""
        return max(self.clock(), self.core.now) if self.fades else 0.0

    def expected(self, task: Label, context: Any = None) -> Expectation:
        """Return what is believed about the expected reward of every active arm.

        Deterministic and without exploration; changes nothing and writes nothing to the log.

        Parameters
        ----------
        task : str or int
            One never seen has what the population says; it is not added.
        context : mapping, sequence or row, default None
            As in :meth:`posse.Posse.decide`.

        Returns
        -------
        Expectation
            ``mean`` and ``sd`` by arm, in the unit of rewards: of the expected reward, not of a single reward. In a
            fleet with ``values`` or ``costs`` also ``worth``, the expected money.

        Raises
        ------
        UnknownTask
            If the fleet was loaded without this task, which is in its file.
        ShapeError, NotFinite, InvalidValue
            If the task's name or the context is refused, as in :meth:`posse.Posse.decide`.

        Examples
        --------
        >>> from posse import Posse
        >>> bandits = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> bandits.learn_many({"task": ["a", "a"], "arm": ["red", "green"], "age": [1, 1], "reward": [0.0, 1.0]})
        2
        >>> expected = bandits.expected("a", {"age": 1})
        >>> max(expected.mean, key=expected.mean.get)
        'green'
        """
        from posse.fleet.views import expected_of

        return expected_of(self, task, context)

    def expected_many(self, tasks: Any = None, contexts: Any = None, *, confidence: float = 0.9) -> Any:
        """Return every active arm's expected reward in many tasks, and its probability of being best.

        Deterministic and without exploration; changes nothing and writes nothing to the log.

        Parameters
        ----------
        tasks : sequence of names, or str, default None
            A string is the name of a column of ``contexts``. None: all tasks. One never seen has what the population
            says.
        contexts : table, 2-D array or list of contexts, default None
            One row per task, as in :meth:`posse.Posse.decide_many`. None: every task at its own average context, among
            which ten average contexts of all tasks are counted; that needs an intercept.
        confidence : float, default 0.9
            Of the intervals, between 0 and 1.

        Returns
        -------
        table
            One row for every row and arm: row, task, arm, mean, low, high, probability_best; in a fleet with ``values``
            or ``costs`` also worth, the expected money, and probability_best is that of earning most. In the library
            of ``contexts`` or ``tasks`` if that is pandas or Arrow, else in Polars.

        Raises
        ------
        InvalidValue
            If contexts are needed and none came, or if ``confidence`` is not between 0 and 1; else as in
            :meth:`posse.Posse.decide_many`.

        Examples
        --------
        >>> from posse import Posse
        >>> bandits = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> bandits.learn_many({"task": ["a", "a"], "arm": ["red", "green"], "age": [1, 2], "reward": [0.0, 1.0]})
        2
        >>> bandits.expected_many().select("task", "arm").rows()
        [('a', 'red'), ('a', 'green')]
        """
        from posse.fleet.expecting import expected_table

        return expected_table(self, tasks, contexts, confidence)

    def probabilities(
        self, tasks: Any, contexts: Any, eligible: Iterable[Iterable[Label] | None] | None = None, explore: bool = True,
        *, values: Mapping[Label, Any] | None = None, costs: Mapping[Label, Any] | None = None,
    ) -> Array:  # fmt: skip
        """Return the probability of every active arm in every row, as if each were the next decision; changes nothing.

        Parameters
        ----------
        tasks : sequence of names, or str
        contexts : table, 2-D array or list of contexts
        eligible : sequence of (sequence of arms, or None), default None
        explore : bool, default True
        values, costs : mapping from arms to prices, default None
            All as in :meth:`posse.Posse.decide_many`.

        Returns
        -------
        ndarray of shape (n_rows, n_arms)
            Columns in the order of :attr:`arms`; 0 for arms that are not eligible. Rows add up to 1.

        Raises
        ------
        UnknownArm, UnknownTask, ShapeError, NotFinite, InvalidValue
            As in :meth:`posse.Posse.decide_many`.
        """
        from posse.fleet.views import probabilities_of

        return probabilities_of(self, tasks, contexts, eligible, explore, Prices(values, costs, contexts))

    # The population.

    def refresh(self, wait: bool = True, sample: int | None = None) -> None:
        """Estimate the population again from all that was learned.

        It is done by itself when rewards have grown by ``refresh_growth``; call it to have the latest before looking.

        Parameters
        ----------
        wait : bool, default True
            False starts it in the background, unless one is under way: decisions go on under the old population until
            the new one is put in place, all at once. Only the evidence prior is estimated in the background.
        sample : int, default None
            Estimate from about so many tasks of every arm, at least 2, evenly spread. The standard error that this adds
            to a variance of the population is at most the fraction ``sqrt(2 / sample)`` of it where every task is well
            known, and smaller beside its uncertainty where they are not; shared means are those of all tasks. None:
            all.

        Raises
        ------
        InvalidValue
            If ``wait`` or ``sample`` is out of its range, or only some tasks of the fleet were loaded.
        """
        require_truth_value(wait, "wait")
        if sample is not None:
            whole_number(sample, "sample", at_least=2)
            if self.rewards != "number":
                raise InvalidValue(
                    f"expected no sample for {self.rewards} rewards, whose rows are all looked at, got {sample}; "
                    "leave it out"
                )
        with self.lock:
            self.require_whole()
            keys = None if sample is None else self.names.tasks.keys
            if wait or self.settings.prior != "evidence":
                self.core.estimate(steps=FIT_STEPS, settled=FIT_SETTLED, sample=sample, keys=keys)
                return
            self.core.ensure_fresh()
            self.core.refresh_later(steps=FIT_STEPS, settled=FIT_SETTLED, sample=sample, keys=keys, lock=self.lock)

    @property
    def refresh_problem(self) -> str | None:
        """Why the last estimate of the population failed, or None if it did not; the next one is due by itself."""
        return self.core.problem

    @property
    def refreshing(self) -> bool:
        """Whether the population is being estimated in the background."""
        return self.core.refreshing

    def effects(self) -> dict[str, dict[str, float]]:
        """Return how much every feature of tasks and of arms says, by name.

        Returns
        -------
        dict
            ``{"task": {...}, "arm": {...}}``: for each feature the standard deviation of its effects on coefficients,
            over tasks or arms, where every column of the context has mean square 1: compare it with how rewards differ.
            0 is a feature that says nothing, or nothing yet. Empty without ``task_features`` and ``arm_features``.
        """
        with self.lock:
            self.core.ensure_fresh()
            found = zip(
                ("task", "arm"), (self.known.tasks, self.known.arms), effects_of(of_all_rewards(self.core)), strict=True
            )
            return {name: dict(zip(side.names, sizes.tolist(), strict=True)) for name, side, sizes in found}

    # Arms and tasks.

    def add_arm(
        self, arm: Label, features: Any = None, *, value: float | None = None, cost: float | None = None
    ) -> None:
        """Add an arm that every task may choose from now on; a retired one comes back with what it taught.

        Parameters
        ----------
        arm : str or int
        features : mapping, array or row, default None
            What is known about it, in a fleet with ``arm_features``: it starts near the arms like it. None: nothing,
            and it starts from what all arms have in common.
        value : float, default None
            What one unit of its reward is worth, in a fleet with ``values``, where a new arm needs one. None: a retired
            arm has the one that it had.
        cost : float, default None
            What playing it costs. None: 0, or what it was before it was retired.

        Raises
        ------
        InvalidValue
            If there is such an arm already, which is not retired; if all arms together cannot have the ``floor``; if
            features came for a fleet without ``arm_features`` or for a retired arm; if a value came for a fleet without
            ``values``, or none for one with them; if only some tasks were loaded.

        Examples
        --------
        >>> from posse import Posse
        >>> bandits = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> bandits.add_arm("blue")
        >>> bandits.retire_arm("red")
        >>> bandits.arms, bandits.retired_arms
        (('green', 'blue'), ('red',))
        """
        with self.lock:
            arms, new = self.names.arms, checked_arm(self, arm, features)
            worth = with_arm(self.worth, new.number, new.label, value, cost)
            numbers = arms.numbers | {new.label: new.number}
            with defer_interrupts():
                if new.number not in arms.retired:
                    add_to(self.core, self, new.encoded)
                    if new.raw is not None:
                        self.known.arms.raw[new.number] = new.raw
                arms.change(numbers, arms.retired - {new.number})
                self.worth = worth

    def retire_arm(self, arm: Label) -> None:
        """Choose an arm no more. What it taught stays, and its late rewards are still learned.

        Parameters
        ----------
        arm : str or int
            It comes back with :meth:`add_arm`.

        Raises
        ------
        UnknownArm
            If there is no such arm.
        InvalidValue
            If it is retired already, or is the last one.
        """
        with self.lock:
            arms = self.names.arms
            arms.change(arms.numbers, arms.without(arm))

    def set_values(
        self, values: Mapping[Label, float] | None = None, costs: Mapping[Label, float] | None = None
    ) -> None:
        """Change what rewards are worth, or what arms cost, from the next decision on; nothing is forgotten.

        Parameters
        ----------
        values : mapping from arms to numbers, default None
            What one unit of reward is worth; arms that are not named keep their values. In a fleet without values it
            names every arm.
        costs : mapping from arms to numbers, default None
            What playing an arm costs; arms that are not named keep their costs.

        Raises
        ------
        UnknownArm
            If there is no such arm.
        NotFinite
            If a number is NaN or infinite.
        InvalidValue
            If a number is negative or none, or an arm has no value.

        Examples
        --------
        >>> from posse import Posse
        >>> bandits = Posse(arms=["coffee", "sandwich"], values={"coffee": 1.6, "sandwich": 2.8}, seed=7)
        >>> bandits.set_values({"coffee": 1.9}, costs={"sandwich": 0.05})
        >>> bandits.values, bandits.costs
        ({'coffee': 1.9, 'sandwich': 2.8}, {'coffee': 0.0, 'sandwich': 0.05})
        """
        with self.lock:
            self.worth = changed_worth(self.worth, self.names.arms, values, costs)

    def rename(self, arm: Label, to: Label) -> None:
        """Give an arm another name; what it taught stays with it.

        Parameters
        ----------
        arm : str or int
            Its name until now.
        to : str or int
            Its name from now on. Rows of the log keep the old one.

        Raises
        ------
        UnknownArm
            If there is no such arm.
        InvalidValue
            If another arm has the new name, or it is of another kind than the names of the others (text, whole
            numbers).
        """
        with self.lock:
            arms = self.names.arms
            arms.change(arms.renamed(arm, to), arms.retired)

    def forget(self, *tasks: Label) -> None:
        """Remove all data of some tasks, as if they had never been; the population is learned again without them.

        Decisions of theirs that wait for a reward go, too. One call for many tasks learns the population once. The log
        is not changed.

        Parameters
        ----------
        *tasks : str or int
            One argument for each.

        Raises
        ------
        UnknownTask
            If there is no such task; none is then removed.
        InvalidValue
            If a list came in place of tasks (pass ``*tasks``), or only some tasks of the fleet were loaded.
        """
        with self.lock:
            self.require_whole()
            require_one_by_one(tasks)
            names = self.names.tasks
            labels = list(dict.fromkeys(names.checked(task) for task in tasks))
            numbers = np.array([names.number(label) for label in labels], dtype=np.int64)
            if not labels:
                return
            gone = [(ledger, ledger.of_tasks(numbers)) for ledger in self.ledgers]
            with defer_interrupts():
                self.core.forget(numbers)
                for ledger, at in gone:
                    ledger.forget(at)
                for number in numbers.tolist():
                    self.known.tasks.raw.pop(number, None)
                names.let_go(labels)
            # Whoever is interrupted here has forgotten; the next who looks estimates the population.
            if self.core.n_rewards > 0:
                self.core.renew(steps=FIT_STEPS, settled=FIT_SETTLED)

    def set_task_features(self, tasks: Any) -> int:
        """Say what is known about tasks: before their first decision, or later if it changes.

        It is written to the log, if there is one.

        Parameters
        ----------
        tasks : mapping from tasks to features, or table with a column ``task`` and one for every task feature
            Tasks that the fleet has not seen yet are there afterwards. About tasks that are never set nothing is known:
            they start from the population of all.

        Returns
        -------
        int
            How many tasks.

        Raises
        ------
        InvalidValue
            If the fleet was made without ``task_features``, a task comes twice, a feature is missing or not declared,
            or only some tasks were loaded.

        Examples
        --------
        >>> from posse import Posse
        >>> bandits = Posse(arms=["red", "green"], features=["age"], task_features=["size"], seed=7)
        >>> bandits.set_task_features({"store-17": {"size": 2.5}, "store-18": {"size": 0.5}})
        2
        """
        with self.lock:
            return know_tasks(self, tasks)

    def about_task(self, task: Label) -> dict[str, Any] | None:
        """Return the features of a task.

        Parameters
        ----------
        task : str or int

        Returns
        -------
        dict or None
            Raw values by name; None if nothing is known, or there are no ``task_features``.
        """
        with self.lock:
            number = self.names.tasks.get(task)
            return self.known.tasks.about(number) if number in self.known.tasks.raw else None

    def borrowing(self, task: Label) -> Borrowing:
        """Return how much of what is believed about a task comes from the other tasks.

        Parameters
        ----------
        task : str or int

        Returns
        -------
        Borrowing
            Arrays with one entry per arm, retired ones too, in the order in which they came: ``own_share`` (0 if all is
            borrowed, 1 if nothing is), ``borrowed`` (in rewards of its own) and ``rewards``.

        Raises
        ------
        UnknownTask
            If there is no such task.
        """
        from posse.fleet.views import borrowing_in

        return borrowing_in(self, task)

    def coefficients(self, task: Label) -> Coefficients:
        """Return the posterior of every arm's coefficients in a task.

        They are coefficients of the expected reward; of its logit for binary rewards, of its logarithm for counts.

        Parameters
        ----------
        task : str or int
            One never seen has the population's.

        Returns
        -------
        Coefficients
            ``columns``, and by arm ``mean`` of shape (n_features,) and ``covariance`` of shape (n_features,
            n_features).

        Raises
        ------
        UnknownTask
            If the fleet was loaded without this task, which is in its file.
        """
        from posse.fleet.views import coefficients_in

        return coefficients_in(self, task)

    def findings(self) -> list[str]:
        """Return in plain sentences what could not be learned so far, and what looks unusual; none is good news.

        Arms and features have their names. It takes milliseconds however many tasks there are; after loading a file,
        about a microsecond per pair of task and arm.

        Returns
        -------
        list of str
        """
        from posse.fleet.findings import findings_of

        return findings_of(self)

    def overview(self, n_tasks: int = 10) -> Overview:
        """Return what was learned, for people to look at: every arm's population, and the tasks with most rewards.

        Parameters
        ----------
        n_tasks : int, default 10
            How many tasks to list.

        Returns
        -------
        Overview
            Prints as text and shows as HTML in notebooks; ``to_json()`` returns plain values.
        """
        from posse.fleet.views import overview_of

        return overview_of(self, n_tasks)

    def report(self, log: Any = None, **settings: Any) -> Report:
        """Return one page for people who decide: what is gained, which arm is best where, when exploring stops paying.

        Parameters
        ----------
        log : Log, path or table, default None
            The decisions and rewards of this fleet. Without it the page does not say what is gained.
        **settings
            ``rule``, ``coming``, ``unit``, ``names``, ``title``, ``absent_reward``, ``seed`` and ``progress``, as in
            :func:`posse.report.make_report`.

        Returns
        -------
        Report
            ``save(path)`` writes one HTML file.

        Raises
        ------
        InvalidValue
            If the fleet has no tasks, or has no intercept and no log came that knows contexts.

        Examples
        --------
        >>> from posse import Posse
        >>> bandits = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> bandits.report().save("report.html")  # doctest: +SKIP
        """
        # By name: a report stands on a fleet, not a fleet on its report.
        report: Report = import_module("posse.report").make_report(self, log, **settings)
        return report

    def export(self, task: Label) -> dict[str, Any]:
        """Return all that is stored about a task, as plain values: for a person who asks what is known about them.

        Parameters
        ----------
        task : str or int

        Returns
        -------
        dict
            ``task``, ``columns``, ``arms`` (sums and shares by arm) and ``decisions`` that may still get a reward or be
            recognised, with their encoded contexts; ``features`` in a fleet with ``task_features``.

        Raises
        ------
        UnknownTask
            If there is no such task.
        """
        from posse.fleet.export import export_task

        return export_task(self, task)

    def require_whole(self) -> None:
        """Raise if only some tasks of a file were loaded."""
        if self.partial:
            raise InvalidValue(
                "only some tasks of this fleet were loaded, so it decides but does not learn; load all of it"
            )

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, at once or not at all; no pickle.

        Decisions that wait for their rewards are in it. Others may decide while the file is written. A file of that
        name is replaced.

        Parameters
        ----------
        path : path

        Raises
        ------
        MissingFile
            If there is no such folder.
        SavedFileError
            If the file cannot be written.
        InvalidValue
            If only some tasks of the fleet were loaded.
        """
        self.freeze()(path)

    def freeze(self) -> Callable[[str | os.PathLike[str]], None]:
        """Return a function that writes the state of now to a file, whatever is learned until then.

        Returns
        -------
        callable
            Takes a path, as :meth:`save` does, and needs no lock: files can be written while decisions go on.
        """
        from posse.fleet.file import freeze_fleet

        return freeze_fleet(self)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        tasks: Iterable[Label] | None = None,
        background: bool = False,
        clock: Callable[[], float] = clock_module.time,
        log: str | os.PathLike[str] | Callable[[list[Record]], None] | None = None,
    ) -> Self:
        """Read a fleet; the next decisions are those that the saved one would have made.

        Parameters
        ----------
        path : path
            Of a fleet, or of the manifest of one in shards (:mod:`posse.distributed`), which are then put together.
        tasks : sequence of names, default None
            Read only these tasks. Such a fleet decides for them as the whole one would, and does not learn. None: all.
        background : bool, default False
        clock : callable, default time.time
        log : path or callable, default None
            As in :class:`posse.Posse`; they are not in the file.

        Returns
        -------
        Posse

        Raises
        ------
        MissingFile
            If there is no such file.
        DamagedFile
            If it is not whole, not a fleet, or from another version of posse.
        UnknownTask
            If one of ``tasks`` is not in the file.
        InvalidValue
            If ``tasks`` came with a manifest.

        Notes
        -----
        New decisions have ids of their own: what was decided after the file was written has not been seen here, and its
        rewards are refused rather than taken for others'.
        """
        from posse.fleet.file import is_manifest, load_fleet

        if is_manifest(path):
            if tasks is not None:
                raise InvalidValue(
                    f"expected a fleet's file with tasks=..., got the manifest {os.fspath(path)}; "
                    "load the file of their shard"
                )
            # By name: shards stand on a fleet, not a fleet on its shards.
            fleet: Self = import_module("posse.distributed.manifest").load_shards(cls, path, clock)
        else:
            fleet = load_fleet(cls, path, tasks=tasks, clock=clock)
        fleet.log_to(log)
        fleet.run_in_background(background)
        return fleet
