"""What the documentation says is so: code blocks run, command lines are understood, links lead somewhere.

The Python blocks of a page are one program, run in a folder of its own. Comments, which readers do not see, help:

- ``<!-- run first: ... -->`` holds Python that the page takes for granted (a table, a fleet);
- ``<!-- needs: package -->`` before a block leaves it out where that package is not installed;
- ``<!-- needs: service -->`` has a decision service listen at the address that the page names;
- ``<!-- needs: data -->`` leaves a block out where POSSE_DATA does not name the folder of the data sets, and
  ``<!-- needs: cluster -->`` where RAY_ADDRESS names no cluster.

Of shell blocks, every ``posse`` command must parse; in the pages of RUN they are also run.
"""

import asyncio
import doctest
import inspect
import os
import re
import shlex
import subprocess
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
RUN = {"README.md", "own-rule.md", "your-table.md"}
LONG_RUNNING = {"serve", "warmup", "demo", "lab"}
BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>\w+) -->\n)?```(?P<kind>python|sh|\{code-cell\}[^\n]*)\n(?P<code>.*?)^```$"
    r"|^<!-- run first:\n(?P<first>.*?)-->$",
    re.MULTILINE | re.DOTALL,
)
SERVICE = re.compile(r"(http://)?(127\.0\.0\.1|localhost):8080")


def blocks(page):
    """Yield the kind, code and first line of every block of a page, in their order."""
    text = page.read_text("utf-8")
    for found in BLOCK.finditer(text):
        needs, kind = found["needs"], found["kind"] or "python"
        there = {"service": True, "data": "POSSE_DATA" in os.environ, "cluster": "RAY_ADDRESS" in os.environ}
        if needs and not (there[needs] if needs in there else find_spec(needs)):
            continue
        part = "code" if found["code"] is not None else "first"
        yield ("sh" if kind == "sh" else "python"), found[part], text[: found.start(part)].count("\n") + 1


def commands(code):
    """Return the ``posse`` command lines of a shell block, as lists of arguments."""
    lines = [line for line in code.replace("\\\n", " ").splitlines() if line.startswith("posse ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def run_python(code, page, line, names):
    if code.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
        told = []
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        failed = doctest.DocTestRunner(optionflags=options).run(test, out=told.append, clear_globs=False).failed
        assert not failed, "".join(told)
        return
    # Errors name the line of the page; an await stands where a notebook allows it.
    compiled = compile("\n" * (line - 1) + code, str(page), "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if compiled.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(compiled, names))
    else:
        exec(compiled, names)


@pytest.fixture(scope="module")
def service(tmp_path_factory, compiled):
    """Return the address of a service."""
    from posse_lab.servers.service import services

    folder = tmp_path_factory.mktemp("service")
    with services(str(folder / "posse.db"), 1, folder) as (one,):
        yield one.url


@pytest.fixture
def address(service):
    """Return the address of a service that knows no fleet of another page."""
    from posse.client import Client

    yield service
    with Client(service, timeout=20.0, deadline=60.0) as client:
        for fleet in client.fleets():
            client.delete_fleet(fleet.name)


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=lambda page: page.name)
def test_every_block_of_code_runs(page, tmp_path, monkeypatch, request):
    from posse.cli.main import app

    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    serves = "<!-- needs: service -->" in page.read_text("utf-8")
    for kind, code, line in blocks(page):
        if kind == "python":
            if serves:
                code = SERVICE.sub(request.getfixturevalue("address"), code)
            code = code.replace('"DIR"', repr(os.environ.get("POSSE_DATA", "DIR")))
            run_python(code, page, line, names)
        elif page.name in RUN:
            for arguments in commands(code):
                if arguments[0] not in LONG_RUNNING:
                    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
                    assert done.exit_code == 0, (arguments, done.output)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_is_understood(page):
    from posse.cli.commands import commands_below
    from posse.cli.main import app

    for kind, code, _ in blocks(page):
        for arguments in commands(code) if kind == "sh" else ():
            if arguments[0].startswith("-"):
                continue
            command, rest = typer.main.get_command(app), arguments
            while below := commands_below(command):
                command, rest = below[rest[0]], rest[1:]
            command.make_context(command.name, rest)  # raises at an option that is not there


def anchors(page):
    """Return the names that the headings of a page have in links."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    [*PAGES, *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "ARCHITECTURE", "CHANGELOG")), *DOCS.glob("api/*.md")],
    ids=lambda page: page.name,
)
def test_every_link_leads_somewhere_in_the_repository(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name) if name else page
        assert found.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(found), f"{page.name} links to {target}"
        if page.parent == DOCS:  # the site has its own pages only; name other files as code
            assert found.resolve().is_relative_to(DOCS), f"{page.name} links to {target}"


def test_every_page_is_in_a_table_of_contents():
    listed = {"index"}
    for page in DOCS.rglob("*.md"):
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            names = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / name).relative_to(DOCS).as_posix() for name in names}

    there = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    assert there == listed, "add the page to how-to.md, explanation.md, reference.md or results.md"


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(tmp_path):
    pytest.importorskip("myst_nb", reason="pip install '.[docs]'")
    pytest.importorskip("pydata_sphinx_theme", reason="pip install '.[docs]'")

    options = ["-q", "-W", "--keep-going", "-d", tmp_path / "trees"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, DOCS, tmp_path / "site"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    tutorial = (tmp_path / "site" / "tutorial.html").read_text("utf-8")
    assert "the fleet would really have sold to" in tutorial
    assert "posse.fleet.Posse.decide" in (tmp_path / "site" / "api" / "fleet.html").read_text("utf-8")
    assert "--evaluation-budget" in (tmp_path / "site" / "command-line.html").read_text("utf-8")
