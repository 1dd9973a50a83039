"""A learner that needs no library, and a small report."""

import numpy as np
import pytest

from posse_lab.benchmarks.machine import Timing
from posse_lab.benchmarks.peers import ours
from posse_lab.benchmarks.peers.blocks import BlockRow, Blocks
from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED, RECOMMENDED, TUNED, Entry
from posse_lab.benchmarks.peers.latency import Latency
from posse_lab.benchmarks.peers.play import play
from posse_lab.benchmarks.peers.report import Found, Row
from posse_lab.benchmarks.peers.stream import Stream
from posse_lab.benchmarks.workload import Size


class Fixed(Entry):
    """Pulls the arms of a list, and notes what it is told."""

    def __init__(self, arms):
        self.arms, self.told = iter(arms), []
        self.decide, self.update = self.pull, self.learn

    def pull(self, task, context, step):
        return {"arm": next(self.arms), "task": task}

    def learn(self, task, context, step, arm, reward):
        self.told.append((task, context, step, arm, reward))

    def given(self, task, context, step):
        return task, context, step

    def arm(self, decided):
        return decided["arm"]

    def outcome(self, given, decided, reward):
        return *given, decided["arm"], reward


@pytest.fixture
def fixed():
    return Fixed


def latency(decide, update, average=None, building=1.0):
    """Return microseconds as a latency; a median is twice the best."""
    one = {
        "decide": decide,
        "update": update,
        "decide_average": decide,
        "update_average": update if average is None else average,
        "decide_built": decide + building,
        "update_built": update + building,
    }
    return Latency(**{name: Timing(value * 1e-6, 2 * value * 1e-6, 100) for name, value in one.items()})


def row(library, form, configuration, regret, *times):
    settings = {"alpha": 0.5, "configuration": configuration}
    return Row(
        library=library,
        form=form,
        configuration=configuration,
        settings=settings,
        regret=regret,
        latency=latency(*times),
    )


@pytest.fixture
def blocks():
    rows = [
        BlockRow(
            configuration=configuration,
            settings={"policy": "TS"},
            n_steps=[100, 120],
            regret=regret,
            ours={ours.TS: [50.0, 70.0], ours.UCB: [40.0, 60.0]},
        )
        for configuration, regret in ((RECOMMENDED, [100.0, 140.0]), (TUNED, [60.0, 90.0]))
    ]
    times = {
        ours.TS: (2.0, 1.0, 18.0),
        ours.UCB: (3.0, 1.0, 9.0),
        RECOMMENDED: (6000.0, 2000.0),
        TUNED: (7000.0, 500.0),
    }
    known = {name: latency(*some) for name, some in times.items()}
    first = {name: latency(*(value / 2 for value in some)) for name, some in times.items()} | {
        ours.TS: latency(2.0, 1.0, 98.0)
    }
    return Blocks(size=Size(1000, 5, 10), solver="SuperLU", rows=rows, first=first, known=known)


@pytest.fixture
def report(blocks):
    rng = np.random.default_rng(0)

    def regrets(mean):
        return (mean + rng.normal(0.0, 10.0, 3)).tolist()

    rows = [
        row("posse", ours.TS, "", regrets(700), 2.0, 1.5, 20.0),
        row("posse", ours.UCB, "", regrets(690), 2.2, 1.5, 22.0),
        row("posse", ours.FLEET, "", regrets(710), 15.0, 10.0, 40.0),
        row("Vowpal Wabbit", POOLED, RECOMMENDED, regrets(1300), 12.0, 30.0, 31.0),
        row("Vowpal Wabbit", POOLED, TUNED, regrets(1200), 14.0, 10.0, 11.0),
        row("river", PER_TASK, RECOMMENDED, regrets(1400), 11.0, 100.0),
        row("river", PER_TASK, TUNED, regrets(1350), 150.0, 30.0),
    ]
    return Found(
        size=Size(100, 5, 10),
        n_steps=2000,
        seeds=3,
        rows=rows,
        random=[1600.0, 1700.0, 1650.0],
        blocks=blocks,
        parsed=Timing(4e-6, 5e-6, 100),
        skipped={"mabwiser": "mabwiser is not installed: pip install './lab[peers]'"},
        versions={"posse": "0.1", "vowpalwabbit": "9.11.9", "river": "0.26.1", "bayesianbandits": "1.5.0"},
    )


@pytest.fixture
def easy():
    """A stream on which any learner should do well: the arms are far apart, and the same in every task."""
    size, n_steps = Size(4, 3, 3), 400
    rng = np.random.default_rng(5)
    contexts = rng.standard_normal((n_steps, size.n_features))
    expected = 3.0 * contexts  # the best arm is that of the largest feature
    return Stream(
        size=size,
        tasks=rng.integers(size.n_tasks, size=n_steps).tolist(),
        contexts=list(contexts),
        expected=expected,
        rewards=expected + 0.1 * rng.standard_normal(expected.shape),
    )


@pytest.fixture
def late_regret(easy):
    """Regret of an entry over the second half of the easy stream, in parts of what pulling any arm costs there."""

    def measured(entry):
        regret = easy.regret(play(entry, easy).arms)
        half = len(easy) // 2
        blind = (easy.expected.max(axis=1) - easy.expected.mean(axis=1))[half:].sum()
        return (regret[-1] - regret[half - 1]) / blind

    return measured
