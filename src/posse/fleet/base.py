"""The inside of a fleet: names of tasks and arms, one engine that knows their numbers, and the lock around both."""

from __future__ import annotations

import os
import secrets
import threading
import time as clock_module
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posse.checks import KnownKeywords
from posse.engine.commit import commit
from posse.engine.engine import Engine
from posse.errors import InvalidValue, ShapeError
from posse.families import Rewards
from posse.features import FeatureSpec
from posse.fleet.arms import Arms
from posse.fleet.behaviour import LEARNING, new_behaviour
from posse.fleet.checking import checked_reward, checked_seed, require_room
from posse.fleet.declaring import declare_arms, declare_known, spec_of
from posse.fleet.drifting import HalfLife, new_fading
from posse.fleet.labels import Label
from posse.fleet.late import MONTH, late_rewards
from posse.fleet.rows import label_codes, required, sequence_codes
from posse.fleet.tasks import Tasks

if TYPE_CHECKING:
    from posse.fleet.ledger import Ledger
    from posse.logs.writer import Record
    from posse.model.prior import Prior
    from posse.types import Array, IntArray


class FleetBase(KnownKeywords):
    """Tasks and arms by name, over an engine that knows them by number.

    Methods that begin with an underscore expect that the lock is held. Parameters are those of :class:`posse.Posse`.
    """

    def __init__(
        self,
        arms: Iterable[Label] = (),
        features: FeatureSpec | Sequence[Any] = (),
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
        self._features = spec_of(features)
        self._arms, self._tasks = Arms(), Tasks()
        known_arms = declare_arms(arms, arm_features, self._arms)
        n_arms, n_features = len(self._arms), self._features.n_features
        require_room(n_arms, n_features)
        behaviour = self._behaviour = new_behaviour(
            policy,
            n_arms=n_arms,
            n_features=n_features,
            prior=prior,
            exploration=exploration,
            floor=floor,
            evaluation_budget=evaluation_budget,
            refresh_growth=refresh_growth,
            robust=robust,
            rewards=rewards,
        )
        self._checked_reward: Callable[[Any], float] = (
            checked_reward if behaviour.family.name == "number" else behaviour.family.check
        )
        """Returns a reward that can be learned, or raises one clear error."""
        self._seed = checked_seed(seed)
        absent = None if absent_reward is None else self._checked_reward(absent_reward)
        self._late = late_rewards(time_to_live, absent, count_pending)
        self._counts_pending = absent is not None and self._late.count_pending
        self._clock = clock
        self._lock = threading.RLock()
        self._engine = Engine(
            start=behaviour.start,
            method=behaviour.method,
            rule=behaviour.rule,
            family=behaviour.family,
            growth=behaviour.refresh_growth,
            lock=self._lock,
            robust=behaviour.robust,
            extendable=policy not in LEARNING,
            in_background=bool(background),
        )
        self._engine.store.task_keys = self._tasks.keys
        self._engine.fading = new_fading(drift, self._engine, self._late)
        self._engine.know(
            declare_known(self._features, task_features, arm_features, known_arms, behaviour, self._engine)
        )
        self._decided = 0
        self._rng = self._stream(0)
        self._prefix = secrets.token_hex(6)
        self._origins = {self._prefix}  # of all fleets that this one learned from, itself included
        self._partial = False  # whether only some tasks of a file were loaded
        self._log: Callable[[list[Record]], None] | None = None
        self.log_to(log)
        self._list_active()
        self._begin()

    def _begin(self) -> None:
        """Prepare what a kind of fleet has besides, at the end of ``__init__``."""

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
        self._log = log

    def _ledgers(self) -> list[Ledger]:
        """Return the decisions that may still get a reward; here none are kept."""
        return []

    def _expire(self, now: float) -> None:
        """Let decisions go that are past their time; here none are kept."""

    def _adopt_ledgers(self, ledgers: Iterable[Ledger]) -> None:
        """Keep decisions of a file that may still get a reward; here none are kept."""

    def _pending_words(self) -> str:
        return ""

    def _steps(self) -> tuple[int, int]:
        """Return which step the next decision is: by decisions, and by rewards; tables are experience, too."""
        return self._decided + 1, self._engine.store.experience + 1

    def _stream(self, decided: int) -> np.random.Generator:
        """Return the seed's stream at the place of the decision after so many."""
        generator = np.random.PCG64(np.random.SeedSequence(self._seed))
        generator.advance(decided)
        return np.random.Generator(generator)

    def _seek(self) -> None:
        """Go to the place in the seed's stream that the next decision draws from."""
        self._rng = self._stream(self._decided)

    def _list_active(self) -> None:
        commit(self._arms.activating(self._arms.active_among(self._arms.numbers, self._arms.retired)))

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

    def _rows(self, tasks: Any, contexts: Any) -> tuple[list[Label], IntArray, Array]:
        """Return distinct task names, every row's position among them, and encoded contexts."""
        if isinstance(tasks, str):
            from posse.tables import as_frame

            contexts = as_frame(contexts, name="contexts")
            labels, codes = label_codes(required(contexts, tasks, "task"), self._tasks)
        else:
            labels, codes = sequence_codes(tasks, self._tasks)
        X = self._features.encode_many(contexts)
        self._tasks.require_loaded(labels)
        if len(X) != len(codes):
            raise ShapeError(f"expected as many contexts as tasks, got {len(codes)} tasks and {len(X)} contexts")
        return labels, codes, X
