"""The page, in Chromium: its numbers are those of the library, whatever names there are and however wide the screen."""

import csv
import io
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from posse import Posse
from posse.errors import InvalidValue, ResultFileError
from posse.logs import Log
from posse.report import make_report
from posse.report.words import Words, sureness

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
CONTRAST = (Path(__file__).parents[1] / "service" / "page_contrast.js").read_text()
browser_needed = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Open a report; whatever the page complains about or asks the network for fails the test."""
    contexts, complaints = [], []

    def open_page(report, *, width=1200, scheme="light"):
        path = tmp_path / "report.html"
        report.save(path)
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request", lambda asked: asked.url.startswith(("file:", "data:", "blob:")) or complaints.append(asked.url)
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def report(fleet, log):
    return make_report(fleet, log, unit="€", coming=5000)


@pytest.fixture(scope="module")
def hostile_report(hostile, log_of, fleet_of):
    log = log_of(900, n_tasks=len(hostile), arms=hostile, tasks=list(hostile))
    return make_report(fleet_of(log), log, unit="</td>", title="<b>title</b>")


def cells(page, column):
    return page.locator(f"#tasks tbody tr:visible > :nth-child({column})").all_inner_texts()


@browser_needed
def test_every_task_has_the_numbers_of_expected_many(visit, report, fleet):
    page = visit(report)
    table = fleet.expected_many()
    words = Words.for_widths(((report.best.high - report.best.low) / 2)[np.arange(12), report.best.arm], "€")

    rows = page.locator("#tasks tbody tr")
    assert rows.count() == 12
    for i in range(12):
        row = rows.nth(i)
        task = row.locator("th").inner_text()
        best = table.filter(task=task).sort("mean").row(-1, named=True)
        texts = row.locator("td").all_inner_texts()
        assert texts[0] == best["arm"]
        assert texts[1].strip() == sureness(best["probability_best"], brief=True)
        assert texts[2] == f"{words.plain(best['mean'])} ({words.interval(best['low'], best['high'])})"
        assert float(row.locator("td").nth(2).get_attribute("data-v")) == pytest.approx(best["mean"], rel=1e-5)


@browser_needed
def test_gains_are_those_of_the_report(visit, report):
    page = visit(report)

    for gain in report.gains.gains:
        shown = page.locator(f"#over-{gain.over} [data-v]").get_attribute("data-v")
        assert float(shown) == pytest.approx(gain.gain.value, rel=1e-5, abs=1e-9)


@browser_needed
def test_columns_are_sorted_by_click_and_by_keyboard(visit, report):
    page = visit(report)
    header = page.get_by_role("columnheader", name="How sure")

    header.get_by_role("button").click()
    down = [
        float(value)
        for value in page.locator("#tasks tbody td:nth-child(3)").evaluate_all("c => c.map(x => x.dataset.v)")
    ]
    assert header.get_attribute("aria-sort") == "descending"
    assert down == sorted(down, reverse=True)
    assert len(set(down)) > 1

    header.get_by_role("button").focus()
    page.keyboard.press("Enter")
    up = [
        float(value)
        for value in page.locator("#tasks tbody td:nth-child(3)").evaluate_all("c => c.map(x => x.dataset.v)")
    ]
    assert header.get_attribute("aria-sort") == "ascending"
    assert up == sorted(up)

    page.get_by_role("columnheader", name="Task", exact=True).get_by_role("button").click()
    assert cells(page, 1) == [f"store-{j}" for j in range(12)]  # 10 after 9
    assert header.get_attribute("aria-sort") == "none"


@browser_needed
def test_tasks_are_found_by_name_and_by_how_sure_they_are(visit, report):
    page = visit(report)

    page.get_by_label("Find a task or arm").fill("store-1")
    assert set(cells(page, 1)) == {"store-1", "store-10", "store-11"}
    assert page.get_by_role("status").inner_text() == "3 tasks"
    page.get_by_label("Find a task or arm").fill("")
    page.get_by_label("Show").select_option("sure")
    assert len(cells(page, 1)) == report.best.sure.sum()


@browser_needed
def test_the_download_has_every_number(visit, hostile_report, hostile):
    page = visit(hostile_report)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as CSV").click()

    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))

    assert len(rows) == len(hostile) ** 2
    safe = {"'" + name if name[0] in "=-" else name: name for name in hostile}
    found = pl.DataFrame(
        {
            "task": [safe[row["task"]] for row in rows],
            "arm": [safe[row["arm"]] for row in rows],
            "mean": [float(row["mean"]) for row in rows],
            "probability_best": [float(row["probability_best"]) for row in rows],
        }
    )
    both = found.join(hostile_report.table, on=["task", "arm"], validate="1:1")
    assert both.height == len(rows)
    for name in ("mean", "probability_best"):
        assert both[name].to_numpy() == pytest.approx(both[f"{name}_right"].to_numpy(), rel=1e-5, abs=1e-12)


@browser_needed
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_are_text_and_all_fits(visit, hostile_report, hostile, width, scheme):
    page = visit(hostile_report, width=width, scheme=scheme)

    assert page.title() == "<b>title</b>"
    assert set(page.locator("#tasks tbody th").all_text_contents()) == set(hostile)
    assert page.locator("main img, main h1, main script, #tasks b, h4 b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(CONTRAST) == []


@browser_needed
def test_it_fits_on_paper(visit, report):
    page = visit(report, width=703)  # A4 less margins of 12 mm
    page.emulate_media(media="print")

    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    assert page.get_by_role("columnheader", name="Explore on").is_visible()
    assert not page.get_by_role("button", name="Download as CSV").is_visible()
    # Nothing scrolls on paper: every row is there.
    assert page.evaluate(
        "[...document.querySelectorAll('.box')].every(box => box.scrollHeight <= box.clientHeight + 1)"
    )


class Checker(HTMLParser):
    """Complains about elements that do not close."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self):
        super().__init__()
        self.open, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_document_is_whole(hostile_report, report):
    for made in (hostile_report, report):
        checker = Checker()
        checker.feed(made.html())
        assert checker.open == []
        assert len(checker.ids) == len(set(checker.ids))
        assert not re.search(r"https?://(?!x)", made.html())
        assert "<" not in re.search(r'id="data">(.*?)</script>', made.html())[1]


