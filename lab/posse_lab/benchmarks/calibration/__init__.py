"""What is believed beside what is true, in everyday situations."""

from posse_lab.benchmarks.calibration.report import (
    CalibrationReport,
    Finding,
    calibration_markdown,
    measure_calibration,
)
from posse_lab.benchmarks.calibration.situations import SITUATIONS, Quantity, Situation, chosen_situations

__all__ = [
    "SITUATIONS",
    "CalibrationReport",
    "Finding",
    "Quantity",
    "Situation",
    "calibration_markdown",
    "chosen_situations",
    "measure_calibration",
]
