"""Simulation: every policy on the same worlds, many seeds."""

from posse.simulation.results import Comparison, SimulationResult
from posse.simulation.run import simulate

__all__ = ["Comparison", "SimulationResult", "simulate"]
