"""The page answers in Chromium: is it worth it, which arm where, what is unusual, what is wrong; and what admins do."""

# ruff: noqa: F401, F811 (fixtures of the other file are arguments here)

from contextlib import closing

import pytest

from .test_page import (
    BUSY,
    CONTRAST,
    HOSTILE,
    N_TASKS,
    SOON,
    Api,
    api,
    browser,
    browser_needed,
    chance,
    open_tab,
    percent,
    picture,
    seen,
    served,
    shown,
    texts,
    visit,
    wait_for,
)

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = [pytest.mark.slow, browser_needed]


def insights_of(api, fleet="stores"):
    def ready():
        found = api.read(f"/v1/fleets/{fleet}/insights")
        return found if found["state"] != "making" else None

    return wait_for(ready, 60)


def test_the_page_leads_with_what_deciding_has_gained(api, visit):
    found = insights_of(api)
    page = visit(api.address, "#/stores")
    first = found["gains"][0]["gain"]
    assert first["low"] > 0
    headline = f"Deciding earns {shown(first['value'])} more per decision than choosing at random."
    seen(page.locator(".answer"), headline)
    tiles = [texts(tile.locator("dd")) for tile in page.locator(".card .tile").all()]
    base = found["earned"]["value"] - first["value"]
    ends = f"{shown(first['low'])} to {shown(first['high'])}"
    more = f"; {percent(first['value'] / base)} more" if base > 0 else ""
    assert tiles[0] == [shown(first["value"]), f"{ends}{more}"]
    assert tiles[1][0] == f"about {shown(first['value'] * found['decisions'])}"
    assert tiles[2] == [chance(found["gains"][0]["probability"]), "that deciding earns more"]
    assert tiles[3][0] == shown(found["earned"]["value"])
    rows = page.locator(".answer-chart tbody tr").all()
    known = [one for one in found["gains"] if one["gain"]]
    assert [texts(row.locator("td.text"))[0] for row in rows] == [shown(one["gain"]["value"]) for one in known]
    heading = page.locator("#panel h2:visible").first
    assert heading.text_content() == "Is it worth it?"
    page.get_by_text("Times are in your time zone").wait_for()


def test_how_it_went_can_be_read_by_keyboard_and_as_a_table(api, visit):
    found = insights_of(api)
    page = visit(api.address, "#/stores", timezone_id="Asia/Kolkata")
    page.locator(".curves rect[class^=arm-]").first.wait_for()
    entries = found["over_time"]["entries"]
    box = page.locator(".curves")
    box.focus()
    page.keyboard.press("Home")
    text = box.get_attribute("aria-valuetext")
    assert f"mean reward {shown(entries[0]['earned'])}" in text
    card = page.locator(".card", has=box)
    assert card.locator(".readout").text_content() == text
    card.get_by_text("As a table").click()
    assert card.locator("tbody tr").count() == len(entries)
    last = texts(card.locator("tbody tr").first.locator("td"))
    assert last[:2] == [shown(entries[-1]["decisions"]), shown(entries[-1]["earned"])]
    shares = dict(zip(found["over_time"]["arms"], entries[-1]["shares"], strict=True))
    names = texts(card.locator("thead th"))[3:]
    # Halves are rounded up there and to even here, so the last digit may differ.
    assert [float(text.rstrip("%")) for text in last[2:]] == pytest.approx(
        [100 * shares[name] for name in names], abs=0.06
    )
    seen(page.locator("#zone"), "Times are in your time zone: Asia/Calcutta, UTC+5:30.")


def test_segments_unusual_tasks_and_findings_are_those_of_the_api(api, visit):
    found = insights_of(api)
    page = visit(api.address, "#/stores")
    tables = page.locator("table.segment")
    wait_for(lambda: tables.count() == 2)
    told = [
        texts(row.locator("td"))[0:2] + texts(row.locator("td"))[3:]
        for table in tables.all()
        for row in table.locator("tbody tr").all()
    ]
    assert told == [[one["arm"], shown(one["mean"]), chance(one["probability"])] for one in found["segments"]]
    wrong = page.locator(".card", has=page.get_by_role("heading", name="What looks wrong"))
    problems = [one for one in found["findings"] if one["severity"] != "note"]
    assert any("tea" in one["text"] for one in problems)
    for one in problems:
        assert one["text"][1:] in wrong.inner_text()
    for one in found["unusual"]:
        wrong.get_by_role("link", name=one["task"]).wait_for()


