"""How tasks differ: the learned covariance of every arm as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posse.plotting.style import GREY_INK, SMALL_TEXT_SIZE, check_figure_paths, report_look, save_figure
from posse.plotting.words import short_number

if TYPE_CHECKING:
    from posse.fleet.overview import Overview

ACROSS = 4  # panels side by side
FEW = 12  # columns up to which every cell has its number
SIDE = 2.6  # of a panel, in inches


def plot_population(overview: Overview, paths: Sequence[str | Path]) -> None:
    """Draw how tasks differ, one panel per arm that is not retired.

    Colours are correlations between coefficients of one arm over tasks; the numbers on the diagonal are the standard
    deviations of the coefficients.

    Parameters
    ----------
    overview : Overview
    paths : sequence of paths
        Files that end in .png, .svg or .pdf.
    """
    check_figure_paths(paths)
    arms = [arm for arm in overview.arms if not arm.retired]
    d = len(overview.columns)
    with report_look() as plt:
        across = min(ACROSS, len(arms))
        down = -(-len(arms) // across)
        figure, grid = plt.subplots(
            down, across, figsize=(across * SIDE + 1.7, down * (SIDE + 0.25) + 0.9), squeeze=False, layout="constrained"
        )
        image = None
        for axes in grid.flat[len(arms) :]:
            axes.set_axis_off()
        for position, (axes, arm) in enumerate(zip(grid.flat, arms, strict=False)):
            sd = np.sqrt(np.diagonal(arm.covariance))
            scale = np.where(sd > 0, sd, 1.0)
            correlation = arm.covariance / np.outer(scale, scale)
            image = axes.imshow(correlation, vmin=-1, vmax=1, cmap="RdBu_r")
            axes.set_title(f"{arm.arm}: {arm.rewards:,.0f} rewards, {arm.tasks:,} tasks", fontsize=SMALL_TEXT_SIZE)
            axes.grid(visible=False)
            ticks = range(d) if d <= 30 else []
            axes.set_xticks(ticks, [_short(overview.columns[i]) for i in ticks], rotation=90)
            names = [_short(overview.columns[i]) for i in ticks] if position % across == 0 else [""] * len(ticks)
            axes.set_yticks(ticks, names)
            axes.tick_params(length=0)
            if d <= FEW:
                for i in range(d):
                    axes.text(i, i, short_number(float(sd[i])), ha="center", va="center", color="white", fontsize=7)
        if image is not None:
            bar = figure.colorbar(image, ax=grid, shrink=0.8, ticks=[-1, 0, 1])
            bar.set_label("correlation over tasks")
            bar.outline.set_visible(False)
        note = "how tasks differ: on the diagonal, the standard deviation of a coefficient between tasks"
        figure.supxlabel(note if d <= FEW else "how tasks differ", fontsize=SMALL_TEXT_SIZE, color=GREY_INK)
        save_figure(figure, paths)
        plt.close(figure)


def _short(name: str) -> str:
    return name if len(name) <= 16 else name[:15] + "…"
