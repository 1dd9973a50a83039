"""Figure 4 (c): MovieLens, clusters of films as arms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from posse_lab.datasets import load_movielens
from posse_lab.reproduction.experiment import Experiment, Results, Run, Section
from posse_lab.reproduction.real_data import data_runs, data_section
from posse_lab.worlds import population_from_movielens, recorded_movielens


@dataclass(frozen=True)
class Settings:
    """Rank, arms and tasks as in the paper; horizon and heterogeneity are ours."""

    n_factors: int = 10
    n_arms: int = 10
    n_tasks: int = 10
    heterogeneity: float = 0.1
    horizon: int = 2_000
    verify: bool = True  # refuse files whose checksum is not that of the published ones


def runs(settings: Settings, data: Path | None) -> list[Run]:
    """Return the three runs, on MovieLens 10M where it is present, else on 1M."""
    ratings = load_movielens(data, verify=settings.verify)
    drawn = population_from_movielens(
        ratings, n_factors=settings.n_factors, n_arms=settings.n_arms, n_tasks=settings.n_tasks
    )
    real = recorded_movielens(ratings, n_factors=settings.n_factors, n_arms=settings.n_arms)
    horizon = min(settings.horizon, real.n_rows)
    return data_runs(drawn, replace(drawn, heterogeneity=settings.heterogeneity), real, horizon)


def section(results: Results) -> Section:
    """Return curves and claims."""
    return data_section(
        results,
        "movielens",
        "MovieLens",
        reward="a rating that this user really gave to a film of the chosen genre",
        regret="cumulative regret (stars)",
    )


EXPERIMENT = Experiment(
    name="movielens",
    title="MovieLens: ten clusters of films",
    figure="Figure 4 (c)",
    says="A rank-10 factorisation of the 10M ratings gives features of users and films; ten clusters of films by a "
    "Gaussian mixture are the populations of ten arms, from which ten tasks are drawn. Both ebm methods beat all "
    "rivals.",
    choices=(
        "Which factorisation: not said. Ratings less their user's mean, alternating least squares on the known "
        "ratings, singular values split by square root.",
        "Noise: not given. The error of the factorisation.",
        "Heterogeneity: covariances of the mixture as they are, and a tenth of them.",
        "10M where it is present, else 1M, which has whole stars only and users of the year 2000; the page says which.",
        "Real rewards: an arm is one of the ten largest genres and pays one of this user's own ratings in it, less the "
        "mean of all; features come from other ratings of the user; tasks are groups of users (gender and age in 1M, "
        "time of joining in 10M).",
        "Horizon 2,000 or as many users as have ratings in every genre.",
    ),
    settings=Settings(),
    quick=Settings(n_factors=3, n_arms=3, n_tasks=4, horizon=120),
    runs=runs,
    section=section,
)
