"""``posse docs`` reads the pages, in a checkout and, as tests/test_dist.py sees, from a wheel."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue

DOCS = Path(__file__).parents[2] / "docs"


def read(*arguments):
    done = CliRunner().invoke(app, ["docs", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_every_page_is_listed_with_its_title():
    listed = [line.split()[0] for line in read().splitlines()[:-2]]

    contents = {"index", "how-to", "explanation", "reference", "results"}
    assert set(listed) == {page.stem for page in DOCS.glob("*.md")} - contents
    assert len(set(listed)) == len(listed)
    assert "Cold start: new stores, new users" in read()


def test_a_page_is_shown_without_what_readers_should_not_see():
    said = read("tutorial")

    assert "from a table to a report" in said
    assert "code-cell" not in said
    assert "kernelspec" not in said
    assert "run first" not in read("offline")


def test_a_page_may_be_named_as_a_file():
    assert read("docs/clicks.md") == read("clicks")
    assert read("clicks", "--raw").strip() == (DOCS / "clicks.md").read_text("utf-8").strip()


def test_a_page_that_is_not_there_is_refused():
    with pytest.raises(InvalidValue, match="posse docs"):
        CliRunner().invoke(app, ["docs", "nowhere"], catch_exceptions=False)
