"""A fleet: many tasks, arms that come and go, rewards that come late."""

from posse.fleet.catalogue import Catalogue
from posse.fleet.decision import Decision, Decisions, Expectation, Ranking
from posse.fleet.late import Rewarded, Skipped
from posse.fleet.ledger import Pending
from posse.fleet.menu import Menu
from posse.fleet.overview import ArmOverview, Coefficients, Overview, TaskOverview
from posse.fleet.posse import Posse

__all__ = [
    "ArmOverview",
    "Catalogue",
    "Coefficients",
    "Decision",
    "Decisions",
    "Expectation",
    "Menu",
    "Overview",
    "Pending",
    "Posse",
    "Ranking",
    "Rewarded",
    "Skipped",
    "TaskOverview",
]
