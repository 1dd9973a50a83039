"""``posse evaluate``: what other policies would have earned, from a log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.errors import InvalidValue, UnknownArm

if TYPE_CHECKING:
    from posse.logs import Log

TARGETS = (
    "a fleet's file, `greedy:FILE` (the fleet without exploration), `uniform`, `logged`, `always:ARM`, "
    "`learned:KEY[:SETTING=VALUE,...]` (ebm-rand-ucb, ebm-ts or ebm-ucb, learned from this log, cross-fitted), or "
    "`replay:KEY[:SETTING=VALUE,...]` (any policy that learns as it goes)"
)


def evaluate(
    log: Annotated[Path, typer.Argument(help="A log with propensities (.jsonl, .parquet; see `posse log`).")],
    policy: Annotated[
        list[str],
        typer.Option("--policy", "-p", metavar="TARGET", help=f"What to evaluate; repeat for more: {TARGETS}."),
    ],
    against: Annotated[
        str | None,
        typer.Option("--against", "-a", metavar="TARGET", help="What to compare it with, e.g. `logged`."),
    ] = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option("--estimator", "-e", help="ips, snips, dm, dr or switch-dr; repeat for more. Default: all."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="COLUMN", help="Also by this column or feature; repeat for more."),
    ] = None,
    absent_reward: Annotated[
        float | None, typer.Option(metavar="VALUE", help="The reward of rows without one. Default: left out.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(help="How often tasks are resampled.")] = 2000,
    folds: Annotated[int, typer.Option(help="Folds for what is learned from the log and judged by it.")] = 5,
    clip: Annotated[float | None, typer.Option(help="Cut weights to this; adds a bias.")] = None,
    seed: Annotated[int, typer.Option(help="Of resamples, folds and replays.")] = 0,
    plot: Annotated[list[Path] | None, typer.Option(help="Draw to this PNG, SVG or PDF; repeatable.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything, tasks and groups included, as JSON.")] = None,
) -> None:
    """Estimate what policies would have earned per decision, or say why the log cannot tell (exit status 1)."""
    from posse.logs import read_log
    from posse.offline import ESTIMATORS
    from posse.offline import evaluate as run

    if plot:
        from posse.plotting.style import check_figure_paths

        check_figure_paths(plot)
    rows = read_log(log)
    if absent_reward is not None:
        rows = rows.with_rewards(absent_reward)
    evaluation = run(
        rows,
        [target_option(text, rows) for text in policy],
        against=None if against is None else target_option(against, rows),
        estimators=tuple(estimator or ESTIMATORS),
        groups=tuple(group or ()),
        confidence=confidence,
        resamples=resamples,
        folds=folds,
        clip=clip,
        seed=seed,
    )
    typer.echo(str(evaluation))
    if json is not None:
        evaluation.save(json)
        typer.echo(f"wrote {json}", err=True)
    if plot and not evaluation.table.is_empty():
        from posse.plotting.offline import plot_evaluation

        plot_evaluation(evaluation, plot)
        for path in plot:
            typer.echo(f"wrote {path}", err=True)
    if evaluation.refused:
        names = ", ".join(target.name for target in evaluation.targets if target.refusals)
        typer.echo(f"posse: the log cannot tell about {names}; the reasons stand above", err=True)
        raise typer.Exit(1)


def target_option(text: str, log: Log) -> Any:
    """Return the target that was typed."""
    from posse.cli.options import policy_options
    from posse.offline import Always, Fleet, Learned, Logged, Replay, Uniform

    kind, _, rest = text.partition(":")
    if text in ("uniform", "logged"):
        return Uniform() if text == "uniform" else Logged()
    if kind == "always" and rest:
        found = [arm for arm in log.arms if str(arm) == rest]
        if not found:
            raise UnknownArm(f"no arm {rest!r} in the log; its arms are {', '.join(map(repr, log.arms))}")
        return Always(found[0])
    if kind in ("learned", "replay") and rest:
        # A factory with its settings, checked as for posse simulate.
        factory = next(iter(policy_options([rest]).values()))
        settings = dict(factory.keywords) if isinstance(factory, partial) else {}
        label = f"{kind} {rest.partition(':')[0]}" + (f" ({rest.partition(':')[2]})" if ":" in rest else "")
        if kind == "replay":
            return Replay(factory, label=label)
        return Learned(rest.partition(":")[0], label=label, **settings)
    greedy = kind == "greedy" and bool(rest)
    path = Path(rest if greedy else text)
    if not path.is_file():
        raise InvalidValue(f"no target {text!r}: it must be {TARGETS.replace('`', '')}")
    from posse.fleet import Posse

    label = f"{path.name}, greedy" if greedy else path.name
    return Fleet(Posse.load(path), label=label, explore=not greedy)
