"""The promises that every policy keeps, asked of each of them."""

import copy
import inspect
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.core.changes import learn_number
from posse.core.core import Core
from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, NotFinite, PosseError, ShapeError, UnknownArm, UnknownTask
from posse.model import Prior
from posse.policies import (
    MTTS,
    POLICIES,
    EbmRandUCB,
    EbmTS,
    EbmUCB,
    HierTS,
    LinTS,
    LinUCB,
    OLSBandit,
    Oracle,
    Policy,
    Random,
    RMBandit,
    paper,
    regressions,
    stepping,
)
from posse.simulation.run import play_step_by_step

N, K, D = 7, 3, 3  # seven tasks: from six on the paper's estimator cross-validates its threshold
HORIZON = 400
WORLD = SyntheticWorld(
    n_tasks=N, n_arms=K, n_features=D, noise_sd=[0.5, 1.0, 2.0], arrivals=[0.02, 0.1, 0.1, 0.28, 0.2, 0.2, 0.1]
)
DRAW = WORLD.draw(seed=11, horizon=HORIZON)
KNOWN = Prior(
    covariance=[[[2.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 0.4]]] * K,
    noise_variance=[0.3, 1.2, 3.0],
    shared_precision=[0.2, 0.5, 0.05],
)

CASES = {
    "ebm-ucb paper": EbmUCB,
    "ebm-ucb paper, refresh 0.1": partial(EbmUCB, refresh_growth=0.1),
    "ebm-ucb paper-literal": partial(EbmUCB, prior="paper-literal"),
    "ebm-ucb paper-literal, refresh 0.1": partial(EbmUCB, prior="paper-literal", refresh_growth=0.1),
    "ebm-ucb paper-unthresholded": partial(EbmUCB, prior="paper-unthresholded"),
    "ebm-ucb moments": partial(EbmUCB, prior="moments"),
    "ebm-ucb moments, refresh 0.1": partial(EbmUCB, prior="moments", refresh_growth=0.1),
    "ebm-ucb evidence": partial(EbmUCB, prior="evidence"),
    "ebm-ucb evidence, refresh 0.1": partial(EbmUCB, prior="evidence", refresh_growth=0.1),
    "ebm-ucb evidence, robust": partial(EbmUCB, prior="evidence", robust=True, refresh_growth=0.3),
    "ebm-ucb evidence, half-life": partial(EbmUCB, prior="evidence", drift=90.0),
    "ebm-ucb evidence, drift learned": partial(EbmUCB, prior="evidence", drift="learn"),
    "ebm-ucb known": partial(EbmUCB, prior=KNOWN, exploration=0.7),
    "ebm-ucb known, no first pulls": partial(EbmUCB, prior=KNOWN, refresh_growth=0.1, first_pulls=False),
    "ebm-ts paper": EbmTS,
    "ebm-ts moments, refresh 0.1": partial(EbmTS, prior="moments", refresh_growth=0.1, exploration=1.0),
    "ebm-ts known": partial(EbmTS, prior=KNOWN),
    "ebm-rand-ucb": EbmRandUCB,
    "ebm-rand-ucb known": partial(EbmRandUCB, prior=KNOWN, exploration=2.0),
    "hier-ts": HierTS,
    "hier-ts known": partial(HierTS, prior=KNOWN, exploration=0.5),
    "mtts": MTTS,  # with task features, tasks are not alike
    "lin-ucb": LinUCB,
    "lin-ucb sqrt-log": partial(LinUCB, exploration=0.3, schedule="sqrt-log", ridge=0.5),
    "lin-ts": LinTS,
    "lin-ts sqrt-log": partial(LinTS, exploration=0.3, schedule="sqrt-log", ridge=2.5),
    "lin-ucb-pooled": partial(LinUCB, pooled=True),
    "ols-bandit round-robin": partial(OLSBandit, gap=3.0),
    "ols-bandit schedule": partial(OLSBandit, gap=3.0, pulls=2, start="schedule"),
    "ols-bandit ridge": partial(OLSBandit, gap=3.0, start="ridge"),
    "rm-bandit batched": partial(RMBandit, pulls=10, gap=3.0),
    "rm-bandit batched, accumulate": partial(RMBandit, pulls=10, gap=3.0, accumulate=True),
    "rm-bandit scheduled": partial(RMBandit, variant="scheduled", pulls=5, gap=3.0),
    "rm-bandit scheduled, every 7": partial(RMBandit, variant="scheduled", pulls=5, gap=3.0, refresh_every=7),
    "random": Random,
    "oracle": partial(Oracle, coefficients=DRAW.coefficients),
}
every_policy = pytest.mark.parametrize("case", CASES)