def test_arms_are_those_of_the_api_and_set_up_is_in_words(api, visit):
    found = insights_of(api)
    page = visit(api.address, "#/stores")
    rows = page.locator("table.shares tbody tr")
    wait_for(lambda: rows.count() == len(found["arms"]))
    for row, one in zip(rows.all(), found["arms"], strict=True):
        assert row.locator("th").inner_text() == (f"{one['arm']} (retired)" if one["retired"] else one["arm"])
        share, mean, best = texts(row.locator("td"))
        assert abs(float(share.rstrip("%")) / 100 - one["share"]) < 0.006
        assert mean == ("–" if one["mean_reward"] is None else shown(one["mean_reward"]))
        assert best == f"{one['best_in']:,} ({one['sure_in']:,})"
    settings = page.locator("dl.settings").inner_text()
    assert "tasks learn from each other" in settings
    assert "ebm-" not in settings
    assert texts(page.get_by_role("tab"))[:2] == ["Overview", "Report"]


def test_tasks_are_sorted_by_what_is_known_about_them(api, visit):
    found = insights_of(api)
    page = visit(api.address, "#/stores/tasks")
    names = page.locator("table.tasks tbody th")
    wait_for(lambda: names.count() == 25)
    for name, key in (("Decisions", "decisions"), ("Mean reward", "mean_reward"), ("Unusual", "distance")):
        page.get_by_role("button", name=name).click()
        best = sorted(found["tasks"], key=lambda task: -task[key])
        values = {task["task"]: task[key] for task in found["tasks"]}
        wait_for(lambda: [values[one] for one in texts(names)] == [task[key] for task in best[:25]])  # noqa: B023
        header = page.locator("th[aria-sort=descending]")
        assert texts(header) == [name]
        assert page.url.endswith(f"sort={key}")
    page.get_by_role("button", name="Next").click()
    wait_for(lambda: names.count() == N_TASKS - 25)
    page.get_by_role("button", name="Unusual").click()
    wait_for(lambda: names.count() == 25)
    assert texts(names)[0] == min(found["tasks"], key=lambda task: task["distance"])["task"]
    page.get_by_label("Search tasks").fill(BUSY)
    wait_for(lambda: texts(names) == [BUSY])
    page.reload()
    wait_for(lambda: texts(names) == [BUSY])
    assert texts(page.locator("th[aria-sort=ascending]")) == ["Unusual"]


def test_a_context_is_tried_and_nothing_is_decided(api, visit):
    before = api.read("/v1/fleets/stores")["decisions"]
    page = visit(api.address, "#/stores/try", allow=("422",))
    for task, hour, weather in (("", 0.0, "sun"), (BUSY, 0.5, "rain")):
        page.get_by_label("Task").fill(task)
        page.get_by_label("hour").fill(str(hour))
        page.get_by_label("weather").select_option(weather)
        body = {"task": task or "a new task", "context": {"hour": hour, "weather": weather}}
        found = api.send("POST", "/v1/fleets/stores/expected", body)
        arms = sorted(found["arms"], key=lambda arm: -arm["mean"])
        rows = [
            [shown(a["mean"]), f"{shown(a['low'])} to {shown(a['high'])}", chance(a["probability_best"])] for a in arms
        ]
        table = page.locator("#panel table.intervals tbody tr")
        wait_for(lambda: [texts(row.locator("td.text"))[:3] for row in table.all()] == rows)  # noqa: B023
        where = f"In {task}, " if task else "In a new task, "
        text = page.locator("#panel .verdict").text_content()
        assert text.startswith(f"{where}{arms[0]['arm']} is expected to earn most: {shown(arms[0]['mean'])}")
    page.get_by_label("hour").fill("")
    expect(page.locator("#panel .problem")).to_contain_text("hour", timeout=SOON)
    assert api.read("/v1/fleets/stores")["decisions"] == before


