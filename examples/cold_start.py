"""Cold start: what does a store that opens today earn in its first weeks, with and without the others' experience?

python examples/cold_start.py
"""

import argparse

from stores import FEATURES, OFFERS, Stores

from posse import Posse

FLEETS = {
    "learns from the others": {},
    # Told how noisy sales are, which the others find out by themselves.
    "every store alone": {"policy": "lin-ts", "exploration": 0.3},
    "any offer": {"policy": "random"},
}


def main(history, openings, customers):
    stores = Stores(n_stores=40 + openings, seed=4)
    new = set(stores.names[40:])
    fleets = {name: Posse(arms=OFFERS, features=FEATURES, seed=5, **settings) for name, settings in FLEETS.items()}
    # What all stores but the new ones have seen so far, the same for every fleet.
    past = []
    while len(past) < history:
        store, context = stores.customer()
        if store not in new:
            offer = OFFERS[stores.rng.integers(3)]
            past.append({"task": store, "arm": offer, "reward": stores.sales(store, context, offer), **context})
    for fleet in fleets.values():
        fleet.learn_many(past)

    lost = dict.fromkeys(fleets, 0.0)
    for store in sorted(new):
        for _ in range(customers):
            _, context = stores.customer()
            expected = stores.expected(store, context)
            noise = 0.3 * float(stores.rng.normal())
            for name, fleet in fleets.items():
                decision = fleet.decide(store, context)
                fleet.reward(decision.id, expected[decision.arm] + noise)
                lost[name] += max(expected.values()) - expected[decision.arm]
    print(f"{openings} new stores, {customers} customers each, after {history} customers of 40 other stores")
    for name, amount in lost.items():
        print(f"  {name:<24} lost {amount / (openings * customers):.3f} per customer against the best offer")
    return lost


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", type=int, default=4000)
    parser.add_argument("--openings", type=int, default=20)
    parser.add_argument("--customers", type=int, default=30)
    main(**vars(parser.parse_args()))
