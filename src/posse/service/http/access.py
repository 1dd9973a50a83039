"""Who may ask for what, and how often."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from starlette.requests import Request

from posse.logs.writer import moment
from posse.service.audit import note_begun
from posse.service.http.errors import ApiError
from posse.service.http.heads import Scope, header_of, headers_of
from posse.service.keys import SCOPES
from posse.service.runtime import Runtime
from posse.storage import KeyRow

LOOPBACK = ("127.0.0.1", "::1", "localhost")
HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"})
"""Headers of proxies: whoever asks through one may be anybody."""

SORTED_OUT = frozenset(
    {
        "/v1/fleets",
        "/v1/decisions/{id}",
        "/v1/decisions/{id}/reward",
        "/v1/decisions/{id}/rewards",
        "/v1/rewards",
        "/v1/audit",
        "/v1/access",
    }
)
"""Routes without a fleet in their path that look only at those which the key is for."""

MOST_BUCKETS = 10_000  # keys and addresses that are remembered


class RateLimiter:
    """Token buckets: so many requests a second, and twice as many at once.

    Parameters
    ----------
    rate : float
        Requests a second; 0 is no limit.
    clock : callable
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._most = max(2 * rate, 1.0)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> float:
        """Count a request; return 0 if it may go on, else the seconds after which the next may."""
        if self.rate <= 0:
            return 0.0
        now = self._clock()
        tokens, then = self._buckets.pop(who, (self._most, now))
        tokens = min(self._most, tokens + (now - then) * self.rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self.rate
        self._buckets[who] = (tokens - 1 if not wait else tokens, now)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


class Gate:
    """Lets requests pass that have a right to.

    Without any key, only this machine may ask, under a name of this machine: a page of another site that a browser here
    shows cannot reach the service by a name of its own.
    """

    def __init__(self, runtime: Runtime) -> None:
        limits = runtime.settings.limits
        self._runtime = runtime
        self._open = runtime.settings.host in LOOPBACK
        self._rate, self._refusals = RateLimiter(limits.rate), RateLimiter(limits.refusals)

    def check(self, request: Scope, scope: str) -> None:
        """Raise unless a request, given by ASGI's scope, may do what the scope of a key says."""
        client = request.get("client")
        host = client[0] if client is not None else "unknown"
        self._runtime.require_keys()
        if self._open and not self._runtime.keys.needed:
            self.check_host(request)
            heads = headers_of(request)
            if heads.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
                raise _for_this_machine()
            if not FORWARDED.isdisjoint(heads):
                raise _for_this_machine()
            who = host
        else:
            try:
                row = self._holder(header_of(request, b"authorization"), scope)
                _require_fleet(row, request)
            except ApiError:
                wait = self._refusals.take(host)
                if wait:
                    raise _too_many(wait) from None
                raise
            who = request["posse.key"] = row.id
            request["posse.fleets"] = row.fleets
            self._runtime.keys.note_use(who, self._runtime.clock())
        request["posse.scope"] = scope
        wait = self._rate.take(who)
        if wait:
            raise _too_many(wait)

    def scopes_of(self, request: Request) -> list[str]:
        """Return what a request that was let in may do; without keys, this machine may do everything."""
        if self._open and not self._runtime.keys.needed:
            return list(SCOPES)
        row = self._runtime.keys.find(request.headers.get("authorization", "").partition(" ")[2].strip())
        return [] if row is None else list(row.scopes)

    def check_open_host(self, request: Request) -> None:
        """Raise if the page of a service without keys is asked for under another machine's name."""
        if self._open and not self._runtime.keys.needed:
            self.check_host(request.scope)

    def check_host(self, request: Scope) -> None:
        """Raise if a service for this machine alone is asked under another machine's name."""
        if HERE.fullmatch(header_of(request, b"host") or "") is None:
            raise _for_this_machine()

    def _holder(self, given: str | None, scope: str) -> KeyRow:
        if given is None:
            raise ApiError("key_required", "an API key is needed: send the header Authorization: Bearer posse_...")
        kind, _, key = given.partition(" ")
        row = self._runtime.keys.find(key.strip()) if kind.lower() == "bearer" else None
        if row is None:
            raise ApiError(
                "key_invalid", "this API key is not valid here; ask for one made with `posse service keys create`"
            )
        if row.expires is not None and self._runtime.clock() >= row.expires:
            raise ApiError(
                "key_expired",
                f"this API key expired at {moment(row.expires)}; ask for another (`posse service keys rotate`)",
            )
        if scope not in row.scopes:
            raise ApiError(
                "scope_missing",
                f"this key may {', '.join(row.scopes)}, but this needs the scope {scope}; "
                f"make one with `posse service keys create --scope {scope}`",
            )
        return row


def _require_fleet(row: KeyRow, request: Scope) -> None:
    """Raise if a key is for other fleets than the one that is asked for."""
    if not row.fleets:
        return
    fleet = request.get("path_params", {}).get("fleet")
    if fleet is None and getattr(request.get("route"), "path_format", None) in SORTED_OUT:
        return
    if fleet not in row.fleets:
        asked = "all of them together" if fleet is None else f"{fleet[:64]}"
        raise ApiError(
            "fleet_forbidden",
            f"this key is for the fleets {', '.join(row.fleets)}, not for {asked}; posse service keys create",
        )


def fleets_of(request: Request) -> tuple[str, ...]:
    """Return the fleets that the key of a request is for; none means all."""
    fleets: tuple[str, ...] = request.scope.get("posse.fleets", ())
    return fleets


def require(scope: str) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency of a route that needs a scope; what needs an admin is noted before it is done."""

    async def check(request: Request) -> None:
        request.app.state.gate.check(request.scope, scope)
        if scope == "admin":
            await note_begun(request)

    check.scope = scope  # type: ignore[attr-defined]  # so that a test can see what every route asks for
    return check


def _for_this_machine() -> ApiError:
    return ApiError(
        "host_refused",
        "this service has no keys and answers this machine only; ask http://127.0.0.1, or create keys with "
        "`posse service keys create`",
    )


def _too_many(wait: float) -> ApiError:
    return ApiError("rate_limited", "too many requests; send fewer a second, or many in one batch", retry_after=wait)
