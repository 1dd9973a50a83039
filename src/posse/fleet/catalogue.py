"""Thousands of arms that come and go: decisions by what is known about them."""

from __future__ import annotations

import os
import time as clock_module
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import repeat
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, overload

import numpy as np

from posse.checks import KnownKeywords, whole_number
from posse.core.propensity import score_columns
from posse.core.rule import action_probabilities, pick
from posse.errors import InvalidValue, PosseError
from posse.families import Rewards
from posse.features import FeatureSpec
from posse.fleet.deciding import Asked, checked_places, no_belief, record_all
from posse.fleet.decision import Decision, Expectation, Ranking, decision_among
from posse.fleet.file import KINDS, VERSION, Reader, freeze_fleet, label_arrays, read_checked, restore_fleet
from posse.fleet.joint import JointFeatures
from posse.fleet.late import expire
from posse.fleet.ledger import FORGOTTEN, PENDING, Pending
from posse.fleet.menu import Menu, read_menu
from posse.fleet.names import Active, Label, Labels
from posse.fleet.notes import Notes, decision_records
from posse.fleet.overview import Coefficients
from posse.fleet.posse import Posse
from posse.fleet.residuals import CatalogueCore
from posse.fleet.settings import MONTH, Drift, require_truth_value
from posse.fleet.tables import Columns, contexts_of, require_learnable, required, rewards_of, times_of
from posse.interrupts import defer_interrupts
from posse.logs.menus import taken_features
from posse.showing import Sheet, Table

if TYPE_CHECKING:
    from datetime import timedelta

    from posse.core.core import Core
    from posse.fleet.fleet import Fleet
    from posse.logs.menus import Menus
    from posse.logs.writer import Record
    from posse.types import Array, IntArray

    Log = str | os.PathLike[str] | Callable[[list[Record]], None] | None

P = ParamSpec("P")
Result = TypeVar("Result")
KIND = "catalogue"
MOST_ARMS = 100_000
SPARED = 0.9  # of the arms stay when there are too many
NO_ARMS = np.zeros(0)  # whose rewards were all the same: arms of a catalogue have no noise of their own
NOBODY = Active(np.zeros(0, dtype=np.int64), ())


class Inside(Posse):
    """The fleet inside a catalogue: tasks, decisions, rewards, population and files; its one arm is all arms."""

    @property
    def core_kind(self) -> type[Core]:
        """The class of its core."""
        return CatalogueCore


class NotesOfMenus(Notes):
    """Writes decisions of a catalogue to its log; contexts have the features of all arms that were eligible, too."""

    def decisions(
        self, fleet: Any, decisions: Any, contexts: Any, X: Array, now: float, *, ranking: bool = False
    ) -> None:
        """Write decisions."""
        del X
        known, of_arms = zip(*contexts, strict=True)
        self.write(
            decision_records(
                decisions, known, now, KIND, rewards=fleet.rewards, ranking=ranking, arm_features=of_arms
            )
        )  # fmt: skip


def _inside(method: Callable[Concatenate[Any, P], Result]) -> Callable[Concatenate[Catalogue, P], Result]:
    """Return a method of the fleet inside as one of the catalogue."""

    @wraps(method)
    def call(catalogue: Catalogue, /, *args: P.args, **settings: P.kwargs) -> Result:
        found: Result = getattr(catalogue.fleet, method.__name__)(*args, **settings)
        return found

    return call


