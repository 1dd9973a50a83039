"""The practitioner's object: decide now, reward later."""

from __future__ import annotations

import os
import time as clock_module
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from posse.batches import is_many
from posse.checks import one_of, whole_number
from posse.errors import InvalidValue
from posse.fleet.commit import Step, Steps, commit
from posse.fleet.core import (
    FIT_SETTLED,
    FIT_STEPS,
    Core,
    no_belief,
    require_beliefs,
    require_room,
    require_truth_value,
)
from posse.fleet.decision import Decision, Decisions, Expectation, Ranking
from posse.fleet.fading import NoticedChange, times_of
from posse.fleet.labels import Label, checked_label, require_one_by_one
from posse.fleet.ledger import PENDING, REWARDED, Pending, parse_id
from posse.fleet.loading import require_loaded
from posse.fleet.overview import (
    ArmOverview,
    Coefficients,
    Overview,
    TaskOverview,
    arm_overview,
    busiest_tasks,
    coefficients_of,
    task_rewards,
    with_own_share,
)
from posse.fleet.preview import preview
from posse.fleet.products import squares_of
from posse.fleet.ranking import rank_arms
from posse.fleet.rewarding import Rewarded, id_of, listed_rewards, news_among
from posse.fleet.rows import contexts_of, label_codes, required, rewards_of, without_missing
from posse.fleet.site_store import SiteStore
from posse.kernels import estimators
from posse.kernels.fleet import decide, observe_one
from posse.kernels.packing import whole_matrices
from posse.model.borrowing import Borrowing, borrowing_of
from posse.model.statistics import Statistics
from posse.tables import library_of
from posse.undisturbed import undisturbed

if TYPE_CHECKING:
    from posse.features import FeatureSpec
    from posse.fleet.streaming import Progress
    from posse.logs.writer import Record
    from posse.model.prior import Prior
    from posse.report import Report
    from posse.types import Array


