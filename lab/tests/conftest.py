"""What the laboratory's tests share with the library's."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parents[2] / "tests"


def load(file):
    spec = spec_from_file_location(f"shared_{file.parent.name}", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


of_tests = load(ROOT / "conftest.py")
compiled, pytest_configure = of_tests.compiled, of_tests.pytest_configure
read_words = load(ROOT / "plotting" / "conftest.py").read_words
