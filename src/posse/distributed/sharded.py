"""A fleet on more than one machine, with the calls of one on one."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from posse.checks import whole_number
from posse.container.replace import replacing
from posse.distributed import looking
from posse.distributed.actors import MANIFEST, RESOURCES, Place, end_actors, file_of, require_new, start_actors
from posse.distributed.cluster import gather, has_several_machines
from posse.distributed.fit import encode_rows, learn_files
from posse.distributed.manifest import Manifest, read_manifest, write_manifest
from posse.distributed.population import require_shardable
from posse.distributed.rows import decide_many, known_tasks, learn_rows, reward_many
from posse.distributed.spreading import homes_of, outer_id, place_of, spread_buckets
from posse.engine.engine import FIT_SETTLED, FIT_STEPS
from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.arms import adding_arm, retiring_arm
from posse.fleet.checking import require_truth_value
from posse.fleet.decision import Decision, Decisions, Expectation, Ranking
from posse.fleet.labels import Label
from posse.fleet.posse import Posse
from posse.fleet.rewarding import Rewarded, id_of
from posse.fleet.rows import contexts_of
from posse.fleet.table import require_learnable, rewarded_rows
from posse.fleet.task_keys import buckets_of
from posse.kernels import estimators
from posse.kernels.evidence import SETTLED, STEPS

if TYPE_CHECKING:
    from posse.fleet.ledger import Pending
    from posse.fleet.overview import Coefficients
    from posse.fleet.streaming import Progress
    from posse.model.borrowing import Borrowing
    from posse.model.prior import Prior
    from posse.types import Array

SNAPSHOT_BYTES = 64 << 20  # of a journal


class ShardedPosse:
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

    def _begin(
        self,
        template: Posse,
        buckets: list[list[int]],
        folder: str | os.PathLike[str] | None,
        address: str | None,
        *,
        fsync: bool,
        snapshot_bytes: int,
        resources: dict[str, Any] | None,
        manifest: Manifest | None = None,
        generation: str | None = None,
    ) -> None:
        """Start the actors; a ``manifest`` fills new ones, ``generation`` names those that a folder has."""
        self._template = template
        self._scaling = threading.Lock()  # so that features get one scaling
        self._arming = threading.Lock()  # so that arms have the same numbers everywhere
        self._folder = None if folder is None else Path(folder).absolute()
        self._resources = RESOURCES | (resources or {})
        self._client, self._counter = secrets.token_hex(6), itertools.count()
        whole_number(snapshot_bytes, "snapshot_bytes", at_least=1)
        self._place = Place(self._folder, generation or secrets.token_hex(4), fsync, snapshot_bytes)
        if self._folder is not None and generation is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            template.save(self._place.settings)
        self._use(buckets, *start_actors(template, buckets, self._place, address, self._resources, manifest))
        # From here on the folder is that of these shards.
        if self._folder is not None and generation is None:
            self._describe()

    def _use(self, buckets: list[list[int]], shards: list[Any], coordinator: Any) -> None:
        self._buckets, self._shards, self._coordinator = buckets, shards, coordinator
        self._home = homes_of(buckets)
        states = gather([shard.state.remote() for shard in shards])
        self._rewards = [float(state["rewards"]) for state in states]
        self._refreshed_at = float(gather([coordinator.refreshed_at.remote()])[0])
        for state in states:
            if state["kind"] is not None:
                self._template._tasks._kind = state["kind"]
        self._agree_on_arms(states)
        if self._template.features.ready and not all(state["ready"] for state in states):
            self._scale(self._template.features)

    def _agree_on_arms(self, states: list[dict[str, Any]]) -> None:
        """Finish what a driver that died had begun: all have the arms that one has, and the template's are retired.

        The coordinator has given every shard all arms.
        """
        template = self._template
        for arm in max((state["arms"] for state in states), key=len)[len(template._arms) :]:
            template.add_arm(arm)
        retired = set(template.retired_arms)
        for shard, state in zip(self._shards, states, strict=True):
            gather([shard.retire_arm.remote(arm) for arm in retired - set(state["retired"])])
            gather([shard.add_arm.remote(arm) for arm in set(state["retired"]) - retired])

    def _describe(self) -> None:
        """Write to the folder what is needed to open it again."""
        assert self._folder is not None
        self._template.save(self._place.settings)
        content = {
            "settings": self._place.settings.name,
            "generation": self._place.generation,
            "buckets": self._buckets,
            "snapshot_bytes": self._place.snapshot_bytes,
        }
        with replacing(self._folder / MANIFEST) as file:
            file.write(json.dumps(content).encode())

    def __repr__(self) -> str:
        return f"<ShardedPosse {self.policy}: {len(self.arms)} arms, {len(self._shards)} shards>"

    def __len__(self) -> int:
        return sum(state["tasks"] for state in self._states())

    def __bool__(self) -> bool:
        return True

    # What it is.

    @property
    def arms(self) -> tuple[Label, ...]:
        """The arms that may be chosen."""
        return self._template.arms

    @property
    def retired_arms(self) -> tuple[Label, ...]:
        """The arms that are no longer chosen; what they taught is kept."""
        return self._template.retired_arms

    @property
    def features(self) -> FeatureSpec:
        """What a context is made of."""
        return self._template.features

    @property
    def policy(self) -> str:
        """The key of the policy."""
        return self._template.policy

    @property
    def n_shards(self) -> int:
        """How many shards there are."""
        return len(self._shards)

    @property
    def n_rewards(self) -> float:
        """Rewards learned."""
        return float(sum(state["rewards"] for state in self._states()))

    @property
    def n_decisions(self) -> int:
        """Decisions so far."""
        return sum(state["decisions"] for state in self._states())

    @property
    def tasks(self) -> tuple[Label, ...]:
        """The tasks that there are, shard by shard."""
        return tuple(task for tasks in self._ask("tasks") for task in tasks)

    @property
    def prior(self) -> Prior:
        """The population in force."""
        prior: Prior = gather([self._coordinator.prior.remote()])[0]
        return prior

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

    # What is believed and kept.

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
        found: Expectation = looking.look_at(self, task, "expected", context)
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
        return looking.expected_many(self, tasks, contexts, confidence)

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
        return looking.probabilities(self, tasks, contexts, eligible, explore)

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
        found: Coefficients = looking.look_at(self, task, "coefficients")
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
        found: Borrowing = looking.look_at(self, task, "borrowing")
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
        return looking.export(self, task)

    def pending(self) -> list[Pending]:
        """Return the decisions of all shards that wait for a reward.

        Returns
        -------
        list of Pending
            The oldest first.
        """
        return looking.pending(self)

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

    def _scale(self, features: FeatureSpec) -> None:
        """Encode contexts with a scaling that was learned from now on: here, in every shard and in the folder."""
        before, self._template._features = self._template._features, features
        try:
            if self._folder is not None:
                # Before any shard knows it: a fleet that is opened tells the shards that do not.
                self._template.save(self._place.settings)
        except BaseException:
            self._template._features = before
            raise
        request, said = self._request(), features.to_json()
        gather([shard.set_features.remote(request, said) for shard in self._shards])

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
        """
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
        """
        labels = list(dict.fromkeys(self._template._tasks.checked(task) for task in tasks))
        if not labels:
            return
        tasks_of = known_tasks(self, labels)
        found = gather([self._coordinator.forget.remote(self._request(), tasks_of)])[0]
        self._refreshed_at = found["refreshed_at"]
        self._count_rewards()

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file per shard and a manifest, which :meth:`load` and ``Posse.load`` read; no pickle.

        The files stand beside the manifest, on storage that all machines see. A manifest that was there is replaced
        when all files of the new one are whole.

        Parameters
        ----------
        path : path
            Of the manifest.

        Raises
        ------
        SavedFileError
            If a file cannot be written.
        """
        target = Path(path).absolute()
        token = secrets.token_hex(4)
        files = [target.with_name(f"{target.name}.{token}.shard-{number:04d}") for number in range(len(self._shards))]
        settings = target.with_name(f"{target.name}.{token}.settings")
        try:
            before = read_manifest(target)
        except (OSError, ValueError):
            before = None
        with self._arming:
            population = gather([self._coordinator.population.remote()])[0]
            states = gather([shard.save.remote(str(file)) for shard, file in zip(self._shards, files, strict=True)])
            self._template.save(settings)
        write_manifest(target, Manifest(settings, files, self._buckets, states, population))
        for file in () if before is None else (before.settings, *before.shards):
            file.unlink(missing_ok=True)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        shards: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        address: str | None = None,
        fsync: bool = True,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        resources: dict[str, Any] | None = None,
    ) -> Self:
        """Start a fleet from a manifest, on as many shards as it has or on others.

        Parameters
        ----------
        path : path
            Of a manifest, as :meth:`save` and ``posse fit --engine ray`` write it.
        shards : int, default None
            How many actors. None: as many as it was saved from. Tasks move with their decisions that may still get a
            reward.
        folder : path, default None
        address : str, default None
        fsync : bool, default True
        snapshot_bytes : int, default 67108864
        resources : dict, default None
            As in :class:`ShardedPosse`.

        Returns
        -------
        ShardedPosse

        Raises
        ------
        InvalidValue
            If the folder holds a fleet already, or ``shards`` is not a whole number of at least 1.
        SavedFileError
            If the manifest or one of its files cannot be read.
        """
        if folder is not None:
            require_new(folder)
        manifest = read_manifest(path)
        count = len(manifest.shards) if shards is None else whole_number(shards, "shards", at_least=1)
        return cls._from(
            manifest, count, folder, address, fsync=fsync, snapshot_bytes=snapshot_bytes, resources=resources
        )

    @classmethod
    def _from(
        cls,
        manifest: Manifest,
        count: int,
        folder: str | os.PathLike[str] | None,
        address: str | None,
        *,
        fsync: bool,
        snapshot_bytes: int,
        resources: dict[str, Any] | None,
    ) -> Self:
        """Start so many shards with the tasks of a manifest."""
        buckets = manifest.buckets if count == len(manifest.shards) else spread_buckets(count)
        fleet = cls.__new__(cls)
        fleet._begin(
            Posse.load(manifest.settings), buckets, folder, address, fsync=fsync, snapshot_bytes=snapshot_bytes,
            resources=resources, manifest=manifest,
        )  # fmt: skip
        return fleet

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        address: str | None = None,
        fsync: bool = True,
        snapshot_bytes: int | None = None,
        resources: dict[str, Any] | None = None,
    ) -> Self:
        """Go on with the fleet of a folder, whose actors have ended: shards are restored from what they wrote there.

        Parameters
        ----------
        folder : path
        address : str, default None
        fsync : bool, default True
        resources : dict, default None
            As in :class:`ShardedPosse`.
        snapshot_bytes : int, default None
            None: as before.

        Returns
        -------
        ShardedPosse

        Raises
        ------
        InvalidValue
            If the folder has no fleet.
        """
        path = Path(folder) / MANIFEST
        if not path.exists():
            raise InvalidValue(
                f"expected a folder with a fleet, got {folder}, which has none; make one with folder=..."
            )
        content = json.loads(path.read_bytes())
        fleet = cls.__new__(cls)
        template = Posse.load(Path(folder) / content["settings"])
        fleet._begin(
            template, content["buckets"], folder, address, fsync=fsync,
            snapshot_bytes=content.get("snapshot_bytes", SNAPSHOT_BYTES) if snapshot_bytes is None else snapshot_bytes,
            resources=resources, generation=content["generation"],
        )  # fmt: skip
        return fleet

    def rebalance(self, shards: int) -> None:
        """Spread the tasks over so many actors, as when machines were added. Nobody may use the fleet meanwhile.

        All shards are saved, and new ones start from those files; if that fails, the old ones are still there.

        Parameters
        ----------
        shards : int
            How many actors, at least 1.

        Raises
        ------
        InvalidValue
            If it is not such a number, or if the fleet has no folder and the cluster several machines, which would not
            see those files.
        """
        count = whole_number(shards, "shards", at_least=1)
        if self._folder is None and has_several_machines():
            raise InvalidValue(
                "expected a fleet with folder=... to move tasks between machines, got one without: they would not see "
                "each other's files; use save(path) and ShardedPosse.load(path, shards=...), on storage that all see"
            )
        with tempfile.TemporaryDirectory(dir=self._folder) as place:
            path = Path(place) / "moving"
            self.save(path)
            new = ShardedPosse._from(
                read_manifest(path), count, self._folder, None, fsync=self._place.fsync,
                snapshot_bytes=self._place.snapshot_bytes, resources=self._resources,
            )  # fmt: skip
        folders = [self._place.shard(number) for number in range(len(self._shards))]
        end_actors(self._shards, self._coordinator)
        self.__dict__.update(new.__dict__)
        for folder in folders:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End the actors.

        With a ``folder`` every shard writes a snapshot first, and :meth:`open` goes on from there.
        """
        if self._folder is not None:
            gather([shard.snapshot.remote() for shard in self._shards])
        self._end()

    def _end(self) -> None:
        """End the actors as they are."""
        end_actors(self._shards, self._coordinator)

    # Inside.

    def _ask(self, method: str, *arguments: Any) -> list[Any]:
        return gather([getattr(shard, method).remote(*arguments) for shard in self._shards])

    def _states(self) -> list[dict[str, Any]]:
        return self._ask("state")

    def _template_bytes(self) -> bytes:
        return file_of(self._template)

    def _count_rewards(self) -> None:
        """Ask all shards how many rewards they have."""
        self._rewards = [float(state["rewards"]) for state in self._states()]

    def _request(self) -> str:
        """Return the name of a call: one that Ray makes again has the same, and is done once."""
        return f"{self._client}-{next(self._counter)}"
