"""The compiled calls that change a store: one for each change, and none of them can fail on prepared input."""

from __future__ import annotations

import math

import numpy as np

from posse.core.compiler import compiled, inlined
from posse.core.forgetting import age_at
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
from posse.core.rows import KEPT_ROWS, keep_row, release_oldest, remake_pair
from posse.core.state import AT_LAST, BEHIND, CLOCK, NEWS, SERIALS, TOTAL
from posse.core.store import (
    CLOSED,
    COUNT,
    DECAY,
    FIRST,
    INFORMATION,
    LAST,
    MOMENT,
    N_TOTALS,
    OFFSET,
    OPEN,
    PRECISION,
    REWARD,
    SPREAD,
    SQUARES,
    TIME,
    Store,
    n_triangle,
    pair_width,
    totals_at,
)
from posse.families.links import FAINTEST
from posse.families.sites import NUMBER, site_of_part
from posse.types import Array, BoolArray, IntArray


@compiled
def count_reward(pairs: Array, slot: int, d: int, reward: float, w: float) -> None:
    """Count a reward of a pair and the precision of its site."""
    at = totals_at(d)
    pairs[slot, at + COUNT] += 1.0
    pairs[slot, at + SQUARES] += reward * reward
    pairs[slot, at + INFORMATION] += w


@compiled
def add_plain(plain: Array, x: Array, reward: float) -> None:
    """Count a reward and its context as they came."""
    d = x.shape[0]
    for i in range(d):
        plain[i] += x[i]
        plain[d + i] += x[i] * x[i]
    plain[2 * d] += reward
    plain[2 * d + 1] += 1.0


@compiled
def count_news(numbers: Array, news: int, serials: int, now: float) -> None:
    """Count rewards that were learned, or replaced."""
    numbers[NEWS] += news
    numbers[SERIALS] += serials
    numbers[TOTAL] += serials
    numbers[CLOCK] = max(numbers[CLOCK], now)


@inlined
def learn_row(
    store: Store, work: Work, numbers: Array, task: int, arm: int, x: Array, reward: float, now: float, is_open: bool,
    offset: float, spread: float,
) -> tuple[int, float]:  # fmt: skip
    """Learn one reward of a pair that has a slot; return where its row is kept, or -1, and the log of its decay.

    A reward from before the latest one counts as if it had come just now, whatever else its pair has seen. Something
    else that adds N(offset, spread) to its predictor is left to the caller, but for its variance; numbers have none.
    """
    d, slot, row = x.shape[0], store.slot[task, arm], -1
    now = max(now, numbers[CLOCK])
    age(store, work, slot, task, arm, now, 0.0)
    mean, variance = believe(store, work, slot, arm, task, x)
    w, h = site_of_part(store.family, reward, 1.0, mean, variance, offset, spread)
    change_site(store, work, slot, arm, x, w, h)
    count_reward(store.pairs, slot, d, reward, w)
    count_news(numbers, 1, 1, now)
    if store.family != NUMBER:
        row = keep_row(store, slot, int(numbers[SERIALS]), is_open, x, reward, w, h, offset, spread)
        add_plain(store.plain[slot], x, reward)
    return row, store.pairs[slot, totals_at(d) + DECAY]


@compiled
def learn_one(
    family: int, ageing: Array, slot: IntArray, pairs: Array, factors: Array, known: Array, given: BoolArray,
    weight: Array, generation: Array, noise: Array, prior: Array, shared: Array, apart: Array, told: Array,
    summed_at: Array, owner: IntArray, plain: Array, row_context: Array, row_values: Array, row_links: IntArray,
    row_ends: IntArray, free_rows: IntArray, factor: Array, solved: Array, direction: Array, through: Array,
    column: Array, mean: Array, centre: Array, matrices: Array, message: Array, triangle: Array, numbers: Array,
    task: int, arm: int, x: Array, reward: float, now: float, is_open: bool, offset: float, spread: float,
) -> tuple[int, float, int]:  # fmt: skip
    """Learn one reward as :func:`learn_row` does, and return its serial too; arrays cost less to pass than tuples."""
    store = Store(
        family, ageing, slot, pairs, factors, known, given, weight, generation, noise, prior, shared, apart, told,
        summed_at, owner, plain, row_context, row_values, row_links, row_ends, free_rows,
    )  # fmt: skip
    work = Work(factor, solved, direction, through, column, mean, centre, matrices, message, triangle)
    row, decay = learn_row(store, work, numbers, task, arm, x, reward, now, is_open, offset, spread)
    return row, decay, int(numbers[SERIALS])


