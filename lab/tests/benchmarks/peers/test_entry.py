import pytest

from posse.errors import MissingDependency
from posse_lab.benchmarks.peers.entry import Peer, library, version_of, words_of


def test_a_missing_library_says_how_to_get_it():
    with pytest.raises(MissingDependency, match=r"no_such_library is not installed: pip install './lab\[peers\]'"):
        library("no_such_library")


def test_a_library_that_is_there_comes_back():
    assert library("json").loads("1") == 1


def test_versions():
    assert version_of("numpy").count(".") == 2
    assert version_of("no_such_library") == "unknown"


def test_the_recommended_settings_are_tried_first_and_once():
    peer = Peer(
        name="x",
        package="x",
        build=lambda *_: None,
        forms=("pooled",),
        recommended={"alpha": 1.0},
        grid=({"alpha": 0.3}, {"alpha": 1.0}, {"alpha": 3.0}),
    )

    assert peer.trials == [{"alpha": 1.0}, {"alpha": 0.3}, {"alpha": 3.0}]


def test_settings_in_words():
    assert words_of({"options": "--epsilon 0", "alpha": 0.30, "n": 3}) == "options --epsilon 0, alpha 0.3, n 3"
