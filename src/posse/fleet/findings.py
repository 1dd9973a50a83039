"""What a fleet could not learn yet and what looks unusual, in sentences that name its arms and features."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.core.looking import estimated_at, is_late, kinds_of, products_of, unusual_of
from posse.core.revenue import of_all_rewards
from posse.families.wrong_family import wrong_family
from posse.features.categories import OneHot
from posse.fleet.expecting import reward_range
from posse.model.findings import Names, Seen, data_findings, unusual_findings

if TYPE_CHECKING:
    from posse.features import FeatureSpec
    from posse.fleet.fleet import Fleet
    from posse.types import Array

FAR_FROM_POISSON, FEWEST_COUNTS = 1.5, 50  # times a mean, from which a variance is worth a sentence; counts of an arm
LATE = 2.0  # times the growth of rewards at which the population should have been estimated


class Unseen(NamedTuple):
    """A feature with categories that were not declared.

    Parameters
    ----------
    feature : str
    rows : float
        Rewards whose context had one; those without a value are among them if ``missing="zeros"``.
    of : float
        Rewards in all.
    or_missing : bool
        Whether rows without a value count among them.
    """

    feature: str
    rows: float
    of: float
    or_missing: bool

    def __str__(self) -> str:
        category = "a category that is not declared" + (", or none," if self.or_missing else "")
        return (
            f"feature {self.feature!r} had {category} in {self.rows:,.0f} of {self.of:,.0f} rewards "
            f"({self.rows / self.of:.1%}): "
            "all such categories are treated alike; declare those that matter in a new fleet"
        )


def unseen_categories(spec: FeatureSpec, sums: Array) -> list[Unseen]:
    """Return the one-hot features that met categories which they do not know.

    Parameters
    ----------
    spec : FeatureSpec
        Without an intercept nothing can be said, since the number of rows is not among the sums.
    sums : ndarray of shape (n_columns,)
        Sums of the columns over all rewards.
    """
    if not spec.intercept:
        return []
    found = []
    for feature, first, last in spec.layout:
        if not isinstance(feature, OneHot) or feature.unknown == "error":
            continue
        if feature.unknown == "other":
            rows = float(sums[first + len(feature.categories)])
        else:
            rows = float(sums[0] - sums[first:last].sum())  # rows in which none of its columns is 1
        if rows > 0.5:  # sums of ones are exact, sums that were discounted are not
            zeros = feature.unknown == "zeros" and feature.missing == "zeros"
            found.append(Unseen(feature.name, rows, float(sums[0]), zeros))
    return found


def findings_of(fleet: Fleet) -> list[str]:
    """Return what a fleet could not learn and what looks unusual."""
    core, spec, linked = of_all_rewards(fleet.core), fleet.features, fleet.rewards != "number"
    with fleet.lock:
        if fleet.partial:
            return ["only some tasks of this fleet were loaded: load all of it to see what could not be learned"]
        fleet.core.ensure_fresh()
        names = Names(arm=lambda arm: repr(fleet.names.arms.label(arm)), feature=lambda i: repr(spec.columns[i]))
        products = products_of(core, fleet.now)
        columns = products[0, :-1]
        if linked:  # sums are over sites: what they say about rewards is left out
            products[-1], products[:, -1], products[-1, -1] = 0.0, 0.0, 1.0
            columns = core.plain_sums().contexts.sum(axis=0)
        found = data_findings(_seen(fleet, products), names)
        if len(fleet.arms) == 1:
            found.append("there is one arm only, so there is nothing to choose: add another with add_arm")
        found += map(str, unseen_categories(spec, columns))
        if not linked:
            wrong = wrong_family(kinds_of(core, 0 if spec.intercept else None))
            found += [] if wrong is None else [str(wrong)]
        if fleet.fades:
            found += drift_findings(fleet)
        unusual = unusual_of(core) if fleet.settings.prior == "evidence" and products[-1, -1] > 0 else None
        if unusual is None:
            return found
        if linked:
            varies, mean = reward_range(fleet)
            if fleet.rewards == "count":
                found += scattered_counts(fleet)
            if not varies:
                unknown = "rates beyond those seen cannot be told apart"
                if fleet.rewards == "revenue":
                    unknown = "nothing says yet " + ("how many pay less" if mean > 0 else "how much is paid")
                found.append(f"every reward is {mean:g}: {unknown}")
            # Noise is known, so it is neither quiet nor uneven, nor to be told from differences between tasks.
            unusual = unusual._replace(quiet=(), coefficient_share=0.0, overdispersion=1.0)
        found += unusual_findings(unusual, names)
        if not linked and not core.refreshing and is_late(core, LATE):
            found.append(
                f"the population was estimated from {estimated_at(core):,.0f} of {core.n_rewards:,.0f} rewards: later "
                "estimates have failed or are late (the log named posse says why)"
            )
        return found


def scattered_counts(fleet: Fleet) -> list[str]:
    """Return a sentence about counts that scatter far more than Poisson's; the lock must be held."""
    plain, dispersion = fleet.core.plain_sums(), fleet.core.state.population.dispersion
    total, counts = (
        np.bincount(plain.arms, weights=part, minlength=dispersion.size) for part in (plain.total, plain.counts)
    )
    times = 1.0 + dispersion * total / np.maximum(counts, 1.0)
    far = (times > FAR_FROM_POISSON) & (counts >= FEWEST_COUNTS)
    if not far.any():
        return []
    least, most = (f"{value:.2g}" for value in (dispersion[far].min(), dispersion[far].max()))
    between = least if least == most else f"{least} to {most}"
    return [
        f"counts scatter more than Poisson's law says: their variance is up to {times[far].max():.2g} times their mean "
        f"(mean + {between} mean^2, as learned), and intervals allow for it"
    ]


