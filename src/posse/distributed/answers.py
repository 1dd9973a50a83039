"""Answers that a shard remembers: a call that is made again because its answer was lost gets the same one."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from posse.distributed.shard_fleet import COLUMNS
from posse.fleet.decision import Decision, Ranking
from posse.fleet.ledger import parse_id

if TYPE_CHECKING:
    from posse.distributed.journal import Record

ANSWERS = 2000  # that are remembered
ANSWER_ROWS, FEWEST_ANSWERS = 200_000, 16  # decisions in them, unless there are few answers


class Answers:
    """The last answers by request, the oldest first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self._rows = 0

    def __contains__(self, request: str) -> bool:
        return request in self._answers

    def of(self, request: str) -> Any:
        """Return the answer of a request."""
        return self._answers[request]

    def remember(self, request: str, answer: Any) -> None:
        """Remember an answer; the oldest are let go where there are too many."""
        self._answers[request] = answer
        self._rows += _rows_in(answer)
        while len(self._answers) > ANSWERS or (self._rows > ANSWER_ROWS and len(self._answers) > FEWEST_ANSWERS):
            _, old = self._answers.popitem(last=False)
            self._rows -= _rows_in(old)

    def remember_record(self, record: Record) -> None:
        """Know the answer of a request of a journal."""
        facts = record.facts
        if not facts.get("request"):
            return
        answer: Any = None
        if record.what == "decide":
            columns = (_ids(record), *(facts[name] for name in ("tasks", "arms", "propensity", "beliefs")))
            places = [
                Decision(*entry, *(dict(map(tuple, part)) for part in beliefs))
                for *entry, beliefs in zip(*columns, strict=True)
            ]
            answer = Ranking(places) if facts.get("ranking") else places[0]
        elif record.what == "decide_many":
            answer = {
                "ids": _ids(record),
                "arms": tuple(facts["arms"]),
                **{name: record.arrays[name] for name in COLUMNS},
            }
        elif record.what == "reward":
            answer = len(facts["ids"])
        elif record.what == "learn":
            answer = len(record.arrays["rewards"])
        self.remember(facts["request"], answer)


def _ids(record: Record) -> list[str]:
    place = parse_id(record.facts["first"])
    assert place is not None
    return [f"{place[0]}-{place[1] + row}" for row in range(len(record.facts["tasks"]))]


def _rows_in(answer: Any) -> int:
    return len(answer["ids"]) if isinstance(answer, dict) else 1
