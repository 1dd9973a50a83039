"""What a sharded fleet shows of what it has learned: nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.distributed.cluster import gather
from posse.distributed.rows import arms_of, parts_of
from posse.distributed.running import RunningShards
from posse.distributed.spreading import outer_id
from posse.errors import InvalidValue
from posse.fleet.checking import require_truth_value
from posse.fleet.task_keys import buckets_of
from posse.tables import in_library_of

if TYPE_CHECKING:
    from posse.fleet.decision import Expectation
    from posse.fleet.labels import Label
    from posse.fleet.ledger import Pending
    from posse.fleet.overview import Coefficients
    from posse.model.borrowing import Borrowing
    from posse.types import Array


class ShardViews(RunningShards):
    """Shards that are asked what they believe; each answers for its tasks."""

    def expected(self, task: Label, context: Any) -> Expectation:
        """Return what is believed about the expected reward of every active arm; changes nothing.

        Parameters
        ----------
        task : str or int
        context : mapping, sequence or row
            As in :meth:`posse.Posse.expected`.

        Returns
        -------
        Expectation

        Raises
        ------
        ShapeError, NotFinite, InvalidValue
            If the task's name or the context is refused.
        """
        found: Expectation = self._look_at(task, "expected", context)
        return found

    def expected_many(self, tasks: Any, contexts: Any, *, confidence: float = 0.9) -> Any:
        """Return what is believed about every active arm in many rows, as a table; changes nothing.

        Parameters
        ----------
        tasks : sequence of names, or str
        contexts : table, 2-D array or list of contexts
            Both must be given: no shard knows the average context of all tasks.
        confidence : float, default 0.9
            All as in :meth:`posse.Posse.expected_many`.

        Returns
        -------
        table
            As :meth:`posse.Posse.expected_many` returns it.

        Raises
        ------
        ShapeError, NotFinite, InvalidValue
            If a name, a context or ``confidence`` is refused.
        """
        import polars as pl

        if tasks is None or contexts is None:
            raise InvalidValue(
                "expected tasks and contexts for a sharded fleet, got none: no shard knows the average context of all "
                "tasks; pass both, or load the shards into one Posse"
            )
        _, _, parts = parts_of(self, tasks, contexts, None)
        calls = [
            self._shards[part.shard].look.remote("expected_many", part.tasks, part.contexts, confidence=confidence)
            for part in parts
        ]
        if not parts:
            return self._template.expected_many(tasks, contexts, confidence=confidence)
        tables = []
        for part, answer in zip(parts, gather(calls), strict=True):
            table = pl.DataFrame(answer)
            tables.append(table.with_columns(row=pl.Series(part.rows).gather(table["row"])))
        return in_library_of(pl.concat(tables).sort("row", maintain_order=True), contexts)

    def probabilities(
        self, tasks: Any, contexts: Any, eligible: Iterable[Iterable[Label] | None] | None = None, explore: bool = True
    ) -> Array:
        """Return the probability of each active arm in every row; changes nothing.

        Parameters
        ----------
        tasks : sequence of names, or str
        contexts : table, 2-D array or list of contexts
        eligible : sequence of (sequence of arms, or None), default None
        explore : bool, default True
            All as in :meth:`posse.Posse.probabilities`.

        Returns
        -------
        ndarray of shape (n_rows, n_arms)

        Raises
        ------
        UnknownArm, ShapeError, NotFinite, InvalidValue
            As in :meth:`posse.Posse.probabilities`.
        """
        require_truth_value(explore)
        _, codes, parts = parts_of(self, tasks, contexts, eligible)
        calls = [
            self._shards[part.shard].probabilities.remote(part.tasks, part.contexts, part.eligible, explore)
            for part in parts
        ]
        answers = gather(calls)
        arms, places = arms_of([answer["arms"] for answer in answers], self.arms)
        found = np.zeros((len(codes), len(arms)))
        for part, at, answer in zip(parts, places, answers, strict=True):
            found[np.ix_(part.rows, at)] = answer["probabilities"]
        return found

    def coefficients(self, task: Label) -> Coefficients:
        """Return the posterior of every arm's coefficients in a task; its shard does it.

        Parameters
        ----------
        task : str or int

        Returns
        -------
        Coefficients
            As :meth:`posse.Posse.coefficients` returns it.

        Raises
        ------
        UnknownTask
            As in :meth:`posse.Posse.coefficients`.
        """
        found: Coefficients = self._look_at(task, "coefficients")
        return found

    def borrowing(self, task: Label) -> Borrowing:
        """Return how much a task leans on the others; its shard does it.

        Parameters
        ----------
        task : str or int

        Returns
        -------
        Borrowing
            As :meth:`posse.Posse.borrowing` returns it.

        Raises
        ------
        UnknownTask
            As in :meth:`posse.Posse.borrowing`.
        """
        found: Borrowing = self._look_at(task, "borrowing")
        return found

    def export(self, task: Label) -> dict[str, Any]:
        """Return all that is kept about a task, as plain values; its shard does it.

        Parameters
        ----------
        task : str or int

        Returns
        -------
        dict
            As :meth:`posse.Posse.export` returns it.

        Raises
        ------
        UnknownTask
            As in :meth:`posse.Posse.export`.
        """
        found: dict[str, Any] = self._look_at(task, "export")
        bucket = int(buckets_of([found["task"]])[0])
        for decision in found["decisions"]:
            decision["id"] = outer_id(bucket, decision["id"])
        return found

    def pending(self) -> list[Pending]:
        """Return the decisions of all shards that wait for a reward.

        Returns
        -------
        list of Pending
            The oldest first.
        """
        waiting = [entry for entries in self._ask("look", "pending") for entry in entries]
        buckets = buckets_of([entry.task for entry in waiting]).tolist()
        named = [entry._replace(id=outer_id(at, entry.id)) for at, entry in zip(buckets, waiting, strict=True)]
        return sorted(named, key=lambda entry: -entry.age)

    def _look_at(self, task: Label, what: str, *arguments: Any) -> Any:
        """Return what the shard of a task answers about it."""
        label = self._template._tasks.checked(task)
        shard = self._shards[self._home[buckets_of([label])[0]]]
        return gather([shard.look.remote(what, label, *arguments)])[0]
