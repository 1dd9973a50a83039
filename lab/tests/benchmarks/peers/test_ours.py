import numpy as np
import pytest

from posse.policies import EbmTS
from posse_lab.benchmarks.peers import ours
from posse_lab.benchmarks.peers.catalogue import POSSE
from posse_lab.benchmarks.peers.play import play
from posse_lab.benchmarks.peers.stream import draw_stream
from posse_lab.benchmarks.workload import Size

SIZE = Size(6, 3, 2)


@pytest.mark.parametrize("form", POSSE.forms)
def test_every_entry_learns(form):
    stream = draw_stream(SIZE, 0, 300)
    entry = POSSE.build(SIZE, form, 0, POSSE.recommended)
    regret = stream.regret(play(entry, stream).arms)

    assert regret[-1] < 0.5 * stream.random_regret


def test_the_policy_plays_as_it_would_alone():
    stream = draw_stream(SIZE, 3, 60)
    entry = POSSE.build(SIZE, ours.TS, 7, POSSE.recommended)
    policy = EbmTS(**SIZE._asdict(), prior="evidence")
    alone = policy.play(
        np.array(stream.tasks), np.array(stream.contexts), stream.rewards, np.random.default_rng(7)
    ).arms

    assert play(entry, stream).arms.tolist() == alone.tolist()


def test_the_fleet_gets_every_reward_by_its_id():
    stream = draw_stream(SIZE, 3, 40)
    entry = POSSE.build(SIZE, ours.FLEET, 7, POSSE.recommended)
    play(entry, stream)
    fleet = entry.decide.__self__

    assert (fleet.n_decisions, fleet.n_rewards) == (40, 40)
    assert len(fleet.tasks) == len(set(stream.tasks))
    assert fleet.policy == "ebm-rand-ucb"
