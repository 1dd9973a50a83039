"""Claims over a grid of worlds, on regret made by hand."""

import numpy as np
import pytest

from posse_lab.reproduction.claims import FAILS, HOLDS
from posse_lab.reproduction.grid import (
    Arms,
    advantage_kept,
    grid_readings,
    grid_runs,
    grid_section,
    spread,
    varies_less,
)
from posse_lab.reproduction.reading import Reading


def test_a_run_per_value_and_nothing_else_changes():
    runs = grid_runs("n_arms", Arms(n_tasks=4, n_arms=(2, 7), horizon=30))

    assert [(run.key, run.horizon) for run in runs] == [("k-2", 30), ("k-7", 30)]
    assert [(run.world.n_tasks, run.world.n_arms, run.world.n_features) for run in runs] == [(4, 2, 3), (4, 7, 3)]


def test_values_are_sorted_as_numbers(result):
    made = {key: result({"a": [[1.0]]}, [1]) for key in ("n-10", "n-2", "n-30")}
    readings = grid_readings(made, "N")

    assert [reading.source for reading in readings] == ["n-2", "n-10", "n-30"]
    assert [reading.label for reading in readings] == ["N = 2", "N = 10", "N = 30"]


def grid(reading, *ours, rival=None):
    """Worlds with LinUCB and its grid at 2, or the best of the grid at ``rival``, and ebmUCB at each of ``ours``."""
    return [
        reading({"ebmUCB": factor, "LinUCB 0.5": best}, source=f"n-{value}", label=f"N = {value}")
        for value, (factor, best) in enumerate(zip(ours, rival or [2.0] * len(ours), strict=True), start=2)
    ]


def test_an_advantage_that_grows(reading):
    claim = advantage_kept(grid(reading, 1.8, 3.0, 0.9), "tasks")

    assert claim.verdict == HOLDS
    assert claim.value == pytest.approx(0.9 / 1.8)
    assert claim.interval == pytest.approx((0.5, 0.5))
    assert "at N = 4, divided by the same at N = 2" in claim.measure
    assert claim.sources == ("n-2", "n-4")
    assert claim.id == "tasks-advantage-kept"


def test_an_advantage_that_grows_over_a_rival_that_is_not_tuned(reading):
    claim = advantage_kept(grid(reading, 1.8, 0.9, rival=(1.9, 0.8)), "tasks")

    factor = (0.9 / 0.8) / (1.8 / 1.9)
    assert (
        claim.verdict
        == f"holds only if LinUCB is not tuned: the ratio to it changes by a factor {factor:.2f} otherwise"
    )
    assert claim.value == pytest.approx(0.5)


@pytest.mark.parametrize(("ours", "verdict"), [((1.0, 1.0), HOLDS), ((0.9, 1.8), FAILS)])
def test_an_advantage_that_stays_is_kept_and_one_that_shrinks_is_not(reading, ours, verdict):
    assert advantage_kept(grid(reading, *ours), "arms").verdict == verdict


def test_the_distance_between_quartiles():
    assert spread(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 5.0], [4.0, 9.0]])).tolist() == [2.0, 4.0]


def boxes(result, ucb, ts):
    """Worlds in which the two methods have these widths, 40 seeds each."""
    levels = np.linspace(-1, 1, 40)
    made = []
    for place, (a, b) in enumerate(zip(ucb, ts, strict=True)):
        curves = {"ebmUCB": (50 + a * levels)[:, None], "ebmTS": (60 + b * np.roll(levels, 7))[:, None]}
        made.append(Reading(result(curves, [10]), f"n-{place}", f"N = {place}"))
    return made


def test_boxes_that_are_narrower_everywhere(result):
    claim = varies_less(boxes(result, (1.0, 2.0), (4.0, 4.0)), "tasks")

    assert claim.verdict == HOLDS
    assert claim.value == pytest.approx(np.sqrt(0.25 * 0.5))
    assert "narrower at 2 of 2 values" in claim.measure
    assert claim.interval[0] < claim.value < claim.interval[1] < 1


def test_boxes_that_are_wider_everywhere(result):
    claim = varies_less(boxes(result, (4.0, 4.0), (1.0, 2.0)), "tasks")

    assert claim.verdict == FAILS
    assert claim.interval[0] > 1


def test_boxes_that_are_narrower_in_most_places_but_not_clearly(result):
    claim = varies_less(boxes(result, (1.0, 1.0, 1.0), (1.1, 1.1, 0.99)), "tasks")

    assert claim.interval[0] < claim.value < 1 < claim.interval[1]
    assert claim.verdict == "holds only if a difference within the noise of 40 seeds counts"
    assert "narrower at 2 of 3 values" in claim.measure


def test_boxes_that_are_narrower_in_few_places(result):
    claim = varies_less(boxes(result, (1.0, 1.0, 1.0), (1.2, 0.99, 0.99)), "tasks")

    assert claim.value < 1 < claim.interval[1]
    assert claim.verdict == FAILS


def test_boxes_that_are_as_wide_as_each_other(result):
    claim = varies_less(boxes(result, (1.0, 1.1), (1.1, 1.0)), "tasks")

    assert claim.value == pytest.approx(1.0)
    assert claim.verdict == FAILS


def test_the_section_compares_the_ends_of_the_grid(reading):
    results = {
        "n-20": reading({"ebmUCB": 0.5, "evidence UCB": 0.4}).result,
        "n-5": reading({"ebmUCB": 1.0, "evidence UCB": 0.8}).result,
    }
    section = grid_section("n_tasks", "tasks", results)

    assert "From N = 5 to N = 20 the regret of ebmUCB goes from 0.50 to 0.25 times" in section.found[0]
    assert "from 0.40 to 0.20 times" in section.found[0]
    assert [claim.id for claim in section.claims] == ["tasks-lowest", "tasks-advantage-kept", "tasks-ucb-varies-less"]
    (table,) = section.tables
    assert table.columns == ("method, by tasks", "N = 5", "N = 20")
