"""The compiled calls that change a store: one for each change, and none of them can fail on prepared input."""

from __future__ import annotations

import math

import numpy as np

from posse.core.compiler import compiled, inlined
from posse.core.forgetting import age_at, share_left
from posse.core.pair import (
    Work,
    age,
    age_silently,
    believe,
    change_site,
    finish_arm,
    remaining_of,
    tell,
    touch,
)
from posse.core.rows import KEPT_ROWS, keep_row, release_oldest
from posse.core.state import AT_LAST, BEHIND, CLOCK, NEWS, SERIALS, TOTAL
from posse.core.store import (
    CLOSED,
    COUNT,
    DECAY,
    FIRST,
    FRACTIONS,
    INFORMATION,
    MOMENT,
    N_TOTALS,
    NEGATIVES,
    OFFSET,
    OPEN,
    PRECISION,
    REWARD,
    SPREAD,
    SQUARES,
    TIME,
    ZEROS,
    Store,
    n_triangle,
    totals_at,
)
from posse.families.links import FAINTEST
from posse.families.sites import NUMBER, site_of_part
from posse.types import Array, BoolArray, IntArray

EMPTY = (-1, -1, 0)  # of row_ends: no list
ROUNDING = 1e-12  # of a sum that something was taken away from


@inlined
def count_kind(pairs: Array, slot: int, at: int, reward: float, weight: float) -> None:
    """Count a reward among those that are 0, that have a fraction and that are below 0; ``at`` is where totals begin.

    So findings know which family of rewards they look like.
    """
    if reward == 0.0:
        pairs[slot, at + ZEROS] += weight
    elif reward != math.floor(reward):
        pairs[slot, at + FRACTIONS] += weight
    if reward < 0.0:
        pairs[slot, at + NEGATIVES] += weight


@compiled
def add_plain(plain: Array, x: Array, reward: float) -> None:
    """Count a reward and its context as they came."""
    d = x.shape[0]
    for i in range(d):
        plain[i] += x[i]
        plain[d + i] += x[i] * x[i]
    plain[2 * d] += reward
    plain[2 * d + 1] += 1.0


@inlined
def count_news(numbers: Array, news: int, serials: int, now: float) -> None:
    """Count rewards that were learned, or replaced."""
    numbers[NEWS] += news
    numbers[SERIALS] += serials
    numbers[TOTAL] += serials
    numbers[CLOCK] = max(numbers[CLOCK], now)


@inlined
def weight_since(pairs: Array, slot: int, d: int, decay: float) -> float:
    """Return what a reward still counts for, given the log of the decay of its pair when it came."""
    return max(math.exp(pairs[slot, totals_at(d) + DECAY] - decay), FAINTEST)


@compiled
def raise_squares(pairs: Array, slot: int, d: int) -> None:
    """Have squares of numbers be at least those that moments ask for: large ones that were replaced leave rounding."""
    at, first = totals_at(d) + SQUARES, 0
    for i in range(d):
        moment = pairs[slot, n_triangle(d) + i]
        if pairs[slot, first] > 0.0:
            pairs[slot, at] = max(pairs[slot, at], moment / pairs[slot, first] * moment)
        first += d - i
    pairs[slot, at] = max(pairs[slot, at], 0.0)


@inlined
def add_number(
    store: Store, work: Work, numbers: Array, slot: int, x: Array, reward: float, old: float, count: float,
    decay: float, now: float,
) -> None:  # fmt: skip
    """Learn a number of a slot whose sums are of now, or put it in the place of an old one, as if it had come then.

    ``count`` is 1 for a new one, and 0 if it replaces another, which came when the log of the decay was ``decay``.
    """
    d, weight, pairs, at = x.shape[0], 1.0, store.pairs, totals_at(x.shape[0])
    if count == 0.0:
        weight = weight_since(pairs, slot, d, decay)
    believe(store, work, slot, store.owner[slot, 1], store.owner[slot, 0], x, now)
    change_site(store, work, slot, store.owner[slot, 1], x, count, weight * (reward - old))
    pairs[slot, at + COUNT] += count
    pairs[slot, at + SQUARES] += weight * (reward * reward - old * old)
    pairs[slot, at + INFORMATION] += count
    count_kind(pairs, slot, at, reward, weight)
    if count == 0.0:
        count_kind(pairs, slot, at, old, -weight)
        raise_squares(pairs, slot, d)
    count_news(numbers, 1, count, now)


