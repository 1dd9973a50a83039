"""simulate: paired, reproducible, resumable, for any object that chooses and updates."""

from functools import partial

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from polars.testing import assert_frame_equal

from posse.environments import SyntheticWorld
from posse.environments.base import POLICY, stream
from posse.errors import InvalidValue, PosseError, ResultFileError, SettingsDiffer, UnknownPolicy
from posse.policies import EbmUCB, HierTS, LinTS, LinUCB, Oracle, Random
from posse.simulation import SimulationResult, simulate

WORLD = SyntheticWorld(n_tasks=4, n_arms=3, n_features=2, arrivals="data-poor")
RIVALS = {"ebmUCB": EbmUCB, "LinTS": "lin-ts", "greedy": partial(LinUCB, exploration=0.0)}


class Greedy:
    """Plain Python, nothing inherited: the arm with the best average reward so far, untried arms first."""

    def __init__(self, *, n_tasks, n_arms, n_features):
        self.sums, self.counts = np.zeros((n_tasks, n_arms)), np.zeros((n_tasks, n_arms))

    def choose(self, task, context, step, rng):
        tried = self.counts[task] > 0
        return int(np.where(tried, self.sums[task] / np.maximum(self.counts[task], 1), np.inf).argmax())

    def update(self, task, arm, context, reward):
        self.sums[task, arm] += reward
        self.counts[task, arm] += 1


class SlowLinUCB:
    """LinUCB seen only through ``choose`` and ``update``."""

    def __init__(self, **sizes):
        self.inside = LinUCB(**sizes)

    def choose(self, task, context, step, rng):
        return self.inside.choose(task=task, context=context, step=step, rng=rng)

    def update(self, task, arm, context, reward):
        self.inside.update(task=task, arm=arm, context=context, reward=reward)


def test_the_shape_of_a_result():
    result = simulate(WORLD, RIVALS, horizon=60, seeds=5)
    table = result.final_regret
    assert table.columns == ["policy", "seed", "regret", "task_regret"]
    assert table.schema["task_regret"] == pl.List(pl.Float64)
    assert table.height == 15
    assert table["policy"].to_list() == ["ebmUCB", "LinTS", "greedy"] * 5
    assert table["seed"].to_list() == [seed for seed in range(5) for _ in range(3)]
    assert (table["task_regret"].list.len() == 4).all()
    assert_allclose(table["task_regret"].list.sum(), table["regret"])
    assert (table["regret"] >= 0).all()
    assert result.complete
    assert result.policies == ["ebmUCB", "LinTS", "greedy"]
    assert result.seeds == [0, 1, 2, 3, 4]


def test_regret_is_that_of_the_arms_that_a_policy_really_plays():
    """A second road from a seed to a number: draw the world, play the policy, add up the gaps."""
    result = simulate(WORLD, {"LinTS": LinTS}, horizon=80, seeds=[6])
    draw = WORLD.draw(6, 80)
    played = LinTS(n_tasks=4, n_arms=3, n_features=2).play(draw.tasks, draw.contexts, draw.rewards, stream(6, POLICY))
    gaps = draw.expected.max(axis=1) - draw.expected[np.arange(80), played.arms]
    row = result.table.row(0, named=True)
    assert row["regret"] == pytest.approx(gaps.sum())
    assert_allclose(row["task_regret"], [gaps[draw.tasks == task].sum() for task in range(4)])
    assert_allclose(row["curve"], np.cumsum(gaps)[result.steps - 1])
    assert_allclose(row["tracked_curve"], np.cumsum(gaps * (draw.tasks == 0))[result.steps - 1])


@pytest.mark.slow
def test_two_workers_give_what_one_gives():
    one = simulate(WORLD, RIVALS, horizon=60, seeds=7, appendix=True)
    two = simulate(WORLD, RIVALS, horizon=60, seeds=7, appendix=True, workers=2)
    assert_frame_equal(one.table, two.table, check_exact=True)
    assert one.settings == two.settings


@pytest.mark.slow
def test_a_policy_from_here_runs_in_worker_processes():
    class Local(Greedy):
        pass

    one = simulate(WORLD, {"local": Local}, horizon=30, seeds=4)
    two = simulate(WORLD, {"local": Local}, horizon=30, seeds=4, workers=2)
    assert_frame_equal(one.table, two.table, check_exact=True)


