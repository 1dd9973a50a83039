"""A fleet: many tasks, arms that come and go, rewards that come late."""

from posse.fleet.decision import Decision, Decisions, Expectation, Ranking
from posse.fleet.ledger import Pending
from posse.fleet.overview import ArmOverview, Coefficients, Overview, TaskOverview
from posse.fleet.posse import Posse
from posse.fleet.rewarding import Rewarded, Skipped

__all__ = [
    "ArmOverview",
    "Coefficients",
    "Decision",
    "Decisions",
    "Expectation",
    "Overview",
    "Pending",
    "Posse",
    "Ranking",
    "Rewarded",
    "Skipped",
    "TaskOverview",
]
