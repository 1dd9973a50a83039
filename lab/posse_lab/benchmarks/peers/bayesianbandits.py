"""bayesianbandits: ``ContextualAgent``; tasks apart, together, or as blocks of features beside shared ones."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np

from posse.types import Array, Settings
from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED, TASK_BLOCKS, Entry, Peer, library
from posse_lab.benchmarks.workload import Rows, Size

# As in its first example: what the noise is need not be known, and the arm with the best 84 % quantile is pulled.
FIRST_EXAMPLE: Settings = {"learner": "NormalInverseGammaRegressor", "policy": "UCB", "alpha": 0.84}

# As in its page on sparse features, and Thompson sampling, which its introduction calls the default choice.
SPARSE_EXAMPLE: Settings = {
    "learner": "NormalRegressor",
    "policy": "TS",
    "prior_precision": 1.0,
    "noise_precision": 1.0,
}


class AgentEntry(Entry):
    """A context is a matrix with one row; ``pull`` and ``update``, which learns about the arm that was pulled."""

    def __init__(self, size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> None:
        self._size = size
        self._blocks = form == TASK_BLOCKS
        agent = library("bayesianbandits").ContextualAgent
        self.agents = [
            new_agent(size.n_arms, seed, settings, sparse=self._blocks)
            for _ in range(size.n_tasks if form == PER_TASK else 1)
        ]
        self.decide, self.update = agent.pull, agent.update

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the agent and the context."""
        agent = self.agents[task % len(self.agents)]
        return agent, block_row(self._size, task, context) if self._blocks else context[None, :]

    def arm(self, decided: list[int]) -> int:
        """Return the arm of the only row."""
        return decided[0]

    def outcome(self, given: tuple[Any, ...], decided: list[int], reward: float) -> tuple[Any, ...]:  # noqa: ARG002
        """Return agent, context and reward."""
        return given[0], given[1], np.array([reward])

    def teach(self, rows: Rows) -> None:
        """Learn many rewards at once, in one batch per arm. Of task blocks only."""
        for arm in range(self._size.n_arms):
            some = np.flatnonzero(rows.arms == arm)
            X = block_rows(self._size, rows.tasks[some], rows.contexts[some])
            self.agents[0].select_for_update(arm).update(X, rows.rewards[some])


def new_agent(n_arms: int, seed: int, settings: Mapping[str, Any], *, sparse: bool) -> Any:
    """Return an agent with a learner of its own for every arm."""
    bb = library("bayesianbandits")
    if settings["learner"] == "NormalRegressor":
        given: Settings = {"alpha": settings["prior_precision"], "beta": settings["noise_precision"]}
    else:
        given = {}
    learner = getattr(bb, settings["learner"])
    policy = bb.ThompsonSampling() if settings["policy"] == "TS" else bb.UpperConfidenceBound(alpha=settings["alpha"])
    arms = [bb.Arm(arm, learner=learner(**given, sparse=sparse)) for arm in range(n_arms)]
    return bb.ContextualAgent(arms, policy, random_seed=seed)


def block_row(size: Size, task: int, context: Array) -> Any:
    """Return the context, and the context again in the block of its task: one sparse row of d + N d columns."""
    from scipy.sparse import csc_array

    n_tasks, _, d = size
    # Written column by column, which is many times faster than through coordinates.
    ends = np.zeros(d + n_tasks * d + 1, dtype=np.int32)
    ends[: d + 1] = np.arange(d + 1)
    block = d + task * d
    ends[d + 1 : block + 1] = d
    ends[block : block + d + 1] = np.arange(d, 2 * d + 1)
    ends[block + d + 1 :] = 2 * d
    values = np.concatenate([context, context])
    return csc_array((values, np.zeros(2 * d, dtype=np.int32), ends), shape=(1, d + n_tasks * d))


def block_rows(size: Size, tasks: Any, contexts: Array) -> Any:
    """Return many such rows."""
    from scipy.sparse import coo_array

    n_tasks, _, d = size
    n = len(tasks)
    rows = np.repeat(np.arange(n), 2 * d)
    own = d + np.asarray(tasks)[:, None] * d + np.arange(d)
    columns = np.concatenate([np.tile(np.arange(d), (n, 1)), own], axis=1).reshape(-1)
    values = np.concatenate([contexts, contexts], axis=1).reshape(-1)
    return coo_array((values, (rows, columns)), shape=(n, d + n_tasks * d)).tocsc()


def solver() -> str:
    """Return what factors its sparse matrices here."""
    return "CHOLMOD" if importlib.util.find_spec("sksparse") is not None else "SuperLU"


def build(size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> Entry:
    """Return a new learner."""
    return AgentEntry(size, form, seed, settings)


def _normal(policy: str, prior: float, noise: float, **more: float) -> Settings:
    known: Settings = {"learner": "NormalRegressor", "policy": policy}
    return known | more | {"prior_precision": prior, "noise_precision": noise}


# Precisions that are both ten times larger mean the same estimates and a third of the exploration.
TRIED = (
    _normal("TS", 1.0, 1.0),
    _normal("TS", 10.0, 10.0),
    _normal("TS", 100.0, 100.0),
    _normal("UCB", 1.0, 1.0, alpha=0.84),
)
TRIED_BLOCKS = (
    _normal("TS", 10.0, 10.0),
    _normal("TS", 100.0, 100.0),
    _normal("UCB", 1.0, 1.0, alpha=0.84),
    _normal("UCB", 3.0, 1.0, alpha=0.84),
    _normal("UCB", 10.0, 10.0, alpha=0.84),
)

PEER = Peer(
    name="bayesianbandits",
    package="bayesianbandits",
    build=build,
    forms=(POOLED, PER_TASK),
    recommended=FIRST_EXAMPLE,
    grid=TRIED,
)
BLOCKS = Peer(
    name="bayesianbandits",
    package="bayesianbandits",
    build=build,
    forms=(TASK_BLOCKS,),
    recommended=SPARSE_EXAMPLE,
    grid=TRIED_BLOCKS,
)
