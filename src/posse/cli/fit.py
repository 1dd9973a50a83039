"""``posse fit``: a fleet from a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.columns import ArmColumn, RewardColumn, TaskColumn, read_table, require_columns
from posse.errors import InvalidValue

if TYPE_CHECKING:
    import polars as pl

    from posse.features import FeatureSpec
    from posse.fleet import Posse


def fit(
    log: Annotated[Path, typer.Argument(help="A log (.jsonl, .parquet; see `posse log`) or a table (.parquet, .csv).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The fleet's file.")] = Path("fleet.posse"),
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="ebm-rand-ucb, ebm-ts, ebm-ucb, hier-ts, lin-ts, lin-ucb or random.")
    ] = "ebm-rand-ucb",
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME", help="A feature; repeat for more. Default: all there are."),
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="A JSON file that declares the features, as FeatureSpec.to_json gives it.")
    ] = None,
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Give every number mean 0 and standard deviation 1, as in this table.")
    ] = False,
    task: TaskColumn = "task",
    arm: ArmColumn = "arm",
    reward: RewardColumn = "reward",
    absent_reward: Annotated[
        float | None,
        typer.Option(metavar="VALUE", help="The reward of rows without one, and of the fleet's. Default: left out."),
    ] = None,
    rewards: Annotated[
        str, typer.Option(help="What rewards are: number, binary (0 or 1: clicks) or count (0, 1, 2, ...).")
    ] = "number",
    drift: Annotated[
        str | None,
        typer.Option(metavar="DAYS", help="Half-life of what was learned, or `learn`. Default: nothing fades."),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --drift, when rewards came. Default: the log's own times."),
    ] = None,
    floor: Annotated[float, typer.Option(help="The least probability of every eligible arm.")] = 0.0,
    evaluation_budget: Annotated[
        float,
        typer.Option(help="What a log that can be evaluated may cost, as a share of the gain over chance, 0 to 1."),
    ] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Of the fleet's decisions.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was learned as JSON.")] = False,
) -> None:
    """Learn a fleet from a log of decisions and rewards, or from any table with task, arm, reward and features."""
    from posse.families import family_of
    from posse.fleet import Posse

    frame, arms, contexts = _read(log, task, arm, reward)
    if time_column is not None:
        if drift is None:
            raise InvalidValue("--time-column says when old rewards came, which matters with --drift only; give both")
        if time_column not in frame.columns:
            raise InvalidValue(f"expected a column {time_column!r} in {log}, got {', '.join(frame.columns)}")
        contexts = contexts.drop(time_column, strict=False)
    time = time_column
    if drift is not None and time is None and {"time", "reward_time"} <= set(frame.columns):
        # As of when rewards came, or, where the log does not say, of when it was decided.
        frame, time = frame.with_columns(_came=frame["reward_time"].fill_null(frame["time"])), "_came"
        if frame["_came"].null_count():
            time = None
    spec = _declared(contexts, feature, features, standardise=standardise)
    fleet = Posse(
        arms=arms,
        features=spec,
        policy=policy,
        seed=seed,
        rewards=family_of(rewards).name,  # type: ignore[arg-type]
        drift=_drift(drift),
        floor=floor,
        evaluation_budget=evaluation_budget,
        absent_reward=absent_reward,
        count_pending=(rewards == "number" and drift is None) or absent_reward is None,
    )
    missing = "skip" if absent_reward is None else "absent"
    learned = fleet.learn_many(frame, task=task, arm=arm, reward=reward, missing_reward=missing, time=time)
    fleet.save(out)
    _report(fleet, learned, frame.height - learned, out, json)


def _drift(given: str | None) -> Any:
    """Return a half-life in days, or the word that was given."""
    if given is None or given == "learn":
        return given
    try:
        return float(given)
    except ValueError:
        raise InvalidValue(f"expected --drift as a number of days or `learn`, got {given!r}") from None


def _read(path: Path, task: str, arm: str, reward: str) -> tuple[pl.DataFrame, list[Any], pl.DataFrame]:
    """Return the rows, the arms there are, and the raw features of every row."""
    from posse.logs import read_log
    from posse.logs.schema import COLUMNS

    table = read_table(path)
    if table is None:
        log = read_log(path)
        if log.unknown and not log.features:
            raise InvalidValue(
                f"{path} has no features: a log has them under 'context', and {', '.join(log.unknown)} were not read; "
                "put them there, or write a table (.parquet, .csv)"
            )
        return log.frame, log.arms, log.contexts
    require_columns(table, path, task=task, arm=arm, reward=reward)
    arms = table.get_column(arm).drop_nulls().unique().sort().to_list()
    # What a log says about its decisions is not known before them.
    return table, arms, table.drop(*{task, arm, reward, *COLUMNS} & set(table.columns))


def _declared(contexts: pl.DataFrame, names: list[str] | None, path: Path | None, *, standardise: bool) -> FeatureSpec:
    import json

    from posse.features import FeatureSpec

    if path is None:
        return FeatureSpec.from_table(contexts, columns=names, scale="standard" if standardise else None)
    if names:
        raise InvalidValue("give --feature or --features, not both")
    if standardise:
        raise InvalidValue("give --standardise or --features, not both; a declared feature has its own scale")
    try:
        return FeatureSpec.from_json(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise InvalidValue(f"cannot read the features of {path}: {error}") from None


def _report(fleet: Posse, learned: int, skipped: int, out: Path, as_json: bool) -> None:
    from posse.cli.inspect import print_overview

    overview = fleet.overview()
    if as_json:
        from json import dumps

        print(dumps(overview.to_json() | {"rows": learned, "skipped": skipped, "file": str(out)}, indent=2))
        return
    without = f", {skipped:,} without a reward left out" if skipped else ""
    print_overview(overview, title=f"{learned:,} rewards learned{without}")
    print(f"features: {', '.join(fleet.features.names) or 'none'}")
    print(f"wrote {out}; look at it with: posse inspect {out}")
