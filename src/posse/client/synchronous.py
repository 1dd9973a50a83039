"""The client for threads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from posse.client import calls, values
from posse.client.answers import Answer, Lost
from posse.client.conversation import Fallback, Send, Steps
from posse.client.network import (
    FAILURES,
    LIMITS,
    Body,
    checked_url,
    conversation_of,
    headers_of,
    lost,
    request_of,
    timeout_of,
)

T = TypeVar("T")


class Client:
    """A client of ``posse serve``; threads may share one.

    Every call tries again when the connection fails, time runs out or the service says 429, 502, 503 or 504, with
    growing random waits and never before ``Retry-After``. That is safe: decisions travel under an idempotency key,
    which is the same in every try, and rewards count once by themselves.

    Parameters
    ----------
    base_url : str
        Such as ``"http://127.0.0.1:8080"``.
    key : str, optional
        An API key. Default: the environment variable ``POSSE_KEY``.
    timeout : float or httpx.Timeout, default 2.0
        Seconds for connecting, and for each wait for data, in one try.
    retries : int, default 3
        Tries after the first.
    backoff : float, default 0.1
        Seconds: the first wait is drawn between 0 and this, each later one between 0 and twice as much, at most 2 s.
    deadline : float or None, default 10.0
        Seconds for all tries of a call together. A log that is being saved may take longer.
    fallback : str or callable, optional
        The arm that :meth:`decide` returns when the service cannot be asked, or a callable with fleet, task, context
        and eligible arms (None: all) that returns one. Such a decision has ``fallback=True`` and no id; it is not
        logged, and nothing is learned from it. If the arm is not eligible, the error is raised.
    pause : float, default 1.0
        Seconds after a failure in which decisions fall back at once; then one of them asks the service again. 0: always
        ask.
    transport : httpx.BaseTransport, optional
        In place of the network.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8080", fallback="coffee")
    >>> with client:  # doctest: +SKIP
    ...     decision = client.decide("shops", "store-17", {"hour": 9.5})
    ...     client.reward(decision, 1.0)
    True
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: str | None = None,
        timeout: float | httpx.Timeout = 2.0,
        retries: int = 3,
        backoff: float = 0.1,
        deadline: float | None = 10.0,
        fallback: Fallback | None = None,
        pause: float = 1.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = checked_url(base_url)
        self._timeout = timeout_of(timeout)
        self._talk = conversation_of(
            self.base_url, retries=retries, backoff=backoff, deadline=deadline, fallback=fallback, pause=pause
        )
        self._http = httpx.Client(
            base_url=self.base_url, headers=headers_of(key), limits=LIMITS, transport=transport, timeout=self._timeout
        )

    def __repr__(self) -> str:
        return f"Client({self.base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the end of ``with`` does it. A client that was closed cannot be used again."""
        self._http.close()

    # Fleets.

    def create_fleet(self, fleet: str, arms: calls.Arms, features: Any, **settings: Any) -> values.Fleet:
        """Create a fleet; the same definition again changes nothing, another is refused.

        Parameters
        ----------
        fleet : str
            Its name.
        arms : sequence of str, or mapping
            With ``arm_features``, a mapping from arms to what is known about them, None where that is nothing.
        features : FeatureSpec, or sequence of names, features or their JSON
            What a context is made of.
        **settings
            ``policy``, ``prior``, ``evaluation_budget``, ``rewards``, ``task_features``, ``time_to_live`` and all else
            that a definition has, with the defaults of :class:`posse.Posse` (``posse docs service``).

        Returns
        -------
        Fleet
            The definition in force, with counts and state.

        Raises
        ------
        InvalidValue
            If a name or value cannot be sent, before anything is.
        ServiceError
            With code "fleet_exists" if there is one with another definition, "invalid" if the definition is refused.
        ServiceUnavailable
            If no answer came within ``retries`` and ``deadline``.
        """
        return self._ask(calls.create_fleet(fleet, arms, features, settings))

    def fleet(self, fleet: str) -> values.Fleet:
        """Return a fleet with its definition, counts and state.

        Parameters
        ----------
        fleet : str

        Returns
        -------
        Fleet

        Raises
        ------
        ServiceError
            With code "unknown_fleet" if there is none.
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.fleet(fleet))

    def fleets(self) -> list[values.Fleet]:
        """Return all fleets that the key may see.

        Returns
        -------
        list of Fleet

        Raises
        ------
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.fleets())

    def delete_fleet(self, fleet: str) -> None:
        """Delete a fleet with its log, for good.

        Parameters
        ----------
        fleet : str

        Raises
        ------
        ServiceError
            With code "unknown_fleet" if there is none, also if it was deleted before.
        ServiceUnavailable
            If no answer came.
        """
        self._ask(calls.delete_fleet(fleet))

    def repair(self, fleet: str) -> values.Fleet:
        """Build a fleet again from its log: one that is set aside is served again.

        Parameters
        ----------
        fleet : str
            One that serves goes on meanwhile.

        Returns
        -------
        Fleet

        Raises
        ------
        ServiceError
            With code "unknown_fleet" if there is none.
        ServiceUnavailable
            If no answer came within ``timeout`` and ``deadline``: a long log may take longer, and is built all the
            same.
        """
        return self._ask(calls.repair(fleet))

    def add_arm(self, fleet: str, arm: str, features: Mapping[str, Any] | None = None) -> values.Fleet:
        """Add an arm to a fleet, or take a retired one back with what it taught.

        Parameters
        ----------
        fleet, arm : str
        features : mapping, default None
            What is known about the arm, in a fleet with ``arm_features``. None: nothing.

        Returns
        -------
        Fleet

        Raises
        ------
        ServiceError
            With code "arm_exists" if there is one that is not retired, "unknown_fleet", or "invalid".
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.add_arm(fleet, arm, features))

    def retire_arm(self, fleet: str, arm: str) -> values.Fleet:
        """Retire an arm: it is not chosen any more; what it taught is kept, and its late rewards count.

        Parameters
        ----------
        fleet, arm : str
            One that is retired stays so.

        Returns
        -------
        Fleet

        Raises
        ------
        ServiceError
            With code "unknown_arm" or "unknown_fleet", or "invalid" if it is the last one.
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.retire_arm(fleet, arm))

    def create_catalogue(self, fleet: str, features: Any, arm_features: Any, **settings: Any) -> values.Fleet:
        """Create a catalogue, whose arms come with every request; see :meth:`choose`.

        The same definition again changes nothing, another is refused.

        Parameters
        ----------
        fleet : str
        features : FeatureSpec, or sequence of names, features or their JSON
            What a context is made of.
        arm_features : FeatureSpec, or sequence of names, features or their JSON
            What is known about an arm.
        **settings
            All else that a definition has, with the defaults of :class:`posse.Catalogue`.

        Returns
        -------
        Fleet

        Raises
        ------
        InvalidValue, ServiceError, ServiceUnavailable
            As in :meth:`create_fleet`.
        """
        return self._ask(calls.create_catalogue(fleet, features, arm_features, settings))

    def choose(
        self,
        fleet: str,
        task: str,
        context: calls.Context,
        eligible: Mapping[str, Mapping[str, Any]],
        *,
        k: int = 1,
        explore: bool = True,
        key: str | None = None,
    ) -> list[values.Decision]:
        """Ask a catalogue to choose among arms with their features.

        There is no fallback: without the service it raises.

        Parameters
        ----------
        fleet, task : str
        context : mapping, or sequence
            Values by feature, or those of all features in their order.
        eligible : mapping
            The features of every arm that may be chosen, by arm.
        k : int, default 1
            How many distinct arms.
        explore : bool, default True
            False takes the arms with the highest expected rewards.
        key : str, default None
            What makes this request the same as an earlier one: it gets that one's decisions. None: a new one.

        Returns
        -------
        list of Decision
            ``k`` of them, best place first, each with an id and a reward of its own.

        Raises
        ------
        InvalidValue
            If a name or value cannot be sent, before anything is.
        ServiceError
            With code "unknown_fleet", "invalid", or "key_reused" if the key came with another request.
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.choose(fleet, task, context, eligible, k=k, explore=explore, key=key))

    def set_task_features(self, fleet: str, tasks: Mapping[str, Mapping[str, Any]]) -> int:
        """Say what is known about tasks, in a fleet with task features.

        Parameters
        ----------
        fleet : str
        tasks : mapping
            Features by task. Tasks that the fleet has not seen yet are there afterwards.

        Returns
        -------
        int
            About how many tasks something was said.

        Raises
        ------
        InvalidValue
            If a name or value cannot be sent, before anything is.
        ServiceError
            With code "unknown_fleet" or "invalid".
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.set_task_features(fleet, tasks))

    # Decisions and rewards.

    def decide(
        self,
        fleet: str,
        task: str,
        context: calls.Context,
        *,
        eligible: Sequence[str] | None = None,
        explore: bool = True,
        key: str | None = None,
    ) -> values.Decision:
        """Decide which arm to pull.

        The service logs the decision before it answers. Tries of one call are one decision; another call is another
        decision, unless it has the ``key`` of an earlier one.

        Parameters
        ----------
        fleet, task : str
            A task that is new starts from the population.
        context : mapping, or sequence
            Values by feature, or those of all features in their order.
        eligible : sequence of str, default None
            The arms that can be taken. None: all that are not retired.
        explore : bool, default True
            False takes the arm with the highest expected reward and says propensity 1.
        key : str, default None
            What makes this request the same as an earlier one, printable ASCII: it gets that one's decision. None: a
            new one.

        Returns
        -------
        Decision
            ``id``, ``arm``, ``propensity``, and ``probabilities``, ``mean`` and ``sd`` by eligible arm. With
            ``fallback=True`` if the service could not be asked and the client has a fallback: no id, and nothing is
            learned from it.

        Raises
        ------
        InvalidValue
            If a name or value cannot be sent (NaN, a task that is not text), before anything is.
        ServiceError
            With code "unknown_fleet", "invalid" if the context or an arm is refused, or "key_reused" if the key came
            with another request.
        ServiceUnavailable
            If no answer came within ``retries`` and ``deadline`` and there is no fallback, or its arm is not eligible.
        """
        return self._run(self._talk.decide(fleet, task, context, eligible, explore, key))

    def rank(
        self,
        fleet: str,
        task: str,
        context: calls.Context,
        k: int,
        *,
        eligible: Sequence[str] | None = None,
        explore: bool = True,
        key: str | None = None,
    ) -> list[values.Decision]:
        """Choose ``k`` distinct arms, best place first: a decision per place, each with a reward of its own.

        There is no fallback: without the service it raises.

        Parameters
        ----------
        fleet, task : str
        context : mapping, or sequence
        k : int
            How many places, at most the number of eligible arms.
        eligible : sequence of str, default None
        explore : bool, default True
        key : str, default None
            As in :meth:`decide`.

        Returns
        -------
        list of Decision
            The propensity of a place is that of its arm among those that the places above have left.

        Raises
        ------
        InvalidValue, ServiceError, ServiceUnavailable
            As in :meth:`decide`.
        """
        return self._ask(calls.rank(fleet, task, context, k, eligible=eligible, explore=explore, key=key))

    def decide_many(
        self, fleet: str, asked: Iterable[Mapping[str, Any]], *, key: str | None = None
    ) -> list[values.Decision]:
        """Decide many at once, all or none.

        Parameters
        ----------
        fleet : str
        asked : iterable of mappings
            Each with ``task`` and ``context``, and maybe ``eligible``, ``explore`` and ``key``, as in :meth:`decide`.
        key : str, default None
            For the batch as a whole. None: a new one.

        Returns
        -------
        list of Decision
            In the order in which they were asked for; all of them fallbacks if the service could not be asked.

        Raises
        ------
        InvalidValue, ServiceError, ServiceUnavailable
            As in :meth:`decide`; ServiceError with code "batch_too_large" if the service does not take so many at once.
        """
        return self._run(self._talk.decide_many(fleet, calls.questions(asked), key))

    def reward(self, decision: values.Decision | str, value: float, *, event: str | None = None) -> bool:
        """Give a decision, or the one of this id, its reward.

        It counts once: the same reward again changes nothing, so a call that failed may be made again, now or later.

        Parameters
        ----------
        decision : Decision or str
            A decision or its id.
        value : float
            What the arm earned, in the unit of all rewards.
        event : str, default None
            What it is called, where the fleet takes several rewards of one decision (``reward_events``); each event
            counts once.

        Returns
        -------
        bool
            True if it was news; False if the same had come before, or the decision is a fallback.

        Raises
        ------
        InvalidValue
            If the value cannot be sent, such as NaN, before anything is.
        ServiceError
            With code "unknown_decision", "decision_expired" if it is older than the fleet's ``time_to_live``,
            "reward_conflict" if it has another reward (see :meth:`correct`), "event_required", or "invalid".
        ServiceUnavailable
            If no answer came: keep the id and try again later.
        """
        decision_id = calls.rewarded_id(decision)
        return False if decision_id is None else self._ask(calls.reward(decision_id, value, event))

    def correct(self, decision: values.Decision | str, value: float, *, instead_of: float | None = None) -> bool:
        """Give a decision another reward than it has; what was learned from that is taken back.

        Parameters
        ----------
        decision : Decision or str
            A decision or its id.
        value : float
            The right reward.
        instead_of : float, default None
            The reward that it is to have now: a conflict if it has another. None: whatever it has.

        Returns
        -------
        bool
            True if it was news; False if it has this reward, or the decision is a fallback.

        Raises
        ------
        InvalidValue
            If a value cannot be sent, before anything is.
        ServiceError
            With code "not_rewarded" if it has no reward yet, "reward_conflict" if it has another than ``instead_of``,
            "unknown_decision", "decision_expired" or "invalid".
        ServiceUnavailable
            If no answer came.
        """
        decision_id = calls.rewarded_id(decision)
        return False if decision_id is None else self._ask(calls.correct(decision_id, value, instead_of))

    def reward_many(self, rewards: calls.Rewards) -> values.RewardCounts:
        """Give many decisions their rewards, all or none.

        Parameters
        ----------
        rewards : iterable of pairs, or mapping
            Pairs of a decision or its id and its reward, or rewards by id; a third value names the event, where several
            make a reward. Fallbacks are left out.

        Returns
        -------
        RewardCounts
            How many were ``new``, and how many the ``same`` as had come before.

        Raises
        ------
        InvalidValue, ServiceError, ServiceUnavailable
            As in :meth:`reward`, for any of them; ServiceError with code "batch_too_large" if the service does not take
            so many at once.
        """
        pairs = calls.rewards_of(rewards)
        return self._ask(calls.reward_many(pairs)) if pairs else values.RewardCounts(0, 0)

    def ingest(self, fleet: str, rows: Sequence[Mapping[str, Any]]) -> values.IngestCounts:
        """Take decisions that were made elsewhere into a fleet's log, with their rewards.

        All or none; a row that was taken in before changes nothing.

        Parameters
        ----------
        fleet : str
        rows : sequence of mappings
            Rows as an export of the log has them.

        Returns
        -------
        IngestCounts
            New ``decisions``, new ``rewards``, and rows of which nothing was new (``same``).

        Raises
        ------
        InvalidValue
            If a value cannot be sent, before anything is.
        ServiceError
            With code "unknown_fleet", "invalid", "reward_conflict" or "batch_too_large".
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.ingest(fleet, rows))

    def decision(self, decision_id: str) -> values.LogRow:
        """Return a decision as it is logged.

        Parameters
        ----------
        decision_id : str

        Returns
        -------
        LogRow
            With its context, probabilities, state ("pending", "rewarded" or "expired") and reward.

        Raises
        ------
        ServiceError
            With code "unknown_decision" if there is none.
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.decision(decision_id))

    # Tasks and what was learned.

    def tasks(self, fleet: str, search: str = "", *, page: int = 100) -> Iterator[values.TaskRow]:
        """Go over all tasks whose names contain a text, ordered by name.

        Parameters
        ----------
        fleet : str
        search : str, default ""
            Part of the name; case does not matter. "": all.
        page : int, default 100
            How many are asked for at once, at most 1000.

        Returns
        -------
        iterator of TaskRow
            It asks the service as it goes on.

        Raises
        ------
        ServiceError
            With code "unknown_fleet", when the iteration starts.
        ServiceUnavailable
            If no answer came.
        """
        after: str | None = ""
        while after is not None:
            rows, after = self._ask(calls.tasks(fleet, search, after, page))
            yield from rows

    def task(self, fleet: str, task: str) -> values.Task:
        """Return a task with what is believed about it, and how much of that is borrowed from the others.

        Parameters
        ----------
        fleet, task : str

        Returns
        -------
        Task

        Raises
        ------
        ServiceError
            With code "unknown_task" or "unknown_fleet".
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.task(fleet, task))

    def erase(self, fleet: str, task: str) -> None:
        """Erase a task, from the log, from snapshots and from what was learned; it cannot be taken back.

        Parameters
        ----------
        fleet, task : str

        Raises
        ------
        ServiceError
            With code "unknown_task", also if it was erased before, or "unknown_fleet".
        ServiceUnavailable
            If no answer came.
        """
        self._ask(calls.erase(fleet, task))

    def export(self, fleet: str, task: str) -> dict[str, Any]:
        """Return all that is kept about a task, as plain values: for a person who asks what is known about them.

        Parameters
        ----------
        fleet, task : str

        Returns
        -------
        dict

        Raises
        ------
        ServiceError
            With code "unknown_task" or "unknown_fleet".
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.export(fleet, task))

    def history(self, fleet: str, task: str, *, page: int = 100) -> Iterator[values.LogRow]:
        """Go over the decisions of a task, the newest first.

        Parameters
        ----------
        fleet, task : str
        page : int, default 100
            How many are asked for at once, at most 1000.

        Returns
        -------
        iterator of LogRow
            It asks the service as it goes on.

        Raises
        ------
        ServiceError
            With code "unknown_fleet" or "unknown_task", when the iteration starts.
        ServiceUnavailable
            If no answer came.
        """
        rows, before = self._ask(calls.history(fleet, task, None, page))
        yield from rows
        while before is not None:
            rows, before = self._ask(calls.history(fleet, task, before, page))
            yield from rows

    def pending(self, fleet: str, *, limit: int = 100) -> values.Pending:
        """Return decisions that wait for their rewards, the oldest first, and how many there are.

        Parameters
        ----------
        fleet : str
        limit : int, default 100
            How many to return at most.

        Returns
        -------
        Pending
            ``pending``, and the ``total`` number of them.

        Raises
        ------
        ServiceError
            With code "unknown_fleet".
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.pending(fleet, limit))

    def population(self, fleet: str) -> values.Population:
        """Return what the tasks have in common, and what could not be learned.

        Parameters
        ----------
        fleet : str

        Returns
        -------
        Population

        Raises
        ------
        ServiceError
            With code "unknown_fleet".
        ServiceUnavailable
            If no answer came, or the fleet is set aside.
        """
        return self._ask(calls.population(fleet))

    def activity(self, fleet: str, *, minutes: int = 60) -> values.Activity:
        """Return decisions and rewards of the last minutes.

        Parameters
        ----------
        fleet : str
        minutes : int, default 60
            How far back.

        Returns
        -------
        Activity
            Counts in stretches of ``stretch`` seconds; those in which nothing happened may be left out.

        Raises
        ------
        ServiceError
            With code "unknown_fleet", or "invalid" if ``minutes`` is out of its range.
        ServiceUnavailable
            If no answer came.
        """
        return self._ask(calls.activity(fleet, minutes))

    def value(self, fleet: str, *, baseline: str = "uniform", rows: int = 20_000) -> values.Value:
        """Return the mean reward of the policy against a baseline, from the newest rows of the log.

        Parameters
        ----------
        fleet : str
        baseline : str, default "uniform"
            "uniform", which takes any eligible arm, or "arm:NAME", which always takes that arm.
        rows : int, default 20000
            How many of the newest rows to look at.

        Returns
        -------
        Value
            Estimates with intervals, or None where ``refusal`` says why there are none.

        Raises
        ------
        ServiceError
            With code "unknown_fleet", or "invalid" if the baseline is none.
        ServiceUnavailable
            If no answer came, or the fleet is set aside.
        """
        return self._ask(calls.value(fleet, baseline, rows))

    def expected(self, fleet: str, task: str, context: calls.Context) -> tuple[values.ExpectedArm, ...]:
        """Return what every arm is expected to earn in a context, and its probability of being best; decides nothing.

        Parameters
        ----------
        fleet, task : str
            A task that is new has what the population says.
        context : mapping, or sequence
            As in :meth:`decide`.

        Returns
        -------
        tuple of ExpectedArm
            Expected reward with its 90 % interval, ``probability_best``, and the ``probability`` of being chosen.

        Raises
        ------
        InvalidValue
            If a name or value cannot be sent, before anything is.
        ServiceError
            With code "unknown_fleet" or "invalid".
        ServiceUnavailable
            If no answer came, or the fleet is set aside.
        """
        return self._ask(calls.expected(fleet, task, context))

    def insights(self, fleet: str) -> dict[str, Any]:
        """Return what was found out about a fleet and its log: uplift of the logged policy, which arm is best where.

        Parameters
        ----------
        fleet : str

        Returns
        -------
        dict
            As JSON. Its ``state`` is "making" until it was made for the first time: ask again.

        Raises
        ------
        ServiceError
            With code "unknown_fleet".
        ServiceUnavailable
            If no answer came, or the fleet is set aside.
        """
        return self._ask(calls.insights(fleet))

    def log(self, fleet: str, path: str | Path) -> Path:
        """Save the log of a fleet to a file, which is there when it is whole.

        Parameters
        ----------
        fleet : str
        path : path
            Ends in ``.jsonl``, ``.ndjson`` or ``.parquet``. A file of that name is replaced.

        Returns
        -------
        Path

        Raises
        ------
        InvalidValue
            If the path ends in something else.
        MissingFile
            If there is no such folder.
        SavedFileError
            If the file cannot be written.
        ServiceError
            With code "unknown_fleet".
        ServiceUnavailable
            If no answer came. A whole log may take longer than ``deadline``; it is waited for up to 600 s at a time.
        """
        self._ask(calls.log(fleet, path))
        return Path(path)

    def health(self) -> values.Health:
        """Return whether the service takes requests, in one try.

        Returns
        -------
        Health
            ``ready``, how many ``fleets``, and whether this process is the one that learns (``leading``).

        Raises
        ------
        ServiceUnavailable
            If no answer came.
        """
        return self._run(self._talk.ask(calls.health(), tries=1))

    def _ask(self, call: calls.Call[T]) -> T:
        return self._run(self._talk.ask(call))

    def _run(self, steps: Steps[T]) -> T:
        came: Answer | Lost | None = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Send):
                came = self._send(step)
            else:
                time.sleep(step.seconds)
                came = None

    def _send(self, step: Send) -> Answer | Lost:
        try:
            response = self._http.send(request_of(self._http, step, self._timeout), stream=True)
            try:
                with Body(step.call, response.status_code, step.until) as body:
                    for chunk in response.iter_bytes():
                        body.add(chunk)
                    return Answer(response.status_code, response.headers, body.whole())
            finally:
                response.close()
        except FAILURES as error:
            return lost(error)
