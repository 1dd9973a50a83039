"""One pair of task and arm: its belief, what it tells the shared coefficients of its arm, and how both change.

With v = P^-1 x and u = z (x) s2 w Q v a prediction has mean v'b + u'm and variance s2 x'v + u'Phi u: exact, the shared
coefficients integrated out. A pair tells them the *message* z z' (x) w Q P^-1 A, z (x) w Q P^-1 b: products, never
differences of large numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.core.compiler import compiled, inlined
from posse.core.forgetting import age_at, share_left
from posse.core.linalg import ZERO, dot, factorise, invert, product, quadratic, solve, times_arm
from posse.core.store import (
    COUNT,
    DECAY,
    INFORMATION,
    N_TOTALS,
    SQUARES,
    TIME,
    ZEROS,
    Store,
    n_triangle,
    totals_at,
)
from posse.types import Array, BoolArray, IntArray


class Work(NamedTuple):
    """Buffers of compiled calls, allocated before a change begins."""

    factor: Array  # (1, 1 + T) packed, from column 1 on
    solved: Array  # (d,) v = P^-1 x
    direction: Array  # (D,) z (x) w Q v
    through: Array  # (D,) Phi times that
    column: Array  # (d,)
    mean: Array  # (d,)
    centre: Array  # (d,)
    matrices: Array  # (4, d, d)
    message: Array  # (d, d + 1)
    triangle: Array  # (1, 1 + D (D + 1) / 2)


def new_work(d: int, n_shared: int) -> Work:
    """Return new buffers."""
    packed, triangle = 1 + d * (d + 1) // 2, 1 + n_shared * (n_shared + 1) // 2
    return Work(
        np.empty((1, packed)), np.empty(d), np.empty(n_shared), np.empty(n_shared), np.empty(d), np.empty(d),
        np.empty(d), np.empty((4, d, d)), np.empty((d, d + 1)), np.empty((1, triangle)),
    )  # fmt: skip


@compiled
def condition(
    pairs: Array, slot: int, share: float, prior: Array, arm: int, weight: float, out: Array, row: int
) -> None:
    """Write the packed factor of P of a pair whose sums count for this share; ``weight`` is s2 w."""
    d, at = prior.shape[2], 0
    for i in range(d):
        for j in range(i, d):
            out[row, 1 + at] = weight * prior[arm, i, j] + share * pairs[slot, at]
            at += 1
    factorise(out, row, d, prior, arm, weight)


@inlined
def make_factor(
    pairs: Array, factors: Array, slot: int, prior: Array, arm: int, weight: float, generation: Array
) -> None:
    """Make the factor of a pair again if sums or prior have changed since."""
    if factors[slot, 0] != generation[arm]:
        condition(pairs, slot, 1.0, prior, arm, weight, factors, slot)
        factors[slot, 0] = generation[arm]


@inlined
def touch(factors: Array, slot: int) -> None:
    """Note that the sums of a pair have changed, so that its factor is made again."""
    factors[slot, 0] = -1.0


@compiled
def lean(
    pairs: Array, factors: Array, known: Array, given: BoolArray, weight: Array, generation: Array, noises: Array,
    prior: Array, shared: Array, apart: Array, ageing: Array, factor: Array, solved: Array, direction: Array, slot: int,
    arm: int, task: int, x: Array, now: float,
) -> tuple[float, float]:  # fmt: skip
    """Return the mean and the variance that are the pair's own, and write v and the direction of its leaning.

    Sums that only a prediction looks at are aged on the fly. Arrays come one by one, as fields of a tuple are counted
    references at every use.
    """
    d, noise, w, n_shared = x.shape[0], noises[arm], weight[task], direction.shape[0]
    mean, variance, centre, share = 0.0, 0.0, 0.0, 1.0
    for i in range(n_shared):
        direction[i] = 0.0
    if slot < 0:  # P^-1 is Sigma / (s2 w)
        times_arm(prior, arm, d + 1, x, solved)
        for i in range(d):
            solved[i] /= noise * w
            direction[i] = x[i] / noise
    else:
        share = remaining_of(pairs, slot, d, now, ageing)
        if share < 1.0:
            condition(pairs, slot, share, prior, arm, noise * w, factor, ZERO[0])
            solve(factor, ZERO[0], x, solved)
        else:
            make_factor(pairs, factors, slot, prior, arm, noise * w, generation)
            solve(factors, slot, x, solved)
        at = n_triangle(d)
        for i in range(d):
            mean += pairs[slot, at + i] * solved[i]
            value = w * solved[i]
            for j in range(d):
                direction[j] += value * prior[arm, i, j]
    for i in range(d):
        variance += x[i] * solved[i]
    if n_shared > d:
        for a in range(1, known.shape[1]):
            value = known[task, a]
            for i in range(d):
                direction[a * d + i] = value * direction[i]
        if not given[task]:
            variance += noise * quadratic(apart, arm, direction, d)
    for i in range(n_shared):
        centre += direction[i] * shared[arm, n_shared, i]
    return share * mean + noise * centre, noise * variance


@inlined
def believe(store: Store, work: Work, slot: int, arm: int, task: int, x: Array, now: float) -> tuple[float, float]:
    """Return mean and variance of the predictor of a pair as of now; ``work`` keeps what :func:`add_site` needs."""
    noise = store.noise[arm]
    mean, variance = lean(
        store.pairs, store.factors, store.known, store.given, store.weight, store.generation, store.noise, store.prior,
        store.shared, store.apart, store.ageing, work.factor, work.solved, work.direction, slot, arm, task, x, now,
    )  # fmt: skip
    times_arm(store.shared, arm, ZERO[0], work.direction, work.through)
    return mean, max(variance + noise * noise * dot(work.direction, work.through), 0.0)


@compiled
def add_site(
    pairs: Array, factors: Array, told: Array, shared: Array, noise: float, solved: Array, direction: Array,
    through: Array, slot: int, arm: int, x: Array, w: float, h: float,
) -> None:  # fmt: skip
    """Add a site, or take one away (w, h negative), at the x that was just believed: changes of rank one."""
    d, n_shared, at = x.shape[0], told.shape[2], 0
    fitted, first = 0.0, n_triangle(d)
    for i in range(d):
        fitted += pairs[slot, first + i] * solved[i]
    scale = 1.0 / (1.0 + w * dot(x, solved))
    gain, weight = (h - w * fitted) * scale, noise * w * scale
    shrink = weight / (1.0 + weight * dot(direction, through))
    for a in range(n_shared):
        told[arm, n_shared, a] += gain * direction[a]
        shared[arm, n_shared, a] = 0.0
    for a in range(n_shared):
        more, less, moment = weight * direction[a], shrink * through[a], told[arm, n_shared, a]
        for c in range(n_shared):
            told[arm, a, c] += more * direction[c]
            shared[arm, a, c] -= less * through[c]
        for c in range(n_shared):
            shared[arm, n_shared, c] += moment * shared[arm, a, c]
    for i in range(d):
        pairs[slot, first + i] += h * x[i]
        more = w * x[i]
        for j in range(i, d):
            pairs[slot, at] += more * x[j]
            at += 1
    touch(factors, slot)


@inlined
def change_site(store: Store, work: Work, slot: int, arm: int, x: Array, w: float, h: float) -> None:
    """Add a site to a store as :func:`add_site` does."""
    add_site(
        store.pairs, store.factors, store.told, store.shared, store.noise[arm], work.solved, work.direction,
        work.through, slot, arm, x, w, h,
    )  # fmt: skip


@compiled
def finish_arm(told: Array, shared: Array, arm: int, work: Work) -> None:
    """Compute the posterior of an arm's shared coefficients from its precision and moment."""
    n_shared = told.shape[2]
    invert(told, arm, shared, work.triangle, work.through)
    times_arm(shared, arm, ZERO[0], told[arm, n_shared], shared[arm, n_shared])


