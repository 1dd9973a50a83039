"""Worlds made of tables: the data sets of the paper, and those of your own."""

from posse_lab.worlds.activity import activity_protocol, recorded_activity
from posse_lab.worlds.from_dataset import RegressionWorld
from posse_lab.worlds.grouped import FittedWorld, RecordedWorld
from posse_lab.worlds.letter import recorded_letter
from posse_lab.worlds.movielens import population_from_movielens, recorded_movielens
from posse_lab.worlds.population import PopulationWorld
from posse_lab.worlds.sarcos import recorded_sarcos

__all__ = [
    "FittedWorld",
    "PopulationWorld",
    "RecordedWorld",
    "RegressionWorld",
    "activity_protocol",
    "population_from_movielens",
    "recorded_activity",
    "recorded_letter",
    "recorded_movielens",
    "recorded_sarcos",
]
