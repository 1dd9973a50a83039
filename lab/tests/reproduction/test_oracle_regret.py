"""Two definitions of regret, on curves made by hand."""

import numpy as np
import pytest

from posse_lab.reproduction.claims import FAILS, HOLDS, kind_of
from posse_lab.reproduction.lineup import lineup
from posse_lab.reproduction.oracle_regret import definitions_agree
from posse_lab.reproduction.reading import Reading

LEVELS = np.array([90.0, 110.0, 95.0, 105.0, 100.0, 100.0])


def made(result, factors, wobble=0.0, label="balanced"):
    """Regret by the appendix is that of the main text times a factor, 1 where none is given."""
    swing = 1 + wobble * np.array([1, -1, 1, -1, 1, -1])
    curves = {name: (LEVELS * (2 + place))[:, None] for place, name in enumerate(lineup())}
    expected = {name: curves[name] * factors.get(name, 1.0) * swing[:, None] for name in curves}
    return Reading(result(curves, [10], expected=expected), label, label)


def test_the_method_where_they_differ_most_decides(result):
    claim = definitions_agree([made(result, {"ebmUCB": 1.02}), made(result, {"HierTS": 0.97, "LinTS": 1.01})])

    assert claim.verdict == HOLDS
    assert claim.value == pytest.approx(0.97)
    assert claim.interval == pytest.approx((0.97, 0.97))
    assert "for HierTS in the balanced setting" in claim.measure
    assert claim.seeds == 6


def test_definitions_that_differ(result):
    claim = definitions_agree([made(result, {"OLSBandit": 1.3})])

    assert claim.verdict == FAILS
    assert claim.value == pytest.approx(1.3)


def test_a_difference_that_seeds_may_explain(result):
    claim = definitions_agree([made(result, {"OLSBandit": 1.08}, wobble=0.2)])

    assert kind_of(claim.verdict) == "holds only if"
    assert claim.interval[0] < 1.05


def test_it_is_the_appendix_over_the_main_text(result):
    assert definitions_agree([made(result, {"ebmTS": 0.5})]).value == pytest.approx(0.5)
