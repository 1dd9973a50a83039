"""Settings of a fleet: everything that may be declared, checked once, and the core that follows from it."""

from __future__ import annotations

import difflib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from posse.checks import number, one_of
from posse.core.capacity import memory
from posse.core.core import Core
from posse.core.forgetting import Forgetting, HalfLife, Learned, Never
from posse.core.revenue import AnyCore, Revenue
from posse.core.rule import Rule
from posse.core.select import OPTIMISTIC, RANDOMISED, SAMPLING, Exploration
from posse.core.size import LARGEST
from posse.errors import InvalidValue, NotFinite, UnknownPolicy
from posse.families import FAMILIES, RewardFamily, family_of
from posse.model.prior import Prior

if TYPE_CHECKING:
    from posse.fleet.known import Known

Drift: TypeAlias = float | timedelta
"""A half-life in days, or as a timedelta."""

DAY = 86400.0
CANDIDATES = tuple(3600.0 * 4.0**power for power in range(8))
"""Half-lives that are compared, in seconds: from an hour to nearly two years."""
MONTH = 30 * DAY
CELL_BYTES = 110  # that a fleet takes for every entry of its arms' covariances, as measured
EVIDENCE_REFRESH = 0.3  # at 0.1 a step takes twice as long, and regret is the same within 1 % (docs/performance.md)
PAPER_EXPLORATION, PAPER_SHARED_PRECISION = 0.1, 1e-3
RIDGE = 1.0
NO_SHARING = 1e12  # precision of a shared mean that is held at zero


class Policy(NamedTuple):
    """How a policy explores, and by how much if nobody says."""

    explores: Exploration
    exploration: float


