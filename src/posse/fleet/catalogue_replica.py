"""A catalogue whose decisions are stored elsewhere: in the database of a service, which several processes may share."""

from __future__ import annotations

import os
import time as clock_module
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.catalogue import Catalogue
from posse.fleet.decision import Decision
from posse.fleet.menu import Menu
from posse.fleet.names import Label
from posse.fleet.replica import Learned, Replica
from posse.fleet.residuals import CatalogueCore
from posse.fleet.settings import require_truth_value

if TYPE_CHECKING:
    from posse.core.core import Core
    from posse.types import Array


class CatalogueReplica(Replica):
    """The fleet inside a catalogue as a replica: rewards are learned in the order of the log.

    What a reward says about an arm depends on those before it, so every replica learns all of them in one order, and
    estimates the population at the places that the order determines; none is shared.
    """

    catalogue: Catalogue

    @property
    def core_kind(self) -> type[Core]:
        """The class of its core."""
        return CatalogueCore

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings | {"background": False})

    @classmethod
    def new(
        cls, features: FeatureSpec, arm_features: FeatureSpec, *, interactions: bool, max_arms: int, **settings: Any
    ) -> Self:
        """Return a catalogue without rewards; ``settings`` are those of the fleet inside."""
        catalogue = Catalogue.__new__(Catalogue)
        catalogue.declare(features, arm_features, interactions, max_arms)
        return cls(arms=["reward"], features=catalogue.joint.spec, **settings).within(catalogue, start=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **_: Any) -> Self:
        """Read a file that :meth:`freeze` wrote."""
        catalogue = Catalogue.read(path, clock_module.time, cls)
        replica: Self = catalogue.fleet
        return replica.within(catalogue)

    def within(self, catalogue: Catalogue, *, start: bool = False) -> Self:
        """Be the fleet inside a catalogue."""
        if start:
            catalogue.start(self)
        self.catalogue = catalogue
        return self

    @property
    def shares_population(self) -> bool:
        """Whether one replica estimates the population for all: here each estimates its own."""
        return False

    @property
    def learns_in_order(self) -> bool:
        """Whether what a reward says depends on those before it."""
        return True

    @property
    def logged_features(self) -> FeatureSpec:
        """What the context of a decision in the log is made of: features of the context, and of the arm taken."""
        return FeatureSpec([*self.catalogue.features.features, *self.catalogue.arm_features.features])

    def propose(self, *_: Any, **__: Any) -> Decision:
        """Refuse: arms of a catalogue come with every request."""
        raise InvalidValue(
            "expected eligible arms with their features, as a catalogue decides among, got a request for a fleet of "
            "fixed arms; ask with POST /v1/fleets/{fleet}/choices"
        )

    def choose(self, task: Label, context: Any, menu: Menu, explore: bool = True, k: int = 1) -> list[Decision]:
        """Choose the arms of ``k`` places as :meth:`posse.Catalogue.decide` does, and store nothing."""
        require_truth_value(explore)
        x = self.catalogue.features.encode(context)
        with self.lock:
            first = self.stream.decided + 1
            ids = [f"{self.ledgers.own.prefix}-{first + place}" for place in range(k)]
            _, decisions = self.catalogue.draw(self.catalogue.asked(task), x, menu, explore, ids)
            self.stream.decided += k
        return decisions

    def learn(
        self,
        tasks: Sequence[Label],
        arms: Sequence[Label],
        contexts: Any,
        rewards: Sequence[float],
        *,
        replaces: Sequence[float | None] | None = None,
        provisional: bool = False,  # noqa: ARG002 -- as in Replica
        applied: int | None = None,
        catching_up: bool = False,  # noqa: ARG002
        times: Sequence[float] | None = None,
        numbers: Sequence[int] | None = None,
        first: Sequence[int | None] | None = None,  # noqa: ARG002
    ) -> None:
        """Learn rewards, one by one; contexts are those of :attr:`logged_features`.

        With ``numbers``, :attr:`applied` moves with every row: if one raises, those up to there are learned. Rows that
        replace others are left to whoever learns the log again.
        """
        joint = self._joint(contexts)
        values = self.settings.family.check_many(np.array(rewards, dtype=np.float64)).tolist()
        labels, items = self.names.tasks.checked_all(tasks), self.catalogue.labels.checked_all(arms)
        moments = [self.clock() if self.fades else 0.0] * len(values) if times is None else times
        if numbers is None and applied is not None and values:
            numbers = [*[self.applied] * (len(values) - 1), applied]
        with self.lock:
            for row, value in enumerate(values):
                if replaces is not None and replaces[row] is not None:
                    self.unsettled = True
                    continue
                # Whoever applies a log must know up to where, so that moves with what is learned and not after it.
                then = (lambda: None) if numbers is None else partial(setattr, self, "applied", numbers[row])
                now, used = float(moments[row]), self.core.experience + 1
                self.catalogue.learn_row(labels[row], items[row], joint[row], value, now, used=used, then=then)
            self.applied = self.applied if applied is None else applied

    def _joint(self, contexts: Any) -> list[Array]:
        """Return the joint features of context and arm of every row of a log."""
        catalogue = self.catalogue
        if isinstance(contexts, np.ndarray):
            n = len(catalogue.features.names)
            of_contexts: Any = contexts[:, :n]
            of_arms: Any = contexts[:, n:]
        else:
            of_contexts = [{name: row[name] for name in catalogue.features.names} for row in contexts]
            of_arms = [{name: row[name] for name in catalogue.arm_features.names} for row in contexts]
        if not len(of_contexts):
            return []
        X, F = catalogue.features.encode_many(of_contexts), catalogue.arm_features.encode_many(of_arms)
        return [catalogue.joint.at(x) @ f for x, f in zip(X, F, strict=True)]

    def learned(self, tasks: Sequence[Label]) -> tuple[int, dict[tuple[Label, Label], Learned]]:
        """Return :attr:`applied`, and how many rewards every task has; their sums are weighted, so none are shown."""
        applied, found = super().learned(tasks)
        return applied, {pair: counted(sums.rewards) for pair, sums in found.items()}

    def discard(self, matches: Callable[[Label], bool]) -> int:
        """Forget all tasks whose names match; return how many."""
        found = [task for task in self.tasks if matches(task)]
        self.catalogue.forget(*found)
        return len(found)

    def freeze(self) -> Callable[[str | os.PathLike[str]], None]:
        """Return a function that writes the state of now to a file, whatever is learned until then."""
        return self.catalogue.freeze()


def counted(count: float) -> Learned:
    """Return sums of which only the count is known."""
    return Learned(np.zeros(0), np.zeros(0), 0.0, count)
