"""Many seeds, every policy on the same stream."""

from __future__ import annotations

import contextlib
import copy
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from posse._version import __version__
from posse.checks import whole_number
from posse.environments.base import POLICY, Draw, World, stream
from posse.errors import InvalidValue, PosseError
from posse.policies.base import DecisionMaker, Played, Policy
from posse.simulation.engines import runs_here, using_engine, usual_workers, worker_pool
from posse.simulation.factories import Factory, PolicyChoice, build, describe, named_factories, require_world
from posse.simulation.files import require_folder
from posse.simulation.regret import Regret, expected_regret, realised_regret
from posse.simulation.results import SimulationResult, continue_from
from posse.types import Array, IntArray, Settings

SAVE_SECONDS = 2.0  # finished seeds are saved when the next one finishes, but not more often than this


def simulate(
    world: World,
    policies: Mapping[str, PolicyChoice] | Sequence[PolicyChoice],
    *,
    horizon: int,
    seeds: int | Sequence[int] = 100,
    workers: int | None = None,
    out: str | Path | None = None,
    appendix: bool = False,
    checkpoints: int = 200,
    track_task: int = 0,
    progress: bool | Callable[[int], None] | None = None,
    engine: str | None = None,
) -> SimulationResult:
    """Run every policy on the same worlds.

    In each seed all policies meet the same tasks, contexts and noise, and draw the same random numbers for their
    decisions, so differences between them are differences between them.

    Parameters
    ----------
    world : World
        Such as :class:`posse.SyntheticWorld`, or anything with its attributes and ``draw``.
    policies : mapping from name to policy, or a list of policies
        A policy is a class, a ``functools.partial`` of one, or a key of :func:`posse.policies.make_policy`. Any class
        with ``choose`` and ``update`` will do; one with ``play`` runs in compiled code. ``prior="known"`` in a partial
        stands for the population of the drawn world.
    horizon : int
        Steps per run.
    seeds : int or sequence of int, default 100
        How many seeds (0, 1, ...), or which.
    workers : int, default None
        Processes, or seeds at a time on Ray. None: this process alone, or the whole cluster on Ray.
    out : path, default None
        Parquet file for the result; None: no file. Finished seeds are saved as the run goes on; a run with the same
        settings continues where the file ends, and may ask for more seeds.
    appendix : bool, default False
        Also compute the regret of the paper's appendix, which asks every task at every step.
    checkpoints : int, default 200
        How many points of each regret curve to keep.
    track_task : int, default 0
        The task whose own regret curve is kept.
    progress : bool or callable, default None
        Show a progress bar. None: when standard error is a terminal. A callable is told how many seeds are newly
        done: first those that the file already has, then each as it finishes.
    engine : {"processes", "ray"}, default None
        Where seeds run: on this machine (None), or on a Ray cluster, connected or in RAY_ADDRESS.
        The result is the same.

    Returns
    -------
    SimulationResult
        Regret of every policy in every seed; the same for any number of workers.

    Raises
    ------
    InvalidValue
        If the world, a policy or a setting cannot be used; found before the first seed runs.
    UnknownPolicy
        If no policy has a key that was given.
    SettingsDiffer
        If ``out`` holds a run with other settings, or of another version.
    ResultFileError
        If ``out`` is damaged, or cannot be written.
    PosseError
        If a policy of your own raises: it names policy, seed and step.

    Examples
    --------
    >>> from posse.environments import SyntheticWorld
    >>> result = simulate(SyntheticWorld(), {"ebmUCB": "ebm-ucb", "random": "random"}, horizon=50, seeds=2)
    >>> result.final_regret.columns
    ['policy', 'seed', 'regret', 'task_regret']
    """
    require_world(world)
    factories = named_factories(policies)
    horizon = whole_number(horizon, "horizon", at_least=1)
    if workers is not None:
        workers = whole_number(workers, "workers", at_least=1)
    checkpoints = whole_number(checkpoints, "checkpoints", at_least=1)
    track_task = whole_number(track_task, "track_task", at_least=0)
    if track_task >= world.n_tasks:
        raise InvalidValue(f"expected track_task to be from 0 to {world.n_tasks - 1}, got {track_task}")
    wanted = seed_list(seeds)
    steps = np.unique(np.linspace(horizon / checkpoints, horizon, checkpoints).round().astype(np.int64).clip(1))
    settings: Settings = {
        "world": world.settings(),
        "horizon": horizon,
        "policies": {name: describe(factory) for name, factory in factories.items()},
        "steps": steps.tolist(),
        "track_task": int(track_task),
        "appendix": bool(appendix),
    }
    # Building each policy once finds bad settings before the first seed runs, and gives the table its words.
    words = {name: _words(factory, world) for name, factory in factories.items()}
    if out is not None:
        require_folder(out)
    rows, ended = continue_from(out, settings, words, __version__) if out is not None else ([], False)
    finished = {row["seed"] for row in rows}
    missing = [seed for seed in wanted if seed not in finished]

    def result(complete: bool) -> SimulationResult:
        return SimulationResult.from_rows(
            rows, settings=settings, descriptions=words, version=__version__, complete=complete, order=list(factories)
        )

    plan = Plan(world, factories, horizon, steps, track_task, appendix)
    saved = time.monotonic()
    try:
        with using_engine(engine), progress_bar(len(wanted), progress) as advance:
            advance(len(wanted) - len(missing))
            at_once = usual_workers(1) if workers is None else workers
            for new_rows in _run_all(plan, missing, at_once):
                rows.extend(new_rows)
                advance(1)
                if out is not None and time.monotonic() - saved > SAVE_SECONDS:
                    result(complete=False).save(out)
                    saved = time.monotonic()
    except BaseException:
        if out is not None and rows:
            result(complete=False).save(out)
        raise
    final = result(complete=True)
    if out is not None and (missing or not ended):
        final.save(out)
    return final.only_seeds(wanted)


