"""A shard that dies is what it was: from its snapshot and its journal, in this process and without Ray."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from posse import Posse
from posse.distributed.fit import encode_frame, encode_rows
from posse.distributed.journal import Journal, read_journal
from posse.distributed.population import RemotePairs, published
from posse.distributed.shard import Shard, file_of
from posse.errors import DamagedFile, ExpiredDecision, InvalidValue, UnknownTask
from posse.features import FeatureSpec, numeric
from posse.fleet.decision import Ranking
from posse.fleet.names import N_BUCKETS
from posse.fleet.tables import Columns

ARMS, FEATURES = ["red", "green", "blue"], ["a", "b"]
CONTEXT = {"a": 0.5, "b": -1.0}
CLICKS = {"rewards": "binary"}


@pytest.fixture
def new_shard(tmp_path):
    alive = []

    def make(features=FEATURES, **settings):
        template = file_of(Posse(arms=ARMS, features=features, seed=3, **settings))
        for one in alive:
            one.let_go()  # as its process would by dying
        alive.append(Shard(template, 5, str(tmp_path / "shard"), fsync=False))
        return alive[-1]

    yield make
    for one in alive:
        one.let_go()


def rows_of(table):
    return encode_rows(Posse(arms=ARMS, features=FEATURES), table, Columns())


def state(shard, pair_sums):
    fleet = shard.fleet
    statuses = {
        (ledger.prefix, ledger.first + row): (
            int(ledger.status[ledger.live][row]),
            float(ledger.reward[ledger.live][row]),
        )
        for ledger in fleet.ledgers
        for row in range(ledger.size)
    }
    return pair_sums(fleet), statuses, fleet.n_decisions, fleet.arms, set(fleet.tasks)


def live(shard, table, snapshots=()):
    """Do a bit of everything; return decisions that wait."""
    rewards = shard.fleet.rewards
    table = table.with_columns(reward=(pl.col("reward") > 0).cast(pl.Float64)) if rewards != "number" else table
    shard.do("learn", "learn_table", *rows_of(table))
    if "early" in snapshots:
        shard.snapshot()
    coordinator = Posse(arms=ARMS, features=FEATURES, rewards=rewards)
    pairs = RemotePairs(
        coordinator.core, lambda look, *given: [getattr(shard, look)(*given)], shard.fleet.core.now,
        lambda _, method, *given: getattr(shard, method)(*given),
    )  # fmt: skip
    coordinator.core.estimate_from(pairs, steps=30, settled=1e-2)
    common, (own,) = published(coordinator.core, pairs, [0], 1)
    shard.adopt(own, common)
    first = [shard.do(f"d{n}", "decide", f"t{n % 7}", CONTEXT, None, True) for n in range(20)]
    for n, decision in enumerate(first[:10]):
        assert shard.do(f"r{n}", "reward", decision.id, float(n % 2))
    assert shard.do("c", "correct", first[0].id, 1.0)
    shard.add_arm("violet")
    shard.add_arm("violet")  # once more, as by Ray after a death
    if "late" in snapshots:
        shard.snapshot()
    contexts = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    many = shard.do("m", "decide_columns", ["t1", "new", "t2"], contexts, None, True)
    assert shard.do("mr", "reward_rows", many["ids"][:2], [1.0, 0.0], "raise") == (2, [])
    shard.retire_arm("red")
    shard.retire_arm("red")
    shard.forget(["t3"], "forget", 2)
    return [decision.id for decision in first[10:] if decision.task != "t3"]


@pytest.mark.parametrize(
    "settings",
    [{}, {"absent_reward": 0.0}, {"drift": 1e-6}, CLICKS, CLICKS | {"absent_reward": 0.0}, CLICKS | {"drift": 1e-6}],
    ids=["plain", "absent", "drift", "clicks", "absent clicks", "drift of clicks"],
)
@pytest.mark.parametrize("snapshots", [(), ("early",), ("early", "late")], ids=["journal", "one", "two"])
def test_a_restored_shard_has_all_that_was_acknowledged(new_shard, log, pair_sums, snapshots, settings):
    shard = new_shard(**settings)
    waiting = live(shard, log(), snapshots)
    again = new_shard(**settings)  # from its folder, as after a death
    assert state(again, pair_sums) == state(shard, pair_sums)
    shard.fleet.clock = again.fleet.clock = lambda: 2e9
    for task in ("t1", "nobody"):
        one, other = (each.fleet.expected(task, CONTEXT) for each in (shard, again))
        assert list(other.mean.values()) == pytest.approx(list(one.mean.values()), rel=1e-9)
    # It goes on: late rewards find their decisions, and the next decisions have ids of their own.
    again.fleet.clock = again._clock
    assert again.do("late", "reward", waiting[0], 1.0)
    assert again.do("next", "decide", "t1", CONTEXT, None, True).id not in waiting
    third = new_shard(**settings)
    assert state(third, pair_sums) == state(again, pair_sums)


def test_a_call_that_is_made_again_is_done_once(new_shard, log, pair_sums):
    shard = new_shard()
    live(shard, log(), ("late",))
    rows = rows_of(log(10, seed=9))
    one = shard.do("x", "decide", "t1", CONTEXT, None, True)
    assert shard.do("y", "learn_table", *rows) == 10
    many = shard.do("z", "decide_columns", ["t1", "t2"], np.zeros((2, 2)), None, True)
    ranking = shard.do("k", "decide", "t1", CONTEXT, None, True, k=2)
    assert shard.do("w", "reward_rows", [one.id, "nobody-1"], [1.0, 1.0], "skip")[0] == 1
    assert len(set(ranking.arms)) == 2
    before = state(shard, pair_sums)
    assert shard.look("decide", "new one", CONTEXT, None, True, record=False).id == ""
    assert shard.look("decide_columns", ["t1"], np.zeros((1, 2)), None, True, False)["ids"] == [""]
    for each in (shard, new_shard()):  # the answer was lost, by whoever lives or was restored
        assert each.do("x", "decide", "t1", CONTEXT, None, True) == one
        again = each.do("k", "decide", "t1", CONTEXT, None, True, k=2)
        assert (type(again), again) == (Ranking, ranking)
        assert each.do("y", "learn_table", *rows) == 10
        (count, skipped) = each.do("w", "reward_rows", [one.id, "nobody-1"], [1.0, 1.0], "skip")
        assert (count, [row for row, _, _ in skipped]) == (1, [1])
        again = each.do("z", "decide_columns", ["t1", "t2"], np.zeros((2, 2)), None, True)
        assert again["ids"] == many["ids"]
        np.testing.assert_array_equal(again["probabilities"], many["probabilities"])
        assert state(each, pair_sums) == before
    # Also one of before the last snapshot.
    shard.snapshot()
    assert new_shard().do("y", "learn_table", *rows) == 10
    assert state(new_shard(), pair_sums) == before


def test_a_call_that_was_refused_is_refused_when_it_is_made_again(new_shard, log, pair_sums):
    shard = new_shard()
    shard.do("a", "learn_table", *rows_of(log(50)))
    before = state(shard, pair_sums)
    for each in (shard, new_shard()):
        with pytest.raises(UnknownTask):
            each.forget(["t1", "nobody"], "f", 2)
        assert state(each, pair_sums) == before


def test_a_record_that_was_not_finished_is_cut_off(new_shard, log, pair_sums, tmp_path):
    shard = new_shard()
    shard.do("a", "learn_table", *rows_of(log(50)))
    before = state(shard, pair_sums)
    shard.do("b", "learn_table", *rows_of(log(50, seed=1)))
    path = tmp_path / "shard" / "journal-000000000.log"
    path.write_bytes(path.read_bytes()[:-7])
    again = new_shard()
    assert state(again, pair_sums) == before
    assert again.do("b", "learn_table", *rows_of(log(50, seed=1))) == 50


@pytest.mark.parametrize("snapshots", [False, True], ids=["journal", "snapshot"])
def test_a_restored_shard_knows_its_scaling(new_shard, log, snapshots):
    spec = FeatureSpec([numeric("a", scale="standard"), "b"])
    learned = spec.learn_scaling(log()[["a", "b"]])
    shard = new_shard(features=spec)
    assert not shard.state()["ready"]
    with pytest.raises(InvalidValue, match="scaling"):
        shard.look("expected", "t1", CONTEXT)
    shard.do("scale", "have_features", learned.to_json())
    decision = shard.do("d", "decide", "t1", CONTEXT, None, True)
    if snapshots:
        shard.snapshot()
    again = new_shard(features=spec)
    assert again.fleet.features == learned
    assert again.do("r", "reward", decision.id, 1.0)
    contexts = [row for ledger in again.fleet.ledgers for row in ledger.context[ledger.live].tolist()]
    assert contexts == [learned.encode(CONTEXT).tolist()]


def test_a_numbered_piece_of_a_fit_is_learned_once(new_shard, log):
    template, home = Posse(arms=ARMS, features=FEATURES), np.zeros(N_BUCKETS, dtype=np.int64)
    parts = [encode_frame(log(50, seed=n), template, Columns(), home, 1, n)[0] for n in range(4)]
    shard = new_shard()
    assert shard.learn_part("a", parts[:2]) == 100
    assert shard.learn_part("a", parts[:2]) == 100, "the same call again has the same answer"
    shard._limit = shard._last = 1  # the next piece makes a snapshot
    assert shard.learn_part("b", parts[2:3]) == 50
    again = new_shard()
    assert again._folder.numbers("snapshot")[-1] > 0
    assert again.pieces() == [0, 1, 2]
    assert again.learn_part("c", parts) == 50, "another call learns what is new"
    assert new_shard().fleet.n_rewards == 200


def test_a_journal_that_is_damaged_in_the_middle_is_refused(tmp_path):
    journal = Journal(tmp_path / "j", fsync=False)
    for number in range(3):
        journal.append("x", {"number": number}, {"y": np.arange(4.0)})
    data = bytearray((tmp_path / "j").read_bytes())
    data[30] ^= 1
    (tmp_path / "j").write_bytes(bytes(data))
    with pytest.raises(DamagedFile, match="damaged at byte 0"):
        list(read_journal(tmp_path / "j"))


def test_nothing_is_done_that_the_journal_did_not_take(new_shard, log, monkeypatch, pair_sums):
    shard = new_shard()
    live(shard, log())
    before = state(shard, pair_sums)

    def fail(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(Journal, "append", fail)
    for do in (
        lambda: shard.do("n1", "decide", "t1", CONTEXT, None, True),
        lambda: shard.do("n2", "learn_table", *rows_of(log(5))),
        lambda: shard.add_arm("black"),
        lambda: shard.do("n4", "decide_columns", ["t1"], np.zeros((1, 2)), None, True),
    ):
        with pytest.raises(OSError, match="no space"):
            do()
    assert state(shard, pair_sums) == before


def test_two_processes_do_not_write_to_one_folder(new_shard, tmp_path):
    new_shard()
    program = (
        "import fcntl, sys\n"
        "try: fcntl.flock(open(sys.argv[1], 'wb'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except BlockingIOError: sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", program, tmp_path / "shard" / "lock"], check=False).returncode == 7


def test_snapshots_replace_journals(new_shard, log, tmp_path):
    shard = new_shard()
    shard._limit = 1000
    for number in range(6):
        shard.do(str(number), "learn_table", *rows_of(log(100, seed=number)))
    shard.snapshot()
    names = sorted(path.name.split("-")[0] for path in (tmp_path / "shard").iterdir())
    assert names == ["journal", "journal", "lock", "snapshot"]
    assert new_shard().fleet.n_rewards == 600


def test_a_restored_shard_knows_what_is_known_about_tasks(new_shard, log):
    shard = new_shard(task_features=["size"])
    spec = shard.fleet.known.tasks.spec.to_json()
    shard.do("k", "know_tasks", ["t1", "t2"], [[1.0], [2.0]], spec)
    shard.do("learn", "learn_table", *rows_of(log(300)))
    shard.do("k2", "know_tasks", ["t2", "new"], [[3.0], [4.0]], spec)
    again = new_shard(task_features=["size"])
    assert [again.fleet.about_task(task) for task in ("t1", "t2", "new")] == [
        {"size": size} for size in (1.0, 3.0, 4.0)
    ]
    for task in ("t1", "t2", "t3"):
        one, other = (each.fleet.expected(task, CONTEXT).mean for each in (shard, again))
        assert list(other.values()) == pytest.approx(list(one.values()), rel=1e-9)


@pytest.mark.parametrize("count_pending", [True, False])
def test_decisions_whose_time_is_over_are_that_in_a_restored_shard(new_shard, pair_sums, count_pending):
    settings = {"absent_reward": 0.5, "count_pending": count_pending, "time_to_live": 60.0, "drift": 1e-3}
    shard = new_shard(**settings)
    first = [shard.do(f"d{n}", "decide", f"t{n % 3}", CONTEXT, None, True) for n in range(6)]
    assert shard.do("r", "reward", first[0].id, 2.0)
    shard._clock = lambda: 1e10
    shard.fleet.clock = shard._clock
    shard.do("late", "decide", "t1", CONTEXT, None, True)
    assert shard.fleet.n_rewards > 0
    again = new_shard(**settings)
    assert len(pair_sums(shard.fleet)) > 0
    assert state(again, pair_sums) == state(shard, pair_sums)
    with pytest.raises(ExpiredDecision):
        again.do("r2", "reward", first[1].id, 1.0)
