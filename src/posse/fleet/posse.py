"""The practitioner's object: decide now, reward later."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from posse.engine.decide import choose
from posse.engine.learn import prepare_one, shift_of
from posse.engine.loading import require_loaded
from posse.engine.site_store import SiteStore
from posse.fleet.checking import no_belief, require_truth_value
from posse.fleet.deciding import decide_rows, preview_rows
from posse.fleet.decision import Decision, Decisions, Ranking, decision_among
from posse.fleet.fleet import Fleet
from posse.fleet.labels import Label
from posse.fleet.late import drop_late
from posse.fleet.ledger import REWARDED, Ledger, Pending, parse_id
from posse.fleet.ranking import rank_arms
from posse.fleet.rewarding import Rewarded, find_decision, id_of, require_same, reward_rows
from posse.kernels.fleet import observe_one
from posse.tables import library_of
from posse.undisturbed import undisturbed

if TYPE_CHECKING:
    from posse.engine.commit import Step, Steps
    from posse.fleet.streaming import Progress
    from posse.types import Array


class Posse(Fleet):
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

    def _begin(self) -> None:
        self._ledger = Ledger(self._prefix, self._features.n_features)
        self._adopted: dict[str, Ledger] = {}  # of fleets that this one has learned from, by the prefix of their ids

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
        require_truth_value(explore)
        require_truth_value(record, "record")
        if k is not None:
            return rank_arms(self, task, context, eligible, k, explore, record)
        x = self._features.encode(context)
        if not record:
            labels, rows = [self._tasks.checked(task)], None if eligible is None else [eligible]
            return preview_rows(self, labels, np.zeros(1, dtype=np.int64), x[None], rows, explore)[0]
        with self._lock:
            engine, ledger = self._engine, self._ledger
            arms, names = self._arms.active, self._arms.active_names
            if eligible is not None:
                arms, names = self._arms.eligible(eligible)
            number = self._tasks.get(task)
            if number is None:
                self._tasks.require_loaded([task])
            # The name as it came is as good as the one that is kept, and nearer.
            label = task if number is not None and type(task) in (str, int) else self._tasks.checked(task)
            now = self._clock()
            self._expire(now)
            if engine.fading is not None:
                engine.fading.advance(now)
            out = np.empty((3, len(names)))
            new = [] if number is not None else [(label, engine.store.reserve_tasks(1)[0])]
            if engine.store.stale:
                engine.ensure_fresh()
            if self._counts_pending:
                require_loaded()
            step = max(self._steps())
            stream: Any = self._rng.bit_generator
            with undisturbed():
                uniform = self._rng.random()
                try:
                    position = choose(engine, -1 if number is None else number, x, arms, step, explore, uniform, out)
                    if position < 0:
                        raise no_belief(label)
                    at, arm = new[0][1] if number is None else number, int(arms[position])
                    decision_id = f"{self._prefix}-{ledger.write(at, arm, now, x)}"
                    decision = decision_among(decision_id, label, names, position, out.tolist())
                    due, refresh, steps = False, None, []
                    if self._counts_pending:
                        due, refresh = prepare_one(engine, at, arm, provisional=True)
                        counted: Any = self._late.absent_reward
                        steps = engine.store.learning_waiting(at, arm, x, counted - shift_of(engine, at, arm, x))
                    if new:  # after what may have made the arrays larger
                        steps = [*self._tasks.taking(engine.store, new), *steps]
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
                engine.estimate_after_one(refresh)
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
            return preview_rows(self, labels, codes, X, eligible, explore, library_of(contexts))
        return decide_rows(self, labels, codes, X, eligible, explore, contexts)

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
            if self._partial:
                self._require_whole()
            return self._learn_reward(decision_id, value, self._clock())

    def _learn_reward(self, decision_id: str, value: float, now: float) -> bool:
        """Learn a reward that was checked; True if it is news. The lock must be held."""
        ledger, row, entry = find_decision(self, decision_id, now)
        if entry.status == REWARDED:
            require_same(decision_id, entry.reward, value)
            return False
        require_loaded(one=not self._counts_pending)
        first = ledger.first
        self._expire(now)
        at = ledger._head + row - (ledger.first - first)  # of older ones, which may have gone
        engine, task, arm, x = self._engine, entry.task, entry.arm, entry.context
        store, held = engine.store, not self._late.count_pending
        if engine.fading is not None and not held:
            done: Steps = [
                partial(ledger._status.__setitem__, at, REWARDED),
                partial(ledger._reward.__setitem__, at, value),
            ]
            note = partial(self._note_rewards, [decision_id], [value], now)
            engine.fading.learn_one(now, task, arm, x, value, done, note)
            return True
        due, refresh, steps = False, None, None
        if not held:
            due, refresh = prepare_one(engine, task, arm)
        if self._counts_pending:
            shift, absent = shift_of(engine, task, arm, x), np.array([self._late.absent_reward])
            steps = store.replacing_rows(
                np.array([task]), np.array([arm]), x[None], absent - shift, np.array([value - shift])
            )
        elif not held and (engine.known is not None or isinstance(store, SiteStore)):
            steps = store.learning_one(task, arm, x, value - shift_of(engine, task, arm, x))
        # After what may have made the arrays larger.
        ground, status, rewards = store.ground, ledger._status, ledger._reward
        with undisturbed():
            if self._log is not None:
                self._note_rewards([decision_id], [value], now)
            # From here on nothing can fail: the steps of a commit, written out since there is one for every reward.
            if steps is not None:
                for step in steps:
                    step()  # type: ignore[operator]
            elif not held:
                observe_one(ground.address, arm, task, x, value)
                store._total += 1.0
                store.experience = int(store._total)
            status[at] = REWARDED
            rewards[at] = value
        if due:
            engine.estimate_after_one(refresh)
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
        return reward_rows(self, decisions, values, errors)

    def pending(self) -> list[Pending]:
        """Return the decisions that wait for a reward, the oldest first."""
        with self._lock:
            now = self._clock()
            self._expire(now)
            waiting = [entry for ledger in self._ledgers() for entry in ledger.pending(now, self._tasks, self._arms)]
            return sorted(waiting, key=lambda entry: -entry.age)

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
        A table is learned as a whole or not at all; of one that is read in batches, or with ``time``, those before an
        error stay learned, and the error says how many rows that are.

        If features wait for their scaling, it is learned from this table, once. The population is estimated anew at
        the end if rewards have grown enough. Binary rewards and counts are learned row by row: with ``refresh=False``
        a table in the order of its rewards gives the beliefs of a fleet that got them one by one.
        """
        from posse.fleet.streaming import Columns
        from posse.fleet.table import learn_table

        columns = Columns(task, arm, reward, missing_reward)
        return learn_table(self, table, columns, refresh=refresh, checkpoint=checkpoint, progress=progress, time=time)

    def made(self, decision_ids: Iterable[Any]) -> int:
        """Return how many of these decisions were made by this fleet, or by one that it learned from."""
        places = [place for place in map(parse_id, decision_ids) if place is not None]
        with self._lock:
            next_of = {ledger.prefix: ledger.next for ledger in self._ledgers()}
            return sum(
                prefix in self._origins and number < next_of.get(prefix, number + 1) for prefix, number in places
            )

    def merge(self, other: Posse) -> None:
        """Add what another fleet has learned to this one; the other stays as it is.

        Arms and tasks of the same name are the same; what only the other has joins. Decisions of the other that wait
        for a reward may be rewarded here from now on, and no more there. Both must have the same ``absent_reward`` and
        ``count_pending``.
        """
        from posse.fleet.merge import merge_fleet

        merge_fleet(self, other)

    # Inside.

    def _ledgers(self) -> list[Ledger]:
        return [self._ledger, *self._adopted.values()]

    def _pending_words(self) -> str:
        pending = f"{sum(ledger.n_pending for ledger in self._ledgers())} pending"
        return f", of which {pending} count as {self._late.absent_reward:g}" if self._counts_pending else f", {pending}"

    def _note(self, decisions: list[Decision], contexts: list[Any], now: float, *, ranking: bool = False) -> None:
        """Write decisions, or the places of one ranking, to the log before they count."""
        from posse.fleet.notes import decision_records

        assert self._log is not None
        names, known = self._features.names, self._engine.known
        raw = [dict(zip(names, self._features.raw(context), strict=True)) for context in contexts]
        if known is not None:
            about = {task: known.about(self._tasks.get(task)) for task in {decision.task for decision in decisions}}
            raw = [one | about[decision.task] for one, decision in zip(raw, decisions, strict=True)]
        self._log(decision_records(decisions, raw, now, self._behaviour.policy, ranking=ranking))

    def _noting(self, decisions: Decisions, contexts: Any, X: Array, now: float) -> Step | None:  # noqa: ARG002
        """Return what writes many decisions to the log before they count; ``X`` are their contexts as encoded."""
        if self._log is None:
            return None
        return partial(self._note, list(decisions), self._features.raw_rows(contexts), now)

    def _note_rewards(self, ids: list[str], values: list[float], now: float) -> None:
        """Write rewards to the log before they are learned."""
        if self._log is not None:
            from posse.fleet.notes import reward_records

            self._log(reward_records(ids, values, now))

    def _expire(self, now: float) -> None:
        """Let decisions go that are past their time; those without a reward get the absent one, if there is one."""
        time_to_live, ledger = self._late.time_to_live, self._ledger
        if time_to_live is None:
            return
        before = now - time_to_live
        if self._adopted or (ledger.size and ledger._time[ledger._head] < before):  # asked by every decision
            drop_late(self, before, now)

    def _adopt_ledgers(self, ledgers: Iterable[Ledger]) -> None:
        # Whoever wrote a file may have decided more since, so new decisions get ids of their own.
        self._adopted = {ledger.prefix: ledger for ledger in ledgers if ledger.size}