@inlined
def add_linked(
    store: Store, work: Work, numbers: Array, slot: int, x: Array, reward: float, row: int, decay: float, now: float,
    is_open: bool, offset: float, spread: float,
) -> int:  # fmt: skip
    """Learn a click or count of a slot whose sums are of now, or put it in the place of one that is kept in a row.

    That one came when the log of the decay was ``decay``: minus its site and plus a site, and all sites of its pair are
    to be made again. Of a new reward the row is -1, and something else adds N(offset, spread) to its predictor. Return
    where the reward is kept.
    """
    task, arm, at = store.owner[slot, 0], store.owner[slot, 1], totals_at(x.shape[0])
    totals, weight, w, h, step = store.pairs[slot, at:], 1.0, 0.0, 0.0, 1
    if row >= 0:
        values, step = store.row_values[row], 0
        offset, spread = values[OFFSET], values[SPREAD]
        weight = weight_since(store.pairs, slot, x.shape[0], decay)
        w, h = -weight * values[PRECISION], -weight * values[MOMENT]
        totals[SQUARES] -= weight * values[REWARD] * values[REWARD]
        store.plain[slot, 2 * x.shape[0]] += reward - values[REWARD]
        count_kind(store.pairs, slot, at, values[REWARD], -weight)
    while step < 2:
        mean, variance = believe(store, work, slot, arm, task, x, now)
        if step == 1:
            w, h = site_of_part(store.family, reward, weight, mean, variance, offset, spread, store.dispersion[arm])
        change_site(store, work, slot, arm, x, w, h)
        totals[INFORMATION] += w
        step += 1
    totals[SQUARES] += weight * reward * reward
    count_kind(store.pairs, slot, at, reward, weight)
    if row >= 0:
        values = store.row_values[row]
        values[REWARD], values[PRECISION], values[MOMENT] = reward, w / weight, h / weight
        count_news(numbers, 1, 0, now)
        return row
    totals[COUNT] += 1.0
    count_news(numbers, 1, 1, now)
    add_plain(store.plain[slot], x, reward)
    return keep_row(store, slot, int(numbers[SERIALS]), is_open, x, reward, w, h, offset, spread)


@compiled
def learn_number(
    family: int, ageing: Array, slot: IntArray, pairs: Array, factors: Array, known: Array, given: BoolArray,
    weight: Array, generation: Array, noise: Array, prior: Array, shared: Array, apart: Array, dispersion: Array,
    told: Array, summed_at: Array, owner: IntArray, plain: Array, row_context: Array, row_values: Array,
    row_links: IntArray, row_ends: IntArray, free_rows: IntArray, factor: Array, solved: Array, direction: Array,
    through: Array, column: Array, mean: Array, centre: Array, matrices: Array, message: Array, triangle: Array,
    numbers: Array,
    at: int, x: Array, reward: float, old: float, count: float, decay: float, now: float,
) -> tuple[float, int]:  # fmt: skip
    """Learn one number of slot ``at`` as :func:`add_number` does; return the log of the decay, and its serial.

    Arrays cost less to pass than tuples.
    """
    store = Store(
        family, ageing, slot, pairs, factors, known, given, weight, generation, noise, prior, shared, apart, dispersion,
        told, summed_at, owner, plain, row_context, row_values, row_links, row_ends, free_rows,
    )  # fmt: skip
    work = Work(factor, solved, direction, through, column, mean, centre, matrices, message, triangle)
    add_number(store, work, numbers, at, x, reward, old, count, decay, now)
    return pairs[at, totals_at(x.shape[0]) + DECAY], int(numbers[SERIALS])


