"""The paper's synthetic worlds, and some that it lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posse.checks import covariance as checked_covariance
from posse.checks import number, one_of, real_array, whole_number
from posse.environments.base import CONTEXTS, NOISE, SIGNS, TRUTH, Draw, stream
from posse.environments.drawing import Motion, arriving_tasks, correlated, expected_rewards, moving_coefficients
from posse.errors import InvalidValue, ShapeError
from posse.families import FAMILIES, Count, Rewards, linked_family_of
from posse.model.prior import Prior
from posse.types import Array, ArrayLike, Settings

LARGEST_RATE = 1e9  # of a count: what a generator of Poisson numbers can do
ARRIVAL_LAWS = ("balanced", "data-poor")
CONTEXT_LAWS = ("mixed-gaussian", "uniform", "intercept", "one-hot")
HETEROGENEITY_LAWS = ("gaussian", "sparse")

AMOUNT_SLOPE = 0.3  # by how much the logarithm of an amount grows with the logit of a purchase
MOST_PREDICTOR = 60.0  # of revenue: amounts are numbers then
POOR_SHARE = 0.1  # how often the first task arrives, relative to any other, when it is data-poor


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticWorld:
    r"""Tasks whose coefficients come from a population: :math:`\beta_{kj} = \beta_{k0} + \delta_{kj}`.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    noise_sd : float or sequence of length n_arms
        Standard deviation of the reward noise, per arm or for all.
    arrivals : {"balanced", "data-poor"} or sequence of length n_tasks
        Every task equally often; the first one a tenth as often as any other; or given probabilities.
    contexts : {"mixed-gaussian", "uniform", "intercept", "one-hot"}
        Each coordinate N(-1, 1) or N(1, 1) with equal chance; uniform on [-1, 1]; a constant 1 followed by mixed
        Gaussian coordinates; a random unit vector, the design that lacks covariate diversity.
    heterogeneity : {"gaussian", "sparse"} or array of shape (n_features, n_features) or (n_arms, ...)
        Covariance :math:`bb^\top + I` with :math:`b \sim N(0, I)` for every arm; ``jumps`` random coordinates shifted
        by N(0, 1); or a given covariance.
    jumps : int, optional
        Coordinates that differ under ``"sparse"``. Default: a tenth of them, at least one.
    shared_sd : float
        Standard deviation of the shared coefficients :math:`\beta_{k0}`.
    odd_share : float
        Share of the tasks, rounded up and counted from the first, that are outliers.
    odd_scale : float
        What the deviations :math:`\delta_{kj}` of outlier tasks are multiplied by. The declared prior is then the
        Gaussian with the covariance of all tasks, outliers included.
    feature_scale : sequence of length n_features, optional
        Units: contexts are multiplied by these factors and coefficients divided by them, so rewards stay as they were.
    rewards : {"number", "binary", "count", "revenue"}, default "number"
        What a reward is: the linear predictor :math:`x^\top\beta_{kj}` and Gaussian noise; 1 with the probability that
        has this logit, else 0; a count whose rate has this logarithm (Poisson); revenue, which is 0 unless somebody
        buys, with the probability that has this logit :math:`z`, and then pays :math:`e^{0.3 z + \epsilon}` with
        Gaussian noise of ``noise_sd`` on that scale. Expected rewards, and with them regret,
        are probabilities and rates; there is no declared prior, as policies for numbers could not use it. The default
        heterogeneity is that of numbers: large for clicks, and far too large for counts, whose rates are exponentials.
    base_rate : float, optional
        With clicks, counts and revenue (the share of buyers) and ``contexts="intercept"``: the probability or rate at
        which the shared intercepts are centred. Default: that of a predictor of 0, which is 0.5 for clicks and 1 for
        counts.
    dispersion : float, default 0
        Of counts, how much more than Poisson's they scatter: their variance is m + dispersion m^2 (negative binomial).
    half_life : float, optional
        Steps after which half of a task's deviation :math:`\delta_{kj}` has given way to a new one from the same law
        (an Ornstein-Uhlenbeck process). Default: nothing drifts.
    change_every : int, optional
        Steps between sudden changes, at which tasks draw new deviations. Default: there are none.
    change_share : float, default 1
        With what probability a task is among those that change.
    population_moves : bool, default False
        Whether the shared coefficients drift and change as well, all tasks with them.

    Examples
    --------
    >>> world = SyntheticWorld(n_tasks=10, n_arms=5, n_features=3)
    >>> draw = world.draw(seed=0, horizon=4)
    >>> draw.contexts.shape, draw.rewards.shape, draw.coefficients.shape
    ((4, 3), (4, 5), (5, 10, 3))
    >>> bool((world.draw(seed=0, horizon=9).tasks[:4] == draw.tasks).all())
    True
    """

    n_tasks: int = 10
    n_arms: int = 5
    n_features: int = 3
    noise_sd: float | Sequence[float] = 1.0
    arrivals: Literal["balanced", "data-poor"] | ArrayLike = "balanced"
    contexts: Literal["mixed-gaussian", "uniform", "intercept", "one-hot"] = "mixed-gaussian"
    heterogeneity: Literal["gaussian", "sparse"] | ArrayLike = "gaussian"
    jumps: int | None = None
    shared_sd: float = 1.0
    odd_share: float = 0.0
    odd_scale: float = 10.0
    feature_scale: Sequence[float] | None = None
    rewards: Rewards = "number"
    base_rate: float | None = None
    dispersion: float = 0.0
    half_life: float | None = None
    change_every: int | None = None
    change_share: float = 1.0
    population_moves: bool = False

    def __post_init__(self) -> None:
        for name in ("n_tasks", "n_arms", "n_features"):
            whole_number(getattr(self, name), name, at_least=1)
        one_of(self.contexts, "contexts", CONTEXT_LAWS)
        number(self.shared_sd, "shared_sd", above=0)
        if number(self.odd_share, "odd_share", at_least=0) > 1:
            raise InvalidValue(f"expected odd_share to be at most 1, got {self.odd_share:g}")
        number(self.odd_scale, "odd_scale", above=0)
        if self.feature_scale is not None:
            self._feature_scale()
        self._noise_sd()
        one_of(self.rewards, "rewards", tuple(FAMILIES))
        self._base()
        if number(self.dispersion, "dispersion", at_least=0) and self.rewards != "count":
            raise InvalidValue(f"dispersion is of counts, but got rewards={self.rewards!r}; pass rewards='count'")
        self._check_motion()
        self._arrival_probabilities()
        sparse = isinstance(self.heterogeneity, str) and self.heterogeneity == "sparse"
        if isinstance(self.heterogeneity, str):
            one_of(self.heterogeneity, "heterogeneity", HETEROGENEITY_LAWS)
        else:
            self._given_covariance()
        if self.jumps is not None:
            whole_number(self.jumps, "jumps", at_least=0)
            if not sparse:
                raise InvalidValue("jumps applies to heterogeneity='sparse' only; leave it out or ask for 'sparse'")
            if self.jumps > self.n_features:
                raise InvalidValue(f"expected jumps to be at most n_features={self.n_features}, got {self.jumps}")

    @property
    def n_odd_tasks(self) -> int:
        """How many tasks, counted from the first, are outliers."""
        # Less a hair, so that a share such as 0.07 of 100 tasks is 7 of them in spite of rounding.
        return max(0, math.ceil(self.odd_share * self.n_tasks - 1e-9))

    @property
    def changes(self) -> bool:
        """Whether coefficients change while the world runs."""
        return self.half_life is not None or self.change_every is not None

    def _check_motion(self) -> None:
        if self.half_life is not None:
            number(self.half_life, "half_life", above=0)
        if self.change_every is not None:
            whole_number(self.change_every, "change_every", at_least=1)
        if number(self.change_share, "change_share", at_least=0) > 1:
            raise InvalidValue(f"expected change_share to be at most 1, got {self.change_share:g}")
        if not self.changes and (self.change_share != 1 or self.population_moves):
            raise InvalidValue(
                "change_share and population_moves say how a world changes, but this one does not; "
                "pass half_life or change_every as well"
            )
        if self.changes and self.n_odd_tasks:
            raise InvalidValue(
                "expected odd_share=0 in a world that changes, where outlier tasks would not stay so, got more; "
                "leave it out"
            )

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed, with ``horizon`` steps."""
        seed = whole_number(seed, "seed", at_least=0)
        horizon = whole_number(horizon, "horizon", at_least=1)
        shared, deviations, covariance = self._truth(stream(seed, TRUTH))
        probabilities = self._arrival_probabilities()
        tasks = arriving_tasks(probabilities, seed, horizon)
        coefficients = shared + deviations
        if self.changes:
            motion = Motion(self.half_life, self.change_every, self.change_share, self.population_moves)
            met = moving_coefficients(motion, shared, deviations, covariance, self.shared_sd, tasks, seed)
        else:
            met = coefficients[:, tasks]
        contexts = self._contexts(seed, horizon)
        shared_precision: float | Array = self.shared_sd**-2
        if self.feature_scale is not None:
            scale = self._feature_scale()
            contexts = contexts * scale
            coefficients, met = coefficients / scale, met / scale
            covariance = covariance / (scale[:, None] * scale)
            shared_precision = np.tile(shared_precision * scale**2, (self.n_arms, 1))
        expected, noise, prior = expected_rewards(contexts, met), stream(seed, NOISE), None
        if self.rewards == "number":
            noise_sd = self._noise_sd()
            rewards = expected + noise.standard_normal(horizon)[:, None] * noise_sd
            noise_variance = np.maximum(noise_sd**2, 1e-12)
            prior = Prior(covariance=covariance, noise_variance=noise_variance, shared_precision=shared_precision)
        elif self.rewards == "revenue":
            predictor, noise_sd = np.clip(expected, -MOST_PREDICTOR, MOST_PREDICTOR), self._noise_sd()
            bought = linked_family_of("binary").draw(noise, linked_family_of("binary").mean_of(predictor))
            rewards = bought * np.exp(AMOUNT_SLOPE * predictor + noise.standard_normal(horizon)[:, None] * noise_sd)
            expected = linked_family_of("binary").mean_of(predictor)
            expected = expected * np.exp(AMOUNT_SLOPE * predictor + 0.5 * noise_sd**2)
        else:
            family = linked_family_of(self.rewards)
            expected = np.minimum(family.mean_of(expected), LARGEST_RATE)
            if self.dispersion:
                rewards = Count().draw_dispersed(noise, expected, self.dispersion)
            else:
                rewards = family.draw(noise, expected)
        are_known = not self.changes and self.rewards != "revenue"
        return Draw(
            tasks=tasks, contexts=contexts, expected=expected, rewards=rewards,
            coefficients=coefficients if are_known else None, prior=prior, arrival_probabilities=probabilities,
            rewards_are=self.rewards,
        )  # fmt: skip

    def _base(self) -> float:
        """Return what is added to the predictor's intercept."""
        if self.base_rate is None:
            return 0.0
        rate = number(self.base_rate, "base_rate", above=0)
        if self.rewards == "number" or self.contexts != "intercept":
            raise InvalidValue(
                "base_rate moves the intercept of clicks, counts or revenue, but got "
                f"rewards={self.rewards!r} and contexts={self.contexts!r}; pass rewards='binary', 'count' or 'revenue' "
                "and contexts='intercept'"
            )
        return linked_family_of("binary" if self.rewards == "revenue" else self.rewards).predictor_of(rate)

    def settings(self) -> Settings:
        """Return every setting as a plain value; those for outliers, units and families only where they are used."""
        plain: Settings = {"world": "synthetic"}
        unused = {"odd_share", "odd_scale"} if self.odd_share == 0 else set()
        if self.feature_scale is None:
            unused.add("feature_scale")
        if self.rewards == "number":
            unused |= {"rewards", "base_rate"}
        elif self.rewards != "revenue":
            unused.add("noise_sd")
        if not self.dispersion:
            unused.add("dispersion")
        if not self.changes:
            unused |= {"half_life", "change_every", "change_share", "population_moves"}
        for name in self.__dataclass_fields__:
            if name in unused:
                continue
            value = getattr(self, name)
            plain[name] = value if value is None or isinstance(value, str | int | float) else np.asarray(value).tolist()
        return plain

    def _noise_sd(self) -> Array:
        sd = real_array(self.noise_sd, "noise_sd")
        if sd.ndim == 0:
            sd = np.full(self.n_arms, float(sd))
        if sd.shape != (self.n_arms,):
            raise ShapeError(f"expected noise_sd to be one number or have length {self.n_arms}, got shape {sd.shape}")
        if (sd <= 0).any():
            raise InvalidValue(f"expected noise_sd to be greater than 0, got {sd.min():g}")
        return sd

    def _arrival_probabilities(self) -> Array:
        if isinstance(self.arrivals, str):
            one_of(self.arrivals, "arrivals", ARRIVAL_LAWS)
            weights = np.ones(self.n_tasks)
            if self.arrivals == "data-poor":
                weights[0] = POOR_SHARE
            return np.asarray(weights / weights.sum())
        given = real_array(self.arrivals, "arrivals")
        if given.shape != (self.n_tasks,):
            raise ShapeError(f"expected arrivals to have length n_tasks={self.n_tasks}, got shape {given.shape}")
        if (given < 0).any() or not np.isclose(given.sum(), 1.0):
            raise InvalidValue(
                f"arrivals must be probabilities that sum to 1, but the smallest is {given.min():g} and the sum "
                f"{given.sum():g}"
            )
        return np.asarray(given / given.sum())

    def _feature_scale(self) -> Array:
        scale = real_array(self.feature_scale, "feature_scale")  # type: ignore[arg-type]  # not None where it is asked
        if scale.shape != (self.n_features,):
            raise ShapeError(
                f"expected feature_scale to have length n_features={self.n_features}, got shape {scale.shape}"
            )
        if not (scale > 0).all():
            raise InvalidValue(f"expected feature_scale to be greater than 0, got {scale.min():g}")
        return scale

    def _given_covariance(self) -> Array:
        matrices = checked_covariance(self.heterogeneity, "heterogeneity")
        d = self.n_features
        if matrices.shape not in ((d, d), (self.n_arms, d, d)):
            raise ShapeError(
                f"expected heterogeneity to have shape {(d, d)} or {(self.n_arms, d, d)}, got shape {matrices.shape}"
            )
        return np.array(np.broadcast_to(matrices, (self.n_arms, d, d)))

    def _truth(self, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Return shared coefficients (K, 1, d), deviations (K, N, d) and the covariance (K, d, d) of these.

        Sums are written out or elementwise, never through BLAS: a seed gives the same bits on every machine.
        """
        K, N, d = self.n_arms, self.n_tasks, self.n_features
        shared = self.shared_sd * rng.standard_normal((K, 1, d))
        if isinstance(self.heterogeneity, str) and self.heterogeneity == "gaussian":
            b = rng.standard_normal((K, d))
            deviations = rng.standard_normal((K, N, d)) + b[:, None, :] * rng.standard_normal((K, N, 1))
            covariance = b[:, :, None] * b[:, None, :] + np.eye(d)
        elif isinstance(self.heterogeneity, str):
            jumps = self.jumps if self.jumps is not None else max(1, d // 10)
            chosen = rng.random((K, N, d)).argsort(axis=-1) < jumps
            deviations = np.where(chosen, rng.standard_normal((K, N, d)), 0.0)
            # Each coordinate jumps with chance jumps / d; coordinates are uncorrelated.
            covariance = np.tile(jumps / d * np.eye(d), (K, 1, 1))
        else:
            covariance = self._given_covariance()
            deviations = correlated(rng.standard_normal((K, N, d)), covariance)
        odd = self.n_odd_tasks
        if odd:
            deviations[:, :odd] *= self.odd_scale
            covariance = covariance * (1.0 + odd / N * (self.odd_scale**2 - 1.0))
        shared[:, :, 0] += self._base()
        return shared, deviations, covariance

    def _contexts(self, seed: int, horizon: int) -> Array:
        d = self.n_features
        rng = stream(seed, CONTEXTS)
        if self.contexts == "uniform":
            return rng.random((horizon, d)) * 2.0 - 1.0
        if self.contexts == "one-hot":
            return np.eye(d)[rng.integers(0, d, horizon)]
        centres = np.where(stream(seed, SIGNS).random((horizon, d)) < 0.5, -1.0, 1.0)
        contexts = rng.standard_normal((horizon, d)) + centres
        if self.contexts == "intercept":
            contexts[:, 0] = 1.0
        return contexts
