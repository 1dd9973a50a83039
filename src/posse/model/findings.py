"""Sentences about the limits of data and anything unusual in them, for reports, fleets and regressions.

All is computed from sums over tasks, so that it takes no longer for more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from posse.types import Array, BoolArray, IntArray

COLLINEAR = 1e-10  # the share of a column's square that others leave unexplained, below which it follows from them
INVOLVED = 1e-6  # the least coefficient, in columns of mean square 1, with which another column takes part in that
EXACT = 1e-12  # the share of the rewards' square up to which a difference is rounding
MOST_NAMES = 5  # that a sentence lists
MOST_SENTENCES = 3  # about collinear columns

BLURRED = 0.5  # share of the rewards that fits coefficients: from here on noise is unusual
UNEVEN = 5.0  # times more scatter of squares than Gaussian rewards have


class Names(NamedTuple):
    """Names of things in sentences.

    Parameters
    ----------
    arm : callable, optional
        The name of an arm by its number. None where there is one and nobody calls it that.
    feature : callable
        The name of a column by its number.
    task, reward : str
        One of many, and what was seen of it.
    always, fitted : str
        What comes before a value that all rewards have, and before how they are fitted.
    """

    arm: Callable[[int], str] | None = str
    feature: Callable[[int], str] = str
    task: str = "task"
    reward: str = "reward"
    always: str = "all rewards are"
    fitted: str = "the rewards are"


NUMBERS = Names()
"""Arms and features by their numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Sums over the tasks of what was seen.

    Parameters
    ----------
    tasks : ndarray of shape (n_arms,)
        Tasks with rewards of every arm.
    rewards : ndarray of shape (n_arms,)
    n_tasks : int
        Tasks with rewards of any arm; 2 may stand for more.
    products : ndarray of shape (n_features + 1, n_features + 1)
        Sums of products of the columns and, last, the rewards.
    intercept : int or None
        The column that is always 1, if one is known to be.
    categories : sequence of ranges
        Columns of one-hot features: they add up to 1 by themselves, which is nothing to tell.
    arms : ndarray, optional
        The arms to speak of. Default: all.
    pooled : bool
        Whether tasks learn from each other, so that it matters what cannot be known about their differences.
    arms_pooled : bool
        Whether arms do, too: under the evidence prior.
    """

    tasks: IntArray
    rewards: Array
    n_tasks: int
    products: Array
    intercept: int | None = None
    categories: Sequence[range] = ()
    arms: IntArray | None = None
    pooled: bool = True
    arms_pooled: bool = False


class Unusual(NamedTuple):
    """Numbers about an estimate of the evidence prior.

    Parameters
    ----------
    quiet : tuple of int
        Arms whose noise cannot be told from none.
    far : tuple of int
        Arms far from the others.
    coefficient_share : float
        The share of what rewards say that goes into coefficients of tasks.
    overdispersion : float
        How much less rewards say about noise than Gaussian ones would.
    converged : bool
        Whether the search came to rest.
    """

    quiet: tuple[int, ...]
    far: tuple[int, ...]
    coefficient_share: float
    overdispersion: float
    converged: bool


def data_findings(seen: Seen, names: Names = NUMBERS) -> list[str]:
    """Return what no method can learn from these data."""
    found = []
    if seen.arms_pooled and len(seen.rewards) == 1:
        found.append("there is one arm only: how arms differ cannot be learned")
    if not seen.rewards.sum() > 0:
        return [f"there are no {names.reward}s yet: what is believed is the start value of the prior", *found]
    found += _count_findings(seen, names)
    found += _reward_findings(seen, names)
    found += _feature_findings(seen, names)
    return found


def unusual_findings(unusual: Unusual, names: Names = NUMBERS) -> list[str]:
    """Return what is unusual about an estimated population."""
    found = []
    because = "it cannot be told from none, so it is believed to be the least that the number of"
    if unusual.quiet:
        arms = "there is" if names.arm is None else _named("arm", names.arm, unusual.quiet, "shows", "show")
        found.append(f"{arms} hardly any noise: {because} {names.reward}s allows")
    if unusual.far and names.arm is not None:
        arms = _named("arm", names.arm, unusual.far, "is", "are")
        found.append(f"{arms} far from the others: little can be learned from them")
    share, over = unusual.coefficient_share, unusual.overdispersion
    if share > BLURRED:
        where = names.task if names.arm is None else f"{names.task} and arm"
        found.append(
            f"{share:.0%} of what {names.reward}s say goes into coefficients of {names.task}s: with so few "
            f"{names.reward}s per {where}, noise can hardly be told from differences between {names.task}s"
        )
    if over > UNEVEN:
        sharing = ", and arms share it" if names.arm is not None else ""
        found.append(
            f"few {names.reward}s or {names.task}s carry most of the variance (rare clicks, heavy tails, or a feature "
            f"is missing): what they say about noise counts {over:.0f} times less{sharing}"
        )
    if not unusual.converged:
        found.append("the search did not come to rest: the population may still move when it is estimated again")
    return found


def one_task(names: Names = NUMBERS) -> str:
    """Return the sentence about rewards that all come from one task."""
    return f"{names.reward}s come from one {names.task} only: how {names.task}s differ cannot be learned"


def _count_findings(seen: Seen, names: Names) -> list[str]:
    found = []
    task, reward = names.task, names.reward
    spoken = np.arange(len(seen.rewards)) if seen.arms is None else seen.arms
    tasks, rewards = seen.tasks[spoken], seen.rewards[spoken]
    if seen.rewards.sum() == 1:
        found.append(f"there is one {reward} only: noise cannot be told from anything else")
    elif seen.n_tasks < 2 and seen.pooled:
        found.append(one_task(names))
    apart = f"noise and differences between {task}s cannot be told apart"
    if names.arm is None:
        if seen.n_tasks > 1 and (rewards <= tasks).all():
            found.append(f"every {task} has one {reward}: {apart}")
        return found
    without = spoken[rewards == 0]
    if without.size:
        found.append(f"{_named('arm', names.arm, without, 'has', 'have')} no {reward}s yet")
    if seen.n_tasks > 1 and seen.pooled:
        alone = spoken[tasks == 1]
        if alone.size:
            arms = _named("arm", names.arm, alone, "was", "were")
            found.append(f"{arms} seen in one {task} only: how {task}s differ cannot be learned from that")
        once = spoken[(tasks > 1) & (rewards == tasks)]
        if once.size:
            found.append(f"{_named('arm', names.arm, once, 'has', 'have')} one {reward} per {task}: {apart}")
        # Only where old ones count less.
        faded = spoken[(tasks > 1) & (rewards < tasks)]
        if faded.size:
            arms = _named("arm", names.arm, faded, "has", "have")
            found.append(f"{arms} less than one {reward} per {task} that still counts: {apart}")
    return found


def _reward_findings(seen: Seen, names: Names) -> list[str]:
    d = len(seen.products) - 1
    squares, rewards = float(seen.products[d, d]), float(seen.rewards.sum())
    if not squares > 0:
        return [f"{names.always} 0: there is no scale to learn"]
    if rewards == 1:
        return []
    products = _symmetric(seen.products)
    if seen.intercept is not None:
        mean = products[seen.intercept, d] / rewards
        if squares - rewards * mean**2 <= EXACT * squares:
            return [f"{names.always} {mean:g}: neither noise nor differences can be learned"]
    size = np.sqrt(np.where(np.diagonal(products) > 0, np.diagonal(products), 1.0))
    left, used = _swept(products / np.outer(size, size), d)
    if rewards > used.sum() and left[d, d] <= EXACT:
        return [f"{names.fitted} fitted exactly by one regression for all: noise and differences cannot be learned"]
    return []


def _feature_findings(seen: Seen, names: Names) -> list[str]:
    """Return which columns say nothing of their own."""
    products = _symmetric(seen.products)[:-1, :-1]
    squares = np.diagonal(products)
    zero, heard = np.flatnonzero(squares == 0), np.flatnonzero(squares > 0)
    found = []
    if zero.size:
        columns = _named("feature", names.feature, zero, "is", "are")
        found.append(f"{columns} always 0: nothing is known about {'its' if zero.size == 1 else 'their'} coefficients")
    rewards = float(seen.rewards.sum())
    if rewards < heard.size:
        found.append(
            f"there are fewer {names.reward}s ({rewards:g}) than coefficients ({heard.size}): some of their directions "
            "were never seen"
        )
        return found
    constant, groups = _dependent(products, heard, seen)
    if constant:
        columns = _named("feature", names.feature, constant, "is", "are")
        found.append(f"{columns} constant: {'it' if len(constant) == 1 else 'they'} cannot be told from the intercept")
    never = "some directions of their coefficients were never seen"
    if len(groups) > MOST_SENTENCES:
        groups = [sorted({column for group in groups for column in group})]
    found += [f"{_named('feature', names.feature, group, 'is', 'are')} collinear: {never}" for group in groups]
    return found


def _dependent(products: Array, heard: IntArray, seen: Seen) -> tuple[list[int], list[list[int]]]:
    """Return columns that only repeat the intercept, and groups whose last column follows from the others."""
    order = heard
    if seen.intercept is not None and seen.intercept in heard:
        order = np.concatenate([[seen.intercept], heard[heard != seen.intercept]])
    size = np.sqrt(np.diagonal(products)[order])
    swept, used = _swept(products[np.ix_(order, order)] / np.outer(size, size), order.size)
    constant, groups = [], []
    for place in np.flatnonzero(~used):
        others = np.flatnonzero(used[:place] & (np.abs(swept[:place, place]) > INVOLVED))
        group = {int(column) for column in order[others]}
        last = int(order[place])
        if group == {seen.intercept}:
            constant.append(last)
        elif not _add_up(group | {last}, heard, seen):
            groups.append([*sorted(group), last])
    return constant, groups


def _add_up(group: set[int], heard: IntArray, seen: Seen) -> bool:
    """Whether columns are collinear because each of some one-hot features has one category in every row."""
    rest = group - {seen.intercept}
    for columns in seen.categories:
        present = {int(column) for column in heard if column in columns}
        if rest & present:
            if not present <= rest or len(present) < 2:
                return False
            rest -= present
    return not rest


def _swept(products: Array, count: int) -> tuple[Array, BoolArray]:
    """Sweep products of columns of mean square 1 on the first so many; return them and which columns were taken.

    A column that follows from those before it is not taken; above its diagonal stand the coefficients with which it
    follows from them, and on the diagonal what they leave unexplained.
    """
    left = products.copy()
    taken = np.zeros(count, dtype=np.bool_)
    for k in range(count):
        pivot = left[k, k]
        if pivot <= COLLINEAR:
            continue
        taken[k] = True
        row = left[k].copy()
        left -= np.outer(row, row) / pivot
        left[k] = left[:, k] = row / pivot
        left[k, k] = -1 / pivot
    return left, taken


def _symmetric(upper: Array) -> Array:
    """Return a whole matrix from its upper triangle."""
    triangle = np.triu(upper)
    whole: Array = triangle + np.triu(triangle, 1).T
    return whole


def _named(kind: str, name: Callable[[int], str], numbers: Sequence[int] | IntArray, one: str, many: str) -> str:
    """Return some things by their names, not too many, with the verb that follows."""
    shown = [name(int(number)) for number in numbers[:MOST_NAMES]]
    if len(numbers) == 1:
        return f"{kind} {shown[0]} {one}"
    if len(numbers) > MOST_NAMES:
        return f"{len(numbers)} {kind}s ({', '.join(shown)} and {len(numbers) - MOST_NAMES} more) {many}"
    return f"{kind}s {', '.join(shown[:-1])} and {shown[-1]} {many}"
