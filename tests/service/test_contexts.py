"""Contexts come out of the log as they went in."""

import json

import numpy as np
import pytest

from posse.features import FeatureSpec
from posse.service.answers import decision_body
from posse.service.contexts import Contexts
from posse.service.logged_contexts import context_of, contexts_of

ODD = [
    {"hour": 9.5, "weather": "rain"},
    {"eligible": 1.0, "x": 2.0},
    {"status": "eligible", "x": 2.0},
    {"status": '"eligible"', "x": '},"eligible":[]'},
    {"x}": 1.0, "{": "}"},
    {},
]


@pytest.mark.parametrize("context", ODD, ids=range(len(ODD)))
def test_a_context_is_found_whatever_it_holds(context):
    rest = {"eligible": ["a"], "probabilities": [1.0], "mean": [0.5], "sd": [1.0]}
    for body in ({"context": context, **rest}, {**rest, "context": context}, {"context": context}):
        assert context_of(json.dumps(body)) == context
        assert context_of(json.dumps(body, separators=(",", ":"))) == context


def test_many_contexts_are_those_of_each_body():
    rest = {"eligible": ["a"], "probabilities": [1.0], "mean": [0.5], "sd": [1.0]}
    compact = {"separators": (",", ":")}
    written = [json.dumps({"context": context, **rest}, **compact) for context in ODD]
    others = [json.dumps({**rest, "context": ODD[0]}), json.dumps({"context": ODD[0], **rest}), '{"context":{"x":1}}']
    others.append(json.dumps({"context": {"a": 1.0, "eligible": 2.0}, **rest}, **compact))
    for bodies in ([], written, *([written[0], odd, written[0]] for odd in (*written, *others))):
        assert contexts_of(bodies) == [context_of(body) for body in bodies]
    with pytest.raises(ValueError, match="EOF"):
        contexts_of([written[0], "{", written[0]])


def test_a_body_that_is_broken_is_an_error():
    for body in ("", "{", '{"context": {"x": 1}', '{"eligible": []}'):
        with pytest.raises((ValueError, KeyError)):
            context_of(body)


def test_the_log_is_read_as_it_is_written():
    from posse import Posse

    decision = Posse(arms=["a", "b"], features=["x"], seed=1).decide("t", {"x": 1.5})
    assert context_of(decision_body(decision, {"x": 1.5})) == {"x": 1.5}


def test_numbers_become_a_matrix_by_name():
    contexts = Contexts(FeatureSpec(["x", "y"]))
    found = contexts.logged([{"x": 1.0, "y": 2.0}, {"y": 4.0, "x": 3.0}])
    np.testing.assert_array_equal(found, [[1.0, 2.0], [3.0, 4.0]])
    one = Contexts(FeatureSpec(["x"])).logged([{"x": 1.0}, {"x": 2.0}])
    np.testing.assert_array_equal(one, [[1.0], [2.0]])
    for odd in ([{"x": 1.0, "y": None}] * 2, [{"x": 1.0}] * 2, [{"x": 1.0, "z": 2.0}] * 2, [{"x": 1.0, "y": 2.0}]):
        assert contexts.logged(odd) is odd
