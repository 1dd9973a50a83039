"""Who gets in: every route, with every kind of key, and without."""

import re
import sqlite3
import time

import pytest

from posse.service.http.access import RateLimiter
from posse.service.http.errors import ApiError
from posse.service.keys import SCOPES, new_key
from posse.service.runtime import AWAY, Runtime
from posse.service.settings import Settings
from posse.storage import open_storage

OPEN = None  # needs no key

# Every route: what it needs, a path that leads there, and the rest of a request that means something there.
ROUTES = {
    ("GET", "/openapi.json"): (OPEN, "/openapi.json", {}),
    ("GET", "/healthz"): (OPEN, "/healthz", {}),
    ("GET", "/readyz"): (OPEN, "/readyz", {}),
    ("GET", "/"): (OPEN, "/", {}),
    ("GET", "/static/{name}"): (OPEN, "/static/none.js", {}),
    ("GET", "/metrics"): ("read", "/metrics", {}),
    ("GET", "/v1/audit"): ("admin", "/v1/audit", {}),
    ("GET", "/v1/fleets"): ("read", "/v1/fleets", {}),
    ("PUT", "/v1/fleets/{fleet}"): ("admin", "/v1/fleets/stores", {"json": {"arms": ["a"], "features": []}}),
    ("GET", "/v1/fleets/{fleet}"): ("read", "/v1/fleets/stores", {}),
    ("DELETE", "/v1/fleets/{fleet}"): ("admin", "/v1/fleets/stores", {}),
    ("POST", "/v1/fleets/{fleet}/arms"): ("admin", "/v1/fleets/stores/arms", {"json": {"arm": "tea"}}),
    ("POST", "/v1/fleets/{fleet}/repair"): ("admin", "/v1/fleets/stores/repair", {}),
    ("DELETE", "/v1/fleets/{fleet}/arms/{arm:path}"): ("admin", "/v1/fleets/stores/arms/cake", {}),
    ("POST", "/v1/fleets/{fleet}/decisions"): (
        "decide",
        "/v1/fleets/stores/decisions",
        {"json": {"task": "t", "context": {"hour": 1, "weather": "sun"}}},
    ),
    ("POST", "/v1/fleets/{fleet}/decisions/batch"): (
        "decide",
        "/v1/fleets/stores/decisions/batch",
        {"json": {"decisions": [{"task": "t", "context": {"hour": 1, "weather": "sun"}}]}},
    ),
    ("POST", "/v1/fleets/{fleet}/rankings"): (
        "decide",
        "/v1/fleets/stores/rankings",
        {"json": {"task": "t", "context": {"hour": 1, "weather": "sun"}, "k": 1}},
    ),
    ("POST", "/v1/fleets/{fleet}/choices"): (
        "decide",
        "/v1/fleets/stores/choices",
        {"json": {"task": "t", "context": {}, "eligible": {"a": {"price": 1}}}},
    ),
    ("POST", "/v1/fleets/{fleet}/task-features"): (
        "decide",
        "/v1/fleets/stores/task-features",
        {"json": {"tasks": {"t": {"size": 1}}}},
    ),
    ("PUT", "/v1/fleets/{fleet}/task-features/{task:path}"): (
        "decide",
        "/v1/fleets/stores/task-features/t",
        {"json": {"features": {"size": 1}}},
    ),
    ("POST", "/v1/decisions/{id}/reward"): ("reward", "/v1/decisions/none/reward", {"json": {"reward": 1}}),
    ("POST", "/v1/rewards"): ("reward", "/v1/rewards", {"json": {"rewards": [{"id": "none", "reward": 1}]}}),
    ("PUT", "/v1/decisions/{id}/reward"): ("reward", "/v1/decisions/none/reward", {"json": {"reward": 1}}),
    ("GET", "/v1/decisions/{id}"): ("read", "/v1/decisions/none", {}),
    ("GET", "/v1/decisions/{id}/rewards"): ("read", "/v1/decisions/none/rewards", {}),
    ("GET", "/v1/fleets/{fleet}/tasks"): ("read", "/v1/fleets/stores/tasks", {}),
    ("GET", "/v1/fleets/{fleet}/tasks/{task:path}"): ("read", "/v1/fleets/stores/tasks/t", {}),
    ("DELETE", "/v1/fleets/{fleet}/tasks/{task:path}"): ("admin", "/v1/fleets/stores/tasks/t", {}),
    ("GET", "/v1/fleets/{fleet}/history/{task:path}"): ("read", "/v1/fleets/stores/history/t", {}),
    ("GET", "/v1/fleets/{fleet}/export/{task:path}"): ("admin", "/v1/fleets/stores/export/t", {}),
    ("GET", "/v1/fleets/{fleet}/population"): ("read", "/v1/fleets/stores/population", {}),
    ("GET", "/v1/fleets/{fleet}/pending"): ("read", "/v1/fleets/stores/pending", {}),
    ("GET", "/v1/fleets/{fleet}/activity"): ("read", "/v1/fleets/stores/activity", {}),
    ("GET", "/v1/access"): ("read", "/v1/access", {}),
    ("GET", "/v1/fleets/{fleet}/insights"): ("read", "/v1/fleets/stores/insights", {}),
    ("GET", "/v1/fleets/{fleet}/report"): ("read", "/v1/fleets/stores/report", {}),
    ("POST", "/v1/fleets/{fleet}/expected"): (
        "read",
        "/v1/fleets/stores/expected",
        {"json": {"task": "t", "context": {"hour": 1, "weather": "sun"}}},
    ),
    ("GET", "/v1/fleets/{fleet}/value"): ("read", "/v1/fleets/stores/value", {}),
    ("GET", "/v1/fleets/{fleet}/verify"): ("admin", "/v1/fleets/stores/verify", {}),
    ("GET", "/v1/fleets/{fleet}/log"): ("read", "/v1/fleets/stores/log", {}),
    ("POST", "/v1/fleets/{fleet}/log"): ("admin", "/v1/fleets/stores/log", {"json": {"rows": []}}),
}
GUARDED = {route: found for route, found in ROUTES.items() if found[0] is not OPEN}
AS_TEXT = {"ids": lambda route: " ".join(route)}


