"""Numbers and names as people say them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from posse.logs import Names
    from posse.types import Array

SPACE = "\N{NO-BREAK SPACE}"  # a number and its unit stay together
MOST_DECIMALS = 8


@dataclass(frozen=True, slots=True)
class Words:
    """Format of rewards: decimals, and per cent or a unit.

    Parameters
    ----------
    decimals : int
    unit : str
    percent : bool
        Whether rewards are probabilities, written in per cent.
    """

    decimals: int
    unit: str = ""
    percent: bool = False

    @classmethod
    def for_widths(cls, half_widths: Array, unit: str = "", percent: bool = False) -> Words:
        """Return as many decimals as two digits of a typical interval need.

        Examples
        --------
        >>> Words.for_widths(np.array([0.2, 0.31, 0.5])).decimals
        2
        """
        wide = half_widths[np.isfinite(half_widths) & (half_widths > 0)] * (100 if percent else 1)
        digits = 1 - math.floor(math.log10(float(np.median(wide)))) if wide.size else 1 if percent else 2
        return cls(min(max(digits, 0), MOST_DECIMALS), unit, percent)

    def plain(self, value: float) -> str:
        """Return a reward without its unit; what rounds to 0 has no sign."""
        shown = f"{100 * value if self.percent else value:,.{self.decimals}f}"
        return shown.lstrip("-") if not any(digit in shown for digit in "123456789") else shown.replace("-", "−")

    def reward(self, value: float) -> str:
        r"""Return a reward with its unit.

        Examples
        --------
        >>> Words(2, "€").reward(-0.5), Words(1, percent=True).reward(0.153)
        ('−0.50\xa0€', '15.3\xa0%')
        """
        return f"{self.plain(value)}{SPACE}{'%' if self.percent else self.unit}".rstrip()

    def difference(self, value: float) -> str:
        r"""Return by how much one reward is more than another.

        Examples
        --------
        >>> Words(1, percent=True).difference(0.068), Words(2, "€").difference(-0.5)
        ('+6.8\xa0points', '−0.50\xa0€')
        """
        return f"{self.signed(value)}{SPACE}{'points' if self.percent else self.unit}".rstrip()

    def signed(self, value: float) -> str:
        """Return a difference without its unit."""
        shown = self.plain(value)
        return f"+{shown}" if value > 0 and any(digit in shown for digit in "123456789") else shown

    def interval(self, low: float, high: float) -> str:
        """Return the ends of an interval."""
        return f"{self.plain(low)}{SPACE}to{SPACE}{self.plain(high)}"


def sureness(probability: float) -> str:
    """Return how sure something is; never wholly.

    Examples
    --------
    >>> [sureness(p).replace(SPACE, " ") for p in (0.934, 0.993, 0.99999, 0.0001)]
    ['93 %', '99.3 %', '> 99.9 %', '< 0.1 %']
    """
    if not 0.001 <= probability <= 0.999:
        return f">{SPACE}99.9{SPACE}%" if probability > 0.5 else f"<{SPACE}0.1{SPACE}%"
    percent = 100 * probability
    return f"{percent:.1f}{SPACE}%" if percent > 99 or percent < 1 else f"{percent:.0f}{SPACE}%"


def one(noun: str) -> str:
    """Return a noun for one thing: of "person/people" the first."""
    return noun.partition("/")[0]


def many(noun: str) -> str:
    """Return a noun for several things.

    Examples
    --------
    >>> [many(noun) for noun in ("store", "city", "day", "branch", "person/people")]
    ['stores', 'cities', 'days', 'branches', 'people']
    """
    single, slash, several = noun.partition("/")
    if slash:
        return several
    if single.endswith("y") and single[-2:-1] not in tuple("aeiou"):
        return single[:-1] + "ies"
    return single + ("es" if single.endswith(("s", "x", "z", "ch", "sh")) else "s")


def count(number: float, noun: str) -> str:
    r"""Return a number with its noun.

    Examples
    --------
    >>> count(1, "store"), count(1200, "store")
    ('1\xa0store', '1,200\xa0stores')
    """
    return f"{number:,.0f}{SPACE}{one(noun) if round(number) == 1 else many(noun)}"


def article(noun: str) -> str:
    """Return a noun with its article.

    Examples
    --------
    >>> article("sale"), article("order")
    ('a sale', 'an order')
    """
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {one(noun)}"


def in_their_words(text: str, names: Names) -> str:
    """Return a message of the library with the owner's words for tasks and arms.

    Examples
    --------
    >>> from posse.logs import Names
    >>> in_their_words("3 tasks never took arm 'arm'", Names(task="store", arm="offer"))
    "3 stores never took offer 'arm'"
    """
    words = {"task": one(names.task), "tasks": many(names.task), "arm": one(names.arm), "arms": many(names.arm)}
    return re.sub(r"(?<![\w'\"-])(tasks?|arms?)(?![\w'\"-])", lambda found: words[found[0]], text)
