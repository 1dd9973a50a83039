"""What is sent, and what is not."""

import json
import subprocess
import sys
from urllib.parse import parse_qsl

import httpx
import numpy as np
import pytest

from posse import FeatureSpec
from posse.client import Client, Decision
from posse.client.plain import to_json
from posse.errors import InvalidValue, MissingFile, NotFinite, SavedFileError
from posse.features import numeric, one_hot

DECISION = {
    "id": "d-1", "fleet": "shops", "task": "a", "arm": "tea", "propensity": 1.0, "probabilities": {"tea": 1.0},
    "mean": {"tea": 1.5}, "sd": {"tea": 0.1},
}  # fmt: skip


def test_a_decision_is_sent_as_the_service_wants_it(make, server):
    server.acts = [(200, DECISION | {"later": "a key of a newer service"})]
    context = {"hour": np.float32(9.5), "count": np.int64(3), "open": np.True_, "weather": "rain", "gap": None}
    client = make(server.url + "/", key="posse_abc")
    decision = client.decide("shops", "Straße 1/2", context, eligible=("tea", "cake"), explore=False)
    sent = server.requests[0]

    assert (sent.method, sent.path) == ("POST", "/v1/fleets/shops/decisions")
    assert sent.json == {
        "task": "Straße 1/2",
        "context": {"hour": 9.5, "count": 3, "open": True, "weather": "rain", "gap": None},
        "eligible": ["tea", "cake"],
        "explore": False,
    }
    assert sent.headers["authorization"] == "Bearer posse_abc"
    assert sent.headers["content-type"] == "application/json"
    assert decision == Decision("d-1", "shops", "a", "tea", 1.0, {"tea": 1.0}, {"tea": 1.5}, {"tea": 0.1})


def test_a_prefix_of_the_address_stays(make, server):
    server.acts = [(200, {"fleets": []})]
    assert make(server.url + "/bandits/").fleets() == []
    assert server.requests[0].path == "/bandits/v1/fleets"


def test_the_key_comes_from_the_environment_and_is_not_shown(make, server, monkeypatch):
    server.acts = [(200, {"fleets": []})]
    monkeypatch.setenv("POSSE_KEY", "posse_env")
    client = make(server.url)
    client.fleets()
    make(server.url, key="posse_own").fleets()
    assert [one.headers["authorization"] for one in server.requests] == ["Bearer posse_env", "Bearer posse_own"]

    monkeypatch.delenv("POSSE_KEY")
    make(server.url).fleets()
    assert "authorization" not in server.requests[-1].headers
    assert "posse_own" not in repr(Client(server.url, key="posse_own"))


@pytest.mark.parametrize(
    ("name", "path"), [("a/b", "a%2Fb"), ("50% off?#", "50%25%20off%3F%23"), ("a..b", "a..b"), ("ü&+", "%C3%BC%26%2B")]
)
def test_names_are_one_part_of_a_path(make, server, name, path):
    server.acts = [(204, b"")]
    client = make(server.url)
    client.erase("shops", name)
    client.delete_fleet(name)
    assert [one.path for one in server.requests] == [f"/v1/fleets/shops/tasks/{path}", f"/v1/fleets/{path}"]


def test_names_that_would_lead_elsewhere_are_not_sent(make, nobody):
    client = make(nobody)
    for name in ("", ".", "..", 17, None):
        with pytest.raises(InvalidValue, match="expected "):
            client.erase("shops", name)
        with pytest.raises(InvalidValue, match="expected "):
            client.decide("shops", name, {})
    with pytest.raises(InvalidValue, match=r"use \['tea'\]"):
        client.decide("shops", "a", {}, eligible="tea")
    with pytest.raises(InvalidValue, match="context to be values by feature"):
        client.decide("shops", "a", "rain")
    with pytest.raises(InvalidValue, match="travels in a header"):
        client.decide("shops", "a", {}, key="ü")
    with pytest.raises(InvalidValue, match="decision 1 to be a mapping with task and context"):
        client.decide_many("shops", [{"task": "a", "context": {}}, {"task": "a"}])


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"hour": np.nan}, r"context\['hour'\] is nan"),
        ({"hour": np.float32("inf")}, r"context\['hour'\] is inf"),
        ({"sizes": np.array([1.0, np.nan])}, r"context\['sizes'\]\[1\] is nan"),
        ({"deep": {"er": [1, float("-inf")]}}, r"context\['deep'\]\['er'\]\[1\] is -inf"),
    ],
)
def test_what_is_not_finite_is_refused_by_its_place(value, place):
    with pytest.raises(NotFinite, match=f"{place}, which JSON cannot hold; drop or replace"):
        to_json(value, "context")


def test_what_json_cannot_hold_is_refused():
    endless = {}
    endless["self"] = endless
    for value in ({"a": {1, 2}}, {"a": object()}, {"a": b"bytes"}, {"a": 1j}, {(1, 2): 3}, endless):
        with pytest.raises(InvalidValue, match="context"):
            to_json(value, "context")


