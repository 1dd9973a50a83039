"""What people see of a fleet and change in it: arms, tasks, what was learned, files.

What is here neither makes decisions nor takes rewards: :class:`posse.fleet.posse.Posse` does that for a program, and
:class:`posse.fleet.replica.Replica` for a service that keeps decisions in its database.
"""

from __future__ import annotations

import os
import time as clock_module
from collections.abc import Callable, Iterable
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from posse.checks import whole_number
from posse.engine.commit import commit
from posse.engine.engine import FIT_SETTLED, FIT_STEPS
from posse.errors import InvalidValue
from posse.fleet.arms import adding_arm, renaming_arm, retiring_arm
from posse.fleet.base import FleetBase
from posse.fleet.checking import require_truth_value
from posse.fleet.decision import Expectation
from posse.fleet.drifting import NoticedChange, noticed_changes
from posse.fleet.labels import Label
from posse.fleet.looking import (
    borrowing_in,
    coefficients_in,
    expected_of,
    overview_of,
    probabilities_of,
    statistics_of,
)
from posse.fleet.overview import Coefficients, Overview
from posse.fleet.tasks import forget_tasks
from posse.kernels import estimators

if TYPE_CHECKING:
    from posse.features import FeatureSpec
    from posse.logs.writer import Record
    from posse.model.borrowing import Borrowing
    from posse.model.prior import Prior
    from posse.model.statistics import Statistics
    from posse.report import Report
    from posse.types import Array


