"""The two clients, one for threads and one for event loops: the same calls, and the same settings."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import httpx

from posse.client import calls
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
P = ParamSpec("P")


def _as_method(function: Callable[..., Any], call: Callable[..., Any]) -> Any:
    """Return a function that help() shows as a method with the arguments and words of a call."""
    signature, this = inspect.signature(call), inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    returned = str(signature.return_annotation).removeprefix("Call[").removesuffix("]").replace("api.", "")
    method = update_wrapper(function, call)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[this, *signature.parameters.values()], return_annotation=returned
    )
    return method


class Endpoint(Generic[P, T]):
    """A method of both clients that makes a call."""

    def __init__(self, call: Callable[P, calls.Call[T]]) -> None:
        def ask(client: Client | AsyncClient, *args: P.args, **kwargs: P.kwargs) -> Any:
            return client._ask(call(*args, **kwargs))

        self.method = _as_method(ask, call)

    @overload
    def __get__(self, client: None, owner: Any) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, client: Client, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: Any) -> Any:
        """Return the method of a client, or that of a class."""
        return self.method if client is None else self.method.__get__(client, owner)


class Pages(Generic[P, T]):
    """A method of both clients that goes over rows, page by page; the last argument of a page is where it begins."""

    def __init__(self, call: Callable[P, calls.Call[tuple[Sequence[T], Any]]], start: str) -> None:
        def rows(client: Client | AsyncClient, *args: P.args, **kwargs: P.kwargs) -> Any:
            return client._rows(call(*args, **kwargs), start)

        self.method = _as_method(rows, call)

    @overload
    def __get__(self, client: None, owner: Any) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, client: Client, owner: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: Any) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: Any) -> Any:
        """Return the method of a client, or that of a class."""
        return self.method if client is None else self.method.__get__(client, owner)


class Endpoints:
    """What both clients can ask."""

    create_fleet = Endpoint(calls.create_fleet)
    fleet = Endpoint(calls.fleet)
    fleets = Endpoint(calls.fleets)
    delete_fleet = Endpoint(calls.delete_fleet)
    repair = Endpoint(calls.repair)
    add_arm = Endpoint(calls.add_arm)
    retire_arm = Endpoint(calls.retire_arm)
    create_catalogue = Endpoint(calls.create_catalogue)
    set_task_features = Endpoint(calls.set_task_features)

    decide = Endpoint(calls.decide)
    decide_many = Endpoint(calls.decide_many)
    rank = Endpoint(calls.rank)
    choose = Endpoint(calls.choose)
    reward = Endpoint(calls.reward)
    reward_many = Endpoint(calls.reward_many)
    correct = Endpoint(calls.correct)
    ingest = Endpoint(calls.ingest)
    decision = Endpoint(calls.decision)

    tasks = Pages(calls.tasks, "after")
    task = Endpoint(calls.task)
    erase = Endpoint(calls.erase)
    export = Endpoint(calls.export)
    history = Pages(calls.history, "before")

    pending = Endpoint(calls.pending)
    population = Endpoint(calls.population)
    activity = Endpoint(calls.activity)
    value = Endpoint(calls.value)
    expected = Endpoint(calls.expected)
    insights = Endpoint(calls.insights)
    log = Endpoint(calls.log)
    health = Endpoint(calls.health)

    _make_http: Callable[..., Any]

    def __init_subclass__(cls) -> None:
        # Functions of its own, which documentation lists and help() shows.
        for name, endpoint in vars(Endpoints).items():
            if isinstance(endpoint, Endpoint | Pages):
                setattr(cls, name, endpoint.method)

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
        transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url, self._timeout = checked_url(base_url), timeout_of(timeout)
        self._talk = conversation_of(
            self.base_url, retries=retries, backoff=backoff, deadline=deadline, fallback=fallback, pause=pause
        )
        self._http = self._make_http(
            base_url=self.base_url, headers=headers_of(key), limits=LIMITS, transport=transport, timeout=self._timeout
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"


class Client(Endpoints):
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

    _make_http = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the end of ``with`` does it. A client that was closed cannot be used again."""
        self._http.close()

    def _ask(self, call: calls.Call[T]) -> T:
        steps: Steps[T] = self._talk.run(call)
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

    def _rows(self, call: calls.Call[tuple[Sequence[T], Any]], start: str) -> Iterator[T]:
        rows, following = self._ask(call)
        yield from rows
        while following is not None:
            rows, following = self._ask(replace(call, params={**call.params, start: str(following)}))
            yield from rows

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


class AsyncClient(Endpoints):
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

    _make_http = httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _ask(self, call: calls.Call[T]) -> T:
        steps: Steps[T] = self._talk.run(call)
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

    async def _rows(self, call: calls.Call[tuple[Sequence[T], Any]], start: str) -> AsyncIterator[T]:
        rows, following = await self._ask(call)
        for row in rows:
            yield row
        while following is not None:
            rows, following = await self._ask(replace(call, params={**call.params, start: str(following)}))
            for row in rows:
                yield row

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
