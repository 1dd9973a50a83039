import re

import numpy as np
import pytest

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, UnknownPolicy
from posse.plotting import plot_regret
from posse.plotting.style import spread_apart
from posse.simulation import simulate


@pytest.fixture(scope="module")
def result():
    world = SyntheticWorld(n_tasks=3, n_arms=2, n_features=2)
    return simulate(world, {"LinUCB": "lin-ucb", "chance": "random"}, horizon=60, seeds=3)


def test_the_same_result_draws_the_same_file(result, tmp_path):
    plot_regret(result, [tmp_path / "one.svg"])
    plot_regret(result, [tmp_path / "two.svg"])

    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_every_line_is_named_with_its_final_regret(result, tmp_path, monkeypatch):
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    plot_regret(result, [tmp_path / "regret.svg"])

    drawn = (tmp_path / "regret.svg").read_text()
    for name in ("LinUCB", "chance"):
        assert f"{name}  {result.regret_of(name).mean():.0f}" in drawn
    assert re.search(r"mean over 3 seeds", drawn)


def test_one_seed_draws_without_bands(tmp_path):
    world = SyntheticWorld(n_tasks=2, n_arms=2, n_features=1)
    plot_regret(simulate(world, ["random"], horizon=5, seeds=1), [tmp_path / "regret.png"])

    assert (tmp_path / "regret.png").stat().st_size > 0


def test_bad_names_are_refused_before_drawing(result, tmp_path):
    with pytest.raises(InvalidValue, match="to end in"):
        plot_regret(result, [tmp_path / "regret.jpg"])
    with pytest.raises(InvalidValue, match="does not exist"):
        plot_regret(result, [tmp_path / "nowhere" / "regret.png"])
    with pytest.raises(UnknownPolicy, match="it has 'LinUCB', 'chance'"):
        plot_regret(result, [tmp_path / "regret.png"], policies=["nobody"])


def test_labels_keep_their_order_and_distance():
    heights = [5.0, 1.0, 1.2, 1.1, 9.0, 9.05]
    placed = spread_apart(heights, gap=0.5)

    assert np.argsort(placed).tolist() == np.argsort(heights).tolist()
    assert np.diff(np.sort(placed)).min() >= 0.5 - 1e-9
