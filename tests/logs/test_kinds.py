import pytest

from posse.logs.kinds import MOST_KEYS, BadLine, Kinds, Order, kind_of


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "text"), (True, "truth"), (1, "whole"), (2**63 - 1, "whole"), (-(2**63), "whole"), (2**63, "float")],
)
def test_kinds_of_values(value, kind):
    assert kind_of(value) == kind


def test_whole_numbers_and_others_are_one_kind():
    kinds = Kinds()
    kinds.see("x", "whole", 1)
    assert kinds.of("x") == "whole"
    kinds.see("x", "float", 2)
    assert kinds.of("x") == "float"
    assert kinds.of("y") is None


@pytest.mark.parametrize(("first", "second"), [("text", "whole"), ("truth", "float"), ("float", "text")])
def test_two_kinds_are_refused_and_both_lines_known(first, second):
    kinds = Kinds()
    kinds.see(("context", "x"), first, 3)

    with pytest.raises(BadLine, match=r"feature 'x' is .* here, but .* in line 3; make it one kind"):
        kinds.see(("context", "x"), second, 4)


def test_a_new_key_stands_behind_the_one_before_it():
    order = Order()
    order.merge(["a", "b", "d"], "keys")
    order.merge(["b", "c", "d", "e"], "keys")
    order.merge(["d", "a"], "keys")
    order.merge(["z", "a"], "keys")

    assert order.keys == ["z", "a", "b", "c", "d", "e"]


def test_names_must_not_vary_without_end():
    order = Order()
    order.merge([str(name) for name in range(MOST_KEYS)], "features")

    with pytest.raises(BadLine, match="more than 10000 different features"):
        order.merge(["another"], "features")
