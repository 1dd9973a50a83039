"""What a fleet could not learn yet and what looks unusual, in sentences that name its arms and features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.engine.site_store import SiteStore
from posse.features.categories import OneHot
from posse.fleet.drifting import drift_findings
from posse.fleet.products import products_of
from posse.fleet.unseen import unseen_categories
from posse.kernels import estimators
from posse.kernels.evidence import SETTLED
from posse.model.findings import Names, Seen, data_findings, unusual_findings
from posse.model.refresh import unusual

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.types import Array

LATE = 2.0  # times the growth of rewards at which the population should have been estimated


def findings_of(fleet: Fleet) -> list[str]:
    """Return what a fleet could not learn and what looks unusual."""
    with fleet._lock:
        if fleet._partial:
            return ["only some tasks of this fleet were loaded: load all of it to see what could not be learned"]
        fleet._engine.ensure_fresh()
        names = Names(arm=lambda arm: repr(fleet._arms.label(arm)), feature=lambda i: repr(fleet._features.columns[i]))
    products = products_of(fleet).sums
    if isinstance(fleet._engine.store, SiteStore):
        return _site_findings(fleet, fleet._engine.store, products, names)
    with fleet._lock:
        found = _of_data(fleet, products, names)
        found += map(str, unseen_categories(fleet._features, products))
        if fleet._engine.fading is not None:
            found += drift_findings(fleet._engine.fading, fleet._tasks)
        if fleet._behaviour.method != estimators.EVIDENCE or not products[-1, -1] > 0:
            return found
        evidence = fleet._engine.store.memory.evidence
        if evidence.refreshed_at[0] > 0 and evidence.steps[0] > 0:
            settled = bool(evidence.last_move[0] < SETTLED)
            found += unusual_findings(unusual(fleet._engine.store.belief, evidence, converged=settled), names)
        if not fleet._engine.is_refreshing and fleet._engine.store.refresh_due(LATE * fleet._engine.growth):
            found.append(
                f"the population was estimated from {evidence.refreshed_at[0]:,.0f} of "
                f"{fleet._engine.store.n_rewards:,.0f} rewards: later estimates have failed or are late "
                "(the log named posse says why)"
            )
        return found


def _site_findings(fleet: Fleet, store: SiteStore, products: Array, names: Names) -> list[str]:
    """Return the same for clicks and counts, whose sums are over sites: what they say about rewards is left out."""
    products[-1], products[:, -1], products[-1, -1] = 0.0, 0.0, 1.0
    contexts = store.sum_of_contexts()  # as they were: those of sites are scaled
    with fleet._lock:
        found = _of_data(fleet, products, names)
        found += map(str, unseen_categories(fleet._features, contexts[None]))
        if fleet._engine.fading is not None:
            found += drift_findings(fleet._engine.fading, fleet._tasks)
        evidence = store.memory.evidence
        if not evidence.steps[0] > 0:
            return found
        if not store.rewards_vary():
            found.append(f"every reward is {store.mean_reward():g}: rates beyond those seen cannot be told apart")
        settled = bool(evidence.last_move[0] < SETTLED)
        # Noise is known, so it is neither quiet nor uneven, nor to be told from differences between tasks.
        seen = unusual(store.belief, evidence, converged=settled)
        found += unusual_findings(seen._replace(quiet=(), coefficient_share=0.0, overdispersion=1.0), names)
        return found


def _of_data(fleet: Fleet, products: Array, names: Names) -> list[str]:
    found = data_findings(_seen(fleet, products), names)
    if len(fleet._arms.active) == 1:
        found.append("there is one arm only, so there is nothing to choose: add another with add_arm")
    return found


def _seen(fleet: Fleet, products: Array) -> Seen:
    belief, spec = fleet._engine.store.belief, fleet._features
    first = {int(belief.task_of[belief.seen[arm, 0]]) for arm in np.flatnonzero(belief.n_seen)}
    return Seen(
        tasks=belief.n_seen,
        rewards=belief.rewards,
        # Two arms with one task each may share it; an arm with two tasks needs no more looking.
        n_tasks=max(len(first), int(belief.n_seen.max())),
        products=products,
        intercept=0 if spec.intercept else None,
        categories=[range(a, b) for feature, a, b in spec._layout if isinstance(feature, OneHot)],
        arms=fleet._arms.active,
        pooled=fleet._behaviour.method != estimators.KNOWN,
    )