@compiled
def add_message(
    pairs: Array, factors: Array, slot: int, prior: Array, arm: int, generation: Array, known: Array, task: int,
    weight: float, noise: float, work: Work, sign: float, told: Array,
) -> None:  # fmt: skip
    """Add what a pair tells its arm's shared coefficients, or take it away; ``weight`` is that of the task."""
    d, n_shared, message, gram, solved = prior.shape[2], told.shape[2], work.message, work.matrices, work.solved
    place, share = 0, sign * weight
    make_factor(pairs, factors, slot, prior, arm, noise * weight, generation)
    for i in range(d):
        for j in range(i, d):
            gram[0, i, j] = gram[0, j, i] = pairs[slot, place]
            place += 1
    for i in range(d):  # row i of Q P^-1 [A, b]
        solve(factors, slot, prior[arm, i], solved)
        for j in range(d + 1):
            message[i, j] = 0.0
        for c in range(d):
            value = solved[c]
            for j in range(d):
                message[i, j] += value * gram[0, c, j]
            message[i, d] += value * pairs[slot, place + c]
    for a in range(known.shape[1]):
        for i in range(d):
            told[arm, n_shared, a * d + i] += share * known[task, a] * message[i, d]
            for c in range(known.shape[1]):
                both = 0.5 * share * known[task, a] * known[task, c]
                for j in range(d):
                    told[arm, a * d + i, c * d + j] += both * (message[i, j] + message[j, i])


@inlined
def tell(store: Store, work: Work, slot: int, task: int, arm: int, sign: float) -> None:
    """Add the message of a slot to those that its arm was told, or take it away."""
    add_message(
        store.pairs, store.factors, slot, store.prior, arm, store.generation, store.known, task, store.weight[task],
        store.noise[arm], work, sign, store.told,
    )  # fmt: skip


@compiled
def age_sums(pairs: Array, factors: Array, slot: int, d: int, share: float) -> None:
    """Let the sums of a pair count for less."""
    at = totals_at(d)
    for i in range(at):
        pairs[slot, i] *= share
    pairs[slot, at + COUNT] *= share
    pairs[slot, at + SQUARES] *= share
    pairs[slot, at + INFORMATION] *= share
    for column in range(ZEROS, N_TOTALS):
        pairs[slot, at + column] *= share
    pairs[slot, at + DECAY] += math.log(share)
    touch(factors, slot)