def test_a_policy_does_not_notice_which_others_run():
    together = simulate(WORLD, RIVALS, horizon=60, seeds=3)
    for name, policy in reversed(RIVALS.items()):
        alone = simulate(WORLD, {name: policy}, horizon=60, seeds=[2, 0])
        assert_array_equal(alone.regret_of(name), together.regret_of(name)[[0, 2]])


def test_policies_meet_the_same_world_and_draw_the_same_numbers():
    result = simulate(WORLD, {"a": "random", "b": Random, "c": partial(Random)}, horizon=60, seeds=3)
    assert_array_equal(result.regret_of("a"), result.regret_of("b"))
    assert_array_equal(result.regret_of("a"), result.regret_of("c"))
    assert len(set(result.regret_of("a"))) == 3


def test_any_object_with_choose_and_update_will_do():
    result = simulate(WORLD, [Greedy, "random"], horizon=200, seeds=3)
    assert result.policies == ["Greedy", "random"]
    assert result.regret_of("Greedy").shape == (3,)


def test_a_policy_without_play_gets_the_numbers_of_the_one_with():
    result = simulate(WORLD, {"fast": LinUCB, "slow": SlowLinUCB}, horizon=100, seeds=3, appendix=True)
    for column in ("regret", "expected_regret"):
        assert_array_equal(result.regret_of("fast", column), result.regret_of("slow", column))


def test_steps_count_from_one_and_updates_follow_choices():
    log = []

    class Spy:
        def __init__(self, **sizes):
            self.sizes = sizes
            log.clear()

        def choose(self, task, context, step, rng):
            log.append(("choose", task, context.copy(), step))
            return 2

        def update(self, task, arm, context, reward):
            log.append(("update", task, context.copy(), arm, reward))

    simulate(WORLD, {"spy": Spy}, horizon=5, seeds=[4])
    draw = WORLD.draw(4, 5)
    assert len(log) == 10
    for t in range(5):
        name, task, context, step = log[2 * t]
        assert (name, task, step) == ("choose", draw.tasks[t], t + 1)
        assert_array_equal(context, draw.contexts[t])
        name, task, context, arm, reward = log[2 * t + 1]
        assert (name, task, arm, reward) == ("update", draw.tasks[t], 2, draw.rewards[t, 2])
        assert_array_equal(context, draw.contexts[t])


def test_the_oracle_has_no_regret_and_the_known_prior_is_that_of_the_seed():
    known = {
        "oracle": "oracle",
        "known": partial(EbmUCB, prior="known"),
        "hier": partial(HierTS, prior="known", exploration=0.5),
    }
    result = simulate(WORLD, known, horizon=100, seeds=3, appendix=True)
    assert_array_equal(result.regret_of("oracle"), 0.0)
    assert_array_equal(result.regret_of("oracle", "expected_regret"), 0.0)
    for seed in range(3):
        prior = WORLD.draw(seed, 1).prior
        given = simulate(WORLD, {"given": partial(EbmUCB, prior=prior)}, horizon=100, seeds=[seed])
        assert given.regret_of("given")[0] == result.regret_of("known")[seed]
    assert result.descriptions["known"].endswith("known prior")


def test_the_appendix_regret_of_blind_pulls_agrees_with_the_other_in_expectation():
    world = SyntheticWorld(n_tasks=4, n_arms=3, n_features=2, arrivals=[0.1, 0.2, 0.3, 0.4])
    result = simulate(world, {"random": Random}, horizon=100, seeds=200, appendix=True)
    difference = result.regret_of("random") - result.regret_of("random", "expected_regret")
    # Both average the same gaps, one over arrivals that came and one over their chances: no bias, so the mean paired
    # difference is within four of its standard errors. Forgetting p_j would multiply the second by four.
    assert abs(difference.mean()) < 4 * difference.std(ddof=1) / np.sqrt(200)
    assert difference.std() > 0


def test_both_regrets_agree_where_tasks_do_not_differ():
    world = SyntheticWorld(n_tasks=4, n_arms=3, n_features=2, heterogeneity=np.zeros((2, 2)), arrivals="data-poor")
    result = simulate(world, ["lin-ucb-pooled"], horizon=100, seeds=5, appendix=True)
    name = "lin-ucb-pooled"
    assert_allclose(result.regret_of(name), result.regret_of(name, "expected_regret"))
    assert_allclose(result.table["expected_task_regret"].list.sum(), result.table["expected_regret"])
    shares = np.array(result.table["expected_task_regret"].to_list()) / result.regret_of(name)[:, None]
    assert_allclose(shares, np.tile(world.draw(0, 1).arrival_probabilities, (5, 1)))


