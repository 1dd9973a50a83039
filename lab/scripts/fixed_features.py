"""What fixed features are worth with few rows per group: ``python lab/scripts/fixed_features.py``.

60 groups of 3 rows, two features of the groups and eight of the rows; in truth only the intercept differs between
groups, with variance 0.64, and the noise variance is 1. The table is that of docs/regression.md.
"""

from __future__ import annotations

import warnings

import numpy as np

from posse import HierarchicalRegressor
from posse.errors import PosseWarning

GROUPS, ROWS, OF_GROUPS, OF_ROWS, SEEDS, ASKED = 60, 3, 2, 8, 40, 20


def measure(seed: int, method: str, fixed: list[int] | None) -> tuple[float, float, float, float]:
    """Return squared error and coverage for a new group, noise variance, coverage of the coefficients."""
    rng = np.random.default_rng(seed)
    of_groups, group = rng.normal(size=(GROUPS + 1, OF_GROUPS)), np.repeat(np.arange(GROUPS), ROWS)
    of_rows = rng.normal(size=(group.size, OF_ROWS))
    slopes, levels = rng.normal(size=OF_GROUPS + OF_ROWS), 3 + 0.8 * rng.normal(size=GROUPS + 1)
    X = np.column_stack([of_groups[group], of_rows])
    y = X @ slopes + levels[group] + rng.normal(size=group.size)
    model = HierarchicalRegressor(method=method, fixed=fixed).fit(X, y, group)
    new = np.column_stack([np.tile(of_groups[GROUPS], (ASKED, 1)), rng.normal(size=(ASKED, OF_ROWS))])
    mean, std = model.predict(new, ["new"] * ASKED, return_std=True)
    error = mean - (new @ slopes + levels[GROUPS])
    inside = abs(error) <= 1.645 * np.sqrt(std**2 - model.noise_variance_)
    known = abs(model.coef_ - slopes) <= 1.645 * model.coef_std_
    return float((error**2).mean()), float(model.noise_variance_), float(inside.mean()), float(known.mean())


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore", PosseWarning)
    print("| | error | noise variance | 90 % intervals that hold the truth: of a new group | of coefficients |")
    print("|---|---|---|---|---|")
    for method in ("reml", "evidence"):
        for words, fixed in (("nothing", None), ("all", list(range(OF_GROUPS + OF_ROWS)))):
            error, noise, group, known = np.mean([measure(seed, method, fixed) for seed in range(SEEDS)], axis=0)
            print(f'| `"{method}"`, {words} fixed | {error:.2f} | {noise:.2f} | {group:.0%} | {known:.0%} |')


if __name__ == "__main__":
    main()
