"""Do intervals of click rates hold the truth as often as they say? Simulated logs, from few clicks to many.

.venv/bin/python lab/scripts/intervals.py [--logs 600] [--workers 2] [--seed 0]

Every log has four arms and three kinds of visitors, a new population of click rates around ``rate``, and tasks whose
logits differ by ``spread`` and, arm by arm, by half of it. The truth is the value in the population of tasks where
intervals are about tasks like these, and that of the log's own tasks where tasks are too few for that.
"""

import argparse
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, logit

from posse.offline import Limits
from posse.offline.estimators import doubly_robust, importance_weights, ips, snips
from posse.offline.intervals import IntervalRule, effective_rewards
from posse.offline.per_target import enough_tasks

N_ARMS, VISITORS = 4, np.array([0.5, 0.3, 0.2])
NODES, NODE_WEIGHTS = hermegauss(15)


@dataclass(frozen=True)
class Design:
    """A law of logs; ``target`` is one arm, the log itself, uniform choice, near to the log or far from it."""

    n_tasks: int
    rows: int
    rate: float
    spread: float = 0.0
    logging: str = "uniform"
    target: str = "arm"
    unequal: bool = False
    logs: int = 600


@dataclass
class Coverage:
    """Whether intervals held the truth, by estimator; whether all were in range; how many logs were refused."""

    held: dict = field(default_factory=lambda: defaultdict(list))
    in_range: bool = True
    refused: int = 0


def designs(n_tasks, rate, logs):
    policies = [("uniform", "arm"), ("softmax", "log"), ("softmax", "near"), ("softmax", "far"), ("softmax", "uniform")]
    for place, (rows, spread, (logging, target)) in enumerate(product((60, 300), (0.0, 0.8), policies)):
        yield Design(n_tasks, rows, rate, spread, logging, target, place % 2 == 1, logs)


def softmax(scores):
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def one_log(design, rng, result):
    """Add one log to a coverage."""
    by_arm = 0.5 * rng.standard_normal((1, N_ARMS)) + 0.3 * rng.standard_normal((VISITORS.size, N_ARMS))
    common = logit(design.rate) + by_arm
    own = design.spread * rng.standard_normal((design.n_tasks, 1, 1))
    own = own + 0.5 * design.spread * rng.standard_normal((design.n_tasks, 1, N_ARMS))
    rates = expit(common + own)  # (tasks, visitors, arms)
    nodes = np.sqrt(1.25) * design.spread * NODES
    population = expit(common[..., None] + nodes) @ (NODE_WEIGHTS / NODE_WEIGHTS.sum())
    logged, target = policies_of(design, by_arm, rng)
    factor = np.exp(rng.standard_normal(design.n_tasks) - 0.5) if design.unequal else np.ones(design.n_tasks)
    tasks = np.repeat(np.arange(design.n_tasks), np.maximum(2, rng.poisson(design.rows * factor)))
    visitors = rng.choice(VISITORS.size, tasks.size, p=VISITORS)
    arms = (np.cumsum(logged, axis=1)[visitors] < rng.random(tasks.size)[:, None]).sum(axis=1).clip(max=N_ARMS - 1)
    clicks = (rng.random(tasks.size) < rates[tasks, visitors, arms]).astype(float)

    weights = importance_weights(target[visitors], arms, logged[visitors, arms])
    everything = np.ones(tasks.size)
    n_rewards = min(effective_rewards(each, clicks, float(np.median(clicks))) for each in (weights, everything))
    apart = effective_rewards(np.abs(weights - 1), clicks, float(np.median(clicks)))
    limits = Limits()
    if n_rewards < limits.min_effective_rewards:
        result.refused += 1
        return
    rule = IntervalRule(confidence=0.95, family="binary", over_tasks=enough_tasks(tasks, limits))
    per_task = np.einsum("v,tva->tva", VISITORS, rates)
    sizes = np.bincount(tasks) / tasks.size

    def truth(policy):
        if rule.over_tasks:
            return (VISITORS[:, None] * policy * population).sum()
        return sizes @ (per_task * policy).sum(axis=(1, 2))

    model = np.minimum(population * np.exp(0.3 * rng.standard_normal(population.shape)), 0.95)[visitors]
    for name in ("ips", "snips", "dr"):
        here, base = (
            contributions(name, policy[visitors], each, model, arms, clicks)
            for policy, each in ((target, weights), (logged, everything))
        )
        asked = [(name, None, truth(target), 0.0)]
        if design.target != "log":
            asked.append((f"{name} gain", base, truth(target) - truth(logged), -1.0))
        for label, less, true, least in asked:
            behind = n_rewards if less is None else apart
            if behind < limits.min_effective_rewards:
                continue
            found = rule.estimate(tasks, here, less, n_rewards=behind)
            result.in_range &= least <= found.low <= found.high <= 1.0
            result.held[label].append(found.low <= true <= found.high)


def policies_of(design, by_arm, rng):
    logged = np.full(by_arm.shape, 1 / N_ARMS)
    if design.logging == "softmax":
        logged = 0.9 * softmax(rng.standard_normal(by_arm.shape)) + 0.1 / N_ARMS
    if design.target == "log":
        return logged, logged
    if design.target == "arm":
        return logged, np.eye(N_ARMS)[np.zeros(VISITORS.size, int)]
    if design.target == "uniform":
        return logged, np.full(by_arm.shape, 1 / N_ARMS)
    if design.target == "near":
        return logged, 0.7 * logged + 0.3 * softmax(rng.standard_normal(by_arm.shape))
    return logged, softmax(3 * (by_arm + 0.3 * rng.standard_normal(by_arm.shape)))


def contributions(name, probabilities, weights, model, arms, clicks):
    if name == "ips":
        return ips(weights, clicks)
    if name == "snips":
        return snips(weights, clicks)
    return doubly_robust(probabilities, model, weights, arms, clicks)


def coverage(design, seed=0):
    """Return whether the intervals of all logs of a design hold the truth."""
    rng, result = np.random.default_rng(seed), Coverage()
    for _ in range(design.logs):
        one_log(design, rng, result)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=600)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| tasks | rate | answered | IPS | SNIPS | DR | gain, DR | lowest | highest |\n" + "|---" * 9 + "|")
    for n_tasks, rate in product((3, 5, 10, 30, 100), (0.005, 0.02, 0.1, 0.3)):
        every = list(designs(n_tasks, rate, options.logs))
        found = Parallel(n_jobs=options.workers)(delayed(coverage)(design, options.seed) for design in every)
        assert all(one.in_range for one in found)
        # Where fewer than half are answered, those that are happen to have many clicks.
        cells = [np.mean(held) for one in found for held in one.held.values() if len(held) >= options.logs / 2]
        shown = [[held for one in found for held in one.held[name]] for name in ("ips", "snips", "dr", "dr gain")]
        answered = 1 - np.mean([one.refused for one in found]) / options.logs
        row = [f"{np.mean(held):.1%}" if held else "" for held in shown]
        ends = [f"{min(cells):.1%}", f"{max(cells):.1%}"] if cells else ["", ""]
        print("| " + " | ".join([str(n_tasks), f"{rate:.1%}", f"{answered:.0%}", *row, *ends]) + " |", flush=True)


if __name__ == "__main__":
    main()