def _seen(fleet: Fleet, products: Array) -> Seen:
    core, spec = fleet.core, fleet.features
    tasks, arms, *_, counts = core.sums(None, fleet.now)
    return Seen(
        tasks=np.bincount(arms, minlength=core.n_arms),
        rewards=np.asarray(np.bincount(arms, weights=counts, minlength=core.n_arms), dtype=np.float64),
        n_tasks=np.unique(tasks).size,
        products=products,
        intercept=0 if spec.intercept else None,
        categories=[range(a, b) for feature, a, b in spec.layout if isinstance(feature, OneHot)],
        arms=fleet.names.arms.active.arms,
        pooled=fleet.settings.learns_population,
    )


def drift_findings(fleet: Fleet) -> list[str]:
    """Return in plain sentences what was found about changes."""
    found, noticed, half_life = [], fleet.changes, fleet.half_life
    if fleet.settings.drift == "learn" and half_life is not None:
        found.append(
            f"coefficients change with time: a half-life of {in_words(half_life)} was learned, and older rewards "
            "count less"
        )
    everywhere = [change for change in noticed if change.task is None]
    if everywhere:
        often = "noticed" if len(everywhere) == 1 else f"{len(everywhere)} times so far, noticed last"
        found.append(
            f"all tasks changed at once, {often} on "
            f"{everywhere[-1].time:%Y-%m-%d at %H:%M} UTC: they started afresh then"
        )
    alone = [change for change in noticed if change.task is not None]
    if alone:
        many, last = len({change.task for change in alone}), alone[-1]
        who = f"task {last.task!r} changed suddenly and started afresh"
        if many > 1:
            who = f"{many} tasks changed suddenly and started afresh, the last of them {last.task!r}"
        found.append(f"{who}, noticed on {last.time:%Y-%m-%d at %H:%M} UTC")
    return found


def in_words(half_life: timedelta) -> str:
    """Return a half-life as people say it."""
    days = half_life / timedelta(days=1)
    if days >= 2:
        return f"{days:.3g} days"
    return f"{24 * days:.3g} hours" if days >= 1 / 24 else f"{86400 * days:.3g} seconds"
