"""One reader of tables: what every column is used for, what rewards are, and what cannot be learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.checks import one_of
from posse.errors import InvalidValue, NotFinite
from posse.logs.columns import Asked, ColumnUse, Names, as_noun, require_columns, uses_of
from posse.logs.files import read_log, recognise
from posse.logs.findings import first_row, shown
from posse.logs.jsonl import numbered_lines
from posse.logs.log import Log, frame_of
from posse.logs.outcomes import FEW_ROWS, family_of_summary, numbers_of, require_rewards, reward_summary
from posse.logs.schema import ARM_FEATURES, COLUMNS, join_features
from posse.logs.times import recognised_times
from posse.tables import suffix_of

if TYPE_CHECKING:
    import polars as pl

NESTED = {"context", "eligible", "probabilities", "expected_rewards", ARM_FEATURES, "task_features"}
FIRST = 100  # lines that are read to recognise a log


def read_table(
    source: Any,
    *,
    task: str = "task",
    arm: str = "arm",
    reward: str = "reward",
    propensity: str | None = None,
    time: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    rewards: str | None = None,
    names: Names | None = None,
    also: Sequence[str] = (),
) -> Log:
    """Read a table of decisions and rewards, whatever its columns are called; logs of posse are read as they are.

    Columns that nobody named are recognised: times, ids, propensities, constants and columns with a level per row are
    no features, all other numbers and categories are. ``Log.columns`` says what became of each.

    Parameters
    ----------
    source : path, table or Log
        A .csv, .tsv, .jsonl (all also .gz) or .parquet file, or a pandas, Polars or Arrow table, or columns by name.
    task, arm, reward : str
        The columns with what decides, what was chosen, and what came of it.
    propensity, time : str, optional
        The columns with the probability of the arm, and with when it was chosen. Default: recognised.
    features : sequence of str, optional
        Exactly these columns. Default: all that look like features.
    ignore : sequence of str
        Columns to leave out.
    rewards : {"number", "binary", "count", "revenue"}, optional
        What rewards are. Default: recognised; a log of posse says it.
    names : Names, optional
        What reports call tasks, arms and rewards. Default: the columns' names.
    also : sequence of str
        Columns that are features whatever they look like.

    Returns
    -------
    Log

    Raises
    ------
    InvalidValue
        If a column is not there or cannot be what it should be, or nothing can be learned from the table.

    Examples
    --------
    >>> visits = {"store": ["a", "a", "b"], "offer": ["x", "y", "x"], "sold": [0, 1, 1], "age": [31, 45, 27]}
    >>> log = read_table(visits, task="store", arm="offer", reward="sold")
    >>> log
    Log(3 rows, 2 tasks, 2 arms, 1 feature)
    >>> log.rewards, log.columns[3]
    ('binary', ColumnUse(name='age', use='feature', note='number'))
    """
    asked = Asked.of(task, arm, reward, propensity, time, features, ignore, also)
    where = str(source) if isinstance(source, str | Path) else "the table"
    if isinstance(source, str | Path) and (log := _log_in(Path(source), asked)) is not None:
        source = log
    if not isinstance(source, Log):
        frame = frame_of(source)
        if not is_log(frame.schema, asked):
            return _from_table(frame, asked, where, rewards, names)
        source = Log(_renamed(frame, asked))
    changes: dict[str, Any] = {} if rewards is None else {"rewards": rewards}
    return _with_features(replace(source, **changes, names=names or source.names), asked)


def _log_in(path: Path, asked: Asked) -> Log | None:
    """Return the log in a file; None if the file is a table, which has columns of anybody's."""
    suffix = suffix_of(path)
    if suffix in (".csv", ".tsv", ".parquet") or not path.is_file():
        return None
    kind = recognise(path)
    if kind == "parquet":
        return read_log(path)
    if kind != "jsonl":
        return read_log(path, task=None if asked.task == "task" else asked.task)
    keys = _keys(path)
    if keys and not _has_columns_of_a_log(keys, asked):
        if keys & NESTED and asked.roles.keys() - COLUMNS:
            raise InvalidValue(
                f"expected a table, got {path}, a log of posse's with columns task, arm and reward; name no others"
            )
        return None
    return read_log(path)


def _keys(path: Path) -> set[str]:
    """Return the keys of the first lines of a file."""
    import json

    keys: set[str] = set()
    for _, lines in numbered_lines(path):
        for line in islice((line for line in lines if line.strip()), FIRST):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                return set()  # reading it as a log says where the problem is
            keys |= row.keys() if isinstance(row, dict) else set()
        break
    return keys


def _has_columns_of_a_log(columns: set[str], asked: Asked) -> bool:
    named = {"task", "arm", "reward"} >= {asked.task, asked.arm, asked.reward}
    return named and (bool(columns & NESTED) or columns <= set(COLUMNS))


