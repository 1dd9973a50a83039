"""What the paper proves, computable: every statement as printed, and as it can be proved."""

from posse_lab.theory.constants import Constants, prior_distance
from posse_lab.theory.diversity import covariate_diversity
from posse_lab.theory.radius import (
    bayes_radius,
    information,
    information_bound,
    radius,
    standardised_errors,
)
from posse_lab.theory.regret import (
    RegretBound,
    bayes_regret_bound,
    printed_sampling_constant,
    regret_bound_ts,
    regret_bound_ucb,
)
from posse_lab.theory.variance import (
    VarianceSums,
    variance_bound_joint,
    variance_bound_own,
    variance_bound_shared,
    variance_sums,
)

__all__ = [
    "Constants",
    "RegretBound",
    "VarianceSums",
    "bayes_radius",
    "bayes_regret_bound",
    "covariate_diversity",
    "information",
    "information_bound",
    "printed_sampling_constant",
    "prior_distance",
    "radius",
    "regret_bound_ts",
    "regret_bound_ucb",
    "standardised_errors",
    "variance_bound_joint",
    "variance_bound_own",
    "variance_bound_shared",
    "variance_sums",
]
