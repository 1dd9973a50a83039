"""Estimating the evidence prior of a fleet: the policies' steps, with the arms side by side on all cores."""

from __future__ import annotations

from collections.abc import Callable

from posse.fleet.threads import pool, workers
from posse.kernels import evidence as kernels
from posse.kernels.posterior import Belief, Buffers, new_buffers

MANY = 2000  # pairs with rewards from which on threads are worth their start


def new_rooms(belief: Belief) -> list[Buffers]:
    """Return what a refresh works in: one room, or one for every arm if there is much to do."""
    n_arms, d = belief.shared_mean.shape
    much = int(belief.n_seen.sum()) >= MANY and workers() > 1
    return [new_buffers(d) for _ in range(n_arms if much else 1)]


def refresh_evidence(
    belief: Belief,
    evidence: kernels.Evidence,
    rooms: list[Buffers],
    *,
    rebuild: bool,
    steps: int,
    settled: float,
) -> None:
    """Improve the prior of all arms by warm-started steps, and rebuild every posterior.

    The same as :func:`posse.kernels.evidence.refresh_evidence`, whose arms take turns. With ``rebuild`` the posteriors
    are of before some rewards came, and are rebuilt under the old prior first.
    """
    n_arms = belief.rewards.size

    def each(work: Callable[[int, Buffers], None]) -> None:
        if len(rooms) == 1:
            for arm in range(n_arms):
                work(arm, rooms[0])
        else:
            list(pool().map(work, range(n_arms), rooms))

    total = float(belief.rewards.sum())
    kernels.measure(belief, evidence)
    evidence.steps[0] = 0.0
    if not evidence.reward_square[0] > 0.0:
        evidence.reward_square[0] = 1.0
        kernels.admit_features(belief, evidence)
        kernels.set_start(belief, evidence)
        each(lambda arm, room: kernels.rebuild_arm(belief, evidence, arm, room))
        evidence.reward_square[0] = 0.0
        return
    fresh = evidence.refreshed_at[0] < n_arms
    evidence.refreshed_at[0] = total
    admitted = kernels.admit_features(belief, evidence)
    if fresh:
        kernels.set_start(belief, evidence)
    if fresh or admitted or rebuild:
        each(lambda arm, room: kernels.rebuild_arm(belief, evidence, arm, room))
    if fresh and total < n_arms:
        return
    for _ in range(steps):
        each(lambda arm, room: kernels.summarise(belief, evidence, arm, room))
        move = kernels.improve(belief, evidence, rooms[0])
        evidence.steps[0] += 1.0
        evidence.last_move[0] = move
        each(lambda arm, room: kernels.rebuild_arm(belief, evidence, arm, room))
        if move < settled:
            break
