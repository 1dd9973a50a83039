"""Rewards that follow each other are told by columns as they are one by one, and nothing between is passed over."""

import random

import pytest

from posse.storage import ACCEPTED, RewardRun

SETTINGS = {
    "once": {},
    "sums": {"reward_events": "sum"},
    "counting": {"absent_reward": -1.0, "time_to_live": 1e6},
}


@pytest.fixture(params=SETTINGS)
def filled(request, empty, make):
    """A log in which everything happens that is a change."""
    rng = random.Random(7)
    empty.create_fleet("stores", make.DEFINITION | SETTINGS[request.param], 1.0)
    waiting, rewarded = [], []
    for step in range(140):
        kind = rng.choices(["decide", "reward", "correct", "population", "erase"], [10, 12, 2, 1, 0.3])[0]
        if kind == "decide" or (kind == "reward" and not waiting):
            some = [f"d{step}-{i}" for i in range(4)]
            empty.write([[make.decision(one, task=f"task-{rng.randrange(5)}", time=100.0 + step)] for one in some])
            waiting += some
        elif kind == "reward":
            event = "first" if request.param == "sums" else None
            [[outcome]] = empty.write(
                [[make.reward(waiting[0], rng.gauss(0, 1), time=200.0 + step, event=event)]]
            ).outcomes
            if outcome.kind == ACCEPTED:
                rewarded.append(waiting[0])
            waiting.pop(0)
        elif kind == "correct" and rewarded:
            empty.write([[make.reward(rng.choice(rewarded), rng.gauss(0, 1), time=300.0 + step, corrects=True)]])
        elif kind == "population":
            empty.add_population("stores", b"population %d" % step)
        elif kind == "erase":
            empty.erase("stores", f"task-{rng.randrange(5)}")
    return empty


def plain(changes):
    rows = ("reward", "decision")
    return [(one.number, *one[2:6], one.old, one.time) if one.kind in rows else one for one in changes]


def walk(storage, limit, least, settled):
    """All changes, by runs where there are any; and how many rewards came in runs."""
    found, after, in_runs = [], 0, 0
    while True:
        run = storage.reward_run("stores", after, limit, least=least, settled=settled)
        if run is not None:
            assert isinstance(run, RewardRun)
            assert len(run.numbers) <= limit
            found += zip(*run, strict=True)
            in_runs, after = in_runs + len(run.numbers), run.numbers[-1]
            continue
        changes = storage.changes("stores", after, 3, settled=settled)
        found += plain(changes)
        if len(changes) < 3:
            return found, in_runs
        after = changes[-1].number


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2, 1000])
@pytest.mark.parametrize("settle", [False, True])
def test_runs_tell_what_changes_tell(filled, limit, settle):
    settled = filled.fleet("stores").changes if settle else 0
    expected = plain(filled.changes("stores", 0, settled=settled))
    assert len(expected) > 20
    for least in (0, 1, 4):
        found, in_runs = walk(filled, limit, least, settled)
        assert found == expected
        assert in_runs > 0 or least == 4
    assert walk(filled, limit, 10_000, settled) == (expected, 0)


def test_there_is_no_run_in_a_fleet_that_is_not_there_or_has_none(empty, make):
    assert empty.reward_run("nobody", 0, 10, least=0) is None
    empty.create_fleet("stores", make.DEFINITION, 1.0)
    assert empty.reward_run("stores", 0, 10, least=0) is None
    empty.write([[make.decision("a")], [make.reward("a")]])
    assert empty.reward_run("stores", 0, 10, least=0).numbers == (1,)
    assert empty.reward_run("stores", 0, 10, least=2) is None
    assert empty.reward_run("stores", 1, 10, least=0) is None
