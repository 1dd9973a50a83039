"""The page in Chromium, on a service that is a process of its own: what it shows is what the API says."""

import json
import os
import re
import shutil
import sqlite3
import time
from contextlib import closing, contextmanager
from html.parser import HTMLParser
from importlib.resources import files
from math import log10
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import polars as pl
import pytest

from posse_lab.servers.service import Service

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGE = Path(str(files("posse.service") / "page"))
CONTRAST = Path(__file__).with_name("page_contrast.js").read_text()
FOCUS = Path(__file__).with_name("page_focus.js").read_text()
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SOON = (
    15_000  # milliseconds in which the page must have seen what happened; its parts ask every 5 seconds at the latest
)
Z = 1.6449  # standard deviations of an interval of 90 %, to either side
N_TASKS = 30  # more than a page of the list
BUSY = "store-07"  # a task with more decisions than a page of its history
HOSTILE = [
    "<img src=x onerror=\"document.title='hurt'\">",
    "</script><script>document.title='hurt'</script>",
    "\"quotes' & <b>bold</b>",
    "متجر القهوة",
    "north/station?x=1#y%2F",
    "x" * 200,
]

browser_needed = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@contextmanager
def served(folder, *arguments, port=0, ready=True, env=None):
    """Run ``posse serve`` until the end of the block; give its address and process."""
    service = Service(folder, *arguments, port=port, environment=env)
    try:
        service.start(ready=False)
        address = service.printed_url()
        assert address is not None, service.words
        if ready:
            service.wait_until_ready()
        yield address, service.process
        service.stop()
    finally:
        service.clear()


def wait_for(check, seconds=120.0):
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return found


