"""``posse warmup``: compile everything now, so that nobody waits for it later.

A kernel is compiled for the types of its arguments, whatever their sizes, so the smallest example of every use is
enough. What a service uses comes first, from its own list; then the rest, through the same doors that a user takes.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from posse.cli.progress import stages
from posse.errors import PosseWarning

if TYPE_CHECKING:
    from posse.fleet import Posse
    from posse.types import Array

COMPILED = ("core", "families", "model", "policies", "regression")  # packages with compiled code
N_TASKS, N_ARMS, N_FEATURES = 10, 2, 2
SIZE = {"n_tasks": N_TASKS, "n_arms": N_ARMS, "n_features": N_FEATURES}
ARMS, FEATURES = ("one", "other"), ("x", "y")
MANY = 5_000  # rows that are spread over threads


def warmup(
    times: Annotated[bool, typer.Option("--times", help="Show how long each part took.")] = False,
    service: Annotated[bool, typer.Option("--service", help="Only what posse serve uses, as for an image.")] = False,
) -> None:
    """Compile and cache everything, so that nothing waits for the compiler later.

    Run it once after installing or upgrading posse, as the user who will run posse, or when an image is built. The
    cache is of use to processes that see the same files and have a processor of the same kind.
    """
    import rich

    from posse.core.compiler import announcement

    announcement.quiet = True  # whoever asks for it knows
    todo = parts(service=service)
    started = time.perf_counter()
    spent: dict[str, float] = {}
    before = files_in_cache()
    with stages(len(todo)) as begin:
        for name, work in todo.items():
            begin(name)
            begun = time.process_time()
            work()
            spent[name] = time.process_time() - begun
    took = time.perf_counter() - started
    console = rich.get_console()
    if times:
        for name, seconds in sorted(spent.items(), key=lambda item: -item[1]):
            console.print(f"{seconds:7.1f} s  {name}", highlight=False)
    what = "all is compiled" if files_in_cache() != before else "nothing to compile: all is in the cache"
    console.print(f"{what} ({took:.1f} s)", highlight=False)
    console.print(f"the cache is {cache_words()}", highlight=False, soft_wrap=True)


def parts(*, service: bool = False) -> dict[str, Callable[[], None]]:
    """Return what to run, by name: the list of a service, and unless only that is wanted the rest."""
    from posse.fleet.settings import PRIORS
    from posse.model.least_squares import METHODS
    from posse.policies.registry import POLICIES
    from posse.service.warming import parts as service_parts

    listed: dict[str, Callable[[], None]] = dict(service_parts())
    if service:
        return listed
    listed.pop("tables", None)  # which has nothing to compile, and needs the libraries of the service
    # Policies of fleets share their kernels.
    fleets: dict[str, dict[str, Any]] = {
        "that wait for rewards": {"absent_reward": 0.0},
        "robust": {"evaluation_budget": 0.01, "robust": True},
        **{prior: {"prior": prior} for prior in PRIORS},
        "lin-ucb": {"policy": "lin-ucb"},
        "random": {"policy": "random"},
    }
    methods: dict[str, Any] = {
        method: {"prior": method, "robust": method == "evidence", "refresh_growth": 0.0}
        for method in (*METHODS, "evidence")
    }
    return {
        **listed,
        "model": _model,
        **{f"policy {key}": partial(_policy, key) for key in POLICIES},
        **{f"policy ebm-ucb, {method}": partial(_policy, "ebm-ucb", **has) for method, has in methods.items()},
        **{f"fleet, {name}": partial(_fleet, **settings) for name, settings in fleets.items()},
        "fleet, numbered": _numbered,
        "catalogue": _catalogue,
        "files": _files,
        "regression": _regression,
        "offline": _offline,
    }


def cache_folders() -> list[Path]:
    """Return the folders where compiled code is cached."""
    import posse

    found = set()
    for info in pkgutil.walk_packages(posse.__path__, "posse."):
        if info.name.split(".")[1] not in COMPILED:
            continue
        for value in vars(importlib.import_module(info.name)).values():
            folder = getattr(getattr(value, "stats", None), "cache_path", None)
            if isinstance(folder, str):
                found.add(Path(folder))
    return sorted(found)


def files_in_cache() -> set[Path]:
    """Return the files of compiled code that are there."""
    return {path for folder in cache_folders() for path in folder.glob("*.nbc")}


def cache_words() -> str:
    """Return where compiled kernels are cached, and why there."""
    import numba

    folders = cache_folders()
    where = ", ".join(map(str, folders))
    if getattr(numba.config, "CACHE_DIR", ""):  # from the environment or from numba's own file of settings
        return f"below the folder that NUMBA_CACHE_DIR names: {where}"
    if all(folder.name == "__pycache__" for folder in folders):
        return f"in the package itself: {where}"
    return (
        "in this user's cache folder, since the package's own cannot be written to; "
        f"set NUMBA_CACHE_DIR to share one: {where}"
    )


def _draw(n: int) -> tuple[Any, Any, Array, Array]:
    rng = np.random.default_rng(0)
    tasks, arms = np.arange(n) % N_TASKS, np.arange(n) // N_TASKS % N_ARMS
    contexts = rng.standard_normal((n, N_FEATURES))
    # Tasks that differ as much as rewards scatter: estimates then settle in a few steps.
    coefficients = rng.standard_normal((N_TASKS, N_ARMS, N_FEATURES))
    rewards = (contexts * coefficients[tasks, arms]).sum(axis=1) + rng.standard_normal(n)
    return tasks, arms, contexts, rewards


def _table(n: int, *, numbered: bool = False) -> Any:
    import polars as pl

    tasks, arms, contexts, rewards = _draw(n)
    named: Any = tasks if numbered else [f"task {task}" for task in tasks.tolist()]
    names = {"task": named, "arm": [ARMS[arm] for arm in arms.tolist()]}
    return pl.DataFrame(names | dict(zip(FEATURES, contexts.T, strict=True)) | {"reward": rewards})


def _model() -> None:
    from posse.model import Statistics, estimate_prior, log_evidence, posterior
    from posse.model.estimation import METHODS

    methods: Any = METHODS
    tasks, arms, contexts, rewards = _draw(200)
    stats = Statistics.from_data(task=tasks, arm=arms, context=contexts, reward=rewards, n_tasks=N_TASKS, n_arms=N_ARMS)
    for method in methods:
        estimate = estimate_prior(stats, method=method, robust=method == "evidence", passes=2)
        posterior(stats, estimate.prior, estimate.task_weight)
        log_evidence(stats, estimate.prior)


def _policy(key: str, **settings: Any) -> None:
    from posse.environments import SyntheticWorld
    from posse.policies.registry import POLICIES
    from posse.simulation import simulate
    from posse.simulation.factories import build

    world = SyntheticWorld(**SIZE)  # type: ignore[arg-type]
    factory = partial(POLICIES[key], **settings)
    policy = build(factory, world.draw(0, 1), **SIZE)
    rng, context = np.random.default_rng(0), np.ones(N_FEATURES)
    for step in range(1, 5):
        arm = policy.choose(task=0, context=context, step=step, rng=rng)
        policy.update(task=0, arm=arm, context=context, reward=1.0)
    rows, contexts = np.zeros(3, dtype=np.int64), np.ones((3, N_FEATURES))
    uses: dict[str, tuple[Any, ...]] = {
        "predict": (0, context),
        "borrowing": (0,),
        "choose_many": (rows, contexts, 1, rng),
        "update_many": (rows, rows, contexts, np.ones(3)),
    }
    for name, arguments in uses.items():
        if hasattr(policy, name):
            getattr(policy, name)(*arguments)
    getattr(policy, "prior_report", None)  # a property that computes
    simulate(world, {key: factory}, horizon=20, seeds=1, appendix=True, progress=False)


def _new_fleet(policy: str = "ebm-rand-ucb", **settings: Any) -> Posse:
    from posse.fleet import Posse

    return Posse(arms=ARMS, features=list(FEATURES), policy=policy, seed=1, **settings)


def _fleet(**settings: Any) -> None:
    _use(_new_fleet(**settings))


def _use(fleet: Posse) -> None:
    """Decide and learn in every way there is."""
    context = dict.fromkeys(FEATURES, 0.5)
    fleet.expected("never seen", context)
    fleet.reward(fleet.decide("task 0", context).id, 1.0)
    second = fleet.decide("task 0", np.ones(N_FEATURES), eligible=[ARMS[1]])
    third = fleet.decide("task 1", np.ones(N_FEATURES), explore=False)
    fleet.reward_many([second.id, third.id], [0.0, 1.0])
    few, many = _table(20), _table(MANY)
    for table in (few, many, few):
        fleet.learn_many(table)
    for table in (few, many):
        decisions = fleet.decide_many("task", table.drop("arm", "reward"))
    fleet.reward_many([decisions[row].id for row in range(100)], [1.0] * 100)
    fleet.decide_many(["task 0"] * 3, np.ones((3, N_FEATURES)))
    fleet.probabilities(["task 0"] * 3, np.ones((3, N_FEATURES)))
    fleet.refresh()
    fleet.refresh(sample=5)
    fleet.refresh(wait=False)
    fleet.learn_many(few)
    while fleet.refreshing:
        time.sleep(1e-3)
    for show in (fleet.borrowing, fleet.coefficients):
        show("task 0")
    fleet.overview()
    fleet.add_arm("third")
    fleet.retire_arm("third")
    fleet.forget("task 2")


def _numbered() -> None:
    """Learn and decide for tasks that go by numbers."""
    fleet, table = _new_fleet(), _table(MANY, numbered=True)
    fleet.learn_many(table)
    fleet.decide_many(table["task"].to_numpy(), np.ones((MANY, N_FEATURES)))
    if importlib.util.find_spec("pandas"):
        fleet.learn_many(table.to_pandas())


def _catalogue() -> None:
    """Decide by features of arms; fleets with features of tasks or arms choose in the same way."""
    from posse.fleet import Catalogue

    shop = Catalogue(FEATURES[:1], FEATURES[1:], seed=0)
    for explore in (True, False):
        shop.reward(shop.decide("task", [1.0], {arm: [1.0] for arm in ARMS}, explore), 1.0)


def _files() -> None:
    from posse.fleet import Posse

    fleet, other = _new_fleet(), _new_fleet()
    for one in (fleet, other):
        one.learn_many(_table(200))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.posse"
        fleet.save(path)
        Posse.load(path, tasks=["task 0"])
        loaded = Posse.load(path)
    loaded.merge(other)
    loaded.export("task 0")
    _use(loaded)


def _regression() -> None:
    from posse.regression import HierarchicalRegressor

    tasks, _, contexts, rewards = _draw(300)
    with warnings.catch_warnings():
        # What random numbers cannot tell is nobody's business here.
        warnings.simplefilter("ignore", PosseWarning)
        for settings in ({"robust": True}, {"method": "reml"}):
            model = HierarchicalRegressor(**settings)
            model.fit(contexts, rewards, groups=tasks)
            model.predict(contexts, groups=tasks)


def _offline() -> None:
    from posse.offline import Learned, LoggedBandit, Uniform, evaluate

    tasks, arms, contexts, rewards = _draw(400)
    log = LoggedBandit(
        tasks=tasks, arms=arms, contexts=contexts, rewards=rewards, propensities=np.full(len(arms), 1 / N_ARMS)
    )
    evaluate(log, [Uniform(), Learned("ebm-rand-ucb")], seed=1)
    evaluate(replace(log, rewards=(log.rewards > 0).astype(float), reward_family="binary"), Uniform(), seed=1)
