from dataclasses import replace

import pytest

from posse.errors import InvalidValue
from posse_lab.benchmarks.peers import catalogue
from posse_lab.benchmarks.peers.catalogue import PEERS, POSSE
from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED, RECOMMENDED, TUNED, Peer
from posse_lab.benchmarks.peers.run import QUICK, Plan, measure_peers, n_stages
from posse_lab.benchmarks.workload import Size

SMALL = replace(QUICK, size=Size(3, 3, 2), n_steps=30, turn_seconds=0.001, turns=1)


@pytest.fixture
def peer(monkeypatch, fixed):
    """A library that pulls the arm of its settings; the second one is recommended."""

    def build(size, form, seed, settings):
        return fixed([settings["arm"]] * 1000)

    made = Peer(
        name="Some peer",
        package="json",  # there is one such module
        build=build,
        forms=(POOLED, PER_TASK),
        recommended={"arm": 1},
        grid=({"arm": 0}, {"arm": 2}),
    )
    monkeypatch.setitem(PEERS, "json", made)
    monkeypatch.setattr(catalogue, "NAMES", ("posse", "json"))
    return made


def test_posse_runs_alone_where_there_is_no_peer(monkeypatch):
    monkeypatch.setattr(catalogue, "installed", lambda _: False)
    begun = []
    report = measure_peers(SMALL, None, workers=1, begin=begun.append)

    assert [row.form for row in report.rows] == list(POSSE.forms)
    assert len(begun) == n_stages(SMALL, ["posse"])
    assert set(report.skipped) == {"vowpalwabbit", "river", "mabwiser", "bayesianbandits", "blocks"}
    assert (report.blocks, report.parsed) == (None, None)
    assert [len(row.regret) for row in report.rows] == [2, 2, 2]
    assert list(report.versions) == ["posse"]


def test_a_peer_has_a_row_per_form_as_recommended_and_tuned(peer):
    begun = []
    report = measure_peers(SMALL, ["json"], workers=1, begin=begun.append)
    rows = report.rows[3:]

    assert [(row.form, row.configuration) for row in rows] == [
        (POOLED, RECOMMENDED), (POOLED, TUNED), (PER_TASK, RECOMMENDED), (PER_TASK, TUNED),
    ]  # fmt: skip
    assert [row.settings for row in rows[::2]] == [{"arm": 1}] * 2
    assert rows[1].settings in peer.trials
    assert len(begun) == n_stages(SMALL, ["posse", "json"])


def test_what_is_tuned_is_what_did_best_on_the_tuning_seed(peer):
    from posse_lab.benchmarks.peers.stream import TUNING_SEED, draw_stream

    best = {}
    for seed in (TUNING_SEED, 0):
        stream = draw_stream(SMALL.size, seed, SMALL.n_steps)
        each = [stream.regret([arm] * SMALL.n_steps)[-1] for arm in range(3)]
        best[seed] = each.index(min(each))
    assert best == {TUNING_SEED: 0, 0: 2}  # neither is what is recommended
    report = measure_peers(SMALL, ["json"], workers=1)

    assert [row.settings for row in report.rows[3:]] == [{"arm": 1}, {"arm": 0}] * 2


def test_regret_is_of_the_seeds_that_are_reported(peer):
    from posse_lab.benchmarks.peers.stream import draw_stream

    report = measure_peers(SMALL, ["json"], workers=1)

    streams = [draw_stream(SMALL.size, seed, SMALL.n_steps) for seed in range(SMALL.seeds)]
    assert report.rows[3].regret == [stream.regret([1] * SMALL.n_steps)[-1] for stream in streams]
    assert report.random == [stream.random_regret for stream in streams]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"seeds": 0}, "seeds to be at least 1"), ({"block_seconds": 0.0}, "block_seconds to be greater than 0")],
)
def test_bad_plans(changes, words):
    with pytest.raises(InvalidValue, match=words):
        Plan(**changes)
