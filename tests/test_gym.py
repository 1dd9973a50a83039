"""Every world as a Gymnasium environment."""

import copy
import importlib.util
import json
import pickle
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from numpy.testing import assert_array_equal

from posse.environments import SyntheticWorld
from posse.environments.base import POLICY, stream
from posse.errors import InvalidValue, MissingDependency, PosseError, UnknownArm
from posse.gym import ANY_WORLD, SYNTHETIC, ResetNeeded, WorldEnv, register
from posse.policies import make_policy
from posse.simulation import simulate

WORLDS = {
    "synthetic": SyntheticWorld,
    "synthetic, sparse": lambda: SyntheticWorld(n_tasks=3, n_arms=2, n_features=4, heterogeneity="sparse"),
    "synthetic, one arm of each": lambda: SyntheticWorld(n_tasks=1, n_arms=1, n_features=1),
}


@pytest.fixture(params=WORLDS, scope="module")
def world(request):
    return WORLDS[request.param]()


@pytest.fixture
def env():
    return WorldEnv(SyntheticWorld(n_tasks=3, n_arms=4, n_features=2), horizon=20)


def rollout(env, arms, **kwargs):
    steps = [env.reset(**kwargs)]
    steps += [env.step(arm) for arm in arms]
    return steps


def test_gymnasium_finds_nothing_wrong(world):
    # Through make, so that the checker has a spec to make copies from; it must see the environment itself.
    env = gymnasium.make(ANY_WORLD, world=world, horizon=30).unwrapped
    assert type(env) is WorldEnv
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Contexts of most worlds have no bounds, so the space has none; the checker would rather see some.
        warnings.filterwarnings("ignore", message=".*A Box observation space (min|max)imum value is -?infinity")
        check_env(env)


def test_an_episode_is_the_draw_of_its_seed(world):
    horizon = 25
    env = WorldEnv(world, horizon=horizon)
    draw = world.draw(7, horizon)
    arms = np.random.default_rng(0).integers(0, world.n_arms, horizon)
    (observation, info), *steps = rollout(env, arms, seed=7)

    assert info == {"seed": 7}
    observations = [observation, *(step[0] for step in steps)]
    for t, (_, reward, terminated, truncated, info) in enumerate(steps):
        assert observations[t] in env.observation_space
        assert observations[t]["task"] == draw.tasks[t]
        assert_array_equal(observations[t]["context"], draw.contexts[t])
        assert reward == draw.rewards[t, arms[t]]
        assert (terminated, truncated) == (False, t == horizon - 1)
        assert_array_equal(info["expected"], draw.expected[t])
        assert info["expected"][info["best_arm"]] == draw.expected[t].max()
        assert info["regret"] == draw.expected[t].max() - draw.expected[t, arms[t]]
    assert data_equivalence(observations[-1], observations[-2], exact=True)


@pytest.mark.parametrize("name", ["ebm-ucb", "lin-ts", "random"])
def test_a_policy_earns_what_it_earns_in_a_simulation(name):
    world = SyntheticWorld(n_tasks=4, n_arms=3, n_features=2)
    horizon, seed = 150, 11
    simulated = simulate(world, {name: name}, horizon=horizon, seeds=[seed]).final_regret.row(0, named=True)

    env = WorldEnv(world, horizon=horizon)
    policy = make_policy(name, n_tasks=4, n_arms=3, n_features=2)
    rng = stream(seed, POLICY)
    regret = np.zeros(4)
    observation, _ = env.reset(seed=seed)
    for step in range(1, horizon + 1):
        task, context = observation["task"], observation["context"]
        arm = policy.choose(task=task, context=context, step=step, rng=rng)
        observation, reward, _, truncated, info = env.step(arm)
        policy.update(task=task, arm=arm, context=context, reward=reward)
        regret[task] += info["regret"]

    assert truncated
    # The same numbers, added in another order.
    assert regret.sum() == pytest.approx(simulated["regret"], rel=1e-12)
    assert regret == pytest.approx(simulated["task_regret"], rel=1e-12)
    assert regret.sum() > 1


def test_the_same_seed_gives_the_same_episode_and_another_another(env):
    arms = [3, 1, 0, 2] * 5
    first, again = rollout(env, arms, seed=5), rollout(env, arms, seed=5)
    other = rollout(env, arms, seed=6)

    assert data_equivalence(first, again, exact=True)
    assert not data_equivalence(first, other)


