"""The report as one HTML file that needs nothing else: no network, no script, no fonts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from posse_lab.reproduction.chapters import Chapter, Picture, Report, ResultFile
from posse_lab.reproduction.claims import FAILS, HOLDS, ONLY_IF, Claim, count_kinds, kind_of
from posse_lab.reproduction.experiment import Table
from posse_lab.reproduction.markup import Html, join, number_words, tag, text, unique_ids

TITLE = "Empirical Bayesian Multi-Bandit Learning, reproduced"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
KINDS = {HOLDS: ("holds", "✓"), ONLY_IF: ("only-if", "◐"), FAILS: ("fails", "✗")}
"""Class and symbol of each kind of verdict."""

PAGE_IDS = ("claims", "contents")

_NUMERAL = r"[-−+]?\d[\d,]*(\.\d+)?(e[-−+]?\d+)?( ?%)?"
_NUMBER = re.compile(rf"{_NUMERAL}( ± {_NUMERAL}| \({_NUMERAL} to {_NUMERAL}\))?")


def render_page(report: Report) -> str:
    """Return the report as one HTML file.

    The file holds its style and its figures and follows the reader's light or dark scheme. Every text of the report is
    shown as text, whatever it contains.

    Parameters
    ----------
    report : Report

    Returns
    -------
    str
        A whole HTML document.
    """
    names = [chapter.name for chapter in report.chapters]
    claims = [f"claim-{claim.id}" for claim in report.claims]
    unique = unique_ids([*names, *claims], PAGE_IDS)
    anchors, rows = unique[: len(names)], unique[len(names) :]
    chapters = list(zip(report.chapters, anchors, strict=True))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", text(TITLE)),
        tag("link", rel="icon", href="data:,"),  # or a browser would ask the server for one
        tag("style", Html(resources.files("posse_lab.reproduction").joinpath("page.css").read_text("utf-8"))),
    )
    body = tag(
        "body",
        tag("a", text("Skip to the claims"), class_="skip", href="#claims"),
        _header(report),
        tag(
            "main",
            _all_claims(chapters, rows),
            _contents(chapters),
            *(_chapter(chapter, anchor, place) for place, (chapter, anchor) in enumerate(chapters, start=1)),
        ),
        _footer(report),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


def _whole(words: Sequence[str]) -> Html:
    """Return words between which, but not inside which, a line may break."""
    return join((tag("span", text(word), class_="whole") for word in words), " ")


def _command(command: str) -> Html:
    return tag("code", _whole(re.split(" (?=-)", command)))


def _header(report: Report) -> Html:
    counts = count_kinds(report.claims)
    return tag(
        "header",
        tag("h1", _whole(TITLE.split(" "))),
        tag(
            "p",
            text(
                "Every figure of the paper by Jiang and Zhu, redrawn, and what it claims, tested claim by claim. The "
                "paper prints no numbers, so each claim is decided by one that was measured here, on paired seeds: in "
                "a seed all methods meet the same tasks, contexts and noise."
            ),
            class_="lead",
        ),
        tag("ul", *(_count(kind, counts[kind]) for kind in (HOLDS, ONLY_IF, FAILS)), class_="counts"),
        tag(
            "p",
            text(f"posse {report.version}. This page is made by "),
            _command(report.command),
            class_="made",
        ),
        *([tag("p", text(report.note), class_="notice")] if report.note else []),
        tag(
            "nav",
            tag("a", text("The claims"), href="#claims"),
            tag("a", text("The chapters"), href="#contents"),
            aria_label="On this page",
        ),
    )


def _count(kind: str, count: int) -> Html:
    name, symbol = KINDS[kind]
    return tag(
        "li",
        tag("strong", text(number_words(count))),
        text(" "),
        tag("span", _symbol(symbol), text(f" {kind}{' …' if kind == ONLY_IF else ''}")),
        class_=name,
    )


def _symbol(symbol: str) -> Html:
    return tag("span", text(symbol), class_="symbol", aria_hidden="true")


def _verdict(verdict: str) -> Html:
    name, symbol = KINDS.get(kind_of(verdict), ("other", "?"))
    return tag("span", _symbol(symbol), text(" "), tag("span", text(verdict)), class_=f"verdict {name}")


def _value(claim: Claim) -> Html:
    """Return the number that decides, with its interval where there is one."""
    value = tag("strong", text(number_words(claim.value)))
    if claim.interval == (claim.value, claim.value):
        return value
    low, high = map(number_words, claim.interval)
    return join([value, text(" "), tag("span", text(f"({low} to {high})"), class_="interval")])


def _all_claims(chapters: Sequence[tuple[Chapter, str]], rows: Sequence[str]) -> Html:
    heading = tag("h2", text("The claims"))
    if not rows:
        return tag("section", heading, tag("p", text("No claim was tested.")), id="claims")
    anchors = iter(rows)
    groups = [
        tag(
            "tbody",
            tag(
                "tr",
                tag(
                    "th",
                    tag("a", text(chapter.title), href=f"#{anchor}"),
                    text(" "),
                    tag("span", text(chapter.figure), class_="small"),
                    colspan="4",
                    scope="rowgroup",
                    role="rowheader",
                ),
                class_="group",
                role="row",
            ),
            *(_claim_row(claim, next(anchors)) for claim in chapter.claims),
            role="rowgroup",
        )
        for chapter, anchor in chapters
        if chapter.claims
    ]
    head = ("WritePlan", "Claim of the paper", "What decides it", "Seeds")
    # On a phone rows become cards; the roles keep them a table for those who listen.
    table = tag(
        "table",
        tag(
            "caption",
            text(
                "In brackets: 95 % bootstrap intervals over seeds. Numbers without seeds were computed, not simulated."
            ),
        ),
        tag(
            "thead",
            tag("tr", *(tag("th", text(name), scope="col", role="columnheader") for name in head), role="row"),
            role="rowgroup",
        ),
        *groups,
        class_="claims",
        role="table",
    )
    return tag("section", heading, table, id="claims")


def _claim_row(claim: Claim, row: str) -> Html:
    sources = [tag("span", _sources(claim.sources), class_="small")] if claim.sources else []
    return tag(
        "tr",
        tag("td", _verdict(claim.verdict), role="cell"),
        tag("th", tag("span", text(claim.claim), class_="claim"), text(" "), *sources, scope="row", role="rowheader"),
        tag("td", _value(claim), text(" "), tag("span", text(claim.measure), class_="measure"), role="cell"),
        tag("td", text(number_words(claim.seeds) if claim.seeds else "none"), class_="seeds", role="cell"),
        id=row,
        role="row",
    )


def _sources(sources: Sequence[str]) -> Html:
    last = len(sources) - 1
    parts = ((tag("code", text(source)), text("" if at == last else ",")) for at, source in enumerate(sources))
    return join((tag("span", *part, class_="whole") for part in parts), " ")


def _contents(chapters: Sequence[tuple[Chapter, str]]) -> Html:
    heading = tag("h2", text("Chapters"), id="contents")
    if not chapters:
        return tag("section", heading, tag("p", text("This report has no chapters.")))
    entries = [
        tag(
            "li",
            tag("a", text(chapter.title), href=f"#{anchor}"),
            text(" "),
            tag("span", text(chapter.figure + (", no results" if chapter.missing else "")), class_="small"),
        )
        for chapter, anchor in chapters
    ]
    return tag("nav", heading, tag("ol", *entries), class_="contents", aria_labelledby="contents")


def _chapter(chapter: Chapter, anchor: str, place: int) -> Html:
    figure = chapter.figure if "paper" in chapter.figure else f"{chapter.figure} of the paper"
    parts = [
        tag("h2", text(chapter.title)),
        tag("p", text(figure), class_="place"),
    ]
    if chapter.missing:
        parts.append(
            tag("p", tag("strong", text("No results.")), text(f" {chapter.missing}"), class_="notice", role="note")
        )
    columns = [tag("div", tag("h3", text("The paper says")), tag("p", text(chapter.says)))]
    if chapter.found:
        columns.append(
            tag("div", tag("h3", text("What was found")), *(tag("p", text(words)) for words in chapter.found))
        )
    parts.append(tag("div", *columns, class_="columns"))
    total = len(chapter.pictures)
    for number, picture in enumerate(chapter.pictures, start=1):
        title = chapter.title if total == 1 else f"{chapter.title}, {number} of {total}"
        parts.append(_figure(picture, title, prefix=f"figure{place}-{number}"))
    if chapter.claims:
        parts.append(tag("h3", text("Claims")))
        parts.append(tag("ul", *map(_claim_item, chapter.claims), class_="verdicts"))
    parts.extend(_table(table) for table in chapter.tables)
    if chapter.choices:
        parts.append(tag("h3", text("What the paper leaves open, and what was chosen")))
        parts.append(tag("ul", *(tag("li", text(choice)) for choice in chapter.choices), class_="choices"))
    parts.append(_how(chapter))
    parts.append(tag("p", tag("a", text("All chapters"), href="#contents"), class_="back"))
    return tag("section", *parts, id=anchor, class_="chapter")


def _figure(picture: Picture, title: str, prefix: str) -> Html:
    from posse_lab.plotting.inline import inline_svg

    drawing = Html(inline_svg(picture.svg, prefix=prefix, title=title))
    caption = [text(picture.caption)]
    if picture.sources:
        caption += [text(" "), tag("span", _sources(picture.sources), class_="small")]
    return tag("figure", _scroll_box(drawing, title), tag("figcaption", *caption))


def _scroll_box(content: Html, label: str) -> Html:
    # Focusable, so that the arrow keys can scroll what a finger can.
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def _claim_item(claim: Claim) -> Html:
    seeds = f" ({number_words(claim.seeds)} seed{'s' if claim.seeds != 1 else ''})" if claim.seeds else ""
    return tag(
        "li",
        _verdict(claim.verdict),
        text(" "),
        tag(
            "div",
            tag("span", text(claim.claim), class_="claim"),
            text(" "),
            tag("span", _value(claim), text(f" {claim.measure}{seeds}"), class_="measure"),
        ),
    )


def _table(table: Table) -> Html:
    columns = range(len(table.columns))
    numeric = [all(_is_number(row[at]) for row in table.rows if at < len(row)) for at in columns]

    def kind(at: int) -> dict[str, str]:
        return {"class_": "number"} if at < len(numeric) and numeric[at] and table.rows else {}

    head = tag("tr", *(tag("th", text(name), scope="col", **kind(at)) for at, name in enumerate(table.columns)))
    rows = [
        tag(
            "tr",
            *(
                tag("td" if at else "th", text(_cell(value)), **({} if at else {"scope": "row"}), **kind(at))
                for at, value in enumerate(row)
            ),
        )
        for row in table.rows
    ]
    parts = [
        tag("h3", text(table.title)),
        _scroll_box(tag("table", tag("thead", head), tag("tbody", *rows), class_="data"), table.title),
    ]
    if table.sources:
        parts.append(tag("p", _sources(table.sources), class_="small"))
    return join(parts)


def _is_number(value: Any) -> bool:
    """Whether a cell belongs at the right: a number, text that is one (an interval may follow), or nothing."""
    if isinstance(value, str):
        return not value or _NUMBER.fullmatch(value) is not None
    return not isinstance(value, bool)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number_words(value)


def _how(chapter: Chapter) -> Html:
    only = len(chapter.files) == 1
    return tag(
        "details",
        tag("summary", text("How to get these numbers")),
        tag("pre", _command(chapter.command or f"posse lab reproduce {chapter.name}")),
        *(_file(file, open_=only) for file in chapter.files),
        class_="how",
    )


def _file(file: ResultFile, *, open_: bool) -> Html:
    seeds = f"{number_words(file.seeds)} seed{'s' if file.seeds != 1 else ''}" if file.seeds else "no seeds"
    groups = [
        tag(
            "tbody",
            tag("tr", tag("th", text(name), colspan="2", scope="rowgroup"), class_="group"),
            *(tag("tr", tag("th", text(key), scope="row"), tag("td", text(value))) for key, value in rows.items()),
        )
        for name, rows in (("Run", file.settings), ("Policies", file.policies))
        if rows
    ]
    return tag(
        "details",
        tag("summary", tag("code", text(file.path)), text(" "), _whole([seeds])),
        *([tag("table", *groups, class_="settings")] if groups else []),
        **({"open": ""} if open_ else {}),
    )


def _footer(report: Report) -> Html:
    return tag(
        "footer",
        tag(
            "p",
            text(f"posse {report.version}, Apache License 2.0. The paper and its data sets belong to their authors."),
        ),
        tag(
            "p",
            text("Figures, verdicts and this page are drawn from result files; to draw them again without a run: "),
            _command("posse lab reproduce --redraw"),
        ),
    )
