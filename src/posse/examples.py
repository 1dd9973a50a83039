"""A log to try things on: a simulated retailer whose stores make offers to visitors, and who bought.

Nothing is downloaded and no file is shipped: the same seed makes the same log, in half a second. Because it is
simulated, the truth is known (:func:`retailer_rates`), so every answer can be checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import whole_number
from posse.tables import as_frame
from posse.types import Array

if TYPE_CHECKING:
    from posse.logs import Log

OFFERS = ("coupon", "free delivery", "gift", "no offer")
FEATURES = ("returning", "basket", "phone", "weekend")
N_STORES = 60
FAVOURITE_SHARE = 0.4  # of visitors who get the store's favourite; the others get any offer, so that a log can tell

# Logits of buying for an intercept and the four features: what visitors of all stores have in common ...
_TYPICAL = np.array(
    [
        [-2.4, -0.3, 0.1, 0.2, 0.0],  # a coupon brings in those who are new
        [-2.7, 0.1, 0.5, 0.1, 0.0],  # free delivery matters when the basket is full
        [-2.6, 0.6, 0.0, -0.1, 0.3],  # a gift pleases those who come back
        [-3.1, 0.4, 0.2, -0.2, 0.1],
    ]
)
# ... and how much stores differ around it.
_SPREAD = np.array([0.5, 0.3, 0.25, 0.2, 0.15])


def load_retailer(n_decisions: int = 20_000, seed: int = 0) -> Log:
    """Return the log of a simulated retailer: twelve weeks, 60 stores, four offers, and whether the visitor bought.

    Each store showed an offer of its own choice to four visitors in ten and any of the four offers to the others, and
    wrote down the probability of the offer. Stores differ in size (9 to 1,492 visitors) and in what works there.

    Parameters
    ----------
    n_decisions : int
        Number of visitors in the twelve weeks.
    seed : int
        Another seed is another retailer.

    Returns
    -------
    Log
        With tasks "store-1" to "store-60", the arms of :data:`OFFERS`, the features of :data:`FEATURES`, propensities,
        times, and binary rewards of 1 (bought) and 0. One visitor in twelve buys.

    Examples
    --------
    >>> log = load_retailer()
    >>> log
    Log(20000 rows, 60 tasks, 4 arms, 4 features)
    >>> log.contexts.row(0, named=True)
    {'returning': 0, 'basket': -0.07, 'phone': 1, 'weekend': 1}
    """
    import polars as pl

    from posse.logs import Log, Names

    n = whole_number(n_decisions, "n_decisions", at_least=1)
    _, rng = _streams(seed)
    size = rng.lognormal(0.0, 0.9, N_STORES)
    stores = rng.choice(N_STORES, n, p=size / size.sum())
    favourite = rng.integers(len(OFFERS), size=N_STORES)
    contexts = pl.DataFrame(
        {
            "returning": (rng.random(n) < 0.4).astype(np.int64),
            "basket": np.round(np.clip(rng.gamma(2.0, 0.7, n) - 1.4, -1.4, 4.0), 2),  # centred, in tens of euros
            "phone": (rng.random(n) < 0.6).astype(np.int64),
            "weekend": (rng.random(n) < 2 / 7).astype(np.int64),
        }
    )
    own = rng.random(n) < FAVOURITE_SHARE
    arms = np.where(own, favourite[stores], rng.integers(len(OFFERS), size=n))
    probabilities = np.full((n, len(OFFERS)), (1 - FAVOURITE_SHARE) / len(OFFERS))
    probabilities[np.arange(n), favourite[stores]] += FAVOURITE_SHARE
    rates = _rates(stores, contexts, seed)
    bought = rng.random(n) < rates[np.arange(n), arms]
    seconds = np.sort(rng.random(n)) * 12 * 7 * 86400
    start = np.datetime64("2026-01-05T00:00:00", "us")
    names = np.array([f"store-{store + 1}" for store in range(N_STORES)])
    frame = pl.DataFrame(
        {
            "decision_id": [f"visit-{row:05}" for row in range(n)],
            "time": start + (seconds * 1e6).astype("timedelta64[us]"),
            "task": names[stores],
            "arm": np.array(OFFERS)[arms],
            "eligible": [list(OFFERS)] * n,
            "probabilities": pl.Series(probabilities).cast(pl.List(pl.Float64)),
            "context": contexts.to_struct(),
            "propensity": probabilities[np.arange(n), arms],
            "reward": bought,
            "policy": ["by hand"] * n,
        }
    )
    return Log(frame, names=Names(task="store", arm="offer", reward="sale"))


def retailer_rates(tasks: Any, contexts: Any, seed: int = 0) -> Array:
    """Return the true probability of buying after each offer, which no log tells.

    Parameters
    ----------
    tasks : sequence of str
        "store-1" to "store-60", one for every row.
    contexts : table
        With the columns of :data:`FEATURES`.
    seed : int
        That of the retailer.

    Returns
    -------
    ndarray of shape (n_rows, 4)
        In the order of :data:`OFFERS`.

    Examples
    --------
    >>> visitor = {"returning": [1], "basket": [0.5], "phone": [0], "weekend": [1]}
    >>> retailer_rates(["store-17"], visitor).round(2)
    array([[0.07, 0.05, 0.28, 0.08]])
    """
    stores = np.array([int(str(task).removeprefix("store-")) - 1 for task in tasks], dtype=np.int64)
    return _rates(stores, contexts, seed)


def _streams(seed: int) -> list[np.random.Generator]:
    """Return the random numbers of the stores and those of their visitors: more visitors are the same stores."""
    return [np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(2)]


def _rates(stores: Any, contexts: Any, seed: int) -> Array:
    rng, _ = _streams(seed)
    coefficients = _TYPICAL + rng.normal(size=(N_STORES, *_TYPICAL.shape)) * _SPREAD
    X = as_frame(contexts).select(FEATURES).to_numpy().astype(np.float64)
    logits = coefficients[stores, :, 0] + np.einsum("nkd,nd->nk", coefficients[stores, :, 1:], X)
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))
