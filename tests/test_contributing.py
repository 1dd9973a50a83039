"""The worked examples in docs/extending.md are as good as what is in the registry."""

import importlib.util
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse import Posse
from posse.core.core import Core
from posse.core.noticing import ALL_TASKS
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.environments import SyntheticWorld
from posse.errors import InvalidValue
from posse.families import family_of
from posse.model import Prior
from posse.policies import POLICIES, EbmUCB, make_policy
from posse.simulation import simulate
from posse.simulation.run import play_step_by_step

TEXT = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
WORLD = SyntheticWorld(n_tasks=4, n_arms=3, n_features=2)


@pytest.fixture
def greedy(monkeypatch):
    """The policy, registered by the one line that the text names."""
    found = {}
    exec(EXAMPLES[0], found)
    assert '`"greedy": EpsilonGreedy`' in TEXT
    monkeypatch.setitem(POLICIES, "greedy", found["EpsilonGreedy"])


@pytest.mark.usefixtures("greedy")
def test_one_line_makes_it_known_by_its_key():
    policy = make_policy("greedy", n_tasks=4, n_arms=3, n_features=2, epsilon=0.2)

    assert policy.describe() == "epsilon 0.2"
    with pytest.raises(InvalidValue, match="epsilon"):
        make_policy("greedy", n_tasks=4, n_arms=3, n_features=2, epsilon=-0.1)


@pytest.mark.usefixtures("greedy")
def test_it_is_simulated_beside_others_and_learns():
    result = simulate(WORLD, ["greedy", "random"], horizon=400, seeds=3)

    greedy, random = (np.mean(result.regret_of(name)) for name in ("greedy", "random"))
    assert greedy < 0.9 * random


@pytest.mark.usefixtures("greedy")
def test_playing_a_stream_is_deciding_and_learning_step_by_step():
    draw = WORLD.draw(seed=3, horizon=200)
    rng = np.random.default_rng
    fast, slow = (make_policy("greedy", n_tasks=4, n_arms=3, n_features=2) for _ in range(2))

    played = fast.play(draw.tasks, draw.contexts, draw.rewards, rng(5), everywhere=True)
    alone = play_step_by_step(slow, draw, rng(5), name="greedy", seed=3, everywhere=True)
    assert_array_equal(played.arms, alone.arms)
    assert_array_equal(played.everywhere, alone.everywhere)


@pytest.mark.usefixtures("greedy")
def test_every_arm_is_tried_as_often_as_epsilon_says():
    policy = make_policy("greedy", n_tasks=1, n_arms=3, n_features=1, epsilon=0.3)
    policy.update(0, 1, [1.0], 1.0)
    rng = np.random.default_rng(8)
    arms = [policy.choose(0, [1.0], 1, rng) for _ in range(4000)]

    # 0.1 + 0.7 for the better arm; four standard errors are 0.025.
    assert_array_equal(np.abs(np.bincount(arms, minlength=3) / 4000 - [0.1, 0.8, 0.1]) < 0.025, True)


@pytest.fixture
def one_for_all():
    found = {}
    exec(EXAMPLES[1], found)
    return found["one_for_all"]


SHAPE = {"n_tasks": 4, "n_arms": 3, "n_features": 2}


def test_a_prior_of_ones_own_is_in_force_after_a_refresh_and_decides(one_for_all):
    draw = WORLD.draw(seed=3, horizon=300)
    policy = EbmUCB(**SHAPE, prior=one_for_all)
    policy.play(draw.tasks, draw.contexts, draw.rewards, np.random.default_rng(5))

    assert policy.prior_method == "one_for_all"
    assert_array_equal(policy.prior.covariance[0], policy.prior.covariance[2])
    # Asked last within 30 % of the end; from then on what is believed is exact under what it said.
    again = EbmUCB(**SHAPE, prior=policy.prior)
    stats = policy.statistics
    again.update_many(*_rows(draw, policy, stats))
    np.testing.assert_allclose(policy.predict(1, [0.3, 1.0]).mean, again.predict(1, [0.3, 1.0]).mean, rtol=1e-8)


def _rows(draw, policy, stats):
    played = EbmUCB(**SHAPE, prior=policy._estimate).play(
        draw.tasks, draw.contexts, draw.rewards, np.random.default_rng(5)
    )
    rows = np.arange(draw.tasks.size)
    assert stats.count.sum() == rows.size
    return draw.tasks, played.arms, draw.contexts, draw.rewards[rows, played.arms]


def test_it_is_as_good_as_others_in_a_simulation(one_for_all):
    result = simulate(WORLD, {"own": partial(EbmUCB, prior=one_for_all), "random": "random"}, horizon=400, seeds=3)

    assert np.mean(result.regret_of("own")) < 0.6 * np.mean(result.regret_of("random"))


def test_what_is_no_prior_is_refused():
    policy = EbmUCB(**SHAPE, prior=lambda stats: stats)
    with pytest.raises(InvalidValue, match="expected <lambda> to return a Prior, got Statistics"):
        policy.update(0, 0, [1.0, 1.0], 1.0)
    with pytest.raises(InvalidValue, match="expected prior='evidence' with drift"):
        EbmUCB(**SHAPE, prior=lambda _: Prior.isotropic(n_arms=3, n_features=2), drift=10.0)