def seed_list(seeds: Any) -> list[int]:
    """Return the seeds that were asked for, each once."""
    if isinstance(seeds, Integral):
        return list(range(whole_number(seeds, "seeds", at_least=1)))
    try:
        chosen = [whole_number(seed, "every seed", at_least=0) for seed in seeds]
    except TypeError:
        raise InvalidValue(f"expected seeds to be a number of seeds or a list of them, got {seeds!r}") from None
    if not chosen:
        raise InvalidValue("expected at least one seed, got none")
    if len(set(chosen)) < len(chosen):
        raise InvalidValue("expected seeds that differ from each other, got some twice")
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Runs of policies in the same worlds, called with a seed."""

    world: World
    factories: Mapping[str, Factory]
    horizon: int
    steps: IntArray
    track_task: int
    appendix: bool

    def __call__(self, seed: int) -> list[dict[str, Any]]:
        """Return one row per policy."""
        world, draw, rows = self.world, self.world.draw(seed, self.horizon), []
        for name, factory in self.factories.items():
            policy = build(factory, draw, n_tasks=world.n_tasks, n_arms=world.n_arms, n_features=world.n_features)
            played = play(policy, draw, stream(seed, POLICY), name=name, seed=seed, everywhere=self.appendix)
            row: dict[str, Any] = {"policy": name, "seed": seed}
            row |= _columns("", realised_regret(draw, played, self.steps, self.track_task))
            if self.appendix:
                row |= _columns("expected_", expected_regret(draw, played, self.steps, self.track_task))
            rows.append(row)
        return rows


def play(
    policy: DecisionMaker, draw: Draw, rng: np.random.Generator, *, name: str, seed: int, everywhere: bool = False
) -> Played:
    """Return the arms that a policy pulls: by its own ``play`` if it has one, else step by step."""
    if hasattr(policy, "play"):
        played: Played = policy.play(draw.tasks, draw.contexts, draw.rewards, rng, everywhere=everywhere)
        return played
    return play_step_by_step(policy, draw, rng, name=name, seed=seed, everywhere=everywhere)


def play_step_by_step(
    policy: DecisionMaker, draw: Draw, rng: np.random.Generator, *, name: str, seed: int, everywhere: bool = False
) -> Played:
    """Return the arms that ``choose`` and ``update`` lead to."""
    horizon, n_arms = draw.rewards.shape
    n_tasks = draw.arrival_probabilities.size
    arms = np.empty(horizon, dtype=np.int64)
    elsewhere = np.empty((horizon if everywhere else 0, n_tasks), dtype=np.int64)
    step = 0
    try:
        for step in range(1, horizon + 1):
            t = step - 1
            task, x = int(draw.tasks[t]), draw.contexts[t]
            for other in range(n_tasks if everywhere else 0):
                # Every task is asked with the draws that this step's decision is about to use.
                asked = policy.choose(task=other, context=x, step=step, rng=copy.deepcopy(rng))
                elsewhere[t, other] = _checked_arm(asked, n_arms)
            arm = _checked_arm(policy.choose(task=task, context=x, step=step, rng=rng), n_arms)
            arms[t] = arm
            policy.update(task=task, arm=arm, context=x, reward=float(draw.rewards[t, arm]))
    except Exception as error:
        if isinstance(error, PosseError):
            raise
        raise PosseError(f"policy {name!r} failed in seed {seed} at step {step}: {error!r}") from error
    return Played(arms, elsewhere)


def _checked_arm(arm: Any, n_arms: int) -> int:
    if not 0 <= int(arm) < n_arms:
        raise InvalidValue(f"expected choose to return an arm from 0 to {n_arms - 1}, got {arm}")
    return int(arm)


def _columns(prefix: str, regret: Regret) -> dict[str, float | Array]:
    return {
        f"{prefix}regret": regret.total,
        f"{prefix}task_regret": regret.tasks,
        f"{prefix}curve": regret.curve,
        f"{prefix}tracked_curve": regret.tracked,
    }


def _words(factory: Factory, world: World) -> str:
    draw = world.draw(0, 1)
    policy = build(factory, draw, n_tasks=world.n_tasks, n_arms=world.n_arms, n_features=world.n_features)
    for method in ("choose", "update"):
        if not callable(getattr(policy, method, None)):
            raise InvalidValue(f"a policy needs choose and update, but {type(policy).__name__} has no {method}")
    describe_policy = getattr(policy, "describe", None)
    return str(describe_policy()) if callable(describe_policy) else ""


def _run_all(plan: Plan, seeds: Sequence[int], workers: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of every seed as it finishes."""
    if not runs_here(workers, len(seeds)):
        # First a step of every kind of policy, each kind in one worker: what is not compiled yet is compiled once, and
        # different functions side by side, before all workers need it.
        first = replace(plan, horizon=min(plan.horizon, 2), steps=np.ones(1, dtype=np.int64))
        with worker_pool(min(workers, len(seeds))) as parallel:
            list(parallel((replace(first, factories=kind), (seeds[0],)) for kind in _kinds(plan.factories)))
    yield from over_seeds(plan, seeds, workers)