@pytest.mark.parametrize(("horizon", "checkpoints"), [(1, 200), (7, 200), (100, 4), (90, 1), (1_000, 200)])
def test_checkpoints_rise_to_the_horizon(horizon, checkpoints):
    steps = simulate(WORLD, ["random"], horizon=horizon, seeds=1, checkpoints=checkpoints).steps
    assert steps[-1] == horizon
    assert steps[0] >= 1
    assert (np.diff(steps) > 0).all()
    assert len(steps) == min(horizon, checkpoints)


# ---- files


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run.parquet"


def interruptible(stop_at):
    """A policy that is interrupted in the so-manieth seed, and the list of policies made so far."""
    made = []

    class Interruptible(Random):
        def __init__(self, **sizes):
            super().__init__(**sizes)
            made.append(self)

        def play(self, *args, **settings):
            # The first one is made to be described, and never plays.
            if len(made) - 1 == stop_at[0]:
                raise KeyboardInterrupt
            return super().play(*args, **settings)

    return {"lin": LinUCB, "stops": Interruptible}, made


def test_an_interrupted_run_keeps_its_seeds_and_continues(out, tmp_path):
    stop_at = [4]
    policies, made = interruptible(stop_at)
    with pytest.raises(KeyboardInterrupt):
        simulate(WORLD, policies, horizon=40, seeds=6, out=out, appendix=True)
    kept = SimulationResult.load(out)
    assert kept.seeds == [0, 1, 2]  # the fourth was not finished
    assert not kept.complete

    stop_at[0] = None
    made.clear()
    continued = simulate(WORLD, policies, horizon=40, seeds=6, out=out, appendix=True)
    assert len(made) == 1 + 3  # one to be described, then only the missing seeds
    uninterrupted = simulate(WORLD, policies, horizon=40, seeds=6, out=tmp_path / "other.parquet", appendix=True)
    assert_frame_equal(continued.table, uninterrupted.table, check_exact=True)
    assert continued.complete
    assert out.read_bytes() == (tmp_path / "other.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.parquet", "run.parquet"]


def test_an_interrupted_continuation_keeps_what_both_finished(out):
    stop_at = [3]
    policies, made = interruptible(stop_at)
    with pytest.raises(KeyboardInterrupt):
        simulate(WORLD, policies, horizon=20, seeds=6, out=out)
    made.clear()
    with pytest.raises(KeyboardInterrupt):
        simulate(WORLD, policies, horizon=20, seeds=6, out=out)
    assert SimulationResult.load(out).seeds == [0, 1, 2, 3]


def test_an_interruption_before_the_first_seed_leaves_no_file(out):
    policies, _ = interruptible([1])
    with pytest.raises(KeyboardInterrupt):
        simulate(WORLD, policies, horizon=20, seeds=6, out=out)
    assert not out.exists()


def test_seeds_are_saved_while_the_run_goes_on(out, monkeypatch):
    monkeypatch.setattr("posse.simulation.run.SAVE_SECONDS", 0.0)
    seen = []

    class Looks(Random):
        def play(self, *args, **settings):
            seen.append(SimulationResult.load(out).seeds if out.exists() else [])
            return super().play(*args, **settings)

    simulate(WORLD, {"looks": Looks}, horizon=10, seeds=4, out=out)
    assert seen == [[], [0], [0, 1], [0, 1, 2]]


def test_a_finished_run_is_read_and_not_run_again(out):
    policies, made = interruptible([None])
    first = simulate(WORLD, policies, horizon=20, seeds=3, out=out)
    before = out.read_bytes()
    made.clear()
    again = simulate(WORLD, policies, horizon=20, seeds=3, out=out)
    assert len(made) == 1
    assert_frame_equal(first.table, again.table, check_exact=True)
    assert out.read_bytes() == before


