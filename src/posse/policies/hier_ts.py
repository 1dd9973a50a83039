"""HierTS: Thompson sampling in the hierarchical model when the population is known."""

from __future__ import annotations

from posse.errors import InvalidValue
from posse.kernels.select import SAMPLING
from posse.model.prior import Prior
from posse.policies.hierarchical import Hierarchical


class HierTS(Hierarchical):
    r"""Draw from the posterior under a population that is given, never learned.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    prior : Prior, optional
        The population. Default: covariance I, noise variance 1 and shared covariance 3 I, the setting of the
        method's own synthetic study.
    exploration : float
        Scale of the draws; 1 is posterior sampling.

    References
    ----------
    Hong, Kveton, Zaheer and Ghavamzadeh, "Hierarchical Bayesian Bandits" (2022).

    Notes
    -----
    One hierarchy per arm, as arms are independent here. The draw of the shared mean and the draw given it are one
    draw from their joint law, scored at the context.
    """

    label = "HierTS"
    explores = SAMPLING._replace(growing=False)

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        prior: Prior | None = None,
        exploration: float = 1.0,
    ) -> None:
        if prior is None:
            prior = self.default_prior(n_arms=n_arms, n_features=n_features)
        if not isinstance(prior, Prior):
            raise InvalidValue(f"expected prior to be a Prior: HierTS takes the population as known, got {prior!r}")
        super().__init__(
            n_tasks=n_tasks,
            n_arms=n_arms,
            n_features=n_features,
            exploration=exploration,
            prior=prior,
            first_pulls=False,
        )

    @staticmethod
    def default_prior(*, n_arms: int, n_features: int) -> Prior:
        """Return the population of the method's own synthetic study."""
        return Prior.isotropic(n_arms=n_arms, n_features=n_features, shared_precision=1 / 3)
