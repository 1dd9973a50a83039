"""Numbers as people say them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse.fleet.expecting import CONFIDENCE

if TYPE_CHECKING:
    from posse.fleet.labels import Label
    from posse.types import Array

SPACE = "\N{NO-BREAK SPACE}"  # a number and its unit stay together
PERCENT = f"{100 * CONFIDENCE:g}{SPACE}%"
MOST_DECIMALS = 8
ROOM = 16  # characters of a name in a drawing
WORTH = 6  # characters from which on leaving them out is worth it


@dataclass(frozen=True, slots=True)
class Words:
    """How one page writes rewards: so many decimals, and a unit.

    Parameters
    ----------
    decimals : int
    unit : str
    """

    decimals: int
    unit: str = ""

    @classmethod
    def for_widths(cls, half_widths: Array, unit: str = "") -> Words:
        """Return as many decimals as two digits of a typical interval need.

        Examples
        --------
        >>> Words.for_widths(np.array([0.2, 0.31, 0.5])).decimals
        2
        """
        wide = half_widths[np.isfinite(half_widths) & (half_widths > 0)]
        if not wide.size:
            return cls(2, unit)
        digits = 1 - math.floor(math.log10(float(np.median(wide))))
        return cls(min(max(digits, 0), MOST_DECIMALS), unit)

    def plain(self, value: float) -> str:
        """Return a reward without its unit; what rounds to 0 has no sign."""
        shown = f"{value:,.{self.decimals}f}"
        return shown.lstrip("-") if not any(digit in shown for digit in "123456789") else shown.replace("-", "−")

    def reward(self, value: float) -> str:
        r"""Return a reward with its unit.

        Examples
        --------
        >>> Words(2, "€").reward(-0.5)
        '−0.50\xa0€'
        """
        return f"{self.plain(value)}{SPACE}{self.unit}".rstrip()

    def interval(self, low: float, high: float) -> str:
        """Return the ends of an interval."""
        return f"{self.plain(low)} to {self.plain(high)}"

    def total(self, value: float) -> str:
        """Return a sum over many decisions, or a small part of one: three digits that count.

        Examples
        --------
        >>> [Words(2).total(value) for value in (31415.9, 0.0568, 0.000052)]
        ['31,416', '0.0568', 'under 0.001']
        """
        least = 10.0 ** -(self.decimals + 1)
        if 0 < abs(value) < least:
            shown = f"under {least:.{self.decimals + 1}f}"
        elif abs(value) >= 100:
            shown = f"{value:,.0f}"
        else:
            shown = f"{float(f'{value:.3g}'):.12f}".rstrip("0").rstrip(".")
        return f"{shown.replace('-', '−')}{SPACE}{self.unit}".rstrip()


def sureness(probability: float, brief: bool = False) -> str:
    """Return how sure something is; never wholly. In a table, ``brief``, with a sign instead of a word.

    Examples
    --------
    >>> [sureness(p).replace(SPACE, " ") for p in (0.934, 0.993, 0.99999, 0.0001)]
    ['93 %', '99.3 %', 'over 99.9 %', 'under 0.1 %']
    """
    if probability > 0.999:
        return f"{f'>{SPACE}' if brief else 'over '}99.9{SPACE}%"
    if probability < 0.001:
        return f"{f'<{SPACE}' if brief else 'under '}0.1{SPACE}%"
    percent = 100 * probability
    return f"{percent:.1f}{SPACE}%" if percent > 99 or percent < 1 else f"{percent:.0f}{SPACE}%"


def share(part: float) -> str:
    """Return a part of a whole in percent."""
    return f"{100 * part:.0f}{SPACE}%"


def count(number: float, one: str, many: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "task"), count(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{number:,.0f} {one if round(number) == 1 else many or one + 's'}"


def short_names(labels: Sequence[Label]) -> list[str]:
    """Return names without the long beginning and end that all of them share, for where there is little room.

    Examples
    --------
    >>> short_names(["special offer: coffee for you today", "special offer: cake for you today"])
    ['…offer: coffee…', '…offer: cake…']
    >>> short_names(["coffee", "cake"])
    ['coffee', 'cake']
    """
    names = [str(label) for label in labels]
    if len(names) < 2 or max(map(len, names)) <= ROOM:
        return names
    start = _alike(names)
    end = _alike([name[start:][::-1] for name in names])
    # Whole words stay whole, and the last one before the difference says what differs.
    start = names[0].rfind(" ", 0, max(names[0].rfind(" ", 0, start), 0)) + 1
    while end and names[0][len(names[0]) - end].isalnum():
        end -= 1
    start, end = (start if start >= WORTH else 0), (end if end >= WORTH else 0)
    return [("…" if start else "") + name[start : len(name) - end].strip() + ("…" if end else "") for name in names]


def _alike(names: list[str]) -> int:
    """Return how many characters all names begin with; the first and the last in order differ first."""
    first, last = min(names), max(names)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
