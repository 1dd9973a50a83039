"""A catalogue whose decisions are kept elsewhere: in the database of a service, which several processes may share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from posse.container import write_container
from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.catalogue import Catalogue
from posse.fleet.catalogue_file import KIND, VERSION, catalogue_state, load_catalogue
from posse.fleet.checking import no_belief, require_truth_value
from posse.fleet.decision import Decision
from posse.fleet.labels import Label
from posse.fleet.menu import Menu
from posse.fleet.replica import Replica
from posse.kernels.fleet import numbers
from posse.kernels.sums import Sums

if TYPE_CHECKING:
    from posse.fleet.posse import Posse
    from posse.types import Array


class CatalogueReplica(Replica):
    """The fleet inside a catalogue as a replica: rewards are learned in the order of the log.

    What a reward says about an arm depends on those before it, so every replica learns all of them in one order, and
    estimates the population at the places that the order determines; none is shared.

    Parameters
    ----------
    catalogue : Catalogue
        Declared, and without a fleet inside; this becomes it.
    *args, **settings
        As in :class:`Replica`.
    """

    def __init__(self, *args: Any, catalogue: Catalogue, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._engine.in_background = False
        catalogue._start(cast("Posse", self))  # a catalogue that keeps no decisions needs nothing else of it
        self.catalogue = catalogue

    @classmethod
    def new(
        cls, features: FeatureSpec, arm_features: FeatureSpec, *, interactions: bool, max_arms: int, **settings: Any
    ) -> Self:
        """Return a catalogue without rewards; ``settings`` are those of the fleet inside."""
        catalogue = Catalogue.__new__(Catalogue)
        catalogue._declare(features, arm_features, interactions, max_arms)
        return cls(
            arms=["reward"], features=FeatureSpec(catalogue.columns, intercept=False), catalogue=catalogue, **settings
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], **_: Any) -> Self:
        """Read what :meth:`freeze` wrote."""
        catalogue = load_catalogue(Catalogue, path, fleet=lambda catalogue: partial(cls, catalogue=catalogue))
        replica: Any = catalogue._fleet
        assert isinstance(replica, cls)
        return replica

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

    def propose(
        self,
        task: Label,  # noqa: ARG002 -- as in Replica
        context: Any,  # noqa: ARG002
        eligible: Iterable[Label] | None = None,  # noqa: ARG002
        explore: bool = True,  # noqa: ARG002
    ) -> Decision:
        """Refuse: arms of a catalogue come with every request."""
        raise InvalidValue(
            "expected eligible arms with their features, as a catalogue decides among, got a request for a fleet of "
            "fixed arms; ask with POST /v1/fleets/{fleet}/choices"
        )

    def choose(self, task: Label, context: Any, menu: Menu, explore: bool = True, k: int = 1) -> list[Decision]:
        """Choose the arms of ``k`` places as :meth:`posse.Catalogue.decide` does, and keep nothing."""
        require_truth_value(explore)
        if k > len(menu):
            raise InvalidValue(f"expected k to be at most the {len(menu)} eligible arms, got {k}; ask for fewer")
        catalogue = self.catalogue
        x = catalogue.features.encode(context)
        with self._lock:
            number, label = self._tasks.get(task), self._tasks.checked(task)
            self._engine.ensure_fresh()
            mean, sd = catalogue._believe(number, x, menu)
            if not numbers(mean, sd):
                raise no_belief(label)
            _, decisions = catalogue._choose(label, menu, mean, sd, self._rng.random(k), explore, record=False)
            first = self._decided + 1
            self._decided += k
        return [decision._replace(id=f"{self._prefix}-{first + place}") for place, decision in enumerate(decisions)]

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
        times: Sequence[float] | None = None,  # noqa: ARG002
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Learn rewards, one by one; contexts are those of :attr:`logged_features`.

        With ``numbers``, :attr:`applied` moves with every row: if one raises, those up to there are learned.
        """
        if replaces is not None and any(value is not None for value in replaces):
            raise InvalidValue("expected rewards that are new, got one that replaces another; a catalogue cannot")
        catalogue = self.catalogue
        joint = self._joint(contexts)
        values = [self._checked_reward(value) for value in rewards]
        labels, names = self._tasks.checked_all(tasks), catalogue._arms.checked_all(arms)
        if numbers is None and applied is not None and values:
            numbers = [*[self.applied] * (len(values) - 1), applied]
        with self._lock:
            for row, value in enumerate(values):
                # Whoever applies a log must know up to where, so that moves with what is learned and not after it.
                moving = [] if numbers is None else [partial(self.__dict__.update, applied=numbers[row])]
                catalogue._learn_row(
                    labels[row], names[row], joint[row], value, self._engine.store.experience + 1, moving
                )
            if applied is not None:
                self.applied = applied

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
        return [catalogue._joint.at(x) @ f for x, f in zip(X, F, strict=True)]

    def learned(self, tasks: Sequence[Label]) -> tuple[int, dict[tuple[Label, Label], Sums]]:
        """Return :attr:`applied`, and how many rewards every task has; sums are weighted, so none are told."""
        with self._lock:
            found = {}
            for task in tasks:
                number = self._tasks.get(task)
                slot = -1 if number is None else self._engine.store.slot_of(number, 0)
                count = 0.0 if slot < 0 else float(self._engine.store.belief.sums.counts[slot])
                if count > 0:
                    found[task, self._arms.label(0)] = counted(count)
            return self.applied, found

    def discard(self, matches: Callable[[Label], bool]) -> int:
        """Forget all tasks whose names match; return how many."""
        found = [task for task in self.tasks if matches(task)]
        self.catalogue.forget(*found)
        return len(found)

    def freeze(self) -> Callable[[str | os.PathLike[str]], None]:
        """Return what writes the state of now to a file, whatever is learned until then."""
        header, arrays = catalogue_state(self.catalogue)
        return partial(write_container, kind=KIND, version=VERSION, header=header, arrays=arrays)


def counted(count: float) -> Sums:
    """Return sums of which only the count is known."""
    nothing = np.zeros(0)
    return Sums(nothing, nothing, np.zeros(()), np.asarray(count))
