r"""What is known about tasks and arms before their first reward, and what follows from it.

The coefficients of arm k in task j lie around :math:`m_k + W_k z_j + M f_k`, where :math:`z_j` is what is known about
the task and :math:`f_k` what is known about the arm. The *offset* :math:`o_{jk} = W_k z_j + M f_k` is held fixed
between two refreshes; rewards are learned less :math:`x^\top o_{jk}`, so that everything else is as it is in a fleet
without features, and every prediction adds it again. A refresh learns the effects W and M anew and moves the sums to
the new offsets, which is exact: :math:`b - A\,\delta` and :math:`q - 2 \delta^\top b + \delta^\top A\,\delta`.
Clicks and counts are learned as sites on their predictor less :math:`x^\top o_{jk}`: see
:mod:`posse.engine.site_offsets`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.commit import commit
from posse.engine.site_offsets import moving_rows, setting_offsets
from posse.engine.site_store import SiteStore
from posse.kernels.known import KnownSide, add_known
from posse.kernels.packing import whole_matrices, whole_matrix
from posse.model.effects import Effects, centred, learn_effects, no_effects, regression, task_information
from posse.model.refresh import centring

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.engine.store import Store
    from posse.features import FeatureSpec
    from posse.kernels.sums import Sums
    from posse.types import Array, BoolArray, IntArray

BLOCK = 4096  # pairs whose matrices are made whole at a time


class Side:
    """Features of tasks, or of arms, by number: what is known, and the effects of it.

    Parameters
    ----------
    spec : FeatureSpec or None
        None if nothing is declared.
    """

    def __init__(self, spec: FeatureSpec | None, n_units: int, n_features: int) -> None:
        self.spec = spec
        self._skipped = int(spec is not None and spec.intercept)  # the mean itself is in the fleet's own model
        self.n_columns = 0 if spec is None else spec.n_features - self._skipped
        groups: list[int] = []
        for place, feature in enumerate(() if spec is None else spec.features):
            groups += [place] * feature.width
        self.groups = np.array(groups, dtype=np.int64)
        self.rows: Array = np.zeros((0, self.n_columns))
        self.given: BoolArray = np.zeros(0, dtype=np.bool_)
        self.average: Array = np.zeros(self.n_columns)  # of the units that are known, and how they scatter around it
        self.scatter: Array = np.zeros((self.n_columns, self.n_columns))
        self.unit: Array = np.eye(n_features)  # covariance of effects of size 1 in all standardised columns
        self.raw: dict[int, list[Any]] = {}
        self._in_force: tuple[Effects, KnownSide] | None = None
        self.effects = no_effects(n_units, self.n_columns, n_features, 0 if spec is None else len(spec.features))

    def encode(self, values: Any) -> Array:
        """Return columns of many units, shape (n, n_columns)."""
        assert self.spec is not None
        return self.spec.encode_many(values)[:, self._skipped :]

    def of(self, numbers: IntArray) -> Array:
        """Return what is known about some units, shape (n, n_columns); the average of all where that is nothing."""
        there = self.has(numbers)
        result = np.tile(self.average, (numbers.size, 1))
        result[there] = self.rows[numbers[there]]
        return result

    def has(self, numbers: IntArray) -> BoolArray:
        """Return about which units something is known."""
        result = (numbers >= 0) & (numbers < len(self.rows))
        result[result] = self.given[numbers[result]]
        return result

    def averages(self, numbers: IntArray) -> tuple[Array, Array]:
        """Return what is known about some units on average, and how they scatter around it."""
        rows = self.rows[numbers[self.has(numbers)]]
        if not len(rows):
            return np.zeros_like(self.average), np.zeros_like(self.scatter)
        average = rows.mean(axis=0)
        return average, (rows - average).T @ (rows - average) / len(rows)

    def one(self, number: int) -> tuple[Array, bool]:
        """Return what is known about a unit, the average of all if nothing is, and whether something is."""
        if 0 <= number < len(self.rows) and self.given[number]:
            return self.rows[number], True
        return self.average, False

    def effects_in_force(self) -> KnownSide:
        """Return the effects as compiled code takes them."""
        effects = self.effects
        if self._in_force is None or self._in_force[0] is not effects:
            parts = (effects.mean, effects.covariance, effects.give, self.scatter, self.unit)
            mean, covariance, give, scatter, of_unit = (
                np.require(part, requirements=["C", "A", "W"]) for part in parts
            )
            columns = np.nan_to_num(effects.variance)[self.groups]
            learned = bool(effects.mean.any())
            self._in_force = effects, KnownSide(mean, covariance, give, scatter, columns, of_unit, learned)
        return self._in_force[1]

    def _any(self, z: Array) -> Array:
        """Return the variance of effects that nothing was learned about, in units of standardised columns."""
        of_columns = np.nan_to_num(self.effects.variance)[self.groups]
        return np.asarray(z**2 @ of_columns)

    def covariance(self, unit: int, number: int, through: Array) -> Array:
        """Return what features add to the covariance of coefficients, in all directions."""
        effects, one = self.effects, np.array([number])
        z = self.of(one)
        if unit >= len(effects.mean):
            return np.asarray(self._any(z)[0] * through @ self.unit @ through.T)
        direction = np.kron(z[0], through) - through @ effects.give[unit]
        result = direction @ effects.covariance[unit] @ direction.T
        if not self.has(one)[0]:
            result = result + through @ effects.mean[unit].T @ self.scatter @ effects.mean[unit] @ through.T
        return np.asarray(result)

    def sizes(self, numbers: IntArray) -> Array:
        """Return how large every feature is: the mean square of its columns together, over some units."""
        squares = (self.of(numbers) ** 2).sum(axis=0) / max(numbers.size, 1)
        sizes = np.bincount(self.groups, weights=squares, minlength=self.effects.variance.size)
        return np.where(sizes > 0, sizes, 1.0)

    def says(self) -> dict[str, float]:
        """Return the standard deviation of every feature's effects over the units that are known."""
        if self.spec is None:
            return {}
        variance, sizes = np.nan_to_num(self.effects.variance), self.sizes(np.flatnonzero(self.given))
        return dict(zip(self.spec.names, np.sqrt(variance * sizes).tolist(), strict=True))

    def reserve(self, count: int) -> None:
        """Make room for so many units."""
        if count > len(self.rows):
            rows = np.zeros((max(count, 2 * len(self.rows)), self.n_columns))
            rows[: len(self.rows)] = self.rows
            given = np.zeros(len(rows), dtype=np.bool_)
            given[: len(self.given)] = self.given
            self.rows, self.given = rows, given

    def setting(self, numbers: IntArray, encoded: Array, raw: list[list[Any]]) -> Steps:
        """Know this about some units, for which there must be room."""
        return [
            partial(self.rows.__setitem__, numbers, encoded),
            partial(self.given.__setitem__, numbers, True),
            partial(self.raw.update, zip(numbers.tolist(), raw, strict=True)),
        ]

    def forgetting(self, numbers: IntArray) -> Steps:
        """Know nothing about some units."""
        there = numbers[numbers < len(self.rows)]
        return [
            partial(self.rows.__setitem__, there, 0.0),
            partial(self.given.__setitem__, there, False),
            *(partial(self.raw.pop, number, None) for number in numbers.tolist()),
        ]


