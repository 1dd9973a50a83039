"""From paired comparisons to a verdict on "both ebm methods have the lowest regret"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from posse.simulation import Comparison
from posse_lab.reproduction.claims import FAILS, HOLDS, Claim, decided_by, only_if
from posse_lab.reproduction.lineup import DEFAULT_RIVALS, EBM, MATCHED_RIVALS, TUNED_RIVALS
from posse_lab.reproduction.reading import Reading

Place: TypeAlias = tuple[Reading, int | None]
"""A world, and the step at which its regret is read; None is the horizon."""

LEVELS = {
    "default": DEFAULT_RIVALS,
    "matched": ("RMBandit", "OLSBandit", *MATCHED_RIVALS),
    "tuned": ("OLSBandit", *TUNED_RIVALS),
}
"""How well the rivals are set, from the paper's settings to the best in hindsight."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The pair of an ebm method and a rival at which the claim is weakest.

    Parameters
    ----------
    comparison : Comparison
    reading : Reading
    step : int or None
    """

    comparison: Comparison
    reading: Reading
    step: int | None

    @property
    def weakness(self) -> float:
        """The upper end of the ratio's interval; without one, nothing is worse."""
        high = self.comparison.ratio_interval[1]
        return math.inf if math.isnan(high) else high

    @property
    def lower(self) -> bool:
        """Whether ebm's regret is lower beyond doubt."""
        return self.comparison.ratio_interval[1] < 1

    @property
    def higher(self) -> bool:
        """Whether ebm's regret is higher beyond doubt."""
        return self.comparison.ratio_interval[0] > 1

    @property
    def where(self) -> str:
        """The world and step, to be put behind what is compared."""
        world = f", {self.reading.label}" if self.reading.label else ""
        return world + (f" at n = {self.step:,}" if self.step is not None else "")


def worst(
    places: Sequence[Place],
    rivals: Sequence[str],
    methods: Sequence[str] = EBM,
    column: str = "curve",
) -> Worst:
    """Return the pair whose ratio of regret may be highest, over places, methods and rivals."""
    return max(all_pairs(places, rivals, methods, column), key=lambda pair: pair.weakness)


def all_pairs(places: Sequence[Place], rivals: Sequence[str], methods: Sequence[str], column: str) -> list[Worst]:
    """Return the comparison of every method with every rival at every place."""
    return [
        Worst(reading.compare(method, rival, step, column), reading, step)
        for reading, step in places
        for method in methods
        for rival in rivals
    ]


def lowest(
    claim_id: str,
    places: Sequence[Place],
    *,
    column: str = "curve",
) -> Claim:
    """Test that both ebm methods have lower regret than every rival, at every place and level of tuning.

    "Holds" needs the upper end of every interval below 1. Where it does not hold everywhere, the verdict says under
    which restrictions of method, setting and tuning of the rivals it does: those that leave most of the claim.
    """
    cells = {
        (method, place, level): worst([place], rivals, (method,), column)
        for method in EBM
        for place in places
        for level, rivals in LEVELS.items()
    }
    strictest = max(cells.values(), key=lambda pair: pair.weakness)
    default_pairs = all_pairs(places, DEFAULT_RIVALS, EBM, column)
    at_default = max(default_pairs, key=lambda pair: pair.weakness)
    part = _largest_true_part(cells, places)
    if part is None and not any(pair.higher for pair in default_pairs):
        verdict, decisive = only_if(_tie_words(default_pairs, cells)), at_default
    elif part is None:
        verdict, decisive = FAILS, max(default_pairs, key=lambda pair: pair.comparison.ratio_interval[0])
    else:
        words = part.words(places)
        verdict, decisive = (only_if(words) if words else HOLDS), strictest
    comparison = decisive.comparison
    return Claim(
        id=claim_id,
        verdict=verdict,
        **decided_by(comparison),
        measure=f"regret of {comparison.first} over {comparison.second}" + f"{decisive.where}, the weakest pair",
        sources=tuple(dict.fromkeys(reading.source for reading, _ in places)),
    )


def _tie_words(default_pairs: Sequence[Worst], cells: Mapping[tuple[str, Place, str], Worst]) -> str:
    """Return what has to be granted where no default rival is clearly better but some are as good."""
    tied = dict.fromkeys(pair.comparison.second for pair in default_pairs if not pair.lower)
    words = f"a tie with {' and '.join(tied)} counts"
    beaten = any(pair.higher for (_, _, level), pair in cells.items() if level != "default")
    return words + (" and rivals keep the paper's and the libraries' settings" if beaten else "")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the claim: some methods, at some places, against rivals at some levels of tuning."""

    methods: tuple[str, ...]
    places: tuple[Place, ...]
    levels: tuple[str, ...]

    @property
    def size(self) -> tuple[bool, int, int, int]:
        """How much of the claim it is.

        A part with the default rivals is more than one without; of equal parts one with both methods, then one with
        all places, is more.
        """
        cells = len(self.methods) * len(self.places) * len(self.levels)
        return "default" in self.levels, cells, len(self.methods), len(self.places)

    def words(self, places: Sequence[Place]) -> str:
        """Return the restriction, empty for the whole claim."""
        found = []
        if len(self.methods) < len(EBM):
            found.append(f"it is read for {self.methods[0]} alone")
        if len(self.places) < len(places):
            labelled = any(reading.label for reading, _ in self.places)
            found.append(f"{'the setting is ' if labelled else ''}{_place_words(self.places)}")
        if self.levels != tuple(LEVELS):
            found.append(LEVEL_WORDS[self.levels])
        return " and ".join(found)


LEVEL_WORDS = {
    ("default", "matched"): "rivals are not tuned",
    ("default", "tuned"): "rivals explore as libraries set them or better",
    ("default",): "rivals keep the paper's and the libraries' settings",
    ("matched",): "LinTS and LinUCB explore as little as ebm does",
}
"""What is left of the claim when it holds at some levels of tuning only."""


def _largest_true_part(cells: Mapping[tuple[str, Place, str], Worst], places: Sequence[Place]) -> Part | None:
    """Return the largest part of the claim in which every pair is lower beyond doubt."""
    parts = []
    for methods in (EBM, *((method,) for method in EBM)):
        for levels in (tuple(LEVELS), *LEVEL_WORDS):
            good = tuple(
                place
                for place in places
                if all(cells[method, place, level].lower for method in methods for level in levels)
            )
            # Against matched rivals alone it is worth saying only if it holds throughout.
            if good and ("default" in levels or (len(good) == len(places) and methods == EBM)):
                parts.append(Part(methods, good, levels))
    return max(parts, key=lambda part: part.size, default=None)


def _place_words(places: Sequence[Place]) -> str:
    """Return places in words: worlds, with the step only where one was given."""
    named = [", ".join(filter(None, (reading.label, f"n = {step:,}" if step else ""))) for reading, step in places]
    return " or ".join(dict.fromkeys(named))