def new(case: str, **settings) -> Policy:
    return CASES[case](n_tasks=N, n_arms=K, n_features=D, **settings)


def play(policy, first=0, last=HORIZON, *, tasks=DRAW.tasks, rng=None, everywhere=False):
    rng = rng if rng is not None else np.random.default_rng(5)
    return policy.play(
        tasks[first:last],
        DRAW.contexts[first:last],
        DRAW.rewards[first:last],
        rng,
        first_step=first + 1,
        everywhere=everywhere,
    )


def trace(value, path="policy"):
    """Everything a policy holds, by path; arrays as bytes, so that NaN in unused room compares too."""
    if isinstance(value, np.ndarray):
        return {path: (value.dtype.str, value.shape, value.tobytes())}
    if isinstance(value, tuple | list):
        return {k: v for i, part in enumerate(value) for k, v in trace(part, f"{path}[{i}]").items()}
    if isinstance(value, Core):
        # Not the factors of pairs, which are made when they are first looked at.
        return trace((value.sums(), value.state.population, value.state.store.told), path)
    if isinstance(value, Policy):
        return {k: v for name, part in vars(value).items() for k, v in trace(part, f"{path}.{name}").items()}
    return {path: repr(value)}


def test_every_key_of_the_registry_is_under_contract():
    assert {case.split()[0] for case in CASES} == set(POLICIES)


@pytest.mark.slow
def test_the_trace_sees_the_learned_arrays():
    # Guards the tests below: a trace that sees nothing would find nothing changed.
    for case in CASES:
        policy = new(case)
        before = trace(policy)
        policy.update(task=1, arm=2, context=DRAW.contexts[0], reward=1.5)
        assert (trace(policy) == before) == (case in {"random", "oracle"}), case


@every_policy
def test_choose_leaves_no_trace(case):
    policy = new(case)
    play(policy, 0, 250)
    before = trace(policy)
    rng = np.random.default_rng(3)
    for t in range(250, 290):
        state = rng.bit_generator.state
        arm = policy.choose(task=int(DRAW.tasks[t]), context=DRAW.contexts[t], step=t + 1, rng=rng)
        again = np.random.default_rng(99)
        again.bit_generator.state = state
        assert policy.choose(task=int(DRAW.tasks[t]), context=DRAW.contexts[t], step=t + 1, rng=again) == arm
        assert again.bit_generator.state == rng.bit_generator.state
    assert trace(policy) == before


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("ebm", "hier", "lin"))])
def test_predict_leaves_no_trace(case):
    policy = new(case)
    play(policy, 0, 100)
    before = trace(policy)
    first = policy.predict(task=3, context=DRAW.contexts[7])
    second = policy.predict(task=3, context=DRAW.contexts[7])
    assert trace(policy) == before
    assert_array_equal(first.mean, second.mean)
    assert_array_equal(first.sd, second.sd)
    assert first.mean.shape == first.sd.shape == (K,)


@every_policy
def test_a_decision_costs_one_normal_per_arm(case):
    policy = new(case)
    rng, other = np.random.default_rng(8), np.random.default_rng(8)
    policy.choose(task=0, context=DRAW.contexts[0], step=1, rng=rng)
    other.standard_normal(K)
    assert rng.bit_generator.state == other.bit_generator.state


@every_policy
def test_play_is_choose_and_update_step_by_step(case):
    at_once, by_steps = new(case), new(case)
    played = play(at_once, everywhere=True)
    stepped = play_step_by_step(by_steps, DRAW, np.random.default_rng(5), name=case, seed=0, everywhere=True)

    assert_array_equal(played.arms, stepped.arms)
    assert_array_equal(played.everywhere, stepped.everywhere)
    assert_array_equal(played.everywhere[np.arange(HORIZON), DRAW.tasks], played.arms)
    if hasattr(at_once, "statistics"):
        for one, other in zip(at_once.statistics.sums, by_steps.statistics.sums, strict=True):
            assert_array_equal(one, other)


