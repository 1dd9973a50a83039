import numpy as np
import pytest

from posse.errors import InvalidValue
from posse_lab.plotting import BoxGroup, Panel, Series, plot_boxes, plot_panels

NAMES = ("ebmUCB", "ebmTS", "RMBandit", "RMBandit tuned", "OLSBandit", "LinTS", "LinUCB", "LinUCB tuned")
LABELS = {"x_label": "tasks", "y_label": "regret"}


def line(y, name="ebmUCB", **edges):
    return Series(name=name, x=np.arange(len(y), dtype=float), y=np.asarray(y, dtype=float), **edges)


def panel(series, **settings):
    return Panel(**{"title": "A", "series": series, "x_label": "step", "y_label": "regret", **settings})


def groups(n_groups, n_seeds=30):
    rng = np.random.default_rng(5)
    return [
        BoxGroup(label=f"N = {10 * g}", values={name: rng.lognormal(g, 0.6, n_seeds) for name in NAMES})
        for g in range(1, n_groups + 1)
    ]


def texts(words):
    return [word.text for word in words]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_same_figure_is_the_same_file(tmp_path, ending):
    for name in ("one", "two"):
        plot_panels([panel([line([1, 2, 3])]), panel([line([2, 1], "LinTS")])], [tmp_path / f"{name}.{ending}"])

    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


@pytest.mark.parametrize("log_y", [False, True])
def test_one_legend_names_each_line_once_and_nothing_overlaps(tmp_path, read_words, log_y):
    steps = np.arange(1.0, 2001.0)
    curves = {name: 10 * (k + 1) * (steps / 2000) ** 0.6 for k, name in enumerate(NAMES)}
    series = [Series(name=name, x=steps, y=y, low=0.9 * y, high=1.1 * y) for name, y in curves.items()]
    panels = [panel(series, log_y=log_y), panel(series[::-1], title="B"), panel(series[:2], reference={"limit": 5.0})]
    plot_panels(panels, [tmp_path / "figure.svg"])

    words = texts(read_words(tmp_path / "figure.svg"))
    assert [text for text in words if text in NAMES] == list(NAMES)
    assert {"A", "B", "limit"} <= set(words)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("y", [[3.0], [0.0], [np.nan, np.nan], [1.0, np.nan, np.inf, -1.0], [5.0] * 300])
def test_values_that_have_no_place_are_left_out(tmp_path, y, log):
    y = np.array(y)
    band = line(y, "LinTS", low=y - 2, high=y + 1)
    plot_panels([panel([line(y), band], log_x=log, log_y=log)], [tmp_path / "figure.svg"])

    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_boxes_of_six_groups_fit(tmp_path, read_words):
    plot_boxes(groups(6), [tmp_path / "figure.svg"], **LABELS, log_y=True)

    words = texts(read_words(tmp_path / "figure.svg"))
    assert sorted(text for text in words if text in NAMES) == sorted(NAMES)
    assert [text for text in words if text.startswith("N =")] == [f"N = {10 * g}" for g in range(1, 7)]


@pytest.mark.parametrize(("log_y", "left_out"), [(False, 2), (True, 4)])
def test_values_of_boxes_that_have_no_place_are_counted(tmp_path, read_words, log_y, left_out):
    awkward = [
        BoxGroup(label="one", values={"ebmUCB": np.array([3.0]), "LinTS": np.array([np.nan])}),
        BoxGroup(label="two", values={"ebmUCB": np.array([0.0, -2.0, np.inf, 5.0, 6.0]), "LinUCB": np.empty(0)}),
    ]
    plot_boxes(awkward, [tmp_path / "figure.svg"], **LABELS, log_y=log_y)

    assert f"Not shown: {left_out} values" in " ".join(texts(read_words(tmp_path / "figure.svg")))


def test_bad_input_is_refused_before_drawing(tmp_path):
    with pytest.raises(InvalidValue, match="to end in"):
        plot_panels([panel([line([1.0])])], [tmp_path / "figure.jpg"])
    with pytest.raises(InvalidValue, match="at least one panel"):
        plot_panels([], [tmp_path / "figure.png"])
    with pytest.raises(InvalidValue, match="nothing to draw"):
        plot_boxes([BoxGroup(label="one", values={})], [tmp_path / "figure.png"], **LABELS)
    assert not list(tmp_path.iterdir())
