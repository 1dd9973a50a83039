"""The log of decisions and rewards."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from posse.checks import number
from posse.logs.columns import ColumnUse, Names
from posse.logs.findings import BadRow, Finding, first_row
from posse.logs.schema import ARM_FEATURES, log_frame
from posse.tables import as_frame

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Log:
    """Decisions and their rewards, one row each, in the columns of one schema.

    Parameters
    ----------
    frame : any table that :func:`posse.tables.as_frame` takes
        Columns task, arm and reward at least. What is absent becomes a column of nulls; what no log has is left out and
        named in ``unknown``. NaN in a pandas table is a gap.
    unknown : tuple of str
        Further names that were found and left out.
    notes : tuple of Finding
        What reading from another format could not carry over; :func:`check_log` repeats it.
    rewards : {"number", "binary", "count", "revenue"}
        What rewards are. Default: what the column reward_family says; else binary if they came as true and false, and
        numbers otherwise. It is written to that column, which files of a log have, too.
    task_features : polars.DataFrame or None
        Features of tasks, in the order in which they were set: columns time and task, and one for every feature. Those
        in force at a decision are in its context, too.
    names : Names
        What the owner calls tasks, arms and rewards; reports use these words.
    columns : tuple of ColumnUse
        What became of the columns of a table that was read as a log; empty for logs of posse's own.

    Raises
    ------
    InvalidValue
        If a column has the wrong type; the error names the column and the first bad row.

    Examples
    --------
    >>> log = Log({"task": ["a", "a"], "arm": ["red", "green"], "reward": [1.0, None]})
    >>> log
    Log(2 rows, 1 task, 2 arms, 0 features)
    >>> log.with_rewards().frame["arm"].to_list()
    ['red']
    >>> log.with_rewards(absent_reward=0.0).frame["reward"].to_list()
    [1.0, 0.0]
    """

    frame: pl.DataFrame
    unknown: tuple[str, ...]
    notes: tuple[Finding, ...]
    rewards: str
    task_features: pl.DataFrame | None
    names: Names
    columns: tuple[ColumnUse, ...]

    def __init__(
        self,
        frame: Any,
        unknown: tuple[str, ...] = (),
        notes: tuple[Finding, ...] = (),
        rewards: str | None = None,
        task_features: pl.DataFrame | None = None,
        names: Names = Names(),  # noqa: B008 - frozen
        columns: tuple[ColumnUse, ...] = (),
    ) -> None:
        import polars as pl

        table = frame_of(frame)
        truths = "reward" in table.columns and table["reward"].dtype == pl.Boolean()
        table, others = log_frame(table)
        rewards = _family(table, truths=truths) if rewards is None else _checked_family(rewards)
        if rewards != "number" or table["reward_family"].count():
            table = table.with_columns(pl.lit(rewards).alias("reward_family"))
        unknown = tuple(dict.fromkeys((*unknown, *others)))
        values = (table, unknown, tuple(notes), rewards, task_features, names, tuple(columns))
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)  # the class is frozen

    @property
    def n_rows(self) -> int:
        """Number of decisions."""
        return self.frame.height

    @property
    def tasks(self) -> list[Any]:
        """Labels of the tasks that occur, sorted."""
        return self.frame["task"].unique().sort().to_list()

    @property
    def arms(self) -> list[Any]:
        """Labels of the arms that were taken or could have been, sorted."""
        return self._arms().to_list()

    @property
    def features(self) -> list[str]:
        """Names of the features, in the order of the columns of :attr:`contexts`."""
        return self.frame["context"].struct.fields

    @property
    def arm_features(self) -> list[str]:
        """Names of the features of eligible arms, as catalogues log them; empty in other logs."""
        return self.frame[ARM_FEATURES].struct.fields if ARM_FEATURES in self.frame.columns else []

    @property
    def contexts(self) -> pl.DataFrame:
        """The raw features, a column each."""
        return self.frame["context"].struct.unnest()

    @property
    def eligible(self) -> pl.Series:
        """The arms that each decision could take; where the log does not say, all of them, sorted."""
        import polars as pl

        given = self.frame["eligible"]
        return pl.select(given.fill_null(pl.lit(self._arms().implode()))).to_series() if given.null_count() else given

    def with_rewards(self, absent_reward: float | None = None) -> Log:
        """Return the rows whose reward is known; or all rows, where none means ``absent_reward``.

        The second is what a fleet with this ``absent_reward`` has learned, decisions that still wait included.
        """
        import polars as pl

        if absent_reward is not None:
            value = number(absent_reward, "absent_reward")
            return replace(self, frame=self.frame.with_columns(pl.col("reward").fill_null(value)))
        return replace(self, frame=self.frame.filter(pl.col("reward").is_not_null()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give :attr:`frame` to takers of Arrow tables: ``fleet.learn_many(log)``, ``pandas``, ``pyarrow``."""
        return self.frame.__arrow_c_stream__(requested_schema)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        # Polars calls 1 and 1.0 equal, so types are compared too.
        return self.frame.schema == other.frame.schema and self.frame.equals(other.frame)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = {"row": self.n_rows, "task": len(self.tasks), "arm": len(self.arms), "feature": len(self.features)}
        words = ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items())
        return f"Log({words})"

    def _arms(self) -> pl.Series:
        import polars as pl

        offered = self.frame["eligible"].explode().drop_nulls()
        return pl.concat([self.frame["arm"].unique(), offered.unique().alias("arm")]).unique().sort()


def frame_of(source: Any) -> pl.DataFrame:
    """Return a table of anybody's as one of Polars; NaN is null where pandas wrote it, who says missing so."""
    import polars as pl

    frame = as_frame(source, name="log")
    if type(source).__module__.split(".")[0] == "pandas":
        return frame.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))
    return frame


def _checked_family(rewards: str) -> str:
    from posse.families import family_of  # with Numba, which a log of numbers need not wait for

    return family_of(rewards).name


def _family(table: pl.DataFrame, *, truths: bool) -> str:
    """Return what rewards are: what rows say, who must agree; rows from before anybody said it say nothing."""
    stated = table["reward_family"]
    names = stated.drop_nulls().unique(maintain_order=True).to_list()
    if len(names) > 1:
        raise BadRow(
            f"reward_family is {names[1]!r} here, but {names[0]!r} before; rewards of a log are of one family",
            first_row(stated == names[1]),
        )
    return names[0] if names else "binary" if truths else "number"
