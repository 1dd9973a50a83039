"""``posse fit``: a fleet from a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli import columns
from posse.errors import InvalidValue

if TYPE_CHECKING:
    import polars as pl

    from posse.features import FeatureSpec
    from posse.fleet import Overview, Posse
    from posse.fleet.expecting import Rate
    from posse.fleet.names import Label
    from posse.logs.many import ScannedTables

    Described = tuple[Overview, dict[Label, Rate]]


def fit(
    log: Annotated[
        Path,
        typer.Argument(
            help="A log (see `posse log`) or a table (.csv, .parquet, .jsonl), or a folder or glob pattern of tables "
            "(.parquet, .csv), which may have more rows than fit in memory."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to save the fleet.")] = Path("fleet.posse"),
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="ebm-rand-ucb, ebm-ts, ebm-ucb, lin-ucb or random.")
    ] = "ebm-rand-ucb",
    feature: columns.Features = None,
    ignore: columns.Ignore = None,
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
    task: columns.TaskColumn = "task",
    arm: columns.ArmColumn = "arm",
    reward: columns.RewardColumn = "reward",
    absent_reward: Annotated[
        float | None,
        typer.Option(metavar="VALUE", help="The reward of rows and later decisions without one. Default: none."),
    ] = None,
    propensity: columns.PropensityColumn = None,
    missing_reward: columns.MissingReward = None,
    rewards: columns.Rewards = None,
    drift: Annotated[
        str | None,
        typer.Option(metavar="DAYS", help="Half-life of old rewards, or `learn`. Default: old rewards count in full."),
    ] = None,
    time: columns.TimeColumn = None,
    floor: Annotated[float, typer.Option(help="The least probability of every eligible arm.")] = 0.0,
    evaluation_budget: Annotated[
        float,
        typer.Option(help="Share of the gain to spend on exploration, for off-policy evaluation, 0 to 1."),
    ] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Seed of the fleet's random decisions.")] = None,
    engine: Annotated[
        str,
        typer.Option(help="Where to learn: `local`, this process; or `ray`, a cluster, for Parquet files."),
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster. Default: RAY_ADDRESS, or one on this machine.")
    ] = None,
    shards: Annotated[
        int, typer.Option(help="With `--engine ray`: files that the fleet is written to, beside its manifest.")
    ] = 2,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Where a long fit saves its progress, to resume if it was interrupted; with `--engine "
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
        from posse.features.declare import representative_rows
        from posse.fleet import Posse
        from posse.fleet.tables import learn_log, settings_for
        from posse.logs.reading import with_missing_rewards

        one_of(engine, "--engine", ("local", "ray"))
        if features is not None and (feature or standardise):
            raise InvalidValue("give --features, --feature or --standardise, not two of them: the file says it all")
        many = is_many(log) or engine == "ray"
        if many and task_feature:
            raise InvalidValue(
                "expected one table or log with --task-feature, got files that are read in batches, where the last row "
                "of a task may be in any; give one table of at most a million rows"
            )
        if many and drift is not None and time is None:
            raise InvalidValue(
                "expected --time-column with --drift, got files that are read in batches without; name the column that "
                "says when"
            )
        if engine == "ray" and time is not None:
            raise InvalidValue("expected no --time-column with --engine ray, got one; leave one of them out")
        begin("reading the log")
        settings: dict[str, Any] = {
            "policy": policy,
            "seed": seed,
            "drift": _drift(drift),
            "floor": floor,
            "evaluation_budget": evaluation_budget,
            "absent_reward": absent_reward,
        }
        asked: dict[str, Any] = {
            "task": task,
            "arm": arm,
            "reward": reward,
            "propensity": propensity,
            "time": time,
            "features": feature,
            "ignore": ignore or (),
            "also": [name for name in task_feature or () if name not in (feature or ())],
        }
        if many:
            found, missing = _examine(log, asked, rewards, missing_reward, absent_reward)
            spec = _declared(representative_rows(found.contexts), features, standardise=standardise)
            settings |= {"arms": found.arms, "features": spec, "rewards": found.rewards}
            used = {"task": task, "arm": arm, "reward": reward, "missing_reward": missing}
            used |= {} if time is None or drift is None else {"time": time}
        else:
            logged = columns.read(log, **asked, rewards=rewards)
            read_rows = logged.n_rows
            with columns.in_options():
                logged = with_missing_rewards(logged, missing_reward, absent_reward)
            contexts, of_tasks = logged.contexts, None
            if task_feature:
                of_tasks = _task_table(log, logged.frame["task"], contexts, logged.task_features, task_feature)
                contexts = contexts.drop(task_feature)
            spec = _declared(contexts, features, standardise=standardise)
            settings |= _task_features(of_tasks, standardise=standardise)
            with columns.in_options():
                fleet = Posse(**settings_for(logged, spec, settings))
            if of_tasks is not None:
                fleet.set_task_features(of_tasks)
            begin(f"learning {logged.n_rows:,} rows")
            learned = learn_log(fleet, logged)
            begin("saving")
            fleet.save(out)
            begin("looking at what was learned")
            described = _describe(fleet)
    # What takes longer has a progress of its own.
    if engine == "ray":
        from posse.cli.fit_ray import fit_on_ray

        fit_on_ray(
            log, out, settings, used, shards=shards, address=address,
            checkpoint=checkpoint or Path(f"{out}.checkpoint"), as_json=json,
        )  # fmt: skip
        return
    if many:
        fleet = Posse(**settings)
        read_rows, learned, described = _stream(fleet, log, used, checkpoint or Path(f"{out}.checkpoint"), out)
    _report(described, fleet.features.names, learned, read_rows - learned, out, json)


def _stream(fleet: Posse, path: Path, used: dict[str, Any], checkpoint: Path, out: Path) -> tuple[int, int, Described]:
    """Learn files in batches and write the fleet; return how many rows were read and learned, and what was learned."""
    from posse.cli.progress import rows_done

    with rows_done() as progress:
        learned = fleet.learn_many(
            path, **used, checkpoint=checkpoint, progress=progress
        )  # fmt: skip
        fleet.save(out)
        described = _describe(fleet)
    checkpoint.unlink(missing_ok=True)
    return progress.rows, learned, described


def _examine(
    path: Path, asked: dict[str, Any], rewards: str | None, missing: str | None, absent: float | None
) -> tuple[ScannedTables, str]:
    """Return what is known of files before they are read, and what becomes of rows without a reward."""
    from posse.batches import TableFiles
    from posse.logs.columns import Asked
    from posse.logs.many import scan_tables

    with columns.in_options():
        found = scan_tables(TableFiles(path), Asked.of(**asked), rewards)
        decided = found.missing_reward(missing, absent)
    columns.show_columns(found.columns)
    return found, decided


def _task_table(
    path: Path, tasks: pl.Series, contexts: pl.DataFrame, logged: pl.DataFrame | None, names: list[str]
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
    if logged is not None and set(names) <= set(logged.columns):
        logged = logged.group_by("task", maintain_order=True).agg(last)
        found = pl.concat(
            [logged, found.join(logged, on="task", how="anti").select(logged.columns)], how="vertical_relaxed"
        )
    # About a task of which nothing is ever logged, nothing is known.
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


def _declared(contexts: pl.DataFrame, path: Path | None, *, standardise: bool) -> FeatureSpec:
    import json

    from posse.features import FeatureSpec

    if path is None:
        return FeatureSpec.from_table(contexts, scale="standard" if standardise else None)
    try:
        return FeatureSpec.from_json(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise InvalidValue(f"cannot read the features of {path}: {error}") from None


def _describe(fleet: Posse) -> Described:
    from posse.fleet.expecting import expected_rates

    return fleet.overview(), expected_rates(fleet)


def _report(
    described: Described, features: Sequence[str], learned: int, skipped: int, out: Path, as_json: bool
) -> None:
    from posse.cli.inspect import print_overview

    overview, rates = described
    if as_json:
        from json import dumps

        print(dumps(overview.to_json() | {"rows": learned, "skipped": skipped, "file": str(out)}, indent=2))
        return
    without = f", {skipped:,} without a reward left out" if skipped else ""
    print_overview(overview, title=f"{learned:,} rewards learned{without}", rates=rates)
    print(f"features: {', '.join(features) or 'none'}")
    print(f"wrote {out}; look at it with: posse inspect {out}")
