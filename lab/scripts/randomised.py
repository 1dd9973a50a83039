"""Random decisions at the regret of UCB: centre and spread, one draw for all arms or one each, world by world.

.venv/bin/python lab/scripts/randomised.py [--data DIR] [--seeds 200] [--first-seed 20000] [--only balanced,d8]
    [--rules "one z 0.4/0.1"]

Regret over that of ``EbmUCB(prior="evidence")`` in the same seeds, with its standard error. No constant of the evidence
prior was chosen by seeds from 20,000 on.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from posse import EbmRandUCB, EbmTS, EbmUCB, simulate
from posse_lab.benchmarks.settings import SETTINGS

UCB = "UCB"
WORLDS = [name for name in SETTINGS if name not in ("scaled", "no-odd")]  # "scaled" has the decisions of "balanced"


def make(centre, spread, coupled, **shape):
    """Return a policy that scores arms at ``centre`` plus ``spread`` times a draw, or one draw each."""
    explores = EbmRandUCB.explores._replace(spread=spread / centre, coupled=coupled)
    return type("Rule", (EbmRandUCB,), {"explores": explores})(exploration=centre, **shape)


def rules():
    found = {UCB: partial(EbmUCB, prior="evidence"), "TS": partial(EbmTS, prior="evidence")}
    for coupled, pairs in (
        (True, ((0.3, 0.1), (0.4, 0.05), (0.4, 0.1), (0.4, 0.2))),
        (False, ((0.3, 0.1), (0.4, 0.05), (0.4, 0.1))),
    ):
        for centre, spread in pairs:
            found[f"{'one z' if coupled else 'own z'} {centre:g}/{spread:g}"] = partial(make, centre, spread, coupled)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default=",".join(WORLDS))
    parser.add_argument("--rules", default=",".join(name for name in rules() if name != UCB))
    options = parser.parse_args()
    policies = {name: rules()[name] for name in (UCB, *options.rules.split(","))}
    others = [name for name in policies if name != UCB]
    print("| world | UCB | " + " | ".join(others) + " |\n|---|" + "---|" * len(policies), flush=True)
    ratios = []
    for name in options.only.split(","):
        setting = SETTINGS[name]
        if setting.from_data and options.data is None:
            continue
        seeds = min(options.seeds, setting.most_seeds or options.seeds)
        result = simulate(
            setting.world(options.data),
            policies,
            horizon=setting.horizon,
            seeds=range(options.first_seed, options.first_seed + seeds),
            workers=options.workers,
        )
        regret = {policy: np.asarray(result.regret_of(policy)) for policy in policies}
        base = regret[UCB].mean()
        row = []
        for policy in others:
            ratio = regret[policy].mean() / base
            # Of the ratio of two means in paired seeds.
            error = (regret[policy] - ratio * regret[UCB]).std(ddof=1) / base / np.sqrt(seeds)
            row.append((ratio, error))
        ratios.append([ratio for ratio, _ in row])
        cells = " | ".join(f"{ratio:.3f} ± {error:.3f}" for ratio, error in row)
        print(f"| {setting.title}, {seeds} seeds | {base:,.0f} | {cells} |", flush=True)
    means = np.exp(np.log(ratios).mean(axis=0))
    print("| geometric mean | | " + " | ".join(f"{value:.3f}" for value in means) + " |")
    print("| largest | | " + " | ".join(f"{value:.3f}" for value in np.max(ratios, axis=0)) + " |")


if __name__ == "__main__":
    main()
