"""Contexts come out of the log as they went in."""

import json

import pytest

from posse.service.contexts import context_of, contexts_of

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