@every_policy
def test_asking_everywhere_changes_no_arm(case):
    assert_array_equal(play(new(case), everywhere=True).arms, play(new(case)).arms)
    assert play(new(case), 0, 5).everywhere.shape == (0, N)


@every_policy
def test_playing_in_two_stretches_equals_playing_at_once(case):
    once, twice = new(case), new(case)
    rng = np.random.default_rng(5)
    parts = [
        play(twice, 0, 1, rng=rng, everywhere=True),
        play(twice, 1, 137, rng=rng, everywhere=True),
        play(twice, 137, HORIZON, rng=rng, everywhere=True),
    ]
    whole = play(once, everywhere=True)

    assert_array_equal(np.concatenate([part.arms for part in parts]), whole.arms)
    assert_array_equal(np.concatenate([part.everywhere for part in parts]), whole.everywhere)


@every_policy
def test_relabelling_tasks_changes_no_arm(case):
    new_label = np.array([4, 0, 6, 2, 5, 1, 3])
    settings = {}
    if case == "oracle":
        settings["coefficients"] = np.empty_like(DRAW.coefficients)
        settings["coefficients"][:, new_label] = DRAW.coefficients
    plain = play(new(case), everywhere=True)
    renamed = play(new(case, **settings), tasks=new_label[DRAW.tasks], everywhere=True)

    assert_array_equal(renamed.arms, plain.arms)
    assert_array_equal(renamed.everywhere[:, new_label], plain.everywhere)


@every_policy
def test_a_copy_continues_as_the_original_does(case):
    original = new(case)
    rng = np.random.default_rng(5)
    head = play(original, 0, 150, rng=rng)
    clone = copy.deepcopy(original)
    # The copy plays first: arrays that the two still shared would now be wrong for the original.
    cloned = play(clone, 150, HORIZON, rng=copy.deepcopy(rng))
    tail = play(original, 150, HORIZON, rng=rng)

    assert_array_equal(cloned.arms, tail.arms)
    assert_array_equal(np.concatenate([head.arms, tail.arms]), play(new(case)).arms)


@every_policy
def test_a_pickled_policy_continues_as_the_original_does(case):
    original = new(case)
    rng = np.random.default_rng(5)
    play(original, 0, 150, rng=rng)
    other = pickle.loads(pickle.dumps(original))
    played = play(other, 150, HORIZON, rng=copy.deepcopy(rng))

    assert_array_equal(played.arms, play(original, 150, HORIZON, rng=rng).arms)


@every_policy
def test_many_decisions_are_those_of_one_after_another(case):
    policy = new(case)
    play(policy, 0, 150)
    before = trace(policy)
    rng, other = np.random.default_rng(2), np.random.default_rng(2)
    first_step = 2  # within the first pulls of those policies that have them
    at_once = policy.choose_many(DRAW.tasks, DRAW.contexts, first_step, rng)
    in_turn = [
        policy.choose(task=task, context=context, step=first_step + row, rng=other)
        for row, (task, context) in enumerate(zip(DRAW.tasks, DRAW.contexts, strict=True))
    ]

    assert_array_equal(at_once, in_turn)
    assert rng.bit_generator.state == other.bit_generator.state
    assert trace(policy) == before


def behaviour(policy):
    """What a policy would say and do from here on; exact, so that one that differs in its last bit differs."""
    said = []
    for name in ("statistics", "prior"):
        if hasattr(policy, name):
            said += [np.copy(field) for field in vars_of(getattr(policy, name))]
    if hasattr(policy, "predict"):
        for task in range(N):
            belief = policy.predict(task, DRAW.contexts[task])
            said += [belief.mean, belief.sd]
    return [*said, play(policy, 0, 100, everywhere=True).everywhere]


def vars_of(value):
    return [getattr(value, name) for name in value.__dataclass_fields__]


def learn_in_turn(policy, tasks, arms, contexts, rewards):
    for task, arm, context, reward in zip(tasks.tolist(), arms.tolist(), contexts, rewards.tolist(), strict=True):
        policy.update(task, arm, context, reward)


