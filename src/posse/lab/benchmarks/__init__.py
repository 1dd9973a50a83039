"""Benchmarks: fixed settings, measured the same way every time."""

from posse.lab.benchmarks.regret import RegretReport, measure, plan, summarise
from posse.lab.benchmarks.settings import SETTINGS, Setting

__all__ = ["SETTINGS", "RegretReport", "Setting", "measure", "plan", "summarise"]
