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
    log: Annotated[
        Path,
        typer.Argument(
            help="A log (.jsonl, .parquet; see `posse log`), a table (.parquet, .csv), or a folder or glob pattern of "
            "tables, which may have more rows than fit in memory."
        ),
    ],
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
    task_feature: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A column or feature that belongs to the task, such as its region: new tasks start where those like "
            "them are. Repeat for more. Default: none.",
        ),
    ] = None,
    task: TaskColumn = "task",
    arm: ArmColumn = "arm",
    reward: RewardColumn = "reward",
    absent_reward: Annotated[
        float | None,
        typer.Option(metavar="VALUE", help="The reward of rows without one, and of the fleet's. Default: left out."),
    ] = None,
    rewards: Annotated[
        str | None,
        typer.Option(
            help="What rewards are: number, binary (0 or 1: clicks) or count (0, 1, 2, ...). Default: what the log "
            "says; binary if they are true and false, else number."
        ),
    ] = None,
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
    engine: Annotated[
        str, typer.Option(help="Where: `local`, this process; or `ray`, a cluster, for Parquet files (posse[ray]).")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster. Default: RAY_ADDRESS, or one on this machine.")
    ] = None,
    shards: Annotated[
        int, typer.Option(help="With `--engine ray`: files that the fleet is written to, beside its manifest.")
    ] = 2,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Where a fit of many rows notes how far it is, to go on there if it was interrupted; with `--engine "
            "ray` a folder that all machines see. Default: the fleet's file with .checkpoint behind it."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was learned as JSON.")] = False,
) -> None:
    """Learn a fleet from a log of decisions and rewards, or from any table with task, arm, reward and features."""
    from posse.cli.progress import stages

    with stages() as begin:
        begin("loading")
        from posse.batches import is_many
        from posse.checks import one_of
        from posse.families import family_of
        from posse.fleet import Posse

        one_of(engine, "--engine", ("local", "ray"))
        many = is_many(log) or engine == "ray"
        begin("reading the log")
        frame, arms, contexts, said, found = (_look if many else _read)(log, task, arm, reward)
        frame, contexts, time = _with_times(frame, contexts, log, drift, time_column, many=many)
        if task_feature and many:
            raise InvalidValue(
                "expected one table with --task-feature, got files that are read in batches; give one table"
            )
        of_tasks = None if not task_feature else _task_table(log, frame[task], contexts, said, task_feature)
        contexts = contexts.drop(task_feature or (), strict=False)
        spec = _declared(contexts, feature, features, standardise=standardise)
        settings: dict[str, Any] = {
            "arms": arms,
            "features": spec,
            **_task_features(of_tasks, standardise=standardise),
            "policy": policy,
            "seed": seed,
            "rewards": family_of(found if rewards is None else rewards).name,
            "drift": _drift(drift),
            "floor": floor,
            "evaluation_budget": evaluation_budget,
            "absent_reward": absent_reward,
            "count_pending": drift is None or absent_reward is None,
        }
        missing = "skip" if absent_reward is None else "absent"
        columns: dict[str, Any] = {"task": task, "arm": arm, "reward": reward, "missing_reward": missing}
        if not many:
            fleet = Posse(**settings)
            if of_tasks is not None:
                fleet.set_task_features(of_tasks)
            begin(f"learning {frame.height:,} rows")
            read, learned = frame.height, fleet.learn_many(frame, **columns, time=time)
            begin("saving")
            fleet.save(out)
    # What takes longer has a progress of its own.
    if engine == "ray":
        from posse.cli.fit_ray import fit_on_ray

        fit_on_ray(
            log, out, settings, columns, shards=shards, address=address,
            checkpoint=checkpoint or Path(f"{out}.checkpoint"), as_json=json,
        )  # fmt: skip
        return
    if many:
        fleet = Posse(**settings)
        read, learned = _stream(fleet, log, columns, checkpoint or Path(f"{out}.checkpoint"), out)
    _report(fleet, learned, read - learned, out, json)


def _stream(fleet: Posse, path: Path, columns: dict[str, Any], checkpoint: Path, out: Path) -> tuple[int, int]:
    """Learn files in batches and write the fleet; return how many rows were read, and how many were learned."""
    from posse.cli.progress import rows_done
    from posse.fleet.snapshot import freeze_fleet

    numbers = fleet.rewards == "number"
    with rows_done() as progress:
        learned = fleet.learn_many(
            path, **columns, checkpoint=checkpoint if numbers else None, progress=progress
        )  # fmt: skip
    if numbers:
        freeze_fleet(fleet)(out)  # beliefs about pairs would double the memory, and are computed when asked for
    else:
        fleet.save(out)
    checkpoint.unlink(missing_ok=True)
    return progress.rows, learned