class Api:
    """What the service says, to compare the page with."""

    def __init__(self, address):
        self.address = address
        self.client = httpx.Client(base_url=address, timeout=30)

    def close(self):
        self.client.close()

    def read(self, path, **params):
        answer = self.client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, method, path, body):
        answer = self.client.request(method, path, json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def decide(self, fleet, task, context, **rest):
        return self.send("POST", f"/v1/fleets/{fleet}/decisions", {"task": task, "context": context, **rest})

    def reward(self, decision, value):
        self.send("POST", f"/v1/decisions/{decision['id']}/reward", {"reward": value})

    def settled(self, fleet):
        """Wait until everything was learned and no estimate of the population is on its way."""
        seen = []

        def same():
            seen.append(self.read(f"/v1/fleets/{fleet}/population"))
            time.sleep(0.3)
            rewards = self.read(f"/v1/fleets/{fleet}")["rewards"]
            learned = sum(arm["rewards"] for arm in seen[-1]["arms"])
            return learned == rewards and len(seen) > 2 and seen[-1] == seen[-2] == seen[-3]

        wait_for(same)


def fill(api):
    """Make the fleets of the tests: one with much in it, one with odd names, a young one and an empty one."""
    rng = np.random.default_rng(11)
    weather = {"kind": "one_hot", "name": "weather", "categories": ["sun", "rain"]}
    arms = ["coffee", "cake", "ice cream"]
    api.send("PUT", "/v1/fleets/stores", {"arms": arms, "features": ["hour", weather], "floor": 0.1})
    asking = [f"store-{k:02d}" for k in range(N_TASKS)] + [BUSY] * 10
    for _ in range(6):
        hours, skies = (
            rng.uniform(-1, 1, len(asking)).round(2).tolist(),
            rng.choice(["sun", "rain"], len(asking)).tolist(),
        )
        asked = [
            {"task": task, "context": {"hour": hour, "weather": sky}}
            for task, hour, sky in zip(asking, hours, skies, strict=True)
        ]
        made = api.send("POST", "/v1/fleets/stores/decisions/batch", {"decisions": asked})["decisions"]
        rewards = [
            {"id": each["id"], "reward": float(rng.normal(arms.index(each["arm"]), 0.5))}
            for each in made
            if rng.random() < 0.97
        ]
        api.send("POST", "/v1/rewards", {"rewards": rewards})
    api.send("POST", "/v1/fleets/stores/arms", {"arm": "tea"})
    answer = api.client.delete("/v1/fleets/stores/arms/cake")
    assert answer.status_code == 200, answer.text
    api.settled("stores")

    api.send("PUT", "/v1/fleets/labels", {"arms": [*HOSTILE], "features": ["hour", HOSTILE[0]]})
    for task in HOSTILE:
        api.reward(api.decide("labels", task, {"hour": 1.0, HOSTILE[0]: 2.0}), 1.5)
        api.decide("labels", task, {"hour": 1.0, HOSTILE[0]: 2.0})
    api.send("PUT", "/v1/fleets/young", {"arms": ["a", "b"], "features": ["x"]})
    api.reward(api.decide("young", "first", {"x": 1.0}), 0.25)
    api.send("PUT", "/v1/fleets/empty", {"arms": ["a", "b"], "features": ["x"]})
    names = [f"feature_{k}" for k in range(44)]
    api.send("PUT", "/v1/fleets/wide", {"arms": ["a", "b"], "features": names})
    api.reward(api.decide("wide", "first", dict.fromkeys(names, 0.5)), 1.0)


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with served(tmp_path_factory.mktemp("page")) as (address, _), closing(Api(address)) as found:
        fill(found)
        yield found


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    """Open the page; at the end nothing may be in the console and nothing may have been asked of another host."""
    opened = []

    def go(address, hash_="", *, width=1280, height=900, scheme="light", allow=(), **rest):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **rest)
        context.set_default_timeout(SOON)
        page = context.new_page()
        heard = []
        page.on("console", lambda message: heard.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on(
            "request", lambda request: None if request.url.startswith((address, "blob:")) else heard.append(request.url)
        )
        opened.append((context, heard, allow))
        page.goto(f"{address}/{hash_}")
        return page

    yield go
    for context, heard, allow in opened:
        context.close()
        assert [text for text in heard if not any(part in text for part in allow)] == []


def picture(page, name):
    """Keep a picture of the page, for people to look at."""
    folder = os.environ.get("POSSE_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def shown(value):
    """A number as the page writes it."""
    if value == 0:
        return "0"
    if not -3 <= log10(abs(value)) < 7:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits}e{'+' if int(power) > 0 else '-'}{abs(int(power))}"
    rounded = float(f"{value:.3g}")
    return f"{int(rounded):,}" if rounded == int(rounded) else np.format_float_positional(rounded, trim="-")


def interval(mean, sd):
    return f"{shown(mean - Z * sd)} to {shown(mean + Z * sd)}"


def chance(share):
    """A probability as the page writes it."""
    return "<1%" if share < 0.01 else ">99%" if share > 0.99 else f"{int(share * 100 + 0.5)}%"


def plain(column):
    return "level" if column == "intercept" else column


def percent(share):
    return f"{shown(share * 100)}%"


def seen(locator, text):
    from playwright.sync_api import expect

    expect(locator).to_have_text(text, timeout=SOON)


def texts(locator):
    return [text.strip() for text in locator.all_text_contents()]


def open_tab(page, name):
    page.get_by_role("tab", name=name).click()


# What the files are.


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_page_has_no_inline_script_or_style_and_asks_only_its_own_service():
    parser = Tags()
    parser.feed((PAGE / "index.html").read_text())
    for tag, attributes in parser.found:
        assert not any(name == "style" or name.startswith("on") for name in attributes), (tag, attributes)
        assert tag != "style"
        if tag == "script":
            assert attributes["src"].startswith("static/")
    for path in sorted((PAGE / "static").iterdir()):
        text = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text), (
            path.name
        )
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), path.name
        for name in re.findall(r'from "\./([\w.]+)"', text):
            assert (PAGE / "static" / name).is_file(), name


# What it shows.


@browser_needed
def test_fleets_and_counts_are_those_of_the_api(api, visit):
    page = visit(api.address)
    fleets = api.read("/v1/fleets")["fleets"]
    page.get_by_role("link", name="stores").wait_for()
    assert texts(page.locator(".fleet-card h2")) == [fleet["name"] for fleet in fleets]
    for card, fleet in zip(page.locator(".fleet-card").all(), fleets, strict=True):
        counts = [shown(fleet[name]) for name in ("tasks", "decisions", "rewards", "pending")]
        assert texts(card.locator("dd")) == counts
    picture(page, "fleets")

    page.get_by_role("link", name="stores").click()
    fleet = next(fleet for fleet in fleets if fleet["name"] == "stores")
    for name in ("tasks", "decisions", "rewards", "pending"):
        seen(page.locator(f"[data-count={name}]"), shown(fleet[name]))
    assert page.url.endswith("#/stores")
    assert page.title() == "stores · posse"


