"""Figures, drawn from results. Needs the extra ``posse[plot]``."""

from posse.plotting.regret import plot_regret

__all__ = ["plot_regret"]