@every_policy
def test_learning_many_is_learning_one_after_another(case):
    arms = np.random.default_rng(4).integers(0, K, HORIZON)
    rewards = DRAW.rewards[np.arange(HORIZON), arms]
    at_once, in_turn = new(case), new(case)
    for rows in (slice(0, 1), slice(1, 1), slice(1, 170), slice(170, HORIZON)):
        at_once.update_many(DRAW.tasks[rows], arms[rows], DRAW.contexts[rows], rewards[rows])
    learn_in_turn(in_turn, DRAW.tasks, arms, DRAW.contexts, rewards)

    for one, other in zip(behaviour(at_once), behaviour(in_turn), strict=True):
        assert_array_equal(one, other)


LARGE = {
    # Refreshes at every doubling, so that long stretches without one lie between them.
    "ebm-ucb paper": partial(EbmUCB, refresh_growth=1.0),
    "ebm-ucb moments": partial(EbmUCB, prior="moments", refresh_growth=1.0),
    "ebm-ts evidence": partial(EbmTS, prior="evidence", refresh_growth=1.0),
    "ebm-ts evidence, robust": partial(EbmTS, prior="evidence", refresh_growth=1.0, robust=True),
    "ebm-ts known": partial(EbmTS, prior=KNOWN),
    "ebm-rand-ucb known": partial(EbmRandUCB, prior=KNOWN),
    "hier-ts": HierTS,
    "lin-ts": LinTS,
    "lin-ucb-pooled": partial(LinUCB, pooled=True),
}


@pytest.fixture(scope="module")
def rows():
    draw = WORLD.draw(seed=3, horizon=20_000)
    arms = np.random.default_rng(4).choice(K, size=20_000, p=[0.6, 0.3, 0.1])
    return draw.tasks, arms, draw.contexts, draw.rewards[np.arange(20_000), arms]


@pytest.mark.parametrize("case", LARGE)
def test_threads_learn_and_decide_what_one_would(case, rows, monkeypatch):
    monkeypatch.setattr("posse.threads.workers", lambda: 3)
    spread_over = []
    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted(ThreadPoolExecutor.submit, spread_over))
    tasks, _, contexts, _ = rows
    at_once, in_turn = (LARGE[case](n_tasks=N, n_arms=K, n_features=D) for _ in range(2))
    at_once.update_many(*rows)
    if case.startswith("lin"):  # estimates of populations look at the rewards of all arms so far
        assert len(spread_over) >= 3, "there was something to spread"
    learn_in_turn(in_turn, *rows)
    for one, other in zip(behaviour(at_once), behaviour(in_turn), strict=True):
        assert_array_equal(one, other)

    spread_over.clear()
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    chosen = at_once.choose_many(tasks, contexts, 1, rng)
    assert len(spread_over) >= 3
    assert len(set(chosen)) > 1
    in_turn = [at_once.choose(int(tasks[row]), contexts[row], row + 1, other) for row in range(tasks.size)]
    assert_array_equal(chosen, in_turn)


def counted(method, calls):
    def call(*args):
        calls.append(args)
        return method(*args)

    return call


@pytest.mark.parametrize("case", ["ebm-ts moments, refresh 0.1", "ebm-ucb known", "lin-ts"])
def test_threads_that_decide_at_once_do_not_meet(case):
    policy = new(case)
    play(policy, 0, 250)

    def decide(seed):
        rng = np.random.default_rng(seed)
        return [policy.choose(int(DRAW.tasks[t]), DRAW.contexts[t], t + 1, rng) for t in range(HORIZON)] + list(
            policy.choose_many(DRAW.tasks, DRAW.contexts, 1, rng)
        )

    in_turn = [decide(seed) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(decide, range(16))) == in_turn


@every_policy
def test_only_the_reward_of_the_chosen_arm_matters(case):
    arms = play(new(case)).arms
    others = DRAW.rewards + 50.0 * (np.arange(K) != arms[:, None])
    again = new(case).play(DRAW.tasks, DRAW.contexts, others, np.random.default_rng(5))
    assert_array_equal(again.arms, arms)


@every_policy
def test_the_form_of_the_context_does_not_matter(case):
    policy = new(case)
    play(policy, 0, 150)
    for t in range(150, 170):
        x = DRAW.contexts[t]
        strided = np.stack([x, -x], axis=1)[:, 0]
        arms = {policy.choose(1, form, t + 1, np.random.default_rng(t)) for form in (x, list(x), strided, *odd(x))}
        assert len(arms) == 1