@compiled
def learn_linked(
    family: int, ageing: Array, slot: IntArray, pairs: Array, factors: Array, known: Array, given: BoolArray,
    weight: Array, generation: Array, noise: Array, prior: Array, shared: Array, apart: Array, dispersion: Array,
    told: Array, summed_at: Array, owner: IntArray, plain: Array, row_context: Array, row_values: Array,
    row_links: IntArray, row_ends: IntArray, free_rows: IntArray, factor: Array, solved: Array, direction: Array,
    through: Array, column: Array, mean: Array, centre: Array, matrices: Array, message: Array, triangle: Array,
    numbers: Array,
    at: int, x: Array, reward: float, row: int, decay: float, now: float, is_open: bool, offset: float,
    spread: float,
) -> tuple[int, float, int]:  # fmt: skip
    """Learn a click or count of slot ``at`` as :func:`add_linked` does.

    Return where it is kept, the log of the decay, and its serial.
    """
    store = Store(
        family, ageing, slot, pairs, factors, known, given, weight, generation, noise, prior, shared, apart, dispersion,
        told, summed_at, owner, plain, row_context, row_values, row_links, row_ends, free_rows,
    )  # fmt: skip
    work = Work(factor, solved, direction, through, column, mean, centre, matrices, message, triangle)
    row = add_linked(store, work, numbers, at, x, reward, row, decay, now, is_open, offset, spread)
    return row, pairs[at, totals_at(x.shape[0]) + DECAY], int(numbers[SERIALS])


@compiled
def add_rows(
    pairs: Array, factors: Array, ageing: Array, slots: IntArray, order: IntArray, first: int, last: int,
    contexts: Array, rewards: Array, times: Array, decay: Array,
) -> None:  # fmt: skip
    """Add rows of numbers to the sums of their pairs only; messages are to be summed before anything else is done."""
    d = contexts.shape[1]
    for place in range(first, last):
        n = order[place]
        slot, reward, at = slots[n], rewards[n], 0
        age_silently(pairs, factors, slot, d, age_at(times[n], ageing))
        for i in range(d):
            value = contexts[n, i]
            pairs[slot, n_triangle(d) + i] += reward * value
            for j in range(i, d):
                pairs[slot, at] += value * contexts[n, j]
                at += 1
        totals = pairs[slot, totals_at(d) :]
        totals[COUNT] += 1.0
        totals[SQUARES] += reward * reward
        totals[INFORMATION] += 1.0
        count_kind(pairs, slot, totals_at(d), reward, 1.0)
        decay[n] = totals[DECAY]
        touch(factors, slot)


def replace_in_sums(
    store: Store, numbers: Array, slot: int, x: Array, old: float, new: float, decay_at: float, now: float
) -> None:
    """Put a number in the place of another in the sums of its pair only, as :func:`add_rows` adds them."""
    d, pairs = x.shape[0], store.pairs
    age_silently(pairs, store.factors, slot, d, age_at(now, store.ageing))
    weight = max(math.exp(pairs[slot, totals_at(d) + DECAY] - decay_at), FAINTEST)
    pairs[slot, totals_at(d) + SQUARES] += weight * (new * new - old * old)
    count_kind(pairs, slot, totals_at(d), old, -weight)
    count_kind(pairs, slot, totals_at(d), new, weight)
    pairs[slot, n_triangle(d) : totals_at(d)] += weight * (new - old) * x
    raise_squares(pairs, slot, d)
    store.factors[slot, 0] = -1.0
    count_news(numbers, 1, 0, now)


@compiled
def mend_sums(pairs: Array, slot: int, d: int, x: Array, weight: float) -> None:
    """Have the sums of a pair be such of products, after a number was taken away: differences leave rounding."""
    first = 0
    for i in range(d):
        if pairs[slot, first] <= ROUNDING * weight * x[i] * x[i]:  # no other row had this feature
            at = i
            for j in range(i):
                pairs[slot, at] = 0.0
                at += d - 1 - j
            for j in range(d - i):
                pairs[slot, first + j] = 0.0
            pairs[slot, n_triangle(d) + i] = 0.0
        first += d - i
    first = 0
    for i in range(d):
        other = first + d - i
        for j in range(1, d - i):
            bound = math.sqrt(pairs[slot, first]) * math.sqrt(pairs[slot, other])
            pairs[slot, first + j] = min(max(pairs[slot, first + j], -bound), bound)
            other += d - i - j
        first += d - i
    raise_squares(pairs, slot, d)


