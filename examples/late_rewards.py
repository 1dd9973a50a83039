"""Decide now, learn later: rewards come in any order, some twice, some never, and the service restarts in between.

python examples/late_rewards.py
"""

import argparse
import heapq
import tempfile
from pathlib import Path

from stores import FEATURES, OFFERS, Stores

from posse import Posse
from posse.errors import ExpiredDecision
from posse.logs import read_log


def main(decisions):
    stores = Stores(n_stores=50, seed=1)
    folder = Path(tempfile.mkdtemp())
    path = folder / "fleet.posse"
    # A decision that has no reward after an hour counts as nothing sold.
    time = {"now": 0.0}
    fleet = Posse(
        arms=OFFERS, features=FEATURES, seed=7, time_to_live=3600.0, absent_reward=0.0, clock=lambda: time["now"],
        log=folder / "decisions.jsonl",
    )  # fmt: skip
    waiting = []  # rewards on their way: (when, decision, amount)
    earned = best = 0.0
    late = 0
    for step in range(decisions):
        time["now"] = now = 10.0 * (step + 1)
        store, context = stores.customer()
        decision = fleet.decide(store, context)

        expected = stores.expected(store, context)
        earned, best = earned + expected[decision.arm], best + max(expected.values())
        if stores.rng.random() < 0.95:  # one in twenty never reports
            delay = stores.rng.exponential(600.0)
            amount = stores.sales(store, context, decision.arm)
            heapq.heappush(waiting, (now + delay, decision.id, amount))
            if stores.rng.random() < 0.02:  # and some report twice
                heapq.heappush(waiting, (now + delay + 60.0, decision.id, amount))
        while waiting and waiting[0][0] <= now:
            _, decision_id, amount = heapq.heappop(waiting)
            try:
                fleet.reward(decision_id, amount)
            except ExpiredDecision:
                late += 1

        if step == decisions // 2:  # a restart: nothing is lost, not even what waits
            fleet.save(path)
            fleet = Posse.load(path, clock=lambda: time["now"])
            fleet.log_to(folder / "decisions.jsonl")
            print(f"restarted with {len(fleet.pending())} decisions waiting for their rewards")
    print(fleet)
    print(f"{late} rewards came after their time to live")
    print(f"earned {earned / best:.0%} of what the best offers would have earned")
    print(read_log(folder / "decisions.jsonl"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=3000)
    main(parser.parse_args().decisions)
