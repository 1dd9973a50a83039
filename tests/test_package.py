"""The package as a whole: what importing it costs, and that everything public is documented."""

import ast
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import posse


def test_import_loads_no_table_plotting_or_service_library():
    program = "import json, sys, posse; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)

    heavy = {
        "polars",
        "pandas",
        "pyarrow",
        "matplotlib",
        "fastapi",
        "sklearn",
        "gymnasium",
        "rich",
        "typer",
        "joblib",
        "jinja2",
        "ray",
    }
    assert heavy.isdisjoint(loaded)


def test_import_compiles_nothing(tmp_path):
    program = "import posse.policies, posse.fleet, posse.regression, posse.offline"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)

    assert not [path for path in tmp_path.rglob("*.nb?") if path.is_file()]


def test_table_of_contents_is_sorted_and_complete():
    assert sorted(posse.__all__) == posse.__all__
    assert all(hasattr(posse, name) for name in posse.__all__)


def test_dir_shows_what_is_for_users():
    shown = set(dir(posse))
    assert {*posse.__all__, "fleet", "simulation"} <= shown
    assert not {"Any", "TYPE_CHECKING", "import_module"} & shown


def test_nothing_is_to_be_installed_from_an_index_that_has_no_posse():
    root = Path(__file__).parents[1]
    folders = [(root / "docs").glob("*.md"), (root / "src").rglob("*.py"), (root / "deploy").glob("*.service")]
    pages = [root / "README.md", *(page for folder in folders for page in folder)]
    assert len(pages) > 100
    wrong = re.compile(r"""pip install (-\S+ )*["']?posse\b""")
    assert [page.name for page in pages if wrong.search(page.read_text("utf-8"))] == []


def test_every_module_says_what_it_is():
    for module in pkgutil.walk_packages(posse.__path__, "posse."):
        assert __import__(module.name, fromlist=["_"]).__doc__, module.name


def test_imports_point_one_way():
    # Lower layers first; a module may import from its own layer and from those before it.
    layers = [
        {"types", "errors", "interrupts", "api", "_version", "threads", "core.compiler", "core.size"},
        {"checks", "tables", "batches", "container", "client", "keywords", "showing"},
        {"families", "logs", "storage"},
        {"features"},
        {"model", "core"},
        {"policies"},
        {"regression", "fleet"},
        {"distributed"},
        {"offline", "examples"},
        {"report"},
        {"service"},
        {"environments"},
        {"simulation", "gym"},
        {"plotting"},
        {"cli", "__main__"},
    ]
    rank = {name: position for position, layer in enumerate(layers) for name in layer}
    root = Path(posse.__file__).parent
    for source in root.rglob("*.py"):
        parts = source.relative_to(root).with_suffix("").parts
        if parts == ("__init__",):
            continue
        tree = ast.parse(source.read_text())
        # What only the type checker reads is not imported: worlds name the types of the laboratory's datasets.
        named = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if node in named:
                continue
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("posse."):
                name, own = node.module.removeprefix("posse."), ".".join(parts)
                ranks = [rank.get(one, rank[one.split(".")[0]]) for one in (name, own)]
                assert ranks[0] <= ranks[1], f"{source} imports {node.module}"


OF_TUPLES = {"_replace", "_asdict", "_make", "_fields"}  # public names of a NamedTuple, in spite of their underscore
MOST_ACCESSES = 4


def private_accesses(text):
    """Yield the line of every ``x._y``, but not of ``self`` and ``cls``, nor of names that this module has itself."""
    tree = ast.parse(text)
    own = {"self", "cls"}
    of_module = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    private = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")]
    for node in private:
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id in own:
            of_module.add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            of_module.add(node.target.id)
    for node in private:
        mine = isinstance(node.value, ast.Name) and node.value.id in own
        if not mine and not node.attr.startswith("__") and node.attr not in of_module | OF_TUPLES:
            yield node.lineno


def test_nobody_reaches_into_what_is_private_to_others():
    """A bound that goes down: lower it when there are fewer."""
    root = Path(posse.__file__).parent
    found = {source: [*private_accesses(source.read_text())] for source in sorted(root.rglob("*.py"))}
    counts = {str(source.relative_to(root)): len(lines) for source, lines in found.items() if lines}
    assert sum(counts.values()) <= MOST_ACCESSES, sorted(counts.items(), key=lambda item: -item[1])


def test_private_accesses_are_counted():
    text = "class A:\n    def __init__(self):\n        self._a = 1\n\n    def b(self, other):\n        return {}\n"
    counts = {"other._a": 0, "self._z": 0, "other._z": 1, "other.c._z": 1, "other._replace()": 0, "other.__dict__": 0}
    assert {line: len([*private_accesses(text.format(line))]) for line in counts} == counts
