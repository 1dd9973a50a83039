"""Simulated stores: four weeks of business that are written at the start, and customers who go on coming."""

from posse.service.demo.history import History, make_history
from posse.service.demo.visits import start_visits

__all__ = ["History", "make_history", "start_visits"]