@compiled
def learn_rows(
    store: Store, work: Work, numbers: Array, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array,
    times: Array, is_open: bool, decay: Array, kept: IntArray,
) -> None:  # fmt: skip
    """Learn rows one after another; write the logs of decays, and where each row is kept."""
    for n in range(rewards.shape[0]):
        kept[n], decay[n] = learn_row(
            store, work, numbers, tasks[n], arms[n], contexts[n], rewards[n], times[n], is_open, 0.0, 0.0
        )


@compiled
def add_rows(
    store: Store, order: IntArray, first: int, last: int, tasks: IntArray, arms: IntArray, contexts: Array,
    rewards: Array, times: Array, decay: Array,
) -> None:  # fmt: skip
    """Add rows of numbers to the sums of their pairs only; messages are to be summed before anything else is done."""
    d, pairs = contexts.shape[1], store.pairs
    for place in range(first, last):
        n = order[place]
        slot, reward, at = store.slot[tasks[n], arms[n]], rewards[n], 0
        age_silently(pairs, store.factors, slot, d, age_at(times[n], store.ageing))
        for i in range(d):
            value = contexts[n, i]
            pairs[slot, n_triangle(d) + i] += reward * value
            for j in range(i, d):
                pairs[slot, at] += value * contexts[n, j]
                at += 1
        count_reward(pairs, slot, d, reward, 1.0)
        decay[n] = pairs[slot, totals_at(d) + DECAY]
        touch(store.factors, slot)


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


@compiled
def replace_reward(
    store: Store, work: Work, numbers: Array, slot: int, row: int, x: Array, old: float, new: float,
    decay_at: float, now: float,
) -> None:  # fmt: skip
    """Put a reward in the place of another, as if it had come then: minus a site and plus a site."""
    d, task, arm = x.shape[0], store.owner[slot, 0], store.owner[slot, 1]
    totals = store.pairs[slot, totals_at(d) : totals_at(d) + N_TOTALS]
    age(store, work, slot, task, arm, now, 0.0)
    count_news(numbers, 1, 0, now)
    weight = max(math.exp(totals[DECAY] - decay_at), FAINTEST)
    totals[SQUARES] += weight * (new * new - old * old)
    believe(store, work, slot, arm, task, x)
    if store.family == NUMBER:
        change_site(store, work, slot, arm, x, 0.0, weight * (new - old))
        raise_squares(store.pairs, slot, d)
        return
    values = store.row_values[row]
    before = weight * values[PRECISION]
    change_site(store, work, slot, arm, x, -before, -weight * values[MOMENT])
    mean, variance = believe(store, work, slot, arm, task, x)
    w, h = site_of_part(store.family, new, weight, mean, variance, values[OFFSET], values[SPREAD])
    change_site(store, work, slot, arm, x, w, h)
    totals[INFORMATION] += w - before
    values[REWARD], values[PRECISION], values[MOMENT] = new, w / weight, h / weight
    store.plain[slot, 2 * d] += new - old
    remake_pair(store, work, slot)


@compiled
def replace_in_sums(
    store: Store, numbers: Array, slot: int, x: Array, old: float, new: float, decay_at: float, now: float
) -> None:
    """Put a number in the place of another in the sums of its pair only, as :func:`add_rows` adds them."""
    d, pairs = x.shape[0], store.pairs
    age_silently(pairs, store.factors, slot, d, age_at(now, store.ageing))
    weight = max(math.exp(pairs[slot, totals_at(d) + DECAY] - decay_at), FAINTEST)
    pairs[slot, totals_at(d) + SQUARES] += weight * (new * new - old * old)
    for i in range(d):
        pairs[slot, n_triangle(d) + i] += weight * (new - old) * x[i]
    raise_squares(pairs, slot, d)
    touch(store.factors, slot)
    count_news(numbers, 1, 0, now)


@compiled
def close_row(store: Store, slot: int, row: int) -> None:
    """Note that a row waits for no reward any more."""
    if store.row_links[row, OPEN]:
        store.row_links[row, OPEN] = 0
        store.row_ends[slot, CLOSED] += 1
        if store.row_ends[slot, CLOSED] > KEPT_ROWS:
            release_oldest(store, slot)


