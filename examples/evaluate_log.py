"""Would another policy have earned more? Ask the log, and check the answer, since here the truth is known.

python examples/evaluate_log.py
"""

import argparse
import tempfile
from pathlib import Path

from stores import FEATURES, OFFERS, Stores

from posse import Posse
from posse.logs import check_log, read_log
from posse.offline import Fleet, Logged, evaluate


def main(decisions):
    stores = Stores(n_stores=60, seed=6)
    path = Path(tempfile.mkdtemp()) / "decisions.jsonl"
    # What runs today treats every store alone. Its floor is what makes the log say something about others.
    today = Posse(arms=OFFERS, features=FEATURES, policy="lin-ts", exploration=0.3, floor=0.1, seed=8, log=path)
    for _ in range(decisions):
        store, context = stores.customer()
        decision = today.decide(store, context)
        today.reward(decision.id, stores.sales(store, context, decision.arm))

    log = read_log(path)
    for finding in check_log(log):
        print(f"{finding.severity}: {finding.message}")

    # The candidate learns from the first half and is judged by the second, which it has not seen.
    first, second = log.frame[: decisions // 2], log.frame[decisions // 2 :]
    candidate = Posse(arms=OFFERS, features=FEATURES, seed=9)
    candidate.learn_many(first)
    evaluation = evaluate(type(log)(second), Fleet(candidate, label="candidate"), against=Logged(), seed=1)
    print(evaluation)

    # What the candidate would really earn: here we know every offer's expected sales.
    rows = second["context"].struct.unnest()
    chances = candidate.probabilities(second["task"], rows)
    truth = 0.0
    for store, context, chance in zip(second["task"], rows.to_dicts(), chances, strict=True):
        expected = stores.expected(store, context)
        truth += sum(p * expected[offer] for p, offer in zip(chance, candidate.arms, strict=True)) / len(chances)
    print(f"the truth: {truth:.3f} per decision")
    return evaluation, truth


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=6000)
    main(parser.parse_args().decisions)