def odd(x):
    """The same numbers in memory that is read-only, not aligned, or in another byte order."""
    frozen = x.copy()
    frozen.flags.writeable = False
    crooked = np.frombuffer(b" " + x.tobytes() + b" ", dtype=np.int8)[1:-1].view(np.float64)
    return frozen, crooked, x.astype(">f8")


@pytest.mark.parametrize("case", ["ebm-ucb paper", "lin-ucb"])
def test_no_form_of_the_input_sends_anyone_to_the_compiler(case):
    policy = new(case)
    compiled = (stepping.choose, paper.estimate_if_due, learn_number) if case.startswith("ebm") else (
        regressions.choose, regressions.learn, regressions.predict,
    )  # fmt: skip

    def use(label, form, step, reward):
        policy.choose(task=label, context=form, step=step, rng=np.random.default_rng(0))
        policy.update(task=label, arm=label, context=form, reward=reward)
        policy.predict(task=label, context=form)

    x = DRAW.contexts[0]
    use(1, x, 4, 1.0)
    before = [len(function.signatures) for function in compiled]
    for step, label in ((5, 1), (np.int64(6), np.uint8(1)), (2**62, True)):
        for form in (x, list(x), x.astype(np.float32), *odd(x)):
            for reward in (1, 1.0, np.float32(1.0), np.float64(1.0), True + 1):
                use(label, form, step, reward)
    assert [len(function.signatures) for function in compiled] == before


@every_policy
def test_settings_are_keyword_only(case):
    factory = CASES[case].func if isinstance(CASES[case], partial) else CASES[case]
    parameters = inspect.signature(factory).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    with pytest.raises(TypeError):
        factory(N, K, D)


@every_policy
def test_a_policy_describes_itself_in_one_line(case):
    words = new(case).describe()
    assert "\n" not in words
    assert bool(words) == (case != "random")


@every_policy
def test_sizes_are_whole_numbers_from_one(case):
    for name in ("n_tasks", "n_arms", "n_features"):
        for value in (0, -1, 2.5, "3", True):
            sizes = {"n_tasks": N, "n_arms": K, "n_features": D} | {name: value}
            with pytest.raises(InvalidValue, match=name):
                CASES[case](**sizes)


x = DRAW.contexts[0]
BAD_CONTEXTS = [
    (x[:2], ShapeError, "2 features.*n_features=3"),
    (np.append(x, 1.0), ShapeError, "4 features.*n_features=3"),
    ([], ShapeError, "0 features"),
    (x[None, :], ShapeError, r"\(1, 3\)"),
    (1.0, ShapeError, "shape"),
    ([1.0, np.nan, 0.0], NotFinite, "nan at index 1"),
    (np.array([1.0, 0.0, -np.inf]), NotFinite, "-inf at index 2"),
    (["a", "b", "c"], InvalidValue, "context"),
]
BAD_LABELS_AND_REWARDS = [
    ({"reward": np.nan}, NotFinite, "reward.*nan"),
    ({"reward": np.inf}, NotFinite, "reward.*inf"),
    ({"reward": -np.inf}, NotFinite, "reward.*-inf"),
    ({"reward": "1"}, InvalidValue, "reward.*'1'"),
    ({"reward": None}, InvalidValue, "reward.*None"),
    ({"arm": K}, UnknownArm, "no arm 3.*0 to 2"),
    ({"arm": -1}, UnknownArm, "no arm -1"),
    ({"task": N}, UnknownTask, "no task 7.*0 to 6"),
    ({"task": -1}, UnknownTask, "no task -1"),
]
BAD_QUESTIONS = [
    ({"task": N}, UnknownTask, "no task 7.*0 to 6"),
    ({"task": -1}, UnknownTask, "no task -1"),
    ({"step": 0}, InvalidValue, "step.* 1.* got 0"),
    ({"step": -5}, InvalidValue, "step.* 1.* got -5"),
    ({"step": 2**62 + 1}, InvalidValue, "step to be at most .* got "),
    ({"step": 2**70}, InvalidValue, "step to be at most .* got "),
]


