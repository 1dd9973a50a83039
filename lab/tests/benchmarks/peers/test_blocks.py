import pytest

from posse_lab.benchmarks.peers import ours
from posse_lab.benchmarks.peers.bayesianbandits import BLOCKS
from posse_lab.benchmarks.peers.blocks import compare_blocks
from posse_lab.benchmarks.peers.entry import RECOMMENDED, TUNED
from posse_lab.benchmarks.workload import Size


def test_a_ratio_is_of_mean_regrets(blocks):
    recommended, tuned = blocks.rows

    assert recommended.ratio(ours.TS) == 0.5
    assert tuned.ratio(ours.UCB) == pytest.approx(100 / 150)
    assert blocks.to_dict()["rows"][0]["ratio"] == {"ebmTS": 0.5, "ebmUCB": pytest.approx(100 / 240)}


def test_both_go_over_the_same_steps():
    pytest.importorskip("bayesianbandits")
    from posse_lab.benchmarks.peers.catalogue import POSSE
    from posse_lab.benchmarks.peers.play import play
    from posse_lab.benchmarks.peers.stream import draw_stream

    size, begun = Size(5, 2, 2), []
    found = compare_blocks(size, seconds=1.0, seeds=2, workers=1, begin=begun.append, most=40)

    assert len(begun) == 4
    assert [row.configuration for row in found.rows] == [RECOMMENDED, TUNED]
    assert found.rows[0].settings == BLOCKS.recommended
    assert found.rows[1].settings in BLOCKS.trials
    for row in found.rows:
        for seed, n_steps in enumerate(row.n_steps):
            stream = draw_stream(size, seed, n_steps)
            own = play(POSSE.build(size, ours.UCB, seed, POSSE.recommended), stream).arms
            assert row.ours[ours.UCB][seed] == pytest.approx(stream.regret(own)[-1])
    for state in (found.first, found.known):
        assert set(state) == {ours.TS, ours.UCB, RECOMMENDED, TUNED}
        assert all(latency.both > 0 for latency in state.values())
