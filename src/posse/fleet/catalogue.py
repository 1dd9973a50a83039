"""Thousands of arms that come and go: decisions by what is known about them."""

from __future__ import annotations

import logging
import os
import time as clock_module
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from posse.checks import KnownKeywords, one_of, whole_number
from posse.core.propensity import score_columns
from posse.core.rule import action_probabilities, pick
from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.deciding import checked_places, no_belief
from posse.fleet.decision import Decision, Expectation, Ranking, decision_among
from posse.fleet.joint import JointFeatures
from posse.fleet.late import Rewarded, expire, id_of, listed_rewards, news_among, require_same
from posse.fleet.ledger import PENDING, REWARDED
from posse.fleet.menu import Menu, read_menu
from posse.fleet.names import Label, Labels, require_one_by_one
from posse.fleet.overview import Coefficients
from posse.fleet.posse import Posse
from posse.fleet.residuals import Residuals
from posse.fleet.settings import MONTH, require_truth_value
from posse.fleet.tables import contexts_of, required, rewards_of
from posse.interrupts import defer_interrupts, finish
from posse.logs.menus import taken_features
from posse.showing import Sheet, Table

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.logs.menus import Menus
    from posse.logs.writer import Record
    from posse.types import Array, IntArray

MOST_ARMS = 100_000
SPARED = 0.9  # of the arms stay when there are too many
ONLY = np.zeros(1, dtype=np.int64)  # the one arm of the fleet inside
NO_ARMS = np.zeros(0)  # whose rewards were all the same: arms of a catalogue have no noise of their own

logger = logging.getLogger("posse")