def test_a_log_that_cannot_tell_says_so_and_why(fleet, log_of):
    page = make_report(fleet, log_of(300, propensities=False)).html()

    assert page.count("The log cannot tell.") == 3
    assert "the log has no propensities" in page
    assert "What helps: log the probability of the arm taken with every decision" in page


def test_without_a_log_the_page_says_what_is_missing(fleet):
    page = make_report(fleet).html()

    assert "What deciding has gained cannot be said without a log" in page
    assert 'class="gains"' not in page


def test_a_log_alone_is_enough(log):
    report = make_report(log=log)

    assert report.from_log
    assert "one was learned from the log" in report.html()
    assert len(report.best.tasks) == 12


def test_equal_rewards_say_nothing(fleet_of, log_of):
    zeros = Log(log_of(200).frame.with_columns(reward=pl.lit(0.0)))
    page = make_report(fleet_of(zeros), zeros).html()

    assert "All rewards so far are the same" in page
    assert "sure that" not in page
    assert "you may stop" not in page


def test_without_rewards_there_is_nothing_to_say():
    fleet = Posse(["a", "b"], ["x"], seed=1)
    fleet.decide("store", {"x": 1.0})
    page = make_report(fleet).html()

    assert "There are no rewards yet" in page
    assert "sure that" not in page


def test_one_arm_leaves_nothing_to_explore(fleet_of, log_of):
    report = make_report(fleet_of(log_of(100, arms=("only",))))

    assert "Exploration no longer pays: you may stop." in report.html()
    assert not report.stopping.pays.any()


def test_one_task_is_spoken_of_by_name(fleet_of, log_of):
    page = make_report(fleet_of(log_of(60, n_tasks=1, arms=("a", "b")))).html()

    assert "We are" in page
    assert "is the best arm. It is expected to earn" in page


def test_absent_rewards_are_what_the_fleet_counts_them_as(log_of):
    log = log_of(200)
    gaps = Log(log.frame.with_columns(reward=pl.when(pl.int_range(pl.len()) % 3 > 0).then("reward")))
    fleet = Posse(log.arms, ["hour"], seed=1, absent_reward=0.0)
    fleet.learn_many(gaps.frame, missing_reward="absent")

    assert make_report(fleet, gaps).gains.earned.value == pytest.approx(gaps.frame["reward"].fill_null(0.0).mean())


def test_a_large_fleet_fits_into_two_megabytes(log_of, fleet_of):
    log = log_of(6000, n_tasks=300, arms=tuple(f"arm {k}" for k in range(8)))

    report = make_report(fleet_of(log))

    assert report.html().count("<article") == 300
    assert len(report.html().encode()) < 2 * MEGABYTE


def test_of_very_many_tasks_some_are_listed_and_all_are_in_the_table(log_of, fleet_of, tmp_path):
    report = make_report(fleet_of(log_of(3000, n_tasks=900, arms=("a", "b"))))
    report.save_table(tmp_path / "table.csv")

    n_tasks = len(report.best.tasks)
    assert f"400 of {n_tasks} tasks are listed" in report.html()
    assert report.html().count("<article") == 400
    assert pl.read_csv(tmp_path / "table.csv").height == 2 * n_tasks
    assert len(report.html().encode()) < 2 * MEGABYTE


def test_of_more_tasks_than_can_be_looked_at_some_are_picked(log_of, fleet_of, monkeypatch):
    monkeypatch.setattr("posse.report.make.MOST_TASKS", 60)
    monkeypatch.setattr("posse.report.make.LISTED", 10)
    fleet = fleet_of(log_of(900, n_tasks=200, arms=("a", "b")))

    report = make_report(fleet)

    busiest = fleet.overview(10).tasks
    assert {entry.task for entry in busiest} <= set(report.best.tasks)
    assert 50 <= len(report.best.tasks) <= 60
    assert f"{len(fleet.tasks)} tasks, of which {len(report.best.tasks)} are looked at" in report.html()


def test_a_report_needs_something_to_report(tmp_path, fleet):
    with pytest.raises(InvalidValue, match="expected a fleet, a log or both"):
        make_report()
    with pytest.raises(InvalidValue, match="expected a fleet with tasks"):
        make_report(Posse(["a", "b"], ["x"]))
    with pytest.raises(InvalidValue, match="coming"):
        make_report(fleet, coming=-1)
    with pytest.raises(ResultFileError, match="choose another place"):
        make_report(fleet).save(tmp_path / "no such folder" / "report.html")


def test_a_report_changes_no_decision(fleet_of, log_of):
    log = log_of(300)
    looked_at, other = fleet_of(log), fleet_of(log)
    looked_at.report(log).html()

    for hour in (-1.0, 0.3, 2.0):
        assert looked_at.decide("store-2", [hour])[1:] == other.decide("store-2", [hour])[1:]


def test_a_fleet_makes_its_own_report(fleet, log, tmp_path):
    report = fleet.report(log, title="Stores")
    report.save(tmp_path / "report.html")

    assert repr(report) == "<Report 'Stores': 12 tasks, 3 arms, a log of 1,500 decisions>"
    assert "<title>Stores</title>" in (tmp_path / "report.html").read_text("utf-8")
