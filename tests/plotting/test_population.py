import numpy as np
import pytest

from posse.errors import InvalidValue
from posse.fleet.overview import ArmOverview, Overview
from posse.plotting import plot_population


def overview(n_arms, d, retired=()):
    rng = np.random.default_rng(0)
    arms = []
    for arm in range(n_arms):
        root = rng.standard_normal((d, d))
        zeros = np.zeros(d)
        arms.append(ArmOverview(f"arm {arm}", arm in retired, 3, 10.0, 1.0, zeros, zeros, root @ root.T))
    return Overview("ebm-ts", "evidence", tuple(f"column {i}" for i in range(d)), arms, [], 5, 0, 0, 30.0, [])


@pytest.mark.parametrize(("n_arms", "d"), [(1, 1), (3, 4), (5, 12), (9, 40)])
def test_every_arm_that_is_not_retired_has_a_panel(tmp_path, n_arms, d):
    path = tmp_path / "population.svg"

    plot_population(overview(n_arms, d, retired={1} if n_arms > 1 else ()), [path])

    drawn = path.read_text()
    shown = [f"arm {arm}:" in drawn for arm in range(n_arms)]
    assert shown == [arm != 1 for arm in range(n_arms)]
    assert ("column 0" in drawn) == (d <= 30)


def test_a_coefficient_that_does_not_vary_is_drawn(tmp_path):
    flat = overview(1, 2)
    flat.arms[0].covariance[:] = [[0.0, 0.0], [0.0, 4.0]]

    plot_population(flat, [tmp_path / "flat.svg"])

    assert ">2.00<" in (tmp_path / "flat.svg").read_text()


def test_figure_needs_a_name_that_says_its_kind(tmp_path):
    with pytest.raises(InvalidValue, match=r"must end in \.png"):
        plot_population(overview(1, 1), [tmp_path / "a.gif"])
