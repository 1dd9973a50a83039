import pytest

from posse_lab.benchmarks.bars import Bar


@pytest.mark.parametrize(
    ("measured", "at_least", "at_most", "met"),
    [
        (None, None, 3.0, None),
        (3.0, None, 3.0, True),
        (3.01, None, 3.0, False),
        (5.0, 5.0, None, True),
        (4.9, 5.0, None, False),
        (4.0, 3.0, 5.0, True),
    ],
)
def test_a_promise_is_kept_up_to_its_bar(measured, at_least, at_most, met):
    assert Bar(what="x", measured=measured, unit="µs", at_least=at_least, at_most=at_most).met is met


def test_words():
    both = Bar(what="x", measured=1_234_567.0, unit="/s", at_least=1e6, at_most=2e6)
    none = Bar(what="x", measured=None, unit="s", at_most=45.0, note="needs more")

    assert (both.measured_words, both.bar_words) == ("1,230,000 /s", "at least 1,000,000 /s, at most 2,000,000 /s")
    assert (none.measured_words, none.bar_words) == ("not measured", "at most 45 s")


def test_plain_values_hold_the_verdict():
    said = Bar(what="x", measured=2.0, unit="s", at_most=1.0).to_dict()
    assert (said["what"], said["measured"], said["at_most"], said["met"]) == ("x", 2.0, 1.0, False)