def bearer(key):
    return {"authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory, keys, request):
    """A service with keys: one of each scope, one of all, one that was revoked, and no limit on wrong tries."""
    database = str(tmp_path_factory.mktemp("locked") / "posse.db")
    secrets = dict(
        zip((*SCOPES, "all", "revoked"), keys(database, *([one] for one in SCOPES), SCOPES, SCOPES), strict=True)
    )
    storage = open_storage(database)
    assert storage.revoke_key(secrets["revoked"].split("_")[1])
    storage.close()
    in_process, settings, limits = request.getfixturevalue("kinds")
    service = in_process(settings(database=database, limits=limits(refusals=0)))
    service.secrets = secrets
    yield service
    service.stop()


@pytest.fixture
def fresh(locked, stores):
    """The service with the fleet and the task that the table's paths name, whatever was done to them before."""
    locked.client.headers.update(bearer(locked.secrets["all"]))
    locked.delete("/v1/fleets/stores")
    locked.make_fleet()
    locked.reward(locked.decide("t"), 1.0)
    del locked.client.headers["authorization"]
    return locked


def ask(service, route, headers=None):
    _, path, rest = ROUTES[route]
    return service.request(route[0], path, headers=headers or {}, **rest)


def test_the_table_names_every_route(service, list_routes):
    assert {(method, path) for method, path, _ in list_routes(service.app)} == set(ROUTES)


def test_every_route_says_the_scope_that_the_table_says(service, list_routes):
    for method, path, route in list_routes(service.app):
        checks = [] if route is None else [route.endpoint, *(each.dependency for each in route.dependencies)]
        asked = [check.scope for check in checks if hasattr(check, "scope")]
        assert asked == ([ROUTES[method, path][0]] if (method, path) in GUARDED else []), (method, path)


WRONG = {
    "no key": ({}, "key_required"),
    "another kind": ({"authorization": "Basic cG9zc2U6cG9zc2U="}, "key_invalid"),
    "nothing after Bearer": ({"authorization": "Bearer"}, "key_invalid"),
    "an empty header": ({"authorization": ""}, "key_invalid"),
    "not a key": (bearer("letmein"), "key_invalid"),
    "no secret": (bearer("posse_000000000000_"), "key_invalid"),
    "very long": (bearer("posse_" + "x" * 5000), "key_invalid"),
    "odd bytes": ({"authorization": b"Bearer posse_\xff_\xfe"}, "key_invalid"),
    "an id that is not there": (bearer("posse_000000000000_" + "s" * 43), "key_invalid"),
}


@pytest.mark.parametrize("route", GUARDED, **AS_TEXT)
def test_nobody_gets_in_without_a_key(locked, shape, route):
    for headers, code in WRONG.values():
        answer = ask(locked, route, headers)
        shape(answer, 401, code)
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", GUARDED, **AS_TEXT)
def test_nobody_gets_in_with_a_key_that_is_nearly_right(locked, shape, route):
    for key in locked.secrets.values():
        last = "A" if key[-1] != "A" else "B"
        for wrong in (key[:-1], key[:-1] + last, key + "x", key.upper(), key.split("_")[1], f"x{key}"):
            shape(ask(locked, route, bearer(wrong)), 401, "key_invalid")
        # The id of one key with the secret of another.
        shape(ask(locked, route, bearer(f"posse_{key.split('_')[1]}_{'s' * 43}")), 401, "key_invalid")


@pytest.mark.parametrize("route", GUARDED, **AS_TEXT)
def test_a_revoked_key_is_as_good_as_none(locked, shape, route):
    shape(ask(locked, route, bearer(locked.secrets["revoked"])), 401, "key_invalid")


@pytest.mark.parametrize("route", GUARDED, **AS_TEXT)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_does_what_its_scope_says_and_nothing_else(fresh, shape, route, scope):
    answer = ask(fresh, route, bearer(fresh.secrets[scope]))

    if scope == GUARDED[route][0]:
        assert answer.status_code not in (401, 403), answer.text
        assert answer.status_code < 500
    else:
        error = shape(answer, 403, "scope_missing")
        assert GUARDED[route][0] in error["message"]


def test_refused_requests_leave_everything_as_it_was(fresh, wait_for):
    def everything():
        headers = bearer(fresh.secrets["read"])
        return [fresh.get(f"/v1/fleets/stores{path}", headers=headers).text for path in ("", "/log", "/population")]

    # The first estimate of the population may still be on its way; what comes after it is what counts.
    before = wait_for(lambda: (found := everything()) and '"refreshed_rewards":1.0' in found[2] and found)
    for route, (needed, *_) in GUARDED.items():
        for scope in set(SCOPES) - {needed}:
            ask(fresh, route, bearer(fresh.secrets[scope]))
        ask(fresh, route)
    assert everything() == before


@pytest.mark.parametrize("path", [found[1] for found in ROUTES.values() if found[0] is OPEN])
def test_what_is_open_needs_no_key_and_tells_nothing_of_fleets(fresh, path):
    answer = fresh.get(path)

    assert answer.status_code == (404 if "none" in path else 200)
    assert "store-17" not in answer.text or path == "/openapi.json"  # where it is an example
    assert "coffee" not in answer.text or path == "/openapi.json"


@pytest.mark.parametrize("route", [route for route in ROUTES if route[0] == "GET"], **AS_TEXT)
def test_head_is_answered_as_get_is_and_needs_what_get_needs(fresh, route):
    needed, path, _ = ROUTES[route]
    headers = {} if needed is OPEN else bearer(fresh.secrets[needed])
    get, head = fresh.get(path, headers=headers), fresh.request("HEAD", path, headers=headers)
    assert head.status_code == get.status_code
    assert head.headers.get("content-type") == get.headers.get("content-type")
    assert head.content == b""
    if needed is not OPEN:
        assert fresh.request("HEAD", path).status_code == 401


def test_head_is_not_known_where_get_is_not(fresh):
    answer = fresh.request("HEAD", "/v1/rewards")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert fresh.request("PATCH", "/v1/fleets").headers["allow"] == "GET, HEAD"


def test_paths_that_are_not_there_tell_nobody_more_with_a_key_than_without(locked, shape):
    for path in ("/v1/nothing", "/v2/fleets", "/v1/fleets/", "/docs", "/redoc"):
        shape(locked.get(path), 404, "not_found")


def test_scopes_are_looked_at_before_the_body_is(locked, shape):
    headers = {**bearer(locked.secrets["read"]), "content-type": "application/json"}
    shape(locked.post("/v1/rewards", headers=headers, content=b"{" * 3_000_000), 403, "scope_missing")
    shape(locked.post("/v1/rewards", content=b"{" * 3_000_000), 401, "key_required")


# Without keys.


@pytest.mark.parametrize("route", ROUTES, **AS_TEXT)
def test_without_keys_all_is_open_on_this_machine(service, stores, route):
    service.put("/v1/fleets/stores", json=stores)
    answer = ask(service, route)
    assert answer.status_code not in (401, 403)
    assert answer.status_code < 500


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:8080", "[::1]"])
def test_names_of_this_machine_are_answered(service, host):
    assert service.get("/v1/fleets", headers={"host": host}).status_code == 200
    assert service.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::2]",
        "",
        "0.0.0.0",
        "localhost:80@evil.example",
        "[::1].evil.example",
        "localhost:",
    ],
)
@pytest.mark.parametrize("route", [("GET", "/v1/fleets"), ("POST", "/v1/rewards"), ("GET", "/")], **AS_TEXT)
def test_a_page_of_another_site_cannot_ask_by_its_own_name(service, shape, host, route):
    shape(ask(service, route, {"host": host}), 403, "host_refused")


