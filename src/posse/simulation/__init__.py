"""Simulation: every policy on the same worlds, many seeds."""

from posse.simulation.comparison import Comparison
from posse.simulation.results import SimulationResult
from posse.simulation.run import simulate

__all__ = ["Comparison", "SimulationResult", "simulate"]
