"""The client for event loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
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
from posse.client.synchronous import Client

T = TypeVar("T")


class AsyncClient:
    """A client of ``posse serve`` for asyncio; settings and methods are those of :class:`posse.client.Client`.

    Parameters
    ----------
    base_url : str
    key : str, optional
    timeout : float or httpx.Timeout, default 2.0
    retries : int, default 3
    backoff : float, default 0.1
    deadline : float or None, default 10.0
    fallback : str or callable, optional
        A plain callable: it is not awaited.
    pause : float, default 1.0
    transport : httpx.AsyncBaseTransport, optional

    Examples
    --------
    >>> client = AsyncClient("http://127.0.0.1:8080", fallback="coffee")
    >>> async with client:  # doctest: +SKIP
    ...     decision = await client.decide("shops", "store-17", {"hour": 9.5})
    ...     await client.reward(decision, 1.0)
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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = checked_url(base_url)
        self._timeout = timeout_of(timeout)
        self._talk = conversation_of(
            self.base_url, retries=retries, backoff=backoff, deadline=deadline, fallback=fallback, pause=pause
        )
        self._http = httpx.AsyncClient(
            base_url=self.base_url, headers=headers_of(key), limits=LIMITS, transport=transport, timeout=self._timeout
        )

    def __repr__(self) -> str:
        return f"AsyncClient({self.base_url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    # Fleets.

    async def create_fleet(self, fleet: str, arms: calls.Arms, features: Any, **settings: Any) -> values.Fleet:
        """Create a fleet; the same definition again changes nothing, another is refused."""
        return await self._ask(calls.create_fleet(fleet, arms, features, settings))

    async def fleet(self, fleet: str) -> values.Fleet:
        """Return a fleet with its counts."""
        return await self._ask(calls.fleet(fleet))

    async def fleets(self) -> list[values.Fleet]:
        """Return all fleets."""
        return await self._ask(calls.fleets())

    async def delete_fleet(self, fleet: str) -> None:
        """Delete a fleet with its log."""
        await self._ask(calls.delete_fleet(fleet))

    async def repair(self, fleet: str) -> values.Fleet:
        """Build a fleet again from its log: one that is set aside is served again."""
        return await self._ask(calls.repair(fleet))

    async def add_arm(self, fleet: str, arm: str, features: Mapping[str, Any] | None = None) -> values.Fleet:
        """Add an arm, with what is known about it if anything, or take a retired one back."""
        return await self._ask(calls.add_arm(fleet, arm, features))

    async def retire_arm(self, fleet: str, arm: str) -> values.Fleet:
        """Retire an arm: it is not taken any more; its rewards are kept."""
        return await self._ask(calls.retire_arm(fleet, arm))

    async def create_catalogue(self, fleet: str, features: Any, arm_features: Any, **settings: Any) -> values.Fleet:
        """Create a catalogue, whose arms come with every request; see :meth:`choose`."""
        return await self._ask(calls.create_catalogue(fleet, features, arm_features, settings))

    async def choose(
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
        return await self._ask(calls.choose(fleet, task, context, eligible, k=k, explore=explore, key=key))

    async def set_task_features(self, fleet: str, tasks: Mapping[str, Mapping[str, Any]]) -> int:
        """Say what is known about tasks, in a fleet with task features; return of how many."""
        return await self._ask(calls.set_task_features(fleet, tasks))

    # Decisions and rewards.

    async def decide(
        self,
        fleet: str,
        task: str,
        context: calls.Context,
        *,
        eligible: Sequence[str] | None = None,
        explore: bool = True,
        key: str | None = None,
    ) -> values.Decision:
        """Decide which arm to pull."""
        return await self._run(self._talk.decide(fleet, task, context, eligible, explore, key))

    async def rank(
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
        """Choose ``k`` distinct arms, best place first: a decision per place, each with a reward of its own."""
        return await self._ask(calls.rank(fleet, task, context, k, eligible=eligible, explore=explore, key=key))

    async def decide_many(
        self, fleet: str, asked: Iterable[Mapping[str, Any]], *, key: str | None = None
    ) -> list[values.Decision]:
        """Decide many at once."""
        return await self._run(self._talk.decide_many(fleet, calls.questions(asked), key))

    async def reward(self, decision: values.Decision | str, value: float, *, event: str | None = None) -> bool:
        """Give a decision, or the one of this id, its reward; return whether it was news."""
        decision_id = calls.rewarded_id(decision)
        return False if decision_id is None else await self._ask(calls.reward(decision_id, value, event))

    async def correct(self, decision: values.Decision | str, value: float, *, instead_of: float | None = None) -> bool:
        """Give a decision another reward than it has; what was learned from that is taken back."""
        decision_id = calls.rewarded_id(decision)
        return False if decision_id is None else await self._ask(calls.correct(decision_id, value, instead_of))

    async def reward_many(self, rewards: calls.Rewards) -> values.RewardCounts:
        """Give many decisions their rewards, all or none: pairs of decision or id and reward, or a mapping of ids.

        A third value names the event, where several make a reward.
        """
        pairs = calls.rewards_of(rewards)
        return await self._ask(calls.reward_many(pairs)) if pairs else values.RewardCounts(0, 0)

    async def ingest(self, fleet: str, rows: Sequence[Mapping[str, Any]]) -> values.IngestCounts:
        """Take decisions that were made elsewhere into a fleet's log, with their rewards: rows as an export has them.

        All or none; a row that was taken in before changes nothing.
        """
        return await self._ask(calls.ingest(fleet, rows))

    async def decision(self, decision_id: str) -> values.LogRow:
        """Return a decision as it is logged."""
        return await self._ask(calls.decision(decision_id))

    # Tasks and what was learned.

    async def tasks(self, fleet: str, search: str = "", *, page: int = 100) -> AsyncIterator[values.TaskRow]:
        """Go over all tasks whose names contain a text, by name; so many are asked for at once."""
        after: str | None = ""
        while after is not None:
            rows, after = await self._ask(calls.tasks(fleet, search, after, page))
            for row in rows:
                yield row

    async def task(self, fleet: str, task: str) -> values.Task:
        """Return a task with what is believed about it, and how much of it is borrowed."""
        return await self._ask(calls.task(fleet, task))

    async def erase(self, fleet: str, task: str) -> None:
        """Erase a task, from the log and from what was learned."""
        await self._ask(calls.erase(fleet, task))

    async def export(self, fleet: str, task: str) -> dict[str, Any]:
        """Return all that is kept about a task, as plain values."""
        return await self._ask(calls.export(fleet, task))

    async def history(self, fleet: str, task: str, *, page: int = 100) -> AsyncIterator[values.LogRow]:
        """Go over the decisions of a task, the newest first; so many are asked for at once."""
        rows, before = await self._ask(calls.history(fleet, task, None, page))
        for row in rows:
            yield row
        while before is not None:
            rows, before = await self._ask(calls.history(fleet, task, before, page))
            for row in rows:
                yield row

    async def pending(self, fleet: str, *, limit: int = 100) -> values.Pending:
        """Return decisions that wait for their rewards, the oldest first, and how many there are."""
        return await self._ask(calls.pending(fleet, limit))

    async def population(self, fleet: str) -> values.Population:
        """Return what the tasks have in common."""
        return await self._ask(calls.population(fleet))

    async def activity(self, fleet: str, *, minutes: int = 60) -> values.Activity:
        """Return decisions and rewards of the last minutes."""
        return await self._ask(calls.activity(fleet, minutes))

    async def value(self, fleet: str, *, baseline: str = "uniform", rows: int = 20_000) -> values.Value:
        """Return the value of the policy against ``"uniform"`` or ``"arm:NAME"``, from the newest rows of the log."""
        return await self._ask(calls.value(fleet, baseline, rows))

    async def expected(self, fleet: str, task: str, context: calls.Context) -> tuple[values.ExpectedArm, ...]:
        """Return what every arm is expected to earn in a context, and its probability of being best."""
        return await self._ask(calls.expected(fleet, task, context))

    async def insights(self, fleet: str) -> dict[str, Any]:
        """Return what was found out about a fleet and its log, as JSON; its ``state`` is "making" at first."""
        return await self._ask(calls.insights(fleet))

    async def log(self, fleet: str, path: str | Path) -> Path:
        """Save the log to a ``.jsonl`` or ``.parquet`` file, which is there when it is whole; return its path."""
        await self._ask(calls.log(fleet, path))
        return Path(path)

    async def health(self) -> values.Health:
        """Return whether the service takes requests, in one try."""
        return await self._run(self._talk.ask(calls.health(), tries=1))

    async def _ask(self, call: calls.Call[T]) -> T:
        return await self._run(self._talk.ask(call))

    async def _run(self, steps: Steps[T]) -> T:
        came: Answer | Lost | None = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Send):
                came = await self._send(step)
            else:
                await asyncio.sleep(step.seconds)
                came = None

    async def _send(self, step: Send) -> Answer | Lost:
        try:
            response = await self._http.send(request_of(self._http, step, self._timeout), stream=True)
            try:
                with Body(step.call, response.status_code, step.until) as body:
                    async for chunk in response.aiter_bytes():
                        body.add(chunk)
                    # A file is brought to the disk here, which may take long.
                    whole = body.whole() if body.target is None else await asyncio.to_thread(body.whole)
                    return Answer(response.status_code, response.headers, whole)
            finally:
                await response.aclose()
        except FAILURES as error:
            return lost(error)


# One text for both, so that help(AsyncClient.decide) says as much as help(Client.decide); what is above is a summary.
for _name, _method in vars(Client).items():
    if not _name.startswith("_") and _name in vars(AsyncClient):
        vars(AsyncClient)[_name].__doc__ = _method.__doc__
