"""Datasets: official files, read from a folder that the user has.

Nothing is downloaded unless it is asked for: see :mod:`posse_lab.datasets.fetch`, and
:mod:`posse_lab.datasets.catalogue` for what there is.
"""

from posse_lab.datasets.activity import Activity, load_activity
from posse_lab.datasets.letter import Letter, load_letter
from posse_lab.datasets.movielens import MovieLens, load_movielens
from posse_lab.datasets.sarcos import Sarcos, load_sarcos

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
