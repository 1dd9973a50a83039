"""Who takes part: each library called as its documentation says, by task, pooled, or with the task as a feature."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from posse.errors import InvalidValue, MissingDependency
from posse.features import FeatureSpec
from posse.fleet import Posse
from posse.policies import EbmTS, EbmUCB
from posse.types import Array, Settings
from posse_lab.benchmarks.workload import Size, feature_names

PER_TASK, POOLED, TASK_FEATURES = "per task", "pooled", "task features"
TS, UCB, FLEET = "ebmTS", "ebmUCB", "Posse, with ids"
INSTALL = "pip install './lab[peers]'"


class Entry(ABC):
    """A learner at work, from its first decision on.

    ``decide`` and ``update`` are the library's own functions, or the few lines that its documentation has around
    them: they are what is timed. ``given`` and ``outcome`` turn what the stream holds into their arguments: that is
    timed apart.
    """

    decide: Callable[..., Any]
    update: Callable[..., Any]

    def __init__(self, size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> None:
        self._size, self._form, self._seed, self._settings = size, form, seed, dict(settings)
        self._begin()
        self._models = [self._new() for _ in range(size.n_tasks if form == PER_TASK else 1)]

    @abstractmethod
    def _begin(self) -> None:
        """Set ``decide`` and ``update``, and whatever all models share."""

    @abstractmethod
    def _new(self) -> Any:
        """Return a model."""

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the arguments of ``decide``, the model first; steps count from 1."""
        return self._models[task % len(self._models)], context[None, :]

    def arm(self, decided: Any) -> int:
        """Return the arm that was chosen, out of what ``decide`` returned."""
        return int(decided)

    @abstractmethod
    def outcome(self, given: tuple[Any, ...], decided: Any, reward: float) -> tuple[Any, ...]:
        """Return the arguments of ``update``."""


class PolicyEntry(Entry):
    """``choose`` and ``update`` of a policy of posse."""

    def _begin(self) -> None:
        self._rng = np.random.default_rng(self._seed)

    def _new(self) -> Any:
        policy = {TS: EbmTS, UCB: EbmUCB}[self._form](**self._size._asdict(), **self._settings)
        self.decide, self.update = policy.choose, policy.update
        return policy

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:
        """Return task, context, step and generator."""
        return task, context, step, self._rng

    def outcome(self, given: tuple[Any, ...], decided: int, reward: float) -> tuple[Any, ...]:
        """Return task, arm, context and reward."""
        return given[0], decided, given[1], reward


class FleetEntry(Entry):
    """``Posse.decide`` and ``Posse.reward``: an id, propensities, and rewards that may come late."""

    def _begin(self) -> None:
        pass

    def _new(self) -> Any:
        features = FeatureSpec(feature_names(self._size.n_features), intercept=False)
        fleet = Posse(arms=list(range(self._size.n_arms)), features=features, seed=self._seed, **self._settings)
        self.decide, self.update = fleet.decide, fleet.reward
        return fleet

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the name of the task, and the context."""
        return task, context

    def arm(self, decided: Any) -> int:
        """Return the arm of the decision."""
        return int(decided.arm)

    def outcome(self, given: tuple[Any, ...], decided: Any, reward: float) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the id of the decision, and the reward."""
        return decided.id, reward


class VowpalEntry(Entry):
    """Vowpal Wabbit's ``--cb_explore``: text in, probabilities out; a drawn arm is learned with its probability."""

    def _begin(self) -> None:
        self._library = library("vowpalwabbit")
        self._draw = random.Random(self._seed).random
        self.decide, self.update = draw_arm, self._library.Workspace.learn

    def _new(self) -> Any:
        # Namespace T is the task, X the context. Crossing them gives every task coefficients of its own beside the
        # shared ones. 4,096 weights per task in place of 262,144 are enough for ten features and five arms.
        extra = {PER_TASK: "-b 12", POOLED: "", TASK_FEATURES: "-q TX"}[self._form]
        command = f"--cb_explore {self._size.n_arms} {extra} {self._settings['options']}"
        workspace = self._library.Workspace(f"{command} --quiet --random_seed {self._seed + 1}")
        # Asking for it once saves a quarter of the time of a prediction.
        self._kind = workspace.get_prediction_type()
        return workspace

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:
        """Return the workspace, the example as text, and what else is needed to draw an arm."""
        features = " ".join([f"x{i}:{value:.6g}" for i, value in enumerate(context.tolist())])
        text = f"|T t{task} |X {features}" if self._form == TASK_FEATURES else f"|X {features}"
        return super().given(task, context, step)[0], text, self._kind, self._draw

    def arm(self, decided: tuple[int, float]) -> int:
        """Return the arm, without its probability."""
        return decided[0]

    def outcome(self, given: tuple[Any, ...], decided: tuple[int, float], reward: float) -> tuple[Any, ...]:
        """Return the workspace and the example with its label: arm from 1, cost, probability."""
        return given[0], f"{decided[0] + 1}:{-reward:.6g}:{decided[1]:.6g} {given[1]}"


