r"""Effects of what is known about tasks and arms on the population.

Coefficients of a task lie around :math:`m_k + W_k z_j` where :math:`z_j` is what is known about the task. With the
covariance of the tasks and the noise held fixed, a task's rewards say about that mean what

.. math:: G_j = (s^2 A_j^{-1} + \Sigma)^{-1}, \qquad g_j = (s^2 I + A_j \Sigma)^{-1} b_j

say, so :math:`(m_k, W_k)` is one regression with precision :math:`\sum_j z_j z_j^\top \otimes G_j`. Effects of arms'
features on the arms' means are the same regression one level up. How large effects are is learned by evidence, one
variance per feature, in units in which every column of the context has mean square 1; where the population is learned
in columns less their means (:mod:`posse.core.population`), so are effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from posse.types import Array, IntArray

ROUNDS = 3  # over the features, each variance given the others
ENOUGH = 3.0  # log evidence that effects must bring to be believed at all: 20 to 1; useless features then cost nothing
LEVELS = np.logspace(-4, 3, 141)  # of the variance, over that of tasks or arms


class Effects(NamedTuple):
    """Belief about the effects of features.

    Parameters
    ----------
    mean : ndarray of shape (n_units, n_columns, n_features)
    covariance : ndarray of shape (n_units, n_columns * n_features, n_columns * n_features)
    variance : ndarray of shape (n_groups,)
        Of the effects of every feature before any reward; 0 for features that say nothing.
    give : ndarray of shape (n_units, n_features, n_columns * n_features)
        By how much the mean of a unit would be lower if an effect were higher by 1: rewards know their sum best.
    """

    mean: Array
    covariance: Array
    variance: Array
    give: Array

    def uncertainty(self, units: IntArray, z: Array, leaning: Array) -> Array:
        """Return the variances that effects add to those of units' means in directions, row by row."""
        direction = (z[:, :, None] * leaning[:, None, :]).reshape(len(z), -1)
        direction -= np.einsum("ui,uip->up", leaning, self.give[units])
        if len(self.covariance) == 1:  # no copies of it
            through = direction @ self.covariance[0]
        else:
            through = np.einsum("ui,uij->uj", direction, self.covariance[units])
        result: Array = np.einsum("ui,ui->u", through, direction)
        return result

    def turned(self, back: Array) -> Effects:
        """Return the same effects on other coefficients, ``back`` times those they are on here."""
        whole = np.kron(np.eye(self.mean.shape[1]), back)
        return Effects(
            self.mean @ back.T,
            whole @ self.covariance @ whole.T,
            self.variance,
            back @ self.give @ np.kron(np.eye(self.mean.shape[1]), np.linalg.inv(back)),
        )


def no_effects(n_units: int, n_columns: int, n_features: int, n_groups: int) -> Effects:
    """Return effects that are 0 for certain: nothing was learned yet."""
    size = n_columns * n_features
    return Effects(
        np.zeros((n_units, n_columns, n_features)),
        np.zeros((n_units, size, size)),
        np.full(n_groups, np.nan),
        np.zeros((n_units, n_features, size)),
    )


def task_information(gram: Array, moment: Array, covariance: Array, noise: Array) -> tuple[Array, Array]:
    """Return what the rewards of every task say about the mean of its coefficients: precision and moment.

    Parameters
    ----------
    gram : ndarray of shape (n_tasks, d, d)
    moment : ndarray of shape (n_tasks, d)
    covariance : ndarray of shape (d, d)
        Of the tasks around that mean.
    noise : ndarray of shape (n_tasks,)
        The noise variance, times the weight of the task.

    Returns
    -------
    tuple of ndarrays of shapes (n_tasks, d, d) and (n_tasks, d)
    """
    d = covariance.shape[0]
    # Solve, do not invert: neither the Gram matrix nor the covariance need have full rank.
    middle = gram @ covariance + noise[:, None, None] * np.eye(d)
    both = np.linalg.solve(middle, np.concatenate([gram, moment[:, :, None]], axis=2))
    information = both[:, :, :d]
    return (information + information.transpose(0, 2, 1)) / 2, both[:, :, d]


def regression(design: Array, information: Array, moment: Array) -> tuple[Array, Array]:
    """Return precision and moment of the effects of all columns of ``design``, column after column.

    Parameters
    ----------
    design : ndarray of shape (n, p)
    information : ndarray of shape (n, d, d)
    moment : ndarray of shape (n, d)

    Returns
    -------
    tuple of ndarrays of shapes (p * d, p * d) and (p * d,)
    """
    (n, p), d = design.shape, moment.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(n, p * p)
    precision = (products.T @ information.reshape(n, d * d)).reshape(p, p, d, d).transpose(0, 2, 1, 3)
    return precision.reshape(p * d, p * d), (design.T @ moment).reshape(p * d)