@every_policy
def test_a_bad_update_is_refused_and_changes_nothing(case):
    policy = new(case)
    play(policy, 0, 60)
    before = trace(policy)
    wrongs = BAD_LABELS_AND_REWARDS + [({"context": context}, error, words) for context, error, words in BAD_CONTEXTS]
    for wrong, error, words in wrongs:
        with pytest.raises(error, match=words) as caught:
            policy.update(**({"task": 0, "arm": 1, "context": x, "reward": 1.0} | wrong))
        assert isinstance(caught.value, PosseError)
        assert trace(policy) == before, wrong


@every_policy
def test_a_bad_question_is_refused_and_changes_nothing(case):
    policy = new(case)
    play(policy, 0, 60)
    before, rng = trace(policy), np.random.default_rng(0)
    stream = rng.bit_generator.state
    wrongs = BAD_QUESTIONS + [({"context": context}, error, words) for context, error, words in BAD_CONTEXTS]
    for wrong, error, words in wrongs:
        with pytest.raises(error, match=words) as caught:
            policy.choose(**({"task": 0, "context": x, "step": 61, "rng": rng} | wrong))
        assert isinstance(caught.value, PosseError)
        assert trace(policy) == before, wrong
        assert rng.bit_generator.state == stream, "a refused question draws nothing"


def test_a_context_whose_squares_overflow_is_refused_without_a_warning():
    policy = new("lin-ucb")
    before = trace(policy)
    with pytest.raises(NotFinite, match="overflow"):
        policy.update(task=0, arm=1, context=np.full(D, 1e200), reward=1.0)
    with pytest.raises(NotFinite, match="overflow"):
        policy.choose(task=0, context=[1e200, 0.0, 0.0], step=1, rng=np.random.default_rng(0))
    assert trace(policy) == before


@pytest.mark.parametrize("label", [0.5, 1.0000001, "0", None, [0]], ids=str)
def test_a_label_that_is_no_whole_number_is_unknown(label):
    policy = new("lin-ucb")
    before = trace(policy)
    with pytest.raises(UnknownTask):
        policy.choose(task=label, context=x, step=1, rng=np.random.default_rng(0))
    with pytest.raises(UnknownTask):
        policy.update(task=label, arm=0, context=x, reward=1.0)
    with pytest.raises(UnknownArm):
        policy.update(task=0, arm=label, context=x, reward=1.0)
    assert trace(policy) == before


@pytest.mark.parametrize("label", [np.int64(1), np.int32(1), np.uint8(1)], ids=repr)
def test_whole_numbers_of_other_types_are_labels(label):
    policy, plain = new("lin-ucb"), new("lin-ucb")
    policy.update(task=label, arm=label, context=x, reward=1.0)
    plain.update(task=1, arm=1, context=x, reward=1.0)
    assert trace(policy) == trace(plain)


@pytest.mark.parametrize("step", [1.5, np.nan, "2", None], ids=str)
def test_a_step_that_is_no_whole_number_is_refused(step):
    with pytest.raises(InvalidValue):
        new("ebm-ucb paper").choose(task=0, context=x, step=step, rng=np.random.default_rng(0))


@pytest.mark.parametrize("case", ["ebm-ucb paper", "lin-ucb", "ols-bandit round-robin", "rm-bandit batched"])
def test_a_reward_whose_square_overflows_is_refused_as_such_contexts_are(case):
    policy = new(case)
    before = trace(policy)
    with pytest.raises(NotFinite):
        policy.update(task=0, arm=0, context=x, reward=1e200)
    assert trace(policy) == before


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"tasks": np.array([0, -1, 1])}, UnknownTask),
        ({"contexts": np.array([[1.0, 1, 1], [1, np.nan, 1], [1, 1, 1]])}, NotFinite),
        ({"contexts": np.ones((3, 2))}, ShapeError),
        ({"rewards": np.full((3, K), np.inf)}, NotFinite),
    ],
    ids=["task -1", "NaN context", "two features", "infinite reward"],
)
@pytest.mark.parametrize("case", ["lin-ucb", "rm-bandit batched"])
def test_a_bad_stretch_is_refused_and_changes_nothing(case, wrong, error):
    policy = new(case)
    before = trace(policy)
    good = {"tasks": np.array([0, 1, 2]), "contexts": np.ones((3, D)), "rewards": np.ones((3, K))}
    with pytest.raises(error):
        policy.play(**(good | wrong), rng=np.random.default_rng(0))
    assert trace(policy) == before