@browser_needed
def test_activity_adds_up_and_can_be_read_by_keyboard(api, visit):
    page = visit(api.address, "#/stores")
    fleet = api.read("/v1/fleets/stores")
    activity = page.locator(".card", has=page.get_by_role("heading", name="Activity"))
    activity.locator("rect.decisions").first.wait_for()
    activity.get_by_text("As a table").click()
    for choice in ("Last hour", "Last day", "Last 4 weeks", "Last week"):
        page.get_by_text(choice).click()
        wait_for(lambda: activity.locator("tbody tr").count() > 0)
        rows = [texts(row.locator("td")) for row in activity.locator("tbody tr").all()]
        assert sum(int(row[0].replace(",", "")) for row in rows) == fleet["decisions"]
        assert sum(int(row[1].replace(",", "")) for row in rows) == fleet["rewards"]
    assert page.url.endswith("#/stores?range=week")
    (bar,) = api.read("/v1/fleets/stores/activity", minutes=10080)["activity"][-1:]
    assert rows[0] == [shown(bar["decisions"]), shown(bar["rewards"]), shown(bar["mean_reward"])]

    activity.locator(".timeline-box").focus()
    page.keyboard.press("End")  # wherever the mouse happens to be after the last click
    readout = activity.locator(".readout").text_content()
    assert f"{shown(bar['decisions'])} decisions, {shown(bar['rewards'])} rewards" in readout
    assert activity.locator(".timeline-box").get_attribute("aria-valuetext") == readout
    picture(page, "overview")


@browser_needed
def test_an_arm_shows_its_population(api, visit):
    page = visit(api.address, "#/stores")
    open_tab(page, "Arms")
    population = api.read("/v1/fleets/stores/population")
    page.locator("table.choose tbody tr").first.wait_for()
    rows = [texts(row.locator("td"))[:3] for row in page.locator("table.choose tbody tr").all()]
    assert rows == [[shown(a["tasks"]), shown(a["rewards"]), shown(a["noise_sd"])] for a in population["arms"]]
    assert (
        page.locator("table.choose tr", has=page.get_by_text("retired", exact=True)).locator("a:visible").count() == 4
    )
    assert texts(page.locator("table.choose .chip:visible")) == ["retired"]

    page.get_by_role("link", name="ice cream").click()
    assert page.url.endswith("#/stores/arms/ice%20cream")
    arm = next(arm for arm in population["arms"] if arm["arm"] == "ice cream")
    seen(page.locator(".card h2 .label").first, "ice cream")
    rows = page.locator("table.intervals tbody tr").all()
    columns = [plain(name) for name in population["columns"]]
    assert [texts(row.locator("th")) for row in rows] == [[name] for name in columns]
    for k, row in enumerate(rows):
        spread = shown(arm["covariance"][k][k] ** 0.5)
        ends = interval(arm["mean"][k], arm["mean_sd"][k])
        assert texts(row.locator("td.text")) == [shown(arm["mean"][k]), ends, spread]
    cells = [texts(row.locator("td")) for row in page.locator("table.heat tbody tr").all()]
    assert cells == [[shown(value) for value in row] for row in arm["covariance"]]
    assert population["findings"] == ["arm 'tea' has no rewards yet"]
    assert texts(page.locator(".findings li")) == ["Arm 'tea' has no rewards yet."]
    picture(page, "arms")

    page.locator("table.heat td[data-row='1'][data-column='2']").hover()
    first, second = columns[1:3]
    seen(page.locator(".heat-box .readout"), f"{first} × {second}: {shown(arm['covariance'][1][2])}")
    page.locator("table.heat td[data-row='0'][data-column='0']").focus()
    page.keyboard.press("ArrowRight")
    seen(page.locator(".heat-box .readout"), f"{columns[0]} × {first}: {shown(arm['covariance'][0][1])}")
    page.get_by_label("Shown as").select_option("correlation")
    assert texts(page.locator("table.heat tbody tr").first.locator("td"))[0] == "1"


@browser_needed
def test_tasks_are_found_by_name_and_page_by_page(api, visit):
    page = visit(api.address, "#/stores/tasks")
    names = page.locator("table.plain tbody th")
    wait_for(lambda: names.count() == 25)
    everything = api.read("/v1/fleets/stores/tasks", limit=1000)["tasks"]
    assert texts(names) == [task["task"] for task in everything[:25]]
    row = page.locator("table.plain tbody tr").first
    assert texts(row.locator("td"))[:2] == [shown(everything[0]["decisions"]), shown(everything[0]["rewards"])]
    page.get_by_role("button", name="Next").click()
    wait_for(lambda: texts(names) == [task["task"] for task in everything[25:]])
    page.get_by_role("button", name="Previous").click()
    wait_for(lambda: names.count() == 25)
    picture(page, "tasks")

    page.get_by_label("Search tasks").fill("STORE-1")
    wait_for(lambda: texts(names) == [f"store-1{k}" for k in range(10)])
    assert page.url.endswith("#/stores/tasks?search=STORE-1")
    page.get_by_label("Search tasks").fill("nobody")
    page.get_by_text("No task has “nobody” in its name.").wait_for()
    page.get_by_label("Search tasks").fill(BUSY)
    wait_for(lambda: texts(names) == [BUSY])
    page.get_by_role("link", name=BUSY).click()
    page.get_by_role("heading", name=BUSY).wait_for()
    page.go_back()
    wait_for(lambda: texts(names) == [BUSY])
    assert page.get_by_label("Search tasks").input_value() == BUSY


