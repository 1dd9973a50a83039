"""The page is read as a browser reads it; how it looks is for eyes."""

import base64
import re
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest

from posse_lab.reproduction.chapters import Chapter, Picture, Report, ResultFile
from posse_lab.reproduction.claims import FAILS, HOLDS, Claim, only_if
from posse_lab.reproduction.experiment import Table
from posse_lab.reproduction.page import render_page
from posse_lab.reproduction.words import number_words

VOID = {"meta", "link", "br", "hr", "img"}
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="576pt" height="288pt" viewBox="0 0 576 288" version="1.1">'
    '<defs><clipPath id="box"><rect x="0" y="0" width="9" height="9"/></clipPath></defs>'
    '<g id="line"><path d="M 0 0 L 9 9" clip-path="url(#box)" style="stroke: #0072b2"/></g></svg>'
)


class Page(HTMLParser):
    """Elements with their attributes and all the text inside them."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self._open = []
        self.feed(source)
        self.close()
        assert not self._open, f"never closed: {[element['tag'] for element in self._open]}"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in <{tag}>"
        element = {"tag": tag, "text": "", **dict(attrs)}
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "text": "", **dict(attrs)})

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1]["tag"] == tag, f"</{tag}> closes <{self._open[-1]['tag']}>"
        self._open.pop()

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    @property
    def tags(self):
        return [element["tag"] for element in self.elements]

    def all(self, tag, **attributes):
        names = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [
            element
            for element in self.elements
            if element["tag"] == tag and all(value in element.get(key, "").split() for key, value in names.items())
        ]

    def one(self, tag, **attributes):
        (element,) = self.all(tag, **attributes)
        return element


def words(element):
    return " ".join(element["text"].split())


def a_claim(**values):
    standard = {
        "id": "lowest",
        "claim": "Both methods have the lowest regret.",
        "experiment": "balanced",
        "verdict": HOLDS,
        "value": 0.8527,
        "interval": (0.8281, 0.8791),
        "seeds": 100,
        "measure": "regret of ebmTS over LinUCB",
        "sources": ("results/balanced.parquet",),
    }
    return Claim(**{**standard, **values})


def a_chapter(**values):
    standard = {
        "name": "balanced",
        "title": "Tasks that arrive equally often",
        "figure": "Figure 1 (a)",
        "says": "Both methods win.",
        "choices": ("The horizon is 2,000.", "Bands are two standard errors."),
        "found": ("One wins.", "The other ties."),
        "pictures": (Picture(name="curves", svg=SVG, caption="Mean regret.", sources=("results/balanced.parquet",)),),
        "tables": (
            Table(
                title="Regret at the horizon",
                columns=("method", "regret", "ratio", "tuned"),
                rows=(("ebmUCB", 400.31, "1.00 (0.97 to 1.04)", False), ("LinUCB", 1706.8, "", True)),
                sources=("balanced",),
            ),
        ),
        "claims": (a_claim(),),
        "files": (
            ResultFile(
                path="results/balanced.parquet",
                seeds=100,
                settings={"horizon": "2000", "n_tasks": "10"},
                policies={"ebmUCB": "exploration 0.1", "LinUCB": "exploration 1"},
            ),
        ),
    }
    return Chapter(**{**standard, **values})


@pytest.fixture(scope="module")
def report():
    poor = (
        a_claim(id="gain", claim="The rare task gains most.", verdict=FAILS, value=1.124, interval=(1.06, 1.19)),
        a_claim(id="tie", claim="RMBandit loses.", verdict=only_if("it is not tuned: it ties then"), seeds=20),
    )
    return Report(
        version="1.2.3",
        command="posse lab reproduce all --seeds 100",
        chapters=(
            a_chapter(),
            a_chapter(name="data-poor", title="A rare task", figure="Figure 1 (b)", claims=poor),
            Chapter(
                name="real",
                title="Four data sets",
                figure="Figure 4",
                says="Both win.",
                choices=(),
                missing="The MovieLens files were not found.",
            ),
        ),
    )


@pytest.fixture(scope="module")
def page(report):
    return Page(render_page(report))


def test_every_id_is_there_once_and_every_link_leads_to_one(page):
    ids = [element["id"] for element in page.elements if "id" in element]
    links = [element["href"] for element in page.all("a")]

    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[\w.:-]+", each) for each in ids)
    assert {"#balanced", "#data-poor", "#real", "#claims", "#contents"} <= set(links)
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_references_between_attributes_resolve(page):
    ids = {element.get("id") for element in page.elements}
    for element in page.elements:
        for key in ("aria-labelledby", "aria-describedby"):
            assert set(element.get(key, "").split()) <= ids


def test_no_heading_level_is_skipped(page):
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]

    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.one("html")["lang"] == "en"


def test_every_table_header_says_what_it_heads(page):
    assert page.all("th")
    assert all(element.get("scope") in {"col", "row", "rowgroup"} for element in page.all("th"))


def test_nothing_is_fetched(page, report):
    assert page.one("meta", http_equiv="Content-Security-Policy")["content"].startswith("default-src 'none';")
    assert not {"script", "iframe", "object", "embed", "video", "form", "base"} & set(page.tags)
    for element in page.elements:
        for key in ("href", "xlink:href", "src", "srcset", "data", "poster", "action"):
            assert element.get(key, "#").startswith(("#", "data:")), element
        assert not [key for key in element if key.startswith("on")]
    source = render_page(report)
    assert "@import" not in source
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", source))


def test_every_claim_stands_in_the_table_once_with_its_verdict(page, report):
    table = page.one("table", class_="claims")
    text = words(table)

    for claim in report.claims:
        assert text.count(claim.claim) == 1
        row = words(page.one("tr", id=f"claim-{claim.id}"))
        assert claim.verdict in row
        assert claim.measure in row
    assert [words(each) for each in page.all("tr", class_="group")[:2]] == [
        "Tasks that arrive equally often Figure 1 (a)",
        "A rare task Figure 1 (b)",
    ]


def test_a_row_has_symbol_verdict_claim_source_value_interval_measure_and_seeds(page):
    assert words(page.one("tr", id="claim-lowest")) == (
        "✓ holds Both methods have the lowest regret. results/balanced.parquet "
        "0.853 (0.828 to 0.879) regret of ebmTS over LinUCB 100"
    )


def test_verdicts_are_counted_in_words_and_symbols(page):
    counts = page.one("ul", class_="counts")

    assert words(counts) == "1 ✓ holds 1 ◐ holds only if … 1 ✗ does not hold"


def test_a_number_that_nothing_random_went_into_has_no_interval():
    claim = a_claim(value=0.25, interval=(0.25, 0.25), seeds=0, sources=())
    page = Page(render_page(Report(version="1", command="c", chapters=(a_chapter(claims=(claim,)),))))

    assert words(page.one("tr", id="claim-lowest")).endswith("0.250 regret of ebmTS over LinUCB none")
    assert words(page.all("ul", class_="verdicts")[0]).endswith("0.250 regret of ebmTS over LinUCB")


def test_a_chapter_shows_all_it_has(page):
    text = words(page.one("section", id="balanced"))

    for expected in (
        "Figure 1 (a) of the paper",
        "The paper says Both methods win.",
        "What was found One wins. The other ties.",
        "Mean regret. results/balanced.parquet",
        "✓ holds Both methods have the lowest regret. 0.853 (0.828 to 0.879) regret of ebmTS over LinUCB (100 seeds)",
        "What the paper leaves open, and what was chosen The horizon is 2,000. Bands are two standard errors.",
        "How to get these numbers posse lab reproduce balanced",
        "results/balanced.parquet 100 seeds Run horizon 2000 n_tasks 10",
        "Policies ebmUCB exploration 0.1 LinUCB exploration 1",
    ):
        assert expected in text


def test_only_a_chapter_without_results_says_so(page):
    assert words(page.one("p", class_="notice")) == "No results. The MovieLens files were not found."
    assert "No results." in words(page.one("section", id="real"))
    assert "What was found" not in words(page.one("section", id="real"))


def test_a_chapter_that_is_not_in_the_paper_may_say_so():
    chapter = a_chapter(figure="Not in the paper")
    page = Page(render_page(Report(version="1", command="c", chapters=(chapter,))))

    assert words(page.one("p", class_="place")) == "Not in the paper"


def test_columns_of_numbers_are_at_the_right_and_others_at_the_left(page):
    cells = {words(each): "number" in each.get("class", "") for each in page.elements if each["tag"] in ("td", "th")}

    assert {cells[text] for text in ("regret", "400", "1,707", "ratio", "1.00 (0.97 to 1.04)")} == {True}
    assert {cells[text] for text in ("method", "LinUCB", "tuned", "yes", "no")} == {False}


def test_figures_are_in_the_page_and_named_for_those_who_listen(page):
    assert {each["alt"] for each in page.all("img")} == {"Tasks that arrive equally often", "A rare task"}
    assert all(base64.b64decode(each["src"].partition(",")[2]).decode() == SVG for each in page.all("img"))


def test_what_may_be_wider_than_a_phone_scrolls_by_keyboard_too(page):
    boxes = page.all("div", class_="scroll", tabindex="0", role="region")

    assert len(boxes) == 4  # a figure and a table in each of two chapters
    assert all(each["aria-label"] for each in boxes)


def with_text(value, text):
    """Return a report's value with every text in it replaced, except drawings."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(with_text(each, text) for each in value)
    if isinstance(value, dict):
        return {f"{text}{at}": with_text(each, text) for at, each in enumerate(value.values())}
    if is_dataclass(value):
        names = [each.name for each in fields(value) if each.name != "svg"]
        return replace(value, **{name: with_text(getattr(value, name), text) for name in names})
    return value


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "\"><img src=x onerror='alert(1)'>",
        "' onmouseover='alert(1)",
        "&lt;b&gt; &amp; </section></main>",
        "<!-- ]]> <style>",
    ],
)
def test_text_is_shown_as_text_in_every_field(report, hostile):
    plain, page = (Page(render_page(with_text(report, text))) for text in ("words", hostile))

    assert page.tags == plain.tags
    assert [sorted(each) for each in page.elements] == [sorted(each) for each in plain.elements]
    shown = page.one("body")["text"].count(hostile)
    assert shown == plain.one("body")["text"].count("words")
    assert shown > 50


