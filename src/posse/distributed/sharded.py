"""A fleet on more than one machine, with the calls of one on one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from posse.batches import is_many
from posse.checks import one_of, whole_number
from posse.core.estimate import FIT_SETTLED, FIT_STEPS, SETTLED, STEPS
from posse.distributed.cluster import gather
from posse.distributed.fit import distinct, encode_rows, learn_files
from posse.distributed.keeping import SNAPSHOT_BYTES, KeptShards
from posse.distributed.population import require_shardable
from posse.distributed.rows import GatheredDecisions, outer_id, parts_of, place_of, spread_buckets, spread_by
from posse.distributed.running import RunningShards, new_place, require_new
from posse.errors import InvalidValue, UnknownDecision, UnknownTask
from posse.features import FeatureSpec
from posse.fleet.decision import Decision, Decisions, Ranking
from posse.fleet.joining import checked_arm
from posse.fleet.late import Rewarded, Skipped, id_of, listed_rewards
from posse.fleet.menu import read_menu
from posse.fleet.names import Label, buckets_of, require_one_by_one
from posse.fleet.posse import Posse
from posse.fleet.settings import require_truth_value
from posse.fleet.tables import Columns, contexts_of, require_learnable, rewarded_rows
from posse.tables import library_of

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
        As in :class:`posse.Posse`, but for ``background``, ``clock`` and ``log``. The prior is "evidence", ``drift`` is
        a half-life or None, and ``robust`` is False.

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
        template = template_of(arms, features, policy, seed, **settings)
        count = whole_number(shards, "shards", at_least=1)
        if folder is not None:
            require_new(folder)
        place = new_place(folder, fsync, snapshot_bytes, resources)
        self.running = RunningShards(template, spread_buckets(count), place, address)

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
        running = self.running
        label = running.template.names.tasks.checked(task)
        bucket = running.bucket_of(label)
        asked = label, context, None if eligible is None else list(eligible), explore, record
        call = running.do if record else running.look
        found = gather([call(running.home[bucket], "decide", *asked, k=k)])[0]
        if record:
            running.note_kind([label])
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
        running = self.running
        labels, codes, parts = parts_of(running, tasks, contexts, eligible)
        call = running.do if record else running.look
        calls = [call(part.shard, "decide_columns", *part.asked, explore, record) for part in parts]
        answers, buckets, n = gather(calls), buckets_of(labels), len(codes)
        arms, spread = spread_by(parts, answers, self.arms, n)
        ids, chosen, propensity = np.empty(n, dtype=object), np.empty(n, dtype=np.int64), np.empty(n)
        for part, answer in zip(parts, answers, strict=True):
            rows, at = part.rows, np.array([arms.index(arm) for arm in answer["arms"]])
            ids[rows] = list(map(outer_id, buckets[codes[rows]], answer["ids"]))
            chosen[rows], propensity[rows] = at[answer["chosen"]], answer["propensity"]
        if record:
            running.note_kind(labels)
        return GatheredDecisions(
            prefix="sharded" if record else "",
            first=0,
            tasks=[labels[code] for code in codes.tolist()],
            arms=arms,
            chosen=chosen,
            propensity=propensity,
            probabilities=spread("probabilities", 0.0),
            mean=spread("mean", np.nan),
            sd=spread("sd", np.nan),
            library=library_of(contexts),
            gathered=tuple(ids.tolist()),
        )

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
        return self._learn("reward", decision, value)

    def correct(self, decision: Decision | str, value: float) -> bool:
        """Put another reward in the place of one that a decision has, or learn its first; its shard does so.

        Parameters
        ----------
        decision : Decision or str
            A decision, or its id.
        value : float

        Returns
        -------
        bool
            False if this is the reward that it has: nothing changes.

        Raises
        ------
        UnknownDecision, ExpiredDecision, NotFinite, InvalidValue
            As in :meth:`posse.Posse.correct`.
        """
        return self._learn("correct", decision, value)

    def _learn(self, what: str, decision: Decision | str, value: float) -> bool:
        running = self.running
        shard, inner = place_of(id_of(decision), running.home)
        value = running.template.settings.checked_reward(value)
        news = bool(gather([running.do(shard, what, inner, value)])[0])
        if news:
            running.rewards_of[shard] += 1
            running.refresh_if_due(STEPS, SETTLED)
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
        running = self.running
        one_of(errors, "errors", ("raise", "skip"))
        ids, amounts = listed_rewards(decisions, values)
        asked: dict[int, tuple[list[Any], list[Any], list[Any]]] = {}  # rows, ids and values by shard
        skipped: list[Skipped] = []
        for row, (given, amount) in enumerate(zip(ids, amounts, strict=True)):
            try:
                shard, inner = place_of(id_of(given), running.home)
            except UnknownDecision as error:
                if errors == "raise":
                    raise
                skipped.append(Skipped(row, given, f"UnknownDecision: {error}"))
                continue
            for column, value in zip(asked.setdefault(shard, ([], [], [])), (row, inner, amount), strict=True):
                column.append(value)
        if errors == "raise":  # all or none
            gather([running.look(shard, "check_rewards", *given) for shard, (_, *given) in asked.items()])
        answers = gather([running.do(shard, "reward_rows", *given, errors) for shard, (_, *given) in asked.items()])
        news = 0
        for (shard, (rows, *_)), (count, left_out) in zip(asked.items(), answers, strict=True):
            news += count
            running.rewards_of[shard] += count
            skipped += [Skipped(rows[row], ids[rows[row]], reason) for row, _, reason in left_out]
        if news:
            running.refresh_if_due(STEPS, SETTLED)
        return Rewarded(news, sorted(skipped))

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
        time: str | None = None,
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
        time : str, default None
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
        columns, running = Columns(task, arm, reward, missing_reward, time), self.running
        template = running.template
        require_learnable(columns, template.settings, refresh)
        if is_many(table):
            learned = learn_files(running, table, columns, progress)
        else:
            frame = rewarded_rows(table, columns, template.settings.absent_reward)
            with running.scaling:
                spec = template.features
                if not spec.ready:
                    spec = spec.learn_scaling(contexts_of(frame, spec.names))
                labels, codes, arms, X, y, times = encode_rows(template, frame, columns, spec)
                if spec is not template.features and len(frame):  # not before the table is known to be good
                    running.scale(spec)
            calls = []
            for shard, rows in running.by_shard(labels, codes):
                names, own = distinct(labels, codes[rows])
                came = None if times is None else times[rows]
                calls.append(running.do(shard, "learn_table", names, own, arms[rows], X[rows], y[rows], came))
                running.rewards_of[shard] += rows.size
            learned = int(sum(gather(calls)))
            running.note_kind(labels)
        if refresh and learned:
            running.refresh_if_due(FIT_STEPS, FIT_SETTLED)
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
        return self.running.refresh(FIT_STEPS, FIT_SETTLED, sample)

    # Arms and tasks.

    def add_arm(self, arm: Label, features: Any = None) -> None:
        """Add an arm that every task may choose from now on; a retired one comes back with what it taught.

        Parameters
        ----------
        arm : str or int
        features : mapping, array or row, default None
            What is known about it, in a fleet with ``arm_features``.

        Raises
        ------
        InvalidValue
            As in :meth:`posse.Posse.add_arm`.
        """
        running = self.running
        with running.arming:
            new = checked_arm(running.template, arm, features)  # what is wrong with it raises here
            gather([running.coordinator.add_arm.remote(new.label, new.raw)])
            # Last, so that nobody sends rows of an arm that some shard does not have.
            running.template.add_arm(new.label, new.raw)
            running.describe()

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
        running = self.running
        arms = running.template.names.arms
        with running.arming:
            arms.without(arm)  # what is wrong with it raises here
            running.ask("retire_arm", arms.checked(arm))
            running.template.retire_arm(arm)
            running.describe()

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
        running = self.running
        labels = list(dict.fromkeys(running.template.names.tasks.checked(task) for task in tasks))
        if not labels:
            return
        tasks_of: list[list[Label]] = [[] for _ in running.shards]
        for shard, rows in running.by_shard(labels):
            tasks_of[shard] = [labels[row] for row in rows]
        known = gather([shard.knows.remote(some) for shard, some in zip(running.shards, tasks_of, strict=True)])
        for label, found in zip(chain(*tasks_of), chain(*known), strict=True):
            if not found:
                raise UnknownTask(f"no task {label!r} among the tasks of this fleet")
        running.note_refresh(gather([running.coordinator.forget.remote(running.request(), tasks_of)])[0])
        running.count_rewards()

    def set_task_features(self, tasks: Any) -> int:
        """Say what is known about tasks: before their first decision, or later if it changes; their shards do so.

        Parameters
        ----------
        tasks : mapping from tasks to features, or table with a column ``task`` and one for every task feature
            As in :meth:`posse.Posse.set_task_features`.

        Returns
        -------
        int
            How many tasks.

        Raises
        ------
        InvalidValue
            As in :meth:`posse.Posse.set_task_features`.
        """
        running, template = self.running, self.running.template
        side = template.known.tasks
        if side.spec is None:
            raise InvalidValue(
                "expected a fleet with task_features, got one without; make it with task_features=FeatureSpec(...)"
            )
        with running.scaling:
            menu = read_menu(tasks, side.spec, template.names.tasks, what="task")
            if menu.spec != side.spec:
                side.spec = menu.spec
                running.describe()
        raw, said = menu.all_raw(), menu.spec.to_json()
        calls = [
            running.do(shard, "know_tasks", [menu.arms[row] for row in rows], [raw[row] for row in rows], said)
            for shard, rows in running.by_shard(menu.arms)
        ]
        gather(calls)
        running.note_kind(menu.arms)
        return len(menu)


def template_of(*arguments: Any, **settings: Any) -> Posse:
    """Return a fleet without tasks that has these settings, or raise if it cannot be sharded; needs no Ray."""
    for name in ("background", "clock", "log"):
        if name in settings:
            raise InvalidValue(f"expected no {name} for a sharded fleet, got one; leave it out")
    template = Posse(*arguments, **settings)
    require_shardable(template)
    return template