def is_log(schema: Any, asked: Asked) -> bool:
    """Return whether a table has what only logs of posse have, or nothing that they have not."""
    import polars as pl

    nested = any(isinstance(schema.get(name), pl.Struct | pl.List) for name in NESTED)
    return nested or (set(schema) <= set(COLUMNS) and asked == Asked() and {"task", "arm", "reward"} <= set(schema))


def _renamed(frame: pl.DataFrame, asked: Asked) -> pl.DataFrame:
    require_columns(frame.columns, asked._replace(features=None, ignore=(), also=()), "the table")
    roles = {name: role for name, role in asked.roles.items() if name != role}
    return frame.drop([role for role in roles.values() if role in frame.columns]).rename(roles)


def _with_features(log: Log, asked: Asked) -> Log:
    """Return a log with the features that were asked for."""
    if asked.features is None and not asked.ignore:
        return log
    absent = [name for name in (*asked.listed, *asked.ignore) if name not in log.features]
    if absent:
        raise InvalidValue(
            f"expected features of the log, got {absent[0]!r}; its features are {', '.join(log.features) or 'none'}"
        )
    wanted = log.features if asked.features is None else asked.listed
    chosen = [log.contexts[name] for name in wanted if name not in asked.ignore]
    return replace(log, frame=log.frame.with_columns(join_features(chosen, log.n_rows).alias("context")))


def with_missing_rewards(log: Log, missing: str | None, absent: float | None) -> Log:
    """Return a log after a decision about its rows without a reward.

    Parameters
    ----------
    log : Log
    missing : {"skip", "absent", "error"} or None
        None leaves the rows of a log as they are, whose rewards may be on their way, and refuses those of a table.
    absent : float or None
        What they count as; None with "skip".
    """
    decided = missing_rewards(missing, absent, log.frame["reward"].null_count(), log.n_rows, ours=not log.columns)
    if decided == "absent":
        return log.with_rewards(absent)
    if missing != "skip":
        return log
    rewarded = log.with_rewards()
    if log.columns:
        _require_rewards(rewarded.frame["reward"], "the rows with a reward")
    return rewarded


def missing_rewards(missing: str | None, absent: float | None, count: int, n_rows: int, *, ours: bool) -> str:
    """Return whether rows without a reward are skipped or count as the absent one; raise if nobody said it.

    In logs of ours they are skipped: their rewards may be on their way.
    """
    if missing is not None:
        one_of(missing, "missing_reward", ("error", "skip", "absent"))
    if absent is not None and missing in ("skip", "error"):
        raise InvalidValue("expected missing_reward or absent_reward, got both; leave one out")
    if missing == "absent" and absent is None:
        raise InvalidValue("expected absent_reward with missing_reward='absent', got none; pass a number")
    if count and absent is None and (missing == "error" or (missing is None and not ours)):
        raise InvalidValue(
            f"expected a reward in every row, got {count:,} of {n_rows:,} without; if late feedback counts as 0 pass "
            "absent_reward=0, to leave these rows out pass missing_reward='skip'"
        )
    return "skip" if absent is None else "absent"


def _from_table(frame: pl.DataFrame, asked: Asked, source: str, rewards: str | None, names: Names | None) -> Log:
    """Return a checked table as a log."""
    import polars as pl

    if not frame.width:
        raise InvalidValue(f"expected columns and rows in {source}, got an empty table")
    require_columns(frame.columns, asked, source)
    if not frame.height:
        raise InvalidValue(f"expected rows in {source}, got none below the names of its columns")
    uses = uses_of(frame, asked)
    columns = {use.use: frame[use.name] for use in uses if use.use not in ("feature", "left out", "of logs")}
    of_logs = [use.name for use in uses if use.use == "of logs"]
    made = {
        "task": labels_of(columns["task"], "task", source),
        "arm": labels_of(columns["arm"], "arm", source),
        "reward": numbers_of(columns["reward"], source),
    }
    require_choices(made["arm"].unique(), made["arm"].name, source)
    _require_tasks(made["task"], source)
    summary = _require_rewards(made["reward"], source)
    stated = frame["reward_family"] if "reward_family" in of_logs else None
    family, why = family_of_summary(summary, truths=made["reward"].dtype == pl.Boolean(), asked=rewards, stated=stated)
    if "propensity" in columns:
        made["propensity"] = _probabilities(columns["propensity"], source)
    if "time" in columns:
        made["time"] = _times(columns["time"], source)
    if "decision id" in columns:
        made["decision_id"] = columns["decision id"].cast(pl.String())
    made |= {name: _as_in_logs(frame[name]) for name in of_logs if name != "reward_family"}
    features = [_finite(frame[use.name], source) for use in uses if use.use == "feature"]
    table = pl.DataFrame([column.alias(name) for name, column in made.items()])
    table = table.with_columns(join_features(features, frame.height).alias("context"))
    words = {role: f"{made[role].n_unique():,} different" for role in ("task", "arm")}
    uses = [replace(use, note=words.get(use.use, use.note)) for use in with_family(uses, family, why)]
    return Log(
        table,
        rewards=family,
        names=names or Names(*map(as_noun, (asked.task, asked.arm, asked.reward))),
        columns=tuple(uses),
    )


