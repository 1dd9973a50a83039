"""How far an estimate may be from the truth: Theorem 1, and what can be said in its place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from posse.checks import real_array
from posse.model import posterior

if TYPE_CHECKING:
    from posse.model import Posterior, Prior, Statistics
    from posse.types import Array, ArrayLike
    from posse_lab.theory.constants import Constants

Form: TypeAlias = Literal["printed", "repaired", "corrected"]
FORMS: tuple[Form, ...] = ("printed", "repaired", "corrected")


def radius(
    constants: Constants,
    step: int,
    delta: float,
    form: Form = "corrected",
    norm: Literal["posterior", "own"] = "posterior",
) -> float:
    r"""Return how many norms an estimate may be off, :math:`\alpha_t(\delta)` of Theorem 1.

    The statement, with the posterior mean m and covariance C of any (arm, task) before step t, is

    .. math:: |x^\top (m - \beta)| \le \alpha_t(\delta)\, \lVert x \rVert_C \quad\text{with probability } 1 - \delta .

    *printed*
        :math:`2 \sqrt{\sigma^2 d\, m_1 \log\frac{m_2 + t c_x}{\sqrt{\lambda \lambda_d \sigma^2}\, \delta}}
        + \sigma N m_3`. False for small :math:`\sigma`, in the own norm also for :math:`\sigma = 1`.
    *repaired*
        The same line with its slips mended, and no proof:
        :math:`2 \sqrt{d\, m_1 \log\frac{2 (m_2 + t c_x \max(1, \sigma^{-2}))}{\sqrt{\lambda \lambda_d \sigma^2}\,
        \delta}} + (N + 1) m_3`, with d at least 2. Where it exceeds the corrected radius it holds because that does.
    *corrected*
        :math:`\sqrt{L_t + 2 \log(1/\delta)} + B` with the information :math:`L_t` of :func:`information_bound` and
        the prior distance :math:`B \le \sqrt N m_3`. Proved for fixed coefficients and known :math:`(\Sigma, \sigma)`,
        however arms are chosen; for an arm it holds with probability :math:`1 - \delta` for all steps, tasks and
        contexts *together*.

    Parameters
    ----------
    constants : Constants
    step : int
        t, at least 1.
    delta : float
        Between 0 and 1.
    form : {"corrected", "printed", "repaired"}
    norm : {"posterior", "own"}
        ``"own"`` is the theorem's first line, :math:`\lVert \tilde C^{-1/2} (m - \beta) \rVert \le \alpha_t(\delta)`
        with :math:`\tilde C = (A + \sigma^2 \Sigma^{-1})^{-1}`. Printed with the same :math:`\alpha`; corrected
        :math:`\sigma \sqrt{1 + \lambda_1 / \lambda}` times the other, since
        :math:`\sigma^2 \tilde C \le C \le \sigma^2 (1 + \lambda_1/\lambda)\, \tilde C`.

    Examples
    --------
    >>> from posse_lab.theory.constants import Constants
    >>> world = Constants(
    ...     n_tasks=10, n_arms=5, n_features=3, noise_sd=1.0, shared_precision=0.001, precision_max=1.0,
    ...     precision_min=0.25, coefficient_bound=6.0, context_bound=9.0,
    ... )
    >>> [round(radius(world, 2_000, 0.01, form)) for form in ("printed", "repaired", "corrected")]
    [532, 547, 36]
    """
    sd = constants.noise_sd
    if form == "corrected":
        reach = _self_normalised(information_bound(constants, step), constants.bias, delta)
        return reach * (sd * math.sqrt(1.0 + constants.c_4) if norm == "own" else 1.0)
    typical = math.sqrt(constants.shared_precision * constants.precision_min) * sd
    if form == "printed":
        inside = (constants.m_2 + step * constants.context_bound) / (typical * delta)
        noise = 2.0 * math.sqrt(constants.n_features * constants.m_1 * math.log(inside))
        return sd * (noise + constants.n_tasks * constants.m_3)
    inside = 2.0 * (constants.m_2 + step * constants.context_bound * max(1.0, sd**-2)) / (typical * delta)
    noise = 2.0 * math.sqrt(max(constants.n_features, 2) * constants.m_1 * math.log(inside))
    return (noise + (constants.n_tasks + 1) * constants.m_3) * (sd if norm == "own" else 1.0)


def bayes_radius(n_features: int, delta: float) -> float:
    r"""Return the radius that the posterior itself gives, :math:`\sqrt{\chi^2_d(1 - \delta)}`.

    With coefficients drawn from the prior, :math:`\beta \mid \text{data} \sim N(m, C)` however the arms were chosen, as
    long as the choice saw no more than the data. So at any one (arm, task, step)

    .. math:: \Pr\bigl( |x^\top (m - \beta)| \le r\, \lVert x \rVert_C \text{ for all } x \bigr) = 1 - \delta

    *exactly*, where the probability is over the coefficients too. For one context that does not depend on the
    coefficients beyond the data, ``n_features=1`` is enough: 1.96 at ``delta=0.05``.

    Examples
    --------
    >>> round(bayes_radius(1, 0.05), 4), round(bayes_radius(3, 0.05), 4)
    (1.96, 2.7955)
    """
    from scipy.special import gammainccinv

    return math.sqrt(2.0 * float(gammainccinv(n_features / 2.0, delta)))


def information_bound(constants: Constants, step: int) -> float:
    r"""Return the most that ``step`` rewards of an arm can say about all its tasks.

    .. math:: L_t = N d \log\bigl(1 + c_2 t / N\bigr) + d \log\bigl(1 + c_4 N\bigr),

    a bound on :func:`information` whatever the contexts and however the rewards fall on the tasks.
    """
    n_tasks, d = constants.n_tasks, constants.n_features
    own = n_tasks * math.log1p(constants.c_2 * step / n_tasks)
    return d * (own + math.log1p(constants.c_4 * n_tasks))


def information(stats: Statistics, prior: Prior) -> Array:
    r"""Return what the rewards of every arm say about all its tasks, twice in nats.

    With the prior covariance P of an arm's stacked coefficients and their posterior covariance Q,

    .. math::
        L = \log\frac{\det P}{\det Q}
        = \sum_j \log\det\Bigl(I + \frac{A_j \Sigma}{\sigma^2}\Bigr) + \log\det\frac{\Phi^{-1}}{\lambda} .

    Returns
    -------
    ndarray of shape (n_arms,)

    Examples
    --------
    One reward, whose expectation varies by 2 + 1 and its noise by 1: the log of 4.

    >>> from posse.model import Prior, Statistics
    >>> stats = Statistics.from_data(task=[0], arm=[0], context=[[1.0]], reward=[2.0], n_tasks=3, n_arms=1)
    >>> information(stats, Prior(covariance=[[[2.0]]], noise_variance=1.0, shared_precision=1.0)).round(6)
    array([1.386294])
    """
    shared = posterior(stats, prior).shared_covariance
    seen = stats.gram @ prior.covariance[:, None] / prior.noise_variance[:, None, None, None]
    own = np.linalg.slogdet(np.eye(prior.n_features) + seen)[1].sum(axis=1)
    result: Array = own - np.linalg.slogdet(shared)[1] - np.linalg.slogdet(prior.shared_precisions)[1]
    return np.maximum(result, 0.0)


def standardised_errors(post: Posterior, coefficients: ArrayLike, context: ArrayLike | None = None) -> Array:
    r"""Return the error of every (arm, task) in the units that a radius is in.

    :math:`|x^\top (m - \beta)| / \lVert x \rVert_C` for a context, and without one its maximum over all contexts,
    :math:`\lVert C^{-1/2} (m - \beta) \rVert`. A radius covers where it is at least this.

    Returns
    -------
    ndarray of shape (n_arms, n_tasks)

    Examples
    --------
    >>> from posse.model import Posterior
    >>> post = Posterior(np.array([[[3.0, 0.0]]]), np.array([[[[4.0, 0.0], [0.0, 1.0]]]]), np.zeros(1), np.zeros(1))
    >>> standardised_errors(post, [[[1.0, 1.0]]], [2.0, 0.0]), standardised_errors(post, [[[1.0, 1.0]]]).round(4)
    (array([[1.]]), array([[1.4142]]))
    """
    beta = real_array(coefficients, "coefficients")
    away = post.mean - beta
    if context is None:
        return np.asarray(
            np.linalg.norm(np.linalg.solve(np.linalg.cholesky(post.covariance), away[..., None]), axis=(2, 3))
        )
    x = real_array(context, "context")
    return np.asarray(np.abs(away @ x) / np.sqrt(np.einsum("knab,a,b->kn", post.covariance, x, x)))


def _self_normalised(said: float, distance: float, delta: float) -> float:
    return math.sqrt(said + 2.0 * math.log(1.0 / delta)) + distance