def test_more_seeds_extend_the_file_and_fewer_read_part_of_it(out):
    policies, made = interruptible([None])
    simulate(WORLD, policies, horizon=20, seeds=2, out=out)
    made.clear()
    more = simulate(WORLD, policies, horizon=20, seeds=[5, 0, 3], out=out)
    assert len(made) == 1 + 2
    assert more.seeds == [0, 3, 5]
    assert SimulationResult.load(out).seeds == [0, 1, 3, 5]
    fewer = simulate(WORLD, policies, horizon=20, seeds=1, out=out)
    assert fewer.seeds == [0]
    assert SimulationResult.load(out).seeds == [0, 1, 3, 5]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"horizon": 21}, "horizon: 20 there, 21 now"),
        ({"world": SyntheticWorld(n_tasks=4, n_arms=3, n_features=2)}, "arrivals"),
        ({"policies": {"a": partial(LinUCB, exploration=0.3)}}, "exploration: 0.2 there, 0.3 now"),
        ({"policies": {"a": partial(LinTS, exploration=0.2)}}, "LinUCB.*LinTS"),
        ({"policies": {"b": partial(LinUCB, exploration=0.2)}}, "policies"),
        ({"policies": {"a": partial(LinUCB, exploration=0.2), "b": Random}}, "policies.b"),
        ({"appendix": True}, "appendix"),
        ({"track_task": 1}, "track_task"),
        ({"checkpoints": 5}, "steps"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_of_other_settings_is_left_alone(out, change, words):
    given = {"world": WORLD, "policies": {"a": partial(LinUCB, exploration=0.2)}, "horizon": 20, "seeds": 2, "out": out}
    simulate(**given)
    before = out.read_bytes()
    with pytest.raises(SettingsDiffer, match=words) as caught:
        simulate(**(given | change))
    assert isinstance(caught.value, ResultFileError)
    assert out.read_bytes() == before


def test_positional_settings_of_a_partial_are_settings_too(out):
    class Fixed(Greedy):
        def __init__(self, arm, **sizes):
            super().__init__(**sizes)
            self.arm = arm

        def choose(self, task, context, step, rng):
            return self.arm

    simulate(WORLD, {"fixed": partial(Fixed, 0)}, horizon=20, seeds=2, out=out)
    with pytest.raises(SettingsDiffer):
        simulate(WORLD, {"fixed": partial(Fixed, 1)}, horizon=20, seeds=2, out=out)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"policy,seed\n", b"\x00" * 5_000], ids=repr)
def test_a_file_of_something_else_is_refused_and_left_alone(out, content):
    out.write_bytes(content[:100])
    with pytest.raises(ResultFileError, match=r"run\.parquet"):
        simulate(WORLD, ["random"], horizon=10, seeds=1, out=out)
    assert out.read_bytes() == content[:100]


def test_a_folder_that_is_not_there_is_noticed_before_the_first_seed(tmp_path):
    policies, made = interruptible([None])
    with pytest.raises(ResultFileError, match="nowhere"):
        simulate(WORLD, policies, horizon=10, seeds=3, out=tmp_path / "nowhere" / "run.parquet")
    assert len(made) <= 1


