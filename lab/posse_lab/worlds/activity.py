"""Worlds from Activity recognition (UCI 427): trials are tasks, activities are arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse.checks import number, whole_number
from posse.errors import InvalidValue
from posse.model.estimation import estimate_prior
from posse.model.posterior import posterior
from posse.model.prior import Prior
from posse.types import Array, BoolArray, IntArray, Settings
from posse_lab.worlds.features import Components, Scaling, indicators, with_intercept
from posse_lab.worlds.grouped import FittedWorld, RecordedWorld, full_information, recorded_world
from posse_lab.worlds.rows import require_every_class, size_of_share

if TYPE_CHECKING:
    from posse_lab.datasets import Activity

TIME, ANTENNA = 0, 4  # columns of the file


def activity_protocol(
    data: Activity,
    *,
    n_tasks: int = 16,
    n_components: int = 8,
    training_share: float = 0.3,
    heterogeneity: float = 1.0,
    use_time: bool = True,
) -> FittedWorld:
    r"""Return the paper's world: a hierarchical model fitted to the first rows of every trial simulates the others.

    .. math:: \beta_{kj} = m_{k0} + \sqrt h\, (m_{kj} - m_{k0})

    with the posterior means :math:`m_{k0}` of the shared and :math:`m_{kj}` of each task's coefficients.

    Parameters
    ----------
    data : Activity
    n_tasks : int
        The largest trials in which every activity occurs; of equal ones the first.
    n_components : int
        Principal components that are the features.
    training_share : float
        Share of every trial, by time, that is fitted to. The other rows are met.
    heterogeneity : float
        :math:`h`; 0 makes all tasks identical.
    use_time : bool
        Whether seconds since the start of the trial are among the columns, as in the paper. The rows that are met come
        later than all that were fitted to, so the model is extrapolated in this column.

    Notes
    -----
    Columns: the antenna one-hot, the others as they are, all standardised. Scaling and components come from the
    training rows. The target of an arm is 1 where its activity is the label and 0 elsewhere, less the mean of the
    training rows. There is no intercept.

    The population is estimated by evidence, and is declared as prior with its covariance times :math:`h`. Posterior
    means scatter less than the population does, so the declared covariance is somewhat wider than the scatter.
    """
    heterogeneity = number(heterogeneity, "heterogeneity", at_least=0)
    rows = _prepare(data, n_tasks, n_components, training_share, use_time)
    targets = indicators(rows.labels[rows.training], len(data.classes))
    stats = full_information(
        rows.scores[rows.training], rows.tasks[rows.training], targets - targets.mean(axis=0), n_tasks
    )
    prior = estimate_prior(stats, method="evidence").prior
    fitted = posterior(stats, prior)
    shared = fitted.shared_mean[:, None, :]
    return FittedWorld(
        name=rows.name,
        contexts=rows.scores[~rows.training],
        tasks=rows.tasks[~rows.training],
        coefficients=shared + np.sqrt(heterogeneity) * (fitted.mean - shared),
        noise_sd=np.sqrt(prior.noise_variance),
        prior=Prior(
            covariance=heterogeneity * prior.covariance,
            noise_variance=prior.noise_variance,
            shared_precision=prior.shared_precision,
        ),
        checksum=data.sha256,
        details={"heterogeneity": heterogeneity, **rows.details},
    )


def recorded_activity(
    data: Activity,
    *,
    n_tasks: int = 16,
    n_components: int = 8,
    training_share: float = 0.3,
    use_time: bool = True,
) -> RecordedWorld:
    """Return the world of the same rows in which naming the right activity pays 1 and any other 0.

    Parameters are those of :func:`activity_protocol`. Contexts have an intercept before the components. The prior is
    fitted offline, to the training rows, which are not met.
    """
    rows = _prepare(data, n_tasks, n_components, training_share, use_time)
    return recorded_world(
        rows.name, with_intercept(rows.scores), rows.tasks, indicators(rows.labels, len(data.classes)),
        fit=rows.training, met=~rows.training, n_tasks=n_tasks, checksum=data.sha256, details=rows.details,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows of the trials that were kept, in the order of trial and time."""

    name: str
    scores: Array
    tasks: IntArray
    labels: IntArray
    training: BoolArray
    details: Settings


def _prepare(data: Activity, n_tasks: int, n_components: int, training_share: float, use_time: bool) -> _Rows:
    n_tasks = whole_number(n_tasks, "n_tasks", at_least=1)
    kept = _largest_trials(data, n_tasks)
    rows, training = [], []
    for trial in kept:
        own = np.flatnonzero(data.trials == trial)
        own = own[np.argsort(data.X[own, TIME], kind="stable")]
        rows.append(own)
        training.append(np.arange(own.size) < size_of_share(own.size, training_share, "training_share"))
    chosen, first = np.concatenate(rows), np.concatenate(training)
    labels = data.labels[chosen]
    require_every_class(labels[first], data.classes, "the training rows")
    columns = _columns(data.X[chosen], first, use_time)
    columns = Scaling.of(columns[first], "column").apply(columns)
    return _Rows(
        name=f"activity room {data.room}",
        scores=Components.of(columns[first], n_components).apply(columns),
        tasks=np.repeat(np.arange(n_tasks), [own.size for own in rows]),
        labels=labels,
        training=first,
        details={
            "trials": [data.trial_names[trial] for trial in kept],
            "n_components": n_components,
            "training_share": training_share,
            "use_time": bool(use_time),
            "fit_rows": "the first of every trial by time",
            "met_rows": "the others",
            "n_fit_rows": int(first.sum()),
        },
    )


def _largest_trials(data: Activity, n_tasks: int) -> IntArray:
    """Return the largest trials with every label, in the order of the files."""
    n_trials, n_labels = len(data.trial_names), len(data.classes)
    counts = np.bincount(data.trials * n_labels + data.labels, minlength=n_trials * n_labels)
    counts = counts.reshape(n_trials, n_labels)
    full = np.flatnonzero((counts > 0).all(axis=1))
    if full.size < n_tasks:
        raise InvalidValue(
            f"expected n_tasks to be at most {full.size}, the trials in which each of the {n_labels} activities "
            "occurs, got "
            f"{n_tasks}"
        )
    by_size = full[np.argsort(-counts[full].sum(axis=1), kind="stable")]
    return np.sort(by_size[:n_tasks])


def _columns(X: Array, training: BoolArray, use_time: bool) -> Array:
    """Return numeric columns, then one per antenna that the training rows know."""
    numeric = [column for column in range(X.shape[1]) if column != ANTENNA and (use_time or column != TIME)]
    antennas = np.unique(X[training, ANTENNA])
    return np.column_stack([X[:, numeric], X[:, ANTENNA, None] == antennas])
