"""``posse report``: one page for people who decide."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from posse.cli import columns
from posse.errors import InvalidValue


def report(
    fleet: Annotated[
        Path | None, typer.Argument(help="The fleet's file. Default: one that learns from the log.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            "-l",
            help="Its log (see `posse log`) or a table (.csv, .parquet, .jsonl), to say what is gained.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    rule: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="Another way to decide to compare with, as for `posse evaluate --policy`."),
    ] = None,
    unit: Annotated[str, typer.Option(help="The unit of rewards, such as €.")] = "",
    task_name: Annotated[
        str | None, typer.Option(metavar="NOUN", help="What a task is, such as store, or person/people.")
    ] = None,
    arm_name: Annotated[str | None, typer.Option(metavar="NOUN", help="What an arm is, such as offer.")] = None,
    reward_name: Annotated[str | None, typer.Option(metavar="NOUN", help="What a reward is, such as sale.")] = None,
    title: Annotated[str, typer.Option(help="The title of the page.")] = "",
    decisions: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Decisions to look ahead when exploration is weighed. Default: as many as there are rewards.",
        ),
    ] = None,
    absent_reward: Annotated[
        float | None,
        typer.Option(
            metavar="VALUE", help="The reward of rows without one. Default: what the fleet counts them as, or left out."
        ),
    ] = None,
    missing_reward: columns.MissingReward = None,
    rewards: columns.Rewards = None,
    task_column: columns.TaskColumn = "task",
    arm_column: columns.ArmColumn = "arm",
    reward_column: columns.RewardColumn = "reward",
    propensity_column: columns.PropensityColumn = None,
    time_column: columns.TimeColumn = None,
    feature: columns.Features = None,
    ignore: columns.Ignore = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table of all tasks and arms here.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of folds.")] = 0,
) -> None:
    """Write one page for people who decide: what is gained, which arm is best where, when exploring stops paying.

    From a fleet, a log, or both. The page is one file that needs no server and no network. If the log cannot say what
    is gained, the page says why and what would help.
    """
    from posse.cli.progress import stages

    if fleet is None and log is None:
        raise InvalidValue("expected a fleet's file, a log or both, got neither: posse report FLEET --log LOG")
    if rule is not None and log is None:
        raise InvalidValue("expected a log to compare the rule by, got none; pass --log")
    with stages() as begin:
        begin("loading")
        from posse.logs import Names
        from posse.logs.reading import with_missing_rewards
        from posse.report import make_report

        posse = decided = target = None
        if fleet is not None:
            from posse.fleet import Posse

            posse = Posse.load(fleet)
        if log is not None:
            begin("reading the log")
            decided = columns.read(
                log, task=task_column, arm=arm_column, reward=reward_column, propensity=propensity_column,
                time=time_column, features=feature, ignore=ignore or (),
                rewards=rewards,
            )  # fmt: skip
            if missing_reward is not None:
                with columns.in_options():
                    decided = with_missing_rewards(decided, missing_reward, absent_reward)
        if rule is not None and decided is not None:
            from posse.cli.evaluate import target_option

            target = target_option(rule, decided)
        names = replace(
            Names() if decided is None else decided.names,
            **{
                key: noun
                for key, noun in {"task": task_name, "arm": arm_name, "reward": reward_name}.items()
                if noun is not None
            },
        )
        with columns.in_options():
            made = make_report(
                posse,
                decided,
                rule=target,
                coming=decisions,
                unit=unit,
                names=names,
                title=title,
                absent_reward=absent_reward,
                rewards=rewards,  # type: ignore[arg-type]  # checked there
                seed=seed,
                progress=begin,
            )
        begin("writing the page")
        made.save(out)
        if csv is not None:
            made.save_table(csv)
    typer.echo(str(made))
    typer.echo(f"wrote {out}")
    if csv is not None:
        typer.echo(f"wrote {csv}")
