import numpy as np
import pytest
from matplotlib.cbook import boxplot_stats
from numpy.testing import assert_allclose

from posse.errors import InvalidValue
from posse_lab.plotting import BoxGroup, plot_boxes
from posse_lab.plotting.boxes import box_of

METHODS = (
    "ebmUCB",
    "ebmTS",
    "RMBandit",
    "RMBandit tuned",
    "OLSBandit",
    "LinTS",
    "LinTS matched",
    "LinUCB",
    "LinUCB tuned",
)
LABELS = {"x_label": "tasks", "y_label": "regret"}


def groups(n_groups, methods=METHODS, n_seeds=100):
    rng = np.random.default_rng(5)
    return [
        BoxGroup(label=f"N = {10 * g}", values={name: rng.lognormal(g, 0.6, n_seeds) for name in methods})
        for g in range(1, n_groups + 1)
    ]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_every_format_is_written_and_the_same_twice(tmp_path, ending):
    for name in ("one", "two"):
        plot_boxes(groups(2), [tmp_path / f"{name}.{ending}"], **LABELS)

    assert (tmp_path / f"one.{ending}").stat().st_size > 1000
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_six_groups_of_nine_methods_fit(tmp_path, read_words):
    plot_boxes(groups(6), [tmp_path / "figure.svg"], **LABELS, note="100 seeds.")

    words = [word.text for word in read_words(tmp_path / "figure.svg")]
    assert [text for text in words if text in METHODS] == list(METHODS)
    assert [text for text in words if text.startswith("N =")] == [f"N = {10 * g}" for g in range(1, 7)]
    assert any(text.startswith("100 seeds. Boxes") for text in words)
    assert "within 1.5 IQR" in " ".join(words)


@pytest.mark.parametrize("n_values", [1, 2, 3, 4, 7, 50])
def test_boxes_agree_with_matplotlibs(n_values):
    values = np.random.default_rng(n_values).standard_t(2, n_values)
    (theirs,) = boxplot_stats(values)
    ours = box_of(values)

    assert_allclose(
        [ours.lower, ours.first, ours.median, ours.third, ours.upper],
        [theirs[key] for key in ("whislo", "q1", "med", "q3", "whishi")],
    )
    assert_allclose(ours.beyond, np.sort(theirs["fliers"]))


def test_a_box_of_nothing_is_none():
    assert box_of(np.empty(0)) is None


@pytest.mark.parametrize(("log_y", "left_out"), [(False, 2), (True, 4)])
def test_values_that_have_no_place_are_counted_below(tmp_path, read_words, log_y, left_out):
    awkward = [
        BoxGroup(label="one", values={"ebmUCB": np.array([3.0]), "LinTS": np.array([np.nan])}),
        BoxGroup(label="two", values={"ebmUCB": np.array([0.0, -2.0, np.inf, 5.0, 6.0]), "LinUCB": np.empty(0)}),
    ]
    plot_boxes(awkward, [tmp_path / "figure.svg", tmp_path / "figure.png"], **LABELS, log_y=log_y)

    words = " ".join(word.text for word in read_words(tmp_path / "figure.svg"))
    assert f"Not shown: {left_out} values not finite" in words


def test_groups_without_a_value_are_drawn(tmp_path):
    plot_boxes([BoxGroup(label="one", values={"a": np.empty(0)})], [tmp_path / "figure.svg"], **LABELS, log_y=True)

    assert (tmp_path / "figure.svg").exists()


def test_bad_input_is_refused_before_drawing(tmp_path):
    with pytest.raises(InvalidValue, match="to end in"):
        plot_boxes(groups(1), [tmp_path / "figure.gif"], **LABELS)
    for nothing in ([], [BoxGroup(label="one", values={})]):
        with pytest.raises(InvalidValue, match="nothing to draw"):
            plot_boxes(nothing, [tmp_path / "figure.png"], **LABELS)


@pytest.mark.parametrize(("furthest", "upper"), [(6.9, 6.9), (7.1, 4.0)])
def test_whiskers_reach_one_and_a_half_times_the_box(furthest, upper):
    # The box is 2 to 4, so a whisker may reach to 7.
    assert box_of(np.array([1.0, 2.0, 3.0, 4.0, furthest])).upper == upper