# ---- bad input


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"seeds": 0}, InvalidValue, "seeds to be at least 1, got 0"),
        ({"seeds": -3}, InvalidValue, "seeds"),
        ({"seeds": []}, InvalidValue, "at least one seed"),
        ({"seeds": [1, 2, 1]}, InvalidValue, "twice"),
        ({"seeds": [1, -2]}, InvalidValue, "-2"),
        ({"seeds": [0.5]}, InvalidValue, "0.5"),
        ({"seeds": "12"}, InvalidValue, "seed"),
        ({"seeds": True}, InvalidValue, "True"),
        ({"seeds": None}, InvalidValue, "None"),
        ({"seeds": 2.0}, InvalidValue, "2.0"),
        ({"horizon": 0}, InvalidValue, "horizon"),
        ({"horizon": 10.5}, InvalidValue, "horizon"),
        ({"workers": 0}, InvalidValue, "workers"),
        ({"checkpoints": 0}, InvalidValue, "checkpoints"),
        ({"track_task": 4}, InvalidValue, "track_task.*0 to 3.*4"),
        ({"track_task": -1}, InvalidValue, "track_task"),
        ({"track_task": 0.5}, InvalidValue, "track_task"),
        ({"policies": {}}, InvalidValue, "at least one"),
        ({"policies": []}, InvalidValue, "at least one"),
        ({"policies": "ebm-ucb"}, InvalidValue, "ebm-ucb"),
        ({"policies": ["ebm-usb"]}, UnknownPolicy, "did you mean 'ebm-ucb'"),
        ({"policies": {"mine": "lin"}}, UnknownPolicy, "no policy 'lin'"),
        ({"policies": ["lin-ucb", "lin-ucb"]}, InvalidValue, "two policies.*'lin-ucb'"),
        ({"policies": [LinUCB, LinUCB]}, InvalidValue, "two policies.*'LinUCB'"),
        ({"policies": [7]}, InvalidValue, "7"),
        ({"policies": [LinUCB(n_tasks=4, n_arms=3, n_features=2)]}, InvalidValue, "to be a class"),
        ({"policies": {"a": partial(LinUCB, alpha=1.0)}}, InvalidValue, "'a' has no setting 'alpha'.*exploration"),
        ({"policies": {"a": partial(LinUCB, exploration=-1.0)}}, InvalidValue, "exploration.*-1"),
        ({"policies": {"a": partial(EbmUCB, prior="papier")}}, InvalidValue, "papier"),
        ({"policies": {"a": dict}}, InvalidValue, "no choose"),
        ({"policies": {"a": partial(Oracle, coefficients=np.zeros((1, 1, 1)))}}, InvalidValue, r"\(3, 4, 2\)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_refused_before_anything_runs(out, change, error, words):
    given = {"world": WORLD, "policies": ["random"], "horizon": 10, "seeds": 2, "out": out}
    with pytest.raises(error, match=words) as caught:
        simulate(**(given | change))
    assert isinstance(caught.value, PosseError)
    assert not out.exists()


def test_a_numpy_integer_is_a_number_of_seeds():
    assert simulate(WORLD, ["random"], horizon=5, seeds=np.int64(3)).seeds == [0, 1, 2]
    assert simulate(WORLD, ["random"], horizon=5, seeds=np.array([4, 2])).seeds == [2, 4]


def test_an_arm_that_does_not_exist_is_refused():
    class Beyond(Greedy):
        def choose(self, task, context, step, rng):
            return 3

    with pytest.raises(InvalidValue, match="0 to 2, got 3"):
        simulate(WORLD, {"beyond": Beyond}, horizon=10, seeds=1)


def test_a_failing_policy_is_named_with_its_seed_and_step():
    class Fails(Greedy):
        def update(self, task, arm, context, reward):
            self.seen = getattr(self, "seen", 0) + 1
            if self.seen == 7:
                raise ZeroDivisionError("seven")

    with pytest.raises(PosseError, match=r"'fails' failed in seed 5 at step 7.*seven"):
        simulate(WORLD, {"fails": Fails}, horizon=10, seeds=[5])


def test_a_failure_keeps_the_finished_seeds(out):
    made = []

    class FailsLate(Random):
        def __init__(self, **sizes):
            super().__init__(**sizes)
            made.append(self)

        def play(self, *args, **settings):
            if len(made) == 1 + 3:
                raise RuntimeError("third seed")
            return super().play(*args, **settings)

    with pytest.raises(RuntimeError):
        simulate(WORLD, {"late": FailsLate}, horizon=10, seeds=5, out=out)
    assert SimulationResult.load(out).seeds == [0, 1]


def test_the_progress_bar_goes_to_standard_error_and_only_if_asked(capsys):
    simulate(WORLD, ["random"], horizon=5, seeds=2)
    assert capsys.readouterr() == ("", "")
    simulate(WORLD, ["random"], horizon=5, seeds=2, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""


# ---- progress


def test_a_callable_is_told_first_what_is_there_and_then_every_seed(out):
    told = []
    simulate(WORLD, ["random"], horizon=5, seeds=3, out=out, progress=told.append)
    assert told == [0, 1, 1, 1]
    told.clear()
    simulate(WORLD, ["random"], horizon=5, seeds=5, out=out, progress=told.append)
    assert told == [3, 1, 1]
    told.clear()
    simulate(WORLD, ["random"], horizon=5, seeds=[4, 1], out=out, progress=told.append)
    assert told == [2]


def test_a_callable_needs_no_file_and_shows_nothing(capsys):
    told = []
    simulate(WORLD, ["random"], horizon=5, seeds=2, progress=told.append)
    assert told == [0, 1, 1]
    assert capsys.readouterr() == ("", "")


def test_a_callable_is_told_of_seeds_in_worker_processes(out):
    told = []
    simulate(WORLD, ["random"], horizon=5, seeds=4, workers=2, out=out, progress=told.append)
    assert sorted(told) == [0, 1, 1, 1, 1]


def test_a_callable_may_stop_the_run_and_what_it_was_told_of_is_kept(out, tmp_path):
    told = []

    def stop(seeds):
        told.append(seeds)
        if sum(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(WORLD, RIVALS, horizon=20, seeds=4, out=out, progress=stop)
    kept = SimulationResult.load(out)
    assert kept.seeds == [0, 1]
    assert not kept.complete
    simulate(WORLD, RIVALS, horizon=20, seeds=4, out=out)
    simulate(WORLD, RIVALS, horizon=20, seeds=4, out=tmp_path / "straight.parquet")
    assert out.read_bytes() == (tmp_path / "straight.parquet").read_bytes()
