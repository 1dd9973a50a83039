"""Is revenue decided better as purchase x amount than as a number, and do intervals hold what they promise?

.venv/bin/python lab/scripts/revenue.py [--seeds 0 40] [--buyers 3 10 30] [--steps 3000] [--world plain]

A visitor buys with probability sigmoid(z + c) and pays exp(0.3 z + noise); z is linear in an intercept and three
features, with coefficients per task and arm. Worlds: "plain" (noise N(0, 0.5^2)), "tails" (noise 0.5 t with 3 degrees
of freedom, cut at 3), "apart" (amounts do not depend on the context or the arm), "equal" (all amounts are the same),
"one" (one buyer in all). Every line has the mean over seeds; ratios are of sums of regret.
"""

import argparse
import json
import time

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from posse.core.core import Core
from posse.core.estimate import FIT_SETTLED, FIT_STEPS
from posse.core.revenue import Revenue
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.families import family_of
from posse.families.links import ends

RULE = Rule(RANDOMISED.scaled(0.4), 0.0, 0.0)
N_TASKS, N_ARMS, D = 20, 4, 4
SHARED, APART, SLOPE, NOISE = 1.0, 0.7, 0.3, 0.5


class World:
    """One seed of a world."""

    def __init__(self, seed, share, kind, steps):
        rng = np.random.default_rng([seed, 77])
        self.kind = kind
        shared = SHARED * rng.standard_normal((1, N_ARMS, D))
        theta = shared + APART * rng.standard_normal((2 * N_TASKS, N_ARMS, D))  # the second half are new tasks
        self.theta = theta
        x = np.concatenate([np.ones((4000, 1)), rng.standard_normal((4000, D - 1))], axis=1)
        z = np.einsum("nd,nkd->nk", x, theta[rng.integers(N_TASKS, size=4000)])
        self.c = brentq(lambda c: expit(z + c).mean() - share, -30, 30)
        self.tasks = rng.integers(N_TASKS, size=steps)
        self.x = np.concatenate([np.ones((steps, 1)), rng.standard_normal((steps, D - 1))], axis=1)
        self.uniform, self.draws = rng.random(steps), rng.random(steps)
        noise = {"tails": np.clip(0.5 * rng.standard_t(3, steps), -3, 3), "equal": np.zeros(steps)}
        self.noise = noise.get(kind, NOISE * rng.standard_normal(steps))
        tails = np.clip(0.5 * np.random.default_rng(5).standard_t(3, 10**6), -3, 3)
        self.factor = {"tails": np.exp(tails).mean(), "equal": 1.0}.get(kind, np.exp(NOISE**2 / 2))
        self.buyer = int(rng.integers(steps // 4))

    def slope(self):
        return 0.0 if self.kind in ("apart", "equal") else SLOPE

    def expected(self, task, x):
        z = self.theta[task] @ x
        return expit(z + self.c) * np.exp(self.slope() * z) * self.factor

    def reward(self, n, arm):
        z = float(self.theta[self.tasks[n], arm] @ self.x[n])
        buys = self.uniform[n] < expit(z + self.c)
        if self.kind == "one":
            buys = n == self.buyer
        return float(buys) * float(np.exp(self.slope() * z + self.noise[n]))


def new_core(rewards, **known):
    if rewards == "revenue":
        core = Revenue(N_ARMS, D, family=family_of("revenue"), rule=RULE, **known)
    else:
        core = Core(N_ARMS, D, family=family_of(rewards), rule=RULE, **known)
    core.take_tasks(core.reserve_tasks(N_TASKS))
    return core


def play(world, rewards):
    """Return the regret of deciding, seconds, and the share of chosen arms whose intervals hold while deciding."""
    core, total, out, held = new_core(rewards), 0.0, np.empty((3, N_ARMS)), []
    family, everyone, begin = family_of(rewards), np.arange(N_ARMS), time.perf_counter()
    for n in range(len(world.tasks)):
        task, x = int(world.tasks[n]), world.x[n]
        arm = core.decide(task, x, 0.0, everyone, n + 1, True, float(world.draws[n]), out)
        assert arm >= 0
        truth = world.expected(task, x)
        total += truth.max() - truth[arm]
        if n >= len(world.tasks) // 3:
            low, high = family.interval(out[1, arm], out[2, arm], 0.9)
            held.append(low <= truth[arm] <= high)
        core.learn(task, arm, x, world.reward(n, arm), 0.0)
        core.estimate_if_due()
    return total, time.perf_counter() - begin, np.mean(held)


def hold(world, rewards, seed):
    """Return how often 90 % intervals hold after a random log: of the best arm, of all arms, of new tasks."""
    rng, core, n = np.random.default_rng([seed, 5]), new_core(rewards), len(world.tasks)
    arms = rng.integers(N_ARMS, size=n)
    y = np.array([world.reward(i, arms[i]) for i in range(n)])
    core.learn_rows(world.tasks, arms, world.x, y, 0.0)
    core.renew(steps=FIT_STEPS, settled=FIT_SETTLED)
    found, out, family = {"best": [], "all": [], "new": []}, np.empty((2, N_ARMS)), family_of(rewards)
    log_error = []
    for _place in range(400):
        x = np.append(1.0, rng.standard_normal(D - 1))
        task = int(rng.integers(N_TASKS))
        for name, number, of in (("all", task, task), ("new", -1, N_TASKS + task)):
            assert core.predict(number, x, 0.0, np.arange(N_ARMS), out)
            truth = world.expected(of, x)
            low, high = family.interval(out[0], out[1], 0.9)
            inside = (low <= truth) & (truth <= high)
            found[name].append(inside.mean())
            if name == "all":
                found["best"].append(inside[np.argmax(family.expected(out[0], out[1]))])
                if rewards == "revenue":
                    log_error.append(np.mean(np.log(truth) - out[0]))
    found = {name: float(np.mean(values)) for name, values in found.items()}
    if rewards == "revenue":
        found["bias"] = float(np.mean(log_error))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 40))
    parser.add_argument("--buyers", type=float, nargs="+", default=(3, 10, 30))
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--world", default="plain")
    parser.add_argument("--only", default="both", choices=("both", "regret", "intervals"))
    asked = parser.parse_args()
    for share in asked.buyers:
        regret, seconds, held, holds = {}, {}, {}, {}
        for seed in range(*asked.seeds):
            world = World(seed, share / 100, asked.world, asked.steps)
            for rewards in ("number", "revenue"):
                if asked.only != "intervals":
                    for into, value in zip((regret, seconds, held), play(world, rewards), strict=True):
                        into.setdefault(rewards, []).append(value)
                if asked.only != "regret":
                    holds.setdefault(rewards, []).append(hold(world, rewards, seed))
        line = {"buyers": share, "world": asked.world, "seeds": list(asked.seeds)}
        if regret:
            one, other = (np.array(regret[name]) for name in ("number", "revenue"))
            ratio = other.sum() / one.sum()
            draws = np.random.default_rng(0).integers(len(one), size=(1000, len(one)))
            error = (other[draws].sum(axis=1) / one[draws].sum(axis=1)).std()
            line |= {"number": round(one.mean(), 1), "revenue": round(other.mean(), 1)}
            line |= {"ratio": round(ratio, 3), "se": round(error, 3)}
            line |= {"time": round(sum(seconds["revenue"]) / sum(seconds["number"]), 2)}
            line |= {"deciding": {name: round(float(np.mean(values)), 3) for name, values in held.items()}}
        for rewards, rows in holds.items():
            line[f"{rewards} holds"] = {name: round(float(np.mean([row[name] for row in rows])), 3) for name in rows[0]}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    ends(0.0, 1.0, 0.9)
    main()
