"""Figures, drawn from results. Needs Matplotlib."""

from posse.plotting.boxes import BoxGroup, plot_boxes
from posse.plotting.inline import inline_svg
from posse.plotting.intervals import Interval, plot_intervals
from posse.plotting.offline import plot_evaluation
from posse.plotting.palette import style_of
from posse.plotting.panels import Panel, Series, plot_panels
from posse.plotting.population import plot_population, plot_task
from posse.plotting.regret import plot_regret

__all__ = [
    "BoxGroup",
    "Interval",
    "Panel",
    "Series",
    "inline_svg",
    "plot_boxes",
    "plot_evaluation",
    "plot_intervals",
    "plot_panels",
    "plot_population",
    "plot_regret",
    "plot_task",
    "style_of",
]