@compiled
def know_tasks(store: Store, work: Work, tasks: IntArray, known: Array, given: BoolArray) -> None:
    """Change what is known about tasks; their sums are of rewards as they came, so only their messages change."""
    d, n_arms = store.prior.shape[2], store.noise.shape[0]
    for n in range(tasks.shape[0]):
        task = tasks[n]
        for is_after in range(2):
            for arm in range(n_arms):
                slot = store.slot[task, arm]
                if slot >= 0 and store.pairs[slot, totals_at(d) + COUNT] > 0.0:
                    age_silently(store.pairs, store.factors, slot, d, store.summed_at[0])
                    tell(store, work, slot, task, arm, 2.0 * is_after - 1.0)
            for column in range(known.shape[1]):
                store.known[task, 1 + column] = known[n, column] if given[n] else store.known[-1, 1 + column]
        store.given[task] = given[n]
    for arm in range(n_arms):
        finish_arm(store.told, store.shared, arm, work)


@compiled
def forget_tasks(store: Store, work: Work, numbers: Array, tasks: IntArray, starts_anew: bool) -> None:
    """Take away all that tasks have told, and leave their slots and rows empty.

    If the population starts anew, an estimate is due as soon as there are rewards, and messages are to be summed.
    """
    d, n_arms = store.prior.shape[2], store.noise.shape[0]
    for task in tasks:
        for arm in range(n_arms):
            slot = store.slot[task, arm]
            if slot < 0:
                continue
            if store.pairs[slot, totals_at(d) + COUNT] > 0.0:
                age_silently(store.pairs, store.factors, slot, d, store.summed_at[0])
                tell(store, work, slot, task, arm, -1.0)
                numbers[TOTAL] = max(numbers[TOTAL] - store.pairs[slot, totals_at(d) + COUNT], 0.0)
            for column in range(pair_width(d)):
                store.pairs[slot, column] = 0.0
            touch(store.factors, slot)
            store.owner[slot, 0], store.owner[slot, 1], store.slot[task, arm] = -1, -1, -1
            if store.family != NUMBER:
                for column in range(2 * d + 2):
                    store.plain[slot, column] = 0.0
                while store.row_ends[slot, FIRST] >= 0:
                    row = store.row_ends[slot, FIRST]
                    store.row_ends[slot, CLOSED] += store.row_links[row, OPEN]
                    store.row_links[row, OPEN] = 0
                    release_oldest(store, slot)
        for column in range(store.known.shape[1]):
            store.known[task, column] = store.known[-1, column]
        store.weight[task], store.given[task] = 1.0, False
    for arm in range(n_arms):
        finish_arm(store.told, store.shared, arm, work)
    if starts_anew:
        store.weight[:] = 1.0  # which tasks are unlike the others is learned again, too
        numbers[AT_LAST], numbers[NEWS], numbers[BEHIND] = 0.0, numbers[TOTAL], 1.0


@compiled
def fade_slots(store: Store, work: Work, slots: IntArray, now: float, half_lives: float) -> None:
    """Make what was learned of some slots older by some half-lives."""
    for slot in slots:
        if slot >= 0:
            age(store, work, slot, store.owner[slot, 0], store.owner[slot, 1], now, half_lives)


@compiled
def start_slots(store: Store, slots: IntArray, tasks: IntArray, arms: IntArray, now: float) -> None:
    """Give free slots to pairs."""
    d, age = store.prior.shape[2], age_at(now, store.ageing)
    for n in range(slots.shape[0]):
        slot, task, arm = slots[n], tasks[n], arms[n]
        store.owner[slot, 0], store.owner[slot, 1], store.slot[task, arm] = task, arm, slot
        store.pairs[slot, totals_at(d) + TIME] = age
        touch(store.factors, slot)
        if store.family != NUMBER:
            ends = store.row_ends[slot]
            ends[FIRST], ends[LAST], ends[CLOSED] = -1, -1, 0


@compiled
def count_now(store: Store, n_slots: int, now: float) -> float:
    """Return what all rewards count for at some time."""
    d, total = store.prior.shape[2], 0.0
    for slot in range(n_slots):
        total += store.pairs[slot, totals_at(d) + COUNT] * remaining_of(store.pairs, slot, d, now, store.ageing)
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
