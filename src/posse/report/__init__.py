"""One page for people who decide: what is gained, which arm is best where, and when exploring stops paying."""

from posse.report.make import make_report
from posse.report.report import Report

__all__ = ["Report", "make_report"]
