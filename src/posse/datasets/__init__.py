"""Datasets: official files, read from a folder that the user has; nothing is downloaded here."""

from posse.datasets.letter import Letter, load_letter
from posse.datasets.sarcos import Sarcos, load_sarcos

__all__ = ["Letter", "Sarcos", "load_letter", "load_sarcos"]
