"""A small world for the examples: stores that offer one of three things, and customers who differ.

In real use this file does not exist: contexts and rewards come from your customers.
"""

import numpy as np

OFFERS = ["coffee", "cake", "newspaper"]
FEATURES = ["morning", "weekend", "age"]


class Stores:
    """Stores whose customers value the offers differently, around what customers value in general."""

    def __init__(self, n_stores, seed):
        self.rng = np.random.default_rng(seed)
        general = np.array([[0.3, 0.5, 0.0, 0.1], [0.2, -0.2, 0.4, 0.0], [0.1, 0.3, -0.1, 0.3]])
        own = self.rng.multivariate_normal(np.zeros(4), np.diag([0.3, 0.2, 0.2, 0.1]) ** 2, size=(n_stores, 3))
        self.names = [f"store-{i}" for i in range(n_stores)]
        self.coefficients = dict(zip(self.names, general + own, strict=True))

    def customer(self):
        """Return a store and what is known about the customer who came in."""
        context = {
            "morning": float(self.rng.random() < 0.4),
            "weekend": float(self.rng.random() < 2 / 7),
            "age": float(self.rng.normal()),
        }
        return self.names[self.rng.integers(len(self.names))], context

    def expected(self, store, context):
        """Return what each offer would earn on average."""
        x = np.array([1.0, *(context[name] for name in FEATURES)])
        return dict(zip(OFFERS, (self.coefficients[store] @ x).tolist(), strict=True))

    def sales(self, store, context, offer):
        """Return what the offer earned."""
        return self.expected(store, context)[offer] + 0.3 * float(self.rng.normal())
