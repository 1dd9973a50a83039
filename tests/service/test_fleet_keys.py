"""Keys that are for some fleets, that expire, are rotated and remember when they were used; the audit log."""

import time

import pytest

from posse.errors import StorageUnavailable
from posse.service.keys import SCOPES, KeyRing, new_key, rotated
from posse.storage import digest_of, open_storage


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def add(database, *args, **settings):
    key, row = new_key(*args, "", time.time(), **settings)
    storage = open_storage(database)
    storage.add_key(row)
    storage.close()
    return key


@pytest.fixture
def two(start, tmp_path):
    """A service with two fleets, a key for everything (sent unless told otherwise) and one for the first fleet."""
    database = str(tmp_path / "posse.db")
    everything = add(database, SCOPES)
    one = add(database, SCOPES, fleets=["mine"])
    service = start(database, limits={"refusals": 1e6})  # every route is refused here, one after another
    service.client.headers.update(bearer(everything))
    service.make_fleet("mine")
    service.make_fleet("theirs")
    service.mine, service.everything = bearer(one), everything
    return service


def test_a_key_for_one_fleet_reaches_that_one(two, rainy):
    assert two.read("/v1/fleets/mine", headers=two.mine)["name"] == "mine"
    decision = two.decide(fleet="mine", headers=two.mine)
    told = two.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1.0}, headers=two.mine)
    assert told.status_code == 200
    assert two.read(f"/v1/decisions/{decision['id']}", headers=two.mine)["reward"] == 1.0
    assert [fleet["name"] for fleet in two.read("/v1/fleets", headers=two.mine)["fleets"]] == ["mine"]
    assert len(two.read("/v1/fleets")["fleets"]) == 2
    assert two.read("/v1/access", headers=two.mine)["scopes"] == list(SCOPES)  # the page asks what it may show


def test_a_key_for_one_fleet_reaches_no_other(two, shape, list_routes):
    decision = two.decide(fleet="theirs")
    before = two.read("/v1/fleets/theirs")
    asked = 0
    for method, path, route in list_routes(two.app):
        if route is None or "{fleet}" not in path:
            continue
        filled = path.replace("{fleet}", "theirs").replace("{task:path}", "store-17").replace("{arm:path}", "cake")
        shape(two.request(method, filled, headers=two.mine), 403, "fleet_forbidden")
        asked += 1
    assert asked > 15
    shape(two.get("/metrics", headers=two.mine), 403, "fleet_forbidden")
    shape(two.get(f"/v1/decisions/{decision['id']}", headers=two.mine), 404, "unknown_decision")
    told = two.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1.0}, headers=two.mine)
    shape(told, 404, "unknown_decision")
    many = {"rewards": [{"id": decision["id"], "reward": 1.0}]}
    shape(two.post("/v1/rewards", json=many, headers=two.mine), 404, "unknown_decision")
    assert two.read("/v1/fleets/theirs") == before


def test_every_route_without_a_fleet_is_closed_to_such_a_key_unless_it_sorts_out(two, list_routes):
    """A new route that forgets about fleets is refused, not open."""
    sorted_out = {"/v1/fleets", "/v1/decisions/{id}", "/v1/decisions/{id}/reward", "/v1/decisions/{id}/rewards"}
    sorted_out |= {"/v1/rewards", "/v1/audit", "/v1/access"}
    for method, path, route in list_routes(two.app):
        guarded = route is not None and any(
            hasattr(check, "scope") for check in [route.endpoint, *(each.dependency for each in route.dependencies)]
        )
        if guarded and "{fleet}" not in path and path not in sorted_out:
            assert two.request(method, path, headers=two.mine).status_code == 403, path


def test_a_key_expires(two, shape, wait_for):
    short = add(two.settings.database, ["read"], expires=time.time() + 600)
    wait_for(lambda: two.get("/v1/fleets", headers=bearer(short)).status_code == 200)
    two.runtime.clock = lambda: time.time() + 601
    error = shape(two.get("/v1/fleets", headers=bearer(short)), 401, "key_expired")
    assert "posse service keys rotate" in error["message"]


