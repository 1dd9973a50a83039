"""The experiments by name, in the order of the report."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from posse.errors import InvalidValue
from posse_lab.reproduction import (
    ablation,
    balanced,
    bounds,
    contexts,
    coverage,
    grid,
    oracle_regret,
    real_data,
    sparse,
)
from posse_lab.reproduction.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *balanced.EXPERIMENTS, sparse.EXPERIMENT, contexts.EXPERIMENT, *grid.EXPERIMENTS, oracle_regret.EXPERIMENT,
        *real_data.EXPERIMENTS, coverage.EXPERIMENT, bounds.EXPERIMENT, ablation.EXPERIMENT,
    )
}  # fmt: skip


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments that were named, in the order of the report; ``"all"`` names every one."""
    for name in names:
        if name != "all" and name not in EXPERIMENTS:
            close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise InvalidValue(f"no experiment {name!r}{hint} They are {', '.join(EXPERIMENTS)}, and all")
    return [each for name, each in EXPERIMENTS.items() if name in names or "all" in names]