@pytest.mark.parametrize("route", GUARDED, **AS_TEXT)
def test_a_page_of_another_site_cannot_ask_by_our_name(service, shape, route):
    for site in ("cross-site", "same-site", "something new"):
        shape(ask(service, route, {"sec-fetch-site": site}), 403, "host_refused")
    shape(ask(service, route, {"host": "evil.example"}), 403, "host_refused")


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_page_may_ask(service, site):
    assert service.get("/v1/fleets", headers={"sec-fetch-site": site}).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_a_proxy_does_not_open_a_service_without_keys_to_others(service, shape, header):
    shape(service.get("/v1/fleets", headers={header: "192.0.2.7"}), 403, "host_refused")


def test_the_address_of_the_database_is_secret(wait_for, caplog):
    engine = Runtime(Settings(database="postgresql://merchant:wordy@127.0.0.1:1/shops"))
    engine.start()
    try:
        wait_for(lambda: engine.problem == AWAY)
        wait_for(lambda: "127.0.0.1" in caplog.text)
        with pytest.raises(ApiError, match="the log of this service") as caught:
            engine.require_keys()
        assert "127.0.0.1" not in caught.value.message
    finally:
        engine.stop()
    assert "wordy" not in caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_a_service_that_others_reach_lets_nobody_in_without_keys(start, shape, host):
    # `posse serve` does not start like this; an application that is mounted elsewhere may.
    service = start(host=host)
    for route in GUARDED:
        answer = ask(service, route)
        assert answer.status_code in (401, 429), route
        shape(answer)


