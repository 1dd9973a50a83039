"""posse beside other libraries: what is timed, what is tuned, and what each library is given."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue, MissingDependency
from posse.policies import EbmTS
from posse_lab.benchmarks.peers import entries
from posse_lab.benchmarks.peers.entries import (
    FLEET,
    PEERS,
    PER_TASK,
    POOLED,
    POSSE,
    TASK_FEATURES,
    TS,
    Entry,
    Peer,
    chosen,
    draw_arm,
)
from posse_lab.benchmarks.peers.run import QUICK, RECOMMENDED, TUNED, Plan, Row, measure_peers, report_of
from posse_lab.benchmarks.peers.stream import TUNING_SEED, Latency, Stream, draw_stream, measure_latencies, play
from posse_lab.benchmarks.workload import Size

SIZE = Size(6, 3, 2)
SMALL = replace(QUICK, size=Size(3, 3, 2), n_steps=30, turn_seconds=0.001, turns=1)


class Fixed(Entry):
    """Always pulls the arm of its settings, and notes what it is told."""

    def _begin(self):
        self.told = []
        self.decide, self.update = lambda *_: self._settings["arm"], lambda *told: self.told.append(told)

    def _new(self):
        return self

    def given(self, task, context, step):
        return task, context, step

    def outcome(self, given, decided, reward):
        return *given, decided, reward


@pytest.fixture
def peer(monkeypatch):
    """A library that is there; its second setting is the recommended one."""
    made = Peer(
        name="Some peer",
        package="json",  # there is one such module
        entry=Fixed,
        forms=(POOLED, PER_TASK),
        recommended={"arm": 1},
        grid=({"arm": 0}, {"arm": 2}),
    )
    monkeypatch.setattr("importlib.metadata.version", lambda _: "1")
    monkeypatch.setitem(PEERS, "json", made)
    return made


@pytest.fixture
def easy():
    """A stream on which any learner should do well: the best arm is that of the largest feature, in every task."""
    rng = np.random.default_rng(5)
    contexts = rng.standard_normal((400, 3))
    return Stream(
        rng.integers(4, size=400).tolist(), list(contexts), 3 * contexts, 3 * contexts + 0.1 * rng.normal(size=(400, 3))
    )


def test_everyone_is_told_what_the_stream_holds_for_the_arm_it_chose():
    stream = draw_stream(SIZE, 1, 9)
    entry = Fixed(SIZE, POOLED, 0, {"arm": 2})
    arms, seconds = play(entry, stream)

    assert arms.tolist() == [2] * 9
    assert [told[0] for told in entry.told] == stream.tasks
    assert [told[2] for told in entry.told] == list(range(1, 10))
    assert [told[4] for told in entry.told] == stream.rewards[:, 2].tolist()
    assert seconds.shape == (9, 4)
    assert (seconds >= 0).all()


def test_a_latency_is_the_middle_call_of_a_round_and_the_best_of_rounds():
    one = np.array([[1.0] * 3, [2.0, 2.0, 8.0], [3.0] * 3, [4.0, 4.0, 40.0]]).T
    other = np.array([[2.0] * 3, [1.0] * 3, [1.0] * 3, [5.0, 5.0, 5.0]]).T
    found = Latency.of([one, other])

    assert (found.decide, found.update) == (1.0, 4.0)  # a refresh does not show in the middle one
    assert (found.decide_average, found.update_average) == (1.0, 5.0)
    assert (found.decide_built, found.update_built) == (3.0, 6.0)


def test_learners_take_turns_each_time_anew_and_the_first_is_not_counted():
    order, begun = [], []

    def named(name):
        def new():
            order.append(name)
            return Fixed(SIZE, POOLED, 0, {"arm": 0})

        return new

    learners = {name: named(name) for name in "ab"}
    found = measure_latencies(learners, draw_stream(SIZE, 1, 60), turns=3, seconds=1e-9, begin=begun.append)

    assert order == ["a", "b"] * 4
    assert list(found) == ["a", "b"]
    assert len(begun) == 3


@pytest.mark.parametrize("form", POSSE.forms)
def test_every_entry_of_posse_learns(form):
    stream = draw_stream(SIZE, 0, 300)
    entry = POSSE.build(SIZE, form, 0, POSSE.recommended)

    assert stream.regret(play(entry, stream)[0]) < 0.5 * stream.random_regret


def test_the_policy_plays_as_it_would_alone():
    stream = draw_stream(SIZE, 3, 60)
    played = play(POSSE.build(SIZE, TS, 7, POSSE.recommended), stream)[0]
    policy = EbmTS(**SIZE._asdict(), prior="evidence")
    alone = policy.play(np.array(stream.tasks), np.array(stream.contexts), stream.rewards, np.random.default_rng(7))

    assert played.tolist() == alone.arms.tolist()


def test_the_fleet_gets_every_reward_by_its_id():
    entry = POSSE.build(SIZE, FLEET, 7, POSSE.recommended)
    play(entry, draw_stream(SIZE, 3, 40))
    fleet = entry.decide.__self__

    assert (fleet.n_decisions, fleet.n_rewards) == (40, 40)


def test_posse_runs_alone_where_there_is_no_peer(monkeypatch):
    monkeypatch.setattr(entries, "installed", lambda _: False)
    begun = []
    report = measure_peers(SMALL, begin=begun.append)

    assert [row["form"] for row in report.data["rows"]] == list(POSSE.forms)
    assert len(begun) == SMALL.n_stages([POSSE])
    assert set(report.data["skipped"]) == set(PEERS)
    assert [bar.measured for bar in report.bars] == [None] * 5
    assert list(report.data["versions"]) == ["posse"]


def test_what_is_tuned_is_what_did_best_on_the_tuning_seed_and_regret_is_of_the_others(peer):
    def regrets(seed):
        stream = draw_stream(SMALL.size, seed, SMALL.n_steps)
        return [stream.regret([arm] * SMALL.n_steps) for arm in range(3)]

    best = {seed: int(np.argmin(regrets(seed))) for seed in (TUNING_SEED, 0)}
    assert best == {TUNING_SEED: 0, 0: 2}  # neither is what is recommended
    begun = []
    report = measure_peers(SMALL, ["json"], begin=begun.append)

    rows = report.data["rows"][3:]
    assert [(row["form"], row["configuration"]) for row in rows] == [
        (POOLED, RECOMMENDED), (POOLED, TUNED), (PER_TASK, RECOMMENDED), (PER_TASK, TUNED),
    ]  # fmt: skip
    assert [row["settings"] for row in rows] == [{"arm": 1}, {"arm": 0}] * 2
    assert_allclose(rows[0]["regret"], [regrets(seed)[1] for seed in range(SMALL.seeds)])
    assert len(begun) == SMALL.n_stages([POSSE, peer])


def test_the_fastest_peer_is_taken_for_each_bar(peer):
    def row(library, form, *microseconds):
        return Row(library, form, TUNED, {"arm": 1}, (1.0, 3.0), Latency(*(value * 1e-6 for value in microseconds)))

    rows = [
        row("posse", TS, 2.0, 1.5, 2.0, 20.0, 2.5, 2.0),
        row("Some peer", POOLED, 14.0, 10.0, 14.0, 11.0, 15.0, 11.0),
        row("Other", POOLED, 11.0, 100.0, 11.0, 100.0, 30.0, 130.0),
    ]
    report = report_of(SMALL, rows, {})

    array, arrays, decide, both, average = report.bars
    assert_allclose([array.measured, arrays.measured], [15 / 2.5, 26 / 4.5])
    assert_allclose([decide.measured, both.measured, average.measured], [11 / 2, 24 / 3.5, 25 / 22])
    assert ("Other" in decide.what, "Some peer" in both.what) == (True, True)
    assert [bar.met for bar in report.bars] == [True, True, True, True, False]
    assert report.tables[0].rows[1] == ["Some peer pooled, tuned", "14", "10", "11", "2", "2", "1"]
    json.dumps(report.data, allow_nan=False)


def test_only_what_was_asked_for_and_is_there_runs_beside_posse(monkeypatch):
    monkeypatch.setattr(entries, "installed", lambda package: package == "river")

    run, skipped = chosen(None)
    assert [peer.package for peer in run] == ["posse", "river"]
    assert skipped["mabwiser"] == "mabwiser is not installed: pip install './lab[peers]'"
    assert chosen(["posse"]) == ([POSSE], {})
    with pytest.raises(MissingDependency, match=r"mabwiser was asked for, .* pip install './lab\[peers\]'"):
        chosen(["river", "mabwiser"])
    with pytest.raises(InvalidValue, match="did you mean 'river'"):
        chosen(["rivers"])


def test_a_missing_library_says_how_to_get_it():
    with pytest.raises(MissingDependency, match=r"no_such_library is not installed: pip install './lab\[peers\]'"):
        entries.library("no_such_library")


def test_a_plan_without_seeds_is_refused():
    with pytest.raises(InvalidValue, match="seeds to be at least 1"):
        Plan(seeds=0)


class Chances:
    """A workspace that predicts what it is told to."""

    def __init__(self, *chances):
        self.chances = list(chances)

    def predict(self, text, kind):
        return self.chances


@pytest.mark.parametrize(("uniform", "arm"), [(0.0, 0), (0.19, 0), (0.21, 1), (0.49, 1), (0.51, 2), (0.99, 2)])
def test_an_arm_is_drawn_from_the_probabilities(uniform, arm):
    chances = Chances(0.2, 0.3, 0.5)

    assert draw_arm(chances, "", None, lambda: uniform) == (arm, chances.chances[arm])


def test_probabilities_that_sum_to_less_than_one_still_give_an_arm():
    assert draw_arm(Chances(0.2, 0.7, 0.0999), "", None, lambda: 0.99999) == (1, 0.7)


@pytest.mark.parametrize("package", PEERS)
def test_a_library_learns_an_easy_world_in_every_form_and_setting(package, easy):
    pytest.importorskip(package)
    peer = PEERS[package]
    half = easy.expected[200:]
    blind = (half.max(axis=1) - half.mean(axis=1)).sum()
    for form, setting in [(form, peer.recommended) for form in peer.forms] + [(peer.forms[0], s) for s in peer.grid]:
        arms = play(peer.build(Size(4, 3, 3), form, 0, setting), easy)[0][200:]
        lost = (half.max(axis=1) - half[np.arange(200), arms]).sum()
        assert lost / blind < (0.9 if package == "vowpalwabbit" else 0.5), (form, setting)


def test_what_vowpal_wabbit_is_given_and_told():
    pytest.importorskip("vowpalwabbit")
    peer, context = PEERS["vowpalwabbit"], np.array([0.5, -2.0])
    named = peer.build(SIZE, TASK_FEATURES, 0, peer.recommended)
    given = named.given(3, context, 1)

    assert given[1] == "|T t3 |X x0:0.5 x1:-2"
    assert named.outcome(given, (2, 0.25), 1.5) == (given[0], "3:-1.5:0.25 |T t3 |X x0:0.5 x1:-2")
    alone = peer.build(SIZE, PER_TASK, 0, peer.recommended)
    assert alone.given(3, context, 1)[0] is not alone.given(2, context, 1)[0]


@pytest.mark.parametrize("package", ["mabwiser", "bayesianbandits"])
def test_a_task_learns_alone_or_from_the_others(package):
    pytest.importorskip(package)
    peer, context = PEERS[package], np.array([1.0, 0.5])
    for form, shared in ((PER_TASK, False), (POOLED, True)):
        entry = peer.build(SIZE, form, 0, peer.recommended)
        assert (entry.given(0, context, 1)[0] is entry.given(1, context, 1)[0]) is shared