@pytest.mark.parametrize("rule", ["once-made", "always", "while-any"])
def test_a_service_does_not_open_when_its_last_key_expires(rule):
    _, row = new_key(["read"], "", 0.0, expires=1.0)
    assert KeyRing([row], rule).needed


def test_a_rotated_key_may_do_the_same_for_as_long():
    _, old = new_key(["read", "admin"], "me", 100.0, fleets=["b", "a"], expires=150.0)
    key, new = rotated(old, 140.0)
    assert (new.scopes, new.label, new.fleets, new.expires) == (("read", "admin"), "me", ("a", "b"), 190.0)
    assert new.id != old.id
    assert KeyRing([old, new]).find(key) == new


def test_the_last_use_of_a_key_is_stored(two):
    two.stop()
    storage = open_storage(two.settings.database)
    rows = storage.keys()
    used = {row.id: row.used for row in rows}
    storage.close()
    assert time.time() - used[two.everything.split("_")[1]] < 60
    assert used[two.mine["authorization"].split("_")[1]] is None


def test_admin_calls_are_in_the_audit_log(two):
    two.post("/v1/fleets/mine/arms", json={"arm": "tea"}, headers={"x-request-id": "add-tea"})
    two.post("/v1/fleets/mine/arms", json={"arm": "tea"})
    two.decide("a private name", fleet="mine")
    two.delete("/v1/fleets/mine/tasks/a%20private%20name")
    two.delete("/v1/fleets/mine/arms/cake", headers=two.mine)
    found = two.read("/v1/audit")["audit"]
    assert [(row["action"], row["fleet"], row["status"]) for row in found] == [
        ("retire_arm", "mine", 200), ("erase_task", "mine", 204), ("add_arm", "mine", 409), ("add_arm", "mine", 200),
        ("put_fleet", "theirs", 201), ("put_fleet", "mine", 201),
    ]  # fmt: skip
    assert found[0]["target"] == "cake"
    assert found[0]["actor"] == two.mine["authorization"].split("_")[1]
    assert found[3]["request"] == "add-tea"
    assert found[1]["target"] == digest_of("mine", "a private name").hex()
    assert "private" not in two.get("/v1/audit").text
    pages = two.read("/v1/audit?limit=4")
    rest = two.read(f"/v1/audit?limit=4&before={pages['next']}")
    assert [row["id"] for row in [*pages["audit"], *rest["audit"]]] == [row["id"] for row in found]
    assert rest["next"] is None
    assert {row["fleet"] for row in two.read("/v1/audit", headers=two.mine)["audit"]} == {"mine"}
    assert two.read("/v1/audit?fleet=theirs", headers=two.mine)["audit"] == []
    assert len(two.read("/v1/audit?fleet=theirs")["audit"]) == 1


def test_refused_calls_fill_no_audit_log(two, shape):
    before = two.read("/v1/audit")
    shape(two.delete("/v1/fleets/theirs", headers=two.mine), 403, "fleet_forbidden")
    shape(two.delete("/v1/fleets/theirs", headers=bearer("posse_x_y")), 401)
    assert two.read("/v1/audit") == before


def test_what_cannot_be_noted_is_not_done(two, shape, monkeypatch):
    def full(row):
        raise StorageUnavailable("the disk is full")

    monkeypatch.setattr(two.runtime.storage, "add_audit", full)
    shape(two.delete("/v1/fleets/theirs"), 503, "storage_unavailable")
    assert two.read("/v1/fleets/theirs")["name"] == "theirs"


def test_an_answer_whose_status_cannot_be_noted_is_given_all_the_same(two, monkeypatch):
    def full(number, status):
        raise StorageUnavailable("the disk is full")

    monkeypatch.setattr(two.runtime.storage, "finish_audit", full)
    assert two.delete("/v1/fleets/theirs").status_code == 204
    assert two.read("/v1/audit")["audit"][0]["status"] is None
