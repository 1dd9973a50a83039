"""The log as checks see it, with numbers that several of them need, gathered in one pass over its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from posse.logs.findings import Finding, Severity, first_row

if TYPE_CHECKING:
    import polars as pl

    from posse.logs.log import Log

ENTRIES = 4_000_000  # pairs of row and eligible arm in memory at a time
SUM_TOLERANCE = 1e-4  # probabilities are often stored as 32-bit floats with few digits
EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Measures:
    """Numbers about a log, measured once for all checks.

    Parameters
    ----------
    rows : polars.DataFrame
        Of every row: n_eligible, n_different (eligible arms), n_chosen (how often the arm is among them), aligned (as
        many probabilities as eligible arms), total, least, most and finite (of the probabilities), n_zero (how many are
        0), stated (the arm's probability) and sound (nothing is wrong with eligible and probabilities).
    arms : polars.DataFrame
        Of every arm: label, eligible and taken (rows), positive (rows with a probability above 0), stated (rows with a
        probability); over sound rows hits, expected (sum of probabilities) and variance of the hits.
    levels : polars.DataFrame
        Of every level of probability, over sound rows: level, hits (decisions that took an arm of this level), expected
        and variance.
    """

    rows: pl.DataFrame
    arms: pl.DataFrame
    levels: pl.DataFrame


class View:
    """A log, what was measured about it, and the way to report.

    Parameters
    ----------
    log : Log
        The log.
    features : sequence of str, optional
        The features that matter. Default: all of the log.
    """

    def __init__(self, log: Log, features: Sequence[str] | None = None) -> None:
        self.log = log
        self.findings: list[Finding] = []
        self.frame = log.frame
        self.features = list(log.features if features is None else dict.fromkeys(features))

    @cached_property
    def measures(self) -> Measures:
        """Numbers that take a pass over all eligible arms."""
        return measure(self.log)

    @cached_property
    def propensity(self) -> pl.Series:
        """The propensity of every row; where it was not recorded, what the probabilities say."""
        return self.frame["propensity"].fill_null(self.measures.rows["stated"])

    @cached_property
    def usable(self) -> pl.Series:
        """True where the propensity of a row can be divided by."""
        return (self.propensity.is_finite() & (self.propensity > 0) & (self.propensity <= 1)).fill_null(False)

    @cached_property
    def everywhere(self) -> pl.Series:
        """A mask of all rows."""
        import polars as pl

        return pl.repeat(True, self.frame.height, eager=True)

    def add(self, code: str, severity: Severity, message: str, mask: pl.Series, what_to_do: str) -> None:
        """Add a finding about the rows of a mask, if there are any."""
        where = mask.fill_null(False)
        if where.any():
            row = first_row(where)
            decision = self.frame["decision_id"][row]
            example = f"row {row}" if decision is None else f"row {row}, decision {decision!r}"
            self.findings.append(Finding(code, severity, message, int(where.sum()), example, what_to_do))


def share(part: int, whole: int) -> str:
    """Return a share in percent, never rounded to none or all.

    Examples
    --------
    >>> share(1, 100_000), share(1, 3), share(99_999, 100_000)
    ('<0.1%', '33.3%', '>99.9%')
    """
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.1:
        return "<0.1%"
    return ">99.9%" if 99.9 < percent < 100 else f"{percent:.1f}%"


def measure(log: Log) -> Measures:
    """Measure a log."""
    import polars as pl

    eligible = log.eligible
    table = log.frame.select("arm", "probabilities").with_columns(eligible.alias("eligible")).with_row_index("row")
    given = pl.col("probabilities").list
    rows = table.select(
        n_eligible=pl.col("eligible").list.len().cast(pl.Int64),
        n_different=pl.col("eligible").list.n_unique().cast(pl.Int64),
        aligned=(given.len() == pl.col("eligible").list.len()).fill_null(False),
        total=given.sum(),
        least=given.min(),
        most=given.max(),
        finite=given.eval(pl.element().is_finite()).list.all(),
        n_zero=given.eval((pl.element() == 0).cast(pl.Int64)).list.sum(),
    )
    stated, n_chosen, arms, levels = [], [], [], []
    base_sound = (
        rows["aligned"]
        & (rows["n_different"] == rows["n_eligible"])
        & ((rows["total"] - 1).abs() <= SUM_TOLERANCE)
        & (rows["least"] >= 0)
        & rows["finite"]
    ).fill_null(False)
    table = table.with_columns(rows["aligned"], base_sound.alias("sound"))
    for part in _slices(table, rows["n_eligible"]):
        pairs = _pairs(part)
        chosen = (
            pairs.filter(pl.col("chosen"))
            .group_by("row")
            .agg(stated=pl.col("p").first(), n_chosen=pl.len().cast(pl.Int64))
        )
        here = part.select("row").join(chosen, on="row", how="left", maintain_order="left")
        stated.append(here["stated"])
        n_chosen.append(here["n_chosen"].fill_null(0))
        # A row that took an arm outside its eligible ones says nothing about the probabilities of these.
        right = part.select("row", sound=pl.col("sound") & (here["n_chosen"] == 1).fill_null(False))
        pairs = pairs.drop("sound").join(right, on="row", how="left", maintain_order="left")
        arms.append(_by_arm(pairs))
        levels.append(_by_level(pairs.filter(pl.col("sound"))))
    rows = rows.with_columns(
        stated=pl.concat(stated) if stated else pl.Series([], dtype=pl.Float64),
        n_chosen=pl.concat(n_chosen) if n_chosen else pl.Series([], dtype=pl.Int64),
    ).with_columns(sound=base_sound & (pl.col("n_chosen") == 1))
    taken = log.frame.group_by("arm").agg(taken=pl.len().cast(pl.Int64))
    everywhere = pl.concat(arms).group_by("label").sum() if arms else _by_arm(_pairs(table))
    everyone = pl.DataFrame({"label": pl.Series(log.arms, dtype=log.frame.schema["arm"])})
    by_arm = (
        everyone.join(everywhere, on="label", how="left", maintain_order="left")
        .join(taken, left_on="label", right_on="arm", how="left", maintain_order="left")
        .with_columns(pl.exclude("label").fill_null(0))
    )
    by_level = pl.concat(levels).group_by("level").sum().sort("level") if levels else _by_level(_pairs(table))
    return Measures(rows, by_arm, by_level)


def _slices(table: pl.DataFrame, sizes: pl.Series) -> Iterator[pl.DataFrame]:
    largest = max(1, int(sizes.mean() or 1))  # type: ignore[arg-type]
    step = max(1, ENTRIES // largest)
    for start in range(0, table.height, step):
        yield table[start : start + step]


def _pairs(part: pl.DataFrame) -> pl.DataFrame:
    """Return one line per row and eligible arm: row, sound, label, p (null where unknown), chosen."""
    import polars as pl

    keep = ("row", "arm", "sound")
    known = part.filter("aligned").select(*keep, label="eligible", p="probabilities").explode("label", "p")
    rest = part.filter(~pl.col("aligned")).select(*keep, label="eligible").explode("label")
    both = pl.concat([known, rest.with_columns(p=pl.lit(None, dtype=pl.Float64))]).filter(pl.col("label").is_not_null())
    return both.with_columns(chosen=pl.col("label") == pl.col("arm"))


def _by_arm(pairs: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    sound = pl.col("sound")
    return pairs.group_by("label").agg(
        eligible=pl.len().cast(pl.Int64),
        stated=pl.col("p").is_not_null().sum().cast(pl.Int64),
        positive=(pl.col("p") > 0).sum().cast(pl.Int64),
        hits=(pl.col("chosen") & sound).sum().cast(pl.Int64),
        expected=pl.col("p").filter(sound).sum(),
        variance=(pl.col("p") * (1 - pl.col("p"))).filter(sound).sum(),
    )


def _by_level(pairs: pl.DataFrame) -> pl.DataFrame:
    """Group by the level of probability: whether one of the arms of a level was taken is a coin with their sum."""
    import polars as pl

    level = sum(((pl.col("p") >= edge).cast(pl.Int64) for edge in EDGES), start=pl.lit(0, dtype=pl.Int64))
    coins = (
        pairs.with_columns(level=level)
        .group_by("row", "level")
        .agg(sum=pl.col("p").sum().clip(0, 1), hit=pl.col("chosen").any())
    )
    return coins.group_by("level").agg(
        hits=pl.col("hit").sum().cast(pl.Int64),
        expected=pl.col("sum").sum(),
        variance=(pl.col("sum") * (1 - pl.col("sum"))).sum(),
    )
