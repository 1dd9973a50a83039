"""Tables and captions that several experiments share, on regret made by hand."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse_lab.reproduction.pieces import (
    CURVES,
    ROWS,
    Curves,
    box_figure,
    curve_figure,
    grid_table,
    percent,
    regret_table,
)


def test_percent():
    assert percent(0.853) == "14.7 % lower"
    assert percent(1.2) == "20.0 % higher"
    assert percent(2.0) == "100.0 % higher"


def test_a_panel_of_means_with_bands_of_two_standard_errors(reading):
    made = reading({"ebmUCB": 1.0, "LinUCB 0.5": 1.5}, steps=(50, 100, 200))
    panel = Curves(reading=made, title="a title", until=100).panel
    series = {each.name: each for each in panel.series}
    values = made.regret("ebmUCB", 100)
    error = values.std(ddof=1) / np.sqrt(8)

    assert list(series) == list(CURVES)
    assert_allclose(series["ebmUCB"].x, [0, 50, 100])
    assert_allclose(series["ebmUCB"].y[[0, 2]], [0.0, values.mean()])
    assert_allclose(series["ebmUCB"].low[2], values.mean() - 2 * error)
    assert_allclose(series["ebmUCB"].high[2], values.mean() + 2 * error)
    assert_allclose(series["LinUCB tuned"].y[2], made.regret("LinUCB 0.5", 100).mean())


def test_a_panel_of_another_column(reading):
    made = reading({}, tracked={"ebmTS": 0.1})
    series = {each.name: each for each in Curves(reading=made, title="", column="tracked_curve").panel.series}

    assert_allclose(series["ebmTS"].y[-1], made.regret("ebmTS", column="tracked_curve").mean())


def test_a_caption_tells_what_bands_are_and_what_tuning_found(reading):
    first = reading({"LinUCB 0.5": 1.5, "LinTS 4": 1.5}, source="a", label="here")
    figure = curve_figure("name", [Curves(reading=first, title="here")], "About it.")

    assert figure.caption.startswith("About it. Mean over 8 seeds with bands of two standard errors.")
    assert "(here: LinTS tuned (exploration 4), the end of its grid, LinUCB tuned (exploration 0.5))" in figure.caption
    assert figure.sources == ("a",)


def test_a_caption_names_what_is_drawn(reading):
    """Rivals are tuned at the last step that a panel shows, in its own column."""
    made = reading({"LinUCB 0.5": [1.0, 1.8], "LinUCB 0.25": [1.7, 1.0]}, tracked={"LinUCB 2": 0.1}, steps=(50, 100))
    caption = curve_figure(
        "name",
        [
            Curves(reading=made, title="early", until=50),
            Curves(reading=made, title="late"),
            Curves(reading=made, title="own", column="tracked_curve"),
        ],
        "About it.",
    ).caption

    assert re.findall(r"(early|late|own): .*?LinUCB tuned \(exploration ([0-9.]+)\)", caption) == [
        ("early", "0.5"),
        ("late", "0.25"),
        ("own", "2"),
    ]


def test_the_table_of_one_world_is_sorted_by_the_last_median(reading):
    made = reading({"ebmUCB": [3.0, 0.5], "evidence TS": [0.1, 0.7], "RMBandit q=5": 1.5}, steps=(50, 100))
    table = regret_table(made, "a title", (50, 100))
    rows = {row[0]: row for row in table.rows}

    assert table.columns == ("method", "regret at 50", "s.e.", "regret at 100", "s.e.", "25 %", "median", "75 %")
    assert [row[0] for row in table.rows][:2] == ["ebmUCB", "evidence TS"]
    medians = [row[-2] for row in table.rows]
    assert medians == sorted(medians)
    assert len(rows) == len(ROWS)
    values = made.regret("ebmUCB", 100)
    expected = (values.mean(), values.std(ddof=1) / np.sqrt(8), *np.quantile(values, [0.25, 0.5, 0.75]))
    assert rows["ebmUCB"][3:] == pytest.approx(expected)
    assert rows["ebmUCB"][1] == pytest.approx(made.regret("ebmUCB", 50).mean())
    assert "RMBandit tuned (q 5)" in rows


def test_a_row_of_a_table_is_one_policy(reading):
    made = reading({"LinUCB 0.5": [1.0, 1.8], "LinUCB 0.25": [1.7, 1.0]}, steps=(50, 100))
    rows = {row[0]: row for row in regret_table(made, "", (50, 100)).rows}

    assert rows["LinUCB tuned (exploration 0.25)"][1] == pytest.approx(made.regret("LinUCB 0.25", 50).mean())


def test_the_table_of_a_grid(reading):
    worlds = [reading({"ebmUCB": 1.0}, source="a", label="x"), reading({"LinTS 2": 0.5}, source="b", label="y")]
    table = grid_table(worlds, "a title", "law")
    rows = {row[0]: row[1:] for row in table.rows}

    assert table.columns == ("method, by law", "x", "y")
    assert table.sources == ("a", "b")
    assert rows["ebmUCB"] == pytest.approx((made_mean(worlds[0], "ebmUCB"), made_mean(worlds[1], "ebmUCB")))
    assert rows["LinTS tuned"][1] == pytest.approx(made_mean(worlds[1], "LinTS 2"))


def made_mean(world, name):
    return float(world.regret(name).mean())


def test_boxes_are_those_of_the_horizon(reading, tmp_path):
    worlds = [reading({}, source=name, label=name) for name in ("a", "b")]
    figure = box_figure("boxes", worlds, x_label="world", about="About it.")
    figure.draw([tmp_path / "boxes.svg"])

    assert "quartiles over 8 seeds" in figure.caption
    assert figure.sources == ("a", "b")
    assert "<svg" in (tmp_path / "boxes.svg").read_text()
