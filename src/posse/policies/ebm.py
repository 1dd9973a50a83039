"""ebmUCB, ebmTS and ebmRandUCB: bandits that learn the population they come from."""

from __future__ import annotations

from posse.core.select import OPTIMISTIC, RANDOMISED, SAMPLING
from posse.policies.hierarchical import Hierarchical


class EbmUCB(Hierarchical):
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
    prior : {"default", "paper", "paper-literal", "paper-unthresholded", "moments", "evidence"}, Prior or function
        "default" is "paper" for numbers, and "evidence" for clicks and counts. How the population is estimated, or the
        population itself if it is known. A function from :class:`~posse.model.Statistics` to
        :class:`~posse.model.Prior` is an estimator of your own; it is asked when the rewards of all arms have grown by
        ``refresh_growth``.
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
        What rewards are. Clicks and counts are learned with the evidence prior, which is refreshed when rewards have
        grown by a tenth unless ``refresh_growth`` says otherwise, without ``shared_precision`` and ``robust``.

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


class EbmTS(Hierarchical):
    r"""Pull the arm that is best in a draw from the posterior under the learned population (ebmTS).

    .. math::
        \arg\max_k \; x^\top m_{kj} + a \sqrt{\log t}\, \sqrt{x^\top C_{kj}\, x}\; z_k,
        \quad z_k \sim \mathcal N(0, 1)

    which has the law of drawing coefficients and scoring the context with them.

    Parameters
    ----------
    n_tasks, n_arms, n_features, shared_precision, prior, refresh_growth, first_pulls, robust, drift, rewards
        As in :class:`EbmUCB`.
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


class EbmRandUCB(Hierarchical):
    r"""Pull the arm with the highest estimate under the learned population, with optimism drawn at random (ebmRandUCB).

    .. math::
        \arg\max_k \; x^\top m_{kj} + a \max(0, 1 + z/4) \sqrt{\log t}\, \sqrt{x^\top C_{kj}\, x},
        \quad z \sim \mathcal N(0, 1)

    One :math:`z` is drawn for all arms. Decisions are random, so that they can be evaluated, and the regret is that of
    :class:`EbmUCB`.

    Parameters
    ----------
    n_tasks, n_arms, n_features, shared_precision, refresh_growth, first_pulls, robust, drift, rewards
        As in :class:`EbmUCB`.
    exploration : float, optional
        :math:`a`. Default: 0.4 under the evidence prior, else 0.1.
    prior : {"default", "evidence", "paper", "paper-literal", "paper-unthresholded", "moments"}, Prior or function
        As in :class:`EbmUCB`, but "default" is "evidence".

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
    usual_prior = "evidence"
