"""ebm against RMBandit alone, on regret made by hand."""

import pytest

from posse_lab.reproduction.claims import FAILS, HOLDS
from posse_lab.reproduction.sparse import against_rm_bandit, section


def test_it_holds_against_every_setting(reading):
    worlds = [reading({"ebmUCB": 1.0, "ebmTS": 1.1}, source="a", label="a"), reading({}, source="b", label="b")]
    claim = against_rm_bandit([worlds[0]])

    assert claim.verdict == HOLDS
    assert claim.value == pytest.approx(1.1 / 2.0)
    assert against_rm_bandit(worlds).verdict == FAILS


def test_it_holds_against_the_papers_setting_only(reading):
    made = reading({"ebmUCB": 1.0, "ebmTS": 1.1, "RMBandit q=5": 0.8}, label="1 of 3 coefficients differ")
    claim = against_rm_bandit([made])

    assert claim.verdict == "holds only if RMBandit keeps q = 50"
    assert claim.value == pytest.approx(1.1 / 0.8)
    assert claim.measure.startswith("regret of ebmTS over RMBandit tuned (q 5), 1 of 3 coefficients differ")
    assert claim.measure.endswith(f"over RMBandit with q = 50 it is {1.1 / 2.0:.2f}")


def test_other_rivals_do_not_matter(reading):
    made = reading({"ebmUCB": 1.0, "ebmTS": 1.0, "LinUCB": 0.1, "pooled LinUCB": 0.1})

    assert against_rm_bandit([made]).verdict == HOLDS


def test_worlds_are_called_by_what_differs_in_them(reading):
    results = {key: reading({"ebmUCB": 1.0, "ebmTS": 1.0}).result for key in ("2-of-20", "1-of-3", "2-of-3")}
    made = section(results)

    assert made.tables[0].columns[1:] == tuple(f"{key} coefficients differ" for key in ("1 of 3", "2 of 3", "2 of 20"))
    assert [claim.id for claim in made.claims] == ["sparse-beats-rmbandit", "sparse-lowest"]


def test_the_text_does_not_praise_what_did_not_happen(reading):
    made = section({"1-of-3": reading({"ebmUCB": 3.0, "ebmTS": 3.0}).result})

    assert "far ahead" not in made.found[0]