def test_names_of_other_machines_are_fine_with_a_key(locked):
    headers = {**bearer(locked.secrets["read"]), "host": "decisions.example", "sec-fetch-site": "cross-site"}
    assert locked.get("/v1/fleets", headers=headers).status_code == 200


# Keys come and go while it runs.


def test_a_key_that_is_made_while_it_runs_works_soon_and_closes_the_rest(start, keys, wait_for, shape):
    service = start()
    assert service.get("/v1/fleets").status_code == 200

    (key,) = keys(service.settings.database, ["read"])
    wait_for(lambda: service.get("/v1/fleets").status_code == 401)
    wait_for(lambda: service.get("/v1/fleets", headers=bearer(key)).status_code == 200)

    other, row = new_key(["read", "admin"], "", time.time())
    service.runtime.storage.add_key(row)
    wait_for(lambda: service.get("/v1/fleets", headers=bearer(other)).status_code == 200)
    service.runtime.storage.revoke_key(key.split("_")[1])
    wait_for(lambda: service.get("/v1/fleets", headers=bearer(key)).status_code == 401)
    shape(service.get("/v1/fleets", headers=bearer(key)), 401, "key_invalid")
    assert service.get("/v1/fleets", headers=bearer(other)).status_code == 200


def test_a_service_that_lost_its_last_key_is_not_open_to_all(start, keys, wait_for):
    # Behind a proxy on the same machine every request comes from loopback.
    (key,) = keys((service := start()).settings.database, ["read"])
    wait_for(lambda: service.get("/v1/fleets").status_code == 401)
    service.runtime.storage.revoke_key(key.split("_")[1])
    wait_for(lambda: service.get("/v1/fleets", headers=bearer(key)).status_code != 200)
    time.sleep(2 * service.settings.follow_seconds)

    assert service.get("/v1/fleets").status_code in (401, 403)