def centred(precision: Array, moment: Array, back: Array) -> tuple[Array, Array]:
    """Return what :func:`regression` says of other coefficients, those that ``back`` turns into the ones it is of."""
    whole = np.kron(np.eye(moment.shape[1] // len(back)), back)
    return whole.T @ precision @ whole, moment @ whole


def learn_effects(
    precision: Array,
    moment: Array,
    base_precision: Array,
    base_moment: Array,
    squares: Array,
    groups: IntArray,
    levels: Array,
    start: Array,
) -> Effects:
    """Return the effects of all columns but the first, and how large effects of every feature are.

    Parameters
    ----------
    precision : ndarray of shape (n_units, p * d, p * d)
        Of :func:`regression`, one unit after another; the first column of its design is 1.
    moment : ndarray of shape (n_units, p * d)
    base_precision, base_moment : ndarrays of shapes (n_units, d, d) and (n_units, d)
        What is believed about the mean where all other columns are 0.
    squares : ndarray of shape (d,)
        Mean squares of the columns of the context.
    groups : ndarray of shape (p - 1,)
        The feature that every other column belongs to.
    levels : ndarray of shape (n_groups,)
        The variance of tasks, or arms, in units of standardised columns over the mean square of the feature: variances
        are looked for around them.
    start : ndarray of shape (n_groups,)
        Variances to start from; NaN for the level.
    """
    variance = effect_variances(precision, moment, base_precision, base_moment, squares, groups, levels, start)
    d = squares.size
    total, moments = precision.copy(), moment.copy()
    total[:, :d, :d] += base_precision
    moments[:, :d] += base_moment
    place = np.repeat(groups, d)  # the feature of every entry behind the base
    inverse_scale = np.tile(squares, groups.size)
    diagonal = np.arange(d, total.shape[1])
    there = variance > 0
    used = np.concatenate([np.arange(d), diagonal[there[place]]])
    total[:, diagonal, diagonal] += inverse_scale / np.where(there, variance, 1.0)[place]
    covariance, mean = np.zeros(total.shape), np.zeros(moments.shape)
    some = np.linalg.inv(total[:, used[:, None], used])
    covariance[:, used[:, None], used] = some
    mean[:, used] = np.einsum("uij,uj->ui", some, moments[:, used])
    give = np.asarray(np.linalg.solve(total[:, :d, :d], total[:, :d, d:]), dtype=np.float64)
    return Effects(mean[:, d:].reshape(len(mean), -1, d), covariance[:, d:, d:], variance, give)


def effect_variances(
    precision: Array,
    moment: Array,
    base_precision: Array,
    base_moment: Array,
    squares: Array,
    groups: IntArray,
    levels: Array,
    start: Array,
) -> Array:
    """Return how large the effects of every feature are, 0 for those that say nothing; as :func:`learn_effects`."""
    d = squares.size
    total, moments = precision.copy(), moment.copy()
    total[:, :d, :d] += base_precision
    moments[:, :d] += base_moment
    variance = np.where(np.isnan(start), levels, start)
    place = np.repeat(groups, d)  # the feature of every entry behind the base
    inverse_scale = np.tile(squares, groups.size)
    diagonal = np.arange(d, total.shape[1])
    for _ in range(ROUNDS if variance.size > 1 else 1):
        for group in range(variance.size):
            mine = diagonal[place == group]
            others = np.concatenate([np.arange(d), diagonal[(place != group) & (variance > 0)[place]]])
            known = total.copy()
            known[:, diagonal, diagonal] += inverse_scale / np.where(variance > 0, variance, 1.0)[place]
            variance[group] = _most_likely(known, total, moments, mine, others, squares, float(levels[group]))
    return variance


def _most_likely(
    known: Array, total: Array, moments: Array, mine: IntArray, others: IntArray, squares: Array, level: float
) -> float:
    """Return the variance of one feature's effects that rewards make most likely, all others given; 0 if none is.

    With the others integrated out and columns standardised, the evidence is a sum over eigenvalues e with parts t of
    the moment: (v t^2 / (1 + v e) - log(1 + v e)) / 2.
    """
    root = 1.0 / np.sqrt(np.tile(squares, mine.size // squares.size))
    values, parts = [], []
    for unit in range(len(total)):
        cross = known[unit][np.ix_(mine, others)]
        solved = np.linalg.solve(known[unit][np.ix_(others, others)], np.column_stack([cross.T, moments[unit, others]]))
        own = total[unit][np.ix_(mine, mine)] - cross @ solved[:, :-1]
        rest = moments[unit, mine] - cross @ solved[:, -1]
        eigenvalues, vectors = np.linalg.eigh(root[:, None] * (own + own.T) / 2 * root)
        values.append(np.maximum(eigenvalues, 0.0))
        parts.append((vectors.T @ (root * rest)) ** 2)
    e, t = np.concatenate(values), np.concatenate(parts)
    grid = level * LEVELS[:, None]
    evidence = (grid * t / (1.0 + grid * e) - np.log1p(grid * e)).sum(axis=1)
    best = int(np.argmax(evidence))
    return float(grid[best, 0]) if evidence[best] > 2.0 * ENOUGH else 0.0