class Fleet(FleetBase):
    """What people see of a fleet and change in it. Parameters are those of :class:`posse.Posse`."""

    def __repr__(self) -> str:
        with self._lock:
            partial = ", partial" if self._partial else ""
            return (
                f"<{type(self).__name__} {self._behaviour.policy}{partial}: {len(self._arms.active_names)} arms, "
                f"{len(self._tasks)} tasks, {self._engine.store.n_rewards:g} rewards{self._pending_words()}>"
            )

    def __len__(self) -> int:
        return len(self._tasks)

    def __bool__(self) -> bool:
        return True  # also before the first task

    def _repr_html_(self) -> str:
        return self.overview()._repr_html_()

    def __reduce_ex__(self, _: Any) -> Any:
        # A copy would share arrays and lock with this fleet, or draw the same random numbers and ids.
        raise TypeError("a fleet cannot be copied or pickled; use save(path) and Posse.load(path)")

    # What it is.

    @property
    def arms(self) -> tuple[Label, ...]:
        """The arms that may be chosen."""
        return self._arms.active_names

    @property
    def retired_arms(self) -> tuple[Label, ...]:
        """The arms that are no longer chosen; what they taught is kept."""
        with self._lock:
            return tuple(label for label, arm in self._arms.numbers.items() if arm in self._arms.retired)

    @property
    def tasks(self) -> tuple[Label, ...]:
        """The tasks that there are, in the order in which they came."""
        with self._lock:
            return tuple(self._tasks)

    @property
    def features(self) -> FeatureSpec:
        """What a context is made of."""
        return self._features

    @property
    def policy(self) -> str:
        """The key of the policy."""
        return self._behaviour.policy

    @property
    def rewards(self) -> str:
        """What rewards are: "number", "binary" or "count"."""
        return self._behaviour.family.name

    @property
    def n_decisions(self) -> int:
        """Decisions so far."""
        return self._decided

    @property
    def n_rewards(self) -> float:
        """Rewards learned; with ``absent_reward``, decisions that wait count among them (see ``count_pending``)."""
        return self._engine.store.n_rewards

    @property
    def fades(self) -> bool:
        """Whether old rewards count less; see ``drift``."""
        return self._engine.fading is not None

    @property
    def half_life(self) -> timedelta | None:
        """How long it takes until half of what differs in a task is believed to have changed; None is for ever."""
        return None if self._engine.fading is None else self._engine.fading.half_life

    @property
    def changes(self) -> list[NoticedChange]:
        """The sudden changes that were noticed, the oldest first; see ``drift``."""
        with self._lock:
            fading = self._engine.fading
            return [] if fading is None else noticed_changes(fading, self._tasks)

    @property
    def prior(self) -> Prior:
        """The population in force, of all arms in the order in which they came, retired ones too.

        Of binary rewards and counts it is that of logits and logarithms, with noise variance 1.
        """
        with self._lock:
            self._engine.ensure_fresh()
            return self._engine.store.prior

    @property
    def statistics(self) -> Statistics:
        """All that was learned, as dense arrays over all arms (retired too) and tasks, each in the order they came."""
        return statistics_of(self)

    def expected(self, task: Label, context: Any) -> Expectation:
        """Return what is believed about every active arm's expected reward: deterministic, exploration apart."""
        return expected_of(self, task, context)

    def expected_many(self, tasks: Any = None, contexts: Any = None, *, confidence: float = 0.9) -> Any:
        """Return what is believed about every active arm's expected reward in many tasks, and how likely each is best.

        Deterministic, exploration apart; changes nothing.

        Parameters
        ----------
        tasks : sequence of names, or the name of a column of ``contexts``, optional
            Default: all tasks. One never seen has what the population says.
        contexts : table or 2-D array, optional
            One row per task, as in :meth:`decide_many`. Default: every task at its own average context, among which ten
            average contexts of all tasks are counted; that needs an intercept.
        confidence : float
            Of the intervals. Default 0.9.

        Returns
        -------
        table
            One row for every row and arm: row, task, arm, mean, low, high, probability_best. In the library of
            ``contexts`` or ``tasks`` if that is pandas or Arrow, else in Polars.

        Raises
        ------
        InvalidValue
            If contexts are needed and none came, or if ``confidence`` is not between 0 and 1.

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
        self, tasks: Any, contexts: Any, eligible: Iterable[Iterable[Label] | None] | None = None, explore: bool = True
    ) -> Array:
        """Return how likely each active arm would be in every row, shape (n_rows, n_arms); changes nothing.

        As if every row were the next decision. Parameters as in :meth:`decide_many`.
        """
        return probabilities_of(self, tasks, contexts, eligible, explore)

    # The population.

    def refresh(self, wait: bool = True, sample: int | None = None) -> None:
        """Estimate the population anew from all that was learned.

        Parameters
        ----------
        wait : bool
            False starts it in the background, unless one is under way: decisions go on under the old population until
            the new one is put in place, all at once. Only the evidence prior is estimated in the background.
        sample : int, optional
            Estimate from about so many tasks of every arm, evenly spread. The standard error that this adds to a
            variance of the population is at most the fraction ``sqrt(2 / sample)`` of it where every task is well
            known, and smaller beside its uncertainty where they are not; shared means are those of all tasks.
        """
        require_truth_value(wait, "wait")
        if sample is not None:
            whole_number(sample, "sample", at_least=2)
        with self._lock:
            self._require_whole()
            engine = self._engine
            in_place = engine.method != estimators.EVIDENCE or engine.known is not None
            if wait or in_place or engine.store.stale or (sample and self.rewards != "number"):
                engine.refresh(sample=sample)
            else:
                engine.refresh_later(steps=FIT_STEPS, settled=FIT_SETTLED, sample=sample)

    @property
    def refresh_problem(self) -> str | None:
        """Why the last estimate of the population failed, or None if it did not; the next one is due by itself."""
        return self._engine.store.problem

    @property
    def refreshing(self) -> bool:
        """Whether the population is being estimated in the background."""
        return self._engine.is_refreshing

    def effects(self) -> dict[str, dict[str, float]]:
        """Return how much every feature of tasks and of arms says, by name: ``{"task": {...}, "arm": {...}}``.

        The standard deviation of its effects on coefficients, over tasks or arms, where every column of the context has
        mean square 1: compare it with how rewards differ. 0 is a feature that says nothing, or nothing yet.
        """
        with self._lock:
            self._engine.ensure_fresh()
            known = self._engine.known
            return {"task": {}, "arm": {}} if known is None else {"task": known.tasks.says(), "arm": known.arms.says()}

    # Arms and tasks.

    def add_arm(self, arm: Label, features: Any = None) -> None:
        """Add an arm that every task may choose from now on; a retired one comes back with what it taught.

        Parameters
        ----------
        arm : str or int
        features : mapping, array or row, optional
            What is known about it, in a fleet with ``arm_features``: it starts near the arms like it. Default: nothing,
            and it starts from what all arms have in common.
        """
        with self._lock:
            commit(adding_arm(self, arm, features))

    def retire_arm(self, arm: Label) -> None:
        """Choose an arm no more; its rewards still count, late ones too."""
        with self._lock:
            commit(retiring_arm(self._arms, arm))

    def rename(self, arm: Label, to: Label) -> None:
        """Give an arm another name."""
        with self._lock:
            commit(renaming_arm(self._arms, arm, to))

    def forget(self, *tasks: Label) -> None:
        """Remove all data of some tasks, as if they had never been; the population is learned again without them.

        Decisions of theirs that wait for a reward go, too. One call for many tasks learns the population once.
        """
        with self._lock:
            forget_tasks(self, tasks)

    def set_task_features(self, tasks: Any) -> int:
        """Say what is known about tasks: before their first decision, or later if it changes; return how many.

        Parameters
        ----------
        tasks : mapping from tasks to features, or table with a column ``task`` and one for every task feature
            Tasks that the fleet has not seen yet are there afterwards. About tasks that are never set nothing is known:
            they start from the population of all.

        Raises
        ------
        InvalidValue
            If the fleet was made without ``task_features``, or a task comes twice.
        """
        from posse.fleet.knowing import set_task_features

        return set_task_features(self, tasks)

    def borrowing(self, task: Label) -> Borrowing:
        """Return how much a task leans on its own rewards and how much on the others, for all arms in their order."""
        return borrowing_in(self, task)

    def coefficients(self, task: Label) -> Coefficients:
        """Return the posterior of every arm's coefficients in a task; one never seen has the population's.

        They are coefficients of the expected reward; of its logit for binary rewards, of its logarithm for counts.
        """
        return coefficients_in(self, task)

    def findings(self) -> list[str]:
        """Return in plain sentences what could not be learned so far, and what looks unusual; none is good news.

        Arms and features have their names. It takes milliseconds however many tasks there are; after loading a file,
        about a microsecond per pair of task and arm.
        """
        from posse.fleet.findings import findings_of

        return findings_of(self)

    def overview(self, n_tasks: int = 10) -> Overview:
        """Return what was learned, for people to look at: every arm's population, and the tasks with most rewards."""
        return overview_of(self, n_tasks)

    def report(self, log: Any = None, **settings: Any) -> Report:
        """Return one page for people who decide: which arm is best where, what deciding has gained, what looks wrong.

        Parameters
        ----------
        log : Log or path, optional
            The decisions and rewards of this fleet. Without it the page does not say what deciding has gained.
        **settings
            As in :func:`posse.report.make_report`.

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
        """Return all that is kept about a task, as plain values."""
        from posse.fleet.export import export_task

        return export_task(self, task)

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, at once or not at all; no pickle."""
        from posse.fleet.file import save_fleet

        save_fleet(self, path)

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
        tasks : sequence of names, optional
            Read only these tasks. Such a fleet decides for them as the whole one would, and does not learn.
        background, clock, log
            As in :class:`Posse`; they are not in the file.

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
        fleet._engine.in_background = bool(background)
        return fleet
