"""posse beside other libraries: how long a decision takes, and what the decisions cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.plotting.intervals import ROW, Interval, lines_of, name_rows, write_beside
from posse.plotting.palette import BLUE, GREY, ORANGE, VERMILLION
from posse.plotting.scales import limits_of, set_scale
from posse.plotting.sheet import Footer, arrange
from posse.plotting.style import GREY_INK, TEXT_SIZE, check_figure_paths, report_look, save_figure
from posse.plotting.words import short_number, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 190.0  # of each axes, in points
MICRO = 1e6

DECIDE, UPDATE, AVERAGE = "decide", "update", "update_average"
COLOURS = {DECIDE: BLUE, UPDATE: VERMILLION, AVERAGE: ORANGE}
NAMES = {DECIDE: "decide", UPDATE: "update", AVERAGE: "update, average"}


def plot_peers(report: Mapping[str, Any], paths: Sequence[str | Path]) -> None:
    """Draw the latency of every entry on a log axis, and its regret beside it.

    Parameters
    ----------
    report : mapping
        What ``peers.json`` holds.
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    """
    check_figure_paths(paths)
    rows = list(report["rows"])
    intervals = [_interval(row) for row in rows]
    lines = lines_of(intervals)
    found = dict(zip(map(id, intervals), rows, strict=True))
    places = [(place, found[id(line)]) for place, line in enumerate(lines) if isinstance(line, Interval)]
    height = ROW * (len(lines) + 0.2)
    times = [f"{_micro(row, DECIDE)} + {_micro(row, UPDATE)}" for _, row in places]
    regrets = [f"{row['mean']:,.0f}" for _, row in places]
    with report_look() as plt:
        figure = plt.figure()
        left, right = (figure.add_axes((0, 0, 1, 1), label=name) for name in ("latency", "regret"))
        _draw_latency(left, places)
        _draw_regret(right, places, report)
        for axes, words in ((left, times), (right, regrets)):
            _frame(axes, len(lines))
            for (place, _), text in zip(places, words, strict=True):
                write_beside(axes, place, text)
        name_rows(left, lines)
        room = [12 + max(text_width(text, TEXT_SIZE - 0.5) for text in words) for words in (times, regrets)]
        styles = {
            NAMES[what]: {"color": colour, "linestyle": "-", "fill": True, "hatch": None}
            for what, colour in COLOURS.items()
        }
        footer = Footer(styles=styles, kind="box", note=_small_print(report))
        arrange(figure, [[left, right]], width=WIDTH, height=height, right=room, footer=footer)
        save_figure(figure, paths)
        plt.close(figure)


def _interval(row: Mapping[str, Any]) -> Interval:
    error = 2 * (row["standard_error"] or 0.0)
    label = f"{row['form']}, {row['configuration']}" if row["configuration"] else row["form"]
    return Interval(
        label=label,
        value=row["mean"],
        low=row["mean"] - error,
        high=row["mean"] + error,
        group=f"{row['library']}",
    )


def _micro(row: Mapping[str, Any], what: str) -> str:
    return short_number(row["latency"][what]["best"] * MICRO)


def _draw_latency(axes: Axes, places: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    values = [row["latency"][what]["best"] * MICRO for _, row in places for what in COLOURS]
    set_scale(axes, "x", limits_of(values, log=True, margin=0.06), log=True, n_ticks=5)
    for place, row in places:
        ends = {what: row["latency"][what]["best"] * MICRO for what in COLOURS}
        axes.plot([min(ends.values()), max(ends.values())], [place] * 2, color=GREY, linewidth=1.0, zorder=2)
        # Those with numbers on top.
        for what in (AVERAGE, UPDATE, DECIDE):
            axes.plot([ends[what]], [place], "o", color=COLOURS[what], markersize=5, markeredgewidth=0, zorder=4)
    axes.set_xlabel("µs per call")


def _draw_regret(axes: Axes, places: Sequence[tuple[int, Mapping[str, Any]]], report: Mapping[str, Any]) -> None:
    random = sum(report["random"]) / len(report["random"])
    tops = [row["mean"] + 2 * (row["standard_error"] or 0.0) for _, row in places]
    set_scale(axes, "x", limits_of([0.0, random, *tops], log=False, margin=0.05, zero_within=1.0), log=False, n_ticks=4)
    axes.axvline(random, color=GREY_INK, linewidth=1.0, linestyle=(0, (1, 2)), zorder=2)
    for place, row in places:
        colour = BLUE if row["library"] == "posse" else GREY
        axes.barh([place], [row["mean"]], height=0.62, color=colour, alpha=0.75, linewidth=0, zorder=2)
        if row["standard_error"]:
            ends = [row["mean"] - 2 * row["standard_error"], row["mean"] + 2 * row["standard_error"]]
            axes.plot(ends, [place] * 2, color=GREY_INK, linewidth=1.5, solid_capstyle="butt", zorder=3)
    axes.set_xlabel("cumulative regret")


def _frame(axes: Axes, n_lines: int) -> None:
    axes.set_ylim(n_lines - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])


def _small_print(report: Mapping[str, Any]) -> str:
    size, machine = report["size"], report["machine"]
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    words = (
        f"{size['n_tasks']:,} tasks, {size['n_arms']} arms, {size['n_features']} features, {report['n_steps']:,} "
        "steps. Left: decide + update, the middle one of all calls, best of the rounds; the average has posse's "
        f"refreshes of its prior in it. Right: mean over {report['seeds']} seeds, ±2 standard errors; dotted: an arm "
        f"at random. {machine['processor']}, {cores}; posse {machine['posse']}."
    )
    blocks = report["blocks"]
    if blocks is None:
        return words
    ratios = ", ".join(f"{row['ratio']['ebmTS']:.2f} of theirs as {row['configuration']}" for row in blocks["rows"])
    known = blocks["known"]
    both = {name: (one["decide_average"]["best"] + one[AVERAGE]["best"]) * MICRO for name, one in known.items()}
    return words + (
        f"\nbayesianbandits with a block of features per task, {blocks['size']['n_tasks']:,} tasks, every task known: "
        f"{short_number(both['recommended'])} µs for decide + update on average, ebmTS {short_number(both['ebmTS'])} "
        f"µs; regret of ebmTS over the same steps: {ratios}."
    )
