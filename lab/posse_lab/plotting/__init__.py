"""Figures of the reproduction."""

from posse_lab.plotting.boxes import BoxGroup, plot_boxes
from posse_lab.plotting.panels import Panel, Series, plot_panels

__all__ = ["BoxGroup", "Panel", "Series", "plot_boxes", "plot_panels"]
