"""What help() says of what people call: every parameter with its real default, what comes back and what is raised."""

import inspect
import re

import pytest

from posse import (
    FeatureSpec,
    HierarchicalClassifier,
    HierarchicalCountRegressor,
    HierarchicalRegressor,
    Posse,
    SimulationResult,
    estimate_prior,
    simulate,
)
from posse.client import AsyncClient, Client
from posse.distributed import ShardedPosse
from posse.fleet.decision import Decisions

CLASSES = (
    Posse, Decisions, Client, AsyncClient, ShardedPosse, HierarchicalRegressor, HierarchicalClassifier,
    HierarchicalCountRegressor, SimulationResult, FeatureSpec,
)  # fmt: skip
OTHERS = {"aclose", "from_rows"}  # a synonym, and what only simulate calls


def public_methods():
    """Yield what people call of the classes above."""
    for cls in CLASSES:
        for name, _ in inspect.getmembers(cls, callable):
            home = next(base for base in cls.__mro__ if name in vars(base))
            private = name.startswith("_") or name.endswith("_request") or name in OTHERS
            if home.__module__.startswith("posse.") and not private:
                yield pytest.param(getattr(cls, name), id=f"{cls.__name__}.{name}")
    yield pytest.param(simulate, id="simulate")
    yield pytest.param(estimate_prior, id="estimate_prior")


def section(text, name):
    """Return what stands under a heading."""
    found = re.search(rf"^{name}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text + "\n", flags=re.M | re.S)
    return "" if found is None else found[1]


def described(text):
    """Return the line of every parameter."""
    entries = {}
    for line in section(text, "Parameters").splitlines():
        if line and not line[0].isspace():
            names, _, kind = line.partition(" : ")
            entries.update({name.strip(" *"): kind for name in names.split(",")})
    return entries


@pytest.mark.parametrize("method", list(public_methods()))
def test_help_says_all_about_parameters_and_results(method):
    text, signature = inspect.getdoc(method), inspect.signature(method)
    entries = described(text)
    for name, parameter in signature.parameters.items():
        if name in ("self", "cls"):
            continue
        assert name in entries
        default = parameter.default
        if default is not inspect.Parameter.empty and not callable(default):
            words = re.search(r"default (\S+?)(?=,|$)", entries[name], re.M)
            assert words is not None, f"{name} has a default, {default!r}, that is not said"
            assert words[1].strip('"') == str(default)
    if signature.return_annotation not in ("None", None, inspect.Signature.empty):
        assert section(text, "Returns").strip()


@pytest.mark.parametrize("cls", [Posse, Client, ShardedPosse, HierarchicalRegressor, FeatureSpec])
def test_help_of_a_class_says_the_default_of_every_setting(cls):
    text = inspect.getdoc(cls)
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if parameter.default is inspect.Parameter.empty or (cls is ShardedPosse and name in ("policy", "seed")):
            continue
        entry = re.search(rf"^{name}(?:, \w+)* :.*?(?=^\S)", text, re.M | re.S)
        assert entry is not None, name
        assert re.search(r"\b[Dd]efault|optional", entry[0]), name
        if isinstance(parameter.default, bool | int | float | str):
            assert re.search(rf'default "?{re.escape(str(parameter.default))}', entry[0]) or "MiB" in entry[0], name


def test_help_of_deciding_names_all_that_is_raised():
    raised = section(inspect.getdoc(Posse.decide), "Raises")
    for error in ("UnknownArm", "UnknownTask", "ShapeError", "NotFinite", "InvalidValue"):
        assert f"{error}\n" in raised


def test_help_of_both_clients_is_the_same():
    for name in ("decide", "reward", "expected"):
        assert inspect.getdoc(getattr(AsyncClient, name)) == inspect.getdoc(getattr(Client, name))