def with_family(uses: Sequence[ColumnUse], family: str, why: str) -> list[ColumnUse]:
    """Return uses of columns of which the rewards say what they are."""
    return [replace(use, note=f"{family}, {why}") if use.use == "reward" else use for use in uses]


def labels_of(column: pl.Series, role: str, source: str) -> pl.Series:
    """Return tasks or arms as text or whole numbers; every row must have one."""
    import polars as pl

    if column.null_count():
        row = first_row(column.is_null())
        raise InvalidValue(
            f"expected a value of the {role} column {column.name!r} in every row of {source}, got none in "
            f"{column.null_count():,} rows, the first of them row {row}; fill it in, or leave these rows out"
        )
    dtype = column.dtype
    if dtype == pl.Boolean() or isinstance(dtype, pl.Date | pl.Datetime):
        return column.cast(pl.String())
    if dtype.is_float() and (column == column.round()).all() and column.is_finite().all():
        return column.cast(pl.Int64())
    if dtype == pl.String() or dtype.is_integer() or isinstance(dtype, pl.Categorical | pl.Enum):
        return column
    raise InvalidValue(
        f"expected the {role} column {column.name!r} of {source} to be text or whole numbers, got {shown(column[0])}; "
        "name another column"
    )


def require_choices(arms: pl.Series, name: str, source: str) -> None:
    """Raise unless distinct arms are something to choose among, each in one spelling."""
    import polars as pl

    if arms.dtype == pl.String():
        spellings = pl.DataFrame({"arm": arms.sort(), "plain": arms.sort().str.strip_chars().str.to_lowercase()})
        several = spellings.group_by("plain", maintain_order=True).agg("arm").filter(pl.col("arm").list.len() > 1)
        if several.height:
            same = several["arm"][0].to_list()
            raise InvalidValue(
                f"expected every arm of {source} in one spelling, got {' and '.join(map(repr, same[:3]))}; make them "
                "one, or, if they are different arms, give one of them another name"
            )
    if arms.len() < 2:
        raise InvalidValue(
            f"expected at least two arms in column {name!r} of {source}, got only {shown(arms[0])}: there is nothing "
            "to choose; name another column"
        )


def _require_rewards(rewards: pl.Series, source: str) -> dict[str, Any]:
    """Return what was seen of rewards; raise unless something can be learned from them."""
    summary = rewards.to_frame().select(reward_summary(rewards.name)).row(0, named=True)
    require_rewards(summary, rewards.name, source)
    return summary


def _require_tasks(tasks: pl.Series, source: str) -> None:
    if tasks.len() >= FEW_ROWS and tasks.n_unique() == tasks.len():
        raise InvalidValue(
            f"expected tasks with several rows, got another task in every row of {source}: {tasks.name!r} looks like "
            "an id; name the column of what is decided for again and again, such as the store"
        )


def _probabilities(column: pl.Series, source: str) -> pl.Series:
    import polars as pl

    if not column.dtype.is_numeric():
        raise InvalidValue(f"expected numbers in the propensity column {column.name!r}, got type {column.dtype}")
    values = column.cast(pl.Float64())
    wrong = ~((values > 0) & (values <= 1)).fill_null(value=True) | values.is_nan().fill_null(value=False)
    if wrong.any():
        row = first_row(wrong)
        raise InvalidValue(
            f"expected propensities above 0 and at most 1 in column {column.name!r} of {source}, got {values[row]:g} "
            f"in row {row} and {int(wrong.sum()) - 1} more; an arm that was taken had a probability"
        )
    return values


def _as_in_logs(column: pl.Series) -> pl.Series:
    """Return what logs of posse call by this name; null where a table means something else by it."""
    import polars as pl

    if column.name == "reward_time":
        times = recognised_times(column, named=True)
        return times if isinstance(times, pl.Series) else pl.Series([None] * column.len())
    return column.cast(pl.Int64() if column.name == "ranking_place" else pl.String(), strict=False)


def _times(column: pl.Series, source: str) -> pl.Series:
    times = recognised_times(column, named=True)
    if isinstance(times, str):
        raise InvalidValue(f"expected times in column {column.name!r} of {source}, got {times}; write 2026-01-31")
    return column if times is None else times


def _finite(column: pl.Series, source: str) -> pl.Series:
    if column.dtype.is_float() and (wrong := column.is_infinite()).any():
        raise NotFinite(
            f"expected finite numbers in column {column.name!r} of {source}, got {column[first_row(wrong)]} in row "
            f"{first_row(wrong)}; leave the cell empty, or the column out with ignore={[column.name]!r}"
        )
    return column