def _look(path: Path, task: str, arm: str, reward: str) -> tuple[pl.DataFrame, list[Any], pl.DataFrame, None, str]:
    """Return no rows, arms, a few rows to declare features from, nothing about tasks, and what rewards are."""
    import polars as pl

    from posse.batches import TableFiles
    from posse.cli.columns import INDEX
    from posse.features.declare_files import look_at
    from posse.logs.schema import COLUMNS

    files = TableFiles(path)
    require_columns(pl.DataFrame(schema=files.schema), path, task=task, arm=arm, reward=reward)
    arms = files.scan().select(pl.col(arm).drop_nulls().unique()).collect(engine="streaming")[arm].sort().to_list()
    if isinstance(context := files.schema.get("context"), pl.Struct):
        contexts = files.scan().select(pl.col("context").struct.field(*(field.name for field in context.fields)))
    else:
        others = {task, arm, reward, *COLUMNS}
        contexts = files.scan().select(
            [name for name in files.schema if name not in others and not INDEX.fullmatch(name)]
        )
    said = (
        files.scan().select(pl.col("reward_family").drop_nulls().unique()) if "reward_family" in files.schema else None
    )
    names = [] if said is None else said.collect(engine="streaming")["reward_family"].to_list()
    family = names[0] if len(names) == 1 else "binary" if files.schema[reward] == pl.Boolean() else "number"
    return pl.DataFrame(), arms, look_at(contexts), None, family


def _with_times(
    frame: pl.DataFrame, contexts: pl.DataFrame, log: Path, drift: str | None, column: str | None, *, many: bool
) -> tuple[pl.DataFrame, pl.DataFrame, str | None]:
    """Return rows, their contexts, and the column that says when rewards came, if anybody does."""
    if column is not None:
        if drift is None:
            raise InvalidValue("--time-column says when old rewards came, which matters with --drift only; give both")
        if many:
            raise InvalidValue(
                "expected one table with --time-column, got files that are read in batches; give one table"
            )
        if column not in frame.columns:
            raise InvalidValue(f"expected a column {column!r} in {log}, got {', '.join(frame.columns)}")
        return frame, contexts.drop(column, strict=False), column
    if drift is not None and many:
        raise InvalidValue(
            "expected one table or log with --drift, got files that are read in batches, whose times would not be "
            "read; give one table of at most a million rows"
        )
    if drift is not None and {"time", "reward_time"} <= set(frame.columns):
        # As of when rewards came, or, where the log does not say, of when it was decided.
        frame = frame.with_columns(_came=frame["reward_time"].fill_null(frame["time"]))
        missing = frame["_came"].null_count()
        if 0 < missing < frame.height:
            raise InvalidValue(
                f"expected the time of every row with --drift, got {missing} of {frame.height} rows without; give "
                "them one, or leave them out"
            )
        return frame, contexts, None if missing else "_came"
    return frame, contexts, None


def _task_table(
    path: Path, tasks: pl.Series, contexts: pl.DataFrame, said: pl.DataFrame | None, names: list[str]
) -> pl.DataFrame:
    """Return what is known about every task: what its last row says, or the log's last line about it."""
    import polars as pl

    absent = [name for name in names if name not in contexts.columns]
    if absent:
        raise InvalidValue(
            f"expected --task-feature to name features of {path}, got {', '.join(map(repr, absent))}; there are "
            f"{', '.join(map(repr, contexts.columns)) or 'none'}"
        )
    last = [pl.col(name).drop_nulls().last() for name in names]
    found = contexts.select(names).with_columns(tasks.alias("task")).group_by("task", maintain_order=True).agg(last)
    if said is not None and set(names) <= set(said.columns):
        said = said.group_by("task", maintain_order=True).agg(last)
        found = pl.concat([said, found.join(said, on="task", how="anti").select(said.columns)], how="vertical_relaxed")
    # About a task of which nothing is ever said, nothing is known.
    return found.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in names))


def _task_features(table: pl.DataFrame | None, *, standardise: bool) -> dict[str, Any]:
    """Return the setting of a fleet that knows something about its tasks."""
    from posse.features import FeatureSpec

    if table is None:
        return {}
    scale = "standard" if standardise else None
    return {"task_features": FeatureSpec.from_table(table.drop("task"), scale=scale)}


def _drift(given: str | None) -> Any:
    """Return a half-life in days, or the word that was given."""
    if given is None or given == "learn":
        return given
    try:
        return float(given)
    except ValueError:
        raise InvalidValue(f"expected --drift as a number of days or `learn`, got {given!r}") from None


def _read(
    path: Path, task: str, arm: str, reward: str
) -> tuple[pl.DataFrame, list[Any], pl.DataFrame, pl.DataFrame | None, str]:
    """Return rows, arms, raw features of every row, what lines of a log say about tasks, and what rewards are."""
    import polars as pl

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
        return log.frame, log.arms, log.contexts, log.task_features, log.rewards
    require_columns(table, path, task=task, arm=arm, reward=reward)
    arms = table.get_column(arm).drop_nulls().unique().sort().to_list()
    family = "binary" if table[reward].dtype == pl.Boolean() else "number"
    # What a log says about its decisions is not known before them.
    return table, arms, table.drop(*{task, arm, reward, *COLUMNS} & set(table.columns)), None, family


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
    from posse.fleet.rates import expected_rates

    overview = fleet.overview()
    if as_json:
        from json import dumps

        print(dumps(overview.to_json() | {"rows": learned, "skipped": skipped, "file": str(out)}, indent=2))
        return
    without = f", {skipped:,} without a reward left out" if skipped else ""
    print_overview(overview, title=f"{learned:,} rewards learned{without}", rates=expected_rates(fleet))
    print(f"features: {', '.join(fleet.features.names) or 'none'}")
    print(f"wrote {out}; look at it with: posse inspect {out}")