@compiled
def move_number(
    store: Store, work: Work, numbers: Array, slot: int, x: Array, reward: float, sign: float, back_then: float,
    now: float,
) -> float:  # fmt: skip
    """Add a number that comes late, or take one away (a negative ``sign``); return what its decay was back then.

    ``back_then`` is that of a number that is taken away, and of one that is added its age: it gets the weight that is
    left of as much as is known with it.
    """
    d, task, arm = x.shape[0], store.owner[slot, 0], store.owner[slot, 1]
    totals = store.pairs[slot, totals_at(d) : totals_at(d) + N_TOTALS]
    age(store, work, slot, now, 0.0)
    count_news(numbers, 1, 0, now)
    if sign < 0.0:
        weight = -max(math.exp(totals[DECAY] - back_then), FAINTEST)
    else:
        weight = max(share_left(totals[INFORMATION] + 1.0, age_at(now, store.ageing) - back_then), FAINTEST)
    numbers[TOTAL] = max(numbers[TOTAL] + weight, 0.0)
    if totals[COUNT] + weight > ROUNDING:
        believe(store, work, slot, arm, task, x, now)
        change_site(store, work, slot, arm, x, weight, weight * reward)
        totals[COUNT] += weight
        totals[SQUARES] += weight * reward * reward
        totals[INFORMATION] += weight
        count_kind(store.pairs, slot, totals_at(d), reward, weight)
        if weight < 0.0:
            mend_sums(store.pairs, slot, d, x, -weight)
    elif totals[COUNT] > 0.0:  # nothing is left
        age_silently(store.pairs, store.factors, slot, d, store.summed_at[0])
        tell(store, work, slot, task, arm, -1.0)
        for column in range(totals_at(d)):
            store.pairs[slot, column] = 0.0
        totals[COUNT], totals[SQUARES], totals[INFORMATION] = 0.0, 0.0, 0.0
        totals[ZEROS], totals[FRACTIONS], totals[NEGATIVES] = 0.0, 0.0, 0.0
        touch(store.factors, slot)
        finish_arm(store.told, store.shared, arm, work)
    return float(totals[DECAY]) - math.log(abs(weight))


@compiled
def close_row(ends: IntArray, links: IntArray, free: IntArray, slot: int, row: int) -> None:
    """Note that a row waits for no reward any more."""
    if links[row, OPEN]:
        links[row, OPEN] = 0
        ends[slot, CLOSED] += 1
        if ends[slot, CLOSED] > KEPT_ROWS:
            release_oldest(ends, links, free, slot)


@compiled
def know_tasks(known: Array, given: BoolArray, tasks: IntArray, rows: Array, are_given: BoolArray) -> None:
    """Change what is known about tasks, whose messages are not told meanwhile."""
    for n in range(tasks.shape[0]):
        given[tasks[n]] = are_given[n]
        for column in range(rows.shape[1]):
            known[tasks[n], 1 + column] = rows[n, column] if are_given[n] else known[-1, 1 + column]


@compiled
def empty_slots(
    slot: IntArray, pairs: Array, factors: Array, owner: IntArray, numbers: Array, slots: IntArray, d: int
) -> None:
    """Take slots from their pairs, whose messages are not told any more."""
    for place in slots:
        numbers[TOTAL] = max(numbers[TOTAL] - pairs[place, totals_at(d) + COUNT], 0.0)
        for column in range(pairs.shape[1]):
            pairs[place, column] = 0.0
        factors[place, 0] = -1.0
        slot[owner[place, 0], owner[place, 1]] = -1
        owner[place, 0] = owner[place, 1] = -1