def over_seeds(measure: Callable[[int], Any], seeds: Sequence[int], workers: int) -> Iterator[Any]:
    """Yield what ``measure`` returns for every seed, as it finishes."""
    if runs_here(workers, len(seeds)):
        yield from map(measure, seeds)
        return
    with worker_pool(min(workers, len(seeds))) as parallel:
        yield from parallel((measure, (seed,)) for seed in seeds)


def _kinds(factories: Mapping[str, Factory]) -> list[dict[str, Factory]]:
    """Return one of posse's own policies for everything that is compiled for them."""
    kinds: dict[Any, dict[str, Factory]] = {}
    for name, factory in factories.items():
        target = factory.func if isinstance(factory, partial) else factory
        if isinstance(target, type) and issubclass(target, Policy):
            settings = factory.keywords if isinstance(factory, partial) else {}
            kinds.setdefault((target._play, str(settings.get("prior")), settings.get("rewards")), {name: factory})
    return list(kinds.values())


@contextlib.contextmanager
def progress_bar(total: int, show: bool | Callable[[int], None] | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of seeds that are newly done."""
    if callable(show):
        yield show
        return
    if show is None:
        show = sys.stderr.isatty()
    if not show:
        yield lambda _seeds: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("seeds", total=total)
        yield lambda seeds: bar.advance(task, seeds)
