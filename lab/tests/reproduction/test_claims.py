import json
import math

import pytest

from posse_lab.reproduction.claims import FAILS, HOLDS, Claim, count_kinds, kind_of, only_if


def made(**change):
    settings = {
        "id": "a-claim",
        "claim": "The sky is blue.",
        "experiment": "balanced",
        "verdict": HOLDS,
        "value": 0.75,
        "interval": (0.5, 1.25),
        "seeds": 7,
        "measure": "regret of a over b",
        "sources": ("run",),
    }
    return Claim(**(settings | change))


def test_a_claim_lists_seven_values_and_no_more():
    assert made().to_dict() == {
        "id": "a-claim",
        "claim": "The sky is blue.",
        "experiment": "balanced",
        "verdict": "holds",
        "value": 0.75,
        "interval": [0.5, 1.25],
        "seeds": 7,
    }


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_number_for_is_null(odd):
    said = made(value=odd, interval=(0.5, odd)).to_dict()

    assert said["value"] is None
    assert said["interval"] == [0.5, None]
    assert json.loads(json.dumps(said, allow_nan=False)) == said


def test_zero_is_a_number():
    assert made(value=0.0, interval=(0.0, -0.0)).to_dict()["value"] == 0.0


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        (HOLDS, "holds"),
        (FAILS, "does not hold"),
        (only_if("rivals are not tuned"), "holds only if"),
        (only_if("it holds"), "holds only if"),
    ],
)
def test_every_verdict_is_of_one_kind(verdict, kind):
    assert kind_of(verdict) == kind


def test_verdicts_are_counted_by_kind_and_kinds_without_any_are_zero():
    verdicts = [HOLDS, only_if("a"), HOLDS, only_if("b"), only_if("c")]

    counts = count_kinds([made(verdict=verdict) for verdict in verdicts])

    assert counts == {"holds": 2, "holds only if": 3, "does not hold": 0}
    assert count_kinds([]) == {"holds": 0, "holds only if": 0, "does not hold": 0}
