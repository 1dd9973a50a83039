"""A world from SARCOS with real torques."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.types import Settings
from posse_lab.worlds.cells import Cells
from posse_lab.worlds.features import Scaling, with_intercept
from posse_lab.worlds.from_dataset import other_rows
from posse_lab.worlds.grouped import RecordedWorld, recorded_world
from posse_lab.worlds.rows import split_at_random

if TYPE_CHECKING:
    from posse_lab.datasets import Sarcos

POSITIONS = slice(7)  # columns of the joints' positions


def recorded_sarcos(
    data: Sarcos,
    *,
    n_tasks: int = 32,
    training_share: float = 0.3,
    split_seed: int = 0,
    contexts: Sarcos | None = None,
) -> RecordedWorld:
    """Return the world in which an arm pays the torque that its joint really needed, standardised.

    Parameters
    ----------
    data : Sarcos
    n_tasks : int
        Tasks are regions of posture: :class:`~posse_lab.worlds.cells.Cells` of the joint positions in the rows that
        are fitted to. Inverse dynamics is not linear, so the best linear model differs between them.
    training_share : float
        Share of the rows, chosen at random once, that scaling, cells and prior are fitted to. The others are met.
    split_seed : int
        Chooses them.
    contexts : Sarcos, optional
        Another file to meet. Then all rows of ``data`` are fitted to, and the rows of the other that ``data`` has too
        are left out.

    Notes
    -----
    Contexts are an intercept and the features, standardised. The prior is fitted offline.
    """
    if contexts is None:
        X, y = data.X, data.y
        fit, met = split_at_random(len(X), training_share, "training_share", split_seed)
        details: Settings = {"fit_rows": "chosen at random", "met_rows": "the others"}
        details |= {"training_share": training_share, "split_seed": split_seed}
    else:
        new, details = other_rows(data, contexts)
        X, y = np.concatenate([data.X, contexts.X[new]]), np.concatenate([data.y, contexts.y[new]])
        fit, met = np.arange(len(data.X)), np.arange(len(data.X), len(X))
    tasks = Cells.of(X[fit][:, POSITIONS], n_tasks).assign(X[:, POSITIONS])
    features = with_intercept(Scaling.of(X[fit], "feature").apply(X))
    torques = Scaling.of(y[fit], "torque").apply(y)
    return recorded_world(
        f"sarcos {data.part}", features, tasks, torques, fit=fit, met=met, n_tasks=n_tasks, checksum=data.sha256,
        details={"tasks": "cells of the joint positions", **details, "n_fit_rows": len(fit)},
    )  # fmt: skip
