"""Shards and coordinator die, arms come and tasks go between any two questions: all believe the same afterwards.

Everything is in this process and without Ray; what happens in between happens before one call of one shard, for every
call that there is.
"""

import shutil
from functools import cache

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import Posse
from posse.distributed.cluster import OtherArms
from posse.distributed.coordinator import Coordinator
from posse.distributed.fit import encode_rows
from posse.distributed.population import RemotePairs, sums_of_others
from posse.distributed.shard import Shard, file_of
from posse.fleet.names import N_BUCKETS, buckets_of
from posse.fleet.tables import Columns

ARMS, FEATURES = ["red", "green", "blue"], ["a", "b"]
CONTEXT = {"a": 0.5, "b": -1.0}
N_SHARDS, STEPS = 3, 2


@cache
def template(rewards="number"):
    """Return the file that all begin with; not before a test asks, or every worker would compile to collect tests."""
    return file_of(Posse(arms=ARMS, features=FEATURES, seed=3, rewards=rewards))


class Died(Exception):
    """Of the coordinator, before it could ask."""


class Here:
    """Shards in this process that are asked one after the other; ``meanwhile(call)`` is done before each call."""

    def __init__(self, folder, rewards="number"):
        self.folder, self.rewards, self.calls, self.meanwhile = folder, rewards, 0, lambda call: None
        self.shards = [self.new(number) for number in range(N_SHARDS)]

    def new(self, number):
        return Shard(template(self.rewards), 5 + number, str(self.folder / str(number)), fsync=False)

    def restart(self, number):
        self.shards[number].let_go()
        self.shards[number] = self.new(number)

    def ask(self, method, *arguments):
        return [self.call(number, method, *arguments) for number in range(N_SHARDS)]

    def tell(self, method, each, *common):
        return [self.call(number, method, own, *common) for number, own in enumerate(each)]

    def call(self, number, method, *arguments):
        self.calls += 1
        self.meanwhile(self.calls)
        return getattr(self.shards[number], method)(*arguments)

    def let_go(self):
        for shard in self.shards:
            shard.let_go()


@pytest.fixture(scope="module")
def learned(tmp_path_factory, log):
    """Folders of shards that have learned rows, and no population yet."""
    folder = tmp_path_factory.mktemp("learned")
    table = log(400, 24)
    here, homes = Here(folder), buckets_of(table["task"].to_list()) % N_SHARDS
    for number, shard in enumerate(here.shards):
        shard.do("learn", "learn_table", *rows_of(table.filter(homes == number)))
    here.let_go()
    return folder


@pytest.fixture
def again(learned, tmp_path):
    """Return a function that makes such shards anew, and a coordinator."""
    made = []

    def make():
        for here in made:
            here.let_go()
        folder = tmp_path / str(len(made))
        shutil.copytree(learned, folder)
        made.append(Here(folder))
        return made[-1], Coordinator(template(), made[-1])

    yield make
    for here in made:
        here.let_go()


def rows_of(table):
    return encode_rows(Posse(arms=ARMS, features=FEATURES), table, Columns())


def shared_of(coordinator, here):
    """Return what is believed about all arms, from one population and the sums of all."""
    coordinator.fleet.core.estimate_from(RemotePairs(coordinator.fleet.core, here.ask, 0.0), steps=0, settled=0.0)
    return coordinator.fleet.core.state.store


def calls_of(here, do):
    """Return the numbers of the calls that something makes."""
    first = here.calls + 1
    do()
    return range(first, here.calls + 1)


def require_agreement(here, coordinator):
    """Whatever happened, every shard believes what follows from one population and the sums of all."""
    assert len({shard.fleet.publication for shard in here.shards}) == 1
    assert len({shard.fleet.core.n_arms for shard in here.shards} | {coordinator.fleet.core.n_arms}) == 1
    shared = shared_of(coordinator, here)
    for shard in here.shards:
        shard.fleet.core.ensure_fresh()
        for name in ("noise", "prior", "told", "shared"):
            found, wanted = getattr(shard.fleet.core.state.store, name), getattr(shared, name)
            assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def beliefs(here):
    """Return what shards expect of all arms in all tasks."""
    return np.array(
        [
            list(shard.fleet.expected(task, CONTEXT).mean.values())
            for shard in here.shards
            for task in sorted(shard.fleet.tasks)
        ]
    )


def test_what_others_say_is_added_and_not_subtracted():
    parts = [np.array([1e20, 1.0]), np.array([1.0, 2.0]), np.array([3.0, 1e20])]
    assert [part.tolist() for part in sums_of_others(parts)] == [[4.0, 1e20], [1e20, 1e20], [1e20, 3.0]]
    assert [part.tolist() for part in sums_of_others(parts[:1])] == [[0.0, 0.0]]