class Known:
    """What is known about tasks and arms, and the offsets that follow.

    Nothing is checked here, and nothing locked.

    Parameters
    ----------
    task_features, arm_features : FeatureSpec or None
    n_arms, n_features : int
        Of the fleet.
    """

    def __init__(
        self, task_features: FeatureSpec | None, arm_features: FeatureSpec | None, n_arms: int, n_features: int
    ) -> None:
        self.n_features = n_features
        self.tasks = Side(task_features, n_arms, n_features)  # every arm has effects of its own
        self.arms = Side(arm_features, 1, n_features)
        self.arms.reserve(n_arms)

    @property
    def task_names(self) -> tuple[str, ...]:
        """The raw features of a task."""
        return () if self.tasks.spec is None else self.tasks.spec.names

    def about(self, task: int | None) -> dict[str, Any]:
        """Return what is known about a task by name, as a log has it; None for each feature if that is nothing."""
        raw = None if task is None else self.tasks.raw.get(task)
        return dict.fromkeys(self.task_names) if raw is None else dict(zip(self.task_names, raw, strict=True))

    def offsets(self, tasks: IntArray, arms: IntArray, z: Array | None = None) -> Array:
        """Return where the coefficients of pairs lie beyond the mean of their arms, shape (n, n_features)."""
        z = self.tasks.of(tasks) if z is None else z
        # Not as products of matrices, whose rounding depends on how many rows there are.
        by_task = np.einsum("np,npi->ni", z, self._effects_of(arms))
        result: Array = by_task + np.einsum("np,pi->ni", self.arms.of(arms), self.arms.effects.mean[0])
        return result

    def _effects_of(self, arms: IntArray) -> Array:
        """Return the effects of tasks' features on arms; those that came after the last refresh have none yet."""
        mean = self.tasks.effects.mean
        there = arms < len(mean)
        result = np.zeros((arms.size, *mean.shape[1:]))
        result[there] = mean[arms[there]]
        return result

    def shift(self, tasks: IntArray, arms: IntArray, contexts: Array) -> Array:
        """Return by how much rewards are lowered before they are learned, shape (n,)."""
        result: Array = np.einsum("ni,ni->n", contexts, self.offsets(tasks, arms))
        return result

    def add(
        self, store: Store, task: int, x: Array, arms: IntArray, mean: Array, sd: Array, *, as_new: bool = False
    ) -> None:
        """Add offsets, and how uncertain they are, to what is believed about arms in one task; it must be settled.

        ``as_new`` if what is believed is that of a task without rewards.
        """
        belief, of_task, of_arms = store.belief, self.tasks.effects_in_force(), self.arms.effects_in_force()
        sums, n = belief.sums, arms.size
        rows = belief.slot[task, arms] if task >= 0 and not as_new else np.full(n, -1, dtype=np.int64)
        f, arm_known = np.empty((n, 0)), np.empty(n, dtype=np.bool_)
        if self.arms.n_columns:
            f, arm_known = self.arms.of(arms), self.arms.has(arms)
        z, task_known = self.tasks.one(task)
        room = np.empty((4, max(self.tasks.n_columns, self.arms.n_columns, 1) * self.n_features))
        add_known(
            x, arms, rows, sums.counts, sums.gram, belief.local_covariance, belief.shared_covariance,
            belief.shared_precision, of_task, z, task_known, of_arms, f, arm_known, room, mean, sd,
        )  # fmt: skip

    def coefficients(self, store: Store, task: int, arm: int, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Return mean and covariance of coefficients with the offset of their pair; it must be settled."""
        belief, d = store.belief, self.n_features
        one, at = np.array([task]), np.array([arm])
        leaning = np.eye(d)
        row = int(belief.slot[task, arm]) if task >= 0 else -1
        if row >= 0 and belief.sums.counts[row] > 0:
            gram, local = (whole_matrix(part[row]) for part in (belief.sums.gram, belief.local_covariance))
            leaning -= local @ gram
        through = leaning @ belief.shared_covariance[arm] @ belief.shared_precision[arm]
        covariance = covariance + self.tasks.covariance(arm, task, leaning) + self.arms.covariance(0, arm, through)
        return mean + self.offsets(one, at)[0], covariance

    def raw_sums(self, tasks: IntArray, arms: IntArray, sums: Sums) -> Sums:
        """Return sums of pairs, matrices whole, as they are of rewards as they came."""
        offsets = self.offsets(tasks, arms)
        moved = np.einsum("nij,nj->ni", sums.gram, offsets)
        squares = sums.sum_of_squares + np.einsum("ni,ni->n", offsets, moved + 2.0 * sums.moment)
        return sums._replace(moment=sums.moment + moved, sum_of_squares=squares)

    def raised(self, store: Store, slots: IntArray, sums: Sums, by: float) -> Sums:
        """Return copied sums of pairs as those of rewards as they came (1.0), and back (-1.0)."""
        offsets = by * self.offsets(store.belief.task_of[slots], store.arm_of(slots))
        moved = np.einsum("nij,nj->ni", whole_matrices(sums.gram), offsets)
        squares = sums.sum_of_squares + np.einsum("ni,ni->n", offsets, moved + 2.0 * sums.moment)
        return sums._replace(moment=sums.moment + moved, sum_of_squares=np.maximum(squares, 0.0))

    def moving(self, store: Store, slots: IntArray, arms: IntArray, delta: Array, *, stale: bool = True) -> Steps:
        """Move the sums of pairs by this much in their offsets.

        If that leaves the posterior ``stale``, it must be refreshed before it is used.
        """
        sums = store.belief.sums
        store.keep(slots, arms)
        moment, squares = sums.moment[slots], sums.sum_of_squares[slots]
        for first in range(0, slots.size, BLOCK):
            part = slice(first, first + BLOCK)
            moved = np.einsum("nij,nj->ni", whole_matrices(sums.gram[slots[part]]), delta[part])
            squares[part] += np.einsum("ni,ni->n", delta[part], moved - 2.0 * moment[part])
            moment[part] -= moved
        return [
            partial(store.__dict__.update, stale=stale, version=store.version + 1),
            *(moving_rows(store, slots, delta) if isinstance(store, SiteStore) else ()),
            partial(sums.moment.__setitem__, slots, moment),
            partial(sums.sum_of_squares.__setitem__, slots, np.maximum(squares, 0.0)),
            partial(store._capacity.settled.__setitem__, slots, -1),
        ]

    def moving_tasks(self, store: Store, tasks: IntArray, encoded: Array) -> tuple[Steps, int]:
        """Move the sums of tasks about which something else will be known; also return of how many rewards that is.

        The population stays: what these tasks say about shared means changes, which is exact and costs nothing for all
        others.
        """
        slots = store.belief.slot[tasks, : store.n_arms]
        place, arms = np.nonzero(slots >= 0)
        slots = slots[place, arms]
        offsets = setting_offsets(store, self, tasks, encoded) if isinstance(store, SiteStore) else []
        seen = store.belief.sums.counts[slots] > 0
        place, arms, slots = place[seen], arms[seen], slots[seen]
        n_rewards = int(store.belief.sums.counts[slots].sum())
        delta = self.offsets(tasks[place], arms, encoded[place]) - self.offsets(tasks[place], arms)
        if not delta.any():
            return offsets, n_rewards
        if not store.stale:
            store.settle(np.unique(tasks[place]).tolist())
        shared = [] if store.stale else self._moving_shared(store, slots, arms, delta)
        return [*self.moving(store, slots, arms, delta, stale=store.stale), *shared, *offsets], n_rewards

    def _moving_shared(self, store: Store, slots: IntArray, arms: IntArray, delta: Array) -> Steps:
        """Let shared means follow sums that are moved; pairs must be settled."""
        belief = store.belief
        moment, mean = belief.shared_moment.copy(), belief.shared_mean.copy()
        gram, local = (whole_matrices(part[slots]) for part in (belief.sums.gram, belief.local_covariance))
        less = np.einsum("nij,nj->ni", gram, delta)
        # What a pair says about the shared mean: (I - A Ct) b / s2, see posse.kernels.posterior.
        less -= np.einsum("nij,njk,nk->ni", gram, local, less)
        np.subtract.at(moment, arms, less / belief.noise_variance[arms, None])
        for arm in np.unique(arms).tolist():
            mean[arm] = belief.shared_covariance[arm] @ moment[arm]
        return [
            partial(belief.shared_moment.__setitem__, ..., moment),
            partial(belief.shared_mean.__setitem__, ..., mean),
        ]

    def pairs(self, store: Store) -> tuple[IntArray, IntArray]:
        """Return slots and arms of all pairs with rewards."""
        belief = store.belief
        seen = [belief.seen[arm, : belief.n_seen[arm]] for arm in range(store.n_arms)]
        return np.concatenate(seen), np.repeat(np.arange(store.n_arms), [rows.size for rows in seen])

    def learn(self, store: Store, *, rounds: int, steps: int, settled: float) -> None:
        """Learn the effects of features, after the population, and then the population around that, in turn."""
        if not store.memory.evidence.refreshed_at[0] > 0:
            return
        for _ in range(rounds):
            commit(self.learning(store))
            if store.stale:
                store.refresh(steps=steps, settled=settled)

    def learning(self, store: Store) -> Steps:
        """Learn the effects of features anew under the population in force, and move all sums to the new offsets."""
        belief, evidence = store.belief, store.memory.evidence
        slots, arms = self.pairs(store)
        tasks = belief.task_of[slots]
        before = self.offsets(tasks, arms)
        back, squares = centring(evidence), evidence.feature_square
        by_task, by_arm = self.tasks.effects, self.arms.effects
        d, n_arms = self.n_features, store.n_arms
        design = np.column_stack([np.ones(tasks.size), self.tasks.of(tasks)])
        p = design.shape[1]
        precision, moment = np.zeros((n_arms, p * d, p * d)), np.zeros((n_arms, p * d))
        for first in range(0, slots.size, BLOCK):
            part = slice(first, first + BLOCK)
            gram = whole_matrices(belief.sums.gram[slots[part]])
            # Of the rewards as they came, less only what follows from the features of arms.
            own_offsets = before[part] - self.arms.of(arms[part]) @ by_arm.mean[0]
            own_moment = belief.sums.moment[slots[part]] + np.einsum("nij,nj->ni", gram, own_offsets)
            weight = belief.task_weight[tasks[part]]
            for arm in np.unique(arms[part]).tolist():
                mine = arms[part] == arm
                noise = belief.noise_variance[arm] * weight[mine]
                information = task_information(gram[mine], own_moment[mine], belief.covariance[arm], noise)
                more = regression(design[part][mine], *information)
                precision[arm] += more[0]
                moment[arm] += more[1]
        if self.tasks.n_columns:
            there = np.linalg.inv(back)
            level = float(np.mean(np.einsum("kii,i->k", there @ belief.covariance @ there.T, squares)) / d)
            base = belief.shared_precision, np.einsum("kij,kj->ki", belief.shared_precision, belief.shared_location)
            base = back.T @ base[0] @ back, base[1] @ back
            levels = level / self.tasks.sizes(np.unique(tasks))
            both = centred(precision, moment, back)
            by_task = learn_effects(*both, *base, squares, self.tasks.groups, levels, by_task.variance).turned(back)
        if self.arms.n_columns:
            by_arm = self._arm_effects(store, precision, moment, by_task)
        averages = self.tasks.averages(np.unique(tasks)), self.arms.averages(np.arange(n_arms))
        return self.taking(
            store,
            *(
                {"effects": effects, "average": average, "scatter": scatter, "unit": (back / squares) @ back.T}
                for effects, (average, scatter) in zip((by_task, by_arm), averages, strict=True)
            ),
        )

    def taking(self, store: Store, of_tasks: dict[str, Any], of_arms: dict[str, Any]) -> Steps:
        """Have other effects in force, and what belongs to them, and move all sums to the new offsets."""
        slots, arms = self.pairs(store)
        tasks = store.belief.task_of[slots]
        after = Known.__new__(Known)
        after.__dict__.update(self.__dict__, tasks=_with(self.tasks, of_tasks), arms=_with(self.arms, of_arms))
        delta = after.offsets(tasks, arms) - self.offsets(tasks, arms)
        # Features that say nothing leave everything as it is, to the last digit.
        steps = self.moving(store, slots, arms, delta) if delta.any() else []
        if isinstance(store, SiteStore):
            steps += setting_offsets(store, after)
        return [
            *steps,
            partial(self.tasks.__dict__.update, of_tasks),
            partial(self.arms.__dict__.update, of_arms),
        ]

    def _arm_effects(self, store: Store, precision: Array, moment: Array, by_task: Effects) -> Effects:
        """Learn the effects of arms' features from what the tasks of every arm say about its mean."""
        evidence, d = store.memory.evidence, self.n_features
        back, squares = centring(evidence), evidence.feature_square
        information = precision[:, :d, :d]
        rest = moment[:, :d].copy()
        if by_task.mean.size:
            rest -= np.einsum("kij,kj->ki", precision[:, :d, d:], by_task.mean.reshape(len(rest), -1))
        # Rewards were taken less the old effects of arms' features.
        f = self.arms.of(np.arange(store.n_arms))
        rest += np.einsum("kij,kj->ki", information, f @ self.arms.effects.mean[0])
        spread = np.diag(1.0 / (evidence.shared_scale[0] * squares))
        messages = task_information(back.T @ information @ back, rest @ back, spread, np.ones(len(rest)))
        whole = regression(np.column_stack([np.ones(len(f)), f]), *messages)
        base = np.diag(evidence.arm_precision)[None], np.zeros((1, d))
        levels = 1.0 / float(evidence.shared_scale[0]) / self.arms.sizes(np.arange(store.n_arms))
        learned = learn_effects(
            whole[0][None], whole[1][None], *base, squares, self.arms.groups, levels, self.arms.effects.variance
        )
        return learned.turned(back)


def _with(side: Side, news: dict[str, Any]) -> Side:
    """Return the same features with something else in place."""
    other = Side.__new__(Side)
    other.__dict__.update(side.__dict__ | news)
    return other