@browser_needed
def test_a_task_shows_beliefs_borrowing_and_history(api, visit):
    page = visit(api.address, f"#/stores/tasks/{BUSY}")
    page.locator(".posterior .card h3 .label").first.wait_for()
    task = api.read(f"/v1/fleets/stores/tasks/{BUSY}")
    cards = page.locator(".posterior .card").all()
    assert [card.locator("h3 .label").text_content() for card in cards] == [arm["arm"] for arm in task["arms"]]
    for card, arm in zip(cards, task["arms"], strict=True):
        for k, row in enumerate(card.locator("tbody tr").all()):
            assert row.locator("th").text_content() == plain(task["columns"][k])
            ends = interval(arm["mean"][k], arm["sd"][k])
            text = f"{shown(arm['mean'][k])} ({ends}), all tasks {shown(arm['population_mean'][k])}"
            assert row.locator("td.text").text_content() == text
        words = card.locator(".share-text").text_content()
        assert words.startswith(f"{percent(arm['own_share'])} own, {percent(1 - arm['own_share'])} borrowed.")
        width = float(card.locator("rect.own").get_attribute("width").rstrip("%"))
        assert width == pytest.approx(100 * arm["own_share"], abs=0.006)
        if arm["rewards"]:
            assert f"{shown(arm['rewards'])} reward" in words
            assert f"as much as {shown(arm['borrowed'])} would" in words
    # The dot and the ends of the line stand where the numbers are, on one axis for all arms.
    low, high = axis_of(task)
    line = cards[0].locator("tbody tr").first.locator("line.inner")
    arm = task["arms"][0]
    for name, sign in (("x1", -1), ("x2", 1)):
        place = (arm["mean"][0] + sign * Z * arm["sd"][0] - low) / (high - low)
        assert float(line.get_attribute(name).rstrip("%")) == pytest.approx(100 * place, abs=0.01)

    past = api.read(f"/v1/fleets/stores/history/{BUSY}", limit=1000)["decisions"]
    events = page.locator(".event")
    assert events.count() == 25
    page.get_by_role("button", name="Load more").click()
    wait_for(lambda: events.count() == 50)
    for event, row in list(zip(events.all(), past, strict=False))[:30]:
        assert event.get_attribute("data-id") == row["id"]
        assert event.locator(".event-arm").text_content() == row["arm"]
        assert percent(row["propensity"]) in event.locator(".event-chance").text_content()
        if row["state"] == "rewarded":
            assert event.locator(".outcome").text_content() == shown(row["reward"])
        else:
            assert event.locator(".outcome").text_content().startswith("pending ")
    events.first.locator("summary").click()
    chances = {
        texts(line.locator("th"))[0]: texts(line.locator("td"))[0] for line in events.first.locator("tbody tr").all()
    }
    assert chances == {arm: percent(chance) for arm, chance in past[0]["probabilities"].items()}
    for name, value in past[0]["context"].items():
        assert events.first.locator("dl").get_by_text(name, exact=True).count() == 1
        assert (shown(value) if isinstance(value, float) else value) in texts(events.first.locator("dd"))
    picture(page, "task")


def axis_of(task):
    """The ends of the axis that the arms of a task share: all intervals and 0, with a little air."""
    ends = [0.0]
    for arm in task["arms"]:
        ends += arm["population_mean"]
        ends += [m + sign * Z * s for m, s in zip(arm["mean"], arm["sd"], strict=True) for sign in (-1, 1)]
    air = 0.06 * (max(ends) - min(ends))
    return min(ends) - air, max(ends) + air


@browser_needed
def test_pending_rewards_the_oldest_first(api, visit):
    page = visit(api.address, "#/stores/pending")
    waiting = api.read("/v1/fleets/stores/pending")
    rows = page.locator("table.plain tbody tr")
    wait_for(lambda: rows.count() == len(waiting["pending"]))
    assert [row.get_attribute("data-id") for row in rows.all()] == [each["id"] for each in waiting["pending"]]
    assert texts(rows.first.locator("th, td"))[:2] == [waiting["pending"][0]["task"], waiting["pending"][0]["arm"]]
    page.get_by_text(f"{waiting['total']} in all").wait_for()
    picture(page, "pending")
    rows.first.get_by_role("link").click()
    page.get_by_role("heading", name=waiting["pending"][0]["task"]).wait_for()


