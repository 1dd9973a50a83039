"""Every world as a Gymnasium environment.

Importing this module registers two environments with Gymnasium: ``posse/Synthetic-v0``, which takes the settings of
:class:`~posse.environments.SyntheticWorld`, and ``posse/World-v0``, which takes any ``world``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.checks import label, whole_number
from posse.environments import SyntheticWorld
from posse.environments.base import Draw, World
from posse.errors import InvalidValue, MissingDependency, PosseError, UnknownArm

try:
    import gymnasium
except ImportError as error:
    raise MissingDependency("posse.gym needs Gymnasium: pip install gymnasium") from error

Observation = dict[str, Any]
"""``task``, a whole number, and ``context``, an array of shape (n_features,)."""

SYNTHETIC, ANY_WORLD = "posse/Synthetic-v0", "posse/World-v0"
"""The names to give to ``gymnasium.make``."""

_LARGEST_SEED = np.iinfo(np.int64).max


class ResetNeeded(PosseError, gymnasium.error.ResetNeeded):
    """The episode has not begun, or it is over."""


class WorldEnv(gymnasium.Env[Observation, np.int64]):
    """A world, met one step at a time.

    An observation names the task that arrives and its context, an action is the arm to pull. What arrives does not
    depend on what was pulled before. An episode is one draw of the world: never terminated, truncated at the horizon.

    For the same seed this pays the rewards that :func:`posse.simulation.simulate` pays.

    Parameters
    ----------
    world : World
        Any of :mod:`posse.environments`, or an object with the same members.
    horizon : int, default 2000
        Steps per episode. Worlds made from data have no more steps than they have rows.

    Notes
    -----
    The observation that comes with the last reward repeats the one before it, since nothing arrives after the horizon.

    Examples
    --------
    >>> env = WorldEnv(SyntheticWorld(n_tasks=4, n_arms=3, n_features=2), horizon=10)
    >>> observation, info = env.reset(seed=3)
    >>> info["seed"], observation["context"].shape
    (3, (2,))
    >>> observation, reward, terminated, truncated, info = env.step(2)
    >>> sorted(info), terminated, truncated
    (['best_arm', 'expected', 'regret'], False, False)
    """

    def __init__(self, world: World, horizon: int = 2000) -> None:
        for name in ("n_tasks", "n_arms", "n_features", "draw"):
            if not hasattr(world, name):
                raise InvalidValue(f"world must be one of posse.environments, but {world!r} has no {name}")
        self.world = world
        self.horizon = whole_number(horizon, "horizon", at_least=1)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "task": gymnasium.spaces.Discrete(world.n_tasks),
                "context": gymnasium.spaces.Box(-np.inf, np.inf, (world.n_features,), np.float64),
            }
        )
        self.action_space = gymnasium.spaces.Discrete(world.n_arms)
        self._draw: Draw | None = None
        self._step = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw the world of a seed and return what arrives first.

        Parameters
        ----------
        seed : int, optional
            Default: a new one from ``np_random``.
        options : dict, optional
            Not used.

        Returns
        -------
        observation : dict
            ``task`` and ``context``.
        info : dict
            ``seed`` of the draw, so that an episode can be played again.
        """
        if seed is None:
            chosen = int(self.np_random.integers(_LARGEST_SEED))
        else:
            chosen = seed = whole_number(seed, "seed", at_least=0)
        draw = self.world.draw(chosen, self.horizon)
        super().reset(seed=seed, options=options)
        self._draw, self._step = draw, 0
        return self._observation(draw), {"seed": chosen}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Pull an arm.

        Parameters
        ----------
        action : int
            The arm.

        Returns
        -------
        observation : dict
            What arrives next.
        reward : float
        terminated : bool
            Always False.
        truncated : bool
            Whether this was the last step.
        info : dict
            About the step just made: ``expected`` reward of every arm, the ``best_arm``, and the ``regret``, which is
            what the arm pulled is expected to fall short of it.
        """
        if self._draw is None:
            raise ResetNeeded("no episode has begun; call reset first")
        if self._step >= self.horizon:
            raise ResetNeeded(f"the episode is over after {self.horizon} steps; call reset to begin another")
        draw, t = self._draw, self._step
        arm = label(action, "arm", below=self.world.n_arms, error=UnknownArm)
        expected = draw.expected[t].copy()
        best_arm = int(expected.argmax())
        info = {"expected": expected, "best_arm": best_arm, "regret": float(expected[best_arm] - expected[arm])}
        self._step += 1
        return self._observation(draw), float(draw.rewards[t, arm]), False, self._step == self.horizon, info

    def _observation(self, draw: Draw) -> Observation:
        t = min(self._step, self.horizon - 1)
        # A copy, since those who learn keep what they see.
        return {"task": np.int64(draw.tasks[t]), "context": np.array(draw.contexts[t], dtype=np.float64)}


def synthetic_env(horizon: int = 2000, **settings: Any) -> WorldEnv:
    """Return the environment of a :class:`~posse.environments.SyntheticWorld` with these settings.

    Examples
    --------
    >>> env = gymnasium.make("posse/Synthetic-v0", n_tasks=4, noise_sd=0.5, horizon=100)
    >>> env.observation_space["task"], env.action_space
    (Discrete(4), Discrete(5))
    """
    return WorldEnv(SyntheticWorld(**settings), horizon=horizon)


def register() -> None:
    """Make the environments known to ``gymnasium.make``; once is enough, and importing this module has done it."""
    for name, entry_point in ((SYNTHETIC, synthetic_env), (ANY_WORLD, WorldEnv)):
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=f"{__name__}:{entry_point.__name__}")


register()
