import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from posse.errors import InvalidValue
from posse.fleet.names import LARGEST_NUMBER, LONGEST, Arms, Labels, checked_label


class Text(str):
    """A kind of text."""


@pytest.mark.parametrize("name", ["a", " ", "\n", "\0", "é", "e\u0301", "👩‍🚀", "x" * LONGEST, "17", Text("sub")])
def test_text_is_a_name(name):
    found = checked_label(name, "a task")

    assert found == name
    assert type(found) is str


@pytest.mark.parametrize("name", [0, -1, LARGEST_NUMBER, -LARGEST_NUMBER, np.int64(3), np.uint8(4), np.int32(-5)])
def test_a_whole_number_is_a_name(name):
    found = checked_label(name, "a task")

    assert found == int(name)
    assert type(found) is int


@pytest.mark.parametrize(
    "name",
    ["", "x" * (LONGEST + 1), "\ud800", Text(""), True, False, np.True_, 1.0, 2.5, None, b"a", ["a"], ("a",), {},
     np.nan, np.float64(3), LARGEST_NUMBER + 1, -(2**63), np.uint64(2**63), 10**400, object()],
)  # fmt: skip
def test_anything_else_is_not(name):
    with pytest.raises(InvalidValue, match="name"):
        checked_label(name, "a task")
    with pytest.raises(InvalidValue, match="name"):
        Labels("task").get(name)


def test_kinds_do_not_mix():
    labels = Labels("task")
    labels.take(["17"], [0])

    for wrong in (17, np.int64(17)):
        with pytest.raises(InvalidValue, match="named by text"):
            labels.get(wrong)
        with pytest.raises(InvalidValue, match="pass '17'"):
            labels.checked(wrong)
    assert 17 not in labels
    assert True not in labels

    numbers = Labels("task")
    numbers.take([1], [0])
    with pytest.raises(InvalidValue, match="whole numbers"):
        numbers.get("1")
    with pytest.raises(InvalidValue, match="True"):
        numbers.get(True)
    assert True not in numbers
    assert 1 in numbers


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.binary()))
def test_what_is_a_name_is_found_again_and_the_rest_refused(value):
    labels = Labels("task")
    try:
        name = labels.checked(value)
    except InvalidValue:
        assert not (isinstance(value, str) and 0 < len(value) <= LONGEST and value.isascii())
        return
    labels.take([name], [4])
    assert labels.get(value) == 4
    assert labels.label(4) == value
    assert type(name) in (str, int)


class LabelsMachine(RuleBasedStateMachine):
    """Names against a plain list of pairs."""

    def __init__(self):
        super().__init__()
        self.labels = Labels("task")
        self.pairs = []
        self.next = 0

    @rule(name=st.sampled_from("abcdefgh"))
    def add(self, name):
        if name not in [label for label, _ in self.pairs]:
            self.labels.take([name], [self.next])
            self.pairs.append((name, self.next))
            self.next += 1

    @precondition(operator.attrgetter("pairs"))
    @rule(place=st.integers(0, 99))
    def remove(self, place):
        name, number = self.pairs.pop(place % len(self.pairs))
        self.labels.let_go([name])
        assert not self.labels.has(number)

    @invariant()
    def the_same(self):
        assert list(self.labels.numbers.items()) == self.pairs
        assert list(self.labels) == [label for label, _ in self.pairs]
        assert len(self.labels) == len(self.pairs)
        assert all(self.labels.label(number) == label for label, number in self.pairs)
        assert all(self.labels.get(label) == number for label, number in self.pairs)
        assert self.labels.kind is (str if self.pairs else None)


TestLabels = LabelsMachine.TestCase


def test_an_arm_that_is_renamed_keeps_its_number_and_its_place():
    arms = Arms()
    arms.change({"a": 0, "b": 1, "c": 2}, {1})
    arms.change(arms.renamed("b", "x"), arms.retired)
    assert list(arms.numbers.items()) == [("a", 0), ("x", 1), ("c", 2)]
    assert arms.active.names == ("a", "c")
    assert arms.label(1) == "x"
    with pytest.raises(InvalidValue, match="already"):
        arms.renamed("x", "c")