@compiled
def remaining_of(pairs: Array, slot: int, d: int, now: float, ageing: Array) -> float:
    """Return what the sums of a pair are multiplied by when it is looked at."""
    at = totals_at(d)
    return share_left(pairs[slot, at + INFORMATION], age_at(now, ageing) - pairs[slot, at + TIME])


@compiled
def age_silently(pairs: Array, factors: Array, slot: int, d: int, age: float) -> None:
    """Bring the sums of a pair to some age, see :mod:`posse.core.forgetting`; its message is not told."""
    at = totals_at(d)
    share = share_left(pairs[slot, at + INFORMATION], age - pairs[slot, at + TIME])
    if share < 1.0 and pairs[slot, at + COUNT] > 0.0:
        age_sums(pairs, factors, slot, d, share)
    pairs[slot, at + TIME] = max(pairs[slot, at + TIME], age)


@compiled
def age(store: Store, work: Work, slot: int, now: float, jump: float) -> None:
    """Bring the sums of a pair, and its message, to the present, and some half-lives beyond."""
    task, arm = store.owner[slot, 0], store.owner[slot, 1]
    d, pairs, present = store.prior.shape[2], store.pairs, age_at(now, store.ageing)
    at = totals_at(d)
    if present + jump > pairs[slot, at + TIME] and pairs[slot, at + COUNT] > 0.0:
        age_silently(pairs, store.factors, slot, d, store.summed_at[0])  # as of then its message was told
        share = share_left(pairs[slot, at + INFORMATION], present + jump - pairs[slot, at + TIME])
        if share < 1.0:
            tell(store, work, slot, task, arm, -1.0)
            age_sums(pairs, store.factors, slot, d, share)
            tell(store, work, slot, task, arm, 1.0)
            finish_arm(store.told, store.shared, arm, work)
    pairs[slot, at + TIME] = max(pairs[slot, at + TIME], present)


@compiled
def tell_slots(store: Store, work: Work, slots: IntArray, sign: float) -> None:
    """Add the messages of some slots to those that their arms were told, or take them away; finish all arms then.

    Pairs are brought to the time of the other messages first. Slots without rewards, and -1, have none.
    """
    at = totals_at(store.prior.shape[2])
    for slot in slots:
        if slot >= 0 and store.pairs[slot, at + COUNT] > 0.0:
            age_silently(store.pairs, store.factors, slot, store.prior.shape[2], store.summed_at[0])
            tell(store, work, slot, store.owner[slot, 0], store.owner[slot, 1], sign)
    if sign > 0.0:
        for arm in range(store.noise.shape[0]):
            finish_arm(store.told, store.shared, arm, work)


@inlined
def prior_of_task(shared: Array, known: Array, mean: Array, covariance: Array) -> None:
    """Write mean and covariance of W z, the centre of a task."""
    d, n_shared = mean.shape[0], shared.shape[1]
    for i in range(d):
        mean[i] = 0.0
        for j in range(d):
            covariance[i, j] = 0.0
    for a in range(known.shape[0]):
        for i in range(d):
            mean[i] += known[a] * shared[n_shared, a * d + i]
            for c in range(known.shape[0]):
                for j in range(d):
                    covariance[i, j] += known[a] * known[c] * shared[a * d + i, c * d + j]


@inlined
def pair_posterior(
    store: Store, work: Work, slot: int, task: int, arm: int, share: float, mean: Array, covariance: Array
) -> None:
    """Write the posterior of a pair's coefficients: H m + P^-1 b and s2 P^-1 + H Phi H' with H = s2 w P^-1 Q.

    The sums of the pair count for ``share``; slot -1 has no rewards.
    """
    d, noise, w = mean.shape[0], store.noise[arm], store.weight[task]
    spread, leaning, through = work.matrices[1], work.matrices[2], work.matrices[3]
    known, own, column = store.known[task], work.column, work.solved
    prior_of_task(store.shared[arm], known, work.centre, spread)
    if known.shape[0] > 1 and not store.given[task]:
        for i in range(d):
            for j in range(d):
                spread[i, j] += store.apart[arm, i, j]
    share = share if slot >= 0 else 0.0
    condition(store.pairs, max(slot, 0), share, store.prior, arm, noise * w, work.factor, ZERO[0])
    for i in range(d):
        own[i] = share * store.pairs[max(slot, 0), n_triangle(d) + i]
    solve(work.factor, ZERO[0], own, mean)
    for i in range(d):
        own[i] = 0.0
    for i in range(d):
        own[i] = noise
        solve(work.factor, ZERO[0], own, column)  # row i of s2 P^-1
        own[i] = 0.0
        times_arm(store.prior, arm, ZERO[0], column, leaning[i])
        for j in range(d):
            covariance[i, j] = column[j]
            leaning[i, j] *= w
    product(leaning, spread, through)
    for i in range(d):
        mean[i] += dot(leaning[i], work.centre)
        for j in range(d):
            covariance[i, j] += dot(through[i], leaning[j])