@pytest.mark.slow
def test_a_shard_that_is_restored_at_any_moment_believes_what_it_would_have(again):
    here, coordinator = again()
    moments = calls_of(here, lambda: coordinator.refresh(STEPS))
    wanted = beliefs(here)
    require_agreement(here, coordinator)
    for moment in moments:
        for number in (0, N_SHARDS - 1):
            here, coordinator = again()
            here.meanwhile = lambda call, here=here, at=moment, number=number: here.restart(number) if call == at else 0
            coordinator.refresh(STEPS)
            assert_allclose(beliefs(here), wanted, rtol=1e-10)
            here.restart(number)  # and once more from what it wrote
            assert_allclose(beliefs(here), wanted, rtol=1e-10)
    require_agreement(here, coordinator)


@pytest.mark.slow
def test_clicks_survive_whoever_dies_at_any_moment(tmp_path, log):
    table = log(400, 24).with_columns(reward=(pl.col("reward") > 0).cast(pl.Float64))
    here, homes = Here(tmp_path / "first", "binary"), buckets_of(table["task"].to_list()) % N_SHARDS
    for number, shard in enumerate(here.shards):
        shard.do("learn", "learn_table", *rows_of(table.filter(homes == number)))
    here.let_go()

    def again(name):
        shutil.copytree(tmp_path / "first", tmp_path / name)
        here = Here(tmp_path / name, "binary")
        return here, Coordinator(template("binary"), here)

    here, coordinator = again("wanted")
    moments = calls_of(here, lambda: coordinator.refresh(STEPS))
    wanted = beliefs(here)
    require_agreement(here, coordinator)
    for moment in moments:
        here.let_go()
        here, coordinator = again(f"shard-{moment}")
        here.meanwhile = lambda call, here=here, at=moment: here.restart(1) if call == at else 0
        coordinator.refresh(STEPS)
        assert_allclose(beliefs(here), wanted, rtol=1e-10)
    coordinator.refresh(300, 1e-9)
    wanted = beliefs(here)
    for moment in range(1, len(moments) + 1, len(moments) // 7):
        here.let_go()
        here, coordinator = again(f"coordinator-{moment}")
        coordinator.refresh(STEPS)
        coordinator = die_at(here.calls + moment, here, coordinator, lambda one: one.refresh(STEPS))
        require_agreement(here, coordinator)
        coordinator.refresh(300, 1e-9)  # sites are made again from others, and in the end are the same
        assert_allclose(beliefs(here), wanted, rtol=1e-6)
        require_agreement(here, coordinator)
    here.let_go()


@pytest.mark.slow
def test_a_coordinator_that_dies_at_any_moment_leaves_nobody_behind(again):
    here, coordinator = again()
    moments = calls_of(here, lambda: coordinator.refresh(STEPS, growth=0.3))
    wanted = beliefs(here)
    for moment in moments:
        here, coordinator = again()
        coordinator = die_at(moment, here, coordinator, lambda one: one.refresh(STEPS, growth=0.3))
        coordinator.refresh(STEPS, growth=0.3)  # as Ray makes the call again
        assert_allclose(beliefs(here), wanted, rtol=1e-10)
        require_agreement(here, coordinator)


def die_at(moment, here, coordinator, do):
    """Let a coordinator die before a call; return the one that is started then."""

    def meanwhile(call):
        if call == moment:
            raise Died

    here.meanwhile = meanwhile
    with pytest.raises(Died):
        do(coordinator)
    return Coordinator(template(here.rewards), here)


def test_an_arm_that_only_some_shards_have_comes_to_all(again):
    here, coordinator = again()
    moments = calls_of(here, lambda: coordinator.refresh(STEPS))
    for moment in moments:
        here, coordinator = again()
        here.meanwhile = lambda call, here=here, at=moment: here.shards[1].add_arm("violet") if call == at else None
        coordinator.refresh(STEPS)
        coordinator.add_arm("violet")  # whoever began it goes on
        require_agreement(here, coordinator)
        assert all(list(shard.fleet.names.arms) == [*ARMS, "violet"] for shard in here.shards)


def test_a_coordinator_that_dies_while_it_adds_an_arm_finds_it(again):
    here, coordinator = again()
    coordinator.refresh(STEPS)
    for moment in range(1, N_SHARDS + 1):
        here, coordinator = again()
        coordinator.refresh(STEPS)
        coordinator = die_at(here.calls + moment, here, coordinator, lambda one: one.add_arm("violet"))
        coordinator.refresh(STEPS)  # of somebody else, before the call is made again
        coordinator.add_arm("violet")
        require_agreement(here, coordinator)
        assert all(list(shard.fleet.names.arms) == [*ARMS, "violet"] for shard in here.shards)


def test_questions_about_other_arms_change_nothing(again):
    here, coordinator = again()
    coordinator.refresh(STEPS)
    wanted = beliefs(here)
    population = {name: array[:-1] for name, array in here.shards[0].fleet.population().items()}
    for do in (
        lambda: here.shards[0].look("take_sums", 4, "counts", 0.0, None, {}),
        lambda: here.shards[0].adopt({}, population),
    ):
        with pytest.raises(OtherArms):
            do()
    assert_allclose(beliefs(here), wanted, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False], ids=["called again", "driver died"])