def draw_arm(workspace: Any, text: str, kind: Any, draw: Callable[[], float]) -> tuple[int, float]:
    """Return an arm drawn from the predicted probabilities, and its probability."""
    chances = workspace.predict(text, kind)
    left = draw()
    for arm, chance in enumerate(chances):
        left -= chance
        if left < 0:
            return arm, chance
    # Single precision: the probabilities may sum to a little less than one.
    best = max(range(len(chances)), key=chances.__getitem__)
    return best, chances[best]


class RiverEntry(Entry):
    """river's ``LinUCBDisjoint``, its one policy that takes a context: a dictionary; ``pull`` and ``update``."""

    def _begin(self) -> None:
        self._policy, self._arms = library("river.bandit").LinUCBDisjoint, list(range(self._size.n_arms))
        self.decide, self.update = self._policy.pull, self._policy.update

    def _new(self) -> Any:
        return self._policy(**self._settings, seed=self._seed)

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:
        """Return the policy, the arms and the context."""
        return super().given(task, context, step)[0], self._arms, dict(enumerate(context.tolist()))

    def outcome(self, given: tuple[Any, ...], decided: int, reward: float) -> tuple[Any, ...]:
        """Return policy, arm, context and reward."""
        return given[0], decided, given[2], reward


class MabwiserEntry(Entry):
    """MABWiser's ``MAB`` with a linear learning policy: a matrix with one row; ``predict`` and ``partial_fit``."""

    def _begin(self) -> None:
        self._library = library("mabwiser.mab")
        self.decide, self.update = self._library.MAB.predict, self._library.MAB.partial_fit

    def _new(self) -> Any:
        given = {name: value for name, value in self._settings.items() if name != "policy"}
        learning = getattr(self._library.LearningPolicy, self._settings["policy"])(**given)
        mab = self._library.MAB(arms=list(range(self._size.n_arms)), learning_policy=learning, seed=self._seed)
        # It will not predict before it is fitted, nor be fitted to nothing. A row of zeros adds zero to all sums.
        mab.fit([0], [0.0], np.zeros((1, self._size.n_features)))
        return mab

    def outcome(self, given: tuple[Any, ...], decided: int, reward: float) -> tuple[Any, ...]:
        """Return the bandit and a batch of one: decision, reward, context."""
        return given[0], [decided], [reward], given[1]


