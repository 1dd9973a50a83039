"""How a client and the service talk: tries, waits and fallbacks, without a network.

Everything here is a generator that yields what to do next, :class:`Send` or :class:`Wait`, and is sent what came of it.
The two clients run these generators, one on a thread and one on an event loop, and know nothing else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from posse.client.answers import SET_ASIDE, Answer, Failure, Lost, ServiceError, ServiceUnavailable, Success, judge
from posse.client.calls import Call, Context
from posse.client.circuit import Circuit, Way
from posse.client.values import Decision
from posse.errors import InvalidValue

T = TypeVar("T")
Fallback: TypeAlias = str | Callable[[str, str, Context, Sequence[str] | None], str]


class Send(NamedTuple):
    """Send a request and come back with its answer; ``until`` is when all patience ends, on the clock."""

    call: Call[Any]
    until: float | None


class Wait(NamedTuple):
    """Do nothing for so many seconds, and come back with None."""

    seconds: float


Steps: TypeAlias = Generator[Send | Wait, Answer | Lost | None, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often and how long to try.

    Parameters
    ----------
    retries : int
        Tries after the first.
    backoff, backoff_limit : float
        Seconds: the wait before try n + 1 is drawn between 0 and ``backoff * 2**n``, at most the limit.
    deadline : float or None
        Seconds for all tries of a call and the waits between them.
    """

    retries: int = 3
    backoff: float = 0.1
    backoff_limit: float = 2.0
    deadline: float | None = 10.0

    def wait(self, failures: int, draw: float) -> float:
        """Return how long to wait after so many failures, given a number drawn from [0, 1).

        Examples
        --------
        >>> [Patience(backoff=0.1, backoff_limit=0.5).wait(failures, 0.5) for failures in (1, 2, 3, 4, 5000)]
        [0.05, 0.1, 0.2, 0.25, 0.25]
        """
        return draw * min(self.backoff_limit, self.backoff * 2.0 ** min(failures - 1, 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """All that a client knows apart from the network.

    Parameters
    ----------
    address : str
        Of the service, for messages.
    patience : Patience
    fallback : str, callable or None
        The arm for when the service cannot be asked, or what chooses it from fleet, task, context and eligible arms.
    circuit : Circuit
    clock, draw : callable
        Return seconds, and numbers from [0, 1).
    """

    address: str
    patience: Patience = field(default_factory=Patience)
    fallback: Fallback | None = None
    circuit: Circuit
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random

    def run(self, call: Call[T]) -> Steps[T]:
        """Return the value of a call; decisions fall back if the client does."""
        if call.known:
            return call.known[0]
        if call.of_fallbacks is not None and self.fallback is not None:
            return (yield from self._or_fall_back(call))
        return (yield from self._ask(call, call.tries))

    def _ask(self, call: Call[T], tries: int | None = None) -> Steps[T]:
        """Ask until there is an answer, or patience ends."""
        started = self.clock()
        until = None if self.patience.deadline is None else started + self.patience.deadline
        tries = 1 + self.patience.retries if tries is None else tries
        maybe_done = False
        failures = 0
        while True:
            outcome = yield Send(call, until)
            assert outcome is not None
            came = judge(call, outcome)
            if isinstance(came, Success):
                return came.value
            if maybe_done and call.done_by and came.error.code == call.done_by:
                # This says that a try before did it, whose answer was lost.
                return (yield from self._ask(call.then)) if call.then is not None else call.read(None)
            if not came.again:
                raise came.error
            maybe_done = maybe_done or came.maybe_done
            failures += 1
            wait = came.after + self.patience.wait(failures, self.draw())
            if failures >= tries or (until is not None and self.clock() + wait >= until):
                raise self._gave_up(came, failures, self.clock() - started)
            yield Wait(wait)

    def _or_fall_back(self, call: Call[T]) -> Steps[T]:
        way = self.circuit.way()
        if way is Way.SKIP:
            found = self._fallback(call, f"the service at {self.address} did not answer a moment ago")
            if found is not None:
                return found
        try:
            value = yield from self._ask(call, tries=1 if way is Way.PROBE else None)
        except ServiceUnavailable as error:
            if error.code == SET_ASIDE:
                self.circuit.answered()  # other fleets are served
            else:
                self.circuit.failed()
            found = self._fallback(call, str(error))
            if found is None:
                raise
            return found
        except ServiceError:
            self.circuit.answered()
            raise
        self.circuit.answered()
        return value

    def _fallback(self, call: Call[T], reason: str) -> T | None:
        """Return what a call gives for the fallback arm, or None if it is not eligible for one of its decisions."""
        decisions = []
        for task, context, eligible in call.asked:
            arm = self.fallback(call.fleet, task, context, eligible) if callable(self.fallback) else self.fallback
            if not isinstance(arm, str):
                raise InvalidValue(f"the fallback must return the name of an arm, but it returned {arm!r}")
            if eligible is not None and arm not in eligible:
                return None
            decisions.append(Decision(None, call.fleet, task, arm, None, {}, {}, {}, fallback=True, reason=reason))
        assert call.of_fallbacks is not None
        return call.of_fallbacks(decisions)

    def _gave_up(self, failure: Failure, tries: int, seconds: float) -> ServiceError:
        error = failure.error
        times = "once" if tries == 1 else f"{tries} times"
        return ServiceUnavailable(
            f"the service at {self.address} gave no result: {error}; tried {times} in {seconds:.1f} s; check that "
            "posse serve runs there and can be reached, or raise timeout, retries or deadline",
            status=error.status,
            code=error.code,
            field=error.field,
        )