@pytest.fixture(scope="module")
def stars(tmp_path_factory):
    path = tmp_path_factory.mktemp("family") / "stars.py"  # what is compiled is kept beside its file
    path.write_text(EXAMPLES[2], encoding="utf-8")
    assert "`Stars()` at the end of the families" in TEXT
    spec = importlib.util.spec_from_file_location("stars", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Stars()


def test_a_family_of_ones_own_expects_what_its_law_says(stars):
    rng = np.random.default_rng(2)
    predictor = rng.normal(-0.4, 1.3, 400_000)
    share = 1 / (1 + np.exp(-predictor))

    # Five standard errors of the averages that it is compared with.
    assert stars.expected(-0.4, 1.3) == pytest.approx(5 * share.mean(), abs=25 * share.std() / 400_000**0.5)
    assert stars.spread(-0.4, 1.3) == pytest.approx(5 * share.std(), rel=0.01)
    assert stars.draw(rng, np.full((40_000, 1), 3.5)).mean() == pytest.approx(3.5, abs=0.03)
    assert stars.show(4.123) == "4.12 stars"
    with pytest.raises(InvalidValue, match=r"of 0, 1, ..., 5 stars, got 5.5"):
        stars.check(5.5)


def test_the_site_of_a_rating_is_that_of_five_clicks_at_once(stars):
    w, h = stars.site(4.0, 1.0, 0.2, 0.7, 0.2, 0.7, 1e-9)
    q = 1 / (1 / 0.7 + w)
    e = q * (0.2 / 0.7 + h)
    value, slope, _, _ = stars.expectations(e, q)

    assert w == pytest.approx(slope, rel=1e-7)
    assert e == pytest.approx(0.2 + 0.7 * (4.0 - value), rel=1e-7)


WITH_STARS = """
import numpy as np
from posse import Posse
from posse import Posse
from posse.core.core import Core
from posse.core.noticing import ALL_TASKS
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.environments import SyntheticWorld
from posse.policies import EbmUCB
from posse.simulation import simulate
from functools import partial

world = SyntheticWorld(n_tasks=4, n_arms=3, n_features=2, contexts="intercept", rewards="stars", base_rate=2.5)
result = simulate(world, {"own": partial(EbmUCB, rewards="stars"), "random": "random"}, horizon=400, seeds=2, workers=1)
assert np.mean(result.regret_of("own")) < 0.7 * np.mean(result.regret_of("random"))
fleet = Posse(["tea", "coffee"], ["x"], rewards="stars", seed=1)
for i in range(60):
    decision = fleet.decide(i % 3, [0.5])
    fleet.reward(decision, 4 if decision.arm == "tea" else 2)
mean = fleet.expected(1, [0.5]).mean
assert 0 < mean["coffee"] < mean["tea"] < 5, mean
"""


@pytest.mark.slow
def test_one_line_makes_a_family_known_everywhere(tmp_path):
    """In a copy, whose kernels are compiled with it: one more file, and one more name in the registry."""
    import posse

    shutil.copytree(Path(posse.__file__).parent, tmp_path / "posse", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "posse/families/stars.py").write_text(EXAMPLES[2], encoding="utf-8")
    registry = tmp_path / "posse/families/__init__.py"
    text = registry.read_text(encoding="utf-8")
    assert "Binary(), Count())" in text
    text = text.replace("Binary(), Count())", "Binary(), Count(), Stars())")
    registry.write_text("from posse.families.stars import Stars\n" + text, encoding="utf-8")

    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WITH_STARS}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_forgetting_of_ones_own_lets_all_tasks_start_again_at_the_times_it_says():
    found = {}
    exec(EXAMPLES[3], found)
    rule, rng = Rule(RANDOMISED, 0.0, 0.0), np.random.default_rng(3)
    forgetting = found["Announced"]([100.0], half_life=1e4)
    core = Core(1, 1, family=family_of("number"), rule=rule, forgetting=forgetting)
    core.take_tasks(core.reserve_tasks(2))
    x = np.ones(1)
    for time in range(100):
        core.learn(time % 2, 0, x, 5.0 + rng.normal(), float(time))
    before = core.count(99.0)
    core.learn(0, 0, x, 0.0, 100.0)
    assert [(change.time, change.task) for change in core.changes] == [(100.0, ALL_TASKS)]
    assert before > 60.0
    assert core.count(100.0) < 5.0
    core.learn(0, 0, x, 0.0, 101.0)
    assert len(core.changes) == 1


def test_a_prior_mean_of_ones_own_lets_new_tasks_start_like_those_nearby():
    found = {}
    exec(EXAMPLES[4], found)
    names, closeness, rng = found["NAMES"], found["closeness"], np.random.default_rng(5)
    places = {f"s{place}": np.array([46.0, 6.0]) + rng.random(2) * [1.5, 3.0] for place in range(60)}
    stores = Posse(arms=["a", "b"], features=None, task_features=names, seed=1)
    stores.set_task_features({store: closeness(*place) for store, place in places.items()})
    tasks = [store for store in places for _ in range(30)]
    truth = {store: 4.0 * closeness(*place)["zurich"] for store, place in places.items()}
    rewards = [truth[store] + rng.normal() for store in tasks]
    stores.learn_many({"task": tasks, "arm": ["a"] * len(tasks), "reward": rewards})
    stores.set_task_features({"near": closeness(47.4, 8.5), "far": closeness(46.0, 6.1)})
    assert stores.expected("near").mean["a"] - stores.expected("far").mean["a"] > 2.5
