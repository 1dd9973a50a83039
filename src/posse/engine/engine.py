"""The engine: many hierarchical posteriors that decide, learn, and have their population estimated.

It knows tasks and arms by number, contexts as encoded arrays, and neither names, ids nor files. A :class:`posse.Posse`
has one, a replica of the service has one, and so does a shard. Deciding is in :mod:`posse.engine.decide`, learning in
:mod:`posse.engine.learn`; here is what they work on, and when the population is estimated.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from posse.engine import loading
from posse.engine.background import end_beside, run_beside, run_later
from posse.engine.site_store import SiteStore, load_sites
from posse.engine.store import Store
from posse.families import RewardFamily, linked_family_of
from posse.kernels import estimators
from posse.kernels.evidence import SETTLED, STEPS

if TYPE_CHECKING:
    import threading

    from posse.engine.fading import Fading
    from posse.engine.known import Known
    from posse.engine.learn import PreparedUpdate
    from posse.kernels.rule import Rule
    from posse.model.prior import Prior
    from posse.model.refresh import Refresh

FIT_ROUNDS = 4  # of effects and population in turn after a batch; one at every other refresh
FIT_STEPS, FIT_SETTLED = 30, 1e-2  # of the prior after a batch, which may be all the data there will ever be

logger = logging.getLogger("posse")


class Engine:
    """Arrays, and when their population is estimated. Whoever calls a method holds the lock.

    Parameters
    ----------
    start : Prior
        What stands until rewards say otherwise, or for good if the method is "known".
    method : int
        One of the codes in :mod:`posse.kernels.estimators`.
    rule : Rule
        What turns beliefs into probabilities.
    family : RewardFamily
        Of the rewards.
    growth : float
        The population is estimated anew when rewards have grown by this fraction.
    lock : RLock
        Of whoever has this engine; an estimate in the background takes it.
    robust : bool, default False
    extendable : bool, default False
        Whether an arm may be added under a known prior.
    in_background : bool, default False
        Whether the population is estimated on other threads where that is possible.
    """

    def __init__(
        self,
        *,
        start: Prior,
        method: int,
        rule: Rule,
        family: RewardFamily,
        growth: float,
        lock: threading.RLock,
        robust: bool = False,
        extendable: bool = False,
        in_background: bool = False,
    ) -> None:
        self.method, self.rule, self.family, self.growth = method, rule, family, growth
        self.lock = lock
        self.in_background = in_background
        self.thread: threading.Thread | None = None
        """What estimates the population at the moment."""
        self.learns_first = False
        """Whether a batch of any size is learned under the population in force if an estimate can follow later."""
        self.known: Known | None = None
        """What is known about tasks and arms, if such features were declared."""
        self.fading: Fading | None = None
        """What lets old rewards count less, in a world that changes."""
        self.store = (
            Store(start=start, method=method, robust=robust, extendable=extendable, rule=rule)
            if family.name == "number"
            else SiteStore(start=start, family=linked_family_of(family.name), growth=growth, rule=rule)
        )

    @property
    def estimates_later(self) -> bool:
        """Whether the population is estimated in the background."""
        return self.in_background and self.method == estimators.EVIDENCE and self.known is None

    def know(self, known: Known | None) -> None:
        """Have features of tasks and arms, before the first reward."""
        self.known = known
        if known is not None and isinstance(self.store, SiteStore):
            self.store.know(known)

    def require_loaded(self, *, one: bool = False) -> None:
        """Raise what keeps the compiled code of learning from being loaded; see :mod:`posse.engine.loading`.

        Only that of this kind of rewards: the first fleet of clicks does not wait for what numbers need.
        """
        if isinstance(self.store, SiteStore):
            load_sites()
        else:
            loading.require_loaded(one=one)

    @property
    def is_refreshing(self) -> bool:
        """Whether the population is being estimated; a forked child does not have its parent's thread."""
        return self.thread is not None and self.thread.is_alive()

    def ensure_fresh(self) -> None:
        """Make sure that what is believed is about all that was learned."""
        store = self.store
        if store.stale and store.n_rewards > 0 and not store.postponed:
            self.renew()
        if store.stale:
            store.rebuild()

    def refresh(self, *, steps: int = FIT_STEPS, settled: float = FIT_SETTLED, sample: int | None = None) -> None:
        """Estimate the population anew, now, after what is under way in the background; raise what keeps it from it."""
        self.finish_background()
        self.store.refresh(steps=steps, settled=settled, sample=sample)
        self._learn_effects(steps=steps, settled=settled)

    def renew(self, refresh: Refresh | None = None, *, steps: int = FIT_STEPS, settled: float = FIT_SETTLED) -> None:
        """Estimate the population anew. If that fails, it stays as it was and what was learned counts all the same."""
        try:
            self.store.refresh(refresh, steps=steps, settled=settled)
            self._learn_effects(steps=steps, settled=settled)
        except Exception as error:
            self.store.postpone(error)
            logger.exception(
                "the population could not be estimated and stays as it is until more rewards have come; all rewards "
                "so far are learned"
            )

    def _learn_effects(self, *, steps: int, settled: float) -> None:
        """Learn what features of tasks and arms say, after the population, and then the population around that."""
        if self.known is not None:
            self.known.learn(self.store, rounds=FIT_ROUNDS if steps >= FIT_STEPS else 1, steps=steps, settled=settled)

    def refresh_later(
        self, *, steps: int = STEPS, settled: float = SETTLED, sample: int | None = None, look: bool = False
    ) -> None:
        """Start an estimate of the population in the background unless one is under way.

        With ``look`` only what follows from the one in force is computed: sums have faded.
        """
        if self.is_refreshing:
            return
        self.store.kept = None
        try:
            if isinstance(self.store, SiteStore):
                run_beside(self, steps=steps, settled=settled)
            else:
                run_later(self, steps=steps, settled=settled, sample=sample, look=look)
        except Exception as error:  # no memory, no thread, no file
            self.store.postpone(error)
            logger.exception("a refresh in the background could not be started; the population stays as it is")

    def finish_background(self) -> None:
        """Wait for an estimate of clicks or counts that is under way, and go on from there."""
        if isinstance(self.store, SiteStore) and self.store.beside is not None:
            end_beside(self)

    def estimate_after_one(self, refresh: Refresh | None) -> None:
        """Estimate the population after one reward after which that is due; see ``prepare_one``."""
        if self.estimates_later:
            self.refresh_later()
        else:
            self.renew(refresh, steps=STEPS, settled=SETTLED)

    def estimate_after(self, update: PreparedUpdate) -> None:
        """Estimate the population after rows, if it is due. Who is interrupted here has learned all the same."""
        if update.way == "refresh":
            if not self.store.postponed:
                self.renew(update.refresh)
            return
        due = self.store.refresh_due(self.growth, provisional=update.provisional)
        if update.way == "one by one" and self.estimates_later and due:
            self.refresh_later()
