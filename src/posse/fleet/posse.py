"""The practitioner's object: decide now, reward later."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from posse.fleet.deciding import asked_of, checked_places, draw, draw_rows, record_all
from posse.fleet.decision import Decision, Decisions, Ranking
from posse.fleet.fleet import Fleet
from posse.fleet.late import Lesson, Rewarded, expire, id_of, require_same, reward_rows, teach
from posse.fleet.ledger import REWARDED, Pending
from posse.fleet.names import Label
from posse.fleet.settings import require_truth_value
from posse.fleet.tables import encoded_rows
from posse.fleet.worth import Prices, worth_among
from posse.interrupts import defer_interrupts
from posse.tables import library_of

if TYPE_CHECKING:
    from posse.features import FeatureSpec
    from posse.fleet.streaming import Progress


class Posse(Fleet):
    """Many related bandits that learn from each other; decisions now, rewards whenever they come.

    Parameters
    ----------
    arms : sequence of str or int
        What every task chooses among, at least one; there is no default. With ``arm_features``, a mapping or a table.
    features : FeatureSpec, or sequence of feature names, default ()
        What a context is made of; names alone mean numbers as they are, with an intercept. None: every decision of a
        task is alike, and ``decide(task)`` takes no context.
    policy : str, default "ebm-rand-ucb"
        How to explore: "ebm-rand-ucb", "ebm-ts", "ebm-ucb", "lin-ucb" or "random". The first three learn the
        population of the tasks; "lin-ucb" treats every task alone. "ebm-rand-ucb" has the regret of "ebm-ucb" and
        decides at random, so that a log can be evaluated.
    seed : int, optional
        Same seed, same decisions. Default: from the operating system.
    prior : str or Prior, optional
        How the population is estimated: "evidence" (default), "paper" or "moments" (:func:`posse.estimate_prior`;
        ``posse docs evidence`` compares their regret), or a population that is known. "lin-ucb" and "random" take none.
    exploration : float, optional
        What the policy's exploration is multiplied by. Default: 0.4 for "ebm-rand-ucb" and "ebm-ucb", 0.15 for
        "ebm-ts", 0.1 for these three with another prior than "evidence", and 1 for "lin-ucb".
    floor : float, default 0.0
        The least probability of every eligible arm, at most 1 / n_arms. It plays bad arms as often as good ones, for
        ever: 0.02 with five arms triples the regret of the base world (``posse docs exploration``). Prefer
        ``evaluation_budget``; with both, an arm has at least the larger of the two.
    evaluation_budget : float, default 0.0
        What a log that can be evaluated may cost, as a share of what deciding gains over playing at random: 0.01 is
        1 %. Every eligible arm keeps some probability, the more the better its mean, and the expected loss of that is
        at most this share in every decision. 0: nothing is played for the sake of the log.
    refresh_growth : float, optional
        The population is refreshed when rewards have grown by this fraction; one that replaces an absent reward counts
        as one more. Default: 0.3.
    robust : bool, default False
        With the evidence prior: a population with heavy tails, so that outlier tasks borrow and lend less.
    rewards : {"number", "binary", "count", "revenue"}, default "number"
        What rewards are: any numbers; 0 or 1, such as clicks and purchases, where False and True may be given; 0, 1, 2,
        ...; or revenue, 0 from most and an amount from some (``posse docs revenue``). All but the first have a model of
        their own (``posse docs clicks``): ``expected`` and the ``mean`` and ``sd`` of a decision are those of
        probabilities, rates or money, and coefficients are those of the logit or logarithm. They need one of the first
        three policies and the evidence prior.
    drift : None, "learn", float or timedelta, default None
        A world that changes (``posse docs drift``). A number is the half-life in days with which coefficients return to
        the population: what is old counts less. ``"learn"`` learns it, and starts afresh where a sudden change is
        noticed, in one task or in all; :attr:`half_life` and :attr:`changes` say what was found. Time is that of the
        clock. :attr:`n_rewards` is then how many rewards of now the old ones are worth.
    time_to_live : float or None, default 2592000.0
        Seconds for which a decision may get its reward (the default is 30 days); a reward that comes again is
        recognised for as long. None is for ever, and keeps every decision in memory.
    absent_reward : float or None, default None
        The reward that a decision without one stands for, such as 0 for "nothing was bought". None: nothing is learned
        from it.
    count_pending : bool, default True
        With ``absent_reward``: True lets a decision count as that reward from the moment it is made, and its reward,
        when it comes, replaces it. False learns nothing of a decision before its ``time_to_live`` is over, and then the
        reward that came, or the absent one.
    task_features : FeatureSpec, or sequence of feature names, optional
        What may be known about a task: region, size. Say it with :meth:`set_task_features`; new tasks then start where
        those like them are (``posse docs known``). Names must differ from those of ``features``. The prior is
        "evidence". Default: nothing.
    arm_features : FeatureSpec, or sequence of feature names, optional
        What may be known about an arm: price, category. ``arms`` is then a mapping from arms to features, or a table
        with a column ``arm``; arms that are added start near those like them. For hundreds of arms that come and go,
        see :class:`posse.Catalogue`. Default: nothing.
    values : mapping from arms to numbers, optional
        What one unit of an arm's reward is worth, such as its margin; with every arm in it (``posse docs values``).
        Arms are then compared by value x expected reward - cost. :meth:`set_values` changes prices, and ``decide``
        takes others for one decision. Default: rewards are what counts.
    costs : mapping from arms to numbers, optional
        What playing an arm costs; 0 for those that are left out. Default: nothing.
    background : bool, default False
        True estimates the population on other threads: decisions go on under the old one meanwhile. False is for runs
        that must be the same every time, as it depends on the machine when a new population is there.
    clock : callable, default time.time
        Returns the time in seconds since the epoch.
    log : path or callable, optional
        Where decisions and rewards are noted as they happen: a .jsonl file that lines are added to, or a function
        that takes a list of records (:mod:`posse.logs.writer`). If it raises, nothing was decided or learned. Default:
        nowhere.

    Raises
    ------
    InvalidValue
        If a setting is out of its range, arms are missing or come twice, or settings do not go together.
    UnknownPolicy
        If no policy of a fleet has this key.

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

    # Deciding.

    @overload
    def decide(
        self, task: Label, context: Any = None, eligible: Iterable[Label] | None = None, explore: bool = True,
        record: bool = True, *, k: None = None, values: Mapping[Label, float] | None = None,
        costs: Mapping[Label, float] | None = None,
    ) -> Decision: ...  # fmt: skip

    @overload
    def decide(
        self, task: Label, context: Any = None, eligible: Iterable[Label] | None = None, explore: bool = True,
        record: bool = True, *, k: int, values: Mapping[Label, float] | None = None,
        costs: Mapping[Label, float] | None = None,
    ) -> Ranking: ...  # fmt: skip

    def decide(
        self,
        task: Label,
        context: Any = None,
        eligible: Iterable[Label] | None = None,
        explore: bool = True,
        record: bool = True,
        *,
        k: int | None = None,
        values: Mapping[Label, float] | None = None,
        costs: Mapping[Label, float] | None = None,
    ) -> Decision | Ranking:
        """Choose an arm for a task in a context, or the ``k`` arms of a ranking.

        Every call is a new decision with an id of its own, also for the same task and context. It waits for its reward
        for ``time_to_live`` seconds, and is written to the log, if there is one, before it counts.

        Parameters
        ----------
        task : str or int
            Its name. One never seen starts from the population, and is among :attr:`tasks` afterwards. All tasks are
            named by text, or all by whole numbers.
        context : mapping, sequence or row, default None
            Values by feature name, as in ``{"age": 3}``; values in the order of ``features.names``; or a row of a
            table. None: where there are no features.
        eligible : sequence of arms, default None
            The arms that this decision may take, in any order. None: all that are not retired.
        explore : bool, default True
            False takes the arm with the highest expected reward and says propensity 1. The decision is recorded all the
            same.
        record : bool, default True
            False returns the decision that would come next and leaves no trace of it: no id, no new task, nothing in
            the log, nothing that waits for a reward. For evaluations and for looking.
        k : int, default None
            The number of places of a ranking of distinct arms. Each place is a decision among the arms that the places
            above have left, with its own id, propensity and reward. None: one decision, not a ranking.
        values : mapping from arms to numbers, default None
            What one unit of reward is worth in this decision, in place of the fleet's values for the arms that are
            named. In a fleet without values it names every eligible arm. None: the fleet's.
        costs : mapping from arms to numbers, default None
            What playing an arm costs in this decision, in place of the fleet's costs for the arms that are named.

        Returns
        -------
        Decision or Ranking
            A :class:`Decision` has ``id``, ``task``, ``arm``, ``propensity``, and ``probabilities``, ``mean`` and
            ``sd`` by eligible arm, where there are values or costs also ``worth``. With ``k`` a :class:`Ranking`: a
            tuple of ``k`` decisions, best place first.

        Raises
        ------
        UnknownArm
            If an eligible arm is not one of this fleet, or is retired.
        UnknownTask
            If the fleet was loaded without this task, which is in its file.
        ShapeError
            If the context is a sequence with more or fewer values than there are features.
        NotFinite
            If a value is infinite or too large to square, or what was learned is (values of too different size).
        InvalidValue
            If a feature is missing, not declared, or not of its kind; if a task is named by anything but text or a
            whole number, or by the other of the two; if ``eligible`` is empty or has an arm twice; if ``explore`` or
            ``record`` is not True or False; if ``k`` is not a whole number from 1 to the number of eligible arms; if
            one of ``values`` or ``costs`` is negative, or a value is missing.

        Notes
        -----
        Threads may call it at the same time; they take turns. When it raises, nothing has changed.

        With ``absent_reward`` the decision counts as that reward from now on, until its reward comes; see
        ``count_pending``.

        The reward of an arm in a ranking is taken not to depend on its place, nor on the arms of the other places.

        Examples
        --------
        >>> bandits = Posse(arms=["red", "green", "blue"], features=["age"], seed=7)
        >>> decision = bandits.decide("store-17", {"age": 3}, eligible=["red", "green"])
        >>> decision.arm, decision.propensity, list(decision.probabilities)
        ('green', 0.5, ['red', 'green'])
        >>> bandits.reward(decision.id, 1.0)
        True
        >>> len(bandits.decide("store-17", {"age": 3}, k=2).arms)
        2
        """
        if explore is not True or record is not True:
            require_truth_value(explore)
            require_truth_value(record, "record")
        places = 1 if k is None else checked_places(k)
        x = self._features.encode(context)
        with self.lock:
            now, own = self.clock(), self.ledgers.own
            if record:
                expire(self, now)
            asked = asked_of(self, task, eligible, places)
            worth = None
            if self.worth is not None or values is not None or costs is not None:
                worth = worth_among(self, asked.active, values, costs)
            self.core.ensure_fresh()
            first, prefix = own.first + own.size, own.prefix
            ids = [f"{prefix}-{first + place}" if record else "" for place in range(places)]
            uniforms = [self.stream.next()] if places == 1 else self.stream.draw(places).tolist()
            chosen, decisions = draw(self, asked, x, now, explore, uniforms, ids, worth)
            if record:
                record_all(self, asked, [x] * places, chosen, decisions, [context] * places, now, ranking=k is not None)
        return decisions[0] if k is None else Ranking(decisions)

    def decide_many(
        self,
        tasks: Any,
        contexts: Any,
        eligible: Iterable[Iterable[Label] | None] | None = None,
        explore: bool = True,
        record: bool = True,
        *,
        values: Mapping[Label, Any] | None = None,
        costs: Mapping[Label, Any] | None = None,
    ) -> Decisions:
        """Choose an arm for every row, by what is believed when this is called.

        The same as :meth:`decide` row by row, except that with ``absent_reward`` a row does not know yet that those
        before it count as that reward. All rows are decided, or none if one is refused.

        Parameters
        ----------
        tasks : sequence of names, or str
            One per row. A string is the name of a column of ``contexts``.
        contexts : table, 2-D array, or list of contexts
            A Polars, pandas or Arrow table, raw features in the order of ``features.names``, or one context per row as
            :meth:`decide` takes it.
        eligible : sequence of (sequence of arms, or None), default None
            One entry per row, None where all arms are. None: all arms in every row.
        explore : bool, default True
            False takes the arm with the highest expected reward in every row.
        record : bool, default True
            False returns what would be decided and leaves no trace, as in :meth:`decide`.
        values, costs : mapping from arms to prices, default None
            As in :meth:`decide`; a price is a number, or a sequence with one number per row, or the name of a column of
            ``contexts``.

        Returns
        -------
        Decisions
            Columns of arms, propensities and beliefs; row i is a :class:`Decision`, and ``to_frame()`` a table.

        Raises
        ------
        UnknownArm, UnknownTask, ShapeError, NotFinite, InvalidValue
            As in :meth:`decide`, for any row; ShapeError also if there are not as many tasks, contexts and entries of
            ``eligible``.

        Examples
        --------
        >>> bandits = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> decisions = bandits.decide_many(["a", "b"], [[3.0], [4.0]])
        >>> decisions.arm, decisions.propensity
        (['green', 'green'], array([0.5, 0.5]))
        >>> int(bandits.reward_many(decisions, [1.0, 0.0]))
        2
        """
        require_truth_value(explore)
        require_truth_value(record, "record")
        labels, codes, X = encoded_rows(self, tasks, contexts)
        with self.lock:
            now = self.clock()
            if record:
                expire(self, now)
            prices = Prices(values, costs, contexts)
            arms, decisions = draw_rows(self, labels, codes, X, eligible, explore, library_of(contexts), prices)
            if not record:
                return replace(decisions, prefix="", first=0)
            core, ledger = self.core, self.ledgers.own
            numbers, new = self.names.tasks.numbered(core, labels)
            rows = numbers[codes]
            ledger.reserve(len(codes))
            places = ledger.write_many(rows, arms, now, X)
            absent = None if self.partial else self.settings.counted
            ready = None
            if absent is not None and len(codes):
                absents, times = np.full(len(codes), absent), np.full(len(codes), now)
                ready = core.ready_rows(rows, arms, X, absents, times, is_open=True, estimate=False)
            with defer_interrupts():
                if self.notes is not None:
                    self.notes.decisions(self, decisions, contexts, X, now)
                # From here on nothing can fail.
                self.names.tasks.take_new(core, new)
                if absent is not None and ready is not None:
                    ledger.keep_many(places, absent, core.learn_ready(ready))
                ledger.size += len(codes)
                self.stream.decided += len(codes)
            if absent is not None:
                core.estimate_if_due(provisional=True)
        return decisions

    # Learning.

    def reward(self, decision: Decision | str, value: float) -> bool:
        """Learn the reward of a decision.

        In any order and after any delay up to ``time_to_live``. The reward is written to the log, if there is one,
        before it is learned. It may refresh the population; see ``refresh_growth`` and ``background``.

        Parameters
        ----------
        decision : Decision or str
            A decision, or its id.
        value : float
            What the arm earned, in the unit of all rewards. True and False are 1 and 0. Where there is no reward, do
            not call; see ``absent_reward``.

        Returns
        -------
        bool
            True if it is news. False if the same value had come before: nothing changes, so a call may be repeated.

        Raises
        ------
        UnknownDecision
            If no decision of this fleet has the id, or its task was forgotten.
        ExpiredDecision
            If it was made more than ``time_to_live`` seconds ago.
        RewardConflict
            If it has another reward already.
        NotFinite
            If the value is None, NaN, infinite or too large to square.
        InvalidValue
            If the value is not a number, or not 0 or 1 or a count where ``rewards`` says so; if the decision was made
            with ``record=False``; if only some tasks of the fleet were loaded.

        Notes
        -----
        With ``absent_reward`` it replaces what the decision counted as until now, exactly; with ``count_pending=False``
        it is kept, and learned when the time to live is over.
        """
        decision_id = id_of(decision)
        value = self.settings.checked_reward(value)
        return self._learn(decision_id, value, correct=False)

    def correct(self, decision: Decision | str, value: float) -> bool:
        """Put another reward in the place of one that a decision has, or learn its first.

        Afterwards all is as if the right reward had come in the first place, but for estimates of the population in
        between. It is possible up to ``time_to_live``, and written to the log before it counts.

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
        UnknownDecision, ExpiredDecision, NotFinite
            As in :meth:`reward`.
        InvalidValue
            As in :meth:`reward`; and of clicks and counts if the reward is not among the last 40 of its task and arm.

        Examples
        --------
        >>> bandits = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> decision = bandits.decide("a", {"age": 3})
        >>> bandits.reward(decision, 100.0), bandits.correct(decision, 1.0), bandits.n_rewards
        (True, True, 1.0)
        """
        decision_id = id_of(decision)
        value = self.settings.checked_reward(value)
        return self._learn(decision_id, value, correct=True)

    def _learn(self, decision_id: Any, value: float, *, correct: bool) -> bool:
        """Learn a reward that was checked; return whether it is news."""
        with self.lock:
            self.require_whole()
            now = self.clock()
            ledger, at = self.ledgers.find(decision_id, self.settings.oldest(now))
            if ledger.status[at] == REWARDED:
                old = float(ledger.reward[at])
                if not correct:
                    require_same(decision_id, old, value)
                if old == value:
                    return False
            expire(self, now)  # which moves no place
            note = None if self.notes is None else partial(self.notes.rewards, self, [decision_id], [value], now)
            teach(self, [Lesson(ledger, at, value)], now, note)
            return True

    def reward_many(
        self, decisions: Decisions | Iterable[Decision | str], values: Iterable[float], *, errors: str = "raise"
    ) -> Rewarded:
        """Learn many rewards; return how many are news.

        Parameters
        ----------
        decisions : Decisions, or sequence of decisions or of their ids
        values : sequence of float
            One per decision.
        errors : {"raise", "skip"}, default "raise"
            "raise" learns none if any is refused. "skip" learns the others and lists what it left out, and why, in
            ``skipped`` of what it returns: decisions that nobody knows or that are too old, rewards that are not
            finite numbers, and second rewards that differ from the first.

        Returns
        -------
        Rewarded
            The number of rewards that are news, with the attribute ``skipped``: tuples of row, decision_id and reason.
            A reward that had come before with the same value is not counted, and not skipped.

        Raises
        ------
        ShapeError
            If there are not as many values as decisions.
        UnknownDecision, ExpiredDecision, RewardConflict, NotFinite, InvalidValue
            As in :meth:`reward`, for the first that is refused, unless ``errors="skip"``.

        Examples
        --------
        >>> bandits = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> decision = bandits.decide("a", {"age": 3})
        >>> rewarded = bandits.reward_many([decision.id, "unknown-1"], [1.0, 0.0], errors="skip")
        >>> int(rewarded), [(skipped.row, skipped.decision_id) for skipped in rewarded.skipped]
        (1, [(1, 'unknown-1')])
        """
        return reward_rows(self, decisions, values, errors)

    def pending(self) -> list[Pending]:
        """Return the decisions that wait for a reward, the oldest first.

        Returns
        -------
        list of Pending
            Tuples of id, task, arm and age in seconds. Those past their ``time_to_live`` are not among them.
        """
        with self.lock:
            now = self.clock()
            expire(self, now)
            waiting = [entry for ledger in self.ledgers for entry in ledger.pending(now, *self.names)]
            return sorted(waiting, key=lambda entry: -entry.age)

    @classmethod
    def fit(
        cls,
        table: Any,
        *,
        task: str = "task",
        arm: str = "arm",
        reward: str = "reward",
        propensity: str | None = None,
        time: str | None = None,
        features: Sequence[str] | FeatureSpec | None = None,
        ignore: Sequence[str] = (),
        rewards: str | None = None,
        missing_reward: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a new fleet that has learned a table of decisions and rewards.

        Columns that nobody named are recognised: times, ids, propensities, constants and columns with a level per row
        are no features, other numbers and categories are (``posse docs your-table``).

        Parameters
        ----------
        table : Log, path, or pandas, Polars or Arrow table
            A path is that of a .csv, .tsv, .jsonl (all also .gz) or .parquet file, or a folder or glob pattern of
            .parquet or .csv files.
        task : str, default "task"
        arm : str, default "arm"
        reward : str, default "reward"
            The columns with what decides, what was chosen, and what came of it.
        propensity : str, default None
            The column with the probability of the arm. None: recognised.
        time : str, default None
            The column that says when; a fleet with ``drift`` learns rows as of then. None: recognised.
        features : list of str or FeatureSpec, default None
            Exactly these columns. None: all that look like features.
        ignore : list of str, default ()
            Columns to leave out.
        rewards : str, default None
            "number", "binary", "count" or "revenue". None: recognised.
        missing_reward : str, default None
            "skip" leaves out rows without a reward; with ``absent_reward`` they count as that. None: a table with such
            rows is refused, a log of posse's read without them.
        **settings
            Of the fleet: ``policy``, ``seed``, ``drift`` and so on.

        Returns
        -------
        Posse

        Raises
        ------
        InvalidValue
            If a column is not there, or nothing can be learned from the table.

        Examples
        --------
        >>> visits = {"store": ["a", "a", "b"], "offer": ["x", "y", "x"], "sold": [0, 1, 1], "age": [31, 45, 27]}
        >>> stores = Posse.fit(visits, task="store", arm="offer", reward="sold", seed=1)
        >>> stores.rewards, stores.features.names, stores.n_rewards
        ('binary', ('age',), 3.0)
        """
        from posse.features import FeatureSpec
        from posse.fleet.tables import fit_fleet
        from posse.logs.columns import Asked

        spec = features if isinstance(features, FeatureSpec) else None
        names = features.names if isinstance(features, FeatureSpec) else features
        asked = Asked.of(task, arm, reward, propensity, time, names, ignore)
        return fit_fleet(
            cls, table, asked, features=spec, rewards=rewards, missing_reward=missing_reward, settings=settings
        )

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

        For rewards of decisions that were made elsewhere. Nothing is written to the fleet's log, and rows have no id:
        the same table again counts again.

        Parameters
        ----------
        table : Polars, pandas or Arrow table, path, or iterator of tables
            With a column for every raw feature, or one ``context`` column that holds them; other columns are ignored. A
            path is that of a .parquet or .csv file, of a folder of them, or a glob pattern. Folders, patterns,
            iterators and Parquet files of more than a million rows are read in batches: memory depends on tasks, not on
            rows.
        task : str, default "task"
        arm : str, default "arm"
        reward : str, default "reward"
            The names of these columns.
        missing_reward : {"error", "skip", "absent"}, default "error"
            What to do with rows whose reward is null: refuse the table, leave them out, or learn ``absent_reward``.
        refresh : bool, default True
            False if more tables follow: the population is estimated once, by the first that does not say so, or by
            the first decision.
        checkpoint : path, default None
            Where to note now and then what was learned of files that are read in batches. If it is there, a new fleet
            goes on where it ends; remove it when all is done.
        progress : callable, default None
            Called with rows, time and time left after every batch, see :class:`posse.fleet.streaming.Progress`.
        time : str, default None
            In a fleet with ``drift``: the name of the column that says when each reward came, as dates or in seconds
            since the epoch. Rows are learned in that order, as if they came then; of files that are read in batches,
            those of each batch. None: all of them are as of now.

        Returns
        -------
        int
            Rows that were learned.

        Raises
        ------
        UnknownArm
            If a row has an arm that is not one of this fleet.
        MissingData
            If there is no file at the path.
        NotFinite
            If a reward or feature is NaN, infinite or too large to square.
        InvalidValue
            If a column is missing or of the wrong kind, a task, arm or reward is null, a checkpoint belongs to other
            files or settings, or only some tasks of the fleet were loaded.

        Notes
        -----
        A table is learned as a whole or not at all; of one that is read in batches, those before an error stay learned,
        and the error says how many rows that are.

        If features wait for their scaling, it is learned from this table, once. The population is refreshed at the end
        if rewards have grown enough. Binary rewards and counts are learned row by row: with ``refresh=False`` a table
        in the order of its rewards gives the beliefs of a fleet that got them one by one.

        Examples
        --------
        >>> bandits = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> bandits.learn_many({"task": ["a", "b"], "arm": ["red", "green"], "age": [1, 2], "reward": [0.0, 1.0]})
        2
        """
        from posse.fleet.tables import Columns, learn_table

        columns = Columns(task, arm, reward, missing_reward, time)
        return learn_table(self, table, columns, refresh=refresh, checkpoint=checkpoint, progress=progress)

    def made(self, decision_ids: Iterable[Any]) -> int:
        """Return how many of these decisions were made by this fleet, or by one that it learned from.

        Parameters
        ----------
        decision_ids : iterable of str
            Ids; what is none counts as not made here.

        Returns
        -------
        int
        """
        with self.lock:
            return self.ledgers.made(decision_ids)

    def merge(self, other: Posse) -> None:
        """Add what another fleet has learned to this one; the other stays as it is.

        Arms and tasks of the same name are the same; what only the other has joins. Decisions of the other that wait
        for a reward may be rewarded here from now on, and no more there. The population is estimated again.

        Parameters
        ----------
        other : Posse
            A fleet that was made and learned apart from this one.

        Raises
        ------
        InvalidValue
            If it is this fleet itself or has a common past with it, so that rewards would count twice; if features,
            ``rewards``, ``drift``, ``absent_reward`` or ``count_pending`` differ; if only some tasks of one were
            loaded.

        Examples
        --------
        >>> north = Posse(arms=["red", "green"], features=["age"], seed=7)
        >>> south = Posse(arms=["red", "green"], features=["age"], seed=8)
        >>> rows = {"task": ["a", "a"], "arm": ["red", "green"], "age": [1, 2], "reward": [0.0, 1.0]}
        >>> south.learn_many(rows)
        2
        >>> north.merge(south)
        >>> north.tasks, north.n_rewards
        (('a',), 2.0)
        """
        from posse.fleet.merge import merge_fleet

        merge_fleet(self, other)

    # Inside.

    def _pending_words(self) -> str:
        pending = f"{self.ledgers.n_pending} pending"
        settings = self.settings
        return (
            f", of which {pending} count as {settings.absent_reward:g}" if settings.counts_pending else f", {pending}"
        )