@browser_needed
def test_the_page_says_what_pending_decisions_count_as(api, visit):
    for name, counted in (("counting", True), ("holding", False)):
        definition = {"arms": ["a", "b"], "features": ["x"], "absent_reward": 0.25, "count_pending": counted}
        api.send("PUT", f"/v1/fleets/{name}", definition)
        api.decide(name, "t", {"x": 1.0})
        page = visit(api.address, f"#/{name}/pending")
        page.locator("table.plain tbody tr").first.wait_for()
        assert page.get_by_text("Until then each counts as 0.25.").count() == counted
        page.close()
        page = visit(api.address, f"#/{name}/overview")
        end = "from the decision on, until a reward comes" if counted else "when the wait is over, and not before"
        page.get_by_text(f"it counts as 0.25 {end}").wait_for()
        page.close()
        api.client.delete(f"/v1/fleets/{name}")


@browser_needed
def test_rates_of_clicks_are_shown_with_intervals_inside_their_range(api, visit):
    api.send("PUT", "/v1/fleets/clicks", {"arms": ["a", "b"], "features": ["x"], "rewards": "binary"})
    for step in range(20):
        decision = api.decide("clicks", "t", {"x": step % 3})
        api.send("POST", f"/v1/decisions/{decision['id']}/reward", {"reward": step % 4 == 0})

    def words(rate):
        low, mean, high = (f"{float(f'{100 * rate[name]:.3g}'):g}%" for name in ("low", "mean", "high"))
        return f"{mean} ({low} to {high})"

    # Asked again and again: an estimate in the background may come between the page's question and this one.
    page = visit(api.address, "#/clicks/tasks/t")
    wait_for(
        lambda: all(
            page.get_by_text(f"Expected: {words(arm['rate'])}").count()
            for arm in api.read("/v1/fleets/clicks/tasks/t")["arms"]
        )
    )
    assert page.get_by_text("logit per unit").count() == 2
    page.close()
    page = visit(api.address, "#/clicks/arms/b")

    def new_task():
        return words(api.read("/v1/fleets/clicks/population")["arms"][1]["rate"])

    wait_for(lambda: page.get_by_text(f"A new task: {new_task()}.").count())
    page.close()
    page = visit(api.address, "#/clicks/overview")
    page.get_by_text("0 or 1 (clicks, purchases)").wait_for()
    page.close()
    api.client.delete("/v1/fleets/clicks")


@browser_needed
def test_what_is_known_about_tasks_is_shown(api, visit):
    definition = {"arms": ["a", "b"], "features": ["x"], "task_features": ["size", "age"]}
    api.send("PUT", "/v1/fleets/known", definition)
    api.send("POST", "/v1/fleets/known/task-features", {"tasks": {"t": {"size": 2.5, "age": 3}}})
    api.decide("known", "other", {"x": 1.0})
    page = visit(api.address, "#/known/tasks/t")
    page.get_by_text("Known about it: size 2.5, age 3").wait_for()
    page.close()
    page = visit(api.address, "#/known/arms/a")
    page.get_by_text("size (of tasks): 0").wait_for()
    page.close()
    page = visit(api.address, "#/known/tasks/other")
    page.get_by_text("first seen").wait_for()
    assert page.get_by_text("Known about it").count() == 0 or not page.get_by_text("Known about it").is_visible()
    page.close()
    api.client.delete("/v1/fleets/known")


def verdict(difference, than):
    interval = f"(90% interval: {shown(difference['low'])} to {shown(difference['high'])})"
    size = shown(abs(difference["value"]))
    if difference["low"] > 0:
        return f"The policy earns {size} more per decision than {than} {interval}."
    if difference["high"] < 0:
        return f"The policy earns {size} less per decision than {than} {interval}."
    start = (
        f"The log cannot tell the policy from {than} yet: the difference is {shown(difference['value'])} per decision"
    )
    return f"{start} {interval}."


@browser_needed
def test_value_against_a_baseline_and_why_there_is_none(api, visit):
    page = visit(api.address, "#/stores/value")
    for baseline, words in (("uniform", "choosing every arm alike"), ("arm:ice cream", "always choosing ice cream")):
        page.get_by_label("Compare with").select_option(baseline)
        page.get_by_text(words).wait_for(timeout=30_000)
        found = api.read("/v1/fleets/stores/value", baseline=baseline)
        assert found["refusal"] is None
        rows = page.locator("table.intervals tbody tr").all()
        for row, part in zip(rows, ("policy", "baseline", "difference"), strict=True):
            number = found[part]
            assert texts(row.locator("td.text")) == [
                shown(number["value"]),
                f"{shown(number['low'])} to {shown(number['high'])}",
            ]
        seen(page.locator(".verdict"), verdict(found["difference"], words))
    assert page.url.endswith("#/stores/value?baseline=arm%3Aice+cream")
    picture(page, "value")

    page.goto(f"{api.address}/#/young/value")
    refusal = api.read("/v1/fleets/young/value")["refusal"]
    page.get_by_text(refusal[1:]).wait_for()
    page.goto(f"{api.address}/#/empty/value")
    page.get_by_text("No rewards yet").wait_for()