def test_nothing_is_sent_that_is_not_finite(make, server):
    server.acts = [(200, DECISION)]
    client = make(server.url, fallback="tea")
    for call in (
        lambda: client.decide("shops", "a", {"hour": float("nan")}),
        lambda: client.reward("d-1", float("inf")),
        lambda: client.reward_many({"d-1": 1.0, "d-2": np.nan}),
    ):
        with pytest.raises(NotFinite):
            call()
    assert server.requests == []


def test_features_may_come_from_a_spec(make, server):
    fleet = {"name": "s", "created": "2026-01-02T03:04:05+00:00", "definition": {}, "arms": [], "retired_arms": [],
             "columns": [], "tasks": 0, "decisions": 0, "rewards": 0, "pending": 0,
             "state": "serving", "reason": None, "pending_reward": None}  # fmt: skip
    server.acts = [(201, fleet)]
    client = make(server.url)
    spec = FeatureSpec([numeric("hour"), one_hot("weather", ["rain", "sun"])], intercept=False)
    client.create_fleet("s", ["tea"], spec, floor=0.05)
    client.create_fleet("s", ["tea"], ["age", numeric("hour"), {"kind": "hashed", "name": "x"}])
    first, second = (one.json for one in server.requests)

    assert [(one["kind"], one["name"]) for one in first["features"]] == [("numeric", "hour"), ("one_hot", "weather")]
    assert (first["intercept"], first["floor"], first["arms"]) == (False, 0.05, ["tea"])
    assert second["features"][0] == "age"
    assert second["features"][1]["kind"] == "numeric"
    assert second["features"][2] == {"kind": "hashed", "name": "x"}
    assert server.requests[0].method == "PUT"


def test_tasks_come_page_by_page(make, server):
    def row(name):
        return {"task": name, "decisions": 1, "rewards": 0, "first_time": "2026-01-02T03:04:05Z"}

    server.acts = [(200, {"tasks": [row("a"), row("b&c")], "next": "b&c"}), (200, {"tasks": [row("d")], "next": None})]
    rows = list(make(server.url).tasks("shops", "x y", page=2))

    assert [one.task for one in rows] == ["a", "b&c", "d"]
    assert rows[0].first_time.isoformat() == "2026-01-02T03:04:05+00:00"
    assert [dict(parse_qsl(one.path.partition("?")[2])) for one in server.requests] == [
        {"search": "x y", "limit": "2"},
        {"search": "x y", "limit": "2", "after": "b&c"},
    ]


LINES = b'{"a": 1}\n' * 1000


@pytest.mark.parametrize(
    "fault", [b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + LINES[:4000], (503, "not_ready")]
)
def test_a_saved_log_is_whole_or_not_there(make, server, tmp_path, fault):
    server.acts = [fault, fault, (200, LINES)]
    path = tmp_path / "log.jsonl"
    assert make(server.url).log("shops", path) == path
    assert path.read_bytes() == LINES
    assert server.requests[0].path == "/v1/fleets/shops/log?format=jsonl"

    server.acts = [fault]
    with pytest.raises(ValueError, match="gave no result"):
        make(server.url).log("shops", tmp_path / "other.parquet")
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="gave no result"):
        make(server.url).log("shops", path)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_log_that_takes_long_to_make_is_waited_for(make, server, tmp_path):
    server.acts = ["late"]
    times = httpx.Timeout(1.5, read=0.1)
    path = make(server.url, timeout=times, deadline=1.5, retries=0).log("shops", tmp_path / "log.parquet")
    assert path.read_bytes() == b"late"
    assert len(server.requests) == 1


def test_a_log_goes_to_a_file_of_a_known_kind_in_a_folder_that_is_there(make, server, tmp_path):
    server.acts = [(200, LINES)]
    with pytest.raises(InvalidValue, match=r"\.jsonl or \.parquet"):
        make(server.url).log("shops", tmp_path / "log.csv")
    with pytest.raises(MissingFile, match="make it first"):
        make(server.url).log("shops", tmp_path / "none" / "log.jsonl")
    assert server.requests == []
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(SavedFileError, match="cannot write"):
        make(server.url).log("shops", tmp_path / "folder.jsonl")
    assert [one.name for one in tmp_path.iterdir()] == ["folder.jsonl"]


def test_importing_the_client_loads_neither_numpy_nor_the_service():
    program = "import json, sys, posse.client; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    assert {"numpy", "numba", "fastapi", "posse.service", "polars"}.isdisjoint(loaded)


def test_without_httpx_it_says_what_to_install():
    program = "import sys; sys.modules['httpx'] = None\nimport posse.client"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "MissingDependency: posse.client needs httpx: pip install httpx" in done.stderr
