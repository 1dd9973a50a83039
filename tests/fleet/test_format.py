"""Every format that was released can still be read, and says what it said then."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse import Posse

FOLDER = Path(__file__).parent / "fixtures"
NOW = 1_700_000_000.0

# Compilers may order sums in another way on another machine; nothing else changes a digit.
CLOSE = {"rtol": 1e-8, "atol": 1e-10}
# Probabilities are integrals to a millionth; how they are taken may change, and did.
CHANCE = {"rtol": 0, "atol": 1e-6}


def compare(found, expected, where="answers"):
    """Require the same shape and names, and numbers that are the same but for rounding."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            compare(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for row, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            compare(mine, theirs, f"{where}[{row}]")
    elif isinstance(expected, float):
        chance = "propensity" in where or "probabilities" in where
        assert_allclose(found, expected, **(CHANCE if chance else CLOSE), err_msg=where)
    else:
        assert found == expected, where


def told(decision):
    """Return what a decision says; its id is new in every fleet that was loaded."""
    return {name: value for name, value in decision._asdict().items() if name != "id"}


def answers(fleet):
    rng = np.random.default_rng(7)
    contexts = [{"age": float(rng.normal(40, 10)), "kind": ["shop", "bar", None][row % 3]} for row in range(8)]
    tasks = [f"café {row % 4}" for row in range(7)] + ["never seen"]
    stats, prior = fleet.statistics, fleet.prior
    yield "arms", list(fleet.arms)
    yield "retired", list(fleet.retired_arms)
    yield "tasks", list(fleet.tasks)
    yield "count", stats.count.tolist()
    yield "moment", stats.moment.tolist()
    yield "noise_variance", prior.noise_variance.tolist()
    yield "covariance", prior.covariance.tolist()
    yield "pending", [list(entry) for entry in fleet.pending()]
    yield "expected", [fleet.expected(task, x)._asdict() for task, x in zip(tasks, contexts, strict=True)]
    yield "decisions", [told(fleet.decide(task, x)) for task, x in zip(tasks, contexts, strict=True)]
    for entry in fleet.pending()[:5]:
        fleet.reward(entry.id, 0.5)
    fleet.refresh()
    yield "later", [told(fleet.decide(task, x)) for task, x in zip(tasks, contexts, strict=True)]


@pytest.fixture(params=[2], ids=lambda number: f"format {number}")
def released(request, tmp_path):
    path = tmp_path / "fleet.posse"
    path.write_bytes(base64.b64decode((FOLDER / f"format{request.param}.posse.b64").read_text()))
    return path, json.loads((FOLDER / f"format{request.param}.json").read_text())


def test_a_released_format_says_what_it_said(released):
    path, expected = released

    found = dict(answers(Posse.load(path, clock=lambda: NOW)))

    compare(found, expected)


def test_some_tasks_of_a_released_format(released):
    path, expected = released

    fleet = Posse.load(path, tasks=["café 2"], clock=lambda: NOW)

    rng = np.random.default_rng(7)
    contexts = [{"age": float(rng.normal(40, 10)), "kind": ["shop", "bar", None][row % 3]} for row in range(8)]
    compare(fleet.expected("café 2", contexts[2])._asdict(), expected["expected"][2])


def test_a_released_format_is_written_again_without_loss(released, tmp_path):
    path, expected = released
    Posse.load(path, clock=lambda: NOW).save(tmp_path / "again.posse")

    found = dict(answers(Posse.load(tmp_path / "again.posse", clock=lambda: NOW)))

    compare(found, expected)


def test_fixtures_are_small_text():
    for path in FOLDER.iterdir():
        assert "\0" not in path.read_text(encoding="utf-8")
        assert path.stat().st_size < 20_000
