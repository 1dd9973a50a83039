import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse import Posse
from posse.errors import InvalidValue, UnknownArm
from posse.fleet.replica import Replica

ARMS = ("red", "green", "blue")
FEATURES = ("age", "hour")


def rows(n, seed=0, n_tasks=12):
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(3, 3)) + 0.7 * rng.normal(size=(n_tasks, 3, 3))
    tasks, arms = rng.integers(n_tasks, size=n), rng.integers(3, size=n)
    X = rng.normal(size=(n, 2))
    y = (np.c_[np.ones(n), X] * coefficients[tasks, arms]).sum(axis=1) + rng.normal(size=n)
    return [f"task-{task}" for task in tasks], [ARMS[arm] for arm in arms], X.tolist(), y.tolist()


def replica(**settings):
    return Replica(arms=ARMS, features=FEATURES, seed=3, **settings)


def beliefs(fleet, context=(0.4, -1.3)):
    found = [fleet.expected(task, list(context)) for task in ("task-0", "task-7", "never seen")]
    return np.array([[*one.mean.values(), *one.sd.values()] for one in found])


def test_a_replica_decides_as_a_fleet_that_keeps_its_decisions():
    ours, plain = replica(), Posse(arms=ARMS, features=FEATURES, seed=3)
    for task, arm, context, reward in zip(*rows(60), strict=True):
        ours.learn([task], [arm], [context], [reward])
        plain.learn_many({"task": [task], "arm": [arm], "reward": [reward], "age": [context[0]], "hour": [context[1]]})
        mine, other = ours.propose(task, context), plain.decide(task, context)
        assert mine[1:] == other[1:]
    assert_allclose(beliefs(ours), beliefs(plain), rtol=1e-12)


def test_a_replica_keeps_no_decision_and_no_task_without_rewards():
    ours = replica()
    ids = {ours.propose(f"task-{i % 5}", [1.0, 2.0]).id for i in range(200)}

    assert len(ids) == 200
    assert ours.tasks == ()
    assert [ledger.size for ledger in ours.ledgers] == [0]


def test_a_replica_has_no_decide_and_no_reward_that_it_must_not_use():
    for name in ("decide", "decide_many", "reward", "reward_many", "pending", "learn_many", "merge", "made"):
        assert hasattr(Posse, name)
        assert not hasattr(Replica, name)


@pytest.mark.parametrize("rewards", ["number", "binary"])
def test_a_file_of_a_replica_whose_decisions_count_from_the_start_is_read_again(tmp_path, rewards):
    ours = Replica(arms=["a", "b"], features=["x"], rewards=rewards, absent_reward=0.0, seed=1)
    ours.learn(["t", "t"], ["a", "b"], [[1.0], [2.0]], [0.0, 1.0], provisional=True)
    ours.freeze()(tmp_path / "fleet")

    for back in (Replica.load(tmp_path / "fleet"), Posse.load(tmp_path / "fleet")):
        assert back.expected("t", [1.0]) == ours.expected("t", [1.0])
        assert back.n_rewards == 2


@pytest.mark.parametrize("catching_up", [False, True])
def test_rewards_that_replace_what_decisions_counted_as(catching_up):
    """As a service follows its log: decisions and rewards mixed, some of both kinds of one decision in one call."""
    tasks, arms, contexts, rewards = rows(300)
    known = {"time_to_live": 10.0, "absent_reward": 0.5}
    followed, plain = replica(**known), replica()
    rng = np.random.default_rng(1)
    delay = rng.integers(1, 60, size=300)
    changes = [(2 * i, i, None) for i in range(300)] + [(2 * (i + delay[i]) + 1, i, 0.5) for i in range(0, 300, 2)]
    changes = [(i, old) for _, i, old in sorted(changes)]
    for start in range(0, len(changes), 37):
        part = changes[start : start + 37]
        followed.learn(
            [tasks[i] for i, _ in part], [arms[i] for i, _ in part], [contexts[i] for i, _ in part],
            [0.5 if old is None else rewards[i] for i, old in part], replaces=[old for _, old in part],
            catching_up=catching_up,
        )  # fmt: skip
    plain.learn(tasks, arms, contexts, [0.5 if i % 2 else reward for i, reward in enumerate(rewards)])
    followed.adopt(plain.dump_population())

    order = [followed.tasks.index(task) for task in plain.tasks]
    for mine, theirs in zip(followed.statistics.sums, plain.statistics.sums, strict=True):
        assert_allclose(mine[:, order], theirs, rtol=1e-9, atol=1e-9)
    assert_allclose(beliefs(followed), beliefs(plain), rtol=1e-7, atol=1e-9)


def test_a_reward_replaces_only_what_was_learned():
    ours = replica(absent_reward=0.0)
    ours.learn(["task-0"], ["red"], [[1.0, 2.0]], [0.0])
    for task, arm in (("task-0", "green"), ("task-9", "red")):
        with pytest.raises(InvalidValue, match="never learned"):
            ours.learn([task], [arm], [[1.0, 2.0]], [1.0], replaces=[0.0])
    assert ours.tasks == ("task-0",)
    assert ours.n_rewards == 1
    assert ours.statistics.sum_of_squares.sum() == 0


