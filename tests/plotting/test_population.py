import re
from dataclasses import replace

import numpy as np
import pytest

from posse.errors import InvalidValue
from posse.fleet.overview import ArmOverview, Coefficients, Overview
from posse.plotting import plot_population, plot_task


def overview(n_arms, d, retired=(), long=False):
    rng = np.random.default_rng(0)
    arms = []
    for arm in range(n_arms):
        root = rng.standard_normal((d, d))
        zeros = np.zeros(d)
        name = f"arm {arm}" + " with a name that nobody would give it" * long
        arms.append(ArmOverview(name, arm in retired, 3, 10.0, 1.0, zeros, zeros + 0.1, root @ root.T))
    return Overview("ebm-ts", "evidence", tuple(f"column {i}" for i in range(d)), arms, [], 5, 0, 0, 30.0, [])


def labels(path):
    """Return the coefficients of a figure, from the top down."""
    return re.findall(r">(arm[^<]*·[^<]*)<", path.read_text())


@pytest.mark.parametrize("d", [6, 12, 30])
@pytest.mark.parametrize("n_arms", [3, 10, 40])
def test_what_differs_most_comes_first_and_fits_the_page(tmp_path, n_arms, d):
    path, seen = tmp_path / "population.svg", overview(n_arms, d, retired={1}, long=True)

    plot_population(seen, [path])

    found = labels(path)
    variance = [
        (-arm.covariance[i, i], f"{arm.arm[:23]}… · column {i}")
        for arm in seen.arms
        if not arm.retired
        for i in range(d)
    ]
    assert found == [label for _, label in sorted(variance)[:20]]
    assert ("20 of" in path.read_text()) == (len(variance) > 20)
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', path.read_text()).groups())
    for x, y in re.findall(r'<text[^>]*\bx="([\d.-]+)"[^>]*\by="([\d.-]+)"', path.read_text()):
        assert 0 <= float(x) <= width
        assert 0 <= float(y) <= height


def test_a_coefficient_that_does_not_vary_comes_last(tmp_path):
    flat = overview(1, 2)
    flat.arms[0].covariance[:] = [[0.0, 0.0], [0.0, 4.0]]

    plot_population(flat, [tmp_path / "flat.svg"])

    assert labels(tmp_path / "flat.svg") == ["arm 0 · column 1", "arm 0 · column 0"]


def test_a_task_is_drawn_beside_the_others_where_it_is_most_unlike_them(tmp_path):
    seen = overview(2, 3)
    for arm in seen.arms:
        arm.covariance[:] = np.diag([1.0, 4.0, 0.0])
    own = Coefficients(
        seen.columns,
        {"arm 0": np.array([0.5, 4.0, 9.0]), "arm 1": np.array([-3.0, 0.0, 0.0])},
        {"arm 0": np.eye(3), "arm 1": np.eye(3)},
    )

    plot_task(seen, own, "store-17", [tmp_path / "task.svg"])

    assert labels(tmp_path / "task.svg")[:3] == ["arm 1 · column 0", "arm 0 · column 1", "arm 0 · column 0"]
    assert "task store-17" in (tmp_path / "task.svg").read_text()


def test_figure_needs_a_name_that_says_its_kind(tmp_path):
    with pytest.raises(InvalidValue, match=r"to end in \.png"):
        plot_population(overview(1, 1), [tmp_path / "a.gif"])


@pytest.mark.parametrize(
    ("family", "words"),
    [("number", "coefficient, per"), ("binary", "of the logit, per"), ("count", "log rate, per")],
)
def test_the_axis_says_what_coefficients_are_of(tmp_path, family, words):
    seen = replace(overview(2, 2), rewards=family)
    plot_population(seen, [tmp_path / "all.svg"])
    own = {arm.arm: arm.mean + 1.0 for arm in seen.arms}
    plot_task(
        seen,
        Coefficients(seen.columns, own, {arm.arm: arm.covariance for arm in seen.arms}),
        "t",
        [tmp_path / "one.svg"],
    )

    assert words in (tmp_path / "all.svg").read_text()
    assert words in (tmp_path / "one.svg").read_text()
