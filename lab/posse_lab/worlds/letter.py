"""A world from Letter Recognition with real labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse_lab.worlds.cells import Cells
from posse_lab.worlds.features import Scaling, indicators, with_intercept
from posse_lab.worlds.grouped import RecordedWorld, recorded_world
from posse_lab.worlds.rows import require_every_class, size_of_share

if TYPE_CHECKING:
    from posse_lab.datasets import Letter

BOX = slice(4)  # x-box, y-box, width and high: place and size of the box around the letter


def recorded_letter(data: Letter, *, n_tasks: int = 16, training_share: float = 0.3) -> RecordedWorld:
    """Return the world in which naming the right letter pays 1 and any other 0.

    Parameters
    ----------
    data : Letter
    n_tasks : int
        The file names no writers and no fonts, so tasks are groups of letters by the place and size of their box:
        :class:`~posse_lab.worlds.cells.Cells` of the training rows.
    training_share : float
        Share of the rows, the first ones, that scaling, cells and prior are fitted to. The others are met.

    Notes
    -----
    Contexts are an intercept and the features, standardised. The prior is fitted offline.
    """
    size = size_of_share(len(data.X), training_share, "training_share")
    require_every_class(data.labels[:size], data.classes, f"the first {size} rows")
    cells = Cells.of(data.X[:size, BOX], n_tasks)
    tasks = cells.assign(data.X[:, BOX])
    contexts = with_intercept(Scaling.of(data.X[:size], "feature").apply(data.X))
    return recorded_world(
        "letter", contexts, tasks, indicators(data.labels, len(data.classes)),
        fit=np.arange(size), met=np.arange(size, len(contexts)), n_tasks=n_tasks, checksum=data.sha256,
        details={
            "tasks": "cells of x-box, y-box, width and high", "training_share": training_share,
            "fit_rows": f"the first {size}", "met_rows": "the others", "n_fit_rows": size,
        },
    )  # fmt: skip