class Catalogue(KnownKeywords):
    r"""Many related bandits over a catalogue whose arms come and go and are known by their features.

    A task has one vector of coefficients over the joint features of context and arm, drawn from a population that all
    tasks share and that is learned; every arm has a residual of its own besides, the same in all tasks:

    .. math:: y = \phi(x, f)^\top \theta_j + r_a + \varepsilon, \quad \theta_j \sim N(\theta, \Sigma),
        \quad r_a \sim N(0, \tau^2)

    Parameters
    ----------
    features : FeatureSpec, or sequence of feature names
        What a context is made of; an empty list if there is none.
    arm_features : FeatureSpec, or sequence of feature names
        What is known about an arm: price, category, age. Names must differ from those of ``features``.
    interactions : bool
        True (default) has all products of a context's and an arm's columns, intercepts among them. False has the
        columns alone, so that every context ranks arms alike; it is for contexts without features.
    seed : int, optional
        Same seed, same decisions; default: from the operating system.
    exploration, floor, evaluation_budget, refresh_growth, time_to_live, background, clock, log
        As in :class:`posse.Posse`, whose default rule decides: one draw of optimism for all arms, with propensities
        that are exact although what is believed about arms is correlated.
    max_arms : int
        Residuals of so many arms are kept, default 100,000; then those that were not decided on for longest are
        dropped, and start again from their features if they come back.

    Examples
    --------
    >>> shop = Catalogue(features=["evening"], arm_features=["price", "new"], seed=7)
    >>> arms = {"tea": {"price": 3, "new": 0}, "cocoa": {"price": 4, "new": 1}}
    >>> decision = shop.decide("store-17", {"evening": 1}, eligible=arms)
    >>> shop.reward(decision, 1.0)
    True
    >>> shop.columns
    ('intercept', 'price', 'new', 'evening', 'evening*price', 'evening*new')
    """

    def __init__(
        self,
        features: FeatureSpec | Sequence[Any],
        arm_features: FeatureSpec | Sequence[Any],
        *,
        interactions: bool = True,
        seed: int | None = None,
        exploration: float | None = None,
        floor: float = 0.0,
        evaluation_budget: float = 0.0,
        refresh_growth: float | None = None,
        time_to_live: float | None = MONTH,
        max_arms: int = MOST_ARMS,
        background: bool = False,
        clock: Callable[[], float] = clock_module.time,
        log: str | os.PathLike[str] | Callable[[list[Record]], None] | None = None,
    ) -> None:
        self.declare(features, arm_features, interactions, max_arms)
        fleet = Posse(
            arms=["reward"],
            features=FeatureSpec(self.columns, intercept=False),
            seed=seed,
            exploration=exploration,
            floor=floor,
            evaluation_budget=evaluation_budget,
            refresh_growth=refresh_growth,
            time_to_live=time_to_live,
            background=background,
            clock=clock,
        )
        self.start(fleet)
        self.log_to(log)

    def declare(self, features: Any, arm_features: Any, interactions: bool, max_arms: int) -> None:
        """Check what contexts and arms are made of."""
        self.joint = JointFeatures(features, arm_features, interactions)
        self.max_arms = whole_number(max_arms, "max_arms", at_least=1)

    def start(self, fleet: Fleet) -> None:
        """Have a fleet inside, which has learned nothing; its one arm has joint features for contexts.

        It has everything that a fleet has: names of tasks, decisions that wait, the population, files. Only its ledger
        has the numbers of this catalogue's arms.
        """
        self.fleet: Any = fleet
        self.labels = Labels("arm")
        self.residuals = Residuals()
        self.used: dict[int, int] = {}  # when an arm was decided on last, in decisions

    def __repr__(self) -> str:
        fleet = self.fleet
        return (
            f"<Catalogue: {len(fleet)} tasks, {len(self.labels)} arms so far, {fleet.n_rewards:g} rewards, "
            f"{fleet.ledgers.n_pending} pending>"
        )

    def __len__(self) -> int:
        return len(self.fleet)

    def __bool__(self) -> bool:
        return True  # also before the first task

    def _repr_html_(self) -> str:
        with self.fleet.lock:
            self.fleet.core.ensure_fresh()
            mean, covariance = self._coefficients(None)
        rows = list(zip(self.columns, mean.tolist(), np.sqrt(np.diagonal(covariance)).tolist(), strict=True))
        notes = [f"noise {self.noise_sd:.3g}, arms {self.residual_sd:.3g} from what their features say (sd)"]
        table = Table("what a new task starts from", ("column", "mean", "sd"), rows)
        return Sheet(repr(self).strip("<>"), [table], notes).html()

    def log_to(self, log: str | os.PathLike[str] | Callable[[list[Record]], None] | None) -> None:
        """Note decisions and rewards here from now on; None is nowhere."""
        self.fleet.log_to(log)

    @property
    def features(self) -> FeatureSpec:
        """What a context is made of."""
        return self.joint.features

    @property
    def arm_features(self) -> FeatureSpec:
        """What is known about an arm."""
        return self.joint.arm_features

    @property
    def interactions(self) -> bool:
        """Whether there are products of a context's and an arm's columns."""
        return self.joint.interactions

    @property
    def columns(self) -> tuple[str, ...]:
        """What coefficients belong to: the joint features of context and arm."""
        return self.joint.columns

    @property
    def tasks(self) -> tuple[Label, ...]:
        """The tasks that there are, in the order in which they came."""
        return tuple(self.fleet.tasks)

    @property
    def arms(self) -> tuple[Label, ...]:
        """The arms that were decided on, in that order; those that were dropped are not among them."""
        with self.fleet.lock:
            return tuple(self.labels)

    @property
    def n_decisions(self) -> int:
        """Decisions so far."""
        return int(self.fleet.n_decisions)

    @property
    def n_rewards(self) -> float:
        """Rewards learned."""
        return float(self.fleet.n_rewards)

    @property
    def noise_sd(self) -> float:
        """Standard deviation of a reward, all being known."""
        return float(np.sqrt(self.fleet.prior.noise_variance[0]))

    @property
    def residual_sd(self) -> float:
        r"""How far arms are from what their features say, :math:`\tau`."""
        return float(np.sqrt(self.residuals.variance))

    def menu(self, eligible: Any) -> Menu:
        """Return eligible arms, read once for many decisions.

        Parameters
        ----------
        eligible : table with a column ``arm`` and one for every arm feature, or mapping from arms to features
        """
        return read_menu(eligible, self.arm_features, self.labels)

    # Deciding.

    @overload
    def decide(
        self, task: Label, context: Any, eligible: Any, explore: bool = True, record: bool = True, *, k: None = None
    ) -> Decision: ...

    @overload
    def decide(
        self, task: Label, context: Any, eligible: Any, explore: bool = True, record: bool = True, *, k: int
    ) -> Ranking: ...

    def decide(
        self,
        task: Label,
        context: Any,
        eligible: Any,
        explore: bool = True,
        record: bool = True,
        *,
        k: int | None = None,
    ) -> Decision | Ranking:
        """Choose one of the eligible arms, or the ``k`` arms of a ranking.

        Parameters
        ----------
        task : str or int
            One never seen starts from the population.
        context : mapping by feature name, array, or row
        eligible : Menu, table or mapping
            The arms with their features, see :meth:`menu`; arms never seen start from their features.
        explore, record, k
            As in :meth:`posse.Posse.decide`.

        Returns
        -------
        Decision or Ranking
        """
        fleet = self.fleet
        require_truth_value(explore)
        require_truth_value(record, "record")
        menu, places = self.menu(eligible), checked_places(k)
        x = self.features.encode(context)
        with fleet.lock:
            number, label = fleet.names.tasks.get(task), fleet.names.tasks.checked(task)
            now = fleet.clock()
            if record:
                expire(fleet, now)
            prefix, first = fleet.ledgers.own.prefix, fleet.ledgers.own.next
            ids = [f"{prefix}-{first + place}" if record else "" for place in range(places)]
            chosen, decisions = self.draw(number, label, x, menu, explore, ids)
            if record:
                self._record(number, label, context, x, menu, chosen, decisions, now, ranking=k is not None)
        return decisions[0] if k is None else Ranking(decisions)

    def draw(
        self, number: int | None, task: Label, x: Array, menu: Menu, explore: bool, ids: Sequence[str]
    ) -> tuple[list[int], list[Decision]]:
        """Return places in the menu, and a decision for each; nothing changes. The lock must be held."""
        if len(ids) > len(menu):
            raise InvalidValue(f"expected k to be at most the {len(menu)} eligible arms, got {len(ids)}; ask for fewer")
        left, arms, chosen, decisions = np.arange(len(menu)), menu.arms, [], []
        mean, sd = self._believe(number, task, x, menu)
        for place, uniform in enumerate(self.fleet.stream.draw(len(ids)).tolist()):
            probabilities = self._probabilities(mean, sd, place, explore)
            position = int(pick(probabilities, uniform))
            beliefs = [part.tolist() for part in (probabilities, mean, sd)]
            decisions.append(decision_among(ids[place], task, arms, position, beliefs))
            chosen.append(int(left[position]))
            if place + 1 < len(ids):
                left, mean, sd = np.delete(left, position), np.delete(mean, position), np.delete(sd, position)
                arms = [*arms[:position], *arms[position + 1 :]]
        return chosen, decisions

    def _probabilities(self, mean: Array, sd: Array, place: int, explore: bool) -> Array:
        """Return how likely each arm is at a place of the next ranking."""
        fleet, found = self.fleet, np.empty(mean.size)
        step = max(fleet.stream.decided + place, fleet.core.experience) + 1
        scratch = np.empty((5, score_columns(mean.size)))
        action_probabilities(mean, sd, NO_ARMS, step, fleet.settings.rule, explore, scratch, found)
        return found

    def _believe(self, task: int | None, label: Label, x: Array, menu: Menu) -> tuple[Array, Array]:
        """Return mean and standard deviation of every arm's expected reward; the lock must be held."""
        self.fleet.core.ensure_fresh()
        mean, covariance = self._coefficients(task)
        joint, f = self.joint.at(x), menu.encoded
        known = np.fromiter(map(self.labels.numbers.get, menu.arms, repeat(-1)), np.int64, len(menu))
        residual, own = self.residuals.of(known)
        variance = np.einsum("ai,ai->a", f @ (joint.T @ covariance @ joint), f)
        mean, sd = f @ (joint.T @ mean) + residual, np.sqrt(np.maximum(variance, 0.0) + own)
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            raise no_belief(label)
        return mean, sd

    def _coefficients(self, task: int | None) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self.fleet.core.coefficients(-1 if task is None else task, 0, self.fleet.now)
        return found

    def _record(
        self, number: int | None, label: Label, context: Any, x: Array, menu: Menu, chosen: list[int],
        decisions: list[Decision], now: float, *, ranking: bool,
    ) -> None:  # fmt: skip
        """Have decisions wait for their rewards, all of them or none."""
        fleet, n = self.fleet, len(chosen)
        ledger = fleet.ledgers.own
        task = fleet.core.reserve_tasks(1)[0] if number is None else number
        self._make_capacity(n)
        ledger.reserve(n)
        arms, new = self._numbered([menu.arms[place] for place in chosen])
        joint = menu.encoded[chosen] @ self.joint.at(x).T
        ledger.write_many(np.full(n, task, dtype=np.int64), arms, now, joint)
        with defer_interrupts():
            if fleet.notes is not None:
                self._note(context, menu, chosen, decisions, now, ranking)
            # From here on nothing can fail.
            if number is None:
                fleet.core.take_tasks([task])
                fleet.names.tasks.take([label], [task])
            self.labels.take(list(new), list(new.values()))
            self.used.update(dict.fromkeys(arms.tolist(), fleet.stream.decided + n))
            fleet.stream.decided += n
            ledger.size += n

    def _numbered(self, labels: list[Label]) -> tuple[IntArray, dict[Label, int]]:
        """Return the numbers of arms, and those that are new with the numbers that they will get."""
        new: dict[Label, int] = {}
        result = []
        for label in labels:
            number = self.labels.get(label)
            result.append(new.setdefault(label, len(self.labels) + len(new)) if number is None else number)
        self.residuals.reserve(len(self.labels) + len(new))
        return np.array(result, dtype=np.int64), new

    def _note(
        self, context: Any, menu: Menu, chosen: list[int], decisions: list[Decision], now: float, ranking: bool
    ) -> None:
        """Write decisions to the log, with the features of all arms that each was made among."""
        from posse.fleet.notes import decision_records

        known = dict(zip(self.features.names, self.features.raw(context), strict=True))
        of_arms = [menu.logged(chosen[:place]) for place in range(len(chosen))]
        contexts = [known] * len(chosen)
        assert self.fleet.notes is not None
        self.fleet.notes.write(
            decision_records(decisions, contexts, now, "catalogue", ranking=ranking, arm_features=of_arms)
        )

    def expected(self, task: Label, context: Any, eligible: Any) -> Expectation:
        """Return what is believed about every eligible arm's expected reward: deterministic, exploration apart."""
        menu, x = self.menu(eligible), self.features.encode(context)
        with self.fleet.lock:
            mean, sd = self._believe(self.fleet.names.tasks.get(task), task, x, menu)
        return Expectation(
            dict(zip(menu.arms, mean.tolist(), strict=True)), dict(zip(menu.arms, sd.tolist(), strict=True))
        )

    def probabilities(self, task: Label, context: Any, eligible: Any, explore: bool = True) -> dict[Label, float]:
        """Return how likely :meth:`decide` would take each eligible arm; nothing is drawn and nothing changes."""
        require_truth_value(explore)
        menu, x = self.menu(eligible), self.features.encode(context)
        with self.fleet.lock:
            mean, sd = self._believe(self.fleet.names.tasks.get(task), task, x, menu)
            found = self._probabilities(mean, sd, 0, explore)
        return dict(zip(menu.arms, found.tolist(), strict=True))

    def probabilities_in(
        self, tasks: Sequence[Label], contexts: Any, menus: Menus, explore: bool = True
    ) -> list[Array]:
        """Return how likely each eligible arm of every row of a log would be, as :meth:`probabilities` says it.

        Parameters
        ----------
        tasks : sequence of str or int
        contexts : table, or sequence of contexts
        menus : posse.logs.menus.Menus
            The eligible arms of each row.
        """
        require_truth_value(explore)
        tasks, X = self.fleet.names.tasks.checked_all(tasks), self.features.encode_many(contexts)
        self.labels.checked_all(menus.labels)
        encoded, result = self.arm_features.encode_many(menus.features), []
        with self.fleet.lock:
            for row, task in enumerate(tasks):
                rows = slice(menus.starts[row], menus.starts[row + 1])
                menu = Menu(menus.arms(row), encoded[rows], None, self.arm_features)
                mean, sd = self._believe(self.fleet.names.tasks.get(task), task, X[row], menu)
                result.append(self._probabilities(mean, sd, 0, explore))
        return result

    def made(self, decision_ids: Iterable[Any]) -> int:
        """Return how many of these decisions this catalogue has made."""
        return int(self.fleet.made(decision_ids))

    def coefficients(self, task: Label) -> Coefficients:
        """Return the posterior of a task's coefficients of :attr:`columns`; one never seen has the population's."""
        with self.fleet.lock:
            self.fleet.core.ensure_fresh()
            mean, covariance = self._coefficients(self.fleet.names.tasks.get(task))
        return Coefficients(self.columns, {"reward": mean}, {"reward": covariance})

    # Learning.

    def reward(self, decision: Decision | str, value: float) -> bool:
        """Learn the reward of a decision; True if it is news, False if the same had come before.

        As in :meth:`posse.Posse.reward`.
        """
        fleet, decision_id = self.fleet, id_of(decision)
        value = fleet.settings.checked_reward(value)
        with fleet.lock:
            now = fleet.clock()
            ledger, at = fleet.ledgers.find(decision_id, fleet.settings.oldest(now))
            if ledger.status[at] == REWARDED:
                require_same(decision_id, float(ledger.reward[at]), value)
                return False
            expire(fleet, now)

            def rewarded() -> None:
                ledger.status[at], ledger.reward[at] = REWARDED, value

            notes = fleet.notes
            note = None if notes is None else partial(notes.rewards, fleet, [decision_id], [value], now)
            self._learn(int(ledger.task[at]), int(ledger.arm[at]), ledger.context[at], value, note, rewarded)
            return True

    def reward_many(
        self, decisions: Iterable[Decision | str], values: Iterable[float], *, errors: str = "raise"
    ) -> Rewarded:
        """Learn many rewards, one by one; return how many are news. As in :meth:`posse.Posse.reward_many`."""
        one_of(errors, "errors", ("raise", "skip"))
        fleet, (ids, amounts) = self.fleet, listed_rewards(decisions, values)
        with fleet.lock:
            new, skipped = news_among(fleet, ids, amounts, fleet.settings.oldest(fleet.clock()), skip=errors == "skip")
            for decision_id, lesson in new.items():
                self.reward(decision_id, lesson.value)
            return Rewarded(len(new), skipped)

    def learn_many(self, table: Any, *, task: str = "task", arm: str = "arm", reward: str = "reward") -> int:
        """Learn the rows of a table, one by one; return how many.

        All rows are checked before the first is learned, and an interrupt from the keyboard waits for the last.

        Parameters
        ----------
        table : Polars, pandas or Arrow table, or the path of a file
            A log of a catalogue; or a table with a column for every feature of contexts and arms, or with one
            ``context`` column that holds both.
        task, arm, reward : str
            The names of these columns.
        """
        from posse.tables import as_frame

        frame = as_frame(table)
        y = rewards_of(required(frame, reward, "reward")).tolist()
        tasks = self.fleet.names.tasks.checked_all(required(frame, task, "task").to_list())
        arms = self.labels.checked_all(required(frame, arm, "arm").to_list())
        raw = contexts_of(frame, (*self.features.names, *self.arm_features.names))
        of_arms = taken_features(frame, arms)
        X, F = self.features.encode_many(raw), self.arm_features.encode_many(raw if of_arms is None else of_arms)
        row = 0
        with self.fleet.lock, defer_interrupts():
            try:
                for row, value in enumerate(y):
                    joint = self.joint.at(X[row]) @ F[row]
                    self.learn_row(tasks[row], arms[row], joint, value, used=self.fleet.stream.decided)
            except BaseException as error:
                error.add_note(f"at least the first {row:,} rows were learned, see n_rewards")
                raise
        return len(y)

    def learn_row(
        self, task: Label, arm: Label, joint: Array, value: float, used: int,
        then: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        """Learn the reward of a decision that was made elsewhere; the lock must be held.

        ``used`` is when that was, in decisions; ``then`` is called together with the change.
        """
        fleet = self.fleet
        number = fleet.names.tasks.get(task)
        at = fleet.core.reserve_tasks(1)[0] if number is None else number
        self._make_capacity(1)
        (arm_number,), new = self._numbered([arm])

        def known() -> None:
            if number is None:
                fleet.core.take_tasks([at])
                fleet.names.tasks.take([task], [at])
            self.labels.take(list(new), list(new.values()))
            self.used[int(arm_number)] = used
            then()

        self._learn(at, int(arm_number), joint, value, None, known)

    def _learn(
        self, task: int, arm: int, joint: Array, value: float, note: Callable[[], object] | None,
        then: Callable[[], object],
    ) -> None:  # fmt: skip
        """Learn one reward; ``note`` is called before it, and ``then`` together with the change."""
        core, now, out = self.fleet.core, self.fleet.now, np.empty((2, 1))
        core.ensure_fresh()
        core.prepare_one(task, 0)
        self.residuals.reserve(arm + 1)
        core.predict(task, joint, now, ONLY, out)
        mean, variance = float(out[0, 0]), float(out[1, 0]) ** 2
        (residual,), (own,) = self.residuals.of(np.array([arm]))
        noise = float(core.state.store.noise[0])
        # Each of the two is learned as if the other were more noise: a row with noise s2 + v weighs s2 / (s2 + v).
        weight = float(np.sqrt(noise / (noise + own)))
        information = 1.0 / (variance + noise)
        steps: list[Callable[[], object]] = [] if note is None else [note]
        steps += [
            partial(core.learn, task, 0, weight * joint, weight * (value - residual), now),
            partial(self.residuals.add, task, arm, information, information * (value - mean)),
            then,
        ]
        finish(steps)
        before = core.version
        core.estimate_if_due()
        if core.version != before:
            self.estimate_residuals()

    def estimate_residuals(self) -> None:
        """Estimate how far arms are from their features; what fails here is tried again after the next refresh."""
        try:
            self.residuals.estimate(float(self.fleet.core.state.store.noise[0]))
        except Exception:
            logger.exception(
                "how far arms are from their features could not be estimated and stays as it is until more rewards "
                "have come; all rewards so far are learned"
            )

    def refresh(self) -> None:
        """Estimate the population anew from all that was learned, and how far arms are from their features."""
        with self.fleet.lock:
            self.fleet.refresh()
            self.residuals.estimate(float(self.fleet.core.state.store.noise[0]))

    def forget(self, *tasks: Label) -> None:
        """Remove all data of some tasks, as if they had never been; the population is learned again without them."""
        names = self.fleet.names.tasks
        with self.fleet.lock:
            require_one_by_one(tasks)
            numbers = [names.number(names.checked(task)) for task in tasks]
            if numbers:
                residuals = self.residuals.without(~np.isin(self.residuals.pairs[0], numbers))
                with defer_interrupts():
                    self.fleet.forget(*tasks)
                    self.residuals = residuals
                self.estimate_residuals()

    def merge(self, other: Catalogue) -> None:
        """Add what another catalogue has learned to this one; the other stays as it is.

        Tasks and arms of the same name are the same; what only the other has joins, and counts as later. Decisions of
        the other that wait for a reward may be rewarded here from now on, and no more there. The population, and how
        far arms are from their features, are estimated again. If there are more than ``max_arms`` arms then, the next
        decision drops those that were not decided on for longest.

        Parameters
        ----------
        other : Catalogue
            A catalogue that was made and learned apart from this one.

        Raises
        ------
        InvalidValue
            If it is this catalogue itself or has a common past with it, so that rewards would count twice; if
            ``features``, ``arm_features`` or ``interactions`` differ, or one has names that are text and the other
            whole numbers.

        Examples
        --------
        >>> north, south = (Catalogue(features=[], arm_features=["price"], seed=seed) for seed in (7, 8))
        >>> made = south.decide("store-3", [], {"tea": {"price": 3}, "cocoa": {"price": 4}})
        >>> north.merge(south)
        >>> north.reward(made, 1.0)
        True
        """
        from posse.fleet.merge import add, require_mergeable

        if not isinstance(other, Catalogue):
            raise InvalidValue(f"expected a Catalogue to merge, got {type(other).__name__}; Posse.merge takes fleets")
        if other is self:
            raise InvalidValue("a catalogue cannot be merged with itself: every reward would count twice")
        first, second = sorted((self.fleet, other.fleet), key=id)
        with first.lock, second.lock:
            for name in ("features", "arm_features", "interactions"):
                values = [getattr(catalogue, name) for catalogue in (self, other)]
                if values[0] != values[1]:
                    raise InvalidValue(
                        f"expected a catalogue with the {name} of this one, {values[0]!r}, got {values[1]!r}; learn "
                        "the log of the other with learn_many"
                    )
            require_mergeable(self.fleet, other.fleet)
            labels = self.labels.checked_all(other.labels)
            numbers, new = self._numbered(labels)
            arm_of = np.full(max(other.labels.numbers.values(), default=-1) + 2, -1, dtype=np.int64)
            arm_of[[other.labels.numbers[label] for label in labels]] = numbers
            # Decisions of the other count as later than those of this catalogue.
            used = {int(arm_of[arm]): self.n_decisions + when for arm, when in other.used.items()}

            def joined(task_of: IntArray) -> Callable[[], None]:
                tasks, arms, sums = other.residuals.pairs
                both = self.residuals.together(task_of[tasks], arm_of[arms], sums, len(self.labels) + len(new))

                def join() -> None:
                    self.residuals = both
                    self.labels.take(list(new), list(new.values()))
                    self.used.update(used)

                return join

            add(self.fleet, other.fleet, arm_of, joined)
            # The population was estimated just now, and how far arms are from their features is judged with it.
            self.estimate_residuals()

    def _make_capacity(self, more: int) -> None:
        """If there are too many arms, let the residuals of those go that were not decided on for longest.

        Arms that wait for a reward stay.
        """
        if len(self.labels) + more <= self.max_arms:
            return
        ledgers = list(self.fleet.ledgers)
        waiting = {arm for one in ledgers for arm in one.arm[one.live][one.status[one.live] == PENDING].tolist()}
        spared = int(SPARED * max(self.max_arms - more, 0))
        latest = sorted(self.used, key=lambda arm: -self.used[arm])[:spared]
        kept = sorted({*latest, *waiting})
        numbers = np.full(len(self.labels) + 1, -1, dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        labels, used = Labels("arm"), {new: self.used[old] for new, old in enumerate(kept)}
        labels.take([self.labels.label(old) for old in kept], range(len(kept)))
        residuals = self.residuals.without(numbers[self.residuals.pairs[1]] >= 0, numbers)
        columns = [numbers[one.arm] for one in ledgers]  # -1 stays -1
        with defer_interrupts():
            for ledger, column in zip(ledgers, columns, strict=True):
                ledger.arm = column
            self.labels, self.used, self.residuals = labels, used, residuals

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, at once or not at all; no pickle."""
        from posse.fleet.catalogue_file import freeze_catalogue

        freeze_catalogue(self)(path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = clock_module.time,
        log: str | os.PathLike[str] | Callable[[list[Record]], None] | None = None,
    ) -> Self:
        """Read a catalogue; the next decisions are those that the saved one would have made.

        Parameters
        ----------
        path : path
        clock, log
            They are not in the file.
        """
        from posse.fleet.catalogue_file import load_catalogue

        catalogue = load_catalogue(cls, path, clock=clock)
        catalogue.log_to(log)
        return catalogue
