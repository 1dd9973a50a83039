"""A fleet on more than one machine, with the calls of one on one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, overload

from posse.checks import whole_number
from posse.distributed.actors import require_new
from posse.distributed.cluster import gather
from posse.distributed.fit import encode_rows, learn_files
from posse.distributed.keeping import SNAPSHOT_BYTES, KeptShards
from posse.distributed.population import require_shardable
from posse.distributed.rows import decide_many, known_tasks, learn_rows, reward_many
from posse.distributed.spreading import outer_id, place_of, spread_buckets
from posse.engine.engine import FIT_SETTLED, FIT_STEPS
from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.arms import adding_arm, retiring_arm
from posse.fleet.checking import require_truth_value
from posse.fleet.decision import Decision, Decisions, Ranking
from posse.fleet.labels import Label, require_one_by_one
from posse.fleet.posse import Posse
from posse.fleet.rewarding import Rewarded, id_of
from posse.fleet.rows import contexts_of
from posse.fleet.table import require_learnable, rewarded_rows
from posse.fleet.task_keys import buckets_of
from posse.kernels import estimators
from posse.kernels.evidence import SETTLED, STEPS

if TYPE_CHECKING:
    from posse.fleet.streaming import Progress


class ShardedPosse(KeptShards):
    """Many related bandits that learn from each other, on more than one machine.

    Tasks are spread by a hash of their names over Ray actors that hold the ordinary engine; deciding and learning never
    leave the shard. One coordinator estimates the population from sums that the shards send, and publishes it: the same
    as one :class:`posse.Posse` would estimate, to rounding. Between two estimates a shard knows of the others' tasks
    what was published last.

    Parameters
    ----------
    arms, features, policy, seed
        As in :class:`posse.Posse`.
    shards : int, default 2
        How many actors.
    folder : path, optional
        Where shards keep a journal and snapshots, on storage that all machines see: an actor or a machine that dies
        loses nothing that was acknowledged, since Ray starts the actor again and it goes on from there. Default:
        nowhere, so that the fleet ends with its first actor that dies.
    address : str, optional
        Of a Ray cluster, as ``ray.init`` takes it. Default: the one that is connected, else the one in RAY_ADDRESS,
        else one of this machine's own.
    fsync : bool, default True
        Whether every change is on the disk before it is acknowledged. False survives the death of a process, and not
        that of a machine.
    snapshot_bytes : int, default 67108864
        A shard makes a snapshot when its journal, which it reads again after a death, is larger than this and than the
        last snapshot.
    resources : dict, optional
        Options of every actor, as ``ray.remote`` takes them. Default: spread over the machines, with no CPU set aside.
    **settings
        As in :class:`posse.Posse`, but for ``background``, ``clock`` and ``log``. Rewards are numbers, the prior is
        "evidence", and ``robust`` is False.

    Notes
    -----
    The shards' random streams are their own, so decisions are not those of one fleet with the same seed; their
    probabilities are, given the same rewards and an estimate since.

    Examples
    --------
    >>> fleet = ShardedPosse(arms=["red", "green"], features=["age"], shards=4, folder="fleet")  # doctest: +SKIP
    >>> decision = fleet.decide("store-17", {"age": 3})  # doctest: +SKIP
    >>> fleet.reward(decision, 1.0)  # doctest: +SKIP
    True
    """

    def __init__(
        self,
        arms: Iterable[Label],
        features: FeatureSpec | Iterable[Any],
        policy: str = "ebm-rand-ucb",
        seed: int | None = None,
        *,
        shards: int = 2,
        folder: str | os.PathLike[str] | None = None,
        address: str | None = None,
        fsync: bool = True,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        resources: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        template = self._template_of(arms, features, policy, seed, **settings)
        count = whole_number(shards, "shards", at_least=1)
        if folder is not None:
            require_new(folder)
        self._begin(
            template, spread_buckets(count), folder, address, fsync=fsync, snapshot_bytes=snapshot_bytes,
            resources=resources,
        )  # fmt: skip

    @staticmethod
    def _template_of(*arguments: Any, **settings: Any) -> Posse:
        """Return a fleet without tasks that has these settings, or raise if it cannot be sharded; needs no Ray."""
        for name in ("background", "clock", "log"):
            if name in settings:
                raise InvalidValue(f"expected no {name} for a sharded fleet, got one; leave it out")
        template = Posse(*arguments, **settings)
        require_shardable(template)
        return template

    # Deciding.

    @overload
    def decide(
        self, task: Label, context: Any, eligible: Iterable[Label] | None = None, explore: bool = True,
        record: bool = True, *, k: None = None,
    ) -> Decision: ...  # fmt: skip

    @overload
    def decide(
        self, task: Label, context: Any, eligible: Iterable[Label] | None = None, explore: bool = True,
        record: bool = True, *, k: int,
    ) -> Ranking: ...  # fmt: skip

    def decide(
        self,
        task: Label,
        context: Any,
        eligible: Iterable[Label] | None = None,
        explore: bool = True,
        record: bool = True,
        *,
        k: int | None = None,
    ) -> Decision | Ranking:
        """Choose an arm for a task in a context, or the ``k`` arms of a ranking; the shard of the task does it.

        Parameters
        ----------
        task : str or int
        context : mapping, sequence or row
        eligible : sequence of arms, default None
            None: all that are not retired.
        explore, record : bool, default True
        k : int, default None
            All as in :meth:`posse.Posse.decide`.

        Returns
        -------
        Decision or Ranking

        Raises
        ------
        UnknownArm, ShapeError, NotFinite, InvalidValue
            As in :meth:`posse.Posse.decide`.

        Notes
        -----
        With a ``folder`` the decision is in the shard's journal before it is returned. A call that Ray makes again
        after an actor died is done once.
        """
        require_truth_value(explore)
        require_truth_value(record, "record")
        label = self._template._tasks.checked(task)
        bucket = int(buckets_of([label])[0])
        eligible = None if eligible is None else list(eligible)
        shard = self._shards[self._home[bucket]]
        found = gather([shard.decide.remote(self._request(), label, context, eligible, explore, record, k)])[0]
        if record:
            self._template._tasks._kind = type(label)
        if k is not None:
            return Ranking(place._replace(id=outer_id(bucket, place.id)) for place in found)
        decision: Decision = found._replace(id=outer_id(bucket, found.id))
        return decision

    def decide_many(
        self,
        tasks: Any,
        contexts: Any,
        eligible: Iterable[Iterable[Label] | None] | None = None,
        explore: bool = True,
        record: bool = True,
    ) -> Decisions:
        """Choose an arm for every row; each shard decides for the rows of its tasks.

        Parameters
        ----------
        tasks : sequence of names, or str
        contexts : table, 2-D array or list of contexts
        eligible : sequence of (sequence of arms, or None), default None
        explore, record : bool, default True
            All as in :meth:`posse.Posse.decide_many`.

        Returns
        -------
        Decisions
            In the order of the rows.

        Raises
        ------
        UnknownArm, ShapeError, NotFinite, InvalidValue
            As in :meth:`posse.Posse.decide_many`.
        """
        require_truth_value(explore)
        require_truth_value(record, "record")
        return decide_many(self, tasks, contexts, eligible, explore, record)

    # Learning.

    def reward(self, decision: Decision | str, value: float) -> bool:
        """Learn the reward of a decision; the shard that made it does so.

        Parameters
        ----------
        decision : Decision or str
            A decision, or its id.
        value : float

        Returns
        -------
        bool
            True if it is news. False if the same value had come before: nothing changes, so a call may be repeated.

        Raises
        ------
        UnknownDecision, ExpiredDecision, RewardConflict, NotFinite, InvalidValue
            As in :meth:`posse.Posse.reward`.

        Notes
        -----
        When rewards of all shards have grown by ``refresh_growth``, this call has the population estimated and waits
        for it.
        """
        shard, inner = place_of(id_of(decision), self._home)
        value = self._template._checked_reward(value)
        news = bool(gather([self._shards[shard].reward.remote(self._request(), inner, value)])[0])
        if news:
            self._rewards[shard] += 1
            self._refresh_if_due(STEPS, SETTLED)
        return news

    def reward_many(
        self, decisions: Decisions | Iterable[Decision | str], values: Iterable[float], *, errors: str = "raise"
    ) -> Rewarded:
        """Learn many rewards; return how many are news.

        Parameters
        ----------
        decisions : Decisions, or sequence of decisions or of their ids
        values : sequence of float
        errors : {"raise", "skip"}, default "raise"
            As in :meth:`posse.Posse.reward_many`.

        Returns
        -------
        Rewarded
            A number, with the attribute ``skipped``.

        Raises
        ------
        ShapeError, UnknownDecision, ExpiredDecision, RewardConflict, NotFinite, InvalidValue
            As in :meth:`posse.Posse.reward_many`.
        """
        found = reward_many(self, decisions, values, errors)
        if found:
            self._refresh_if_due(STEPS, SETTLED)
        return found

    def learn_many(
        self,
        table: Any,
        *,
        task: str = "task",
        arm: str = "arm",
        reward: str = "reward",
        missing_reward: str = "error",
        refresh: bool = True,
        progress: Callable[[Progress], None] | None = None,
    ) -> int:
        """Learn the rows of a table; return how many.

        Folders, patterns and large files are read by Ray's workers, see :mod:`posse.distributed.fit`. Rows of a task
        are added in their order, so sums are those of one fleet to the last bit.

        Parameters
        ----------
        table : Polars, pandas or Arrow table, path, or iterator of tables
        task : str, default "task"
        arm : str, default "arm"
        reward : str, default "reward"
        missing_reward : {"error", "skip", "absent"}, default "error"
        refresh : bool, default True
        progress : callable, default None
            All as in :meth:`posse.Posse.learn_many`.

        Returns
        -------
        int
            Rows that were learned.

        Raises
        ------
        UnknownArm, MissingData, NotFinite, InvalidValue
            As in :meth:`posse.Posse.learn_many`.
        """
        from posse.batches import is_many
        from posse.fleet.streaming import Columns

        columns, template = Columns(task, arm, reward, missing_reward), self._template
        require_learnable(columns, template._late.absent_reward, refresh)
        if is_many(table):
            learned = learn_files(self, table, columns, progress)
        else:
            frame = rewarded_rows(table, columns, template._late.absent_reward)
            with self._scaling:
                spec = template.features
                if not spec.ready:
                    spec = spec.learn_scaling(contexts_of(frame, spec.names))
                rows = encode_rows(template, frame, task, arm, reward, spec)
                if spec is not template.features and len(rows[-1]):  # not before the table is known to be good
                    self._scale(spec)
            learned = learn_rows(self, *rows)
        if refresh and learned:
            self._refresh_if_due(FIT_STEPS, FIT_SETTLED)
        return learned

    def refresh(self, sample: int | None = None) -> dict[str, float]:
        """Estimate the population again from all that was learned, and publish it to every shard.

        Parameters
        ----------
        sample : int, default None
            Estimate from about so many tasks of every arm, as in :meth:`posse.Posse.refresh`. None: all.

        Returns
        -------
        dict
            How many messages and steps that took.

        Raises
        ------
        InvalidValue
            If ``sample`` is not a whole number of at least 2.
        """
        if sample is not None:
            whole_number(sample, "sample", at_least=2)
        found: dict[str, float] = gather([self._coordinator.refresh.remote(FIT_STEPS, FIT_SETTLED, sample)])[0]
        self._refreshed_at = found["refreshed_at"]
        return found

    def _refresh_if_due(self, steps: int, settled: float) -> None:
        growth = self._template._behaviour.refresh_growth
        at, rewards = self._refreshed_at, sum(self._rewards)
        if self._template._behaviour.method == estimators.EVIDENCE and rewards - at >= max(1.0, growth * at):
            found = gather([self._coordinator.refresh.remote(steps, settled, None, growth)])[0]
            self._refreshed_at = found["refreshed_at"]

    # Arms and tasks.

    def add_arm(self, arm: Label) -> None:
        """Add an arm that every task may choose from now on; a retired one comes back with what it taught.

        Parameters
        ----------
        arm : str or int

        Raises
        ------
        InvalidValue
            As in :meth:`posse.Posse.add_arm`.
        """
        with self._arming:
            adding_arm(self._template, arm)  # what is wrong with it raises here
            gather([self._coordinator.add_arm.remote(self._template._arms.checked(arm))])
            # Last, so that nobody sends rows of an arm that some shard does not have.
            self._template.add_arm(arm)
            if self._folder is not None:
                self._describe()

    def retire_arm(self, arm: Label) -> None:
        """Choose an arm no more; what it taught is kept.

        Parameters
        ----------
        arm : str or int

        Raises
        ------
        UnknownArm, InvalidValue
            As in :meth:`posse.Posse.retire_arm`.
        """
        with self._arming:
            retiring_arm(self._template._arms, arm)  # what is wrong with it raises here
            self._ask("retire_arm", self._template._arms.checked(arm))
            self._template.retire_arm(arm)
            if self._folder is not None:
                self._describe()

    def forget(self, *tasks: Label) -> None:
        """Remove all data of some tasks, and learn the population without them.

        Parameters
        ----------
        *tasks : str or int
            One argument for each.

        Raises
        ------
        UnknownTask
            If there is no such task.
        InvalidValue
            If tasks come as a list.
        """
        require_one_by_one(tasks)
        labels = list(dict.fromkeys(self._template._tasks.checked(task) for task in tasks))
        if not labels:
            return
        tasks_of = known_tasks(self, labels)
        found = gather([self._coordinator.forget.remote(self._request(), tasks_of)])[0]
        self._refreshed_at = found["refreshed_at"]
        self._count_rewards()
