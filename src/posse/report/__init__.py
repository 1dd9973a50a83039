"""One page for people who decide: which arm is best where, what deciding has gained, and when to stop exploring."""

from posse.report.make import make_report
from posse.report.report import Report

__all__ = ["Report", "make_report"]
