import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.container.layout import decode_json, encode_json
from posse.errors import InvalidValue

text = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_values_come_back_with_their_types(value):
    back = decode_json(encode_json(value, "header"))

    assert repr(back) == repr(json.loads(json.dumps(value, sort_keys=True)))
    assert back == value


@given(values)
def test_only_one_spelling_is_read(value):
    spelled = encode_json(value, "header")
    for other in (
        json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1).encode(),
        json.dumps(value, sort_keys=True, separators=(",", ":")).encode(),
        spelled + b" ",
    ):
        if other != spelled:
            with pytest.raises(ValueError, match=r"canonical|Extra data"):
                decode_json(other)


@given(values, st.data())
def test_any_bytes_give_the_value_they_spell_or_a_value_error(value, data):
    spelled = bytearray(encode_json(value, "header"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(spelled) - 1))
        spelled[at : at + data.draw(st.integers(0, 1))] = data.draw(
            st.binary(max_size=2) | st.sampled_from([b"[", b"{", b'"', b"\\"])
        )
        spelled += b"" if spelled else b"0"
    try:
        back = decode_json(bytes(spelled))
    except ValueError:
        return
    assert encode_json(back, "header") == bytes(spelled)


@pytest.mark.parametrize(
    ("spelled", "reason"),
    [
        (b'{"a":1,"a":2}', "canonical"),
        (b'{"b":1,"a":2}', "canonical"),
        (b"NaN", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"[1e999]", "not JSON compliant"),
        (b"-0", "canonical"),
        (b"1.50", "canonical"),
        (b"1" * 5000, "digits"),
        (b'"\\ud800"', "surrogates not allowed"),
        (b'"\xff"', "invalid start byte"),
        (b"\xef\xbb\xbf1", "BOM"),
        ("1".encode("utf-16"), "invalid start byte"),
        (b"", "Expecting value"),
        (b"[", "Expecting value"),
        (b'"', "Unterminated string"),
        (b'"\\"', "Unterminated string"),
        (b"nul", "Expecting value"),
    ],
)
def test_other_bytes_are_refused(spelled, reason):
    with pytest.raises(ValueError, match=reason):
        decode_json(spelled)


def test_depth_is_bounded_before_anything_is_parsed(monkeypatch):
    def parser(*args, **kwargs):
        raise AssertionError("the parser was called")

    monkeypatch.setattr(json, "loads", parser)
    for spelled in (
        b"[" * 65 + b"]" * 65,
        b"[" * 10_000_000,
        b'{"":' * 65 + b"1" + b"}" * 65,
        b'["\\\\",' * 65 + b"1" + b"]" * 65,  # an escaped backslash does not hide the quote behind it
        b'["\\"",' * 65 + b"1" + b"]" * 65,
    ):
        with pytest.raises(ValueError, match="64 levels"):
            decode_json(spelled)


def test_brackets_in_text_are_not_depth():
    value = ["[" * 100, '"[' * 100, "\\" * 3 + '"[[' * 100, {"{" * 100: "\\" * 4}]

    assert decode_json(encode_json(value, "header")) == value


def test_depth_of_the_limit_is_written_and_read():
    deepest = json.loads("[" * 64 + "]" * 64)

    assert decode_json(encode_json(deepest, "header")) == deepest
    with pytest.raises(InvalidValue, match=r"header to be plain JSON values.*64 levels"):
        encode_json([deepest], "header")


def test_nesting_beyond_what_python_can_write_is_the_same_error():
    endless = []
    for _ in range(sys.getrecursionlimit() * 2):
        endless = [endless]
    with pytest.raises(InvalidValue, match="at most 64 levels"):
        encode_json(endless, "header")


def test_what_would_not_come_back_is_not_written():
    for value in [
        {1: 2},
        {None: 1},
        (1, 2),
        {"a": (1,)},
        float("nan"),
        [float("inf")],
        {1, 2},
        b"a",
        "\ud800",
        10**5000,
    ]:
        with pytest.raises(InvalidValue, match="header to be plain JSON values"):
            encode_json(value, "header")


def test_a_cycle_is_not_written():
    cycle = []
    cycle.append(cycle)
    with pytest.raises(InvalidValue, match="header to be plain JSON values"):
        encode_json(cycle, "header")
