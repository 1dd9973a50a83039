"""Draw regret over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posse.plotting.style import look, save_figure, spread_apart, styles_of
from posse.simulation.results import SimulationResult


def plot_regret(
    result: SimulationResult,
    paths: Sequence[str | Path],
    *,
    policies: Sequence[str] | None = None,
    title: str | None = None,
) -> None:
    """Draw mean cumulative regret with bands of two standard errors, each line named at its end.

    Parameters
    ----------
    result : SimulationResult
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    policies : sequence of str, optional
        Which to draw, in this order. Default: all.
    title : str, optional
        Default: the size of the world.
    """
    names = list(policies) if policies is not None else result.policies
    steps = np.concatenate([[0], result.steps])
    world = result.settings["world"]
    styles = styles_of(names)
    with look() as plt:
        figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
        ends = []
        for name in names:
            curves = np.stack([np.concatenate([[0.0], curve]) for curve in result.regret_of(name, "curve")])
            mean = curves.mean(axis=0)
            error = curves.std(axis=0, ddof=1) / np.sqrt(len(curves)) if len(curves) > 1 else np.zeros_like(mean)
            style = styles[name]
            axes.fill_between(steps, mean - 2 * error, mean + 2 * error, color=style["color"], alpha=0.18, linewidth=0)
            axes.plot(steps, mean, linewidth=1.8, color=style["color"], linestyle=style["linestyle"])
            ends.append(float(mean[-1]))
        top = max(ends) if max(ends) > 0 else 1.0
        axes.set_xlim(0, steps[-1])
        axes.set_ylim(0, top * 1.05)
        # A line of text is about 4.4 % of the axis at this size.
        for position, (name, height) in enumerate(zip(names, spread_apart(ends, top * 0.052), strict=True)):
            axes.annotate(
                f"{name}  {ends[position]:.0f}",
                xy=(steps[-1], ends[position]),
                xytext=(1.03, height),
                textcoords=axes.get_yaxis_transform(),
                color=styles[name]["color"],
                va="center",
                fontsize=9.5,
                annotation_clip=False,
                arrowprops={"arrowstyle": "-", "color": styles[name]["color"], "linewidth": 0.6},
            )
        axes.set_xlabel("step")
        axes.set_ylabel("cumulative regret")
        axes.set_title(
            title or f"{world['n_tasks']} tasks, {world['n_arms']} arms, {world['n_features']} features",
            loc="left",
            fontsize=11,
        )
        seeds = len(result.seeds)
        axes.text(
            0.01,
            0.985,
            f"mean over {seeds} seed{'s' if seeds != 1 else ''}, bands of ±2 standard errors",
            transform=axes.transAxes,
            va="top",
            fontsize=8.5,
            color="#555555",
        )
        save_figure(figure, paths)
        plt.close(figure)
