"""What a log that can be evaluated costs: regret and effective sample sizes by evaluation budget and by floor.

.venv/bin/python lab/scripts/budget.py [--seeds 24]

A fleet with the default policy decides in the worlds of docs/evidence.md. Its log is then asked for other policies by
importance weights: the effective sample size (sum of weights, squared, over sum of squared weights) for the policy that
plays at random and for those that always play one arm (the median over arms and seeds); and how many pairs of decision
and arm had probability 0 in the log, which no weight makes up for.
"""

import argparse

import numpy as np

from posse import FeatureSpec, Posse
from posse_lab.benchmarks.settings import SETTINGS

FIRST_SEED = 20_000
WORLDS = ("balanced", "d8")
CASES = {
    "none": {},
    "budget 0.3 %": {"evaluation_budget": 0.003},
    "budget 1 %": {"evaluation_budget": 0.01},
    "budget 3 %": {"evaluation_budget": 0.03},
    "floor 0.002": {"floor": 0.002},
    "floor 0.02": {"floor": 0.02},
    "ebm-ts": {"policy": "ebm-ts"},
}


def play(world, draw, seed, settings):
    """Return the arms that a fleet takes, and the probabilities of all."""
    features = FeatureSpec([f"x{i}" for i in range(world.n_features)], intercept=False)
    fleet = Posse(arms=range(world.n_arms), features=features, seed=seed, **settings)
    arms, probabilities = [], []
    for step, (task, x) in enumerate(zip(draw.tasks.tolist(), draw.contexts, strict=True)):
        decision = fleet.decide(task, x)
        fleet.reward(decision.id, float(draw.rewards[step, decision.arm]))
        arms.append(decision.arm)
        probabilities.append(list(decision.probabilities.values()))
    return np.array(arms), np.array(probabilities)


def effective(weights):
    return weights.sum() ** 2 / max((weights**2).sum(), 1e-300)


def measure(world, horizon, seed, settings):
    draw = world.draw(seed, horizon)
    arms, probabilities = play(world, draw, seed, settings)
    rows = np.arange(horizon)
    regret = (draw.expected.max(axis=1) - draw.expected[rows, arms]).sum()
    weight = 1 / probabilities[rows, arms]
    always = [effective(weight * (arms == arm)) for arm in range(world.n_arms)]
    return regret, (probabilities == 0).mean(), effective(weight), always


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=24)
    options = parser.parse_args()
    print("| world | | regret | of none | probability 0 | effective rows, random | effective rows, one arm |")
    print("|---|---|---|---|---|---|---|")
    for name in WORLDS:
        setting, world = SETTINGS[name], SETTINGS[name].world(None)
        base = None
        for case, settings in CASES.items():
            found = [measure(world, setting.horizon, FIRST_SEED + i, settings) for i in range(options.seeds)]
            regrets, closed, uniform, always = (np.array(column) for column in zip(*found, strict=True))
            regret, error = regrets.mean(), regrets.std(ddof=1) / np.sqrt(options.seeds)
            base = regret if base is None else base
            print(
                f"| {setting.title} | {case} | {regret:,.0f} ± {error:.0f} | {regret / base:.2f} | {closed.mean():.1%} "
                f"| {np.median(uniform):,.0f} | {np.median(always):,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
