"""The client for JavaScript: in Node and in Chromium against a real service, and true to its OpenAPI description."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from posse.service.http.app import create_app

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "javascript"
CLIENT = Path(__file__).parents[2] / "clients" / "javascript"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed: apt-get install nodejs")


def run_node(*arguments):
    done = subprocess.run(["node", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def described():
    return create_app().openapi()


def routes():
    text = (CLIENT / "posse.js").read_text()
    return {name: (method, path) for name, method, path in re.findall(r'(\w+): \["(\w+)", "(.*?)"\]', text)}


@pytest.mark.parametrize(("name", "route"), routes().items())
def test_every_call_is_a_route_of_the_service(described, name, route):
    method, path = route
    assert method.lower() in described["paths"][path], name


def interface(name):
    text = (CLIENT / "posse.d.ts").read_text()
    body = re.search(rf"export interface {name} {{\n(.*?)\n}}", text, re.DOTALL)[1]
    return {field: optional == "?" for field, optional in re.findall(r"^  (\w+)(\??):", body, re.MULTILINE)}


@pytest.mark.parametrize(
    ("name", "schema"), [("Decision", "DecisionAnswer"), ("LogRow", "LogRow"), ("RewardCounts", "RewardsAnswer")]
)
def test_answers_have_the_fields_that_are_described(described, name, schema):
    fields = {field for field, optional in interface(name).items() if not optional}
    assert fields == set(described["components"]["schemas"][schema]["properties"])


@pytest.mark.parametrize(("name", "schema"), [("Question", "AskWithKey")])
def test_questions_have_the_fields_that_are_described(described, name, schema):
    assert set(interface(name)) == set(described["components"]["schemas"][schema]["properties"])


def test_bodies_name_fields_that_are_described(described):
    schemas = described["components"]["schemas"]
    text = (CLIENT / "posse.js").read_text()
    for schema, fields in {"RewardBody": ["reward", "event"], "CorrectionBody": ["reward", "instead_of"]}.items():
        assert set(fields) == set(schemas[schema]["properties"])
        assert all(f"{field}" in text for field in fields)


def test_every_method_has_a_type():
    methods = re.findall(r"^  (?:async )?([a-z]\w*)\(.*\) {$", (CLIENT / "posse.js").read_text(), re.MULTILINE)
    typed = re.findall(r"^  (\w+)\(", (CLIENT / "posse.d.ts").read_text(), re.MULTILINE)
    assert set(methods) - {"constructor"} == set(typed) - {"constructor"}


def require_right(told, fleet):
    decision = told["decision"]
    assert told["ready"] is True
    assert (decision["fleet"], decision["task"]) == (fleet, "a/b ü")
    assert told["news"] == [True, False, True]
    assert told["corrected"] is True
    assert (told["logged"]["id"], told["logged"]["reward"]) == (decision["id"], 3.0)
    assert told["again"] is True
    assert told["many"][1] == "cake"
    assert told["counts"] == {"new": 2, "same": 1}
    assert told["ranked"] == ["cake", "coffee"]
    assert (told["known"], told["chosen"]) == (2, 2)
    assert told["armsWithFeatures"] == ["coffee", "cake", "tea"]
    assert told["arms"] == ["coffee", "cake"]
    assert (told["task"], told["erased"], told["fleets"]) == ("a/b ü", None, True)
    assert told["unknown"] == [404, "unknown_fleet", True]
    assert told["conflict"] == [409, "not_rewarded", True]
    assert told["nan"] == "TypeError"
    assert told["fallback"] == ["cake", None, True, False]
    assert "did not answer a moment ago" in told["skipped"]


@needs_node
def test_node_against_a_real_service(serve):
    served = serve()
    script = (
        f"import * as posse from {json.dumps((CLIENT / 'posse.js').as_uri())};"
        f"import {{ scenario }} from {json.dumps((HERE / 'scenario.mjs').as_uri())};"
        f"console.log(JSON.stringify(await scenario(posse, {json.dumps(served.url)}, 'node')));"
    )
    require_right(run_node("--input-type=module", "-e", script), "node")


@needs_node
def test_what_may_pass_is_tried_again_under_one_key():
    told = run_node(HERE / "retries.mjs")
    found = {name: (one["result"], one["tries"]) for name, one in told.items()}
    assert found == {
        "busy": ("cake", 4),
        "dropped": ("cake", 3),
        "hangs": ("cake", 2),
        "nonsense": ("cake", 2),
        "refused": ("invalid", 1),
        "set aside": ("fallback coffee", 1),
        "gives up": ("storage_unavailable", 3),
        "falls back": ("fallback arm of t", 3),
        "not eligible": ("storage_unavailable", 1),
        "waits": ("cake", 2),
        "deadline": ("storage_unavailable", 1),
    }
    assert {one["keys"] for one in told.values()} == {1}
    assert {one["key"] for one in told.values()} == {"Bearer posse_k_s"}
    assert told["waits"]["ms"] >= 1000
    assert told["deadline"]["ms"] < 5000


def test_chromium_against_a_real_service(serve):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    served = serve()
    modules = [
        "data:text/javascript;base64," + base64.b64encode(path.read_bytes()).decode()
        for path in (CLIENT / "posse.js", HERE / "scenario.mjs")
    ]
    code = """async ([client, scenario, url]) =>
        (await import(scenario)).scenario(await import(client), url, "chromium")"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            page = browser.new_context(bypass_csp=True).new_page()
            page.goto(served.url)
            require_right(page.evaluate(code, [*modules, served.url]), "chromium")
        finally:
            browser.close()
