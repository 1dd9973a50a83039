"""Who takes part: the paper's methods, its rivals at three levels of tuning, and what it lacks."""

from __future__ import annotations

from functools import partial

from posse.policies import EbmTS, EbmUCB, HierTS, LinTS, LinUCB, OLSBandit, RMBandit
from posse.simulation.factories import PolicyChoice

EBM = ("ebmUCB", "ebmTS")
"""The paper's methods."""

DEFAULT_RIVALS = ("RMBandit", "OLSBandit", "LinTS", "LinUCB")
"""The paper's rivals: its settings where it gives them, those that libraries ship where it does not."""

MATCHED_RIVALS = ("LinTS matched", "LinUCB matched")
"""Rivals that explore as little as the paper's methods do."""

TUNED_RIVALS = ("RMBandit tuned", "LinTS tuned", "LinUCB tuned")
"""Rivals with the best setting of a grid, chosen on the very seeds that are shown: as favourable as can be."""

EXPLORATIONS = (0.0, 0.02, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
PULLS = (2, 5, 10, 50)
SCHEDULED_PULLS = (1, 5)
REFRESH_EVERY = 50  # rewards between two estimates of the scheduled variant, each of which costs thousands of steps


def _explorations(label: str, policy: type) -> dict[str, tuple[str, PolicyChoice]]:
    return {
        label if value == 1.0 else f"{label} {value:g}": (f"exploration {value:g}", partial(policy, exploration=value))
        for value in EXPLORATIONS
    }


GRIDS: dict[str, dict[str, tuple[str, PolicyChoice]]] = {
    "LinUCB tuned": _explorations("LinUCB", LinUCB),
    "LinTS tuned": _explorations("LinTS", LinTS),
    "RMBandit tuned": {
        **{"RMBandit" if q == 50 else f"RMBandit q={q}": (f"q {q}", partial(RMBandit, pulls=q)) for q in PULLS},
        **{
            f"RMBandit all data q={q}": (f"q {q}, all data", partial(RMBandit, pulls=q, accumulate=True)) for q in PULLS
        },
        **{
            f"RMBandit scheduled q={q}": (
                f"q {q}, scheduled",
                partial(RMBandit, variant="scheduled", pulls=q, refresh_every=REFRESH_EVERY),
            )
            for q in SCHEDULED_PULLS
        },
    },
}
"""What each tuned rival is the best of: name in the result file, the setting in words, the policy."""

MATCHED = {"exploration": 0.1, "schedule": "sqrt-log"}


def lineup(*, scheduled: bool = False) -> dict[str, PolicyChoice]:
    """Return every method by the name that result files and figures use.

    Parameters
    ----------
    scheduled : bool
        Whether RMBandit's scheduled variant takes part, which is slow.
    """
    grids = {
        name: policy
        for grid in GRIDS.values()
        for name, (_, policy) in grid.items()
        if scheduled or "scheduled" not in name
    }
    return {
        "ebmUCB": EbmUCB,
        "ebmTS": EbmTS,
        "OLSBandit": OLSBandit,
        **grids,
        "LinUCB matched": partial(LinUCB, **MATCHED),  # type: ignore[arg-type]  # mypy sees one type of value
        "LinTS matched": partial(LinTS, **MATCHED),  # type: ignore[arg-type]
        "pooled LinUCB": partial(LinUCB, pooled=True),
        # "known" stands for the population of the drawn world; simulate puts it in.
        "HierTS": partial(HierTS, prior="known"),  # type: ignore[arg-type]
        "evidence UCB": partial(EbmUCB, prior="evidence"),
        "evidence TS": partial(EbmTS, prior="evidence"),
    }
