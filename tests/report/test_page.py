"""The page, in Chromium: it opens with the gain, in the owner's words, whatever names there are, on every screen."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from posse import Posse
from posse.errors import InvalidValue, ResultFileError
from posse.logs import Log, Names
from posse.report import make_report

pytestmark = pytest.mark.slow

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
        page.on("request", lambda asked: asked.url.startswith(("file:", "data:")) or complaints.append(asked.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def report(fleet, log):
    return make_report(fleet, log, unit="€", coming=5000, names=Names("shop", "dish", "person/people"))


@pytest.fixture(scope="module")
def hostile_report(hostile, log_of, fleet_of):
    log = log_of(900, n_tasks=len(hostile), arms=hostile, tasks=list(hostile))
    names = Names("<i>task</i>", '"arm', "<script>reward")
    return make_report(fleet_of(log), log, unit="</td>", title="<b>title</b>", names=names)


def text_of(report):
    """Return the words of a page."""
    body = report.html().partition("<body>")[2].partition("<script>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


@browser_needed
def test_the_first_screen_is_the_gain_and_its_picture(visit, report):
    page = visit(report)
    learned, logged = report.gains.learned, report.gains.logged

    assert page.locator(".headline").bounding_box()["y"] < 200
    shown = page.locator(".bar .value strong").all_inner_texts()
    best = next(way for way in report.gains.ways if way.way == "one-arm")
    for text, value in zip(shown, (learned.value.value, best.value.value, logged.value), strict=True):
        assert float(text.removesuffix("\N{NO-BREAK SPACE}€")) == pytest.approx(value, abs=0.01)
    widths = [bar.bounding_box()["width"] for bar in page.locator(".bar .track i").all()]
    assert widths[0] / widths[2] == pytest.approx(learned.value.value / logged.value, abs=0.02)


@browser_needed
def test_every_task_has_the_numbers_of_expected_many(visit, report, fleet):
    page = visit(report)
    table = fleet.expected_many()

    rows = page.locator("#tasks tbody tr").all()
    assert len(rows) == 12
    for row in rows:
        best = table.filter(task=row.locator("th").inner_text()).sort("mean").row(-1, named=True)
        assert row.locator("td").nth(0).inner_text() == best["arm"]
        for cell, value in ((1, best["probability_best"]), (2, best["mean"])):
            assert float(row.locator("td").nth(cell).get_attribute("data-v")) == pytest.approx(value, rel=1e-5)


@browser_needed
def test_tasks_are_sorted_by_click_and_by_keyboard_and_found_by_name(visit, report):
    page = visit(report)
    header = page.locator("#tasks").get_by_role("columnheader", name="Probability")

    def column():
        cells = page.locator("#tasks tbody td:nth-child(3)")
        return [float(value) for value in cells.evaluate_all("c => c.map(x => x.dataset.v)")]

    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert column() == sorted(column(), reverse=True)
    assert len(set(column())) > 1
    header.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert column() == sorted(column())

    page.get_by_label("Find a shop or dish").fill("store-1")
    found = page.locator("#tasks tbody tr:visible > th").all_inner_texts()
    assert set(found) == {"store-1", "store-10", "store-11"}
    assert page.get_by_role("status").inner_text() == "3 shops"


@browser_needed
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_are_text_and_all_fits(visit, hostile_report, hostile, width, scheme):
    page = visit(hostile_report, width=width, scheme=scheme)

    assert page.title() == "<b>title</b>"
    assert set(page.locator("#tasks tbody th").all_text_contents()) == set(hostile)
    assert page.locator("main img, main h1, main script, #tasks b, main em, td b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(CONTRAST) == []


@browser_needed
def test_it_fits_on_paper(visit, report):
    page = visit(report, width=703)  # A4 less margins of 12 mm
    page.emulate_media(media="print")

    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    assert not page.get_by_label("Find a shop or dish").is_visible()
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


def test_the_owners_words_are_used_everywhere(report):
    text = text_of(report).replace("posse evaluate --policy", "")

    assert "Which dish is best where" in text
    assert "12 shops" in text
    assert not re.search(r"\b([Tt]asks?|[Aa]rms?)\b", text)


def test_names_come_with_the_log_unless_others_are_given(log_of):
    log = Log(log_of(200).frame, names=Names("city", "price", "order"))

    assert "12 cities, 3 prices" in text_of(make_report(log=log))
    assert "12 towns" in text_of(make_report(log=log, names=Names("town")))
    assert "12 branches, 3 prices" in text_of(make_report(log=log, names=Names("branch_id", "price")))


def test_without_a_log_the_page_opens_with_what_is_missing(fleet):
    report = make_report(fleet)

    assert "without a log" in str(report)
    assert 'class="bars"' not in report.html()


def test_a_log_alone_is_enough(log):
    report = make_report(log=log)

    assert report.from_log
    assert len(report.best.tasks) == 12


def test_what_cannot_be_told_from_equal_rewards_is_not_told(fleet_of, log_of):
    zeros = Log(log_of(200).frame.with_columns(reward=pl.lit(0.0)))
    for report in (make_report(fleet_of(zeros), zeros), make_report(_undecided())):
        assert "no arm can be told from another" in str(report)
        assert "you may stop" not in report.html()
        assert 'id="arms"' not in report.html()


def _undecided():
    fleet = Posse(["a", "b"], ["x"], seed=1)
    fleet.decide("store", {"x": 1.0})
    return fleet


def test_one_arm_leaves_nothing_to_explore(fleet_of, log_of):
    report = make_report(fleet_of(log_of(100, arms=("only",))))

    assert "you may stop" in report.html()
    assert not report.stopping.pays.any()


def test_of_one_task_every_arm_is_shown_with_its_probability(fleet_of, log_of):
    report = make_report(fleet_of(log_of(60, n_tasks=1, arms=("a", "b"))))

    for probability in report.best.probability[0]:
        assert f"{100 * probability:.0f}\N{NO-BREAK SPACE}%" in report.html()
    assert 'id="tasks"' not in report.html()


def test_absent_rewards_are_what_the_fleet_counts_them_as(log_of):
    log = log_of(200)
    gaps = Log(log.frame.with_columns(reward=pl.when(pl.int_range(pl.len()) % 3 > 0).then("reward")))
    fleet = Posse(log.arms, ["hour"], seed=1, absent_reward=0.0)
    fleet.learn_many(gaps.frame, missing_reward="absent")

    assert make_report(fleet, gaps).gains.earned.value == pytest.approx(gaps.frame["reward"].fill_null(0.0).mean())


def test_of_very_many_tasks_some_are_listed_and_all_are_in_the_table(log_of, fleet_of, tmp_path):
    report = make_report(fleet_of(log_of(3000, n_tasks=900, arms=("a", "b"))))
    report.save_table(tmp_path / "table.csv")

    n_tasks = len(report.best.tasks)
    assert report.listed.size == 400
    assert f"400 of {n_tasks}\N{NO-BREAK SPACE}tasks are listed" in report.html()
    assert pl.read_csv(tmp_path / "table.csv").height == 2 * n_tasks
    assert len(report.html().encode()) < MEGABYTE


def test_of_more_tasks_than_can_be_looked_at_some_are_picked(log_of, fleet_of, monkeypatch):
    monkeypatch.setattr("posse.report.make.MOST_TASKS", 60)
    monkeypatch.setattr("posse.report.make.LISTED", 10)
    fleet = fleet_of(log_of(900, n_tasks=200, arms=("a", "b")))

    report = make_report(fleet)

    busiest = fleet.overview(10).tasks
    assert {entry.task for entry in busiest} <= set(report.best.tasks)
    assert 50 <= len(report.best.tasks) <= 60


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
