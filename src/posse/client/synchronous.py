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
        """Close all connections."""
        self._http.close()

    # Fleets.

    def create_fleet(self, fleet: str, arms: calls.Arms, features: Any, **settings: Any) -> values.Fleet:
        """Create a fleet; the same definition again changes nothing, another is refused.

        Parameters
        ----------
        fleet : str
        arms : sequence of str, or mapping
            With ``arm_features``, a mapping from arms to what is known about them, None where that is nothing.
        features : FeatureSpec, or sequence of names, features or their JSON
        **settings
            ``policy``, ``prior``, ``task_features``, ``time_to_live`` and all else that a definition has.
        """
        return self._ask(calls.create_fleet(fleet, arms, features, settings))

    def fleet(self, fleet: str) -> values.Fleet:
        """Return a fleet with its counts."""
        return self._ask(calls.fleet(fleet))

    def fleets(self) -> list[values.Fleet]:
        """Return all fleets."""
        return self._ask(calls.fleets())

    def delete_fleet(self, fleet: str) -> None:
        """Delete a fleet with its log."""
        self._ask(calls.delete_fleet(fleet))

    def repair(self, fleet: str) -> values.Fleet:
        """Build a fleet anew from its log: one that is set aside is served again."""
        return self._ask(calls.repair(fleet))

    def add_arm(self, fleet: str, arm: str, features: Mapping[str, Any] | None = None) -> values.Fleet:
        """Add an arm, with what is known about it if anything, or take a retired one back."""
        return self._ask(calls.add_arm(fleet, arm, features))

    def retire_arm(self, fleet: str, arm: str) -> values.Fleet:
        """Retire an arm: it is not taken any more; its rewards are kept."""
        return self._ask(calls.retire_arm(fleet, arm))

    def create_catalogue(self, fleet: str, features: Any, arm_features: Any, **settings: Any) -> values.Fleet:
        """Create a catalogue, whose arms come with every request; see :meth:`choose`."""
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
        """Ask a catalogue to choose among arms with their features; a list of ``k`` decisions, best place first.

        There is no fallback.
        """
        return self._ask(calls.choose(fleet, task, context, eligible, k=k, explore=explore, key=key))

    def set_task_features(self, fleet: str, tasks: Mapping[str, Mapping[str, Any]]) -> int:
        """Say what is known about tasks, in a fleet with task features; return of how many."""
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

        Parameters
        ----------
        fleet, task : str
            A task that is new is begun.
        context : mapping, or sequence
            Values by feature, or those of all features in their order.
        eligible : sequence of str, optional
            The arms that can be taken. Default: all.
        explore : bool, default True
            Whether to explore, or take the arm with the best mean.
        key : str, optional
            What makes this request the same as an earlier one. Default: a new one.
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

        Parameters as in :meth:`decide`. There is no fallback: without the service it raises.
        """
        return self._ask(calls.rank(fleet, task, context, k, eligible=eligible, explore=explore, key=key))

    def decide_many(
        self, fleet: str, asked: Iterable[Mapping[str, Any]], *, key: str | None = None
    ) -> list[values.Decision]:
        """Decide many at once.

        Parameters
        ----------
        fleet : str
        asked : iterable of mappings
            Each with ``task`` and ``context``, and maybe ``eligible``, ``explore`` and ``key``.
        key : str, optional
            For the batch as a whole. Default: a new one.
        """
        return self._run(self._talk.decide_many(fleet, calls.questions(asked), key))

    def reward(self, decision: values.Decision | str, value: float, *, event: str | None = None) -> bool:
        """Give a decision, or the one of this id, its reward.

        Parameters
        ----------
        decision : Decision or str
        value : float
        event : str, optional
            What it is called, where the fleet takes several rewards of one decision (``reward_events``); it counts
            once.

        Returns
        -------
        bool
            True if it was news; False if the same had come before, or the decision is a fallback.
        """
        decision_id = calls.rewarded_id(decision)
        return False if decision_id is None else self._ask(calls.reward(decision_id, value, event))

    def correct(self, decision: values.Decision | str, value: float, *, instead_of: float | None = None) -> bool:
        """Give a decision another reward than it has; what was learned from that is taken back.

        Parameters
        ----------
        decision : Decision or str
        value : float
        instead_of : float, optional
            The reward that it is to have now: a conflict if it has another.

        Returns
        -------
        bool
            True if it was news; False if it has this reward, or the decision is a fallback.
        """
        decision_id = calls.rewarded_id(decision)
        return False if decision_id is None else self._ask(calls.correct(decision_id, value, instead_of))

    def reward_many(self, rewards: calls.Rewards) -> values.RewardCounts:
        """Give many decisions their rewards, all or none: pairs of decision or id and reward, or a mapping of ids.

        A third value names the event, where several make a reward.
        """
        pairs = calls.rewards_of(rewards)
        return self._ask(calls.reward_many(pairs)) if pairs else values.RewardCounts(0, 0)

    def ingest(self, fleet: str, rows: Sequence[Mapping[str, Any]]) -> values.IngestCounts:
        """Take decisions that were made elsewhere into a fleet's log, with their rewards: rows as an export has them.

        All or none; a row that was taken in before changes nothing.
        """
        return self._ask(calls.ingest(fleet, rows))

    def decision(self, decision_id: str) -> values.LogRow:
        """Return a decision as it is logged."""
        return self._ask(calls.decision(decision_id))

    # Tasks and what was learned.

    def tasks(self, fleet: str, search: str = "", *, page: int = 100) -> Iterator[values.TaskRow]:
        """Go over all tasks whose names contain a text, by name; so many are asked for at once."""
        after: str | None = ""
        while after is not None:
            rows, after = self._ask(calls.tasks(fleet, search, after, page))
            yield from rows

    def task(self, fleet: str, task: str) -> values.Task:
        """Return a task with what is believed about it, and how much of it is borrowed."""
        return self._ask(calls.task(fleet, task))

    def erase(self, fleet: str, task: str) -> None:
        """Erase a task, from the log and from what was learned."""
        self._ask(calls.erase(fleet, task))

    def export(self, fleet: str, task: str) -> dict[str, Any]:
        """Return all that is kept about a task, as plain values."""
        return self._ask(calls.export(fleet, task))

    def history(self, fleet: str, task: str, *, page: int = 100) -> Iterator[values.LogRow]:
        """Go over the decisions of a task, the newest first; so many are asked for at once."""
        rows, before = self._ask(calls.history(fleet, task, None, page))
        yield from rows
        while before is not None:
            rows, before = self._ask(calls.history(fleet, task, before, page))
            yield from rows

    def pending(self, fleet: str, *, limit: int = 100) -> values.Pending:
        """Return decisions that wait for their rewards, the oldest first, and how many there are."""
        return self._ask(calls.pending(fleet, limit))

    def population(self, fleet: str) -> values.Population:
        """Return what the tasks have in common."""
        return self._ask(calls.population(fleet))

    def activity(self, fleet: str, *, minutes: int = 60) -> values.Activity:
        """Return decisions and rewards of the last minutes."""
        return self._ask(calls.activity(fleet, minutes))

    def value(self, fleet: str, *, baseline: str = "uniform", rows: int = 20_000) -> values.Value:
        """Return the value of the policy against ``"uniform"`` or ``"arm:NAME"``, from the newest rows of the log."""
        return self._ask(calls.value(fleet, baseline, rows))

    def expected(self, fleet: str, task: str, context: calls.Context) -> tuple[values.ExpectedArm, ...]:
        """Return what every arm is expected to earn in a situation, and how likely it is the best; decides nothing."""
        return self._ask(calls.expected(fleet, task, context))

    def insights(self, fleet: str) -> dict[str, Any]:
        """Return what was found out about a fleet and its log, as JSON; its ``state`` is "making" at first."""
        return self._ask(calls.insights(fleet))

    def log(self, fleet: str, path: str | Path) -> Path:
        """Save the log to a ``.jsonl`` or ``.parquet`` file, which is there when it is whole; return its path."""
        self._ask(calls.log(fleet, path))
        return Path(path)

    def health(self) -> values.Health:
        """Return whether the service takes requests, in one try."""
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
