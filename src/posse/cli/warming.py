"""Everything that is compiled, used once: small, and through the same doors that a user takes.

A kernel is compiled for the types of its arguments, whatever their sizes, so the smallest example of every use is
enough.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import pkgutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import PosseWarning

if TYPE_CHECKING:
    from posse.fleet import Posse
    from posse.types import Array

N_TASKS, N_ARMS, N_FEATURES = 10, 2, 2
ARMS = ("one", "other")
FEATURES = ("x", "y")
MANY = 5_000  # rows that are spread over threads


def parts() -> dict[str, Callable[[], None]]:
    """Return what to run, by name."""
    policies: dict[str, Callable[[], None]] = {f"policy {key}": partial(_policy, key) for key in _policy_keys()}
    for method in _methods():
        policies[f"policy ebm-ucb, {method}"] = partial(
            _policy, "ebm-ucb", prior=method, robust=method == "evidence", refresh_growth=0.0
        )
    fleets = {f"fleet {key}": partial(_fleet, key) for key in _fleet_keys()}
    return {
        "model": _model,
        **policies,
        **fleets,
        "numbers": _numbers,
        "catalogue": _catalogue,
        "files": _files,
        "regression": _regression,
        "offline": _offline,
        "service": _service,
    }


def begin() -> None:
    """Use one small kernel, which says whether there is anything to compile."""
    from posse.kernels.select import usable

    usable(np.ones(1))


@contextlib.contextmanager
def compiler_at_work() -> Iterator[set[str]]:
    """Yield a set that fills with the names of functions as they are compiled, for each kind of arguments."""
    from numba.core import event

    class Names(event.Listener):
        def __init__(self) -> None:
            self.found: set[str] = set()

        def on_start(self, event: Any) -> None:
            self.found.add(f"{event.data['module']}.{event.data['qualname']}{event.data['args']}")

        def on_end(self, event: Any) -> None:
            """Learn nothing more."""

    names = Names()
    with event.install_listener("numba:run_pass", names):
        yield names.found


def cache_folders() -> list[Path]:
    """Return the folders where compiled kernels are kept."""
    import posse.kernels

    found = set()
    for info in pkgutil.iter_modules(posse.kernels.__path__, "posse.kernels."):
        for value in vars(importlib.import_module(info.name)).values():
            folder = getattr(getattr(value, "stats", None), "cache_path", None)
            if isinstance(folder, str):
                found.add(Path(folder))
    return sorted(found)


def _catalogue() -> None:
    """Decide by features of arms; fleets with features of tasks or arms choose in the same way."""
    from posse.fleet import Catalogue

    shop = Catalogue(FEATURES[:1], FEATURES[1:], seed=0)
    for explore in (True, False):
        shop.reward(shop.decide("task", [1.0], {arm: [1.0] for arm in ARMS}, explore), 1.0)


def _policy_keys() -> list[str]:
    from posse.policies.registry import POLICIES

    return list(POLICIES)


def _fleet_keys() -> list[str]:
    from posse.fleet.behaviour import POLICIES

    return list(POLICIES)


def _methods() -> list[str]:
    from posse.model.estimation import POLICY_METHODS

    return list(POLICY_METHODS)


def _draw(n: int) -> tuple[Any, Any, Array, Array]:
    rng = np.random.default_rng(0)
    tasks, arms = np.arange(n) % N_TASKS, np.arange(n) // N_TASKS % N_ARMS
    contexts = rng.standard_normal((n, N_FEATURES))
    # Tasks that differ as much as rewards scatter: estimates then settle in a few steps.
    coefficients = rng.standard_normal((N_TASKS, N_ARMS, N_FEATURES))
    rewards = (contexts * coefficients[tasks, arms]).sum(axis=1) + rng.standard_normal(n)
    return tasks, arms, contexts, rewards


def _policy(key: str, **settings: Any) -> None:
    from posse.environments import SyntheticWorld
    from posse.policies.registry import POLICIES
    from posse.simulation import simulate
    from posse.simulation.factories import build

    world = SyntheticWorld(n_tasks=N_TASKS, n_arms=N_ARMS, n_features=N_FEATURES)
    factory = partial(POLICIES[key], **settings)
    policy = build(factory, world.draw(0, 1), n_tasks=N_TASKS, n_arms=N_ARMS, n_features=N_FEATURES)
    rng = np.random.default_rng(0)
    context = np.ones(N_FEATURES)
    for step in range(1, 5):
        arm = policy.choose(task=0, context=context, step=step, rng=rng)
        policy.update(task=0, arm=arm, context=context, reward=1.0)
    rows = np.zeros(3, dtype=np.int64), np.ones((3, N_FEATURES))
    for name, arguments in {
        "predict": (0, context),
        "borrowing": (0,),
        "choose_many": (*rows, 1, rng),
        "update_many": (rows[0], *rows, np.ones(3)),
    }.items():
        if hasattr(policy, name):
            getattr(policy, name)(*arguments)
    getattr(policy, "prior_report", None)  # a property that computes
    simulate(world, {key: factory}, horizon=20, seeds=1, appendix=True, progress=False)


def _model() -> None:
    from posse.model import Statistics, estimate_prior, log_evidence, posterior
    from posse.model.estimation import METHODS

    methods: Any = METHODS
    tasks, arms, contexts, rewards = _draw(200)
    stats = Statistics.from_data(task=tasks, arm=arms, context=contexts, reward=rewards, n_tasks=N_TASKS, n_arms=N_ARMS)
    for method in methods:
        estimate = estimate_prior(stats, method=method, passes=2)
        posterior(stats, estimate.prior)
        log_evidence(stats, estimate.prior)
    robust = estimate_prior(stats, method="evidence", robust=True, passes=2)
    posterior(stats, robust.prior, robust.task_weight)


def _table(n: int, *, numbered: bool = False) -> Any:
    import polars as pl

    tasks, arms, contexts, rewards = _draw(n)
    named: Any = tasks if numbered else [f"task {task}" for task in tasks.tolist()]
    names = {"task": named, "arm": [ARMS[arm] for arm in arms.tolist()]}
    return pl.DataFrame(names | dict(zip(FEATURES, contexts.T, strict=True)) | {"reward": rewards})


def _new_fleet(key: str, **settings: Any) -> Posse:
    from posse.fleet import Posse

    return Posse(arms=ARMS, features=list(FEATURES), policy=key, seed=1, **settings)


def _use(fleet: Posse) -> None:
    """Decide and learn in every way there is."""
    context = dict.fromkeys(FEATURES, 0.5)
    fleet.expected("never seen", context)
    first = fleet.decide("task 0", context)
    fleet.reward(first.id, 1.0)
    second = fleet.decide("task 0", np.ones(N_FEATURES), eligible=[ARMS[1]])
    third = fleet.decide("task 1", np.ones(N_FEATURES), explore=False)
    fleet.reward_many([second.id, third.id], [0.0, 1.0])
    few, many = _table(20), _table(MANY)
    fleet.learn_many(few)
    fleet.learn_many(many)
    fleet.learn_many(few)
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
    fleet.borrowing("task 0")
    fleet.coefficients("task 0")
    fleet.overview()
    fleet.add_arm("third")
    fleet.retire_arm("third")
    fleet.forget("task 2")


def _fleet(key: str) -> None:
    from posse.fleet.behaviour import PRIORS

    _use(_new_fleet(key))
    if key == "ebm-ts":
        _use(_new_fleet(key, absent_reward=0.0))
    if key.startswith("ebm"):
        _use(_new_fleet(key, evaluation_budget=0.01, robust=True))
    if key == "ebm-ucb":
        for method in PRIORS:
            _use(_new_fleet(key, prior=method))


def _numbers() -> None:
    """Tasks that go by numbers."""
    fleet, table = _new_fleet("ebm-rand-ucb"), _table(MANY, numbered=True)
    fleet.learn_many(table)
    fleet.learn_many(table.to_pandas() if importlib.util.find_spec("pandas") else table)
    fleet.decide_many(table["task"].to_numpy(), np.ones((MANY, N_FEATURES)))


def _files() -> None:
    from posse.fleet import Posse

    fleet, other = _new_fleet("ebm-rand-ucb"), _new_fleet("ebm-rand-ucb")
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


def _service() -> None:
    from posse.service.warming import parts

    for name, load in parts().items():
        if name != "tables":  # which has nothing to compile, and needs the libraries of the service
            load()


def _offline() -> None:
    from posse.offline import Learned, LoggedBandit, Uniform, evaluate

    tasks, arms, contexts, rewards = _draw(400)
    log = LoggedBandit(
        tasks=tasks, arms=arms, contexts=contexts, rewards=rewards, propensities=np.full(len(arms), 1 / N_ARMS)
    )
    evaluate(log, [Uniform(), Learned("ebm-rand-ucb")], seed=1)
    evaluate(replace(log, rewards=(log.rewards > 0).astype(float), reward_family="binary"), Uniform(), seed=1)


if __name__ == "__main__":
    # Whoever starts this goes through the parts from the first to the last; see posse.service.compile_helper.
    from posse.kernels.compiler import announcement
    from posse.service.compile_helper import help_with
    from posse.shared_cache import share_cache

    announcement.quiet = True
    share_cache()
    help_with(parts())
