"""Schemathesis makes requests from the OpenAPI description: none may fail inside, and answers are as described."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LONG = "POSSE_LONG"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
)


def attack(served, folder, seconds, seed):
    """Let Schemathesis ask for so long; fail with what it found."""
    served.make_fleet("stores")
    for i in range(20):
        decision = served.decide("store-17")
        if i % 2:
            served.reward(decision, float(i))
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json", "--max-time", str(seconds),
        "--checks", ",".join(CHECKS), "--seed", str(seed), "--warnings", "off", "--no-color",
    ]  # fmt: skip
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=seconds + 120)
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2000:]
    # It is still there, and has not complained.
    assert served.get("/readyz").status_code == 200
    assert served.process.poll() is None
    assert "Traceback" not in served.words
    return done.stdout


def test_some_seconds_of_requests_find_nothing(serve, tmp_path):
    attack(serve(), tmp_path, 15, seed=6)


def test_a_minute_of_requests_finds_nothing(serve, tmp_path):
    served = serve()
    said = attack(served, tmp_path, 55, seed=7)
    assert f"Tested: {len(list(operations(served.read('/openapi.json'))))}" in said


@pytest.mark.skipif(not os.environ.get(LONG), reason=f"takes ten minutes; set {LONG}=1")
def test_ten_minutes_of_requests_find_nothing(serve, tmp_path):
    attack(serve(), tmp_path, 600, seed=int(os.environ.get("POSSE_SEED", "8")))


# The description itself.

OPEN_BODIES = {"/metrics", "/v1/fleets/{fleet}/log"}  # not JSON: their examples are text


@pytest.fixture(scope="module")
def description(service):
    return service.read("/openapi.json")


def operations(description):
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_route_is_described(service, description, list_routes):
    described = {name for name, _ in operations(description)}
    routes = {f"{method} {path.replace(':path', '')}" for method, path, _ in list_routes(service.app)}
    assert described == routes - {"GET /openapi.json", "GET /", "GET /static/{name}"}


def test_every_answer_and_body_has_an_example(description):
    for name, operation in operations(description):
        assert operation["summary"], name
        answers = {status: found for status, found in operation["responses"].items() if status.startswith("2")}
        assert answers, name
        for status, answer in answers.items():
            if status == "204":
                assert "content" not in answer
                continue
            for kind, content in answer["content"].items():
                assert content.get("example") or content.get("examples"), (name, status, kind)
        for content in operation.get("requestBody", {}).get("content", {}).values():
            schema = content["schema"]
            body = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert body["examples"], name
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                schema = parameter["schema"]
                assert parameter.get("example") or parameter.get("examples") or schema.get("examples"), (
                    name,
                    parameter,
                )


def test_every_failure_is_described_as_the_one_shape(description):
    known = description["components"]["schemas"]
    assert known["NotReady"]["properties"]["error"] == known["Failure"]["properties"]["error"]
    for name, operation in operations(description):
        failures = {status: found for status, found in operation["responses"].items() if status >= "400"}
        for status, found in failures.items():
            shapes = {kind: content["schema"] for kind, content in found["content"].items()}
            # Not being ready is a failure, too, and says more.
            shape = "NotReady" if name == "GET /readyz" else "Failure"
            assert shapes == {"application/json": {"$ref": f"#/components/schemas/{shape}"}}, (name, status)
        if name not in ("GET /healthz", "GET /readyz"):
            assert {"401", "403", "429", "503"} <= failures.keys(), name
        if "requestBody" in operation:
            assert {"400", "413", "415", "422"} <= failures.keys(), name
        if "{" in name and name != "PUT /v1/fleets/{fleet}":
            assert "404" in failures, name


def test_examples_of_bodies_are_accepted(service, description):
    schemas = description["components"]["schemas"]

    def example(name):
        return schemas[name]["examples"][0]

    assert service.put("/v1/fleets/stores", json=example("Definition")).status_code == 201
    answer = service.post("/v1/fleets/stores/decisions", json=example("Ask"))
    assert answer.status_code == 200
    assert service.post("/v1/fleets/stores/decisions/batch", json=example("AskMany")).status_code == 200
    assert service.post("/v1/fleets/stores/rankings", json=example("AskRanking")).status_code == 200
    path = f"/v1/decisions/{answer.json()['id']}/reward"
    assert service.post(path, json=example("RewardBody")).status_code == 200
    assert service.post("/v1/fleets/stores/arms", json=example("ArmBody")).status_code == 200
    body = json.loads(json.dumps(example("RewardMany")))
    body["rewards"][0]["id"] = service.decide()["id"]
    assert service.post("/v1/rewards", json=body).status_code == 200


def test_examples_of_answers_have_the_fields_of_answers(service, description):
    """An example that lacks a field, or has one more, teaches something wrong."""
    service.put("/v1/fleets/stores", json=description["components"]["schemas"]["Definition"]["examples"][0])
    decision = service.decide()
    service.reward(decision, 1.0)
    service.decide()
    for path, real in (
        ("/v1/fleets", "/v1/fleets"),
        ("/v1/fleets/{fleet}", "/v1/fleets/stores"),
        ("/v1/decisions/{id}", f"/v1/decisions/{decision['id']}"),
        ("/v1/fleets/{fleet}/tasks", "/v1/fleets/stores/tasks"),
        ("/v1/fleets/{fleet}/tasks/{task}", "/v1/fleets/stores/tasks/store-17"),
        ("/v1/fleets/{fleet}/history/{task}", "/v1/fleets/stores/history/store-17"),
        ("/v1/fleets/{fleet}/pending", "/v1/fleets/stores/pending"),
        ("/v1/fleets/{fleet}/population", "/v1/fleets/stores/population"),
        ("/v1/fleets/{fleet}/activity", "/v1/fleets/stores/activity"),
        ("/v1/fleets/{fleet}/value", "/v1/fleets/stores/value"),
        ("/v1/fleets/{fleet}/verify", "/v1/fleets/stores/verify"),
        ("/readyz", "/readyz"),
        ("/healthz", "/healthz"),
    ):
        example = description["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["example"]
        require_same_fields(example, service.read(real), path)


def require_same_fields(example, found, place):
    if isinstance(found, dict) and isinstance(example, dict):
        # Objects by the name of an arm, a feature or a setting have other names in them.
        if not place.endswith(
            (".probabilities", ".mean", ".sd", ".context", ".definition", ".effects.task", ".effects.arm")
        ):
            assert example.keys() == found.keys(), place
            for name in found:
                require_same_fields(example[name], found[name], f"{place}.{name}")
    elif isinstance(found, list) and isinstance(example, list):
        if found and example:
            require_same_fields(example[0], found[0], f"{place}.0")
    elif found is not None and example is not None:
        numbers = (int, float)
        same = isinstance(example, numbers) and isinstance(found, numbers)
        assert same or type(example) is type(found), (place, example, found)


def test_the_key_is_described(description):
    assert description["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
    assert "HTTPValidationError" not in json.dumps(description)
