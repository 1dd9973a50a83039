"""One page for the people who decide: which offer is best where, what deciding has gained, when to stop exploring.

python examples/report.py --out report.html
"""

import argparse
import tempfile
from pathlib import Path

from stores import FEATURES, OFFERS, Stores

from posse import Posse


def main(decisions, out=None):
    stores = Stores(n_stores=40, seed=5)
    folder = Path(tempfile.mkdtemp())
    log, out = folder / "decisions.jsonl", Path(out or folder / "report.html")
    # A little of what deciding gains pays for a log that can say what it was.
    fleet = Posse(arms=OFFERS, features=FEATURES, seed=4, evaluation_budget=0.05, log=log)
    for _ in range(decisions):
        store, context = stores.customer()
        decision = fleet.decide(store, context)
        fleet.reward(decision.id, stores.sales(store, context, decision.arm))

    report = fleet.report(log, unit="€", title="What the stores should offer")
    report.save(out)
    best = report.best
    print(f"one offer is clearly best in {best.sure.sum()} of {len(best.tasks)} stores")
    for gain in report.gains.gains:
        told = (
            f"{gain.gain.value:+.3f} € per decision"
            if not gain.refusals
            else f"the log cannot tell: {gain.refusals[0]}"
        )
        print(f"gained over {gain.over}: {told}")
    print(f"exploring on pays in {report.stopping.pays.sum()} stores")
    print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=6000)
    parser.add_argument("--out")
    main(**vars(parser.parse_args()))
