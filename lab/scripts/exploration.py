"""Which exploration suits the evidence prior: regret over that of the default, world by world.

.venv/bin/python lab/scripts/exploration.py [seeds]
"""

import sys
from functools import partial

import numpy as np

from posse import EbmTS, EbmUCB, SyntheticWorld, simulate

WORLDS = {
    "balanced": SyntheticWorld(),
    "data-poor": SyntheticWorld(arrivals="data-poor"),
    "uniform": SyntheticWorld(contexts="uniform"),
    "N=30": SyntheticWorld(n_tasks=30),
    "N=20 d=8": SyntheticWorld(n_tasks=20, n_features=8),
    "sparse": SyntheticWorld(heterogeneity="sparse"),
    "anisotropic d=5": SyntheticWorld(n_tasks=20, n_features=5, heterogeneity=np.diag([1, 0.3, 0.05, 0.05, 0.05])),
    "one task": SyntheticWorld(n_tasks=1),
    "identical": SyntheticWorld(heterogeneity=1e-8 * np.eye(3)),
    "unrelated": SyntheticWorld(heterogeneity=100 * np.eye(3)),
}
SCALES = {EbmUCB: (0.2, 0.3, 0.4, 0.5), EbmTS: (0.1, 0.15, 0.2, 0.3)}


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    policies = {
        f"{policy.label} {scale:g}": partial(policy, prior="evidence", exploration=scale)
        for policy, scales in SCALES.items()
        for scale in scales
    }
    print("| world | " + " | ".join(policies) + " |")
    print("|---|" + "---|" * len(policies))
    ratios = []
    for name, world in WORLDS.items():
        result = simulate(world, policies, horizon=2000, seeds=seeds, workers=2)
        means = {policy: float(result.regret_of(policy).mean()) for policy in policies}
        row = [means[policy] / means[f"{policy.split()[0]} {default(policy)}"] for policy in policies]
        ratios.append(row)
        print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in row) + " |", flush=True)
    print("| geometric mean | " + " | ".join(f"{value:.2f}" for value in np.exp(np.log(ratios).mean(axis=0))) + " |")


def default(policy):
    return f"{(EbmUCB if policy.startswith(EbmUCB.label) else EbmTS).evidence_exploration:g}"


if __name__ == "__main__":
    main()
