"""Reading a result: methods by their role, regret at a step, comparisons on paired seeds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posse.errors import InvalidValue
from posse.simulation import Comparison, SimulationResult
from posse.simulation.results import compare_paired
from posse.types import Array
from posse_lab.reproduction.lineup import GRIDS


@dataclass(frozen=True, eq=False)
class Reading:
    """One result file as claims and figures read it.

    Parameters
    ----------
    result : SimulationResult
    source : str
        Name of its run.
    label : str
        What figures and sentences call its world.
    """

    result: SimulationResult
    source: str
    label: str = ""
    _curves: dict[tuple[str, str], Array] = field(default_factory=dict, init=False, repr=False)

    @property
    def horizon(self) -> int:
        """Steps of the run."""
        return int(self.result.settings["horizon"])

    @property
    def n_seeds(self) -> int:
        """Number of seeds."""
        return len(self.result.seeds)

    def name(self, role: str, step: int | None = None, column: str = "curve") -> str:
        """Return the policy that plays a role: itself, or for a tuned rival the best of its grid at this very place."""
        if role not in GRIDS:
            return role
        present = [name for name in GRIDS[role] if name in self.result.policies]
        return min(present, key=lambda each: float(self.regret(each, step, column).mean()))

    def words(self, role: str, step: int | None = None, column: str = "curve") -> str:
        """Return a role with the setting that tuning found."""
        if role not in GRIDS:
            return role
        return f"{role} ({GRIDS[role][self.name(role, step, column)][0]})"

    def at_edge(self, role: str, step: int | None = None, column: str = "curve") -> bool:
        """Whether tuning ended at the largest exploration of its grid; the smallest is 0, with nothing beyond."""
        return role != "RMBandit tuned" and self.name(role, step, column) == list(GRIDS[role])[-1]

    def kept(self, step: int) -> int:
        """Return the step nearest to the one asked for at which curves were kept."""
        steps = self.result.steps
        return int(steps[np.abs(steps - step).argmin()])

    def curves(self, role: str, column: str = "curve", step: int | None = None) -> Array:
        """Return regret curves, one row per seed, of the policy that plays a role at a step."""
        return self._table(self.name(role, step, column), column)

    def regret(self, role: str, step: int | None = None, column: str = "curve") -> Array:
        """Return cumulative regret of every seed at a step where curves were kept, the horizon by default."""
        steps = self.result.steps
        wanted = self.horizon if step is None else step
        place = int(np.searchsorted(steps, wanted))
        if place == steps.size or steps[place] != wanted:
            raise InvalidValue(f"no curve was kept at step {wanted}; the file has {steps.tolist()}")
        return np.asarray(self._table(self.name(role, step, column), column)[:, place])

    def compare(self, first: str, second: str, step: int | None = None, column: str = "curve") -> Comparison:
        """Compare two roles on the same seeds."""
        return compare_paired(
            self.words(first, step, column),
            self.words(second, step, column),
            self.regret(first, step, column),
            self.regret(second, step, column),
        )

    def _table(self, name: str, column: str) -> Array:
        if (name, column) not in self._curves:
            self._curves[name, column] = np.stack([np.asarray(row) for row in self.result.regret_of(name, column)])
        return self._curves[name, column]
