"""The result of an evaluation: diagnostics first, then numbers, or the reasons why there are none."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from posse.errors import InvalidValue, ResultFileError
from posse.offline.diagnostics import Diagnostics, Refusal
from posse.offline.intervals import Estimate
from posse.showing import Sheet, Table
from posse.types import Settings

if TYPE_CHECKING:
    import polars as pl

FORMAT = 1


class EvaluationRefused(InvalidValue):
    """The log cannot answer what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReport:
    """Diagnostics of one target, and reasons if it was refused.

    Parameters
    ----------
    name : str
    diagnostics : Diagnostics or None
        None for a replay, and where the log as a whole was refused.
    refusals : tuple of Refusal
        If there is any, there are no numbers.
    notes : tuple of str
        What to keep in mind.
    switch_threshold : float or None
        The weight above which SWITCH-DR believes the model; infinite where it never does.
    steps : int or None
        Of a replay.
    """

    name: str
    diagnostics: Diagnostics | None = None
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    switch_threshold: float | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evaluation:
    """Values of policies that did not make the log, estimated from it.

    Parameters
    ----------
    version : str
    settings : dict
        Confidence, seed, folds, clip, estimators, limits.
    rows, tasks, arms : int
        What the evaluation is based on.
    rows_in_log, rows_without_reward, rows_without_propensity : int
        What the log had, and what it lacked.
    on_policy : Estimate
        The mean reward of the log itself.
    targets : tuple of TargetReport
    notes : tuple of str
        About the log.
    table : polars.DataFrame
        target, estimator, value, se, low, high: one row per estimate; low and high are null where a single task
        makes the estimate.
    differences : polars.DataFrame
        target, against, estimator, value, se, low, high, positive (how sure it is that it is above zero).
    by_task : polars.DataFrame
        target, estimator, task, rows, effective_rows, on_policy, value, se, low, high, refused (null, or why).
    by_group : polars.DataFrame
        The same with column and group in place of task, and tasks, the number of them.
    """

    version: str
    settings: Settings
    rows: int
    tasks: int
    arms: int
    rows_in_log: int
    rows_without_reward: int
    rows_without_propensity: int
    on_policy: Estimate
    targets: tuple[TargetReport, ...]
    notes: tuple[str, ...]
    table: pl.DataFrame
    differences: pl.DataFrame
    by_task: pl.DataFrame
    by_group: pl.DataFrame

    @property
    def refused(self) -> bool:
        """True if there is a target without numbers."""
        return any(target.refusals for target in self.targets)

    def estimate(self, target: str | None = None, estimator: str = "dr") -> Estimate:
        """Return one estimate.

        Parameters
        ----------
        target : str, optional
            Default: the first.
        estimator : str
            "ips", "snips", "dm", "dr", "switch-dr", or "replay".

        Raises
        ------
        EvaluationRefused
            If the log cannot answer; the message says why.
        """
        names = [report.name for report in self.targets]
        name = names[0] if target is None else target
        if name not in names:
            raise InvalidValue(f"no target {name!r}; there are {', '.join(map(repr, names))}")
        report = self.targets[names.index(name)]
        if report.refusals:
            raise EvaluationRefused(f"{name}: " + "; ".join(map(str, report.refusals)))
        for row in self.table.iter_rows(named=True):
            if row["target"] == name and row["estimator"] == estimator:
                return Estimate(*(_number(row[part]) for part in ("value", "se", "low", "high")))
        raise InvalidValue(f"no estimate {estimator!r} of {name!r}; ask for it in estimators")

    def __str__(self) -> str:
        from posse.offline.text import evaluation_text

        return evaluation_text(self)

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        columns = ("target", "estimator", "value", "low", "high")
        tables = [Table("reward per decision", columns, self.table.select(columns).rows())] if len(self.table) else []
        if len(self.differences):
            between = ("target", "against", "estimator", "value", "low", "high")
            tables.append(Table("differences", between, self.differences.select(between).rows()))
        notes = [f"{target.name}: refused, {reason}" for target in self.targets for reason in target.refusals]
        return Sheet(
            f"{self.rows:,} decisions of {self.tasks:,} tasks among {self.arms} arms; print() has the diagnostics",
            tables,
            notes,
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values; numbers that there are not are None."""
        tables = {name: getattr(self, name).to_dicts() for name in TABLES}
        content = {
            "format": FORMAT,
            "version": self.version,
            "settings": self.settings,
            **{name: getattr(self, name) for name in COUNTS},
            "on_policy": asdict(self.on_policy),
            "targets": [asdict(target) for target in self.targets],
            "notes": list(self.notes),
            **tables,
        }
        plain: dict[str, Any] = _plain(content)
        return plain

    def save(self, path: str | Path) -> None:
        """Write everything as JSON; numbers that there are not are null."""
        try:
            Path(path).write_text(json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n")
        except OSError as error:
            raise ResultFileError(f"cannot write {path}: {error.strerror or error}; choose another place") from None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote."""
        import polars as pl

        try:
            content = json.loads(Path(path).read_text())
            if content["format"] != FORMAT:
                raise ResultFileError(f"{path} has format {content['format']!r}; this version reads {FORMAT}")
            fields: dict[str, Any] = {name: int(content[name]) for name in COUNTS}
            for name in TABLES:
                fields[name] = pl.DataFrame(content[name], schema=table_schema(name, content[name]), orient="row")
            return cls(
                version=content["version"],
                settings=content["settings"],
                on_policy=_estimate(content["on_policy"]),
                targets=tuple(_target(value) for value in content["targets"]),
                notes=tuple(content["notes"]),
                **fields,
            )
        except OSError as error:
            raise ResultFileError(f"cannot read {path}: {error.strerror or error}") from None
        except ResultFileError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
            raise ResultFileError(f"{path} is not an evaluation that posse saved: {error!r}") from None


TABLES = ("table", "differences", "by_task", "by_group")
COUNTS = ("rows", "tasks", "arms", "rows_in_log", "rows_without_reward", "rows_without_propensity")


def table_schema(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of a table of an evaluation; tasks are text or numbers, as their rows say."""
    import polars as pl

    task = pl.Int64() if rows and isinstance(rows[0].get("task"), int) else pl.String()
    text: dict[str, Any] = {"target": pl.String(), "estimator": pl.String()}
    numbers: dict[str, Any] = dict.fromkeys(("value", "se", "low", "high"), pl.Float64())
    parts = {"rows": pl.Int64(), "effective_rows": pl.Float64(), "on_policy": pl.Float64()}
    why = {"refused": pl.String()}
    group = {"column": pl.String(), "group": pl.String(), "tasks": pl.Int64()}
    schemas: dict[str, dict[str, Any]] = {
        "table": {**text, **numbers},
        "differences": {"target": pl.String(), "against": pl.String(), **text, **numbers, "positive": pl.Float64()},
        "by_task": {**text, "task": task, **parts, **numbers, **why},
        "by_group": {**text, **group, **parts, **numbers, **why},
    }
    return schemas[name]


def make_table(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Return rows as a table of an evaluation, NaN as null."""
    import polars as pl

    return pl.DataFrame([_plain(row) for row in rows], schema=table_schema(name, rows), orient="row")


def _plain(value: Any) -> Any:
    """Return what JSON has words for: NaN and infinity become null and text."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "infinity" if value > 0 else "-infinity"
    return value


def _number(value: Any) -> float:
    if isinstance(value, str):
        return {"infinity": math.inf, "-infinity": -math.inf}[value]
    return math.nan if value is None else float(value)


def _estimate(value: dict[str, Any]) -> Estimate:
    return Estimate(**{name: _number(entry) for name, entry in value.items()})


def _target(value: dict[str, Any]) -> TargetReport:
    found, threshold = value["diagnostics"], value["switch_threshold"]
    if found is not None:
        numbers: dict[str, Any] = {name: _number(entry) for name, entry in found.items() if name != "concentration"}
        numbers |= {name: int(found[name]) for name in ("rows", "tasks")}
        found = Diagnostics(**numbers, concentration=tuple(float(share) for share in found["concentration"]))
    return TargetReport(
        name=value["name"],
        diagnostics=found,
        refusals=tuple(Refusal(**refusal) for refusal in value["refusals"]),
        notes=tuple(value["notes"]),
        switch_threshold=None if threshold is None else _number(threshold),
        steps=value["steps"],
    )
