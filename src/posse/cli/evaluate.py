"""``posse evaluate``: what other policies would have earned, from a log."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli import columns
from posse.cli.options import is_rule, load_rule
from posse.errors import InvalidValue, UnknownArm

if TYPE_CHECKING:
    from posse.logs import Log

TARGETS = (
    "the file of a fleet or catalogue, `greedy:FILE` (the same without exploration), `uniform`, `logged`, "
    "`always:ARM`, `learned:KEY[:SETTING=VALUE,...]` (ebm-rand-ucb, ebm-ts or ebm-ucb, learned from this log, "
    "cross-fitted), `replay:KEY[:SETTING=VALUE,...]` (any policy that learns as it goes), `FILE.py:NAME` (a function "
    "of task and context, with a third parameter also of the eligible arms), or `column:NAME` (the arm that a feature "
    "names)"
)


def evaluate(
    log: Annotated[
        Path,
        typer.Argument(
            help="A log (see `posse log`) or a table (.csv, .parquet, .jsonl), with the probability of every decision."
        ),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", metavar="TARGET", help=f"What to evaluate; repeat for more: {TARGETS}."),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="FILE.py:NAME",
            help="A rule of your own to evaluate: a Python function(task, context), of a catalogue's log "
            "function(task, context, arms), that returns an arm; repeatable.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", "-a", metavar="TARGET", help="What to compare it with, e.g. `logged`."),
    ] = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            "-e",
            help="ips, snips, dm, dr or switch-dr; repeat for more. Default: all, of a catalogue's log ips and snips.",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="COLUMN", help="Also by this column or feature; repeat for more."),
    ] = None,
    absent_reward: Annotated[
        float | None, typer.Option(metavar="VALUE", help="The reward of rows without one. Default: none.")
    ] = None,
    missing_reward: columns.MissingReward = None,
    rewards: columns.Rewards = None,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only decisions before this time, e.g. 2026-03-01.")
    ] = None,
    task_column: columns.TaskColumn = "task",
    arm_column: columns.ArmColumn = "arm",
    reward_column: columns.RewardColumn = "reward",
    propensity_column: columns.PropensityColumn = None,
    time_column: columns.TimeColumn = None,
    feature: columns.Features = None,
    ignore: columns.Ignore = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    folds: Annotated[int, typer.Option(help="Folds of the cross-fitting.")] = 5,
    clip: Annotated[float | None, typer.Option(help="Clip importance weights at this; adds a bias.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of folds and replays.")] = 0,
    plot: Annotated[list[Path] | None, typer.Option(help="Draw to this PNG, SVG or PDF; repeatable.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write everything, tasks and groups included, to this JSON file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Estimate what policies would have earned per decision, or say why the data cannot tell (exit status 1)."""
    from posse.cli.progress import stages

    if plot:
        from posse.plotting.style import check_figure_paths

        check_figure_paths(plot)
    if not policy and not rule:
        raise InvalidValue("expected something to evaluate, got nothing; pass --policy TARGET or --rule FILE.py:NAME")
    with stages() as begin:
        begin("loading")
        from posse.logs.reading import with_missing_rewards
        from posse.offline import evaluate as run

        begin("reading the log")
        rows = columns.read(
            log, task=task_column, arm=arm_column, reward=reward_column, propensity=propensity_column,
            time=time_column, features=feature, ignore=ignore or (), rewards=rewards,
            also=_columns_of(policy, against),
        )  # fmt: skip
        if before is not None:
            rows = decisions_before(rows, before)
        with columns.in_options():
            rows = with_missing_rewards(rows, missing_reward, absent_reward)
        targets = [*(target_option(text, rows) for text in policy or ()), *map(load_rule, rule or ())]
        begin("estimating what they would have earned")
        evaluation = run(
            rows,
            targets,
            against=None if against is None else target_option(against, rows),
            estimators=tuple(estimator) if estimator else None,
            groups=tuple(group or ()),
            rewards=rewards,  # type: ignore[arg-type]  # checked there
            confidence=confidence,
            folds=folds,
            clip=clip,
            seed=seed,
            progress=begin,
        )
    typer.echo(dumps(evaluation.to_json(), indent=2) if json else str(evaluation))
    if out is not None:
        evaluation.save(out)
        typer.echo(f"wrote {out}", err=True)
    if plot and not evaluation.table.is_empty():
        from posse.plotting.offline import plot_evaluation

        plot_evaluation(evaluation, plot)
        for path in plot:
            typer.echo(f"wrote {path}", err=True)
    if evaluation.refused:
        names = ", ".join(target.name for target in evaluation.targets if target.refusals)
        typer.echo(f"posse: the log cannot tell about {names}; the reasons stand above", err=True)
        raise typer.Exit(1)


def _columns_of(policy: list[str] | None, against: str | None) -> list[str]:
    """Return the columns that targets read arms from, which may look like anything."""
    named = [text.partition(":") for text in (*(policy or ()), against or "")]
    return list(dict.fromkeys(name for kind, _, name in named if kind == "column" and name))


def decisions_before(log: Log, text: str) -> Log:
    """Return the decisions of a log before a time; those without a time are an error."""
    from dataclasses import replace
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(
            f"expected --before to be a time such as 2026-03-01 or 2026-03-01T12:00, got {text!r}"
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    times = log.frame["time"]
    if times.null_count():
        raise InvalidValue(f"--before needs the time of every decision, but {times.null_count()} of the log have none")
    return replace(log, frame=log.frame.filter(times < moment))


def target_option(text: str, log: Log) -> Any:
    """Return the target that was typed."""
    from posse.cli.options import policy_option
    from posse.offline import Always, Column, Fleet, Learned, Logged, Replay, Uniform

    kind, _, rest = text.partition(":")
    if is_rule(text):
        return load_rule(text)
    if kind == "column" and rest:
        return Column(rest)
    if text in ("uniform", "logged"):
        return Uniform() if text == "uniform" else Logged()
    if kind == "always" and rest:
        found = [arm for arm in log.arms if str(arm) == rest]
        if not found:
            raise UnknownArm(f"no arm {rest!r} in the log; its arms are {', '.join(map(repr, log.arms))}")
        return Always(found[0])
    if kind in ("learned", "replay") and rest:
        factory = policy_option(rest)
        label = f"{kind} {rest.partition(':')[0]}" + (f" ({rest.partition(':')[2]})" if ":" in rest else "")
        if kind == "replay":
            return Replay(factory, label=label)
        return Learned(rest.partition(":")[0], label=label, **factory.keywords)
    greedy = kind == "greedy" and bool(rest)
    path = Path(rest if greedy else text)
    if not path.is_file():
        raise InvalidValue(
            f"no target {text!r}: it must be the file of a fleet, uniform, logged, always:ARM, learned:KEY, "
            "replay:KEY, FILE.py:NAME or column:NAME (posse evaluate --help says more)"
        )
    from posse.fleet.catalogue import Catalogue, is_catalogue
    from posse.fleet.posse import Posse

    label = f"{path.name}, greedy" if greedy else path.name
    return Fleet(Catalogue.load(path) if is_catalogue(path) else Posse.load(path), label=label, explore=not greedy)