@pytest.mark.parametrize("headers", [{}, {"host": "127.0.0.1"}, {"host": "localhost:8080"}], ids=str)
def test_a_service_whose_last_key_was_revoked_is_not_open_after_a_restart(tmp_path, start, keys, shape, headers):
    # A proxy that names this machine looks as if this machine asked.
    (key,) = keys(tmp_path / "posse.db", ["admin"])
    storage = open_storage(tmp_path / "posse.db")
    assert storage.revoke_key(key.split("_")[1])
    storage.close()
    service = start()
    shape(service.get("/v1/fleets", headers=headers), 401, "key_required")
    shape(service.get("/v1/fleets", headers=headers | bearer(key)), 401, "key_invalid")
    service.stop()

    opened = start(require_keys="while-any")
    assert opened.get("/v1/fleets", headers=headers).status_code == 200


def test_keys_may_be_required_from_the_start(tmp_path, start, keys, shape, wait_for):
    service = start(require_keys="always")
    shape(service.get("/v1/fleets"), 401, "key_required")
    (key,) = keys(tmp_path / "posse.db", ["read"])
    wait_for(lambda: service.get("/v1/fleets", headers=bearer(key)).status_code == 200)


def test_secrets_are_nowhere_on_disk(tmp_path, start, keys, wait_for):
    made = keys(tmp_path / "posse.db", ["read"], SCOPES)
    service = start()
    for key in made:
        assert service.get("/v1/fleets", headers=bearer(key)).status_code == 200
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    service.stop()

    assert any(path.name == "posse.db" for path in files)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for key in made:
                assert key.split("_", 2)[2][:20].encode() not in data
    with sqlite3.connect(tmp_path / "posse.db") as connection:
        text = str([connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%key%'")])  # fmt: skip
    connection.close()
    assert re.search(r"[0-9a-f]{64}", text)  # the digests


@pytest.mark.slow
def test_secrets_are_not_logged(tmp_path, keys, serve):
    (key,) = keys(tmp_path / "posse.db", SCOPES)
    served = serve("--verbose", key=key)
    served.make_fleet()
    served.client.get("/v1/fleets", headers=bearer(key + "x"))
    served.stop()
    assert key not in served.words
    secret = key.split("_", 2)[2]  # which may have such a character itself
    assert len(secret) > 40
    assert secret not in served.words


# How often.


def test_a_bucket_holds_twice_the_rate_and_fills_with_time():
    now = [100.0]
    limiter = RateLimiter(10, lambda: now[0])

    assert [limiter.take("a") for _ in range(20)] == [0.0] * 20
    assert limiter.take("a") == pytest.approx(0.1)
    assert limiter.take("b") == 0.0
    now[0] += 0.35
    assert [limiter.take("a") > 0 for _ in range(4)] == [False, False, False, True]
    now[0] += 1e6
    assert [limiter.take("a") > 0 for _ in range(21)] == [False] * 20 + [True]


def test_requests_of_one_key_are_limited_and_others_are_not(tmp_path, start, keys, shape):
    one, other = keys(tmp_path / "posse.db", ["read"], ["read"])
    service = start(limits={"rate": 0.02})  # one in 50 seconds

    answers = [service.get("/v1/fleets", headers=bearer(one)) for _ in range(5)]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) == 4
    for answer in refused:
        shape(answer, 429, "rate_limited")
        assert int(answer.headers["retry-after"]) >= 1
    assert service.get("/v1/fleets", headers=bearer(other)).status_code == 200
    assert service.get("/healthz").status_code == 200


def test_without_keys_requests_of_one_address_are_limited(start, shape):
    service = start(limits={"rate": 0.02})
    answers = [service.get("/v1/fleets") for _ in range(5)]
    assert {answer.status_code for answer in answers} == {200, 429}
    shape(answers[-1], 429, "rate_limited")


def test_wrong_keys_are_limited_and_right_ones_of_the_same_address_are_not(tmp_path, start, keys, shape):
    (key,) = keys(tmp_path / "posse.db", ["read"])
    service = start(limits={"refusals": 0.02})

    answers = [service.get("/v1/fleets", headers=bearer(f"posse_{i}_x")) for i in range(5)]
    assert [answer.status_code for answer in answers] == [401, 429, 429, 429, 429]
    error = shape(answers[-1], 429, "rate_limited")
    assert "posse_" not in error["message"]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert service.get("/v1/fleets", headers=bearer(key)).status_code == 200


# What goes out.


ONE_REWARD = {"rewards": [{"id": "a", "reward": 1}]}


def broken(*_, **__):
    raise RuntimeError("secret-of-the-house in /some/file.py")


@pytest.mark.parametrize(
    ("method", "path", "rest", "place"),
    [
        ("GET", "/v1/fleets", {}, "posse.service.http.routes.fleets.fleet_answer"),
        ("GET", "/metrics", {}, "posse.service.measures.generate_latest"),
        ("POST", "/v1/rewards", {"json": ONE_REWARD}, "posse.service.http.routes.rewarding.require_storable"),
        ("GET", "/v1/fleets/house/population", {}, "posse.service.http.routes.looking._population"),
        ("DELETE", "/v1/fleets/house", {}, "posse.service.roster.Roster.drop"),
        ("GET", "/v1/fleets/house", {}, "posse.service.http.access.Gate.check"),
        ("GET", "/", {}, "posse.service.http.routes.page._serve"),
        ("GET", "/openapi.json", {}, "posse.service.http.app.describe"),
    ],
)  # fmt: skip
def test_what_goes_wrong_inside_stays_inside(service, shape, monkeypatch, caplog, method, path, rest, place):
    service.put("/v1/fleets/house", json={"arms": ["a"], "features": []})
    service.app.openapi_schema = None
    monkeypatch.setattr(place, broken)

    answer = service.request(method, path, **rest)
    error = shape(answer, 500, "internal")
    assert "secret-of-the-house" not in answer.text
    assert "log of the service" in error["message"]
    assert "secret-of-the-house" in caplog.text
    monkeypatch.undo()
    assert service.get("/v1/fleets").status_code == 200


@pytest.mark.parametrize("route", ROUTES, **AS_TEXT)
@pytest.mark.parametrize("opened", [True, False])
def test_every_answer_has_the_headers_for_safety(service, locked, stores, route, opened):
    service.put("/v1/fleets/stores", json=stores)
    answer = ask(service if opened else locked, route)

    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    for loose in ("unsafe-inline", "unsafe-eval", "*", "http:"):
        assert loose not in policy
    assert answer.headers["cache-control"] in ("no-store", "no-cache")
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


def test_answers_about_nothing_have_them_too(service):
    for answer in (service.get("/nothing"), service.request("PATCH", "/v1/fleets"), service.post("/v1/rewards")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_page_allows_its_own_files_only(service):
    policy = service.get("/").headers["content-security-policy"]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["script-src"] == parts["style-src"] == parts["connect-src"] == "'self'"
    assert parts["base-uri"] == parts["form-action"] == parts["frame-ancestors"] == "'none'"


@pytest.mark.parametrize(
    "name", ["..%2Findex.html", "..%2f..%2fapp.py", "%2e%2e%2fapp.py", "index.html", "%00", "app.py"]
)
def test_nothing_but_files_of_the_page_is_served(service, shape, name):
    shape(service.get(f"/static/{name}"), 404)