def test_the_report_is_a_tab_with_its_styles_and_script(api, visit, tmp_path):
    insights_of(api)
    page = visit(api.address, "#/stores")
    open_tab(page, "Report")
    page.locator("iframe.report").wait_for()
    inside = page.frame_locator("iframe.report")
    inside.locator(".headline").wait_for()
    assert inside.locator("body").evaluate("body => getComputedStyle(body).maxWidth") != "none"
    widths = inside.locator(".meter i").evaluate_all("bars => bars.map((bar) => bar.style.width)")
    assert any(width.endswith("%") for width in widths)
    inside.get_by_label("Find a task or arm").fill(BUSY)  # by the report's own script
    rows = inside.locator("#tasks tbody tr:visible")
    wait_for(lambda: rows.count() == 1)
    frame = page.locator("iframe.report")
    assert frame.bounding_box()["height"] > 1000  # it does not scroll within the page
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as a file").click()
    waiting.value.save_as(tmp_path / "report.html")
    assert waiting.value.suggested_filename == "stores-report.html"
    assert (tmp_path / "report.html").read_text().lstrip().startswith("<!doctype html>")
    page.goto(f"{api.address}/#/empty/report")
    page.get_by_text("Nothing to report yet").wait_for()


def test_the_page_explains_what_the_log_cannot_show(api, visit):
    api.send("PUT", "/v1/fleets/certain", {"arms": ["a", "b"], "features": ["x"], "policy": "ebm-ucb"})
    for k in range(30):
        api.reward(api.decide("certain", f"t{k % 6}", {"x": float(k % 5)}), float(k % 3))
    assert insights_of(api, "certain")["gains"][0]["gain"] is None
    page = visit(api.address, "#/certain")
    expect(page.locator(".answer")).to_have_text(
        "The log cannot say whether deciding earns more than choosing at random.", timeout=SOON
    )
    expect(page.locator(".findings").first).to_contain_text("What helps", timeout=SOON, ignore_case=True)
    api.client.delete("/v1/fleets/certain")


