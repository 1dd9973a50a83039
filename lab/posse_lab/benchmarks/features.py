"""What features of tasks and arms gain where they matter, and cost where they do not; catalogues; MTTS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, ndtr

from posse.errors import InvalidValue
from posse.features import FeatureSpec, one_hot
from posse.fleet import Catalogue, Posse
from posse.model import Prior
from posse.policies import MTTS, HierTS, Policy
from posse_lab.benchmarks.report import Bar, Begin, Report

if TYPE_CHECKING:
    from posse.families import Rewards
    from posse.types import Array, IntArray, Settings

D = 3  # columns of a context: an intercept and two features
RESAMPLES = 2000
CATALOGUE = "catalogue"  # what --only calls the time of catalogues
Compared = tuple[Callable[[int], float], Callable[[int], float], float | None]


@dataclass(frozen=True, slots=True)
class Regions:
    """Stores in regions; the last ones are new, and their first decisions count.

    Parameters
    ----------
    region_sd, own_sd, arm_sd : float
        How far regions are from each other, stores from their region, and arms from each other, in every coefficient.
    clicks : float, optional
        The logit of the average click rate: rewards are clicks, and coefficients those of the logit. Default: numbers.
    """

    region_sd: float
    own_sd: float
    arm_sd: float = 0.5
    clicks: float | None = None
    n_tasks: int = 200
    n_old: int = 150
    n_regions: int = 8
    n_arms: int = 5
    history: int = 30  # random decisions of every old store
    decisions: int = 20  # of every new one


@dataclass(frozen=True, slots=True)
class Turnover:
    """Offers in categories, all of which are replaced by new ones; as many decisions as 20 for each follow.

    Parameters
    ----------
    category_sd, own_sd, task_sd : float
        How far categories are from each other, arms from their category, and tasks from their arm.
    clicks : float, optional
        As above.
    """

    category_sd: float
    own_sd: float
    task_sd: float
    clicks: float | None = None
    n_arms: int = 100
    n_old: int = 60
    n_categories: int = 5
    n_tasks: int = 20
    history: int = 3000
    pulls: int = 20


MATTER, USELESS = Regions(0.5, 0.25), Regions(0.0, 0.5)
CATEGORIES, MIXED, NO_CATEGORIES = Turnover(0.9, 0.15, 0.1), Turnover(0.7, 0.3, 0.25), Turnover(0.0, 0.76, 0.25)
# A click says as much about a logit as a number with noise 2 does, so all is twice as large.
CLICKS, CLICKS_USELESS = Regions(1.0, 0.5, 1.0, 0.0), Regions(0.0, 1.0, 1.0, 0.0)
RARE = Regions(1.0, 0.5, 1.0, -4.0)
CLICKS_CATEGORIES, CLICKS_NO_CATEGORIES = Turnover(1.8, 0.3, 0.2, 0.0), Turnover(0.0, 1.52, 0.5, 0.0)


def region_regret(world: Regions, seed: int, fleets: str) -> float:
    """Return the regret of the new stores: one fleet that knows regions ("known"), or not, or one "per region"."""
    rng = np.random.default_rng([seed, 11])
    region = rng.integers(world.n_regions, size=world.n_tasks)
    theta = world.arm_sd * rng.normal(size=(world.n_arms, 1, D))
    theta = theta + world.region_sd * rng.normal(size=(world.n_arms, world.n_regions, D))[:, region]
    theta = theta + world.own_sd * rng.normal(size=(world.n_arms, world.n_tasks, D))
    names = [f"r{place}" for place in range(world.n_regions)]
    known: Settings = {"task_features": FeatureSpec([one_hot("region", names)])} if fleets == "known" else {}
    known["rewards"] = _family(world)
    n_fleets = world.n_regions if fleets == "per region" else 1
    made = [Posse(arms=list(range(world.n_arms)), features=["x1", "x2"], seed=seed, **known) for _ in range(n_fleets)]
    fleet_of = [made[region[task] % n_fleets] for task in range(world.n_tasks)]
    if fleets == "known":
        made[0].set_task_features({task: {"region": names[region[task]]} for task in range(world.n_tasks)})
    rng = np.random.default_rng([seed, 12])
    tasks = np.repeat(np.arange(world.n_old), world.history)
    arms = rng.integers(world.n_arms, size=tasks.size)
    for place, fleet in enumerate(made):
        here = region[tasks] % n_fleets == place
        if here.any():
            _teach(fleet, theta, tasks, arms, np.random.default_rng([seed, 13]), here, world.clicks)
    lost = 0.0
    for _ in range(world.decisions):
        for task in range(world.n_old, world.n_tasks):
            lost += _decide(fleet_of[task], theta, task, rng, clicks=world.clicks)[1]
    return lost


def arm_regret(world: Turnover, seed: int, known: bool) -> float:
    """Return the regret of the first pulls of every new offer."""
    rng = np.random.default_rng([seed, 21])
    category = rng.integers(world.n_categories, size=world.n_arms)
    centre = world.category_sd * rng.normal(size=(world.n_categories, D))[category]
    mean = centre + world.own_sd * rng.normal(size=(world.n_arms, D))
    theta = mean[:, None] + world.task_sd * rng.normal(size=(world.n_arms, world.n_tasks, D))
    names = [f"c{place}" for place in range(world.n_categories)]
    about = [{"category": names[place]} for place in category]
    old = range(world.n_old)
    described: Settings = {"arm_features": FeatureSpec([one_hot("category", names)])} if known else {}
    arms_of = {arm: about[arm] for arm in old} if known else list(old)
    fleet = Posse(arms_of, ["x1", "x2"], seed=seed, rewards=_family(world), **described)
    rng = np.random.default_rng([seed, 22])
    tasks, arms = rng.integers(world.n_tasks, size=world.history), rng.integers(world.n_old, size=world.history)
    _teach(fleet, theta, tasks, arms, rng, np.ones(world.history, dtype=np.bool_), world.clicks)
    for arm in range(world.n_old, world.n_arms):
        fleet.add_arm(arm, about[arm] if known else None)
    for arm in old:
        fleet.retire_arm(arm)
    pulls, lost = np.zeros(world.n_arms, dtype=np.int64), 0.0
    for _ in range(world.pulls * (world.n_arms - world.n_old)):
        task = int(rng.integers(world.n_tasks))
        arm, regret = _decide(fleet, theta, task, rng, first=world.n_old, clicks=world.clicks)
        pulls[arm] += 1
        lost += regret if pulls[arm] <= world.pulls else 0.0
    return lost


def _family(world: Regions | Turnover) -> Rewards:
    return "number" if world.clicks is None else "binary"


def _expected(predictors: Array, clicks: float | None) -> Array:
    """Return what is expected of arms: the predictor itself, or the click rate."""
    return predictors if clicks is None else np.asarray(expit(clicks + predictors))


def _rewards(expected: Array, noise: Array, clicks: float | None) -> Array:
    """Return rewards from standard normal noise."""
    return expected + noise if clicks is None else (ndtr(noise) < expected).astype(np.float64)


def _teach(
    fleet: Posse, theta: Array, tasks: IntArray, arms: IntArray, rng: np.random.Generator, here: Array,
    clicks: float | None,
) -> None:  # fmt: skip
    X = np.column_stack([np.ones(tasks.size), rng.normal(size=(tasks.size, D - 1))])
    expected = _expected(np.einsum("ni,ni->n", X, theta[arms, tasks]), clicks)
    rewards = _rewards(expected, rng.normal(size=tasks.size), clicks)
    rows = {"task": tasks, "arm": arms, "x1": X[:, 1], "x2": X[:, 2], "reward": rewards}
    fleet.learn_many({name: values[here] for name, values in rows.items()})


def _decide(
    fleet: Posse, theta: Array, task: int, rng: np.random.Generator, first: int = 0, clicks: float | None = None
) -> tuple[int, float]:
    """Decide, reward, and return the arm with its regret among arms from ``first`` on."""
    x, noise = np.array([1.0, *rng.normal(size=D - 1)]), rng.normal(size=1)
    means = _expected(theta[:, task] @ x, clicks)
    decision = fleet.decide(task, x[1:])
    arm = int(decision.arm)
    fleet.reward(decision, float(_rewards(means[[arm]], noise, clicks)[0]))
    return arm, float(means[first:].max() - means[arm])


def mtts_regret(method: str, seed: int, *, n_tasks: int = 40, rounds: int = 150, own_sd: float = 0.5) -> float:
    """Return the regret of tasks that come one after another, as in the study of Wan, Ge and Song (2021).

    Gaussian bandits without contexts, 8 arms, 5 task features, noise 1; tasks are ``own_sd`` from what features say.
    """
    K, p = 8, 5
    rng = np.random.default_rng([seed, 31])
    Z = np.column_stack([np.ones(n_tasks), rng.normal(size=(n_tasks, p - 1))])
    W = rng.normal(size=(K, p, 1)) / np.sqrt(p)
    theta = np.einsum("np,kpi->kni", Z, W)[:, :, 0] + own_sd * rng.normal(size=(K, n_tasks))
    policy = _method(method, Z, W, own_sd)
    rng = np.random.default_rng([seed, 32])
    one, lost = np.ones(1), 0.0
    for task in range(n_tasks):
        noise = rng.normal(size=(rounds, K))
        for step in range(rounds):
            arm = policy.choose(task, one, task * rounds + step + 1, rng)
            lost += theta[:, task].max() - theta[arm, task]
            policy.update(task, arm, one, float(theta[arm, task] + noise[step, arm]))
    return float(lost)


def _method(method: str, Z: Array, W: Array, own_sd: float) -> Policy:
    """Return a policy by what it takes as known."""
    n_tasks, (K, p, _) = len(Z), W.shape
    sizes = {"n_tasks": n_tasks, "n_arms": K, "n_features": 1}
    around = float((Z**2).sum(axis=1).mean()) / p  # the variance of what features say, over tasks

    def prior(variance: float, precision: float) -> Prior:
        covariance = np.full((K, 1, 1), variance)
        return Prior(covariance=covariance, noise_variance=1.0, shared_precision=precision)

    makers: dict[str, Callable[[], Policy]] = {
        "oracle-TS": lambda: MTTS(**sizes, task_features=Z, prior=prior(own_sd**2, 1e9), effects=W),
        "MTTS": lambda: MTTS(**sizes, task_features=Z, prior=prior(own_sd**2, float(p))),
        "linear-TS": lambda: MTTS(**sizes, task_features=Z, prior=prior(1e-9, float(p))),  # metadata are all there is
        "meta-TS": lambda: HierTS(**sizes, prior=prior(around * (p - 1) / p + own_sd**2, float(p))),  # no metadata
        "individual-TS": lambda: HierTS(**sizes, prior=prior(around + own_sd**2, 1e9)),  # every task alone
    }
    return makers[method]()


def catalogue_milliseconds(n_arms: int = 2000, repeats: int = 200) -> dict[str, float]:
    """Return the median time of a decision among many arms with 20 joint features, from a menu and from a table."""
    import polars as pl

    rng = np.random.default_rng(0)
    shop = Catalogue(["x1", "x2", "x3"], ["a", "b", "c", "d"], seed=1)
    F = rng.normal(size=(n_arms, 4))
    table = pl.DataFrame({"arm": [f"arm{k}" for k in range(n_arms)], **dict(zip("abcd", F.T, strict=True))})
    for _ in range(50):
        shop.reward(shop.decide(int(rng.integers(5)), rng.normal(size=3), table), float(rng.normal()))
    menu, found = shop.menu(table), {}
    for name, eligible in (("menu", menu), ("table", table)):
        taken = []
        for _ in range(repeats):
            x = rng.normal(size=3)
            start = time.perf_counter()
            shop.decide(3, x, eligible)
            taken.append(time.perf_counter() - start)
        found[name] = 1e3 * float(np.median(taken))
    return found


def _regions(world: Regions, at_most: float | None, over: str = "none") -> Compared:
    return partial(region_regret, world, fleets="known"), partial(region_regret, world, fleets=over), at_most


def _arms(world: Turnover, at_most: float | None) -> Compared:
    return partial(arm_regret, world, known=True), partial(arm_regret, world, known=False), at_most


def _mtts(first: str, second: str) -> Compared:
    return partial(mtts_regret, first), partial(mtts_regret, second), 1.0


# fmt: off
RATIOS: dict[str, tuple[str, Compared]] = {
    "regions": ("new stores, regions matter: known over not", _regions(MATTER, 0.6)),
    "regions-each": ("new stores, regions matter: known over one fleet per region",
                     _regions(MATTER, 1.05, "per region")),
    "regions-useless": ("new stores, regions do not matter: known over not", _regions(USELESS, 1.03)),
    "categories": ("new offers, categories matter: known over not", _arms(CATEGORIES, 0.5)),
    "categories-mixed": ("new offers, half of it in categories: known over not", _arms(MIXED, None)),
    "categories-useless": ("new offers, categories do not matter: known over not", _arms(NO_CATEGORIES, 1.03)),
    "clicks-regions": ("clicks of new stores, regions matter: known over not", _regions(CLICKS, 0.6)),
    "clicks-regions-rare": ("clicks of about 2 %, regions matter: known over not", _regions(RARE, None)),
    "clicks-regions-useless": ("clicks of new stores, regions do not matter: known over not",
                               _regions(CLICKS_USELESS, 1.03)),
    "clicks-categories": ("clicks on new offers, categories matter: known over not", _arms(CLICKS_CATEGORIES, 0.5)),
    "clicks-categories-useless": ("clicks on new offers, categories do not matter: known over not",
                                  _arms(CLICKS_NO_CATEGORIES, 1.03)),
    "mtts-oracle": ("MTTS: oracle-TS over MTTS", _mtts("oracle-TS", "MTTS")),
    "mtts-meta": ("MTTS over meta-TS", _mtts("MTTS", "meta-TS")),
    "mtts-individual": ("meta-TS over individual-TS", _mtts("meta-TS", "individual-TS")),
    "mtts-linear": ("MTTS over linear-TS", _mtts("MTTS", "linear-TS")),
}
# fmt: on
"""What is compared, by what ``--only`` calls it: in words, two functions of a seed, and the largest ratio promised."""


def measure_ratio(name: str, seeds: range, pool: ProcessPoolExecutor | None = None) -> Bar:
    """Return the ratio of two mean regrets over the same seeds, with its 95 % interval over seeds."""
    what, (first, second, at_most) = RATIOS[name]
    run: Callable[..., Iterable[float]] = map if pool is None else pool.map
    regrets = np.array([list(run(one, seeds)) for one in (first, second)])
    rng = np.random.default_rng(0)
    drawn = regrets[:, rng.integers(len(seeds), size=(RESAMPLES, len(seeds)))].mean(axis=2)
    low, high = np.quantile(drawn[0] / drawn[1], [0.025, 0.975]).tolist()
    mean = regrets.mean(axis=1)
    return Bar(what=what, measured=float(mean[0] / mean[1]), at_most=at_most, interval=(low, high))


def measure_features(
    only: Sequence[str] | None, seeds: range, workers: int, begin: Begin, advance: Callable[[int], None]
) -> Report:
    """Measure rows of :data:`RATIOS` and the time of catalogues: all of them, or those that were asked for."""
    names = only if only else [*RATIOS, CATALOGUE]
    for name in names:
        if name not in (*RATIOS, CATALOGUE):
            raise InvalidValue(f"no row {name!r}; the rows are {', '.join(RATIOS)}, {CATALOGUE}")
    bars = []
    with ExitStack() as stack:
        pool = None
        if workers > 1:
            pool = stack.enter_context(ProcessPoolExecutor(workers, mp_context=get_context("spawn")))
        for name in names:
            begin(name)
            if name == CATALOGUE:
                bars += [
                    Bar(what=f"2,000 arms, 20 joint features, from a {kind}", measured=taken, unit="ms", at_most=2)
                    for kind, taken in catalogue_milliseconds().items()
                ]
            else:
                bars.append(measure_ratio(name, seeds, pool))
            advance(1)
    return Report(name="features", bars=bars, data={"seeds": len(seeds), "first_seed": seeds.start})
