"""Logs of decisions and rewards: one schema, several file formats, and checks of what makes an evaluation wrong."""

from posse.logs.checks import check_log
from posse.logs.columns import ColumnUse, Names
from posse.logs.dsjson import from_dsjson
from posse.logs.files import read_log, write_log
from posse.logs.findings import Finding
from posse.logs.log import Log
from posse.logs.obp import from_obp, to_obp
from posse.logs.reading import read_table

__all__ = [
    "ColumnUse",
    "Finding",
    "Log",
    "Names",
    "check_log",
    "from_dsjson",
    "from_obp",
    "read_log",
    "read_table",
    "to_obp",
    "write_log",
]