def test_tasks_are_forgotten_whenever_the_coordinator_dies(again, told):
    def tasks(here):
        return [[], *([shard.fleet.tasks[0]] for shard in here.shards[1:])]

    here, coordinator = again()
    coordinator.refresh(STEPS)
    lost = tasks(here)
    before = here.calls
    moments = [call - before for call in calls_of(here, lambda: coordinator.forget("f", lost))]
    wanted = coordinator.prior()
    for moment in moments[: 4 * N_SHARDS] + moments[-2 * N_SHARDS :]:  # in the midst of an estimate is as above
        here, coordinator = again()
        coordinator.refresh(STEPS)
        coordinator = die_at(here.calls + moment, here, coordinator, lambda one: one.forget("f", lost))
        if told:
            coordinator.forget("f", lost)
        require_agreement(here, coordinator)
        if told or moment > N_SHARDS:  # else nobody, or not everybody, was told
            assert_allclose(coordinator.prior().covariance, wanted.covariance, rtol=1e-10)
            assert not any(set(shard.fleet.tasks) & set(some) for shard, some in zip(here.shards, lost, strict=True))


def test_what_was_published_before_is_believed_no_more(again):
    here, coordinator = again()
    coordinator.refresh(STEPS)
    late = []
    adopt = Here.tell

    def never_arrives(method, each, *common):
        if method == "adopt":
            late.append((each, common))
            raise Died
        return adopt(here, method, each, *common)

    here.tell = never_arrives
    with pytest.raises(Died):
        coordinator.refresh()
    del here.tell
    coordinator = Coordinator(template(), here)
    coordinator.forget("f", [here.shards[0].fleet.tasks[:1], [], []])
    wanted = beliefs(here)
    ((each, common),) = late
    here.tell("adopt", each, *common)
    assert_allclose(beliefs(here), wanted, rtol=0)
    for number in range(N_SHARDS):
        here.restart(number)
    assert_allclose(beliefs(here), wanted, rtol=1e-10)
    require_agreement(here, coordinator)


def test_rows_that_come_between_question_and_publication_count_in_their_shard(again, log):
    here, coordinator = again()
    moments = calls_of(here, lambda: coordinator.refresh(STEPS))
    more = log(60, 24, seed=4)
    rows = rows_of(more.filter(buckets_of(more["task"].to_list()) % N_SHARDS == 0))
    for moment in moments[-2 * N_SHARDS :]:
        here, coordinator = again()
        here.meanwhile = lambda call, here=here, at=moment: (
            here.shards[0].do("m", "learn_table", *rows) if call == at else 0
        )
        coordinator.refresh(STEPS)
        here.shards[0].fleet.core.ensure_fresh()
        shared = shared_of(coordinator, here).shared
        assert_allclose(here.shards[0].fleet.core.state.store.shared, shared, rtol=1e-9, atol=1e-11)


def test_a_shard_is_filled_once(again, tmp_path, pair_sums):
    here, _ = again()
    files = []
    for number, shard in enumerate(here.shards):
        files.append(str(tmp_path / f"{number}.posse"))
        shard.save(files[-1])
    made = Shard(template(), 9, str(tmp_path / "filled"), fsync=False)
    made.take_over(files, list(range(4096)), [0, 1, 2])
    wanted = pair_sums(made.fleet)
    assert len(wanted) == sum(len(pair_sums(shard.fleet)) for shard in here.shards)
    made.let_go()  # it died before it could say so, and Ray asks again
    made = Shard(template(), 9, str(tmp_path / "filled"), fsync=False)
    made.take_over(files, list(range(4096)), [0, 1, 2])
    assert pair_sums(made.fleet) == wanted
    made.let_go()


def test_decisions_that_wait_move_with_their_tasks(tmp_path):
    def spread(count, files=()):
        """Return new shards with the tasks of files, and where each task is."""
        made = [Shard(template(), 30 + number) for number in range(count)]
        for number, shard in enumerate(made):
            shard.take_over(list(files), list(range(number, N_BUCKETS, count)), [0] if number == 0 else [])
        return made, lambda task: made[buckets_of([task])[0] % count]

    shards, home = spread(2)
    tasks = [f"t{number}" for number in range(20)]
    waiting = [home(task).do(f"d{task}", "decide", task, CONTEXT, None, True) for task in tasks]
    rewarded = [home(task).do(f"d2{task}", "decide", task, CONTEXT, None, True) for task in tasks[:5]]
    assert all(home(one.task).do(f"r{one.id}", "reward", one.id, 1.0) for one in rewarded)
    for count in (3, 2, 4):  # and again, so that decisions of one shard come together from several
        files = [str(tmp_path / f"{count}-{number}.posse") for number in range(len(shards))]
        for shard, file in zip(shards, files, strict=True):
            shard.save(file)
        shards, home = spread(count, files)
        assert sum(shard.state()["pending"] for shard in shards) == 20
        assert sum(shard.state()["decisions"] for shard in shards) > 0
        assert not any(home(one.task).do(f"again{one.id}", "reward", one.id, 1.0) for one in rewarded)
    assert all(home(one.task).do(f"late{one.id}", "reward", one.id, 1.0) for one in waiting)
    assert sum(shard.state()["rewards"] for shard in shards) == 25
