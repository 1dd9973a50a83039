"""A world from SARCOS with real torques."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.errors import InvalidValue
from posse.model.estimation import estimate_prior
from posse.types import Settings
from posse_lab.worlds.cells import Cells
from posse_lab.worlds.features import Scaling, with_intercept
from posse_lab.worlds.offline import full_information
from posse_lab.worlds.recorded import RecordedWorld
from posse_lab.worlds.rows import not_among, split_at_random

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
    details: Settings
    if contexts is None:
        fit, met = split_at_random(len(data.X), training_share, "training_share", split_seed)
        X, y = (data.X[fit], data.X[met]), (data.y[fit], data.y[met])
        details = {
            "fit_rows": "chosen at random",
            "met_rows": "the others",
            "training_share": training_share,
            "split_seed": split_seed,
        }
    else:
        new = not_among(contexts.X, data.X)
        if not new.any():
            raise InvalidValue(
                f"every row of sarcos {contexts.part} is in sarcos {data.part} too, so none is left to meet; pass "
                "another file as contexts"
            )
        X, y = (data.X, contexts.X[new]), (data.y, contexts.y[new])
        details = {
            "fit_rows": f"sarcos {data.part}",
            "met_rows": f"sarcos {contexts.part} without the rows of sarcos {data.part}",
            "met_sha256": contexts.sha256,
        }
    cells = Cells.of(X[0][:, POSITIONS], n_tasks)
    tasks = [cells.assign(rows[:, POSITIONS]) for rows in X]
    scaling, torque = Scaling.of(X[0], "feature"), Scaling.of(y[0], "torque")
    features = [with_intercept(scaling.apply(rows)) for rows in X]
    stats = full_information(features[0], tasks[0], torque.apply(y[0]), n_tasks)
    return RecordedWorld(
        name=f"sarcos {data.part}",
        contexts=features[1],
        tasks=tasks[1],
        rewards=torque.apply(y[1]),
        prior=estimate_prior(stats, method="evidence").prior,
        checksum=data.sha256,
        details={
            "tasks": "cells of the joint positions",
            **details,
            "n_fit_rows": int(np.shape(X[0])[0]),
            "intercept": True,
            "prior": "evidence, fitted offline to the training rows",
        },
    )
