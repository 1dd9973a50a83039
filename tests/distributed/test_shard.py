"""A shard that dies is what it was: from its snapshot and its journal, in this process and without Ray."""

import subprocess
import sys

import numpy as np
import pytest

from posse import Posse
from posse.distributed.actors import file_of
from posse.distributed.fit import encode_frame
from posse.distributed.journal import Journal, read_journal
from posse.distributed.population import estimate, published
from posse.distributed.shard import Shard
from posse.errors import DamagedFile, InvalidValue
from posse.features import FeatureSpec, numeric
from posse.fleet.decision import Ranking
from posse.fleet.streaming import Columns
from posse.fleet.task_keys import N_BUCKETS

ARMS, FEATURES = ["red", "green", "blue"], ["a", "b"]
CONTEXT = {"a": 0.5, "b": -1.0}


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
    template = Posse(arms=ARMS, features=FEATURES)
    from posse.distributed.fit import encode_rows

    return encode_rows(template, table, "task", "arm", "reward")


def state(shard, pair_sums):
    fleet = shard.fleet
    statuses = {
        (ledger.prefix, ledger.first + row): (int(ledger.status[row]), float(ledger.reward[row]))
        for ledger in fleet._ledgers()
        for row in range(ledger.size)
    }
    return pair_sums(fleet), statuses, fleet.n_decisions, fleet.arms, set(fleet.tasks)


def live(shard, table, snapshots=()):
    """Do a bit of everything; return decisions that wait."""
    shard.learn_rows("learn", *rows_of(table))
    if "early" in snapshots:
        shard.snapshot()
    coordinator = Posse(arms=ARMS, features=FEATURES)
    found = estimate(coordinator, lambda method, *given: [getattr(shard, method)(*given)], steps=30, settled=1e-2)
    common, (own,) = published(found, [0], 1)
    shard.adopt(own, common)
    first = [shard.decide(f"d{n}", f"t{n % 7}", CONTEXT, None, True) for n in range(20)]
    for n, decision in enumerate(first[:10]):
        assert shard.reward(f"r{n}", decision.id, float(n))
    shard.add_arm("violet")
    shard.add_arm("violet")  # once more, as by Ray after a death
    if "late" in snapshots:
        shard.snapshot()
    many = shard.decide_many("m", ["t1", "new", "t2"], np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), None, True)
    assert shard.reward_many("mr", many["ids"][:2], [1.0, 2.0], "raise") == (2, [])
    shard.retire_arm("red")
    shard.retire_arm("red")
    shard.forget(["t3"], "forget", 2)
    return [decision.id for decision in first[10:] if decision.task != "t3"]


@pytest.mark.parametrize("settings", [{}, {"absent_reward": 0.0}], ids=["plain", "absent"])
@pytest.mark.parametrize("snapshots", [(), ("early",), ("early", "late")], ids=["journal", "one", "two"])
def test_a_restored_shard_has_all_that_was_acknowledged(new_shard, log, pair_sums, snapshots, settings):
    shard = new_shard(**settings)
    waiting = live(shard, log(), snapshots)
    again = new_shard(**settings)  # from its folder, as after a death
    assert state(again, pair_sums) == state(shard, pair_sums)
    for task in ("t1", "nobody"):
        one, other = (each.fleet.expected(task, CONTEXT) for each in (shard, again))
        assert list(other.mean.values()) == pytest.approx(list(one.mean.values()), rel=1e-9)
    # It goes on: late rewards find their decisions, and the next decisions have ids of their own.
    assert again.reward("late", waiting[0], 3.0)
    assert again.decide("next", "t1", CONTEXT, None, True).id not in waiting
    third = new_shard(**settings)
    assert state(third, pair_sums) == state(again, pair_sums)


def test_a_call_that_is_made_again_is_done_once(new_shard, log, pair_sums):
    shard = new_shard()
    live(shard, log(), ("late",))
    rows = rows_of(log(10, seed=9))
    one = shard.decide("x", "t1", CONTEXT, None, True)
    assert shard.learn_rows("y", *rows) == 10
    many = shard.decide_many("z", ["t1", "t2"], np.zeros((2, 2)), None, True)
    ranking = shard.decide("k", "t1", CONTEXT, None, True, k=2)
    assert len(set(ranking.arms)) == 2
    before = state(shard, pair_sums)
    assert shard.decide("p", "new one", CONTEXT, None, True, record=False).id == ""
    assert shard.decide_many("q", ["t1"], np.zeros((1, 2)), None, True, record=False)["ids"] == [""]
    for each in (shard, new_shard()):  # the answer was lost, by whoever lives or was restored
        assert each.decide("x", "t1", CONTEXT, None, True) == one
        again = each.decide("k", "t1", CONTEXT, None, True, k=2)
        assert (type(again), again) == (Ranking, ranking)
        assert each.learn_rows("y", *rows) == 10
        again = each.decide_many("z", ["t1", "t2"], np.zeros((2, 2)), None, True)
        assert again["ids"] == many["ids"]
        np.testing.assert_array_equal(again["probabilities"], many["probabilities"])
        assert state(each, pair_sums) == before
    # Also one of before the last snapshot.
    shard.snapshot()
    assert new_shard().learn_rows("y", *rows) == 10
    assert state(new_shard(), pair_sums) == before


def test_a_record_that_was_not_finished_is_cut_off(new_shard, log, pair_sums, tmp_path):
    shard = new_shard()
    shard.learn_rows("a", *rows_of(log(50)))
    before = state(shard, pair_sums)
    shard.learn_rows("b", *rows_of(log(50, seed=1)))
    path = tmp_path / "shard" / "journal-000000000.log"
    path.write_bytes(path.read_bytes()[:-7])
    again = new_shard()
    assert state(again, pair_sums) == before
    assert again.learn_rows("b", *rows_of(log(50, seed=1))) == 50


@pytest.mark.parametrize("snapshots", [False, True], ids=["journal", "snapshot"])
def test_a_restored_shard_knows_its_scaling(new_shard, log, snapshots):
    spec = FeatureSpec([numeric("a", scale="standard"), "b"])
    learned = spec.learn_scaling(log()[["a", "b"]])
    shard = new_shard(features=spec)
    assert not shard.state()["ready"]
    with pytest.raises(InvalidValue, match="scaling"):
        shard.look("expected", "t1", CONTEXT)
    shard.set_features("scale", learned.to_json())
    decision = shard.decide("d", "t1", CONTEXT, None, True)
    if snapshots:
        shard.snapshot()
    again = new_shard(features=spec)
    assert again.fleet.features == learned
    assert again.reward("r", decision.id, 1.0)
    contexts = [row for ledger in again.fleet._ledgers() for row in ledger.context.tolist()]
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
    assert again._folder.snapshots()[-1] > 0
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

    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(Journal, "append", fail)
    for do in (
        lambda: shard.decide("n1", "t1", CONTEXT, None, True),
        lambda: shard.learn_rows("n2", *rows_of(log(5))),
        lambda: shard.add_arm("black"),
        lambda: shard.decide_many("n4", ["t1"], np.zeros((1, 2)), None, True),
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
        shard.learn_rows(str(number), *rows_of(log(100, seed=number)))
    shard.snapshot()
    names = sorted(path.name.split("-")[0] for path in (tmp_path / "shard").iterdir())
    assert names == ["journal", "journal", "lock", "snapshot"]
    assert new_shard().fleet.n_rewards == 600
