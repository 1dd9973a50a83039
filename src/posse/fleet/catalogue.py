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
from posse.engine.commit import Step, Steps, commit
from posse.engine.learn import prepare_one
from posse.engine.loading import require_loaded
from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.checking import no_belief, require_truth_value
from posse.fleet.decision import Decision, Expectation, Ranking, decision_among
from posse.fleet.joint import JointFeatures
from posse.fleet.labels import Label, Labels, require_one_by_one
from posse.fleet.late import MONTH
from posse.fleet.ledger import PENDING, REWARDED
from posse.fleet.menu import Menu, read_menu
from posse.fleet.overview import Coefficients, coefficients_of
from posse.fleet.posse import Posse
from posse.fleet.residuals import Residuals
from posse.fleet.rewarding import Rewarded, find_decision, id_of, listed_rewards, news_among, require_same
from posse.fleet.rows import contexts_of, required, rewards_of
from posse.fleet.tasks import forget_tasks
from posse.interrupts import defer_interrupts
from posse.kernels.fleet import decide, numbers
from posse.kernels.rule import action_probabilities, pick
from posse.logs.menus import taken_features
from posse.showing import Sheet, Table

if TYPE_CHECKING:
    from posse.logs.menus import Menus
    from posse.logs.writer import Record
    from posse.model.refresh import Refresh
    from posse.types import Array, IntArray

