"""Vowpal Wabbit: ``--cb_explore``, its contextual bandit for a fixed set of arms."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from typing import Any

from posse.types import Array
from posse_lab.benchmarks.machine import Timing, seconds_per_call
from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED, TASK_FEATURES, Entry, Peer, library
from posse_lab.benchmarks.peers.play import play
from posse_lab.benchmarks.peers.stream import Stream
from posse_lab.benchmarks.workload import Size

# Namespace T is the task, X the context. Crossing them gives every task coefficients of its own beside the shared ones.
CROSSED = "-q TX"
SMALL = "-b 12"  # 4,096 weights per task in place of 262,144, enough for ten features and five arms


class VowpalEntry(Entry):
    """Text in, probabilities out; an arm is drawn from them, and its cost learned with its probability."""

    def __init__(self, size: Size, form: str, seed: int, options: str) -> None:
        vw = library("vowpalwabbit")
        extra = {PER_TASK: SMALL, POOLED: "", TASK_FEATURES: CROSSED}[form]
        command = f"--cb_explore {size.n_arms} {extra} {options} --quiet --random_seed {seed + 1}"
        self._workspaces = [vw.Workspace(command) for _ in range(size.n_tasks if form == PER_TASK else 1)]
        # Asking for it once saves a quarter of the time of a prediction.
        self._kind = self._workspaces[0].get_prediction_type()
        self._named = form == TASK_FEATURES
        self._draw = random.Random(seed).random
        self.decide = draw_arm
        self.update = vw.Workspace.learn

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the workspace, the example as text, and what else is needed to draw an arm."""
        features = " ".join([f"x{i}:{value:.6g}" for i, value in enumerate(context.tolist())])
        text = f"|T t{task} |X {features}" if self._named else f"|X {features}"
        return self._workspaces[task % len(self._workspaces)], text, self._kind, self._draw

    def arm(self, decided: tuple[int, float]) -> int:
        """Return the arm, without its probability."""
        return decided[0]

    def outcome(self, given: tuple[Any, ...], decided: tuple[int, float], reward: float) -> tuple[Any, ...]:
        """Return the workspace and the example with its label: arm from 1, cost, probability."""
        arm, chance = decided
        return given[0], f"{arm + 1}:{-reward:.6g}:{chance:.6g} {given[1]}"


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


def time_parsed(stream: Stream, *, n_examples: int = 200) -> Timing:
    """Time predictions from examples that were parsed before: what is left when reading a context is not counted."""
    entry = VowpalEntry(stream.size, TASK_FEATURES, 0, PEER.recommended["options"])
    play(entry, stream)
    workspace, _, kind, _ = entry.given(stream.tasks[0], stream.contexts[0], 1)
    texts = [entry.given(task, x, 1)[1] for task, x in zip(stream.tasks, stream.contexts, strict=True)][:n_examples]
    examples = [workspace.parse(text) for text in texts]

    def predict(n: int) -> None:
        for example in islice(cycle(examples), n):
            workspace.predict(example, kind)

    timing = seconds_per_call(predict, rounds=5, at_least=0.02)
    for example in examples:
        workspace.finish_example(example)
    return timing


def build(size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> Entry:
    """Return a new learner."""
    return VowpalEntry(size, form, seed, settings["options"])


EXPLORATION = ("--epsilon 0", "--epsilon 0.02", "--first 100", "--cover 5")
LEARNERS = ("", " -l 5", " --ftrl")

PEER = Peer(
    name="Vowpal Wabbit",
    package="vowpalwabbit",
    build=build,
    forms=(TASK_FEATURES, POOLED, PER_TASK),
    recommended={"options": "--epsilon 0.05"},
    grid=tuple({"options": explore + learner} for explore in EXPLORATION for learner in LEARNERS),
)