@browser_needed
def test_the_log_is_downloaded(api, visit, tmp_path):
    page = visit(api.address, "#/stores/log")
    fleet = api.read("/v1/fleets/stores")
    for name, suffix in (("Download JSON Lines", "jsonl"), ("Download Parquet", "parquet")):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=name).click()
        assert waiting.value.suggested_filename == f"stores.{suffix}"
        waiting.value.save_as(tmp_path / f"log.{suffix}")
        page.get_by_text(f"Saved stores.{suffix}").wait_for()
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert (tmp_path / "log.jsonl").read_bytes() == api.client.get("/v1/fleets/stores/log?format=jsonl").content
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert len(pl.read_parquet(tmp_path / "log.parquet")) == fleet["decisions"]


@browser_needed
def test_missing_fleets_and_tasks_are_explained(api, visit):
    page = visit(api.address, "#/empty", allow=("404",))
    page.get_by_text("No decisions yet").wait_for()
    page.get_by_text(f"curl -X POST {api.address}/v1/fleets/empty/decisions").wait_for()
    open_tab(page, "Tasks")
    page.get_by_text("No tasks yet").wait_for()
    open_tab(page, "Pending")
    page.get_by_text("No decision waits for a reward").wait_for()
    open_tab(page, "Arms")
    page.get_by_text("Nothing learned yet").wait_for()
    page.goto(f"{api.address}/#/nothing-here")
    page.get_by_text("There is no such fleet").wait_for()
    page.goto(f"{api.address}/#/stores/tasks/nobody")
    page.get_by_text("There is no such task").wait_for()


# How it behaves.


@browser_needed
def test_it_is_live_and_keeps_what_the_reader_does(api, visit):
    api.send("PUT", "/v1/fleets/living", {"arms": ["a", "b"], "features": ["x"]})
    first = api.decide("living", "one", {"x": 1.0})
    page = visit(api.address, "#/living")
    seen(page.locator("[data-count=decisions]"), "1")
    page.evaluate("window.kept = true")
    api.decide("living", "one", {"x": 1.0})
    seen(page.locator("[data-count=decisions]"), "2")
    seen(page.locator("[data-count=pending]"), "2")

    open_tab(page, "Tasks")
    field = page.get_by_label("Search tasks")
    field.fill("on")
    field.evaluate("field => field.setSelectionRange(1, 2)")
    wait_for(lambda: texts(page.locator("tbody tr td"))[:2] == ["2", "0"])
    other = visit(api.address, "#/living/tasks/one")
    event = other.locator(f".event[data-id='{first['id']}']")
    event.locator("summary").click()

    newest = api.decide("living", "one", {"x": 2.0})
    api.reward(newest, 2.0)
    api.reward(first, 0.5)
    seen(event.locator(".outcome"), "0.5")
    seen(other.locator(f".event[data-id='{newest['id']}'] .outcome"), "2")
    assert event.locator("details").get_attribute("open") is not None
    assert event.locator("summary").evaluate("row => document.activeElement === row")
    wait_for(lambda: texts(page.locator("tbody tr td"))[:2] == ["3", "2"])
    place = "field => [document.activeElement === field, field.selectionStart, field.selectionEnd]"
    assert field.evaluate(place) == [True, 1, 2]
    assert page.evaluate("window.kept") is True


@browser_needed
def test_it_rests_while_it_is_not_seen(api, visit):
    page = visit(api.address, "#/stores")
    page.locator(".timeline rect").first.wait_for()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    # It goes out of sight while an answer is on its way.
    held = []
    counts = re.compile("/v1/fleets/stores$")
    page.route(counts, lambda route: held.append(route))
    with page.expect_request(counts):
        pass
    page.evaluate(HIDE, True)
    for route in held:
        route.continue_()
    page.unroute(counts)
    page.wait_for_timeout(300)
    del asked[:]
    page.wait_for_timeout(1800)
    assert asked == []
    with page.expect_request(counts, timeout=SOON):
        page.evaluate(HIDE, False)


