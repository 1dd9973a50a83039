"""Worlds: laws that turn a seed into tasks, contexts and rewards."""

from posse.environments.activity import activity_protocol, recorded_activity
from posse.environments.base import Draw, World
from posse.environments.fitted import FittedWorld
from posse.environments.from_dataset import RegressionWorld
from posse.environments.letter import recorded_letter
from posse.environments.movielens import population_from_movielens, recorded_movielens
from posse.environments.population import PopulationWorld
from posse.environments.recorded import RecordedWorld
from posse.environments.sarcos import recorded_sarcos
from posse.environments.synthetic import SyntheticWorld

__all__ = [
    "Draw",
    "FittedWorld",
    "PopulationWorld",
    "RecordedWorld",
    "RegressionWorld",
    "SyntheticWorld",
    "World",
    "activity_protocol",
    "population_from_movielens",
    "recorded_activity",
    "recorded_letter",
    "recorded_movielens",
    "recorded_sarcos",
]