def test_an_empty_report_is_a_whole_page():
    page = Page(render_page(Report(version="1.2.3", command="posse lab reproduce all", chapters=())))

    text = words(page.one("body"))
    assert "No claim was tested." in text
    assert "This report has no chapters." in text
    assert "0 ✓ holds" in text
    ids = {element.get("id") for element in page.elements}
    assert {element["href"].removeprefix("#") for element in page.all("a")} <= ids


def test_the_same_report_is_the_same_page(report):
    assert render_page(report) == render_page(report)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1706.8, "1,707"),
        (0.85274, "0.853"),
        (12.35001, "12.4"),
        (210_000.4, "2.1e5"),
        (99.96, "100"),
        (0.99951, "1.00"),
        (99_960.5, "1e5"),
        (0.000_123_4, "1.23e-4"),
        (-0.0316, "−0.0316"),
        (-1706.8, "−1,707"),
        (0.0, "0"),
        (-0.0, "0"),
        (3.0, "3"),
        (10_000, "10,000"),
        (1_250_000, "1,250,000"),
        (np.int64(1_250_000), "1,250,000"),
        (np.float64(0.5), "0.500"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
    ],
)
def test_numbers_have_three_digits_that_count(value, shown):
    assert number_words(value) == shown


def luminance(colour):
    # WCAG 2.2, relative luminance.
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_all_text_has_the_contrast_that_wcag_asks_for(scheme):
    style = resources.files("posse_lab.reproduction").joinpath("page.css").read_text("utf-8")
    roots = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", roots[scheme]))

    pairs = [(ink, ground) for ink in ("ink", "muted", "link") for ground in ("ground", "raised")]
    pairs += [(f"{kind}-ink", f"{kind}-ground") for kind in ("holds", "only-if", "fails")]
    for ink, ground in pairs:
        low, high = sorted((luminance(colours[ink]), luminance(colours[ground])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)