def test_an_admin_makes_a_fleet_changes_its_arms_and_erases_a_task(tmp_path, visit, keys):
    database = tmp_path / "posse.db"
    admin, reading = keys(str(database), ["decide", "read", "admin"], ["read"])
    with served(tmp_path, "--database", str(database)) as (address, _), closing(Api(address)) as api:
        api.client.headers["authorization"] = f"Bearer {admin}"
        page = visit(address, allow=("401", "404", "409"))
        page.get_by_label("Key with the scope read").fill(admin)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="New fleet").click()
        page.get_by_label("Name").fill("kiosk")
        page.get_by_label("Arms").fill("tea\ncake\n")
        page.get_by_label("Context").fill("hour\nweather: sun, rain")
        page.get_by_label("A reward is").select_option("binary")
        page.get_by_label("A reward may come within so many days").fill("14")
        page.get_by_label("If none has come by then, it counts as 0").check()
        page.get_by_role("button", name="Make this fleet").click()
        page.get_by_role("button", name="Cancel").click()
        assert api.read("/v1/fleets")["fleets"] == []
        page.get_by_role("button", name="Make this fleet").click()
        picture(page, "dialog")
        page.get_by_role("button", name="Make it").click()
        page.get_by_role("heading", name="kiosk", exact=True).wait_for()
        fleet = api.read("/v1/fleets/kiosk")
        assert fleet["arms"] == ["tea", "cake"]
        assert fleet["columns"] == ["intercept", "hour", "weather=sun", "weather=rain"]
        definition = fleet["definition"]
        assert (definition["rewards"], definition["absent_reward"]) == ("binary", 0.0)
        assert (definition["time_to_live"], definition["evaluation_budget"]) == (14 * 86400.0, 0.01)

        for task in ("one", "two"):
            api.decide("kiosk", task, {"hour": 1.0, "weather": "sun"})
        open_tab(page, "Arms")
        page.get_by_label("Add an arm").fill("a/b & c")
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_role("button", name="Add it").click()
        page.get_by_role("button", name="Retire a/b & c").wait_for()
        page.get_by_label("Add an arm").fill("tea")
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_role("button", name="Add it").click()
        expect(page.locator("dialog .problem")).to_contain_text("There is an arm 'tea' already")
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Retire a/b & c").click()
        page.get_by_role("button", name="Retire it").click()
        page.get_by_role("button", name="Bring back a/b & c").wait_for()
        assert api.read("/v1/fleets/kiosk")["retired_arms"] == ["a/b & c"]

        page.goto(f"{address}/#/kiosk/tasks/one")
        page.get_by_role("button", name="Erase this task").click()
        page.get_by_role("button", name="Cancel").click()
        assert api.read("/v1/fleets/kiosk")["tasks"] == 2
        page.get_by_role("button", name="Erase this task").click()
        page.get_by_role("button", name="Erase it").click()
        wait_for(lambda: api.read("/v1/fleets/kiosk")["tasks"] == 1)
        page.wait_for_url("**/#/kiosk/tasks")

        reader = visit(address, "#/kiosk/tasks/two", allow=("401",))
        reader.get_by_label("Key with the scope read").fill(reading)
        reader.keyboard.press("Enter")
        reader.locator(".event").first.wait_for()
        for hash_ in ("", "#/kiosk/arms", "#/kiosk/tasks/two"):
            reader.goto(f"{address}/{hash_}")
            reader.wait_for_timeout(400)
            for name in ("New fleet", "Add", "Retire tea", "Erase this task"):
                assert reader.get_by_role("button", name=name, exact=True).count() == 0, (hash_, name)
        for one in (page, reader):
            one.close()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        (1280, "light"),
        (360, "light"),
        (1280, "dark"),
    ],
)
def test_answers_fit_and_can_be_read_in_both_colours(api, visit, scheme, width):
    insights_of(api)
    page = visit(api.address, "#/stores", width=width, height=800, scheme=scheme)
    for hash_ in ("", "/tasks", "/try", "/report"):
        page.goto(f"{api.address}/#/stores{hash_}")
        page.locator("#panel .card:visible, #panel iframe:visible").first.wait_for()
        page.wait_for_timeout(600)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, hash_
        assert page.evaluate(CONTRAST) == [], hash_
        for label in page.locator("#panel .answer, #panel .tile dd, #panel .verdict").all():
            assert label.evaluate("node => node.scrollWidth <= node.clientWidth + 1"), label.text_content()
        picture(page, f"answers{hash_.replace('/', '-')}-{width}-{scheme}")


def test_odd_names_and_many_arms_fit_and_stay_text(api, visit):
    arms = [*HOSTILE, *(f"arm {k}" for k in range(6))]
    weather = {"kind": "one_hot", "name": HOSTILE[1], "categories": [*HOSTILE[2:]]}
    api.send("PUT", "/v1/fleets/odd", {"arms": arms, "features": [HOSTILE[0], weather], "floor": 0.02})
    asked = [
        {"task": HOSTILE[k % 6], "context": {HOSTILE[0]: float(k % 7), HOSTILE[1]: HOSTILE[2 + k % 4]}}
        for k in range(120)
    ]
    made = api.send("POST", "/v1/fleets/odd/decisions/batch", {"decisions": asked})["decisions"]
    rewards = [{"id": one["id"], "reward": float(arms.index(one["arm"]) % 4)} for one in made]
    api.send("POST", "/v1/rewards", {"rewards": rewards})
    assert insights_of(api, "odd")["state"] == "ready"
    page = visit(api.address, "#/odd", width=360, height=740)
    page.locator("table.segment").first.wait_for()
    assert page.locator(".legend .key[class*=arm-]").count() <= 8
    for hash_ in ("", "/tasks?sort=distance", "/try", "/report"):
        page.goto(f"{api.address}/#/odd{hash_}")
        page.locator("#panel .card:visible, #panel iframe:visible").first.wait_for()
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, hash_
        assert page.locator("main b, main script, main img").count() == 0
        picture(page, f"odd{hash_.partition('?')[0].replace('/', '-')}")
    inside = page.frame_locator("iframe.report")
    inside.get_by_text(HOSTILE[0]).first.wait_for()
    assert inside.locator("img, script[src*=x]").count() == 0
    assert "hurt" not in page.title()
    api.client.delete("/v1/fleets/odd")
