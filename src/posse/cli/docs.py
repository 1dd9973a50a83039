"""``posse docs``: the pages of the documentation, in the terminal."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from posse.errors import InvalidValue

# In a wheel the pages lie in the package, in a checkout beside it.
HOMES = (Path(__file__).parents[1] / "docs", Path(__file__).parents[3] / "docs")
CONTENTS = ("index", "how-to", "explanation", "reference", "results")


def docs(
    page: Annotated[str | None, typer.Argument(metavar="PAGE", help="A page, such as `clicks`. Default: list.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the page as it is written, in Markdown.")] = False,
) -> None:
    """Read the documentation: list its pages, or show one."""
    from rich.console import Console
    from rich.markdown import Markdown

    folder = next((home for home in HOMES if (home / "index.md").is_file()), None)
    if folder is None:
        raise InvalidValue(f"expected the documentation in {HOMES[0]}, got no such folder; install posse again")
    pages = {path.stem: path for path in folder.glob("*.md")}
    if page is None:
        for name in [name for contents in CONTENTS for name in _listed(pages[contents])]:
            if name in pages and name not in CONTENTS:
                typer.echo(f"{name:<22}{_title(_included(pages[name]))}")
        typer.echo("\nposse docs PAGE shows one of them")
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        from posse.checks import nearest

        raise InvalidValue(
            f"no page {page!r} in the documentation; {nearest(name, sorted(pages), 'pages')}; `posse docs` lists them"
        )
    text = _included(pages[name])
    if raw:
        typer.echo(text)
        return
    console = Console()
    with console.pager(styles=True) if console.is_terminal else nullcontext():
        console.print(Markdown(_plain(text)))


def _listed(contents: Path) -> list[str]:
    """Return the pages that a table of contents names."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", contents.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]


def _included(page: Path) -> str:
    """Return the text of a page, or of the file that is all it includes."""
    text = page.read_text("utf-8")
    other = re.match(r"```\{include\} (\S+)\n", text)
    return (page.parent / other[1]).read_text("utf-8") if other else text


def _title(text: str) -> str:
    found = re.search(r"^# (.*)$", text, re.MULTILINE)
    return found[1].replace("`", "") if found else ""


def _plain(text: str) -> str:
    """Return what Markdown without Sphinx's additions says."""
    text = re.sub(r"\A---\n.*?^---\n", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^<!--.*?-->\n?", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^```\{(?!code-cell)[^\n]*\n.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^```\{code-cell\}[^\n]*$", "```python", text, flags=re.MULTILINE)
