"""Snapshots: what cannot be is refused, and populations pass from one core to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from posse.core.core import Core

from .cores import believed, filled, messages_are_those_of_the_sums, new_core, play

Saved = dict[str, Any]


def played(family: str = "binary") -> Core:
    core = new_core(3, 3, family, n_task_features=1)
    core.take_tasks(core.reserve_tasks(8), np.random.default_rng(0).normal(size=(8, 1)))
    rng = np.random.default_rng(5)
    play(core, family, 0.0, rng, rng.normal(size=(8, 3, 3)), 150)
    return core


def put(name: str, place: Any, value: float) -> Callable[[Saved], None]:
    def change(saved: Saved) -> None:
        saved[name][place] = value

    return change


def without(name: str) -> Callable[[Saved], None]:
    def change(saved: Saved) -> None:
        del saved[name]

    return change


def shorter(name: str) -> Callable[[Saved], None]:
    def change(saved: Saved) -> None:
        saved[name] = saved[name][:-1]

    return change


def loop(saved: Saved) -> None:
    first = int(saved["store.row_ends"][0, 0])
    saved["store.row_links"][first, 0] = first


def shared_row(saved: Saved) -> None:
    saved["store.row_ends"][1] = saved["store.row_ends"][0]


@pytest.mark.parametrize(
    "change",
    [
        without("store.sums"), shorter("store.sums"), shorter("store.known"), shorter("store.row_ends"),
        put("store.sums", (0, 0), np.nan), put("store.sums", (0, 0), -1.0), put("store.sums", (0, 1), 1e9),
        put("store.weight", 0, 0.0), put("store.noise", 0, 0.0), put("store.prior", (0, 0, 0), -1.0),
        put("store.told", (1, 0, 0), -1.0), put("store.owner", (0, 0), 10**6), put("store.owner", (0, 1), 7),
        put("store.row_links", (0, 0), 10**6), put("store.free_rows", 0, 10**6), loop, shared_row,
    ],
)  # fmt: skip
def test_a_snapshot_that_cannot_be_is_refused_with_one_sentence(change: Callable[[Saved], None]) -> None:
    core = played()
    saved = core.snapshot()
    x = np.array([1.0, 0.1, 0.2])
    before = believed(core, 2, x)
    change(saved)
    with pytest.raises(ValueError, match=r"expected .* in a snapshot, got something else"):
        core.restore(saved)
    np.testing.assert_array_equal(believed(core, 2, x), before)


@pytest.mark.parametrize("family", ["number", "binary"])
def test_a_snapshot_has_finite_numbers_and_restores_as_it_was(family: str) -> None:
    core = played(family)
    saved = core.snapshot()
    assert all(np.isfinite(array).all() for array in saved.values())
    other = new_core(3, 3, family, n_task_features=1)
    other.restore(saved)
    again = other.snapshot()
    assert again.keys() == saved.keys()
    for name, array in saved.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)
    messages_are_those_of_the_sums(other, 1e-8)


def test_a_population_that_is_adopted_gives_the_beliefs_of_its_core() -> None:
    core, x = played(), np.array([1.0, 0.1, 0.2])
    core.estimate()
    other = new_core(3, 3, "binary", n_task_features=1)
    other.restore(core.snapshot())
    core.estimate(steps=5)
    published = core.population()
    assert all(np.isfinite(array).all() for array in published.values())
    assert other.adopt(published)
    np.testing.assert_allclose(other.prior.covariance, core.prior.covariance)
    assert not new_core(4, 3, "binary", n_task_features=1).adopt(published)
    with pytest.raises(ValueError, match="an array noise"):
        other.adopt({name: array for name, array in published.items() if name != "noise"})
    assert np.isfinite(believed(filled(other, 1), 8, x)).all()
