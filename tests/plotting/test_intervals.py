import numpy as np
import pytest

from posse.errors import InvalidValue
from posse.plotting import Interval, plot_intervals
from posse.plotting.intervals import numbers_of


def rows(n_rows=4, groups=("Synthetic", "Warfarin")):
    return [
        Interval(label=f"method {i}", value=0.6 + i / 10, low=0.5 + i / 10, high=0.75 + i / 10, group=group)
        for i in range(n_rows)
        for group in groups
    ]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_every_format_is_written_and_the_same_twice(tmp_path, ending):
    for name in ("one", "two"):
        plot_intervals(rows(), [tmp_path / f"{name}.{ending}"], x_label="ratio", log_x=True, note="95 %")

    assert (tmp_path / f"one.{ending}").stat().st_size > 1000
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_rows_stand_under_their_headings_with_their_numbers_beside_them(tmp_path, read_words):
    plot_intervals(rows(2), [tmp_path / "figure.svg"], x_label="ratio")

    words = sorted(read_words(tmp_path / "figure.svg"), key=lambda word: (round(word.baseline), word.left))
    assert [word.text for word in words][:10] == [
        "Synthetic",
        "method 0",
        "0.60 [0.50, 0.75]",
        "method 1",
        "0.70 [0.60, 0.85]",
        "Warfarin",
        "method 0",
        "0.60 [0.50, 0.75]",
        "method 1",
        "0.70 [0.60, 0.85]",
    ]


def test_the_figure_grows_with_its_rows(tmp_path, read_words):
    plot_intervals(rows(60), [tmp_path / "figure.svg"], x_label="ratio")

    assert sum(word.text.startswith("method") for word in read_words(tmp_path / "figure.svg")) == 120


@pytest.mark.parametrize("log_x", [False, True])
def test_ends_and_values_that_have_no_place_do_not_stop_it(tmp_path, read_words, log_x):
    awkward = [
        Interval(label="endless", value=1.0, low=-np.inf, high=np.inf),
        Interval(label="nothing", value=np.nan, low=np.nan, high=np.nan),
        Interval(label="zero", value=0.0, low=-1.0, high=1.0),
        Interval(label="a point", value=2.0, low=2.0, high=2.0),
    ]
    paths = [tmp_path / "figure.svg", tmp_path / "figure.png"]
    plot_intervals(awkward, paths, x_label="ratio", reference=0.0 if not log_x else 1.0, log_x=log_x)

    words = {word.text for word in read_words(tmp_path / "figure.svg")}
    assert {"endless", "nothing", "zero", "a point", "no value", "1.0 [−∞, ∞]"} <= words


def test_a_reference_that_a_log_axis_has_no_place_for_is_refused(tmp_path):
    with pytest.raises(InvalidValue, match="reference"):
        plot_intervals(rows(), [tmp_path / "figure.svg"], x_label="ratio", reference=0.0, log_x=True)


def test_numbers_have_the_digits_that_a_usual_interval_needs():
    def shown(value, low, high):
        return numbers_of([Interval(label="a", value=value, low=low, high=high)])

    assert shown(0.8532, 0.8011, 0.9123) == ["0.85 [0.80, 0.91]"]
    assert shown(0.85321, 0.8501, 0.8554) == ["0.853 [0.850, 0.855]"]
    assert shown(-412.3, -430.2, -390.1) == ["−412 [−430, −390]"]
    assert shown(0.0002, 0.0, 4.0) == ["0.0002 [0, 4]"]


def test_bad_input_is_refused_before_drawing(tmp_path):
    with pytest.raises(InvalidValue, match="to end in"):
        plot_intervals(rows(), [tmp_path / "figure.txt"], x_label="ratio")
    with pytest.raises(InvalidValue, match="at least one interval"):
        plot_intervals([], [tmp_path / "figure.png"], x_label="ratio")
