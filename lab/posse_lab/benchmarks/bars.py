"""What was promised, and whether it was kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from posse.types import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A measured number beside the promise it is held against.

    Parameters
    ----------
    what : str
        What was measured, in words for a table.
    measured : float or None
        None if it could not be measured here.
    unit : str
        Of the number and the bar.
    at_most, at_least : float, optional
        The promise.
    note : str
        Why it could not be measured, or what else to know.

    Examples
    --------
    >>> bar = Bar(what="decide", measured=2.51, unit="µs", at_most=3)
    >>> bar.measured_words, bar.bar_words, bar.met
    ('2.51 µs', 'at most 3 µs', True)
    """

    what: str
    measured: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the promise is kept; None if it was not measured."""
        if self.measured is None:
            return None
        above = self.at_least is None or self.measured >= self.at_least
        return above and (self.at_most is None or self.measured <= self.at_most)

    @property
    def measured_words(self) -> str:
        """The measured number with its unit."""
        return "not measured" if self.measured is None else _with_unit(self.measured, self.unit)

    @property
    def bar_words(self) -> str:
        """The promise with its unit."""
        words = []
        if self.at_least is not None:
            words.append(f"at least {_with_unit(self.at_least, self.unit)}")
        if self.at_most is not None:
            words.append(f"at most {_with_unit(self.at_most, self.unit)}")
        return ", ".join(words)

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return asdict(self) | {"met": self.met}


def quantity(value: float) -> str:
    """Return a number with three digits that count.

    Examples
    --------
    >>> [quantity(value) for value in (1_234_567.0, 123.4, 12.34, 3.0, 0.01234, 0.0)]
    ['1,230,000', '123', '12.3', '3', '0.0123', '0']
    """
    return f"{float(f'{value:.3g}'):,.10g}"


def _with_unit(value: float, unit: str) -> str:
    return f"{quantity(value)} {unit}".rstrip()
