import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import InvalidValue, ShapeError
from posse_lab.plotting import Panel, Series, plot_panels
from posse_lab.plotting.panels import _vertices_of, thinned

NAMES = (
    "ebmUCB",
    "ebmTS",
    "RMBandit",
    "RMBandit tuned",
    "OLSBandit",
    "LinTS",
    "LinTS matched",
    "LinUCB",
    "LinUCB matched",
    "LinUCB tuned",
    "pooled LinUCB",
)
ENDS = (441, 447, 492, 516, 530, 547, 575, 607, 744, 1704, 1707)


def regret(ends=ENDS, n_steps=2000):
    steps = np.arange(1.0, n_steps + 1)
    curves = [end * (steps / n_steps) ** 0.6 for end in ends]
    return [
        Series(name=name, x=steps, y=curve, low=curve * 0.9 - 1, high=curve * 1.1)
        for name, curve in zip(NAMES, curves, strict=True)
    ]


def panel(series, **settings):
    return Panel(**{"title": "A", "series": series, "x_label": "step", "y_label": "regret", **settings})


def line(y, name="ebmUCB", x=None):
    y = np.asarray(y, dtype=float)
    return Series(name=name, x=np.arange(y.size, dtype=float) if x is None else np.asarray(x, dtype=float), y=y)


def texts(words):
    return [word.text for word in words]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_every_format_is_written_and_the_same_twice(tmp_path, ending):
    for name in ("one", "two"):
        plot_panels([panel(regret()[:2]), panel([])], [tmp_path / f"{name}.{ending}"], note="Twice the same.")

    assert (tmp_path / f"one.{ending}").stat().st_size > 1000
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


@pytest.mark.parametrize("log_y", [False, True])
def test_eleven_lines_that_end_close_together_have_labels_apart_and_in_order(tmp_path, read_words, log_y):
    plot_panels([panel(regret(), log_y=log_y)], [tmp_path / "figure.svg"])

    words = {word.text: word for word in read_words(tmp_path / "figure.svg")}
    labels = [words[f"{name}\u2002{end}"] for name, end in zip(NAMES, ENDS, strict=True)]
    gaps = -np.diff([label.baseline for label in labels])
    assert gaps.min() >= 1.2 * labels[0].size
    assert len({label.left for label in labels}) == 1


def test_a_panel_with_many_lines_is_as_high_as_their_labels_need(tmp_path, read_words):
    series = [line([0, 1], name=f"line {i}") for i in range(40)]
    plot_panels([panel(series)], [tmp_path / "figure.svg"])

    assert sum(text.startswith("line") for text in texts(read_words(tmp_path / "figure.svg"))) == 40


def test_panels_of_different_scales_fit_side_by_side_and_on_a_page(tmp_path, read_words):
    panels = [
        panel(regret()),
        panel(regret([end / 1e5 for end in ENDS]), title="a title that is too long for a line above one panel " * 3),
        panel(regret([end * 1e3 for end in ENDS]), log_y=True),
        panel(regret(), log_x=True, log_y=True),
    ]
    plot_panels(panels, [tmp_path / "figure.svg"], note="A note that has to be broken into lines. " * 20)

    words = texts(read_words(tmp_path / "figure.svg"))
    assert "ebmUCB\u20020.00441" in words
    assert "ebmUCB\u2002441,000" in words
    assert sum("note that" in text for text in words) > 3


def test_a_common_legend_names_each_line_once_in_order_of_first_appearance(tmp_path, read_words):
    panels = [panel(regret()[3:5]), panel(regret()[:5])]
    plot_panels(panels, [tmp_path / "figure.svg"], legend=True)

    words = texts(read_words(tmp_path / "figure.svg"))
    assert [text for text in words if text in NAMES] == ["RMBandit tuned", "OLSBandit", "ebmUCB", "ebmTS", "RMBandit"]
    assert not any("\u2002" in text for text in words)


def test_only_panels_without_end_labels_are_in_the_legend(tmp_path, read_words):
    panels = [panel([line([1, 2], "ebmUCB")]), panel([line([1, 2], "LinTS")], end_labels=False)]
    plot_panels(panels, [tmp_path / "figure.svg"])

    words = texts(read_words(tmp_path / "figure.svg"))
    assert "ebmUCB\u20022.00" in words
    assert "LinTS" in words
    assert "ebmUCB" not in words


