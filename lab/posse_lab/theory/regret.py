"""Bounds on regret: Theorems 2 and 3, and what can be proved in their place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from posse.checks import real_array
from posse_lab.theory.radius import Form, bayes_radius, radius
from posse_lab.theory.variance import (
    variance_bound_joint,
    variance_bound_own,
    variance_bound_shared,
)

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike
    from posse_lab.theory.constants import Constants

SETTLING_STEPS = 10
"""Steps that the corrected Theorem 3 charges in full, so that its constant is 14 and not 200."""


@dataclass(frozen=True, slots=True)
class RegretBound:
    r"""A bound on cumulative regret, in parts.

    .. math:: R_n \le \underbrace{a\, \alpha_n \sqrt{n V}}_\text{exploration} + \text{forced} + \text{failure}

    Parameters
    ----------
    form : str
    horizon : int
    radius : float
        :math:`\alpha_n(\delta)`.
    inflation : float
        a, what multiplies the radius: 2 for UCB.
    variance_own, variance_shared : float
        V, the bound on the sum of posterior variances: of the tasks' own coefficients, of the shared means.
    forced : float
        Steps that are not covered by the argument: the pulls of every arm at the start.
    failure : float
        Steps at which an estimate is further off than its radius.
    trivial : float
        What no policy can exceed, :math:`2 \sqrt{d c_x}\, c_\beta\, n`.
    """

    form: str
    horizon: int
    radius: float
    inflation: float
    variance_own: float
    variance_shared: float
    forced: float
    failure: float
    trivial: float

    @property
    def exploration(self) -> float:
        """What is paid for not knowing while estimates are within their radius."""
        return self.inflation * self.radius * math.sqrt(self.horizon * (self.variance_own + self.variance_shared))

    @property
    def total(self) -> float:
        """The bound."""
        return self.exploration + self.forced + self.failure

    @property
    def vacuous(self) -> bool:
        """Whether the bound says no more than the trivial one."""
        return self.total >= self.trivial


def regret_bound_ucb(
    constants: Constants, horizon: int, arrivals: ArrayLike, delta: float, form: Form = "corrected"
) -> RegretBound:
    r"""Bound the regret of ebmUCB with index :math:`x^\top m + \alpha_t(\delta) \lVert x \rVert_C` (Theorem 2).

    With :math:`\rho = 2 \sqrt{d c_x}\, c_\beta`, what one step can cost, and :math:`\alpha_n` from :func:`radius` in
    the same form:

    *printed*
        :math:`2 \alpha_n \sqrt{n d K [c_1 \sum_j \log(1 + c_2 n_j) + c_3 \log(1 + c_4 N)]} + \rho K N n \delta`.
    *repaired*
        The same with the repaired radius, and :math:`\rho K` for the pulls at the start, which the proof forgets. No
        proof, as that of the radius has gaps.
    *corrected*
        :math:`2 \alpha_n \sqrt{n V} + \rho K + \rho K n \delta`, where V is :func:`variance_bound_joint` clipped at
        :math:`(\rho / 2 \alpha_n)^2`: where an interval is wider than :math:`\rho`, a step still costs no more. Its
        failure term lacks N, as the corrected radius holds for all tasks together. Proved for known
        :math:`(\Sigma, \sigma)`.

    Parameters
    ----------
    constants : Constants
    horizon : int
        n.
    arrivals : array of shape (n_tasks,)
        :math:`n_j`, or their expectations; they sum to the horizon.
    delta : float
    form : {"corrected", "printed", "repaired"}

    Examples
    --------
    >>> from posse_lab.theory.constants import Constants
    >>> world = Constants(
    ...     n_tasks=10, n_arms=5, n_features=3, noise_sd=1.0, shared_precision=1.0, precision_max=1.0,
    ...     precision_min=0.25, coefficient_bound=6.0, context_bound=9.0, prior_distance=5.5,
    ... )
    >>> bound = regret_bound_ucb(world, 2_000, [200] * 10, delta=1e-5)
    >>> round(bound.total), round(bound.trivial), bound.vacuous
    (91302, 124708, False)
    >>> round(regret_bound_ucb(world, 2_000, [200] * 10, delta=1e-5, form="printed").total)
    3795193
    """
    n = real_array(arrivals, "arrivals")
    reach = radius(constants, horizon, delta, form)
    worst = constants.step_regret_bound
    first = min(constants.n_arms, horizon)
    if form == "corrected":
        own, shared = _clipped(constants, n, 2.0 * reach)
        failure = worst * constants.n_arms * horizon * delta
    else:
        own, shared = _lemmas(constants, n)
        failure = worst * constants.n_arms * constants.n_tasks * horizon * delta
    forced = 0.0 if form == "printed" else worst * first
    return RegretBound(form, horizon, reach, 2.0, own, shared, forced, failure, worst * horizon)


def regret_bound_ts(
    constants: Constants, horizon: int, arrivals: ArrayLike, delta: float, form: Form = "corrected"
) -> RegretBound:
    r"""Bound the regret of ebmTS, which draws from :math:`N(m, \alpha_t^2(\delta)\, C)` (Theorem 3).

    Notation as in :func:`regret_bound_ucb`; V printed is the bracket under the root there.

    *printed*
        :math:`2 C (\gamma_n + 1) \alpha_n \sqrt{n V} + \rho K N n (\delta + \pi^2/6)` with
        :math:`\gamma_n = \sqrt{2 d \log(d n^2)}` and C = 203.5, see :func:`printed_sampling_constant`. The last term
        alone exceeds the trivial bound :math:`\rho n`, so this is vacuous always.
    *repaired*
        :math:`C (\gamma_n + 1) \alpha_n \sqrt{n V} + \rho \max(K, 2) + \rho K N (n \delta + \pi^2/6)` with the
        repaired radius. No proof.
    *corrected*
        :math:`C (\gamma_n + 1) \alpha_n \sqrt{n V} + \rho b + \rho (K n \delta + 1/b)` with
        :math:`\gamma_n = \sqrt{2 \log(K n^2)}`, the first :math:`b = \max(K, 10)` steps charged in full,
        :math:`C = 1 + 2 / (\Pr(Z > 1) - (b + 1)^{-2}) \le 14.3`, and V clipped at
        :math:`(\rho / (\gamma_n + 1) \alpha_n)^2`. Proved for known :math:`(\Sigma, \sigma)`.

    Parameters
    ----------
    constants, horizon, arrivals, delta, form
        As in :func:`regret_bound_ucb`.
    """
    n = real_array(arrivals, "arrivals")
    reach = radius(constants, horizon, delta, form)
    worst = constants.step_regret_bound
    n_pairs = constants.n_arms * constants.n_tasks
    d = constants.n_features
    if form == "corrected":
        settling = max(constants.n_arms, SETTLING_STEPS)
        drawn = math.sqrt(2.0 * math.log(constants.n_arms * horizon**2)) + 1.0
        optimism = NormalDist().cdf(-1.0)
        inflation = (2.0 / (optimism - (settling + 1.0) ** -2) + 1.0) * drawn
        own, shared = _clipped(constants, n, drawn * reach)
        forced = worst * min(settling, horizon)
        failure = worst * (constants.n_arms * horizon * delta + 1.0 / settling)
    else:
        inflation = printed_sampling_constant() * (math.sqrt(2.0 * d * math.log(d * horizon**2)) + 1.0)
        own, shared = _lemmas(constants, n)
        if form == "printed":
            inflation *= 2.0
            forced = 0.0
            failure = worst * n_pairs * horizon * (delta + math.pi**2 / 6.0)
        else:
            forced = worst * min(max(constants.n_arms, 2), horizon)
            failure = worst * n_pairs * (horizon * delta + math.pi**2 / 6.0)
    return RegretBound(form, horizon, reach, inflation, own, shared, forced, failure, worst * horizon)


def bayes_regret_bound(constants: Constants, horizon: int, arrivals: ArrayLike, delta: float) -> RegretBound:
    r"""Bound the regret of optimism and of exact posterior sampling, averaged over worlds drawn from the prior.

    For the index :math:`x^\top m + r \lVert x \rVert_C` with :math:`r = z_{1 - \delta/2}` of :func:`bayes_radius` with
    one feature, and for draws from :math:`N(m, C)` with no inflation at all,

    .. math::
        \operatorname{E} R_n \le r \sqrt{n V} + s \sqrt{2 \log K}\, K
        + n K s\, \bigl[ \varphi(r) - r\, (1 - F(r)) \bigr], \quad s^2 = d c_x (1/\lambda_d + 1/\lambda),

    with V the smaller of :func:`variance_bound_joint` and the sum of the lemmas. There is no :math:`c_\beta`: the
    trivial bound is :math:`2 n s \sqrt{2 \log 2K}`, twice what the largest of K expected rewards is on average.

    Parameters
    ----------
    constants, horizon, arrivals, delta
        As in :func:`regret_bound_ucb`; a good choice is ``delta = 1 / (n_arms * horizon)``.
    """
    n = real_array(arrivals, "arrivals")
    reach = bayes_radius(1, delta)
    normal = NormalDist()
    excess = normal.pdf(reach) - reach * normal.cdf(-reach)
    spread = constants.n_features * constants.context_bound
    largest = math.sqrt(spread * (1.0 / constants.precision_min + 1.0 / constants.shared_precision))
    own, shared = min(variance_bound_joint(constants, n), _lemmas(constants, n, sharpened=True), key=sum)
    n_arms = constants.n_arms
    forced = largest * math.sqrt(2.0 * math.log(n_arms)) * min(n_arms, horizon)
    failure = largest * excess * n_arms * horizon
    trivial = 2.0 * largest * math.sqrt(2.0 * math.log(2.0 * n_arms)) * horizon
    return RegretBound("bayes", horizon, reach, 1.0, own, shared, forced, failure, trivial)


def printed_sampling_constant() -> float:
    r"""Return C of Theorem 3 as printed, :math:`\max_t 2 / |\frac{1}{2\sqrt{2\pi e}} - t^{-2}| + 1`.

    The maximum is at t = 3, where 0.1210 meets 1/9. At t = 1 and 2 the difference is negative: the absolute value
    hides that the probability it bounds from below has no bound there. Later it falls to 17.5.

    Examples
    --------
    >>> round(printed_sampling_constant(), 1)
    203.5
    """
    optimism = 1.0 / (2.0 * math.sqrt(2.0 * math.pi * math.e))
    return max(2.0 / abs(optimism - 1.0 / t**2) + 1.0 for t in range(1, 100))


def _lemmas(constants: Constants, arrivals: Array, *, sharpened: bool = False) -> tuple[float, float]:
    """Return the paper's bounds on both variance sums over all arms."""
    own = sum(variance_bound_own(constants, n) for n in arrivals.tolist())
    return constants.n_arms * own, constants.n_arms * variance_bound_shared(
        constants, "sharpened" if sharpened else "printed"
    )


def _clipped(constants: Constants, arrivals: Array, slope: float) -> tuple[float, float]:
    """Return the joint bound on variances, of which those count in part that cost more than a step can."""
    worst = constants.step_regret_bound
    return variance_bound_joint(constants, arrivals, (worst / slope) ** 2) if worst > 0 else (0.0, 0.0)
