"""Claims: a sentence of the paper, the number that decides it, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posse.simulation import Comparison

HOLDS = "holds"
FAILS = "does not hold"
ONLY_IF = "holds only if"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of the paper, tested.

    Parameters
    ----------
    id : str
        Short, stable name.
    verdict : str
        ``"holds"``, ``"does not hold"`` or ``"holds only if ..."``.
    value : float
        The number that decides.
    interval : tuple of two floats
        95 % bootstrap interval over seeds; the value twice where nothing is random.
    seeds : int
        Seeds behind the value; 0 where it was computed without any.
    measure : str
        What the value is.
    sources : tuple of str
        The result files it was computed from.
    experiment, claim : str
        Its name, and what the paper claims, in our words; the report puts them in.
    """

    id: str
    verdict: str
    value: float
    interval: tuple[float, float]
    seeds: int
    measure: str
    sources: tuple[str, ...] = ()
    experiment: str = ""
    claim: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the seven values that ``claims.json`` lists."""
        return {
            "id": self.id,
            "claim": self.claim,
            "experiment": self.experiment,
            "verdict": self.verdict,
            "value": _finite(self.value),
            "interval": [_finite(end) for end in self.interval],
            "seeds": self.seeds,
        }


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold; a ratio of nothing over nothing has none."""
    return value if math.isfinite(value) else None


def numbers(value: float, interval: tuple[float, float], seeds: int) -> dict[str, Any]:
    """Return the number that decides a claim, with its interval and the seeds behind it."""
    return {"value": value, "interval": interval, "seeds": seeds}


def decided_by(pair: Comparison) -> dict[str, Any]:
    """Return the number that decides a claim, where it is a ratio of regrets."""
    return numbers(pair.ratio, pair.ratio_interval, pair.seeds)


def only_if(condition: str) -> str:
    """Return the verdict of a claim that needs a condition.

    Examples
    --------
    >>> only_if("rivals are not tuned")
    'holds only if rivals are not tuned'
    """
    return f"{ONLY_IF} {condition}"


def kind_of(verdict: str) -> str:
    """Return which of the three kinds a verdict is.

    Examples
    --------
    >>> kind_of("holds only if the sky is blue")
    'holds only if'
    """
    return ONLY_IF if verdict.startswith(ONLY_IF) else verdict


def count_kinds(claims: Sequence[Claim]) -> dict[str, int]:
    """Return how many claims got each kind of verdict."""
    return {kind: sum(kind_of(claim.verdict) == kind for claim in claims) for kind in (HOLDS, ONLY_IF, FAILS)}