class Posse(Core):
    """Many related bandits that learn from each other; decisions now, rewards whenever they come.

    Parameters
    ----------
    arms : sequence of str or int
        What every task chooses among; with ``arm_features``, a mapping or a table.
    features : FeatureSpec, or sequence of feature names
        What a context is made of; names alone mean numbers as they are, with an intercept.
    policy : {"ebm-rand-ucb", "ebm-ts", "ebm-ucb", "hier-ts", "lin-ts", "lin-ucb", "random"}
        How to explore. The first three learn the population of the tasks; "lin-ts" and "lin-ucb" treat every task
        alone. The default has the regret of "ebm-ucb" and decides at random, so that a log can be evaluated.
    seed : int, optional
        Same seed, same decisions; default: from the operating system.
    prior : {"evidence", "paper", "moments", ...} or Prior, optional
        How the population is estimated. Default: "evidence", the best there is.
    exploration : float, optional
        Default: the policy's, as measured.
    floor : float
        The least probability of every eligible arm, at most 1 / n_arms. It plays bad arms as often as good ones, for
        ever: 0.02 with five arms triples the regret of the base world (``posse docs exploration``). Prefer
        ``evaluation_budget``; with both, an arm has at least the larger of the two.
    evaluation_budget : float
        What a log that can be evaluated may cost, as a share of what deciding gains over playing at random: 0.01 is
        1 %. Every eligible arm keeps some probability, the more the better its mean, and the expected loss of that is
        at most this share in every decision. Default 0: nothing is played for the sake of the log.
    refresh_growth : float, optional
        The population is estimated anew when rewards have grown by this fraction; one that replaces an absent reward
        counts as one more. Default 0.3.
    robust : bool
        With the evidence prior: a population with heavy tails, so that odd tasks borrow and lend less.
    rewards : {"number", "binary", "count"}
        What rewards are: any numbers (default); 0 or 1, such as clicks and purchases, where False and True may be
        given; or 0, 1, 2, ... The latter two have a model of their own (``posse docs clicks``): ``expected`` and the
        ``mean`` and ``sd`` of a decision are those of probabilities or rates, and coefficients are those of the logit
        or logarithm. They need one of the first three policies and the evidence prior.
    drift : None, "learn", float or timedelta, default None
        A world that changes (``posse docs drift``). A number is the half-life in days with which coefficients return to
        the population: what is old counts less. ``"learn"`` learns it, and starts anew where a sudden change is
        noticed, in one task or in all; :attr:`half_life` and :attr:`changes` say what was found. Time is that of the
        clock. :attr:`n_rewards` is then how many rewards of now the old ones are worth. It needs ``rewards="number"``,
        and takes ``absent_reward`` with ``count_pending=False`` only.
    time_to_live : float or None
        Seconds for which a decision may get its reward; a reward that comes again is recognised for as long. None is
        for ever, and keeps every decision in memory.
    absent_reward : float, optional
        What it means if none came: this reward. Default: nothing is learned from it.
    count_pending : bool
        With ``absent_reward``: True (default) lets a decision count as that reward from the moment it is made, and its
        reward, when it comes, replaces it. False learns nothing of a decision before its ``time_to_live`` is over, and
        then the reward that came, or the absent one.
    task_features : FeatureSpec, or sequence of feature names, optional
        What may be known about a task: region, size. Say it with :meth:`set_task_features`; new tasks then start where
        those like them are (docs/known.md). Names must differ from those of ``features``. Rewards are numbers, the
        prior is "evidence", and the population is estimated in the foreground.
    arm_features : FeatureSpec, or sequence of feature names, optional
        What may be known about an arm: price, category. ``arms`` is then a mapping from arms to features, or a table
        with a column ``arm``; arms that are added start near those like them. For hundreds of arms that come and go,
        see :class:`posse.Catalogue`.
    background : bool
        Estimate the population on other threads: decisions go on under the old one meanwhile. False is for runs that
        must be the same every time, as it depends on the machine when a new population is there.
    clock : callable
        Returns the time in seconds since the epoch.
    log : path or callable, optional
        Where decisions and rewards are noted as they happen: a .jsonl file that lines are added to, or a function
        that takes a list of records (:mod:`posse.logs.writer`). If it raises, nothing was decided or learned.

    Notes
    -----
    One object serves many threads. A change is made as a whole or not at all, whatever is raised. Ctrl-C waits for the
    end of a change, so a reward whose call was interrupted may have been learned; the same again is then False. A
    refresh that fails after a reward is logged, and the reward counts; see :attr:`refresh_problem`.

    The arm of the n-th decision is drawn from its probabilities with the n-th number of the seed's stream, so a loaded
    fleet goes on as if nothing had happened.

    Examples
    --------
    >>> bandits = Posse(arms=["red", "green"], features=["age", "hour"], seed=7)
    >>> decision = bandits.decide(task="store-17", context={"age": 3, "hour": 0.5})
    >>> decision.arm, decision.propensity
    ('green', 0.5)
    >>> bandits.reward(decision.id, 1.0)
    True
    >>> bandits.reward(decision.id, 1.0)  # the same again
    False
    >>> round(bandits.expected("store-18", {"age": 3, "hour": 0.5}).mean["green"], 2)  # another task has learned too
    0.85
    """

    def __repr__(self) -> str:
        with self._lock:
            partial = ", partial" if self._partial else ""
            pending = f"{self._n_pending()} pending"
            pending = f"of which {pending} count as {self._absent_reward:g}" if self._counts_pending else pending
            return (
                f"<Posse {self._behaviour.policy}{partial}: {len(self._active_names)} arms, {len(self._tasks)} tasks, "
                f"{self._store.n_rewards:g} rewards, {pending}>"
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
        return self._active_names

    @property
    def retired_arms(self) -> tuple[Label, ...]:
        """The arms that are no longer chosen; what they taught is kept."""
        with self._lock:
            return tuple(label for label, arm in self._arms.numbers.items() if arm in self._retired)

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
        return self._store.n_rewards

    @property
    def fades(self) -> bool:
        """Whether old rewards count less; see ``drift``."""
        return self._fading is not None

    @property
    def half_life(self) -> timedelta | None:
        """How long it takes until half of what differs in a task is believed to have changed; None is for ever."""
        return None if self._fading is None else self._fading.half_life

    @property
    def changes(self) -> list[NoticedChange]:
        """The sudden changes that were noticed, the oldest first; see ``drift``."""
        with self._lock:
            return [] if self._fading is None else self._fading.changes(self._tasks)

    @property
    def prior(self) -> Prior:
        """The population in force, of all arms in the order in which they came, retired ones too.

        Of binary rewards and counts it is that of logits and logarithms, with noise variance 1.
        """
        with self._lock:
            self._look()
            return self._store.prior

    @property
    def statistics(self) -> Statistics:
        """All that was learned, as dense arrays over all arms (retired too) and tasks, each in the order they came."""
        with self._lock:
            position = {task: place for place, task in enumerate(self._tasks.numbers.values())}
            tasks, arms, sums = self._store.copy_of_sums()
            dense = Statistics.zeros(
                n_tasks=max(len(position), 1), n_arms=len(self._arms), n_features=self._features.n_features
            )
            sums = sums._replace(gram=whole_matrices(sums.gram))
            if self._known is not None:
                sums = self._known.raw_sums(tasks, arms, sums)
        places = np.array([position[task] for task in tasks.tolist()], dtype=np.int64)
        for field, values in zip(dense.sums, sums, strict=True):
            field[arms, places] = values
        return dense

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
        """Choose an arm, or the ``k`` arms of a ranking.

        Parameters
        ----------
        task : str or int
            One never seen starts from the population.
        context : mapping by feature name, array, or row
        eligible : sequence of arms, optional
            Default: all that are not retired.
        explore : bool
            False takes the arm with the best mean and says propensity 1.
        record : bool
            False returns the decision that would come next and leaves no trace of it: no id, no new task, nothing in
            the log, nothing that waits for a reward. For evaluations and for looking.
        k : int, optional
            So many places: a :class:`Ranking` of distinct arms comes back. Each place is a decision among the arms that
            the places above have left, with its own id, propensity and reward. Default: one decision, not a ranking.

        Returns
        -------
        Decision or Ranking

        Raises
        ------
        InvalidValue
            If more places are asked for than there are eligible arms.

        Notes
        -----
        With ``absent_reward`` the decision counts as that reward from now on, until its reward comes; see
        ``count_pending``.

        The reward of an arm in a ranking is taken not to depend on its place, nor on the arms of the other places.
        """
        if k is not None:
            require_truth_value(explore)
            require_truth_value(record, "record")
            return rank_arms(self, task, context, eligible, k, explore, record)
        x = self._features.encode(context)
        require_truth_value(explore)
        require_truth_value(record, "record")
        if not record:
            rows = None if eligible is None else [eligible]
            return preview(self, [self._tasks.checked(task)], np.zeros(1, dtype=np.int64), x[None], rows, explore)[0]
        with self._lock:
            arms, names = self._active, self._active_names
            if eligible is not None:
                arms, names = self._eligible(eligible)
            number = self._tasks.get(task)
            if number is None and self._elsewhere:
                self._require_loaded(task)
            # The name as it came is as good as the one that is kept, and nearer.
            label = task if number is not None and type(task) in (str, int) else self._tasks.checked(task)
            now = self._clock()
            self._expire(now)
            if self._fading is not None:
                self._fading.advance(now)
            ledger = self._ledger
            out = np.empty((3, len(names)))
            ledger.reserve(1)
            new = [] if number is not None else [(label, self._store.reserve_tasks(1)[0])]
            self._look()
            counted = None
            if self._counts_pending:
                require_loaded()
                counted = self._absent_reward
            store, address, step = self._store, self._store.address, self._step()
            stream: Any = self._rng.bit_generator
            with undisturbed():
                uniform = self._rng.random()
                try:
                    at = -1 if number is None else number
                    if self._known is None:
                        position = decide(address, at, x, arms, step, explore, uniform, out)
                    else:
                        position = self._choose(at, x, arms, step, explore, uniform, out)
                    if position < 0:
                        raise no_belief(label)
                    self._show_rewards(out[1], out[2])
                    chances, mean, sd = out.tolist()
                    decision = Decision(
                        f"{self._prefix}-{ledger.next}",
                        label,
                        names[position],
                        chances[position],
                        dict(zip(names, chances, strict=True)),
                        dict(zip(names, mean, strict=True)),
                        dict(zip(names, sd, strict=True)),
                    )
                    place, arm = new[0][1] if number is None else number, int(arms[position])
                    ledger.write(place, arm, now, x)
                    due, refresh, learning = False, None, []
                    if counted is not None:
                        due, refresh = self._ready_for_one(place, arm, provisional=True)
                        learning = store.learning_waiting(place, arm, x, counted - self._shift_of(place, arm, x))
                    # After what may have made the arrays larger.
                    steps = [*self._taking(new), *learning]
                    if self._log is not None:
                        self._note([decision], [context], now)
                except BaseException:
                    stream.advance(-1)  # the next decision draws what this one has drawn
                    raise
                # From here on nothing can fail.
                for change in steps:
                    change()  # type: ignore[operator]
                self._decided += 1
                ledger.size += 1
            if due:
                self._estimate_one(refresh)
            return decision

    def decide_many(
        self,
        tasks: Any,
        contexts: Any,
        eligible: Iterable[Iterable[Label] | None] | None = None,
        explore: bool = True,
        record: bool = True,
    ) -> Decisions:
        """Choose an arm for every row, by what is believed when this is called.

        The same as :meth:`decide` row by row, except that with ``absent_reward`` a row does not know yet that those
        before it count as that reward.

        Parameters
        ----------
        tasks : sequence of names, or the name of a column of ``contexts``
        contexts : table or 2-D array
            A Polars, pandas or Arrow table, or raw features in the order of ``features.names``.
        eligible : sequence of sequences of arms, optional
            One per row; None for all.
        explore : bool
        record : bool
            As in :meth:`decide`: False returns what would be decided and leaves no trace.
        """
        require_truth_value(explore)
        require_truth_value(record, "record")
        labels, codes, X = self._rows(tasks, contexts)
        if not record:
            return preview(self, labels, codes, X, eligible, explore, library_of(contexts))
        n = len(codes)
        with self._lock:
            mask = self._mask(eligible, n)
            known = self._tasks.known(labels)
            now = self._clock()
            self._expire(now)
            if self._fading is not None:
                self._fading.advance(now)
            self._look()
            self._ledger.reserve(n)
            numbers, new = self._numbers(labels, known)
            # A task that is not there yet has no rewards: it decides as one never seen.
            rows = numbers[codes]
            # Drawn from a stream of its own, so that one that fails has drawn nothing.
            rng = self._stream(self._decided)
            chosen, probabilities, mean, sd = self._decide_rows(known[codes], X, mask, explore, rng.random(n))
            require_beliefs(chosen, codes, labels)
            self._show_rewards(mean, sd)
            active = self._active
            if active.size < probabilities.shape[1]:
                probabilities, mean, sd = (
                    np.ascontiguousarray(columns[:, active]) for columns in (probabilities, mean, sd)
                )
            position = np.full(len(self._arms), -1)
            position[active] = np.arange(active.size)
            places = position[chosen]
            decisions = Decisions(
                prefix=self._prefix,
                first=self._ledger.next,
                tasks=[labels[code] for code in codes.tolist()],
                arms=self._active_names,
                chosen=places,
                propensity=probabilities[np.arange(n), places],
                probabilities=probabilities,
                mean=mean,
                sd=sd,
                library=library_of(contexts),
            )
            self._ledger.write_many(rows, chosen, now, X)
            lesson = None
            if self._counts_pending and n:
                lesson = self._lesson(rows, chosen, X, np.full(n, self._absent_reward), provisional=True)
            steps = [
                *self._taking(new),
                partial(self.__dict__.update, _decided=self._decided + n, _rng=rng),
                partial(self._ledger.__dict__.update, size=self._ledger.size + n),
                *(lesson.steps if lesson is not None else ()),
            ]
            commit(steps, self._noting(decisions, contexts, X, now))
            if lesson is not None:
                self._estimate(lesson)
            return decisions

    def _noting(self, decisions: Decisions, contexts: Any, X: Array, now: float) -> Step | None:  # noqa: ARG002
        """Return what writes many decisions to the log before they count; ``X`` are their contexts as encoded."""
        if self._log is None:
            return None
        return partial(self._note, list(decisions), self._features.raw_rows(contexts), now)

    def expected(self, task: Label, context: Any) -> Expectation:
        """Return what is believed about every active arm's expected reward: deterministic, exploration apart."""
        x = self._features.encode(context)
        with self._lock:
            number = self._tasks.get(task)
            if number is None and self._elsewhere:
                self._require_loaded(task)
            out = np.empty((3, self._active.size))
            self._look()
            self._choose(-1 if number is None else number, x, self._active, 1, False, 0.0, out)
            names = self._active_names
        self._show_rewards(out[1], out[2])
        _, mean, sd = out.tolist()
        return Expectation(dict(zip(names, mean, strict=True)), dict(zip(names, sd, strict=True)))

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
        require_truth_value(explore)
        labels, codes, X = self._rows(tasks, contexts)
        with self._lock:
            self._look()
            mask = self._mask(eligible, len(codes))
            rows = self._tasks.known(labels)[codes]
            chosen, probabilities, _, _ = self._decide_rows(rows, X, mask, explore, np.zeros(len(codes)), advance=False)
            require_beliefs(chosen, codes, labels)
            return np.ascontiguousarray(probabilities[:, self._active])

    # Learning.

    def reward(self, decision: Decision | str, value: float) -> bool:
        """Learn the reward of a decision, or of the id of one; True if it is news, False if the same had come before.

        Any order, any delay up to the time to live. Another value for the same decision is refused. With
        ``absent_reward`` it replaces what the decision counted as until now, exactly; with ``count_pending=False`` it
        is kept, and learned when the time to live is over. True and False are 1 and 0.
        """
        decision_id: str = id_of(decision)
        value = self._checked_reward(value)
        with self._lock:
            self._require_whole()
            now = self._clock()
            ledger, row = self._find(decision_id, now)
            if ledger.status[row] == REWARDED:
                self._require_same(decision_id, float(ledger.reward[row]), value)
                return False
            require_loaded(one=not self._counts_pending)
            first = ledger.first
            self._expire(now)
            row -= ledger.first - first  # of older ones, which may have gone
            store, task, arm = self._store, int(ledger.task[row]), int(ledger.arm[row])
            held, due, refresh, steps = self._holds_rewards, False, None, None
            if not held:
                due, refresh = self._ready_for_one(task, arm)
            shift = self._shift_of(task, arm, ledger.context[row])
            if self._counts_pending:
                one, absent = slice(row, row + 1), np.array([self._absent_reward])
                steps = store.replacing_rows(
                    ledger.task[one], ledger.arm[one], ledger.context[one], absent - shift, np.array([value - shift])
                )
            elif not held and self._fading is None and (isinstance(store, SiteStore) or self._known is not None):
                steps = store.learning_one(task, arm, ledger.context[row], value - shift)
            ground, x, status, rewards = store.ground, ledger.context[row], ledger.status, ledger.reward
            with undisturbed():
                if self._log is not None:
                    self._note_rewards([decision_id], [value], now)
                # From here on nothing can fail: the steps of a commit, written out since there is one for every reward.
                if steps is not None:
                    for step in steps:
                        step()  # type: ignore[operator]
                elif not held:
                    if self._fading is not None:
                        self._fading.before(now, task, arm, x, value)
                    observe_one(ground.address, arm, task, x, value - shift)
                    store._total += 1.0
                    store.experience = int(store._total)
                status[row] = REWARDED
                rewards[row] = value
            if self._fading is not None and not held:
                due, refresh = self._fading.estimate_due(), None
            if due:
                self._estimate_one(refresh)
            return True

    def reward_many(
        self, decisions: Decisions | Iterable[Decision | str], values: Iterable[float], *, errors: str = "raise"
    ) -> Rewarded:
        """Learn many rewards; return how many are news.

        Parameters
        ----------
        decisions : Decisions, or sequence of decisions or of their ids
        values : sequence of float
        errors : {"raise", "skip"}
            "raise" learns none if any is refused. "skip" learns the others and lists what it left out, and why, in
            ``skipped`` of what it returns: decisions that nobody knows or that are too old, rewards that are not
            finite numbers, and second rewards that differ from the first.

        Returns
        -------
        Rewarded
            A number, with the attribute ``skipped``.
        """
        one_of(errors, "errors", ("raise", "skip"))
        ids, amounts = listed_rewards(decisions, values)
        with self._lock:
            self._require_whole()
            now = self._clock()
            new, skipped = news_among(self, ids, amounts, now, skip=errors == "skip")
            self._expire(now)
            if not new:
                return Rewarded(0, skipped)
            where = [(*self._find(decision_id, now), value) for decision_id, value in new.items()]
            lesson = None
            if not self._holds_rewards:
                lesson = self._lesson(
                    np.array([ledger.task[row] for ledger, row, _ in where]),
                    np.array([ledger.arm[row] for ledger, row, _ in where]),
                    np.array([ledger.context[row] for ledger, row, _ in where]),
                    np.array([value for _, _, value in where]),
                    old=np.full(len(where), self._absent_reward) if self._counts_pending else None,
                    times=self._times(now, len(where)),
                )
            steps = [] if lesson is None else lesson.steps
            for ledger in {id(ledger): ledger for ledger, _, _ in where}.values():
                mine = [(row, value) for of, row, value in where if of is ledger]
                steps += ledger.rewarding(np.array([row for row, _ in mine]), np.array([value for _, value in mine]))
            commit(steps, partial(self._note_rewards, list(new), list(new.values()), now))
            if lesson is not None:
                self._estimate(lesson)
            return Rewarded(len(where), skipped)

    def pending(self) -> list[Pending]:
        """Return the decisions that wait for a reward, the oldest first."""
        with self._lock:
            now = self._clock()
            self._expire(now)
            result = [
                Pending(
                    f"{ledger.prefix}-{ledger.first + row}",
                    self._tasks.label(int(ledger.task[row])),
                    self._arms.label(int(ledger.arm[row])),
                    now - float(ledger.time[row]),
                )
                for ledger in self._ledgers()
                for row in np.flatnonzero(ledger.status == PENDING).tolist()
            ]
            return sorted(result, key=lambda entry: -entry.age)

    def learn_many(
        self,
        table: Any,
        *,
        task: str = "task",
        arm: str = "arm",
        reward: str = "reward",
        missing_reward: str = "error",
        refresh: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Callable[[Progress], None] | None = None,
        time: str | None = None,
    ) -> int:
        """Learn the rows of a table; return how many.

        Parameters
        ----------
        table : Polars, pandas or Arrow table, path, or iterator of tables
            With a column for every raw feature, or one ``context`` column that holds them; other columns are ignored. A
            path is that of a .parquet or .csv file, of a folder of them, or a glob pattern. Folders, patterns,
            iterators and Parquet files of more than a million rows are read in batches: memory depends on tasks, not on
            rows.
        task, arm, reward : str
            The names of these columns.
        missing_reward : {"error", "skip", "absent"}
            What to do with rows whose reward is null: refuse the table, leave them out, or learn ``absent_reward``.
        refresh : bool
            False if more tables follow: the population is estimated once, by the first that does not say so, or by
            the first decision.
        checkpoint : path, optional
            Where to note now and then what was learned of files that are read in batches. If it is there, a new fleet
            goes on where it ends; remove it when all is done. For rewards that are numbers.
        progress : callable, optional
            Told rows, time and time left after every batch, see :class:`posse.fleet.streaming.Progress`.
        time : str, optional
            In a fleet with ``drift``: the name of the column that says when each reward came, as dates or in seconds
            since the epoch. Rows are learned in that order, as if they came then. Default: all of them are as of now,
            and no change is looked for among them.

        Notes
        -----
        A table is learned as a whole or not at all; of one that is read in batches, those before an error stay learned,
        and the error says how many rows that are.

        If features wait for their scaling, it is learned from this table, once. The population is estimated anew at
        the end if rewards have grown enough. Binary rewards and counts are learned row by row: with ``refresh=False``
        a table in the order of its rewards gives the beliefs of a fleet that got them one by one.
        """
        from posse.tables import as_frame

        one_of(missing_reward, "missing_reward", ("error", "skip", "absent"))
        require_truth_value(refresh, "refresh")
        if missing_reward == "absent" and self._absent_reward is None:
            raise InvalidValue(
                'missing_reward="absent" learns absent_reward where there is none, but this fleet has none; '
                "make it with absent_reward"
            )
        if is_many(table):
            from posse.fleet.streaming import Columns, learn_stream

            if time is not None:
                raise InvalidValue(
                    "time orders the rows of one table, but files that are read in batches came; pass a table"
                )
            columns = Columns(task, arm, reward, missing_reward)
            return learn_stream(self, table, columns, refresh=refresh, checkpoint=checkpoint, progress=progress)
        frame = as_frame(table)
        if missing_reward != "error" and reward in frame.columns:
            frame = without_missing(frame, reward, self._absent_reward if missing_reward == "absent" else None)
        y = self._behaviour.family.check_many(rewards_of(required(frame, reward, "reward")))
        task_labels, task_codes = label_codes(required(frame, task, "task"), self._tasks)
        arm_labels, arm_codes = label_codes(required(frame, arm, "arm"), self._arms)
        contexts = contexts_of(frame, self._features.names)
        times = None
        if time is not None:
            if self._fading is None:
                raise InvalidValue("time says when old rewards came, but this fleet has no drift; leave it out")
            times = times_of(required(frame, time, "time"))
        with self._lock:
            self._require_whole()
            arms = np.array([self._arm_number(label) for label in arm_labels], dtype=np.int64)
            spec = self._features if self._features.ready else self._features.learn_scaling(contexts)
            X = spec.encode_many(contexts)
            if not len(y):
                return 0
            self._end_beside()
            known = self._tasks.known(task_labels)
            numbers, new = self._numbers(task_labels, known)
            rows = slice(None) if times is None else np.argsort(times, kind="stable")
            if self._fading is not None and times is None:
                self._fading.advance(self._clock(), X)
            lesson = self._lesson(
                numbers[task_codes][rows], arms[arm_codes][rows], X[rows], y[rows], refresh=refresh, fit=True,
                times=None if times is None else times[rows],
            )  # fmt: skip
            commit([partial(self.__dict__.update, _features=spec), *self._taking(new), *lesson.steps])
            self._estimate(lesson)
            return len(y)

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
            in_place = self._behaviour.method != estimators.EVIDENCE or self._known is not None
            if not wait and not in_place and not self._store.stale and not (sample and self.rewards != "number"):
                self._refresh_later(steps=FIT_STEPS, settled=FIT_SETTLED, sample=sample)
            else:
                self._end_beside()
                self._store.refresh(steps=FIT_STEPS, settled=FIT_SETTLED, sample=sample)
                self._learn_effects(steps=FIT_STEPS, settled=FIT_SETTLED)

    @property
    def refresh_problem(self) -> str | None:
        """Why the last estimate of the population failed, or None if it did not; the next one is due by itself."""
        return self._store.problem

    @property
    def refreshing(self) -> bool:
        """Whether the population is being estimated in the background."""
        return self._is_refreshing()

    def made(self, decision_ids: Iterable[Any]) -> int:
        """Return how many of these decisions were made by this fleet, or by one that it learned from."""
        places = [place for place in map(parse_id, decision_ids) if place is not None]
        with self._lock:
            next_of = {ledger.prefix: ledger.next for ledger in self._ledgers()}
            return sum(
                prefix in self._origins and number < next_of.get(prefix, number + 1) for prefix, number in places
            )

    # Arms.

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
            commit(self._adding_arm(arm, features))

    def _adding_arm(self, arm: Label, features: Any = None) -> Steps:
        """Return the steps that add an arm, or raise; nothing changes until they are taken."""
        self._require_whole()
        self._end_beside()
        about: Steps = []
        if features is not None:
            from posse.fleet.knowing import setting_arm

            about = setting_arm(self, arm, features)
        label = self._arms.checked(arm)
        number = self._arms.get(label)
        self._require_floor(len(self._active_names) + 1)
        if number is not None:
            if number not in self._retired:
                raise InvalidValue(f"there is an arm {label!r} already")
            active = self._active_among(self._arms.numbers, self._retired - {number})
            steps: Steps = [partial(self._retired.discard, number)]
        else:
            new = self._store.n_arms
            require_room(new + 1, self._features.n_features)
            active = self._active_among(self._arms.numbers | {label: new}, self._retired)
            steps = [*self._store.adding_arm(), *self._arms.adding([(label, new)])]
        return [*steps, *about, *self._showing_active(active)]

    def retire_arm(self, arm: Label) -> None:
        """Choose an arm no more; its rewards still count, late ones too."""
        with self._lock:
            number = self._arm_number(arm)
            if number in self._retired:
                raise InvalidValue(f"arm {arm!r} is retired already")
            if len(self._retired) + 1 == len(self._arms):
                raise InvalidValue(f"arm {arm!r} is the last one; add another with add_arm before it is retired")
            active = self._active_among(self._arms.numbers, self._retired | {number})
            commit([partial(self._retired.add, number), *self._showing_active(active)])

    def rename(self, arm: Label, to: Label) -> None:
        """Give an arm another name."""
        with self._lock:
            self._arm_number(arm)
            label = checked_label(to, "an arm") if len(self._arms) == 1 else self._arms.checked(to)
            if label in self._arms:
                raise InvalidValue(f"there is an arm {label!r} already")
            old = self._arms.checked(arm)
            renamed = {label if name == old else name: place for name, place in self._arms.numbers.items()}
            active = self._active_among(renamed, self._retired)
            commit([*self._arms.renaming(old, label), *self._showing_active(active)])

    # Tasks.

    def forget(self, *tasks: Label) -> None:
        """Remove all data of some tasks, as if they had never been; the population is learned again without them.

        Decisions of theirs that wait for a reward go, too. One call for many tasks learns the population once.
        """
        with self._lock:
            self._require_whole()
            self._end_beside()
            require_one_by_one(tasks)
            labels = list(dict.fromkeys(self._tasks.checked(task) for task in tasks))
            numbers = np.array([self._task_number(label) for label in labels], dtype=np.int64)
            if not numbers.size:
                return
            store = self._store
            refresh, steps = store.new_refresh(), store.dropping_tasks(numbers, store.new_memory())
            for ledger in self._ledgers():
                steps += ledger.forgetting(ledger.of(numbers))
            if self._fading is not None:
                steps += [partial(self._fading.forget, task) for task in numbers.tolist()]
            if self._known is not None:
                steps += self._known.tasks.forgetting(numbers)
            commit([*steps, *self._tasks.removing(labels)])
            # Whoever is interrupted here has forgotten; the next who looks estimates the population.
            if store.n_rewards > 0:
                self._renew(refresh)
            else:
                store.rebuild()

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

    def effects(self) -> dict[str, dict[str, float]]:
        """Return how much every feature of tasks and of arms says, by name: ``{"task": {...}, "arm": {...}}``.

        The standard deviation of its effects on coefficients, over tasks or arms, where every column of the context has
        mean square 1: compare it with how rewards differ. 0 is a feature that says nothing, or nothing yet.
        """
        with self._lock:
            self._look()
            known = self._known
            return {"task": {}, "arm": {}} if known is None else {"task": known.tasks.says(), "arm": known.arms.says()}

    def borrowing(self, task: Label) -> Borrowing:
        """Return how much a task leans on its own rewards and how much on the others, for all arms in their order."""
        squares = squares_of(self)
        with self._lock:
            number = self._task_number(task)
            self._look()
            self._store.settle([number])
            return borrowing_of(self._store.belief, number, squares)

    def coefficients(self, task: Label) -> Coefficients:
        """Return the posterior of every arm's coefficients in a task; one never seen has the population's.

        They are coefficients of the expected reward; of its logit for binary rewards, of its logarithm for counts.
        """
        with self._lock:
            number = self._tasks.get(task)
            if number is None and self._elsewhere:
                self._require_loaded(task)
            self._look()
            if number is not None:
                self._store.settle([number])
            belief = self._store.belief
            at = -1 if number is None else number
            both = {label: coefficients_of(belief, at, arm) for label, arm in self._arms.numbers.items()}
            if self._known is not None:
                both = {
                    label: self._known.coefficients(self._store, at, self._arms.numbers[label], *parts)
                    for label, parts in both.items()
                }
        return Coefficients(
            self._features.columns,
            {label: mean for label, (mean, _) in both.items()},
            {label: covariance for label, (_, covariance) in both.items()},
        )

    def findings(self) -> list[str]:
        """Return in plain sentences what could not be learned so far, and what looks unusual; none is good news.

        Arms and features have their names. It takes milliseconds however many tasks there are; after loading a file,
        about a microsecond per pair of task and arm.
        """
        from posse.fleet.findings import findings_of

        return findings_of(self)

    def overview(self, n_tasks: int = 10) -> Overview:
        """Return what was learned, for people to look at: every arm's population, and the tasks with most rewards."""
        findings = self.findings()
        with self._lock:
            self._expire(self._clock())
            self._look()
            belief, n_seen = self._store.belief, self._store.belief.n_seen.copy()
        numbers = busiest_tasks(belief, n_seen, n_tasks)
        squares = squares_of(self) if numbers else np.ones(0)
        with self._lock:
            self._look()
            belief = self._store.belief
            busiest = task_rewards(belief, [task for task in numbers if self._tasks.has(task)])
            self._store.settle([task for task, _ in busiest])
            return Overview(
                policy=self._behaviour.policy,
                prior=self._behaviour.prior,
                columns=self._features.columns,
                arms=self._arm_overviews(),
                tasks=[
                    TaskOverview(self._tasks.label(task), rewards, own_share)
                    for task, rewards, own_share in with_own_share(belief, busiest, squares)
                ],
                n_tasks=len(self._tasks),
                n_decisions=self._decided,
                n_pending=self._n_pending(),
                n_rewards=self._store.n_rewards,
                pending_reward=self._absent_reward if self._counts_pending else None,
                findings=findings,
                rewards=self._behaviour.family.name,
                drift=None if self._fading is None else self._fading.to_json(self._tasks),
                effects=None if self._known is None else self.effects(),
            )

    def _arm_overviews(self) -> list[ArmOverview]:
        store = self._store
        found = [
            arm_overview(
                store.belief, arm, label, arm in self._retired,
                store.noise_variance(arm) if isinstance(store, SiteStore) else None,
            )
            for label, arm in self._arms.numbers.items()
        ]  # fmt: skip
        if self._known is not None:
            found = [self._known.over_all_tasks(one, arm) for arm, one in enumerate(found)]
        return found

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

    def merge(self, other: Posse) -> None:
        """Add what another fleet has learned to this one; the other stays as it is.

        Arms and tasks of the same name are the same; what only the other has joins. Decisions of the other that wait
        for a reward may be rewarded here from now on, and no more there. Both must have the same ``absent_reward`` and
        ``count_pending``.
        """
        from posse.fleet.merge import merge_fleet

        merge_fleet(self, other)

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
        fleet._in_background = bool(background)
        return fleet
