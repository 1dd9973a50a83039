"""What a sharded fleet shows of what it has learned: nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from posse.distributed.cluster import gather
from posse.distributed.rows import outer_id, parts_of, spread_by
from posse.errors import InvalidValue
from posse.fleet.names import buckets_of
from posse.fleet.settings import require_truth_value
from posse.tables import in_library_of

if TYPE_CHECKING:
    from posse.distributed.running import RunningShards
    from posse.features import FeatureSpec
    from posse.fleet.decision import Expectation
    from posse.fleet.ledger import Pending
    from posse.fleet.names import Label
    from posse.fleet.overview import Coefficients
    from posse.model.borrowing import Borrowing
    from posse.model.prior import Prior
    from posse.types import Array


class ShardViews:
    """Shards that are asked what they believe; each answers for its tasks.

    Attributes
    ----------
    running : RunningShards
        For those who work on the fleet.
    """

    running: RunningShards

    def __repr__(self) -> str:
        return f"<ShardedPosse {self.policy}: {len(self.arms)} arms, {self.n_shards} shards>"

    def __len__(self) -> int:
        return sum(state["tasks"] for state in self.running.states())

    def __bool__(self) -> bool:
        return True

    @property
    def arms(self) -> tuple[Label, ...]:
        """The arms that may be chosen."""
        return self.running.template.arms

    @property
    def retired_arms(self) -> tuple[Label, ...]:
        """The arms that are no longer chosen; what they taught stays."""
        return self.running.template.retired_arms

    @property
    def features(self) -> FeatureSpec:
        """What a context is made of."""
        return self.running.template.features

    @property
    def policy(self) -> str:
        """The key of the policy."""
        return self.running.template.policy

    @property
    def n_shards(self) -> int:
        """How many shards there are."""
        return self.running.n_shards

    @property
    def n_rewards(self) -> float:
        """Rewards learned; with drift, how many of now they are worth."""
        return float(sum(state["counted"] for state in self.running.states()))

    @property
    def n_decisions(self) -> int:
        """Decisions so far."""
        return sum(state["decisions"] for state in self.running.states())

    @property
    def tasks(self) -> tuple[Label, ...]:
        """The tasks that there are, shard by shard."""
        return tuple(task for tasks in self.running.ask("tasks") for task in tasks)

    @property
    def prior(self) -> Prior:
        """The population in force."""
        prior: Prior = gather([self.running.coordinator.prior.remote()])[0]
        return prior

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
        found: Expectation = self.running.look_at(task, "expected", context)
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
        running = self.running
        _, _, parts = parts_of(running, tasks, contexts, None)
        calls = [
            running.look(part.shard, "expected_many", part.tasks, part.contexts, confidence=confidence)
            for part in parts
        ]
        if not parts:
            return running.template.expected_many(tasks, contexts, confidence=confidence)
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
        running = self.running
        _, codes, parts = parts_of(running, tasks, contexts, eligible)
        calls = [running.look(part.shard, "shown_probabilities", *part.asked, explore) for part in parts]
        return spread_by(parts, gather(calls), self.arms, len(codes))[1]("probabilities", 0.0)

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
        found: Coefficients = self.running.look_at(task, "coefficients")
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
        found: Borrowing = self.running.look_at(task, "borrowing")
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
        found: dict[str, Any] = self.running.look_at(task, "export")
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
        waiting = [entry for entries in self.running.ask("look", "pending") for entry in entries]
        buckets = buckets_of([entry.task for entry in waiting]).tolist()
        named = [entry._replace(id=outer_id(at, entry.id)) for at, entry in zip(buckets, waiting, strict=True)]
        return sorted(named, key=lambda entry: -entry.age)