class Catalogue(KnownKeywords):
    r"""Many related bandits over a catalogue whose arms come and go and are known by their features.

    A task has one vector of coefficients over the joint features of context and arm, drawn from a population that all
    tasks share and that is learned; every arm has a residual of its own besides, the same in all tasks:

    .. math:: y = \phi(x, f)^\top \theta_j + r_a + \varepsilon, \quad \theta_j \sim N(\theta, \Sigma),
        \quad r_a \sim N(0, \tau^2)

    With ``rewards="binary"`` or ``"count"`` this is the logit, or the logarithm, of the expected reward.

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
    exploration, floor, evaluation_budget, refresh_growth, rewards, drift, time_to_live, absent_reward, count_pending, \
background, clock, log
        As in :class:`posse.Posse`, whose default rule decides: one draw of optimism for all arms, with propensities
        that are exact although what is believed about arms is correlated. With ``drift`` residuals fade like
        coefficients. Revenue, values and costs are for fleets of fixed arms.
    max_arms : int
        Residuals of so many arms are kept, default 100,000; then those that were not decided on for longest are
        dropped, and start again from their features if they come back.

    Attributes
    ----------
    features, arm_features : FeatureSpec
    interactions : bool
    columns : tuple of str
        What coefficients belong to: the joint features of context and arm.

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
        rewards: Rewards = "number",
        drift: Drift | Literal["learn"] | None = None,
        time_to_live: float | None = MONTH,
        absent_reward: float | None = None,
        count_pending: bool = True,
        max_arms: int = MOST_ARMS,
        background: bool = False,
        clock: Callable[[], float] = clock_module.time,
        log: Log = None,
    ) -> None:
        self.declare(features, arm_features, interactions, max_arms)
        self.start(
            Inside(
                arms=["reward"], features=self.joint.spec, seed=seed, exploration=exploration, floor=floor,
                evaluation_budget=evaluation_budget, refresh_growth=refresh_growth, rewards=rewards, drift=drift,
                time_to_live=time_to_live, absent_reward=absent_reward, count_pending=count_pending,
                background=background, clock=clock,
            )
        )  # fmt: skip
        self.log_to(log)

    def declare(self, features: Any, arm_features: Any, interactions: bool, max_arms: int) -> None:
        """Check what contexts and arms are made of."""
        self.joint = joint = JointFeatures(features, arm_features, interactions)
        self.features, self.arm_features, self.columns = joint.features, joint.arm_features, joint.columns
        self.interactions = joint.interactions
        self.max_arms = whole_number(max_arms, "max_arms", at_least=1)
        self.labels = Labels("arm")

    def start(self, fleet: Fleet) -> None:
        """Have a fleet inside, of which this is a component: it saves the names of arms."""
        if fleet.rewards == "revenue":
            raise InvalidValue(
                "expected rewards of 'number', 'binary' or 'count' in a catalogue, got 'revenue': what an arm is worth "
                "beyond its features is learned of one predictor; take 'binary' for purchases, or 'number' for amounts"
            )
        if fleet.settings.counts_pending:
            raise InvalidValue(
                "expected count_pending=False with absent_reward in a catalogue, got True: what a decision counts as "
                "while it waits would be divided between its task and its arm, and so would rewards after it; pass "
                "count_pending=False, and a time_to_live within which rewards come"
            )
        self.fleet: Any = fleet
        fleet.components = (*fleet.components, self)

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
        found = self.coefficients(None)
        (mean,), (covariance,) = found.mean.values(), found.covariance.values()
        rows = list(zip(self.columns, mean.tolist(), np.sqrt(np.diagonal(covariance)).tolist(), strict=True))
        notes = [f"noise {self.noise_sd:.3g}, arms {self.residual_sd:.3g} from what their features say (sd)"]
        table = Table("what a new task starts from", ("column", "mean", "sd"), rows)
        return Sheet(repr(self).strip("<>"), [table], notes).html()

    def log_to(self, log: Log) -> None:
        """Note decisions and rewards here from now on; None is nowhere."""
        self.fleet.log_to(log)
        if log is not None:
            self.fleet.notes = NotesOfMenus(self.fleet.log)

    @property
    def rewards(self) -> str:
        """What rewards are: "number", "binary" or "count"."""
        return str(self.fleet.rewards)

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
        """Rewards learned; with ``drift``, how many of now they are worth."""
        return float(self.fleet.n_rewards)

    @property
    def half_life(self) -> timedelta | None:
        """How long it takes until half of what differs in a task is believed to have changed; None is for ever."""
        found: timedelta | None = self.fleet.half_life
        return found

    @property
    def noise_sd(self) -> float:
        """Standard deviation of a reward, all being known; 1 of clicks and counts, whose sites have that."""
        return float(np.sqrt(self.fleet.prior.noise_variance[0]))

    @property
    def residual_sd(self) -> float:
        r"""How far arms are from what their features say, :math:`\tau`; a logit or logarithm of clicks and counts."""
        return float(np.sqrt(self.fleet.core.residuals.variance))

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
        self, task: Label, context: Any, eligible: Any, explore: bool = True, record: bool = True, *,
        k: int | None = None,
    ) -> Decision | Ranking:  # fmt: skip
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
            now = fleet.clock()
            if record:
                expire(fleet, now)
            asked, own = self.asked(task), fleet.ledgers.own
            ids = [f"{own.prefix}-{own.next + place}" if record else "" for place in range(places)]
            chosen, decisions = self.draw(asked, x, menu, explore, ids)
            if record:
                self._make_capacity(places)
                arms, take = self._numbered([menu.arms[place] for place in chosen], fleet.stream.decided + places)
                contexts = []
                if fleet.notes is not None:
                    known = dict(zip(self.features.names, self.features.raw(context), strict=True))
                    contexts = [(known, menu.logged(chosen[:place])) for place in range(places)]
                joint = np.zeros((places, fleet.core.context_width))
                joint[:, : len(self.columns)] = menu.encoded[chosen] @ self.joint.at(x).T
                record_all(
                    fleet, asked, list(joint), arms.tolist(), decisions, contexts, now, ranking=k is not None, then=take
                )
        return decisions[0] if k is None else Ranking(decisions)

    def asked(self, task: Any) -> Asked:
        """Return the task that a decision is for; the lock must be held."""
        number = self.fleet.names.tasks.get(task)
        return Asked(-1 if number is None else number, self.fleet.names.tasks.checked(task), NOBODY)

    def draw(
        self, asked: Asked, x: Array, menu: Menu, explore: bool, ids: Sequence[str]
    ) -> tuple[list[int], list[Decision]]:
        """Return places in the menu, and a decision for each; nothing changes. The lock must be held."""
        if len(ids) > len(menu):
            raise InvalidValue(f"expected k to be at most the {len(menu)} eligible arms, got {len(ids)}; ask for fewer")
        left, arms, chosen, decisions = np.arange(len(menu)), menu.arms, [], []
        mean, sd = self._believe(asked, x, menu)
        beliefs = [mean, sd, *self._shown(mean, sd)]
        for place, uniform in enumerate(self.fleet.stream.draw(len(ids)).tolist()):
            probabilities = self._probabilities(beliefs[0], beliefs[1], place, explore)
            position = int(pick(probabilities, uniform))
            shown = [part.tolist() for part in (probabilities, *beliefs[2:])]
            decisions.append(decision_among(ids[place], asked.label, arms, position, shown))
            chosen.append(int(left[position]))
            if place + 1 < len(ids):
                left, *beliefs = (np.delete(part, position) for part in (left, *beliefs))
                arms = [*arms[:position], *arms[position + 1 :]]
        return chosen, decisions

    def _probabilities(self, mean: Array, sd: Array, place: int, explore: bool) -> Array:
        """Return how likely each arm is at a place of the next ranking, given what is believed of predictors."""
        fleet, found = self.fleet, np.empty(mean.size)
        step, least = fleet.steps
        scratch = np.empty((5, score_columns(mean.size)))
        rule = fleet.settings.rule
        action_probabilities(mean, sd, NO_ARMS, max(step + place, least), rule, explore, scratch, found)
        return found

    def _believe(self, asked: Asked, x: Array, menu: Menu) -> tuple[Array, Array]:
        """Return mean and standard deviation of every arm's predictor; the lock must be held."""
        core, now = self.fleet.core, self.fleet.now
        core.ensure_fresh()
        mean, covariance = core.coefficients(asked.task, 0, now)
        joint, f = self.joint.at(x), menu.encoded
        known = np.fromiter(map(self.labels.numbers.get, menu.arms, repeat(-1)), np.int64, len(menu))
        residual, own = core.residuals.of(known, core.age(now))
        variance = np.einsum("ai,ai->a", f @ (joint.T @ covariance @ joint), f)
        mean, sd = f @ (joint.T @ mean) + residual, np.sqrt(np.maximum(variance, 0.0) + own)
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            raise no_belief(asked.label)
        return mean, sd

    def _shown(self, mean: Array, sd: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of expected rewards."""
        if self.rewards == "number":
            return mean, sd
        mean, sd = mean.copy(), sd.copy()
        self.fleet.core.show(mean, sd)
        return mean, sd

    def _numbered(self, labels: list[Label], when: int) -> tuple[IntArray, Callable[[], None]]:
        """Return the numbers of arms, and what lets them be there, decided on at this time."""
        new: dict[Label, int] = {}
        numbers = np.array(
            [
                new.setdefault(label, len(self.labels) + len(new)) if number is None else number
                for label, number in ((label, self.labels.get(label)) for label in labels)
            ],
            dtype=np.int64,
        )
        residuals = self.fleet.core.residuals
        residuals.reserve(len(self.labels) + len(new))

        def take() -> None:
            self.labels.take(list(new), list(new.values()))
            if numbers.size:
                residuals.use(numbers, when)

        return numbers, take

    def expected(self, task: Label, context: Any, eligible: Any) -> Expectation:
        """Return what is believed about every eligible arm's expected reward: deterministic, exploration apart."""
        menu, x = self.menu(eligible), self.features.encode(context)
        with self.fleet.lock:
            beliefs = self._shown(*self._believe(self.asked(task), x, menu))
        return Expectation(*(dict(zip(menu.arms, part.tolist(), strict=True)) for part in beliefs))

    def probabilities(self, task: Label, context: Any, eligible: Any, explore: bool = True) -> dict[Label, float]:
        """Return how likely :meth:`decide` would take each eligible arm; nothing is drawn and nothing changes."""
        require_truth_value(explore)
        menu, x = self.menu(eligible), self.features.encode(context)
        with self.fleet.lock:
            found = self._probabilities(*self._believe(self.asked(task), x, menu), 0, explore)
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
                result.append(self._probabilities(*self._believe(self.asked(task), X[row], menu), 0, explore))
        return result

    def coefficients(self, task: Label | None) -> Coefficients:
        """Return the posterior of a task's coefficients of :attr:`columns`; one never seen has the population's."""
        fleet = self.fleet
        with fleet.lock:
            fleet.core.ensure_fresh()
            number = -1 if task is None else self.asked(task).task
            mean, covariance = fleet.core.coefficients(number, 0, fleet.now)
        return Coefficients(self.columns, {"reward": mean}, {"reward": covariance})

    # Learning.

    # Of clicks and counts the last 40 rewards of a task can be corrected; how rewards since then were divided between
    # coefficients and residuals stays as it was.
    reward, correct, reward_many = _inside(Posse.reward), _inside(Posse.correct), _inside(Posse.reward_many)
    made, refresh, forget = _inside(Posse.made), _inside(Posse.refresh), _inside(Posse.forget)

    def pending(self) -> list[Pending]:
        """Return the decisions that wait for a reward, the oldest first, as :meth:`posse.Posse.pending` does."""
        fleet = self.fleet
        with fleet.lock:
            now = fleet.clock()
            expire(fleet, now)
            waiting = [one for ledger in fleet.ledgers for one in ledger.pending(now, fleet.names.tasks, self.labels)]
        return sorted(waiting, key=lambda one: -one.age)

    def learn_many(
        self, table: Any, *, task: str = "task", arm: str = "arm", reward: str = "reward", time: str | None = None
    ) -> int:
        """Learn the rows of a table, one by one; return how many.

        All rows are checked before the first is learned, and an interrupt from the keyboard waits for the last.

        Parameters
        ----------
        table : Polars, pandas or Arrow table, or the path of a file
            A log of a catalogue; or a table with a column for every feature of contexts and arms, or with one
            ``context`` column that holds both.
        task, arm, reward : str
            The names of these columns.
        time : str, default None
            With ``drift``: the column that says when each reward came, as in :meth:`posse.Posse.learn_many`. None: now.
        """
        from posse.tables import as_frame

        fleet, frame = self.fleet, as_frame(table)
        require_learnable(Columns(task, arm, reward, "error", time), fleet.settings, True)
        y = fleet.settings.family.check_many(rewards_of(required(frame, reward, "reward"))).tolist()
        tasks = fleet.names.tasks.checked_all(required(frame, task, "task").to_list())
        arms = self.labels.checked_all(required(frame, arm, "arm").to_list())
        raw = contexts_of(frame, (*self.features.names, *self.arm_features.names))
        of_arms = taken_features(frame, arms)
        X, F = self.features.encode_many(raw), self.arm_features.encode_many(raw if of_arms is None else of_arms)
        times = np.full(len(y), fleet.now) if time is None else times_of(required(frame, time, "time"))
        with fleet.lock, defer_interrupts():
            for place, row in enumerate(np.argsort(times, kind="stable").tolist()):
                try:
                    joint, used = self.joint.at(X[row]) @ F[row], fleet.stream.decided
                    self.learn_row(tasks[row], arms[row], joint, y[row], float(times[row]), used=used)
                except BaseException as error:
                    error.add_note(f"at least the first {place:,} rows were learned, see n_rewards")
                    raise
        return len(y)

    def learn_row(
        self, task: Label, arm: Label, joint: Array, value: float, now: float, *, used: int,
        then: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        """Learn the reward of a decision that was made elsewhere; the lock must be held.

        ``used`` is when that was, in decisions; ``then`` is called together with the change.
        """
        fleet, core = self.fleet, self.fleet.core
        (number,), new = fleet.names.tasks.numbered(core, [task])
        self._make_capacity(1)
        (arm_number,), take = self._numbered([arm], used)
        core.prepare_one(int(number), int(arm_number))
        with defer_interrupts():
            core.learn(int(number), int(arm_number), joint, value, now)
            fleet.names.tasks.take_new(core, new)
            take()
            then()
        core.estimate_if_due()

    def merge(self, other: Catalogue) -> None:
        """Add what another catalogue has learned to this one; the other stays as it is.

        Tasks and arms of the same name are the same; what only the other has joins, and counts as later. Decisions of
        the other that wait for a reward may be rewarded here from now on, and no more there. The population, and how
        far arms are from their features, are estimated again. If there are more than ``max_arms`` arms then, the next
        decision drops those that were not decided on for longest.

        It is refused where rewards would count twice (itself, or a common past), or ``features``, ``arm_features``,
        ``interactions``, ``rewards``, ``drift``, ``absent_reward`` or ``count_pending`` differ.

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
            new = [label for label in labels if label not in self.labels]
            here = self.labels.numbers | {label: len(self.labels) + place for place, label in enumerate(new)}
            arm_of = np.full(len(labels) + 1, -1, dtype=np.int64)
            arm_of[[other.labels.numbers[label] for label in labels]] = [here[label] for label in labels]
            add(self.fleet, other.fleet, arm_of, lambda: self.labels.take(new, [here[label] for label in new]))

    def _make_capacity(self, more: int) -> None:
        """If there are too many arms, let the residuals of those go that were not decided on for longest.

        Arms whose rewards are still to be learned stay.
        """
        if len(self.labels) + more <= self.max_arms:
            return
        ledgers, core, held = list(self.fleet.ledgers), self.fleet.core, not self.fleet.settings.count_pending
        waiting: set[int] = set()
        for one in ledgers:
            status = one.status[one.live]
            waiting.update(one.arm[one.live][(status == PENDING) | (held & (status < FORGOTTEN))].tolist())
        latest = np.argsort(-core.residuals.used, kind="stable")[: int(SPARED * max(self.max_arms - more, 0))]
        kept = sorted({*latest.tolist(), *waiting} - {-1})
        numbers = np.full(len(self.labels) + 1, -1, dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        labels = Labels("arm")
        labels.take([self.labels.label(old) for old in kept], range(len(kept)))
        residuals = core.residuals.without(numbers[core.residuals.owner[:, 1]] >= 0, numbers)
        columns = [numbers[one.arm] for one in ledgers]  # -1 stays -1
        with defer_interrupts():
            for ledger, column in zip(ledgers, columns, strict=True):
                ledger.arm = column
            self.labels, core.residuals = labels, residuals

    # Files.

    def freeze(self) -> Callable[[str | os.PathLike[str]], None]:
        """Return a function that writes the state of now to a file, whatever is learned until then."""
        with self.fleet.lock:
            self.fleet.core.finish_background()
            more = {
                "context_features": self.features.to_json(), "item_features": self.arm_features.to_json(),
                "interactions": self.interactions, "max_arms": self.max_arms, "items": KINDS[self.labels.kind],
            }  # fmt: skip
            return freeze_fleet(self.fleet, kind=KIND, more=more)

    def arrays(self) -> dict[str, Any]:
        """Return the names of arms, for a file."""
        return label_arrays(self.labels, "item")

    def take(self, reader: Reader) -> None:
        """Have again the names of a file."""
        n = self.fleet.core.n_choices
        self.labels.take(reader.labels("item", reader.header["items"], n), range(n))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, at once or not at all; no pickle."""
        self.freeze()(path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, clock: Callable[[], float] = clock_module.time, log: Log = None
    ) -> Self:
        """Read a catalogue; the next decisions are those that the saved one would have made.

        Parameters
        ----------
        path : path
        clock, log
            They are not in the file.
        """
        catalogue = cls.read(path, clock, Inside)
        catalogue.log_to(log)
        return catalogue

    @classmethod
    def read(cls, path: str | os.PathLike[str], clock: Callable[[], float], inside: type[Fleet]) -> Self:
        """Return the catalogue of a file, with a fleet of this class inside."""

        def read(reader: Reader) -> Any:
            header, catalogue = reader.header, cls.__new__(cls)
            features, arms = (FeatureSpec.from_json(header[name]) for name in ("context_features", "item_features"))
            catalogue.declare(features, arms, header["interactions"], header["max_arms"])
            if header["features"] != catalogue.joint.spec.to_json() or header["arms"] != ["reward"]:
                raise reader.damaged("its columns are not those of its features")

            def started(**settings: Any) -> Any:
                catalogue.start(inside(**settings))
                return catalogue.fleet

            restore: Any = restore_fleet  # takes what makes a fleet for its class
            restore(started, reader, None, clock)
            return catalogue

        found: Self = read_checked(path, KIND, read)
        return found


def is_catalogue(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds a catalogue; a file that is none of posse's is none."""
    from posse.container import open_container

    try:
        open_container(path, kind=KIND, versions=(VERSION,)).close()
    except PosseError:
        return False
    return True
