"""Estimating the population: sums over pairs, steps between which only arms are known, and what follows from both.

The loop is the same for all families. Of clicks and counts the sites of rows that are still there are made again before
every step, arm after arm, given what all other arms say by then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posse.core import population as populations
from posse.core.arms import prior_of_arm, symmetric
from posse.core.capacity import copied
from posse.core.dispersion import learn_dispersion
from posse.core.forgetting import FADES, age_at
from posse.core.population import STUDENT_FREEDOM, Population, Told, frame_of
from posse.core.rule import set_silent
from posse.core.state import AT_LAST, BEHIND, CLOCK, FAILURES, N_SLOTS, NEWS, RETRY_AT, TOTAL, Elsewhere, State
from posse.core.store import GENERATIONS
from posse.core.sums import Moments, Pairs, age_all
from posse.errors import NotFinite
from posse.families.sites import COUNT, NUMBER

if TYPE_CHECKING:
    from posse.core.store import Store
    from posse.core.sums import Keys
    from posse.model.prior import Prior
    from posse.types import Array

STEPS, SETTLED = 3, 0.2  # at most, of an everyday estimate; it ends when nothing moved by more
FIT_STEPS, FIT_SETTLED = 30, 1e-2  # after a table, which may be all the data there will ever be
LAST_STEPS = 4  # at most, over all pairs, once those of some have settled
COARSE = 8192  # pairs of an arm that are enough to come close; with several times as many, these go first
EFFECT_ROUNDS = 4  # at most, in which effects of features are learned anew, of an estimate

TURNS = 8  # steps in which the sites of all pairs are made again, a part of the pairs in each
FIT_TURNS = 4  # likewise where a population is fitted to the end: no later estimate goes on with it
EARLY = 50.0  # rewards per arm, until when all sites are made again in every step


class Climb:
    """One estimate under way: the population so far, and what follows from it.

    Parameters
    ----------
    store : Store
        Whose sums, and of clicks and counts whose rows, are changed by nobody else.
    population : Population
    arm_features : ndarray of shape (n_arms, q)
    pairs : Pairs
        Of that store, or of others.
    robust : bool
        Whether tasks that are unlike the others are drawn to the population less.
    elsewhere : Elsewhere, optional
        What tasks say that are not among the pairs.
    """

    def __init__(
        self,
        store: Store,
        population: Population,
        arm_features: Array,
        pairs: Pairs,
        *,
        robust: bool = False,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.store, self.population, self.arm_features, self.robust = store, population, arm_features, robust
        self.pairs, self.elsewhere = pairs, elsewhere
        self.weight, self.known, self.sizes, self.scatter = store.weight, store.known, np.zeros(0), np.zeros((0, 0))
        if robust:
            self.weight = store.weight.copy()
        if population.groups.size:
            # Tasks about which nothing is known stand at the average of the known ones that have rewards.
            if elsewhere is None:
                tasks = pairs.about_tasks()
                average, self.scatter, self.sizes = tasks.average, tasks.scatter, tasks.sizes
            else:
                average, self.scatter = elsewhere.average, elsewhere.scatter
            self.known = np.where(store.given[:, None], store.known, average)
        self.rounds, self.frame = EFFECT_ROUNDS, frame_of(population)
        self.prior, self.told, self.shared = store.prior, store.told, store.shared
        self.messages = Told(store.told[:, :0], store.told[:, 0])

    @property
    def family(self) -> int:
        """The family of the rewards."""
        return self.store.family

    # What follows from a population.

    def look(self, pairs: Pairs, *, learned: bool) -> None:
        """Compute what pairs tell their arms and what follows; with ``learned``, what arms tell each other as well."""
        population = self.population
        self.prior = populations.prior_of(population, self.frame)
        self.messages = Told(*pairs.messages(population.noise, self.prior, self.known, self.weight))
        if self.elsewhere is not None:
            precision, moment = self.messages
            told = self.elsewhere.told
            self.messages = Told(precision + told[:, :-1], moment + told[:, -1])
        require_finite(*self.messages)
        self.share(learned=learned)

    def share(self, *, learned: bool) -> None:
        """Compute the posterior of all arms from what pairs tell them."""
        if learned:
            population = populations.shared(self.population, self.frame, self.messages, self.arm_features)
            if (population.groups.size or population.arm_groups.size) and self.rounds > 0:
                self.rounds -= 1
                said = self.frame, self.messages, self.arm_features
                population = populations.with_effects(population, *said, self.sizes)
                population = populations.shared(population, *said)
            self.population = population
        self.told, self.shared = populations.posterior_of(self.population, self.frame, self.messages)

    # Steps.

    def run(self, *, steps: int, settled: float, sample: int | None, keys: Keys | None) -> bool:
        """Improve the population by warm-started steps until nothing moves by more; return whether there is one.

        With very many tasks the first steps look at some thousands of them, which is enough to come close, and only the
        last ones at all. ``sample`` leaves it at about this many tasks of every arm.
        """
        rewards, before = self.pairs.rewards(), self.population
        total = float(rewards.sum())
        zeros, again, learned = self.measure(rewards)
        if self.family == NUMBER and (zeros or steps <= 0 or (again and total < rewards.size)):
            self.look(self.pairs, learned=learned)
            if zeros:
                nothing = np.zeros(1)
                self.population = self.population._replace(reward_square=nothing, reward_scatter=nothing)
            return not zeros
        turns = 1
        if total > EARLY * rewards.size:
            turns = FIT_TURNS if settled < SETTLED and total > before.at_last[0] else TURNS
        some = self._some(sample or COARSE, keys) if self.family == NUMBER else self.pairs
        if sample is not None or (4 * some.n_pairs < self.pairs.n_pairs).any():
            self.climb(some, learned=learned, steps=steps, settled=settled, turns=turns)
            learned, steps = True, min(steps, LAST_STEPS) if sample is None else 0
        self.climb(self.pairs, learned=learned, steps=steps, settled=settled, turns=turns)
        if sample is not None and self.robust:
            self._weigh(self.pairs, self._moments(self.pairs).distance)
            self.look(self.pairs, learned=True)
        return True

    def measure(self, rewards: Array) -> tuple[bool, bool, bool]:
        """Set the sizes of rewards and features, and start again where they are others.

        Return whether all rewards are 0, whether the population is at its start, and whether arms learn from each other
        before the first step.
        """
        before, pairs, family = self.population, self.pairs, self.family
        if family == NUMBER:
            measures = pairs.measures()
            population = populations.with_measures(before, measures, rewards, pairs.size)
            squares = np.diagonal(measures.sum(axis=0))[:-1]
        else:
            sums = pairs.plain_measures()
            population = populations.with_row_measures(before, family, sums)
            squares = sums[1, :-1]
        zeros = not population.reward_square[0] > 0
        if zeros:
            # Nothing but zeros so far: no scale to learn. Any size will do, as long as features are standard.
            again, one = True, np.ones(1)
            population = population._replace(reward_square=one, reward_scatter=one)
        else:
            again = populations.starts_again(before, population)
            population = population._replace(at_last=np.array([rewards.sum()]))
        require_finite(population.reward_scatter, population.feature_square)
        admitted = populations.admitted(population, squares)
        learned = again or admitted is not population or family != NUMBER
        population = populations.started(admitted, family) if again else admitted
        self.population, self.frame = population._replace(steps=np.zeros(1)), frame_of(population)
        return zeros, again, learned

    def climb(self, pairs: Pairs, *, learned: bool, steps: int, settled: float, turns: int) -> None:
        """Step until nothing moves by more than ``settled``."""
        rewards = pairs.rewards()
        self.look(pairs, learned=learned)
        for _ in range(steps):
            if self.family != NUMBER:
                self.remake(pairs, turns)
                self.share(learned=True)
                if rewards.sum() < rewards.size:
                    break
            move = self.step(pairs, rewards)
            self.look(pairs, learned=True)
            if move < settled:
                break

    def step(self, pairs: Pairs, rewards: Array) -> float:
        """Improve the population once; return the largest relative move. It is to be followed by :meth:`look`."""
        sums = self._moments(pairs)
        self.population, move = populations.improved(
            self.population, self.frame, self.family, self.messages, sums, rewards, self.arm_features
        )
        if self.family == COUNT:
            move = max(move, self._disperse(pairs))
        if self.robust:
            move = max(move, self._weigh(pairs, sums.distance))
            self.population = self.population._replace(last_move=np.array([move]))
        return move

    def _disperse(self, pairs: Pairs) -> float:
        """Learn how counts of every arm scatter; return the largest relative move of their variance."""
        store = self.store._replace(
            noise=self.population.noise, prior=self.prior, told=self.told, shared=self.shared, known=self.known,
            weight=self.weight,
        )  # fmt: skip
        dispersion, move = learn_dispersion(store, pairs, self.population.dispersion)
        self.population = self.population._replace(dispersion=dispersion)
        return move

    def _moments(self, pairs: Pairs) -> Moments:
        population = self.population
        return pairs.moments(population.noise, self.prior, self.shared, self.known, self.weight, distances=self.robust)

    def _weigh(self, pairs: Pairs, distance: Array) -> float:
        """Set the weight of every task that was looked at; return the largest relative change."""
        tasks, n = self.store.owner[pairs.slots, 0], self.weight.size
        freedom = pairs.d * np.bincount(tasks, minlength=n)
        weight = (STUDENT_FREEDOM + freedom) / (STUDENT_FREEDOM + np.bincount(tasks, weights=distance, minlength=n))
        weight = np.where(freedom > 0, weight, self.weight)
        move = float(np.abs(weight / self.weight - 1.0).max())
        self.weight = weight
        return move

    def _some(self, count: int, keys: Keys | None) -> Pairs:
        """Return about this many pairs of every arm, evenly spread: those of the tasks with the lowest keys."""
        every = np.maximum(1, self.pairs.n_pairs // count)
        return self.pairs.sample(every, keys) if (every > 1).any() else self.pairs

    def remake(self, pairs: Pairs, turns: int) -> None:
        """Make the sites of rows again, those of one pair in ``turns``, arm after arm.

        The prior of an arm follows from what the others say by now: were all arms to go by what was said before, all
        would make good for the same error, and together overshoot.
        """
        frame, scale = self.frame, float(self.population.scale[0])
        self.population, pooled = populations.pooled(self.population, frame, self.messages, self.arm_features)
        more = populations.unknown_arms(self.population, frame, self.arm_features)
        precision, location = self.population.prior_precision.copy(), self.population.prior_location.copy()
        messages = Told(self.messages.precision.copy(), self.messages.moment.copy())
        size = messages.moment.shape[1]
        store = self.store._replace(noise=self.population.noise, prior=self.prior, known=self.known, weight=self.weight)
        store = store._replace(
            told=self.told.copy(), shared=self.shared.copy(), generation=generations(store.noise.size),
            dispersion=self.population.dispersion,
        )  # fmt: skip
        factors, moments = pooled.factors.sum(axis=0), pooled.moments.sum(axis=0)
        for arm in range(store.noise.size):
            if not pairs.n_pairs[arm]:
                continue
            factors, moments = factors - pooled.factors[arm], moments - pooled.moments[arm]
            own, at = prior_of_arm(pooled, arm, factors, moments, scale, more[arm])
            precision[arm], location[arm] = symmetric(frame.there.T @ own @ frame.there), frame.back @ at
            population = self.population._replace(prior_precision=precision, prior_location=location)
            one = slice(arm, arm + 1)
            told, shared = populations.posterior_of(population, frame, messages, one)
            store.told[one], store.shared[one] = told, shared
            change = pairs.remake(store, arm, int(self.population.passes[0]), turns)
            messages.precision[arm] += change[:size]
            messages.moment[arm] += change[size]
            again = populations.pool(self.population, frame, messages, self.arm_features, one)
            pooled.factors[one], pooled.moments[one] = again.factors, again.moments
            factors, moments = factors + pooled.factors[arm], moments + pooled.moments[arm]
        if self.rounds > 0 and np.isinf(self.told).any():
            # Effects that were none may be some now, and differences of infinite precisions say nothing about them.
            messages = Told(*pairs.messages(self.population.noise, self.prior, self.known, self.weight))
        self.messages = messages
        self.population = self.population._replace(
            prior_precision=precision, prior_location=location, passes=self.population.passes + 1
        )

    def installed(self) -> Store:
        """Return the store with all that follows from the population."""
        n_arms, d = self.population.noise.size, self.pairs.d
        effects = self.shared[:, -1, d:].reshape(n_arms, -1, d)
        return self.store._replace(
            generation=generations(n_arms),
            noise=np.ascontiguousarray(self.population.noise),
            prior=self.prior,
            told=self.told,
            shared=self.shared,
            apart=effects.swapaxes(1, 2) @ self.scatter @ effects,
            dispersion=self.population.dispersion,
            known=self.known,
            weight=self.weight,
        )


def generations(n_arms: int) -> Array:
    """Return numbers for the priors of arms that nothing else of this process has."""
    return np.full(n_arms, float(next(GENERATIONS)))


def with_posterior(state: State, *, learned: bool, elsewhere: Elsewhere | None = None) -> tuple[State, Told]:
    """Return a state whose arms have the posterior that follows from sums and population, and what they were told.

    With ``learned`` what the arms have in common is learned from all of them again. Sums are brought to the present.
    """
    age = age_at(float(state.numbers[CLOCK]), state.store.ageing)
    _age_all(state, age)
    climb = _climb(state, elsewhere=elsewhere)
    climb.rounds = 0
    climb.look(climb.pairs, learned=learned)
    store = climb.installed()._replace(summed_at=np.array([age]))
    return state._replace(store=store, population=climb.population), climb.messages


def _age_all(state: State, age: float) -> None:
    """Bring all sums to some time."""
    store = state.store
    age_all(store.pairs, store.factors, int(state.numbers[N_SLOTS]), store.prior.shape[2], age)


def with_arm(state: State, features: Array, first: Population, prior: Prior | None = None) -> State:
    """Return the state with one arm more; ``features`` is what is known about it, NaN if nothing is.

    ``first`` is the population before any reward. What is believed about other arms stays.
    """
    store, population = state.store, state.population
    rows, arms = np.vstack([state.arm_features, features]), population.noise.size
    population = populations.with_arm(population, rows, prior, first)
    frame, size, d = frame_of(population), store.shared.shape[2], store.prior.shape[2]
    messages = Told(np.zeros((arms + 1, size, size)), np.zeros((arms + 1, size)))
    told, shared = populations.posterior_of(population, frame, messages, slice(arms, arms + 1))
    store = store._replace(
        generation=np.concatenate([store.generation, generations(1)]),
        noise=population.noise,
        prior=np.concatenate([store.prior, populations.prior_of(population, frame)[arms:]]),
        told=np.concatenate([store.told, told]),
        shared=np.concatenate([store.shared, shared]),
        apart=np.concatenate([store.apart, np.zeros((1, d, d))]),
        dispersion=population.dispersion,
    )
    return state._replace(store=store, population=population, arm_features=rows, silent=np.append(state.silent, 0.0))


def _climb(state: State, *, robust: bool = False, elsewhere: Elsewhere | None = None) -> Climb:
    pairs = Pairs.of(state.store, int(state.numbers[N_SLOTS]))
    return Climb(state.store, state.population, state.arm_features, pairs, robust=robust, elsewhere=elsewhere)


def estimated_from(state: State, pairs: Pairs, *, steps: int, settled: float, sample: int | None) -> State:
    """Return a state without tasks whose population is estimated from pairs of other stores.

    Parameters are those of :func:`estimated`; without steps it is the one in force, and what follows from it.
    """
    with np.errstate(all="ignore"):  # numbers that are not finite are found, and refused
        climb = Climb(state.store, state.population, state.arm_features, pairs)
        if steps:
            climb.run(steps=steps, settled=settled, sample=sample, keys=None)
        else:
            climb.look(pairs, learned=False)
    return checked(state._replace(store=climb.installed(), population=climb.population))


def estimated(
    state: State,
    *,
    learned: bool,
    method: str = "evidence",
    robust: bool = False,
    steps: int = STEPS,
    settled: float = SETTLED,
    sample: int | None = None,
    keys: Keys | None = None,
) -> State:
    """Return a state whose population is estimated from all pairs; the one that is given stays as it is.

    Parameters
    ----------
    learned : bool
        False for a population that was given, whose posterior is computed afresh.
    method : str
    robust : bool
        Whether tasks that are unlike the others are drawn to the population less.
    steps : int
        At most.
    settled : float
        The estimate ends when nothing moved by more.
    sample : int, optional
        Of about how many tasks; default: of all.
    keys : callable, optional
        Returns a number of 64 bits for every task, evenly spread, by which some of very many tasks are chosen.
    """
    store = state.store
    if store.family != NUMBER or store.ageing[FADES] > 0.0:
        pairs = copied(store.pairs, int(state.numbers[N_SLOTS]))
        values = copied(store.row_values, int(store.free_rows[1]))
        state = state._replace(store=store._replace(pairs=pairs, row_values=values))
    return estimated_in_place(
        state, learned=learned, method=method, robust=robust, steps=steps, settled=settled, sample=sample, keys=keys,
    )  # fmt: skip


def estimated_in_place(
    state: State,
    *,
    learned: bool,
    method: str = "evidence",
    robust: bool = False,
    steps: int = STEPS,
    settled: float = SETTLED,
    sample: int | None = None,
    keys: Keys | None = None,
) -> State:
    """Return a state whose population is estimated; sums and sites of the one that is given are changed.

    Parameters are those of :func:`estimated`.
    """
    store, numbers = state.store, state.numbers.copy()
    age = age_at(float(numbers[CLOCK]), store.ageing)
    _age_all(state, age)
    numbers[RETRY_AT] = numbers[FAILURES] = numbers[NEWS] = numbers[BEHIND] = 0.0
    state = state._replace(store=store._replace(summed_at=np.array([age])), numbers=numbers)
    with np.errstate(all="ignore"):  # numbers that are not finite are found, and refused
        if learned and method == "evidence":
            climb = _climb(state, robust=robust)
            found = climb.run(steps=steps, settled=settled, sample=sample, keys=keys)
        else:
            climb, found = _otherwise(state, method), True
    total = float(climb.pairs.counts.sum())
    numbers[TOTAL] = total
    if found:
        numbers[AT_LAST] = total
    silent = np.zeros(climb.population.noise.size)
    set_silent(climb.population.summaries, silent)
    return checked(state._replace(store=climb.installed(), population=climb.population, silent=silent))


TOO_DIFFERENT = (
    "expected values of moderate size, got some of too different size (1e20 beside 1, say); find such rows, forget "
    "their tasks and learn them again without"
)


def require_finite(*numbers: Array) -> None:
    """Raise unless all numbers are finite."""
    # A sum is finite where all are, and quicker to look at.
    if not all(math.isfinite(part.sum()) for part in numbers):
        raise NotFinite(TOO_DIFFERENT)


def checked(state: State) -> State:
    """Return the state, or raise if a number in it is not finite."""
    population, store = state.population, state.store
    require_finite(
        population.covariance, population.noise, population.prior_precision, population.prior_location,
        population.scale, population.common_mean, population.centre, population.target, store.shared, store.prior,
    )  # fmt: skip
    return state


def _otherwise(state: State, method: str) -> Climb:
    """Return what follows from a population by another method than the evidence, each arm's alone."""
    climb = _climb(state)
    if method not in ("known", "evidence") and climb.pairs.slots.size:
        climb.population = populations.with_prior(climb.population, _estimate_prior(climb, method))
    climb.look(climb.pairs, learned=False)
    return climb


def _estimate_prior(climb: Climb, method: str) -> Prior:
    """Return the prior of a method that looks at the statistics of all tasks in one place."""
    from posse.model.estimation import estimate_prior
    from posse.model.prior import Prior

    population = climb.population
    start = Prior(
        covariance=population.covariance,
        noise_variance=population.noise,
        shared_precision=population.prior_precision,
        shared_location=population.prior_location,
    )
    return estimate_prior(climb.pairs.statistics(), method, start=None if method == "reml" else start).prior  # type: ignore[arg-type]
