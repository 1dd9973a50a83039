"""Purchases that come days later: the worse offer wins if zeros are learned last, and not if they count from the start.

A purchase is reported within days, "no purchase" is known after 14. An old offer sells to 4 % of visitors, a new one to
2 %. Three fleets meet the same shops; they differ only in what they know of a decision before its 14 days are over.

python examples/delayed_feedback.py --plot delayed-feedback.svg
"""

import argparse
from pathlib import Path

import numpy as np

from posse import Posse

DAY = 86400.0
WAIT = 14 * DAY
RATES = {"old": 0.04, "new": 0.02}
WAYS = {
    "zeros are reported when the 14 days are over": {"time_to_live": 2 * WAIT},
    "absent_reward=0": {"time_to_live": WAIT, "absent_reward": 0.0},
    "absent_reward=0, count_pending=False": {"time_to_live": WAIT, "absent_reward": 0.0, "count_pending": False},
}


def run(settings, *, days, visitors, seed=0):
    """Return, for every day, what is believed about the new offer and how many visitors got it."""
    rng, now = np.random.default_rng(seed), [0.0]
    fleet = Posse(
        arms=["old", "new"], features=["x"], seed=seed, evaluation_budget=0.01, clock=lambda: now[0], **settings
    )
    n = 40 * visitors
    fleet.learn_many(
        {
            "task": [f"shop-{j}" for j in rng.integers(0, 50, n)],
            "arm": ["old"] * n,
            "reward": (rng.random(n) < RATES["old"]) * 1.0,
            "x": rng.normal(size=n),
        }
    )
    reported = {}  # ids of purchases by the day on which they are reported
    silent = {}  # of decisions that end without one, by the day on which that is known
    believed, share = [], []
    for day in range(days):
        now[0] = day * DAY
        made = fleet.decide_many([f"shop-{j}" for j in rng.integers(0, 50, visitors)], rng.normal(size=(visitors, 1)))
        new = np.array(made.arm) == "new"
        bought = rng.random(visitors) < np.where(new, RATES["new"], RATES["old"])
        delay = np.minimum(rng.exponential(2.0, visitors), 13.0).astype(int)  # days until a purchase is reported
        for decision_id, buys, wait in zip(made.ids, bought, delay, strict=True):
            (reported if buys else silent).setdefault(day + (int(wait) if buys else 14), []).append(decision_id)
        now[0] += 0.5 * DAY
        purchases, ended = reported.pop(day, []), silent.pop(day, [])
        fleet.reward_many(purchases, [1.0] * len(purchases))
        if "absent_reward" not in settings:
            fleet.reward_many(ended, [0.0] * len(ended))
        believed.append(np.mean([fleet.expected(f"shop-{j}", [0.0]).mean["new"] for j in range(50)]))
        share.append(new.mean())
    return np.array(believed), np.array(share)


def plot(results, path):
    """Draw what is believed about the new offer, and how many visitors get it, side by side for every way."""
    from posse.plotting.style import COLOURS, GREY_INK, report_look, save_figure

    with report_look() as plt:
        figure, axes = plt.subplots(2, len(results), figsize=(9.6, 4.8), sharex=True, sharey="row")
        for column, (way, (believed, share)) in enumerate(results.items()):
            days = np.arange(believed.size)
            title = way.replace(", count", ",\ncount").replace(" when", "\nwhen")
            axes[0, column].set_title(title, fontsize=9.5, loc="left")
            axes[0, column].plot(days, believed, color=COLOURS[1], label="believed")
            axes[0, column].axhline(RATES["new"], color=GREY_INK, linestyle="--", linewidth=1, label="truth: 2 %")
            axes[1, column].plot(days, share, color=COLOURS[0])
            for row in (0, 1):
                axes[row, column].axvline(14, color=GREY_INK, linestyle=":", linewidth=1)
            axes[1, column].set_xlabel("day")
            axes[1, column].set_ylim(0, 1)
        for row, text in enumerate(("believed purchase rate\nof the new, worse offer", "visitors who get it")):
            axes[row, 0].set_ylabel(text)
            axes[row, 0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes[0, 0].legend(frameon=False, fontsize=8.5, loc="upper right")
        for column, text in enumerate(("first zeros", "", "learning begins")):
            axes[1, column].text(14.4, 0.9 if column else 0.04, text, color=GREY_INK, fontsize=8.5)
        figure.tight_layout()
        save_figure(figure, [path])


def main(days, visitors, path):
    results = {}
    for way, settings in WAYS.items():
        results[way] = believed, share = run(settings, days=days, visitors=visitors)
        print(f"{way}:")
        print(f"  at most {believed.max():.3f} believed of the new offer, which sells to {RATES['new']}")
        print(f"  {share.mean():.0%} of all visitors got it")
    if path is not None:
        plot(results, path)
        print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=40)
    parser.add_argument("--visitors", type=int, default=500)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    main(given.days, given.visitors, given.plot)