GOOD_ROWS = {
    "tasks": np.array([0, 1, 2]),
    "arms": np.array([0, 1, 1]),
    "contexts": np.ones((3, D)),
    "rewards": np.ones(3),
}
BAD_ROWS = [
    ({"tasks": np.array([0, -1, 1])}, UnknownTask, "task -1 at row 1"),
    ({"tasks": np.array([0, 1, N])}, UnknownTask, "task 7 at row 2"),
    ({"tasks": [0.5, 1, 2]}, InvalidValue, "whole numbers"),
    ({"tasks": np.array([0, 1])}, ShapeError, "2"),
    ({"contexts": np.ones((3, D + 1))}, ShapeError, r"\(3, 3\)"),
    ({"contexts": np.ones(D)}, ShapeError, r"\(3, 3\)"),
    ({"contexts": np.array([[1.0, 1, 1], [1, np.nan, 1], [1, 1, 1]])}, NotFinite, r"\(1, 1\)"),
    ({"contexts": np.full((3, D), 1e200)}, NotFinite, "too large"),
]
BAD_LESSONS = [
    ({"arms": np.array([0, 1, K])}, UnknownArm, "arm 3 at row 2"),
    ({"arms": np.array([0, 1])}, ShapeError, "arms.*3.*2"),
    ({"rewards": np.ones((3, 1))}, ShapeError, r"\(3,\)"),
    ({"rewards": np.array([1.0, 2.0, np.inf])}, NotFinite, "inf"),
    ({"rewards": np.array([1.0, 2.0, 1e200])}, NotFinite, "too large"),
    ({"rewards": ["a", "b", "c"]}, InvalidValue, "rewards"),
]


@pytest.mark.parametrize("case", ["ebm-ts known", "lin-ucb", "ols-bandit ridge", "random"])
def test_bad_rows_are_refused_and_change_nothing(case):
    policy = new(case)
    play(policy, 0, 60)
    before, rng = trace(policy), np.random.default_rng(0)
    stream = rng.bit_generator.state
    for wrong, error, words in [*BAD_ROWS, *BAD_LESSONS]:
        with pytest.raises(error, match=words):
            policy.update_many(**(GOOD_ROWS | wrong))
        assert trace(policy) == before, wrong
    for wrong, error, words in [*BAD_ROWS, ({"first_step": 0}, InvalidValue, "first_step")]:
        asked = {"tasks": GOOD_ROWS["tasks"], "contexts": GOOD_ROWS["contexts"], "first_step": 61} | wrong
        with pytest.raises(error, match=words):
            policy.choose_many(**asked, rng=rng)
        assert rng.bit_generator.state == stream, "a refused question draws nothing"


@every_policy
def test_no_rows_are_no_trouble(case):
    policy = new(case)
    before = trace(policy)
    nothing = np.empty(0, dtype=np.int64)
    policy.update_many(nothing, nothing, np.empty((0, D)), np.empty(0))
    assert policy.choose_many(nothing, np.empty((0, D)), 1, np.random.default_rng(0)).shape == (0,)
    assert trace(policy) == before


# In a process of its own: what this guards against is a loop that never ends.
VAST = """
import numpy as np
from posse.errors import PosseError
from posse.policies import EbmUCB

for scale in {scales}:
    policy = EbmUCB(n_tasks=3, n_arms=2, n_features=3)
    rng = np.random.default_rng(0)
    for i in range(30):
        x, y = rng.standard_normal(3), rng.standard_normal()
        try:
            policy.update(task=i % 3, arm=0, context=x * ({context}), reward=y * ({reward}))
        except PosseError:
            pass
    assert np.isfinite(policy.predict(task=0, context=np.ones(3)).mean).all(), scale
"""


@pytest.mark.parametrize(
    ("scales", "context", "reward"),
    [([1e9, 1e30, 1e100], "scale", "1.0"), ([1e9, 1e100, 1e154], "1.0", "scale")],
    ids=["contexts", "rewards"],
)
def test_vast_numbers_are_refused_or_learned_but_end_and_stay_finite(scales, context, reward):
    script = VAST.format(scales=scales, context=context, reward=reward)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)
