import pytest

from posse.errors import InvalidValue, MissingDependency
from posse_lab.benchmarks.peers import catalogue
from posse_lab.benchmarks.peers.catalogue import BLOCKS, NAMES, PEERS, POSSE, chosen, peer_of
from posse_lab.benchmarks.peers.entry import TASK_BLOCKS


@pytest.fixture
def only_river(monkeypatch):
    monkeypatch.setattr(catalogue, "installed", lambda package: package == "river")


def test_what_is_not_installed_is_left_out_with_what_to_do(only_river):
    run, skipped = chosen(None)

    assert run == ["posse", "river"]
    assert list(skipped) == ["vowpalwabbit", "mabwiser", "bayesianbandits", "blocks"]
    assert skipped["blocks"] == "bayesianbandits is not installed: pip install './lab[peers]'"


def test_only_what_was_asked_for_runs_beside_posse(only_river):
    assert chosen(["river"]) == (["posse", "river"], {})
    assert chosen(["posse"]) == (["posse"], {})


def test_what_was_asked_for_by_name_must_be_there(only_river):
    with pytest.raises(MissingDependency, match=r"mabwiser was asked for, .* pip install './lab\[peers\]'"):
        chosen(["river", "mabwiser"])
    with pytest.raises(MissingDependency, match="blocks was asked for, but bayesianbandits"):
        chosen(["blocks"])


def test_a_wrong_name_lists_the_right_ones():
    with pytest.raises(InvalidValue, match=r"no entry 'rivers'; did you mean 'river'\? The entries are posse, vowpal"):
        chosen(["rivers"])
    with pytest.raises(InvalidValue, match=r"no entry 'zzz'; The entries are"):
        chosen(["zzz"])


def test_names_are_of_entries_that_there_are():
    assert set(NAMES) == {"posse", BLOCKS, *PEERS}
    for name, peer in PEERS.items():
        assert peer_of(name, peer.forms[0]) is peer
    assert peer_of("posse", "ebmTS") is POSSE
    assert peer_of("bayesianbandits", TASK_BLOCKS).forms == (TASK_BLOCKS,)
