r"""A world that changes: how much old rewards still count, and what says that they no longer should.

**Ageing.** Coefficients are believed to return to the population with a half-life :math:`h`, the law of Ornstein and
Uhlenbeck. What a pair's rewards say about the present fades with it: with :math:`r = 2^{-t/h}`, data of precision
:math:`\ell` in units of the population's are worth

.. math:: \ell' = \frac{r^2 \ell}{1 + (1 - r^2)\,\ell}

after a time t. The discount saturates: however many rewards a pair had, what they say about now is bounded. Sums of a
pair are multiplied by :math:`\ell'/\ell`, with :math:`\ell` taken as :data:`WORTH` times its rewards, so that ageing
depends on times and counts alone, whatever population is in force. Ageing twice by t is ageing once by 2t.

**The half-life** is learned from some tasks, whose sums are kept under several half-lives side by side: the one under
which rewards were predicted best is in force.

**Changes.** A reward is compared under what its task is believed to be and otherwise (:mod:`posse.engine.noticing`):
logarithms of likelihood ratios are added up from where they were lowest, for every task and over all tasks. Where such
a sum is high, the task starts again from the population, or all tasks do. By Wald's inequality a sum exceeds h with a
probability of e^-h at most from where it was lowest. So the bounds grow with the logarithm of the rewards so far: a
large fleet has no more false alarms than a small one.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.engine.noticing import NOTHING, START, WORLD, Detector, OfNumbers, likelihoods_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posse.engine.commit import Steps
    from posse.engine.noticing import Belief, Likelihoods
    from posse.families import RewardFamily
    from posse.kernels.sums import Sums
    from posse.types import Array, IntArray

# The constants were chosen on seeds 3000 to 3199, see docs/drift.md.
WORTH = 0.25  # what one reward tells about a task's coefficients, in units of what the population tells
TICKS = 16  # how often sums are aged in a half-life
LEAST = 1e-9  # rewards of a pair below which it is not aged any more
FADED = 1e-6  # of its largest square, below which a feature of a pair counts as never met
BLOCK = 8192  # rows that are scaled at a time
RESTART = 1e-2  # rewards that are left of every pair when a change was noticed

WATCHED = 64  # tasks whose sums are kept under every half-life
WATCHED_BYTES = 32 << 20
RESISTANCE = 3.0  # nats by which another half-life must be better than the one in force
PREFERENCE = 3.0  # nats by which any half-life must be better than none
KEPT = 1000  # changes that are remembered
MEMORY = 2000  # rewards over which predictions are compared

EVERYWHERE = -1


def restarted(counts: Array) -> Array:
    """Return what sums of pairs with so many rewards are multiplied by after a change."""
    return np.minimum(1.0, RESTART / np.maximum(counts, LEAST))


def aged(counts: Array, elapsed: float, half_life: float | Array) -> Array:
    """Return what sums of pairs with so many rewards are multiplied by after some time."""
    stays = np.exp2(-2.0 * elapsed / half_life)
    factor = stays / (1.0 + (1.0 - stays) * WORTH * counts)
    return np.where(counts > LEAST, factor, 1.0)


class Fade(NamedTuple):
    """How sums fade: all of them by some time that has passed, or what a task or all tasks have learned until now.

    Whoever has learned the same fades the same way, wherever its sums stand.
    """

    squares: Array  # as in scale_sums
    elapsed: float | None = None  # None: they start anew
    half_life: float = math.inf
    task: int = EVERYWHERE

    def of(self, store: Any) -> tuple[Array, IntArray | None]:
        """Return what sums of a store are multiplied by, and in which slots; None are all of them."""
        counts = store.belief.sums.counts
        if self.elapsed is not None:
            return aged(counts[: store.n_slots], self.elapsed, self.half_life), None
        if self.task == EVERYWHERE:
            return restarted(counts[: store.n_slots]), None
        slots = store.belief.slot[self.task, : store.n_arms]
        slots = slots[slots >= 0]
        return restarted(counts[slots]), slots


def scale_sums(
    sums: Sums,
    factor: Array,
    squares: Array,
    rows: IntArray | None = None,
) -> None:
    """Multiply the sums of some rows, or of all up to as many as there are factors, and drop what has faded away.

    A feature that is not met any more fades beside those that are. Below :data:`FADED` of its largest square it counts
    as never met: else its scale would run away until nothing can be factored.

    Parameters
    ----------
    sums : Sums
        Gram matrices whole or as upper triangles; changed in place.
    factor : ndarray of shape (n_rows,)
    squares : ndarray of shape (n_features,)
        The largest square of every feature that was ever met.
    rows : ndarray of shape (n_rows,), optional
    """
    for first in range(0, factor.size, BLOCK):
        part: slice | IntArray = slice(first, min(first + BLOCK, factor.size))
        share = factor[part]
        if rows is not None:
            part = rows[part]
        for field in sums:
            field[part] *= share.reshape(-1, *[1] * (field.ndim - 1))
        _drop_faded(sums, part, squares)


def scaling(
    sums: Sums,
    factor: Array,
    squares: Array,
    rows: IntArray | None = None,
    raised: Callable[[IntArray, Sums, float], Sums] | None = None,
) -> Steps:
    """Do what :func:`scale_sums` does, of Gram matrices that are upper triangles, as steps of a change.

    Parameters
    ----------
    sums, factor, squares, rows
        As there; no row twice.
    raised : callable, optional
        Where sums are of rewards less what is known of them: returns copied sums of some rows as those of rewards as
        they came (1.0), and back (-1.0). What was known must not outlive the feature that it was known of.
    """
    shares = [factor.reshape(-1, *[1] * (field.ndim - 1)) for field in sums]
    steps: Steps = []
    for field, share in zip(sums, shares, strict=True):
        if rows is None:
            part = field[: factor.size]
            steps.append(partial(np.multiply, part, share, part))  # in place, without a copy
        else:
            steps.append(partial(field.__setitem__, rows, field[rows] * share))
    slots = np.arange(factor.size) if rows is None else rows
    faded = losing(sums, factor, squares, slots)
    if faded.size:
        numbers = slots[faded]
        copies = type(sums)(*(field[numbers] * share[faded] for field, share in zip(sums, shares, strict=True)))
        copies = copies if raised is None else raised(numbers, copies, 1.0)
        _drop_faded(copies, slice(None), squares)
        copies = copies if raised is None else raised(numbers, copies, -1.0)
        steps += [partial(field.__setitem__, numbers, new) for field, new in zip(sums, copies, strict=True)]
    return steps


def losing(sums: Sums, factor: Array, squares: Array, slots: IntArray) -> IntArray:
    """Return the positions of slots in which a feature fades away when sums are multiplied by these factors."""
    places = [_place(i, i, squares.size) for i in range(squares.size)]
    found = []
    for first in range(0, factor.size, BLOCK):
        some = slice(first, min(first + BLOCK, factor.size))
        own = sums.gram[slots[some]][:, places] * factor[some, None]
        found.append(first + np.flatnonzero(((own < FADED * squares) & (own != 0.0)).any(axis=1)))
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def _drop_faded(sums: Sums, part: slice | IntArray, squares: Array) -> None:
    d, gram, moment = squares.size, sums.gram[part], sums.moment[part]
    whole = gram.ndim == 3
    for i in range(d):
        own = gram[:, i, i] if whole else gram[:, _place(i, i, d)]
        faded = (own < FADED * squares[i]) & (own != 0.0)
        if not faded.any():
            continue
        if whole:
            gram[faded, i] = 0.0
            gram[faded, :, i] = 0.0
        else:
            columns = [_place(min(i, j), max(i, j), d) for j in range(d)]
            gram[np.ix_(faded, columns)] = 0.0
        moment[faded, i] = 0.0
    if not isinstance(part, slice):  # rows were copied
        sums.gram[part], sums.moment[part] = gram, moment


def _place(i: int, j: int, d: int) -> int:
    """Return where an entry of a symmetric matrix stands in its upper triangle."""
    return i * d - i * (i - 1) // 2 + j - i


class Population(NamedTuple):
    """What is believed about the tasks of one arm."""

    mean: Array  # (d,)
    covariance: Array  # (d, d)
    noise_variance: float


class Change(NamedTuple):
    """A change that was noticed."""

    time: float
    task: int  # or EVERYWHERE


class HalfLives:
    """Sums of some pairs under several half-lives, and how well each predicts.

    Parameters
    ----------
    candidates : sequence of float
        Half-lives; ``inf`` is one of them, the first.
    n_arms, n_features : int
    likelihoods : Likelihoods, optional
        Default: those of numbers.
    """

    def __init__(
        self, candidates: Sequence[float], n_arms: int, n_features: int, likelihoods: Likelihoods | None = None
    ) -> None:
        self._likelihoods = OfNumbers() if likelihoods is None else likelihoods
        self.candidates = np.array(candidates, dtype=np.float64)
        h, d = self.candidates.size, n_features
        self.n_tasks = max(1, min(WATCHED, WATCHED_BYTES // (8 * n_arms * h * (d + 1) * (d + 1))))
        self.score = np.zeros(h)
        self.tasks: dict[int, None] = {}
        self.pairs: dict[tuple[int, int], int] = {}
        self.free: list[int] = []  # places of pairs that were forgotten
        self.time = np.zeros(0)
        self.counts, self.moment, self.gram = np.zeros((0, h)), np.zeros((0, h, d)), np.zeros((0, h, d, d))

    def watches(self, task: int) -> bool:
        """Whether rewards of this task are to be learned here."""
        return task in self.tasks or len(self.tasks) < self.n_tasks

    def learn(self, now: float, task: int, arm: int, x: Array, reward: float, population: Population) -> None:
        """Compare predictions of a reward, then learn it."""
        pair = self._pair(task, arm, now)
        gram, moment, counts = self.gram[pair], self.moment[pair], self.counts[pair]
        factor = aged(counts, max(now - self.time[pair], 0.0), self.candidates)
        gram *= factor[:, None, None]
        moment *= factor[:, None]
        counts *= factor
        self.time[pair] = max(now, self.time[pair])
        with np.errstate(all="ignore"):
            mean, variance = predict_each(gram, moment, x, population)
            gain, precision, seen = self._likelihoods.predicted(reward, mean, variance, population.noise_variance)
        if not np.isfinite(gain).all():
            return  # of a size beyond all others: it says nothing about half-lives
        self.score *= 1.0 - 1.0 / MEMORY
        self.score += gain
        gram += precision[:, None, None] * np.outer(x, x)
        moment += seen[:, None] * x
        counts += 1.0

    def best(self, present: int) -> int:
        """Return which half-life predicts best, or the present one unless another is clearly better."""
        score = self.score.copy()
        score[0] += PREFERENCE
        score[present] += RESISTANCE
        return int(score.argmax())

    def restart(self, task: int | None = None) -> None:
        """Let all that was learned about a task, or about all, count for little."""
        rows = [place for (owner, _), place in self.pairs.items() if task is None or owner == task]
        factor = restarted(self.counts[rows])
        self.gram[rows] *= factor[:, :, None, None]
        self.moment[rows] *= factor[:, :, None]
        self.counts[rows] *= factor

    def forgetting(self, tasks: set[int]) -> Steps:
        """Watch some tasks no longer."""
        gone = [pair for pair in self.pairs if pair[0] in tasks]
        return [
            *(partial(self.tasks.pop, task, None) for task in tasks),
            *(partial(self.pairs.pop, pair) for pair in gone),
            partial(self.free.extend, [self.pairs[pair] for pair in gone]),
        ]

    def _pair(self, task: int, arm: int, now: float) -> int:
        place = self.pairs.get((task, arm))
        if place is None:
            self.tasks[task] = None
            place = self.free.pop() if self.free else len(self.pairs)
            if place >= self.time.size:
                size = max(16, 2 * place)
                for name in ("time", "counts", "moment", "gram"):
                    old = getattr(self, name)
                    new = np.zeros((size, *old.shape[1:]))
                    new[: old.shape[0]] = old
                    setattr(self, name, new)
            self.pairs[task, arm] = place
            self.time[place] = now
            self.counts[place], self.moment[place], self.gram[place] = 0.0, 0.0, 0.0
        return place


def predict_each(gram: Array, moment: Array, x: Array, population: Population) -> tuple[Array, Array]:
    """Return mean and variance of an expected reward under each of several sums of one pair."""
    # m = mu + Sigma (A Sigma + s2 I)^-1 (b - A mu), and x'Cx likewise: no inverse of Sigma, which may be singular.
    s2 = population.noise_variance
    middle = population.covariance @ gram
    middle[:, np.arange(x.size), np.arange(x.size)] += s2
    right = np.broadcast_to(population.covariance @ x, moment.shape)[:, :, None]
    try:
        weights = np.linalg.solve(middle, right)[:, :, 0]
    except np.linalg.LinAlgError:
        weights = np.full(moment.shape, np.nan)
    residual = moment - gram @ population.mean
    mean = x @ population.mean + np.einsum("hi,hi->h", weights, residual)
    return mean, np.maximum(s2 * (weights @ x), 0.0)


class Drift:
    """The clock that old rewards fade on, and the watch for changes.

    Parameters
    ----------
    half_life : float or None
        In units of the clock; None learns it among ``candidates`` and watches for changes.
    candidates : sequence of float
    n_arms, n_features : int
    family : RewardFamily, optional
        Of the rewards. Default: numbers.

    Attributes
    ----------
    squares : ndarray of shape (n_features,)
        The largest square of every feature so far.
    changes : list of Change
        Changes noticed so far, oldest first; only the last :data:`KEPT` are kept.
    """

    def __init__(
        self,
        half_life: float | None,
        candidates: Sequence[float],
        n_arms: int,
        n_features: int,
        family: RewardFamily | None = None,
    ) -> None:
        self.learned = half_life is None
        self.half_life = math.inf if half_life is None else half_life
        self._likelihoods = likelihoods_of(family)
        self.half_lives = (
            HalfLives((math.inf, *candidates), n_arms, n_features, self._likelihoods) if self.learned else None
        )
        self.aged_at: float | None = None
        self.squares = np.zeros(n_features)
        self.detectors = {name: Detector() for name in self._likelihoods.alternatives}
        self.noted = 0
        self.changes: list[Change] = []

    def meet(self, x: Array) -> None:
        """Take notice of a context, or of many, that rewards come from."""
        np.maximum(self.squares, x * x if x.ndim == 1 else (x * x).max(axis=0, initial=0.0), out=self.squares)

    def elapsed(self, now: float) -> float:
        """Return the time by which sums are to be aged now, 0 if that is not due yet; they count as aged after this.

        Time goes in ticks of the clock, and never back, so that it does not matter how often this is asked.
        """
        passed, self.aged_at = self.passed(now)
        return passed

    def passed(self, now: float) -> tuple[float, float | None]:
        """Return what :meth:`elapsed` does, and up to when sums are aged after that; nothing changes."""
        if math.isinf(self.half_life):
            return 0.0, self.aged_at
        tick = self.half_life / TICKS
        now = float(ticks_at(now, tick)) * tick
        if self.aged_at is None:
            return 0.0, now
        passed = now - self.aged_at
        return (passed, now) if passed > 0.0 else (0.0, self.aged_at)

    def note(
        self,
        now: float,
        task: int,
        arm: int,
        x: Array,
        reward: float,
        belief: Belief,
        population: Population,
        *,
        defer: bool = False,
    ) -> int:
        """Take notice of a reward before it is learned; return which change it shows, if any.

        With ``defer`` a change is only told, and :meth:`restart` is for whoever asks to call.
        """
        if not self.learned or self.half_lives is None:
            return NOTHING
        found = self._watch(task, reward, belief, population.noise_variance)
        if found and not defer:
            self.restart(now, EVERYWHERE if found == WORLD else task)
        if self.half_lives.watches(task):
            self.half_lives.learn(now, task, arm, x, reward, population)
            best = self.best_half_life()
            if best != self.half_life and not defer:
                self.use(best, now)
        return found

    def restart(self, now: float, task: int) -> None:
        """Let a change be one: of a task, or of all if it is EVERYWHERE."""
        self.changes = [*self.changes[1 - KEPT :], Change(now, task)]
        if self.half_lives is not None:
            self.half_lives.restart(None if task == EVERYWHERE else task)

    def best_half_life(self) -> float:
        """Return the half-life that predicts best, or the one in force unless another is clearly better."""
        assert self.half_lives is not None
        candidates = self.half_lives.candidates
        present = int(np.flatnonzero(candidates == self.half_life)[0])
        return float(candidates[self.half_lives.best(present)])

    def use(self, half_life: float, now: float) -> None:
        """Let another half-life be in force from now on."""
        if math.isinf(self.half_life):
            self.aged_at = now  # nothing aged until now
        self.half_life = half_life

    def _watch(self, task: int, reward: float, belief: Belief, noise: float) -> int:
        self.noted += 1
        bound = math.log(START + self.noted)
        surprises = self._likelihoods.surprises(reward, belief, noise)
        detectors = self.detectors.values()
        found = max(detector.note(task, one, bound) for detector, one in zip(detectors, surprises, strict=True))
        if found:
            for detector in detectors:
                detector.clear(None if found == WORLD else task)
        return found

    def forgetting(self, tasks: Sequence[int]) -> Steps:
        """Forget all about some tasks."""
        gone = set(tasks)
        changes = [change for change in self.changes if change.task not in gone]
        steps: Steps = [partial(self.__dict__.update, changes=changes)]
        steps += [step for detector in self.detectors.values() for task in tasks for step in detector.forgetting(task)]
        return steps if self.half_lives is None else [*steps, *self.half_lives.forgetting(gone)]


def ticks_at(times: Any, tick: float) -> Any:
    """Return the last tick of the clock at some times: the largest whole number that times ``tick`` is not beyond.

    The quotient alone may be rounded to below it, and the time of a tick would be one before that tick.
    """
    ticks = np.floor(np.asarray(times) / tick)
    return ticks + ((ticks + 1.0) * tick <= times)


def population_of(belief: Any, arm: int) -> Population:
    """Return what is believed about the tasks of one arm."""
    return Population(
        mean=belief.shared_mean[arm],
        covariance=belief.covariance[arm],
        noise_variance=float(belief.noise_variance[arm]),
    )
