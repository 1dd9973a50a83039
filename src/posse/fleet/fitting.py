"""A fleet from a table of decisions and rewards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from posse.batches import TableFiles, is_many
from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.features.declare import representative_rows
from posse.logs.columns import Asked
from posse.logs.many import scan_tables
from posse.logs.reading import read_table, with_missing_rewards

if TYPE_CHECKING:
    import polars as pl

    from posse.fleet.posse import Posse
    from posse.logs import Log


F = TypeVar("F", bound="Posse")


def fit_fleet(
    fleets: type[F],
    table: Any,
    asked: Asked,
    *,
    features: FeatureSpec | None,
    rewards: str | None,
    missing_reward: str | None,
    settings: dict[str, Any],
) -> F:
    """Return a fleet that has learned a table; see :meth:`posse.Posse.fit`."""
    absent = settings.get("absent_reward")
    if not is_many(table):
        log = with_missing_rewards(read_table(table, **asked._asdict(), rewards=rewards), missing_reward, absent)
        fleet = fleets(**settings_for(log, features, settings))
        learn_log(fleet, log)
        return fleet
    if not isinstance(table, str | Path):
        raise InvalidValue("expected a table or files to fit, got an iterator; make a fleet, and use learn_many")
    scanned = scan_tables(TableFiles(table), asked, rewards)
    missing = scanned.missing_reward(missing_reward, absent)
    spec = FeatureSpec.from_table(representative_rows(scanned.contexts)) if features is None else features
    made: dict[str, Any] = {"arms": scanned.arms, "features": spec, "rewards": scanned.rewards}
    fleet = fleets(**made | settings)
    fleet.learn_many(table, task=asked.task, arm=asked.arm, reward=asked.reward, missing_reward=missing)
    return fleet


def settings_for(log: Log, features: FeatureSpec | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a fleet that learns a log: its arms, features and rewards, unless others are given."""
    if not log.n_rows:
        raise InvalidValue("expected a log with decisions, got one without rows")
    if log.unknown and not log.features:
        raise InvalidValue(
            f"expected features under 'context', got none, and {', '.join(log.unknown)} were not read; put them there, "
            "or pass a table"
        )
    spec = FeatureSpec.from_table(log.contexts) if features is None else features
    return {"arms": log.arms, "features": spec, "rewards": log.rewards} | settings


def learn_log(fleet: Posse, log: Log) -> int:
    """Learn the rows of a log that have a reward, where a fleet drifts as of their times; return how many."""
    frame, time = (log.frame, None) if fleet._engine.fading is None else _with_times(log.frame)
    return fleet.learn_many(frame, missing_reward="skip", time=time)


def _with_times(frame: pl.DataFrame) -> tuple[pl.DataFrame, str | None]:
    """Return rows, and the column that says when rewards came, or decisions were made, if the rows say so."""
    came = frame["reward_time"].fill_null(frame["time"])
    missing = came.null_count()
    if 0 < missing < frame.height:
        raise InvalidValue(
            f"expected the time of every row with drift, got {missing} of {frame.height} rows without; give them one, "
            "or leave them out"
        )
    return frame.with_columns(_came=came), None if missing else "_came"