def test_without_a_seed_episodes_differ_but_can_be_played_again(env):
    arms = [0] * 20
    env.reset(seed=1)
    one, two = rollout(env, arms), rollout(env, arms)
    seeds = [steps[0][1]["seed"] for steps in (one, two)]

    assert seeds[0] != seeds[1]
    assert data_equivalence(rollout(env, arms, seed=seeds[0]), one, exact=True)
    env.reset(seed=1)
    assert [env.reset()[1]["seed"] for _ in range(2)] == seeds
    # Never seeded: from the system's entropy.
    fresh = {WorldEnv(env.world, horizon=2).reset()[1]["seed"] for _ in range(3)}
    assert len(fresh) == 3


def test_what_was_returned_can_be_changed_without_harm(env):
    class Stored(SyntheticWorld):
        """A world that keeps its draw, as one may."""

        def draw(self, seed, horizon):
            return self.__dict__.setdefault("kept", super().draw(seed, horizon))

    env = WorldEnv(Stored(), horizon=3)
    expected = copy.deepcopy(rollout(env, [0, 1, 2], seed=2))
    observation, _ = env.reset(seed=2)
    observation["context"][:] = 9
    for arm in (0, 1, 2):
        observation, _, _, _, info = env.step(arm)
        observation["context"][:] = 9
        info["expected"][:] = 9

    assert data_equivalence(rollout(env, [0, 1, 2], seed=2), expected, exact=True)


@pytest.mark.parametrize("action", [4, -1, 1.0, "1", None, np.array([1]), np.array([1.0])])
def test_a_wrong_action_is_refused_and_changes_nothing(env, action):
    expected = rollout(env, [2], seed=3)[1]
    env.reset(seed=3)
    with pytest.raises(UnknownArm, match=r"no arm .*; the arms are 0 to 3"):
        env.step(action)
    assert data_equivalence(env.step(2), expected, exact=True)


def test_an_episode_has_a_beginning_and_an_end(env):
    with pytest.raises(ResetNeeded, match="no episode has begun; call reset first"):
        env.step(0)
    assert [step[3] for step in rollout(env, [0] * 20, seed=0)[1:]] == [False] * 19 + [True]
    for _ in range(2):
        with pytest.raises(ResetNeeded, match="the episode is over after 20 steps; call reset"):
            env.step(0)
    assert issubclass(ResetNeeded, PosseError)
    assert issubclass(ResetNeeded, gymnasium.error.ResetNeeded)
    env.reset()
    env.step(0)


def test_wrong_settings_are_refused(env):
    for horizon in (0, 2.5, None, True):
        with pytest.raises(InvalidValue, match="horizon to be"):
            WorldEnv(env.world, horizon=horizon)
    with pytest.raises(InvalidValue, match=r"world must be one of posse\.environments, but 3 has no n_tasks"):
        WorldEnv(3)


def test_a_refused_seed_leaves_the_episode_and_the_generator_as_they_were(env):
    expected = rollout(env, [0, 1], seed=4)[2]
    env.reset(seed=4)
    env.step(0)
    state = env.np_random.bit_generator.state
    for seed in (-1, 1.5, "3", True):
        with pytest.raises(InvalidValue, match="seed to be"):
            env.reset(seed=seed)
    assert env.np_random.bit_generator.state == state
    assert data_equivalence(env.step(1), expected, exact=True)


def test_registered_environments_are_made_by_name():
    register()  # again, without a warning
    env = gymnasium.make(SYNTHETIC, n_tasks=4, noise_sd=0.5, horizon=7)

    assert env.unwrapped.world.settings() == SyntheticWorld(n_tasks=4, noise_sd=0.5).settings()
    assert env.unwrapped.horizon == 7
    assert env.spec.id == "posse/Synthetic-v0"
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(7)] == [False] * 6 + [True]
    with pytest.raises(InvalidValue, match="n_arms to be at least 1"):
        gymnasium.make(SYNTHETIC, n_arms=0)


@pytest.mark.slow
def test_gymnasium_finds_the_environments_through_the_module_name():
    program = 'import gymnasium; print(gymnasium.make("posse.gym:posse/Synthetic-v0", n_arms=3).action_space)'
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "Discrete(3)"


def test_an_environment_can_be_sent_to_a_worker_in_the_middle_of_an_episode(env):
    rollout(env, [0, 1], seed=8)
    twin = pickle.loads(pickle.dumps(env))

    assert data_equivalence(twin.step(2), env.step(2), exact=True)
    assert twin.reset()[1] == env.reset()[1]


def test_posse_does_not_import_gymnasium():
    program = "import json, sys, posse, posse.environments; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert {"gymnasium", "posse.gym"}.isdisjoint(json.loads(done.stdout))


def test_without_gymnasium_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "posse.gym")
    with pytest.raises(MissingDependency, match=r"needs Gymnasium: pip install gymnasium"):
        importlib.import_module("posse.gym")