def test_references_and_the_diagonal_are_labelled(tmp_path, read_words):
    series = [line([0.9, 0.95, 0.951], x=[0.8, 0.9, 0.95])]
    panels = [panel(series, reference={"nominal": 0.95, "paper": 0.949}), panel(series, diagonal=True)]
    plot_panels(panels, [tmp_path / "figure.svg"], legend=True)

    words = texts(read_words(tmp_path / "figure.svg"))
    assert {"nominal\u20020.95", "paper\u20020.949", "y = x"} <= set(words)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "y",
    [
        [],
        [3.0],
        [0.0],
        [np.nan, np.nan],
        [np.inf, -np.inf],
        [0.0, -1.0, 0.0],
        [1.0, np.nan, 2.0, np.nan, np.nan, 4.0, np.inf],
        [5.0] * 300,
        [1e-100, 1e100],
    ],
)
def test_values_that_have_no_place_are_left_out(tmp_path, read_words, y, log):
    one = line(y)
    band = Series(name="LinTS", x=one.x, y=one.y, low=one.y - 2, high=one.y + 1)
    plot_panels([panel([one, band], log_x=log, log_y=log)], [tmp_path / "figure.svg", tmp_path / "figure.png"])

    words = texts(read_words(tmp_path / "figure.svg"))
    x = np.arange(len(y))
    some = np.isfinite(y) & ((np.asarray(y) > 0) & (x > 0) | (not log))
    assert ("no values" in words) == (not some.any())


def test_a_line_with_no_values_is_named_all_the_same(tmp_path, read_words):
    plot_panels([panel([line([1, 2]), line([np.nan], "LinTS")], reference={"none": np.nan})], [tmp_path / "figure.svg"])

    words = texts(read_words(tmp_path / "figure.svg"))
    assert "LinTS\u2002no values" in words
    assert not any(text.startswith("none") for text in words)


def test_one_point_is_drawn_as_a_dot(tmp_path):
    plot_panels([panel([line([])])], [tmp_path / "none.svg"])
    plot_panels([panel([line([2.0])])], [tmp_path / "one.svg"])
    plot_panels([panel([line([np.nan] * 50 + [2.0] + [np.nan] * 50)])], [tmp_path / "alone.svg"])

    marks = {name: (tmp_path / f"{name}.svg").read_text().count("fill: #0072b2") for name in ("none", "one", "alone")}
    assert marks["none"] == 0
    assert marks["one"] == marks["alone"] > 0


def test_thinning_keeps_the_ends_and_spreads_over_the_axis():
    steps = np.arange(1.0, 10_001.0)
    linear, log = thinned(steps, 100, log=False), thinned(steps, 100, log=True)

    for positions in (linear, log):
        assert positions[0] == 0
        assert positions[-1] == steps.size - 1
        assert positions.size <= 100
    assert np.ptp(np.diff(steps[linear])) <= 2
    assert np.ptp(np.diff(np.log10(steps[log[40:]]))) < 0.01
    assert_array_equal(thinned(steps[:100], 100, log=False), np.arange(100))


def test_thinning_leaves_gaps_where_most_is_missing():
    x = np.arange(1000.0)
    y = np.where((x > 300) & (x < 400) | (x % 7 == 3), np.nan, 1.0)
    drawn = y[_vertices_of(x, y, 50, log=False)]

    assert np.isnan(drawn).sum() == 1
    assert np.isnan(y[_vertices_of(x[:20], y[:20], 50, log=False)]).sum() == 3


def test_thinning_of_points_in_no_order_keeps_their_order():
    positions = thinned(np.cos(np.arange(1000.0)), 100, log=False)

    assert positions.size == 100
    assert (np.diff(positions) > 0).all()


def test_bad_input_is_refused_before_drawing(tmp_path):
    with pytest.raises(InvalidValue, match="to end in"):
        plot_panels([panel([])], [tmp_path / "figure.jpg"])
    with pytest.raises(InvalidValue, match="at least one panel"):
        plot_panels([], [tmp_path / "figure.png"])
    with pytest.raises(InvalidValue, match="columns to be at least 1"):
        plot_panels([panel([])], [tmp_path / "figure.png"], columns=0)
    with pytest.raises(ShapeError, match=r"y of 'a' to have shape \(n,\)"):
        Series(name="a", x=np.arange(3.0), y=np.arange(4.0))
    with pytest.raises(InvalidValue, match="only one edge"):
        Series(name="a", x=np.arange(3.0), y=np.arange(3.0), low=np.arange(3.0))
    assert not list(tmp_path.iterdir())
