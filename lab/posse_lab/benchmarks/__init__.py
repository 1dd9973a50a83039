"""Benchmarks: fixed settings, measured the same way every time."""

from posse_lab.benchmarks.regret import RegretReport, measure, plan, summarise
from posse_lab.benchmarks.settings import SETTINGS, Setting

__all__ = ["SETTINGS", "RegretReport", "Setting", "measure", "plan", "summarise"]
