"""Figures, drawn from results. Needs Matplotlib."""

from posse.plotting.intervals import Interval, plot_intervals
from posse.plotting.offline import plot_evaluation
from posse.plotting.population import plot_population, plot_task
from posse.plotting.regret import plot_regret
from posse.plotting.style import style_of

__all__ = [
    "Interval",
    "plot_evaluation",
    "plot_intervals",
    "plot_population",
    "plot_regret",
    "plot_task",
    "style_of",
]