@browser_needed
def test_a_service_that_goes_away_and_comes_back(tmp_path, visit):
    with served(tmp_path) as (address, process):
        api = Api(address)
        api.send("PUT", "/v1/fleets/stores", {"arms": ["a", "b"], "features": ["x"]})
        api.decide("stores", "one", {"x": 1.0})
        page = visit(
            address, "#/stores", allow=("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "503")
        )
        seen(page.locator("[data-count=decisions]"), "1")
        page.evaluate("window.kept = true")
        process.kill()
        process.wait(30)
        page.get_by_text("Not reachable, trying again.").wait_for()
        seen(page.locator("#status"), "Not reachable")
        picture(page, "away")
    with served(tmp_path, port=int(address.rpartition(":")[2])):
        api.decide("stores", "one", {"x": 1.0})
        page.get_by_text("Not reachable, trying again.").wait_for(state="hidden", timeout=20_000)
        seen(page.locator("#status"), "Live")
        seen(page.locator("[data-count=decisions]"), "2")
        assert page.evaluate("window.kept") is True
        api.client.close()


@browser_needed
def test_a_fleet_that_is_set_aside_says_so_and_the_others_do_not(tmp_path, visit):
    with served(tmp_path) as (address, _), closing(Api(address)) as api:
        for name in ("broken", "other"):
            api.send("PUT", f"/v1/fleets/{name}", {"arms": ["a", "b"], "features": ["x"], "policy": "ebm-ts"})
            api.decide(name, "one", {"x": 1.0})
    with closing(sqlite3.connect(tmp_path / "posse.db")) as database, database:
        database.execute(
            """UPDATE fleets SET definition = replace(definition, '"ebm-ts"', '"of-tomorrow"') WHERE name = 'broken'"""
        )
    with served(tmp_path) as (address, _):
        page = visit(address, allow=("503", "ERR_CONNECTION_REFUSED"))
        card = page.locator(".fleet-card", has_text="broken")
        card.get_by_text("Set aside").wait_for()
        assert "of-tomorrow" in card.inner_text()
        assert page.locator("[data-trouble]:visible").count() == 1
        seen(page.locator("#status"), "Live")
        card.get_by_role("link").click()
        page.locator(".fleet-head [data-trouble]").wait_for()
        page.goto(f"{address}/#/broken/arms")
        page.get_by_text("This fleet is set aside.").wait_for()
        page.goto(f"{address}/#/broken/log")
        page.locator("#notice").wait_for(state="hidden")  # the log can be read all the same
        page.goto(f"{address}/#/other")
        seen(page.locator("[data-count=decisions]"), "1")
        seen(page.locator("#status"), "Live")
        assert page.locator("[data-trouble]:visible").count() == 0


@browser_needed
def test_a_service_that_compiles_says_how_far_it_is(tmp_path, visit):
    with served(tmp_path, ready=False, env={"NUMBA_CACHE_DIR": str(tmp_path / "cold")}) as (address, process):
        page = visit(address, allow=("503",))
        page.get_by_text(re.compile(r"compiling, \d+ of \d+", re.IGNORECASE)).wait_for(timeout=60_000)
        seen(page.locator("#status"), "Getting ready")
        page.get_by_text("The service is getting ready.").wait_for()
        answer = httpx.get(f"{address}/readyz")
        assert answer.status_code == 503
        assert answer.json()["error"]["field"] == "compiled"
        assert answer.json()["checks"]["compiled"]["detail"].startswith("compiling, ")
        assert httpx.get(f"{address}/healthz").status_code == 200
        process.kill()


@browser_needed
def test_the_key_is_asked_for_stored_in_the_tab_and_forgotten(tmp_path, visit, keys):
    database = tmp_path / "posse.db"
    reading, deciding = keys(str(database), ["read"], ["decide"])
    with served(tmp_path, "--database", str(database)) as (address, _):
        page = visit(address, "#/nothing", allow=("401", "403", "404"))
        field = page.get_by_label("Key with the scope read")
        field.wait_for()
        assert field.evaluate("field => document.activeElement === field && field.type === 'password'")
        picture(page, "key")
        for wrong in ("posse_wrong", deciding):
            field.fill(wrong)
            page.get_by_role("button", name="Continue").click()
            page.locator("#key-why.problem").wait_for()
            wait_for(lambda: field.input_value() == "")
        field.fill(reading)
        page.keyboard.press("Enter")
        page.get_by_text("There is no such fleet").wait_for()
        assert page.evaluate("Object.values(sessionStorage)") == [reading]
        assert page.evaluate("Object.values(localStorage)") == []
        assert reading not in page.url
        page.reload()
        page.get_by_text("There is no such fleet").wait_for()
        page.get_by_role("button", name="Forget key").click()
        field.wait_for()
        assert page.evaluate("sessionStorage.length") == 0


@browser_needed
def test_labels_are_text_and_nothing_else(api, visit):
    page = visit(api.address, "#/labels/tasks", width=360, height=740)
    links = page.locator("table.plain tbody th a")
    wait_for(lambda: links.count() == len(HOSTILE))
    assert sorted(texts(links)) == sorted(HOSTILE)
    heights = [row.bounding_box()["height"] for row in page.locator("table.plain tbody tr").all()]
    assert max(heights) < 1.5 * min(heights)  # a long name is cut, not wrapped
    for task in HOSTILE:
        link = page.locator("table.plain tbody th a").get_by_text(task, exact=True)
        assert link.get_attribute("title") == task
        link.click()
        seen(page.locator("h2.task-name"), task)
        assert page.url.endswith(quote(task, safe="!'()*-._~"))
        wait_for(lambda: page.locator(".event").count() == 2)
        arms = page.locator(".posterior h3 .label")
        wait_for(lambda arms=arms: sorted(texts(arms)) == sorted(HOSTILE))
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.go_back()
    for tab in ("Overview", "Arms", "Try it", "Pending", "Value", "Log"):
        open_tab(page, tab)
        page.locator("#panel .card:visible").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab
    assert page.locator("img").count() == 1  # the page's own sign
    assert page.locator("script").count() == 2
    assert page.locator("main b, main script, main img").count() == 0
    assert "hurt" not in page.title()
    picture(page, "labels")


@browser_needed
def test_on_a_phone_nothing_is_wider_than_the_screen(api, visit):
    page = visit(api.address, width=360, height=740, has_touch=True, is_mobile=True)
    page.locator(".fleet-card").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for hash_ in ("", "/arms", "/tasks", f"/tasks/{BUSY}", "/try", "/pending", "/value", "/log"):
        page.goto(f"{api.address}/#/stores{hash_}")
        page.locator("#panel .card:visible").first.wait_for()
        page.wait_for_timeout(250)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, hash_
        tab = page.locator("[role=tab][aria-selected=true]").bounding_box()
        assert tab["x"] >= 0
        assert tab["x"] + tab["width"] <= 360
        picture(page, f"phone{hash_.replace('/', '-')}")
    page.goto(f"{api.address}/#/wide/arms")
    page.get_by_text("These are the 40 of 45 features").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@browser_needed
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(api, visit, scheme):
    page = visit(api.address, "#/stores", scheme=scheme, reduced_motion="reduce")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", ground))) < 80) == (scheme == "dark")
    for tab in ("Overview", "Arms", "Tasks", "Try it", "Pending", "Value", "Log"):
        open_tab(page, tab)
        page.locator("#panel .card:visible").first.wait_for()
        page.wait_for_timeout(250)
        assert page.evaluate(CONTRAST) == [], tab
    picture(page, f"log-{scheme}")
    other = "Dark" if scheme == "light" else "Light"
    page.get_by_role("button", name=f"{other} colours").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    assert page.evaluate(CONTRAST) == []
    page.reload()
    page.locator("#panel .card:visible").first.wait_for()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground


@browser_needed
def test_everything_can_be_reached_by_keyboard(api, visit):
    page = visit(api.address)
    page.get_by_role("link", name="stores").wait_for()

    def focused():
        return page.evaluate("document.activeElement.textContent.trim()")

    def tab_to(name, most=40):
        for _ in range(most):
            page.keyboard.press("Tab")
            assert page.evaluate(FOCUS), f"no sign of focus on {focused()!r}"
            if focused() == name:
                return
        raise AssertionError(f"{name} was not reached")

    page.keyboard.press("Tab")
    assert focused() == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.evaluate("location.hash") == ""
    tab_to("stores")
    page.keyboard.press("Enter")
    page.locator("[data-count=tasks]").wait_for()
    assert focused() == "stores"  # the heading of what was opened
    tab_to("Overview")
    for _ in range(3):  # the report is second, where a manager finds it
        page.keyboard.press("ArrowRight")
    assert focused() == "Tasks"
    seen(page.locator("[role=tab][aria-selected=true]"), "Tasks")
    page.get_by_role("link", name="store-03").wait_for()
    tab_to("store-03")
    page.keyboard.press("Enter")
    page.locator(".event").first.wait_for()
    assert focused() == "store-03"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(".event details[open]").count() == 1
    page.go_back()
    page.get_by_role("link", name="store-03").wait_for()
    page.get_by_role("tab", name="Tasks").focus()
    page.keyboard.press("End")
    seen(page.locator("[role=tab][aria-selected=true]"), "Log")
    page.keyboard.press("ArrowRight")
    seen(page.locator("[role=tab][aria-selected=true]"), "Overview")