LEARNING = {
    "ebm-rand-ucb": Policy(RANDOMISED, 0.4),
    "ebm-ts": Policy(SAMPLING, 0.15),
    "ebm-ucb": Policy(OPTIMISTIC, 0.4),
}
"""Policies that learn the population of the tasks."""
POLICIES = (*LEARNING, "lin-ucb", "random")
PRIORS = ("evidence", "paper", "moments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that turns rewards into decisions, apart from the rewards.

    Parameters
    ----------
    policy : str
    prior : str
        How the population is estimated, or "known".
    start : Prior or None
        The population that is known, or what the policy takes in its place.
    rule : Rule
    exploration : float
        The factor of the policy's rule.
    refresh_growth : float
    robust : bool
    family : RewardFamily
        Of the rewards.
    drift : float, "learn" or None
        A half-life in seconds.
    time_to_live : float or None
        Seconds for which a decision may get its reward; None is for ever.
    absent_reward : float or None
        The reward that none stands for; None: nothing is learned from it.
    count_pending : bool
        Whether a decision counts as the absent reward from the moment it is made.
    """

    policy: str
    prior: str
    start: Prior | None
    rule: Rule
    exploration: float
    refresh_growth: float
    robust: bool
    family: RewardFamily
    drift: float | str | None
    time_to_live: float | None
    absent_reward: float | None
    count_pending: bool

    @property
    def counts_pending(self) -> bool:
        """Whether decisions that wait count as the absent reward."""
        return self.absent_reward is not None and self.count_pending

    @property
    def counted(self) -> float | None:
        """The reward that a decision counts as from the moment it is made; None if it does not count."""
        return self.absent_reward if self.count_pending else None

    @property
    def learns_population(self) -> bool:
        """Whether tasks learn from each other."""
        return self.prior != "known"

    def forgetting(self, n_arms: int, n_features: int, rewards: str | None = None) -> Forgetting:
        """Return by what sums are multiplied when time passes; ``rewards`` names the family if it is another."""
        if self.drift == "learn":
            return Learned(CANDIDATES, n_arms, n_features, FAMILIES[rewards or self.family.name])
        return Never() if self.drift is None else HalfLife(float(self.drift))

    def start_of(self, n_arms: int) -> Prior | None:
        """Return the population that stands until rewards say otherwise, or for good, for any number of arms."""
        start = self.start
        if start is None or start.n_arms == n_arms:
            return start
        arms = np.minimum(np.arange(n_arms), start.n_arms - 1)
        return Prior(
            covariance=start.covariance[arms],
            noise_variance=start.noise_variance[arms],
            shared_precision=start.shared_precisions[arms],
            shared_location=start.shared_location[arms],
        )

    def new_core(self, n_arms: int, n_features: int, known: Known, kind: type[Core] = Core) -> AnyCore:
        """Return the core of a new fleet; ``known`` has the features of tasks and arms."""
        if self.family.name == "revenue":
            return Revenue(
                n_arms,
                n_features,
                family=self.family,
                rule=self.rule,
                growth=self.refresh_growth,
                forgetting=(
                    self.forgetting(n_arms, n_features, "binary"),
                    self.forgetting(n_arms, n_features + 1, "number"),
                ),
                **known.for_core(n_arms),
            )
        return kind(
            n_arms,
            n_features,
            family=self.family,
            rule=self.rule,
            method=self.prior,
            start=self.start_of(n_arms),
            growth=self.refresh_growth,
            forgetting=self.forgetting(n_arms, n_features),
            robust=self.robust,
            **known.for_core(n_arms),
        )

    def oldest(self, now: float) -> float:
        """Return the time of the oldest decision that may still get a reward."""
        return -np.inf if self.time_to_live is None else now - self.time_to_live

    def require_extendable(self) -> None:
        """Raise if no arm can be added."""
        if self.prior == "known" and self.policy in LEARNING:
            raise InvalidValue(
                "this fleet's population was given and not learned, so nothing is known about a new arm; "
                "make a fleet with a Prior that has it"
            )

    def require_floor(self, n_arms: int) -> None:
        """Raise if all arms together cannot have the floor."""
        floor = self.rule.floor
        if self.policy != "random" and floor * n_arms > 1:
            raise InvalidValue(
                f"{n_arms} arms cannot all have a probability of floor={floor:g}; make a fleet with a lower floor"
            )

    def checked_reward(self, value: Any) -> float:
        """Return a reward that can be learned, or raise one clear error."""
        if self.family.name != "number":
            return self.family.check(value)
        if type(value) is float and -LARGEST <= value <= LARGEST:
            return value  # as nearly always
        if isinstance(value, bool | np.bool_):
            return float(value)  # whether there was a click
        if value is None or (isinstance(value, float) and value != value):
            raise NotFinite(
                f"expected reward to be a finite number, got {value}; where there is none, leave out the call"
            )
        return self.family.check(value)

    def silence(self) -> str:
        """Return the settings that say what a decision without a reward means."""
        return f"absent_reward={self.absent_reward!r}, count_pending={self.count_pending}"

    def fading(self) -> str:
        """Return the setting that says how old rewards fade."""
        return f"{self.drift:g} seconds" if isinstance(self.drift, float) else repr(self.drift)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, of which :func:`declared` makes the same settings, but for a known population."""
        return {
            "policy": self.policy,
            "prior": self.prior,
            "exploration": self.exploration,
            "floor": 0.0 if self.policy == "random" else self.rule.floor,
            "evaluation_budget": self.rule.budget,
            "refresh_growth": self.refresh_growth,
            "robust": self.robust,
            "rewards": self.family.name,
            "drift": self.drift / DAY if isinstance(self.drift, float) else self.drift,
            "time_to_live": self.time_to_live,
            "absent_reward": self.absent_reward,
            "count_pending": self.count_pending,
        }


def declared(
    *,
    n_arms: int,
    n_features: int,
    policy: Any,
    prior: Any,
    exploration: Any,
    floor: Any,
    evaluation_budget: Any,
    refresh_growth: Any,
    robust: Any,
    rewards: Any,
    drift: Any,
    time_to_live: Any,
    absent_reward: Any,
    count_pending: Any,
) -> Settings:
    """Return the settings of a fleet, or raise what is wrong with one; see :class:`posse.Posse`."""
    if not isinstance(policy, str) or policy not in POLICIES:
        close = difflib.get_close_matches(policy, POLICIES, n=1) if isinstance(policy, str) else []
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise UnknownPolicy(f"no policy {policy!r} for a fleet{hint} The keys are {', '.join(POLICIES)}")
    family = family_of(rewards)
    if family.name != "number":
        _require_family(family, policy, prior, robust)
    if prior is not None and policy not in LEARNING:
        raise InvalidValue(f"policy {policy!r} has no population, so prior must not be given")
    floor = number(floor, "floor", at_least=0)
    if floor > 1 / n_arms:
        raise InvalidValue(
            f"expected floor to be at most 1 / n_arms = {1 / n_arms:g}, or the probabilities would add up to more "
            f"than 1, got {floor:g}"
        )
    budget = number(evaluation_budget, "evaluation_budget", at_least=0)
    if budget > 1:
        raise InvalidValue(
            f"expected evaluation_budget to be a share of what deciding gains over playing at random, from 0 to 1, got "
            f"{budget:g}; 0.01 is 1 %"
        )
    name, start = "known", None
    if policy in LEARNING:
        name, start = _population(prior)
        explores, default = LEARNING[policy]
        default = default if name == "evidence" else PAPER_EXPLORATION
        if name in ("paper", "moments"):
            start = Prior.isotropic(n_arms=n_arms, n_features=n_features, shared_precision=PAPER_SHARED_PRECISION)
    elif policy == "lin-ucb":
        covariance = np.tile(np.eye(n_features) / RIDGE, (n_arms, 1, 1))
        start = Prior(covariance=covariance, noise_variance=1.0, shared_precision=NO_SHARING)
        explores, default = OPTIMISTIC._replace(growing=False), 1.0
    else:
        start = Prior.isotropic(n_arms=n_arms, n_features=n_features, shared_precision=PAPER_SHARED_PRECISION)
        explores, default, floor = OPTIMISTIC, 0.0, 1.0  # at most 1 / eligible arms
    if start is not None:
        start.require_shape(n_arms=n_arms, n_features=n_features)
    if robust and name != "evidence":
        raise InvalidValue("expected prior='evidence' with robust=True, got another prior; leave robust out")
    scale = default if exploration is None else number(exploration, "exploration", at_least=0)
    growth = EVIDENCE_REFRESH if refresh_growth is None else refresh_growth
    settings = Settings(
        policy=policy,
        prior=name,
        start=start,
        rule=Rule(explores.scaled(scale), floor, budget),
        exploration=scale,
        refresh_growth=number(growth, "refresh_growth", at_least=0),
        robust=bool(robust),
        family=family,
        drift=half_life_of(drift),
        time_to_live=None if time_to_live is None else number(time_to_live, "time_to_live", above=0),
        absent_reward=None,
        count_pending=require_truth_value(count_pending, "count_pending"),
    )
    return _with_absent(settings, absent_reward)


def _with_absent(settings: Settings, absent_reward: Any) -> Settings:
    """Return settings with the absent reward, or raise if it does not go with the others."""
    from dataclasses import replace

    absent = None if absent_reward is None else settings.checked_reward(absent_reward)
    if not settings.count_pending and absent is None:
        raise InvalidValue(
            "count_pending=False learns every decision when its time_to_live is over, its reward or absent_reward; "
            "expected absent_reward to be a number, got None: pass absent_reward, or leave count_pending out"
        )
    if not settings.count_pending and settings.time_to_live is None:
        raise InvalidValue(
            "count_pending=False learns every decision when its time_to_live is over; "
            "expected time_to_live to be a number of seconds, got None"
        )
    return replace(settings, absent_reward=absent)


def _require_family(family: RewardFamily, policy: str, prior: Any, robust: Any) -> None:
    """Raise unless clicks, counts or revenue can be learned by this policy under this prior."""
    if policy not in LEARNING:
        raise InvalidValue(
            f"expected a policy of {', '.join(LEARNING)} for rewards={family.name!r}, got {policy!r}; take one of "
            "these, or rewards='number'"
        )
    if prior is not None and not (isinstance(prior, str) and prior == "evidence"):
        given = repr(prior) if isinstance(prior, str) else f"a {type(prior).__name__}"
        raise InvalidValue(
            f"expected prior='evidence' for rewards={family.name!r}, got {given}; leave it out, or take "
            "rewards='number'"
        )
    if robust:
        raise InvalidValue(
            f"expected robust=False for rewards={family.name!r}, got True: heavy tails are modelled for numbers only; "
            "leave it out"
        )


def _population(prior: Any) -> tuple[str, Prior | None]:
    if isinstance(prior, Prior):
        return "known", prior
    if prior is not None and not isinstance(prior, str):
        raise InvalidValue(
            f"expected prior to be a Prior or one of {', '.join(map(repr, PRIORS))}, got {type(prior).__name__}"
        )
    return one_of("evidence" if prior is None else prior, "prior", PRIORS), None


def half_life_of(drift: Any) -> float | str | None:
    """Return the half-life in seconds, "learn", or None if nothing fades; or raise."""
    if drift is None:
        return None
    if isinstance(drift, str):
        if drift != "learn":
            raise InvalidValue(
                f"expected drift to be None, 'learn', or a half-life in days or as a timedelta, got {drift!r}; pass "
                "one of these"
            )
        return drift
    if isinstance(drift, timedelta):
        drift = drift / timedelta(days=1)
    return DAY * number(drift, "drift, a half-life in days,", above=0)


def require_truth_value(value: Any, name: str = "explore") -> bool:
    """Return a value that is True or False, or raise."""
    if type(value) is not bool and not isinstance(value, np.bool_):
        raise InvalidValue(f"expected {name} to be True or False, got {value!r}")
    return bool(value)


def require_memory(n_arms: int, n_features: int) -> None:
    """Raise if what is believed about all tasks together would not fit in the memory of this machine."""
    needed = n_arms * n_features**2 * CELL_BYTES
    if needed > memory():
        raise InvalidValue(
            f"expected a fleet that fits in {memory() / 1e9:.3g} GB of memory, got {n_arms} arms x {n_features} "
            f"columns squared, which take {needed / 1e9:.3g} GB before the first task; declare fewer arms, or fewer or "
            "hashed features"
        )


def checked_seed(seed: Any) -> int:
    """Return the seed, or one from the operating system."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0 or seed >= 2**128:
        raise InvalidValue(f"expected seed to be a whole number from 0 to 2**128 - 1, got {seed!r}")
    return int(seed)


class Stream:
    """The seed's stream of random numbers: the n-th decision draws with the n-th of them.

    Parameters
    ----------
    seed : int
    decided : int
        How many decisions were made.
    """

    AHEAD = 256  # numbers that are drawn at a time

    def __init__(self, seed: int, decided: int = 0) -> None:
        self.seed, self.decided = seed, decided
        self._first, self._ahead = 0, [0.0][:0]

    def draw(self, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the numbers of the next decisions; they are used up once ``decided`` counts them."""
        generator = np.random.PCG64(np.random.SeedSequence(self.seed))
        generator.advance(self.decided)
        return np.random.Generator(generator).random(count)

    def next(self) -> float:
        """Return the number of the next decision."""
        place = self.decided - self._first
        if not 0 <= place < len(self._ahead):
            self._ahead, self._first, place = self.draw(self.AHEAD).tolist(), self.decided, 0
        return self._ahead[place]
