"""HierarchicalRegressor beside statsmodels' MixedLM in the same run: ``python lab/scripts/regression.py``.

100 groups of 30 rows with 8 features and an intercept, all of them random: the model that both fit by restricted
maximum likelihood. Wall time after compilation: the best of a few fits of ours, one fit of theirs. Both likelihoods are
shown, so that a fast answer cannot be a worse one.
"""

import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table
from statsmodels.regression.mixed_linear_model import MixedLM

from posse import HierarchicalRegressor

N_GROUPS, N_ROWS, N_FEATURES = 100, 30, 8
BAR = 100


def draw(seed=0):
    """Rows of groups whose coefficients are correlated and differ in scale."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(N_GROUPS), N_ROWS)
    X = rng.standard_normal((groups.size, N_FEATURES))
    p = N_FEATURES + 1
    root = rng.standard_normal((p, p)) / np.sqrt(p) * np.linspace(0.5, 1.5, p)[:, None]
    coefficients = rng.standard_normal(p) + rng.standard_normal((N_GROUPS, p)) @ root.T
    y = coefficients[groups, 0] + np.einsum("nd,nd->n", X, coefficients[groups, 1:])
    return X, y + rng.standard_normal(groups.size), groups


def seconds(method, X, y, groups, repeat=10):
    """Return the best time of a fit, and the model."""
    best = np.inf
    for _ in range(repeat + 1):  # the first one compiles
        started = time.perf_counter()
        model = HierarchicalRegressor(method=method).fit(X, y, groups)
        best = min(best, time.perf_counter() - started)
    return best, model


def main():
    X, y, groups = draw()
    reml_time, reml = seconds("reml", X, y, groups)
    evidence_time, evidence = seconds("evidence", X, y, groups)
    design = np.column_stack([np.ones(len(X)), X])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns wherever its optimiser had to be restarted
        started = time.perf_counter()
        theirs = MixedLM(y, design, groups, exog_re=design).fit(reml=True)
        their_time = time.perf_counter() - started

    table = Table(
        title=f"{N_GROUPS} groups x {N_ROWS} rows x {N_FEATURES} features and an intercept",
        title_justify="left",
        title_style="bold",
    )
    for column in ("fit", "ms", "MixedLM takes", "restricted log likelihood"):
        table.add_column(column, justify="left" if column == "fit" else "right")
    table.add_row("MixedLM", f"{their_time * 1e3:,.0f}", "", f"{theirs.llf:.4f}")
    table.add_row(
        'method="reml"', f"{reml_time * 1e3:.1f}", f"{their_time / reml_time:,.0f}x", f"{reml.report_.log_evidence:.4f}"
    )
    table.add_row('method="evidence"', f"{evidence_time * 1e3:.1f}", f"{their_time / evidence_time:,.0f}x", "")
    console = Console()
    console.print(table)
    fast = their_time >= BAR * reml_time
    high = reml.report_.log_evidence >= theirs.llf - 1e-6 * abs(theirs.llf)
    console.print(
        f"at least {BAR} times faster: {'yes' if fast else 'NO'}; "
        f"likelihood at least as high: {'yes' if high else 'NO'}; "
        f"iterations: reml {reml.report_.iterations}, evidence {evidence.report_.iterations}",
        highlight=False,
    )


if __name__ == "__main__":
    main()
