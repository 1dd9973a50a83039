"""What an evaluation from a log says: values with their intervals, beside how few rows carry them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.offline.diagnostics import CURVE
from posse.offline.estimators import LABELS
from posse.offline.report import Evaluation, TargetReport
from posse.plotting.intervals import ROW, Interval, lines_of, name_rows, numbers_of, write_beside
from posse.plotting.palette import styles_of
from posse.plotting.scales import limits_of, set_scale
from posse.plotting.sheet import BAND_ALPHA, Footer, arrange
from posse.plotting.style import GREY_INK, TEXT_SIZE, check_figure_paths, report_look, save_figure
from posse.plotting.words import short_number, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 190.0  # of each axes, in points
SMALL = 130.0  # height of the axes with weights


def plot_evaluation(evaluation: Evaluation, paths: Sequence[str | Path], *, note: str | None = None) -> None:
    """Draw every target's estimates with their intervals, and how concentrated its weights are.

    On the left, a line stands where the log itself is, in a band as wide as its own interval. On the right, what share
    of all weight the heaviest rows have: the further up, the fewer rows a target's value rests on. Targets that were
    refused are named in the small print.

    Parameters
    ----------
    evaluation : Evaluation
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    note : str, optional
        More small print.
    """
    check_figure_paths(paths)
    rows = _intervals(evaluation)
    if not rows:
        raise InvalidValue("there is nothing to draw: every target was refused; print the evaluation to see why")
    lines = lines_of(rows)
    drawn = {place: line for place, line in enumerate(lines) if isinstance(line, Interval)}
    numbers = numbers_of(list(drawn.values()))
    height = max(ROW * (len(lines) + 0.2), SMALL)
    weighed = [one for one in evaluation.targets if one.diagnostics is not None and not one.refusals]
    styles = styles_of(one.name for one in evaluation.targets if not one.refusals)
    room = 12 + max(text_width(text, TEXT_SIZE - 0.5) for text in numbers)
    with report_look() as plt:
        figure = plt.figure()
        axes = [figure.add_axes((0, 0, 1, 1), label=name) for name in ("values", "weights")[: 1 + bool(weighed)]]
        _draw_values(axes[0], evaluation, lines, dict(zip(drawn.values(), numbers, strict=True)), styles)
        if weighed:
            _draw_weights(axes[1], weighed, styles)
        footer = Footer(
            styles={_with_size(one): styles[one.name] for one in weighed},
            kind="line",
            note="\n".join(filter(None, [*_small_print(evaluation), note])),
        )
        arrange(figure, [axes], width=WIDTH, height=height, right=[room, 8.0][: len(axes)], footer=footer)
        if weighed:
            place = axes[1].get_position()
            axes[1].set_position(
                (place.x0, place.y1 - place.height * SMALL / height, place.width, place.height * SMALL / height)
            )
        save_figure(figure, paths)
        plt.close(figure)


def _intervals(evaluation: Evaluation) -> list[Interval]:
    nan = float("nan")
    itself = {one.name for one in evaluation.targets if one.diagnostics is not None and one.diagnostics.is_log_itself}
    if set(evaluation.table["target"]) == itself:
        itself = set()  # nothing else to draw
    return [
        Interval(
            label=LABELS[row["estimator"]],
            value=nan if row["value"] is None else row["value"],
            low=nan if row["low"] is None else row["low"],
            high=nan if row["high"] is None else row["high"],
            group=row["target"],
        )
        for row in evaluation.table.iter_rows(named=True)
        if row["target"] not in itself  # it is the vertical line
    ]


def _draw_values(
    axes: Axes,
    evaluation: Evaluation,
    lines: Sequence[Interval | str | None],
    numbers: Mapping[Interval, str],
    styles: Mapping[str, dict[str, Any]],
) -> None:
    own = evaluation.on_policy
    ends = [[row.value, row.low, row.high] for row in numbers]
    reach = np.append(np.array(ends, dtype=np.float64), [own.value, own.low, own.high])
    set_scale(axes, "x", limits_of(reach, log=False, margin=0.05), log=False, n_ticks=5)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    if math.isfinite(own.low) and math.isfinite(own.high):
        axes.axvspan(own.low, own.high, color=GREY_INK, alpha=BAND_ALPHA, linewidth=0, zorder=1)
    axes.axvline(own.value, color=GREY_INK, linewidth=1.0, zorder=2)
    for place, line in enumerate(lines):
        if isinstance(line, Interval):
            colour = styles[line.group]["color"]
            if math.isfinite(line.low):
                axes.plot(
                    [line.low, line.high], [place] * 2, color=colour, linewidth=1.5, solid_capstyle="butt", zorder=3
                )
            axes.plot([line.value], [place], "o", color=colour, markersize=5, markeredgewidth=0, zorder=4)
            write_beside(axes, place, numbers[line])
    name_rows(axes, lines)
    axes.set_xlabel("reward per decision")


def _draw_weights(axes: Axes, weighed: Sequence[TargetReport], styles: Mapping[str, dict[str, Any]]) -> None:
    set_scale(axes, "x", (CURVE[0], 1.0), log=True, n_ticks=4)
    set_scale(axes, "y", (0.0, 1.02), log=False, n_ticks=5)
    for one in reversed(weighed):
        assert one.diagnostics is not None
        style = styles[one.name]
        axes.plot(
            CURVE,
            one.diagnostics.concentration,
            color=style["color"],
            linestyle=style["linestyle"],
            linewidth=1.7,
            solid_capstyle="round",
        )
    axes.set_xlabel("share of rows, heaviest first")
    axes.set_ylabel("share of all weight")


def _with_size(one: TargetReport) -> str:
    assert one.diagnostics is not None
    return f"{one.name}: {short_number(one.diagnostics.effective_rows)} effective rows"


def _small_print(evaluation: Evaluation) -> list[str]:
    own = evaluation.on_policy
    percent = f"{100 * evaluation.settings['confidence']:g} %"
    words = f"Vertical line: what the log itself earned, {short_number(own.value)}"
    if math.isfinite(own.low):
        words += f" ({short_number(own.low)} to {short_number(own.high)})"
    words += f". {evaluation.rows:,} rows of {evaluation.tasks:,} tasks"
    words += f"; {percent} intervals." if math.isfinite(own.low) else "; too few rewards for intervals."
    lines = [words]
    shown = "dr" if "dr" in set(evaluation.differences["estimator"]) else None
    for row in evaluation.differences.iter_rows(named=True):
        if row["estimator"] == (shown or row["estimator"]) and row["low"] is not None:
            ends = f"{short_number(row['low'])} to {short_number(row['high'])}"
            lines.append(
                f"{row['target']} less {row['against']}, paired, {LABELS[row['estimator']]}: "
                f"{short_number(row['value'])} ({ends})."
            )
    lines += [
        f"Refused: {one.name} ({', '.join(refusal.code for refusal in one.refusals)})."
        for one in evaluation.targets
        if one.refusals
    ]
    return lines
