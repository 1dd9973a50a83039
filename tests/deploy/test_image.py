"""What deploy/slim takes out of the image is not missed there."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/posse"
# What imports more of SciPy, each inside of a function that no route and no policy of a fleet calls.
NOT_FOR_THE_IMAGE = {
    "model/reml.py": {"optimize"},  # HierarchicalRegressor(method="reml")
    "regression/laplace.py": {"optimize"},  # ... and method="laplace" of its relatives
}

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        package, _, rest = name.partition(".")
        if package == "scipy" and rest.split(".")[0] in {left_out!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
"""


def kept():
    """Folders of SciPy that the image has."""
    (line,) = [
        line for line in (ROOT / "deploy/slim").read_text().splitlines() if line.startswith('find "$site"/scipy')
    ]
    return set(re.findall(r"-not -name (\w+)", line))


def imported(path):
    """What a file imports of SciPy, wherever in it."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "scipy" in text else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "scipy":
            yield from (f"scipy.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_only_what_is_not_for_the_image_imports_more_of_scipy():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = {name.split(".")[1] for name in imported(path) if name.startswith("scipy.")}
        name = path.relative_to(PACKAGE).as_posix()
        if parts - kept():
            found[name] = parts - kept()
    assert found == NOT_FOR_THE_IMAGE


def run(program):
    import scipy

    there = {path.name for path in Path(scipy.__file__).parent.iterdir() if path.is_dir()}
    whole = BLOCKED.replace("{left_out!r}", repr(there - kept() - {"__pycache__"})) + program
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_trimmed_scipy_works_alone():
    run("from scipy.special import chdtrc, ndtr, ndtri, stdtrit")


@pytest.mark.slow
def test_the_service_works_with_the_trimmed_scipy():
    run("""
import importlib, pkgutil
for package in ("service", "storage", "report", "offline", "client", "cli"):
    package = importlib.import_module(f"posse.{package}")
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(info.name)
from posse.service.warming import parts
for work in parts().values():
    work()
""")
