"""ebmUCB, ebmTS and ebmRandUCB: bandits that learn the population they come from."""

from __future__ import annotations

from typing import Any, Literal

from posse.checks import KnownKeywords, one_of, require_keywords
from posse.errors import InvalidValue
from posse.families import FAMILIES, Rewards
from posse.kernels.select import OPTIMISTIC, RANDOMISED, SAMPLING
from posse.model import Prior
from posse.model.estimation import PriorMethod
from posse.policies.base import Policy
from posse.policies.family import FamilyRandUCB, FamilyTS, FamilyUCB
from posse.policies.hierarchical import PAPER_SHARED_PRECISION, Hierarchical, PriorEstimator

BY_LABEL: dict[str, type[Policy]] = {"ebmUCB": FamilyUCB, "ebmTS": FamilyTS, "ebmRandUCB": FamilyRandUCB}
SHARED = ("n_tasks", "n_arms", "n_features", "exploration", "refresh_growth", "first_pulls", "drift")
STANDARD: dict[str, Any] = {"prior": "evidence", "robust": False}
"""Further settings that may be passed, since clicks and counts have these values anyway."""


class OfFamily(KnownKeywords):
    """Base of policies that are made as the policy of a family where ``rewards`` says so.

    The class that is made then is registered as a subclass of the one that was called (in :mod:`posse.policies.ebm`),
    but does not inherit from it, so Python does not run its ``__init__``.
    """

    def __new__(cls, *arguments: Any, **settings: Any) -> Any:
        """Make this policy for numbers, and that of the family for clicks and counts."""
        rewards = one_of(settings.get("rewards", "number"), "rewards", tuple(FAMILIES))
        if rewards == "number":
            return super().__new__(cls, *arguments, **settings)
        require_keywords(cls, settings)
        if "label" not in cls.__dict__:
            raise InvalidValue(f"expected rewards='number' for {cls.__name__}, a class of your own, got {rewards!r}")
        for name, value in settings.items():
            if name in SHARED or name == "rewards":
                continue
            if name not in STANDARD or type(value) is not type(STANDARD[name]) or value != STANDARD[name]:
                fixed = ", ".join(f"{setting}={only!r}" for setting, only in STANDARD.items())
                shown = type(value).__name__ if isinstance(value, Prior) else repr(value)
                raise InvalidValue(
                    f"expected {fixed} and no shared_precision for rewards={rewards!r}, got {name}={shown}; leave it "
                    "out, or take rewards='number'"
                )
        chosen: Any = BY_LABEL[str(cls.__dict__["label"])]
        shared = {name: value for name, value in settings.items() if name in SHARED}
        if shared.get("refresh_growth", 0.0) is None:
            del shared["refresh_growth"]  # None is the default here
        return chosen(*arguments, rewards=rewards, **shared)


class EbmUCB(Hierarchical, OfFamily):
    r"""Pull the arm with the highest optimistic estimate under the learned population (ebmUCB).

    .. math:: \arg\max_k \; x^\top m_{kj} + a \sqrt{\log t}\, \sqrt{x^\top C_{kj}\, x}

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    exploration : float, optional
        :math:`a`. Default: the paper's 0.1, or 0.4 under the evidence prior, measured over ten kinds of world (0.3
        costs 1 % on average, 0.2 costs 8 %).
    shared_precision : float
        :math:`\lambda`, how close to zero the shared mean is believed to be; the evidence prior learns its own.
    prior : {"paper", "paper-literal", "paper-unthresholded", "moments", "evidence"}, Prior or function
        How the population is estimated, or the population itself if it is known. A function from
        :class:`~posse.model.Statistics` to :class:`~posse.model.Prior` is an estimator of your own; it is asked when
        the rewards of all arms have grown by ``refresh_growth``.
    refresh_growth : float, optional
        An arm's prior is refreshed when its rewards have grown by this fraction; 0 is after every reward.
        Between refreshes the posterior is exact under the prior in force. Default: 0 as in the paper, or 0.3 under the
        evidence prior, which refreshes all arms together.
    first_pulls : bool
        Pull arm t at step t for the first ``n_arms`` steps.
    robust : bool
        With the evidence prior: a population with heavy tails, so that outlier tasks borrow and lend less.
    drift : None, "learn" or float, default None
        A world that changes (docs/drift.md). A number is the half-life, in steps, with which coefficients return to
        the population: what is old counts less. ``"learn"`` learns it, and starts afresh where a sudden change is
        noticed, in one task or in all; :attr:`half_life` and :attr:`changes` say what was found. A step is a reward
        that was learned. Without drift every reward counts the same for ever.
    rewards : {"number", "binary", "count"}, default "number"
        What rewards are. Clicks and counts are learned by :class:`FamilyUCB`, and that is what is returned (an instance
        of both): with the evidence prior and its own defaults of ``exploration`` and ``refresh_growth``, without
        ``shared_precision`` and ``robust``.

    References
    ----------
    Jiang and Zhu, "Empirical Bayesian Multi-Bandit Learning", Algorithm 1.

    Notes
    -----
    Departures from the paper: the mean is the posterior mean itself (the printed formula divides by the noise variance
    once too often); noise variance 1 and covariance I stand until they can be estimated; ``log max(t, 2)`` for
    ``log t``; ties fall to the seeded stream. See :func:`posse.model.estimate_prior` for the estimators.

    Examples
    --------
    >>> import numpy as np
    >>> policy = EbmUCB(n_tasks=3, n_arms=2, n_features=2)
    >>> policy.choose(task=0, context=[1.0, 0.5], step=1, rng=np.random.default_rng(0))
    0
    >>> policy.update(task=0, arm=0, context=[1.0, 0.5], reward=2.0)
    >>> policy.predict(task=1, context=[1.0, 0.5]).mean.round(3)
    array([1.996, 0.   ])
    >>> EbmUCB(n_tasks=3, n_arms=2, n_features=2, rewards="binary").describe()
    'exploration 0.4 √log t; binary rewards; refresh at +10%'
    """

    label = "ebmUCB"
    explores = OPTIMISTIC
    evidence_exploration = 0.4