def test_adding_up_while_catching_up_equals_learning_one_by_one():
    tasks, arms, contexts, rewards = rows(500)
    once, by_and_by = replica(), replica()
    for start in range(0, 500, 7):
        part = slice(start, start + 7)
        by_and_by.learn(tasks[part], arms[part], contexts[part], rewards[part])
    once.learn(tasks, arms, contexts, rewards, catching_up=True)
    once.adopt(by_and_by.dump_population())

    # The same population and the same sums, added in another order.
    assert_allclose(beliefs(once), beliefs(by_and_by), rtol=1e-9)


def test_a_follower_estimates_no_population_and_adopts_that_of_the_leader():
    leader, follower = replica(), replica()
    follower.leading = False
    for start in range(0, 600, 20):
        part = [column[start : start + 20] for column in rows(600)]
        leader.learn(*part)
        follower.learn(*part)
    assert follower.estimated_at == 20  # its first, without which nothing is known about the size of anything
    assert leader.estimated_at > 500
    assert abs(beliefs(leader) - beliefs(follower)).max() > 1e-3

    assert follower.adopt(leader.dump_population())

    assert_allclose(beliefs(follower), beliefs(leader), rtol=1e-9)
    assert follower.estimated_at == leader.estimated_at


def test_a_population_of_other_arms_is_not_adopted():
    leader, follower = replica(), replica()
    leader.learn(*rows(50))
    follower.learn(*rows(50))
    population = leader.dump_population()
    follower.add_arm("yellow")
    before = beliefs(follower)

    assert not follower.adopt(population)
    assert_allclose(beliefs(follower), before, rtol=0)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"covariance": 3}', b'{"covariance": {"shape": [1], "type": "<f8"}}']
)
def test_what_is_no_population_is_refused(data):
    ours = replica()
    ours.learn(*rows(50))
    before = beliefs(ours)

    with pytest.raises(InvalidValue):
        ours.adopt(data)
    assert_allclose(beliefs(ours), before, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"robust": True}, {"prior": "paper"}, {"policy": "lin-ucb"}])
def test_a_frozen_state_is_that_of_its_moment(tmp_path, settings):
    """Whatever is learned or forgotten before it is written."""
    ours = replica(**settings)
    ours.learn(*rows(100))
    before, names = beliefs(ours), ours.tasks
    write = ours.freeze()
    ours.learn(*rows(100, seed=9))
    ours.learn(*rows(100, seed=10), catching_up=True)
    ours.discard(lambda task: task == names[1])
    write(tmp_path / "frozen")

    back = Replica.load(tmp_path / "frozen")
    assert back.tasks == names
    assert_allclose(beliefs(back), before, rtol=1e-8, atol=1e-10)
    assert abs(beliefs(ours) - before).max() > 1e-3
    back.learn(*rows(100, seed=9))
    assert back.n_rewards == 200


def test_two_replicas_of_one_file_do_not_draw_the_same_numbers(tmp_path):
    replica().save(tmp_path / "fleet")
    one, other = (Replica.load(tmp_path / "fleet") for _ in range(2))
    for fleet in (one, other):
        fleet.start_apart(100)

    chosen = [[fleet.propose("task", [0.0, 0.0]).arm for _ in range(40)] for fleet in (one, other)]
    assert chosen[0] != chosen[1]  # equal by chance once in 3^40
    assert one.n_decisions == 140


def test_discarding_a_task_is_as_if_it_had_never_been():
    tasks, arms, contexts, rewards = rows(200)
    kept = [i for i, task in enumerate(tasks) if task != "task-7"]
    ours, never = replica(), replica()
    ours.learn(tasks, arms, contexts, rewards)
    never.learn(*([column[i] for i in kept] for column in (tasks, arms, contexts, rewards)))

    assert ours.discard(lambda task: task == "task-7") == 1
    assert ours.discard(lambda task: task == "task-7") == 0
    ours.refresh()
    never.refresh()
    # Both estimate until nothing moves by more than a hundredth, from different starts.
    assert_allclose(beliefs(ours), beliefs(never), rtol=0.05, atol=0.02)
    assert ours.n_rewards == never.n_rewards == len(kept)
    assert_allclose(ours.statistics.gram.sum(), never.statistics.gram.sum(), rtol=1e-9)


def test_a_row_that_cannot_be_learned_leaves_everything_as_it_was():
    ours = replica()
    ours.learn(*rows(50))
    before = beliefs(ours)

    with pytest.raises(UnknownArm):
        ours.learn(["task-0", "new"], ["red", "purple"], [[0.0, 1.0]] * 2, [1.0, 2.0])
    assert_allclose(beliefs(ours), before, rtol=0)
    assert "new" not in ours.tasks


@pytest.mark.parametrize("catching_up", [False, True])
def test_what_fades_does_not_depend_on_how_a_log_is_cut(catching_up):
    """Rewards that come late count as of the latest time, also the first of their task."""
    log = [(1.0, "a"), (5.0, "b"), (200.0, "a"), (20.0, "c"), (90.0, "b"), (250.0, "c"), (10.0, "d")]
    found = []
    for cut in range(1, len(log)):
        replica = Replica(arms=["red", "green"], features=["x"], drift=1e-3, seed=1)
        for part in (log[:cut], log[cut:]):
            n = len(part)
            replica.learn([task for _, task in part], ["red"] * n, [[0.5]] * n, [1.0] * n,
                          times=[time for time, _ in part], catching_up=catching_up)  # fmt: skip
        found.append([sums.rewards for _, sums in sorted(replica.learned(replica.tasks)[1].items())])
    assert found[0][-1] == 1.0
    np.testing.assert_allclose(found, found[:1] * len(found), rtol=1e-9)
