"""One page for the people who decide: what is gained, which offer is best where, when exploring stops paying.

python examples/report.py --out report.html
"""

import argparse
import tempfile
from pathlib import Path

from stores import FEATURES, OFFERS, Stores

from posse import Posse
from posse.logs import Names


def main(decisions, out=None):
    stores = Stores(n_stores=40, seed=5)
    folder = Path(tempfile.mkdtemp())
    log, out = folder / "decisions.jsonl", Path(out or folder / "report.html")
    # 5 % of the gain is spent on exploration, so that the log can say what another policy would earn.
    fleet = Posse(arms=OFFERS, features=FEATURES, seed=4, evaluation_budget=0.05, log=log)
    for _ in range(decisions):
        store, context = stores.customer()
        decision = fleet.decide(store, context)
        fleet.reward(decision.id, stores.sales(store, context, decision.arm))

    report = fleet.report(log, unit="€", names=Names(task="store", arm="offer"))
    report.save(out)
    best = report.best
    print(report)
    print(f"one offer is clearly best in {best.sure.sum()} of {len(best.tasks)} stores")
    print(f"exploring still pays in {report.stopping.pays.sum()} stores")
    print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=6000)
    parser.add_argument("--out")
    main(**vars(parser.parse_args()))
