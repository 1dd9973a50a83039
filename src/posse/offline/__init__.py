"""Off-policy evaluation: what other policies would have earned, from a log that one policy made."""

from posse.offline.data import LoggedBandit
from posse.offline.diagnostics import Diagnostics, Limits, Refusal
from posse.offline.estimators import ESTIMATORS, Contributions
from posse.offline.evaluation import evaluate
from posse.offline.intervals import Estimate
from posse.offline.learned import Learned
from posse.offline.replay import Replay
from posse.offline.report import Evaluation, EvaluationRefused, TargetReport
from posse.offline.rules import Column, Rule
from posse.offline.targets import Always, Fleet, Function, Logged, Target, Uniform

__all__ = [
    "ESTIMATORS",
    "Always",
    "Column",
    "Contributions",
    "Diagnostics",
    "Estimate",
    "Evaluation",
    "EvaluationRefused",
    "Fleet",
    "Function",
    "Learned",
    "Limits",
    "Logged",
    "LoggedBandit",
    "Refusal",
    "Replay",
    "Rule",
    "Target",
    "TargetReport",
    "Uniform",
    "evaluate",
]
