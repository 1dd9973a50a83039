"""Worlds: laws that turn a seed into tasks, contexts and rewards."""

from posse.environments.base import Draw, World
from posse.environments.synthetic import SyntheticWorld

__all__ = ["Draw", "SyntheticWorld", "World"]