@compiled
def empty_lists(ends: IntArray, links: IntArray, free: IntArray, plain: Array, slots: IntArray) -> None:
    """Keep the rows of some slots of clicks or counts no more."""
    for slot in slots:
        for column in range(plain.shape[1]):
            plain[slot, column] = 0.0
        while ends[slot, FIRST] >= 0:
            row = ends[slot, FIRST]
            ends[slot, CLOSED] += links[row, OPEN]
            links[row, OPEN] = 0
            release_oldest(ends, links, free, slot)


@compiled
def empty_tasks(
    known: Array, given: BoolArray, weight: Array, numbers: Array, tasks: IntArray, starts_anew: bool
) -> None:
    """Know nothing about tasks any more.

    If the population starts anew, an estimate is due as soon as there are rewards, and messages are to be summed.
    """
    for task in tasks:
        weight[task], given[task] = 1.0, False
        for column in range(known.shape[1]):
            known[task, column] = known[-1, column]
    if starts_anew:
        weight[:] = 1.0  # which tasks are unlike the others is learned again, too
        numbers[AT_LAST], numbers[NEWS], numbers[BEHIND] = 0.0, numbers[TOTAL], 1.0


@compiled
def fade_slots(store: Store, work: Work, slots: IntArray, now: float, half_lives: float) -> None:
    """Make what was learned of some slots older by some half-lives."""
    for slot in slots:
        if slot >= 0:
            age(store, work, slot, now, half_lives)


def start_slots(store: Store, slots: IntArray, tasks: IntArray, arms: IntArray, now: float) -> None:
    """Give free slots to pairs."""
    d = store.prior.shape[2]
    store.owner[slots, 0], store.owner[slots, 1] = tasks, arms
    store.pairs[slots, totals_at(d) + TIME], store.factors[slots, 0] = age_at(now, store.ageing), -1.0
    if store.family != NUMBER:
        store.row_ends[slots] = EMPTY
    store.slot[tasks, arms] = slots  # last: only from here on there are such slots


@compiled
def count_now(pairs: Array, ageing: Array, n_slots: int, d: int, now: float) -> float:
    """Return what all rewards count for at some time."""
    total = 0.0
    for slot in range(n_slots):
        total += pairs[slot, totals_at(d) + COUNT] * remaining_of(pairs, slot, d, now, ageing)
    return total


@compiled
def age_pairs(pairs: Array, d: int, now: float, ageing: Array) -> None:
    """Bring copies of pairs to some time."""
    factors = np.empty((pairs.shape[0], 1))
    for n in range(pairs.shape[0]):
        age_silently(pairs, factors, n, d, age_at(now, ageing))


@compiled
def sort_by_slots(slots: IntArray, shift: int, first: IntArray, order: IntArray) -> None:
    """Write rows in the order of blocks of ``2**shift`` slots, those of one block in their own order.

    ``first`` has one entry more than there are blocks, and gets where each begins.
    """
    first[:] = 0
    for row in range(slots.shape[0]):
        first[(slots[row] >> shift) + 1] += 1
    for block in range(1, first.shape[0]):
        first[block] += first[block - 1]
    place = first.copy()
    for row in range(slots.shape[0]):
        block = slots[row] >> shift
        order[place[block]] = row
        place[block] += 1


NEIGHBOURS = 10  # log2 of how many slots are learned together: their sums fit a cache


def parts_of(slots: IntArray, n_slots: int, parts: int) -> tuple[IntArray, list[int]]:
    """Return an order of rows in which slots that are neighbours come together, and where to cut it for threads.

    Every slot is in one part and gets its rows in their order, so sums do not depend on the number of parts.
    """
    first = np.empty((n_slots >> NEIGHBOURS) + 2, dtype=np.int64)
    order = np.empty(slots.size, dtype=np.int64)
    sort_by_slots(slots, NEIGHBOURS, first, order)
    even = np.linspace(0, slots.size, parts + 1)
    return order, np.unique(first[np.searchsorted(first, even)]).tolist()
