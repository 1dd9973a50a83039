"""Datasets: official files, read from a folder that the user has.

Nothing is downloaded unless it is asked for: see :mod:`posse.datasets.fetch`, and :mod:`posse.datasets.catalogue` for
what there is.
"""

from posse.datasets.activity import Activity, load_activity
from posse.datasets.letter import Letter, load_letter
from posse.datasets.movielens import MovieLens, load_movielens
from posse.datasets.sarcos import Sarcos, load_sarcos

__all__ = [
    "Activity",
    "Letter",
    "MovieLens",
    "Sarcos",
    "load_activity",
    "load_letter",
    "load_movielens",
    "load_sarcos",
]
