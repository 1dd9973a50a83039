"""The experiments by name, in the order of the report."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from posse.errors import InvalidValue
from posse_lab.reproduction import (
    ablation,
    activity,
    balanced,
    bounds,
    contexts,
    coverage,
    data_poor,
    letter,
    movielens,
    oracle_regret,
    sarcos,
    sizes,
    sparse,
)
from posse_lab.reproduction.experiment import Experiment

_OTHERS = (oracle_regret, sarcos, activity, movielens, letter, coverage, bounds, ablation)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(module.EXPERIMENT for module in (balanced, data_poor, sparse, contexts)),
        *sizes.EXPERIMENTS,
        *(module.EXPERIMENT for module in _OTHERS),
    )
}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments that were named, in the order of the report; ``"all"`` names every one."""
    for name in names:
        if name != "all" and name not in EXPERIMENTS:
            close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise InvalidValue(f"no experiment {name!r}{hint} They are {', '.join(EXPERIMENTS)}, and all")
    return [each for name, each in EXPERIMENTS.items() if name in names or "all" in names]
