"""Figures of the reproduction and of benchmarks."""

from posse_lab.plotting.boxes import BoxGroup, plot_boxes
from posse_lab.plotting.inline import inline_svg
from posse_lab.plotting.panels import Panel, Series, plot_panels

__all__ = ["BoxGroup", "Panel", "Series", "inline_svg", "plot_boxes", "plot_panels"]