class BayesianEntry(Entry):
    """The ``ContextualAgent`` of bayesianbandits: a matrix with one row; ``pull`` and ``update``."""

    def _begin(self) -> None:
        self._library = library("bayesianbandits")
        self.decide, self.update = self._library.ContextualAgent.pull, self._library.ContextualAgent.update

    def _new(self) -> Any:
        bb, chosen = self._library, self._settings
        names = {"alpha": "prior_precision", "beta": "noise_precision"}
        given = {name: chosen[setting] for name, setting in names.items() if setting in chosen}
        sampled = chosen["policy"] == "TS"
        policy = bb.ThompsonSampling() if sampled else bb.UpperConfidenceBound(alpha=chosen["alpha"])
        learner = getattr(bb, chosen["learner"])
        arms = [bb.Arm(arm, learner=learner(**given, sparse=False)) for arm in range(self._size.n_arms)]
        return bb.ContextualAgent(arms, policy, random_seed=self._seed)

    def arm(self, decided: list[int]) -> int:
        """Return the arm of the only row."""
        return decided[0]

    def outcome(self, given: tuple[Any, ...], decided: list[int], reward: float) -> tuple[Any, ...]:  # noqa: ARG002
        """Return agent, context and reward."""
        return given[0], given[1], np.array([reward])


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A library that takes part.

    Parameters
    ----------
    name : str
        As its makers write it.
    package : str
        What is imported, and what ``--only`` calls it.
    entry : type of Entry
    forms : tuple of str
        How tasks are told apart, in the order of the table.
    recommended : dict
        What the documentation recommends.
    grid : tuple of dicts
        What is tried in tuning beside that.
    """

    name: str
    package: str
    entry: type[Entry]
    forms: tuple[str, ...]
    recommended: Settings
    grid: tuple[Settings, ...] = ()

    def build(self, size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> Entry:
        """Return a new learner."""
        return (FleetEntry if form == FLEET else self.entry)(size, form, seed, settings)

    @property
    def trials(self) -> list[Settings]:
        """All settings that are tried in tuning, the recommended first."""
        return [self.recommended, *(one for one in self.grid if one != self.recommended)]


def _normal(policy: str, precision: float, **more: float) -> Settings:
    # Precisions that are both ten times larger mean the same estimates and a third of the exploration.
    chosen: Settings = {"learner": "NormalRegressor", "policy": policy, "prior_precision": precision}
    return chosen | {"noise_precision": precision, **more}


POSSE = Peer(
    name="posse", package="posse", entry=PolicyEntry, forms=(TS, UCB, FLEET), recommended={"prior": "evidence"}
)
PEERS = {
    peer.package: peer
    for peer in (
        Peer(
            name="Vowpal Wabbit",
            package="vowpalwabbit",
            entry=VowpalEntry,
            forms=(TASK_FEATURES, POOLED, PER_TASK),
            recommended={"options": "--epsilon 0.05"},
            grid=tuple(
                {"options": explore + learner}
                for explore in ("--epsilon 0", "--epsilon 0.02", "--first 100", "--cover 5")
                for learner in ("", " -l 5", " --ftrl")
            ),
        ),
        Peer(
            name="river",
            package="river",
            entry=RiverEntry,
            forms=(POOLED, PER_TASK),
            recommended={"alpha": 1.0, "beta": 1.0},
            # Precision of the prior, and of the noise: together they say how far the upper bound is from the mean.
            grid=tuple({"alpha": alpha, "beta": beta} for alpha in (0.3, 1.0, 3.0) for beta in (0.1, 1.0, 10.0)),
        ),
        Peer(
            name="MABWiser",
            package="mabwiser",
            entry=MabwiserEntry,
            forms=(POOLED, PER_TASK),
            recommended={"policy": "LinUCB", "alpha": 1.25, "l2_lambda": 1.0},
            grid=(
                {"policy": "LinUCB", "alpha": 0.3, "l2_lambda": 1.0},
                {"policy": "LinUCB", "alpha": 0.3, "l2_lambda": 0.3},
                {"policy": "LinTS", "alpha": 0.3, "l2_lambda": 1.0},
                {"policy": "LinGreedy", "epsilon": 0.0, "l2_lambda": 1.0},
                {"policy": "LinGreedy", "epsilon": 0.0, "l2_lambda": 3.0},
            ),
        ),
        Peer(
            name="bayesianbandits",
            package="bayesianbandits",
            entry=BayesianEntry,
            forms=(POOLED, PER_TASK),
            # Its first example: the noise need not be known, and the arm with the best 84 % quantile is pulled.
            recommended={"learner": "NormalInverseGammaRegressor", "policy": "UCB", "alpha": 0.84},
            grid=(_normal("TS", 1.0), _normal("TS", 10.0), _normal("TS", 100.0), _normal("UCB", 1.0, alpha=0.84)),
        ),
    )
}
"""The other libraries, in the order of the table."""


def library(package: str) -> ModuleType:
    """Return an optional library, or say how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise MissingDependency(f"{package} is not installed{reason}: {INSTALL}") from None


def installed(package: str) -> bool:
    """Whether a library can be imported."""
    return importlib.util.find_spec(package) is not None


def chosen(only: Sequence[str] | None) -> tuple[list[Peer], dict[str, str]]:
    """Return who will run, posse first, and who will not, with the reason.

    Libraries that are not installed are left out; one that was asked for by name is an error.
    """
    names = ("posse", *PEERS)
    for name in only or ():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" did you mean {near[0]!r}?" if near else ""
            raise InvalidValue(f"no entry {name!r};{hint} The entries are {', '.join(names)}")
    run, skipped = [POSSE], {}
    for name, peer in PEERS.items():
        if only and name not in only:
            continue
        reason = f"{name} is not installed: {INSTALL}"
        if installed(name):
            run.append(peer)
        elif only:
            raise MissingDependency(f"{name} was asked for, but {reason}")
        else:
            skipped[name] = reason
    return run, skipped