MOST_ARMS = 100_000
SPARED = 0.9  # of the arms stay when there are too many
ONLY = np.zeros(1, dtype=np.int64)  # the one arm of the fleet inside
NO_ARMS = np.zeros(0)  # are said to be silent: arms of a catalogue have no noise of their own

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
        self._declare(features, arm_features, interactions, max_arms)
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
        self._start(fleet)
        self.log_to(log)

    def _declare(self, features: Any, arm_features: Any, interactions: bool, max_arms: int) -> None:
        """Check what contexts and arms are made of."""
        self._joint = JointFeatures(features, arm_features, interactions)
        self.max_arms = whole_number(max_arms, "max_arms", at_least=1)

    def _start(self, fleet: Posse) -> None:
        # The fleet inside has one arm, whose contexts are joint features, and everything that a fleet does: names of
        # tasks, decisions that wait, the population, files. Only its ledger has the numbers of our arms.
        self._fleet = fleet
        self._arms = Labels("arm")
        self._residuals = Residuals()
        self._used: dict[int, int] = {}  # when an arm was decided on last, in decisions

    def __repr__(self) -> str:
        fleet = self._fleet
        return (
            f"<Catalogue: {len(fleet)} tasks, {len(self._arms)} arms so far, {fleet.n_rewards:g} rewards, "
            f"{sum(ledger.n_pending for ledger in fleet._ledgers())} pending>"
        )

    def __len__(self) -> int:
        return len(self._fleet)

    def __bool__(self) -> bool:
        return True  # also before the first task

    def _repr_html_(self) -> str:
        with self._fleet._lock:
            self._fleet._engine.ensure_fresh()
            mean, covariance = self._coefficients(None)
        rows = list(zip(self.columns, mean.tolist(), np.sqrt(np.diagonal(covariance)).tolist(), strict=True))
        notes = [f"noise {self.noise_sd:.3g}, arms {self.residual_sd:.3g} from what their features say (sd)"]
        table = Table("what a new task starts from", ("column", "mean", "sd"), rows)
        return Sheet(repr(self).strip("<>"), [table], notes).html()

    def log_to(self, log: str | os.PathLike[str] | Callable[[list[Record]], None] | None) -> None:
        """Note decisions and rewards here from now on; None is nowhere."""
        self._fleet.log_to(log)

    @property
    def features(self) -> FeatureSpec:
        """What a context is made of."""
        return self._joint.features

    @property
    def arm_features(self) -> FeatureSpec:
        """What is known about an arm."""
        return self._joint.arm_features

    @property
    def interactions(self) -> bool:
        """Whether there are products of a context's and an arm's columns."""
        return self._joint.interactions

    @property
    def columns(self) -> tuple[str, ...]:
        """What coefficients belong to: the joint features of context and arm."""
        return self._joint.columns

    @property
    def tasks(self) -> tuple[Label, ...]:
        """The tasks that there are, in the order in which they came."""
        return self._fleet.tasks

    @property
    def arms(self) -> tuple[Label, ...]:
        """The arms that were decided on, in that order; those that were dropped are not among them."""
        with self._fleet._lock:
            return tuple(self._arms)

    @property
    def n_decisions(self) -> int:
        """Decisions so far."""
        return self._fleet.n_decisions

    @property
    def n_rewards(self) -> float:
        """Rewards learned."""
        return self._fleet.n_rewards

    @property
    def noise_sd(self) -> float:
        """Standard deviation of a reward, all being known."""
        return float(np.sqrt(self._fleet.prior.noise_variance[0]))

    @property
    def residual_sd(self) -> float:
        r"""How far arms are from what their features say, :math:`\tau`."""
        return float(np.sqrt(self._residuals.variance))

    def menu(self, eligible: Any) -> Menu:
        """Return eligible arms, read once for many decisions.

        Parameters
        ----------
        eligible : table with a column ``arm`` and one for every arm feature, or mapping from arms to features
        """
        return read_menu(eligible, self.arm_features, self._arms)

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
        fleet = self._fleet
        require_truth_value(explore)
        require_truth_value(record, "record")
        menu = self.menu(eligible)
        places = 1 if k is None else whole_number(k, "k", at_least=1)
        if places > len(menu):
            raise InvalidValue(f"expected k to be at most the {len(menu)} eligible arms, got {k}; ask for fewer")
        x = self.features.encode(context)
        with fleet._lock:
            number = fleet._tasks.get(task)
            label = fleet._tasks.checked(task)
            now = fleet._clock()
            if record:
                fleet._expire(now)
            fleet._engine.ensure_fresh()
            mean, sd = self._believe(number, x, menu)
            if not numbers(mean, sd):
                raise no_belief(label)
            rng = fleet._stream(fleet._decided)  # its own, so that a decision that fails has drawn nothing
            chosen, decisions = self._choose(label, menu, mean, sd, rng.random(places), explore, record)
            if record:
                self._record(number, label, context, x, menu, chosen, decisions, now, rng, ranking=k is not None)
        return decisions[0] if k is None else Ranking(decisions)

    def _choose(
        self, task: Label, menu: Menu, mean: Array, sd: Array, uniforms: Array, explore: bool, record: bool
    ) -> tuple[list[int], list[Decision]]:
        """Return places in the menu, and a decision for each; nothing changes."""
        fleet, rule = self._fleet, self._fleet._behaviour.rule
        left, arms, chosen, decisions = np.arange(len(menu)), menu.arms, [], []
        for place, uniform in enumerate(uniforms.tolist()):
            probabilities, scratch = np.empty(mean.size), np.empty((5, 2 * mean.size))
            step = max(fleet._decided + place, fleet._engine.store.experience) + 1
            action_probabilities(mean, sd, NO_ARMS, step, rule, explore, scratch, probabilities)
            position = int(pick(probabilities, uniform))
            beliefs = [part.tolist() for part in (probabilities, mean, sd)]
            decision_id = f"{fleet._prefix}-{fleet._ledger.next + place}" if record else ""
            decisions.append(decision_among(decision_id, task, arms, position, beliefs))
            chosen.append(int(left[position]))
            if place + 1 < uniforms.size:
                left, mean, sd = np.delete(left, position), np.delete(mean, position), np.delete(sd, position)
                arms = [*arms[:position], *arms[position + 1 :]]
        return chosen, decisions

    def _believe(self, task: int | None, x: Array, menu: Menu) -> tuple[Array, Array]:
        """Return mean and standard deviation of every arm's expected reward; the lock must be held."""
        mean, covariance = self._coefficients(task)
        joint, f = self._joint.at(x), menu.encoded
        known = np.fromiter(map(self._arms.numbers.get, menu.arms, repeat(-1)), np.int64, len(menu))
        residual, own = self._residuals.of(known)
        variance = np.einsum("ai,ai->a", f @ (joint.T @ covariance @ joint), f)
        return f @ (joint.T @ mean) + residual, np.sqrt(np.maximum(variance, 0.0) + own)

    def _coefficients(self, task: int | None) -> tuple[Array, Array]:
        store = self._fleet._engine.store
        if task is not None:
            store.settle([task])
        return coefficients_of(store.belief, -1 if task is None else task, 0)

    def _record(
        self, number: int | None, label: Label, context: Any, x: Array, menu: Menu, chosen: list[int],
        decisions: list[Decision], now: float, rng: np.random.Generator, *, ranking: bool,
    ) -> None:  # fmt: skip
        """Keep decisions until their rewards come; all of them or none."""
        fleet, n = self._fleet, len(chosen)
        ledger = fleet._ledger
        ledger.reserve(n)
        new = [] if number is not None else [(label, fleet._engine.store.reserve_tasks(1)[0])]
        task = new[0][1] if number is None else number
        if len(self._arms) + n > self.max_arms:
            self._drop_arms(n)
        arms, named = self._number_arms([menu.arms[place] for place in chosen])
        joint = menu.encoded[chosen] @ self._joint.at(x).T
        ledger.write_many(np.full(n, task, dtype=np.int64), arms, now, joint)
        steps = [
            *fleet._tasks.taking(fleet._engine.store, new),
            *self._arms.adding(named),
            partial(self._used.update, dict.fromkeys(arms.tolist(), fleet._decided + n)),
            partial(fleet.__dict__.update, _decided=fleet._decided + n, _rng=rng),
            partial(ledger.__dict__.update, size=ledger.size + n),
        ]
        commit(steps, partial(self._note, context, menu, chosen, decisions, now, ranking) if fleet._log else None)

    def _number_arms(self, labels: list[Label]) -> tuple[IntArray, list[tuple[Label, int]]]:
        """Return the numbers of arms, and those that are new with what they will get."""
        named: dict[Label, int] = {}
        result = []
        for label in labels:
            number = self._arms.get(label)
            result.append(named.setdefault(label, len(self._arms) + len(named)) if number is None else number)
        self._residuals.reserve_arms(len(self._arms) + len(named))
        return np.array(result, dtype=np.int64), list(named.items())

    def _note(
        self, context: Any, menu: Menu, chosen: list[int], decisions: list[Decision], now: float, ranking: bool
    ) -> None:
        """Write decisions to the log, with the features of all arms that each was made among."""
        from posse.fleet.notes import decision_records

        assert self._fleet._log is not None
        known = dict(zip(self.features.names, self.features.raw(context), strict=True))
        of_arms = [menu.logged(chosen[:place]) for place in range(len(chosen))]
        contexts = [known] * len(chosen)
        self._fleet._log(decision_records(decisions, contexts, now, "catalogue", ranking=ranking, arm_features=of_arms))

    def expected(self, task: Label, context: Any, eligible: Any) -> Expectation:
        """Return what is believed about every eligible arm's expected reward: deterministic, exploration apart."""
        menu, x = self.menu(eligible), self.features.encode(context)
        with self._fleet._lock:
            self._fleet._engine.ensure_fresh()
            mean, sd = self._believe(self._fleet._tasks.get(task), x, menu)
        return Expectation(
            dict(zip(menu.arms, mean.tolist(), strict=True)), dict(zip(menu.arms, sd.tolist(), strict=True))
        )

    def probabilities(self, task: Label, context: Any, eligible: Any, explore: bool = True) -> dict[Label, float]:
        """Return how likely :meth:`decide` would take each eligible arm; nothing is drawn and nothing changes."""
        require_truth_value(explore)
        menu, x = self.menu(eligible), self.features.encode(context)
        with self._fleet._lock:
            self._fleet._engine.ensure_fresh()
            found = self._probabilities(self._fleet._tasks.checked(task), x, menu, explore)
        return dict(zip(menu.arms, found.tolist(), strict=True))

    def _probabilities(self, task: Label, x: Array, menu: Menu, explore: bool) -> Array:
        """Return how likely each arm of a menu is; the lock must be held."""
        fleet = self._fleet
        mean, sd = self._believe(fleet._tasks.get(task), x, menu)
        if not numbers(mean, sd):
            raise no_belief(task)
        found, scratch = np.empty(mean.size), np.empty((5, 2 * mean.size))
        step = max(fleet._decided, fleet._engine.store.experience) + 1
        action_probabilities(mean, sd, NO_ARMS, step, fleet._behaviour.rule, explore, scratch, found)
        return found

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
        labels, X = self._fleet._tasks.checked_all(tasks), self.features.encode_many(contexts)
        self._arms.checked_all(menus.labels)
        encoded, result = self.arm_features.encode_many(menus.features), []
        with self._fleet._lock:
            self._fleet._engine.ensure_fresh()
            for row, task in enumerate(labels):
                rows = slice(menus.starts[row], menus.starts[row + 1])
                menu = Menu(menus.arms(row), encoded[rows], None, self.arm_features)
                result.append(self._probabilities(task, X[row], menu, explore))
        return result

    def made(self, decision_ids: Iterable[Any]) -> int:
        """Return how many of these decisions this catalogue has made."""
        return self._fleet.made(decision_ids)

    def coefficients(self, task: Label) -> Coefficients:
        """Return the posterior of a task's coefficients of :attr:`columns`; one never seen has the population's."""
        with self._fleet._lock:
            self._fleet._engine.ensure_fresh()
            mean, covariance = self._coefficients(self._fleet._tasks.get(task))
        return Coefficients(self.columns, {"reward": mean}, {"reward": covariance})

    # Learning.

    def reward(self, decision: Decision | str, value: float) -> bool:
        """Learn the reward of a decision; True if it is news, False if the same had come before.

        As in :meth:`posse.Posse.reward`.
        """
        fleet = self._fleet
        decision_id = id_of(decision)
        value = fleet._checked_reward(value)
        with fleet._lock:
            now = fleet._clock()
            entry = find_decision(fleet, decision_id, now).entry
            if entry.status == REWARDED:
                require_same(decision_id, entry.reward, value)
                return False
            fleet._expire(now)
            ledger, row, _ = find_decision(fleet, decision_id, now)
            self._learn(
                entry.task, entry.arm, entry.context, value,
                ledger.rewarding(np.array([row]), np.array([value])),
                partial(fleet._note_rewards, [decision_id], [value], now),
            )  # fmt: skip
            return True

    def reward_many(
        self, decisions: Iterable[Decision | str], values: Iterable[float], *, errors: str = "raise"
    ) -> Rewarded:
        """Learn many rewards, one by one; return how many are news. As in :meth:`posse.Posse.reward_many`."""
        one_of(errors, "errors", ("raise", "skip"))
        ids, amounts = listed_rewards(decisions, values)
        with self._fleet._lock:
            new, skipped = news_among(self._fleet, ids, amounts, self._fleet._clock(), skip=errors == "skip")
            for decision_id, value in new.items():
                self.reward(decision_id, value)
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
        tasks = self._fleet._tasks.checked_all(required(frame, task, "task").to_list())
        arms = self._arms.checked_all(required(frame, arm, "arm").to_list())
        raw = contexts_of(frame, (*self.features.names, *self.arm_features.names))
        of_arms = taken_features(frame, arms)
        X, F = self.features.encode_many(raw), self.arm_features.encode_many(raw if of_arms is None else of_arms)
        row = 0
        with self._fleet._lock, defer_interrupts():
            try:
                for row, value in enumerate(y):
                    joint = self._joint.at(X[row]) @ F[row]
                    self._learn_row(tasks[row], arms[row], joint, value, used=self._fleet._decided)
            except BaseException as error:
                error.add_note(f"at least the first {row:,} rows were learned, see n_rewards")
                raise
        return len(y)

    def _learn_row(
        self, task: Label, arm: Label, joint: Array, value: float, used: int, more: Iterable[Step] = ()
    ) -> None:
        """Learn the reward of a decision that was made elsewhere; ``used`` is when that was, in decisions.

        The steps ``more`` go with it.
        """
        fleet = self._fleet
        number = fleet._tasks.get(task)
        new = [] if number is not None else [(task, fleet._engine.store.reserve_tasks(1)[0])]
        if len(self._arms) + 1 > self.max_arms:
            self._drop_arms(1)
        (at,), named = self._number_arms([arm])
        steps = [
            *fleet._tasks.taking(fleet._engine.store, new),
            *self._arms.adding(named),
            partial(self._used.__setitem__, int(at), used),
            *more,
        ]
        self._learn(new[0][1] if number is None else number, int(at), joint, value, steps)

    def _learn(
        self, task: int, arm: int, joint: Array, value: float, steps: Steps, note: Callable[[], object] | None = None
    ) -> None:
        """Learn one reward; ``steps`` go with it."""
        require_loaded()
        fleet, store = self._fleet, self._fleet._engine.store
        fleet._engine.ensure_fresh()
        due, refresh = prepare_one(fleet._engine, task, 0)
        out = np.empty((3, 1))
        decide(store.address, task if task < store.n_tasks else -1, joint, ONLY, 1, False, 0.0, out)
        mean, variance = out[1, 0], out[2, 0] ** 2
        (residual,), (own,) = self._residuals.of(np.array([arm]))
        noise = float(store.belief.noise_variance[0])
        # Each of the two is learned as if the other were more noise: a row with noise s2 + v weighs s2 / (s2 + v).
        weight = np.sqrt(noise / (noise + own))
        belief_steps = store.learning_one(task, 0, weight * joint, float(weight * (value - residual)))
        information = 1.0 / (variance + noise)
        commit(
            [*steps, *belief_steps, *self._residuals.adding(task, arm, information, information * (value - mean))],
            note,
        )
        if due:
            self._estimate_after(refresh)

    def _estimate_after(self, refresh: Refresh | None) -> None:
        """Estimate what is due after a reward that is learned, and logged: what fails here is tried again later."""
        self._fleet._engine.estimate_after_one(refresh)  # which says so itself
        self._estimate_residuals()

    def _estimate_residuals(self) -> None:
        """Estimate how far arms are from their features; what fails here is tried again after the next refresh."""
        try:
            self._residuals.estimate(float(self._fleet._engine.store.belief.noise_variance[0]))
        except Exception:
            logger.exception(
                "how far arms are from their features could not be estimated and stays as it is until more rewards "
                "have come; all rewards so far are learned"
            )

    def refresh(self) -> None:
        """Estimate the population anew from all that was learned, and how far arms are from their features."""
        with self._fleet._lock:
            self._fleet.refresh()
            self._residuals.estimate(float(self._fleet._engine.store.belief.noise_variance[0]))

    def forget(self, *tasks: Label) -> None:
        """Remove all data of some tasks, as if they had never been; the population is learned again without them."""
        with self._fleet._lock:
            require_one_by_one(tasks)
            numbers = [self._fleet._tasks.number(self._fleet._tasks.checked(task)) for task in tasks]
            if numbers:
                forget_tasks(self._fleet, tasks, self._residuals.keeping(~np.isin(self._residuals.pairs[0], numbers)))
                self._estimate_residuals()

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
        from posse.fleet.merge_catalogue import merge_catalogue

        merge_catalogue(self, other)

    def _drop_arms(self, room: int) -> None:
        """Let the residuals of arms go that were not decided on for longest; those that wait for a reward stay."""
        ledgers = self._fleet._ledgers()
        waiting = {arm for ledger in ledgers for arm in ledger.arm[ledger.status == PENDING].tolist()}
        spared = int(SPARED * max(self.max_arms - room, 0))
        latest = sorted(self._used, key=lambda arm: -self._used[arm])[:spared]
        kept = sorted({*latest, *waiting})
        numbers = np.full(len(self._arms), -1, dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        labels = Labels("arm")
        labels.add_all([(self._arms.label(old), new) for new, old in enumerate(kept)])
        used = {new: self._used[old] for new, old in enumerate(kept)}
        commit(
            [
                *(
                    partial(ledger.arm.__setitem__, ..., np.where(ledger.arm >= 0, numbers[ledger.arm], -1))
                    for ledger in ledgers
                ),
                *self._residuals.keeping(numbers[self._residuals.pairs[1]] >= 0, numbers),
                partial(self.__dict__.update, _arms=labels, _used=used),
            ]
        )

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, at once or not at all; no pickle."""
        from posse.fleet.catalogue_file import save_catalogue

        save_catalogue(self, path)

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