class EbmTS(Hierarchical, OfFamily):
    r"""Pull the arm that is best in a draw from the posterior under the learned population (ebmTS).

    .. math::
        \arg\max_k \; x^\top m_{kj} + a \sqrt{\log t}\, \sqrt{x^\top C_{kj}\, x}\; z_k,
        \quad z_k \sim \mathcal N(0, 1)

    which has the law of drawing coefficients and scoring the context with them.

    Parameters
    ----------
    n_tasks, n_arms, n_features, shared_precision, prior, refresh_growth, first_pulls, robust, drift, rewards
        As in :class:`EbmUCB`; clicks and counts are learned by :class:`FamilyTS`.
    exploration : float, optional
        :math:`a`. Default: the paper's 0.1, or 0.15 under the evidence prior, as measured.

    References
    ----------
    Jiang and Zhu, "Empirical Bayesian Multi-Bandit Learning", Algorithm 1.

    Notes
    -----
    Departures from the paper: as in :class:`EbmUCB`; one scalar draw per arm in place of a vector.
    """

    label = "ebmTS"
    explores = SAMPLING
    evidence_exploration = 0.15


class EbmRandUCB(Hierarchical, OfFamily):
    r"""Pull the arm with the highest estimate under the learned population, with optimism drawn at random (ebmRandUCB).

    .. math::
        \arg\max_k \; x^\top m_{kj} + a \max(0, 1 + z/4) \sqrt{\log t}\, \sqrt{x^\top C_{kj}\, x},
        \quad z \sim \mathcal N(0, 1)

    One :math:`z` is drawn for all arms. Decisions are random, so that they can be evaluated, and the regret is that of
    :class:`EbmUCB`.

    Parameters
    ----------
    n_tasks, n_arms, n_features, shared_precision, refresh_growth, first_pulls, robust, drift, rewards
        As in :class:`EbmUCB`; clicks and counts are learned by :class:`FamilyRandUCB`.
    exploration : float, optional
        :math:`a`. Default: 0.4 under the evidence prior, else 0.1.
    prior : {"evidence", "paper", "paper-literal", "paper-unthresholded", "moments"} or Prior
        How the population is estimated, or the population itself if it is known.

    References
    ----------
    Vaswani, Mehrabian, Durand and Kveton, "Old Dog Learns New Tricks: Randomized UCB for Bandit Problems" (2020).

    Notes
    -----
    Departures from the paper: a Gaussian :math:`z` without upper bound in place of a truncated discretised one; the
    posterior of the hierarchical model; the width grows with :math:`\sqrt{\log t}`. All else as in :class:`EbmUCB`.

    Examples
    --------
    >>> policy = EbmRandUCB(n_tasks=3, n_arms=2, n_features=2)
    >>> policy.describe()
    'exploration 0.4 ± 0.1 √log t; evidence prior; refresh at +30%'
    """

    label = "ebmRandUCB"
    explores = RANDOMISED
    evidence_exploration = 0.4

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        exploration: float | None = None,
        shared_precision: float = PAPER_SHARED_PRECISION,
        prior: PriorMethod | Prior | PriorEstimator = "evidence",
        refresh_growth: float | None = None,
        first_pulls: bool = True,
        robust: bool = False,
        drift: float | Literal["learn"] | None = None,
        rewards: Rewards = "number",
    ) -> None:
        super().__init__(
            n_tasks=n_tasks,
            n_arms=n_arms,
            n_features=n_features,
            exploration=exploration,
            shared_precision=shared_precision,
            prior=prior,
            refresh_growth=refresh_growth,
            first_pulls=first_pulls,
            robust=robust,
            drift=drift,
            rewards=rewards,
        )


for _policy in (EbmUCB, EbmTS, EbmRandUCB):
    _policy.register(BY_LABEL[_policy.label])
