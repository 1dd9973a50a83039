"""Verdicts on results made by hand: regret is a factor times the level of the seed, so ratios are ratios of factors."""

import itertools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from posse_lab.reproduction.claims import FAILS, HOLDS, kind_of
from posse_lab.reproduction.lineup import DEFAULT_RIVALS, EBM, MATCHED_RIVALS, TUNED_RIVALS
from posse_lab.reproduction.verdicts import LEVEL_WORDS, LEVELS, lowest, worst

OURS = {"ebmUCB": 0.9, "ebmTS": 1.0}  # everyone else has 2


def verdict_on(*places, column="curve"):
    return lowest("some-claim", list(places), column=column)


def test_it_holds_where_every_rival_at_every_level_is_worse(reading):
    made = reading(OURS | {"LinTS 0.25": 1.25})
    claim = verdict_on((made, None))

    assert claim.verdict == HOLDS
    # The strongest rival of all levels decides, against the weaker method.
    assert claim.value == pytest.approx(1.0 / 1.25)
    assert claim.interval == pytest.approx((0.8, 0.8))
    assert claim.measure == "regret of ebmTS over LinTS tuned (exploration 0.25), the weakest pair"
    assert (claim.id, claim.claim) == ("some-claim", "")
    assert (claim.seeds, claim.sources) == (8, ("made",))


@pytest.mark.parametrize("rival", ["LinUCB 0.1", "LinTS 2", "RMBandit q=5", "RMBandit scheduled q=5"])
def test_a_rival_that_is_better_once_tuned(reading, rival):
    claim = verdict_on((reading(OURS | {rival: 0.8}), None))

    assert claim.verdict == "holds only if rivals are not tuned"
    assert claim.value == pytest.approx(1.0 / 0.8)
    assert claim.measure.startswith(f"regret of ebmTS over {rival.split()[0]} tuned (")


def test_a_rival_that_ties_once_tuned(reading):
    made = reading(OURS | {"LinUCB 0.1": 1.02}, wobble={"LinUCB 0.1": 0.2})
    claim = verdict_on((made, None))

    assert claim.verdict == "holds only if rivals are not tuned"
    assert claim.interval[0] < 1 < claim.interval[1]
    assert claim.value == pytest.approx(1.0 / 1.02)


@pytest.mark.parametrize("rival", MATCHED_RIVALS)
def test_a_rival_that_is_better_with_less_exploration(reading, rival):
    claim = verdict_on((reading(OURS | {rival: 0.5}), None))

    assert claim.verdict == "holds only if rivals explore as libraries set them or better"
    assert claim.value == pytest.approx(2.0)
    assert claim.measure == f"regret of ebmTS over {rival}, the weakest pair"


def test_rivals_that_are_better_with_less_exploration_and_tuned(reading):
    made = reading(OURS | {"LinTS matched": 0.8, "LinUCB 0.25": 0.5})
    claim = verdict_on((made, None))

    assert claim.verdict == "holds only if rivals keep the paper's and the libraries' settings"
    # "The weakest pair" is the weakest of all, whichever level it is at.
    assert claim.measure == "regret of ebmTS over LinUCB tuned (exploration 0.25), the weakest pair"
    assert claim.value == pytest.approx(2.0)


@pytest.mark.parametrize(("good", "bad"), [EBM, EBM[::-1]])
def test_one_of_the_methods_alone(reading, good, bad):
    made = reading({good: 1.0, bad: 2.5, "OLSBandit": 1.9})
    claim = verdict_on((made, None))

    assert claim.verdict == f"holds only if it is read for {good} alone"
    assert claim.value == pytest.approx(2.5 / 1.9)
    assert claim.measure == f"regret of {bad} over OLSBandit, the weakest pair"


def test_some_of_the_settings(reading):
    worlds = [reading(OURS, source="a", label="N = 5"), reading({}, source="b", label="N = 10")]
    worlds.append(reading(OURS, source="c", label="N = 20"))
    claim = verdict_on(*((world, None) for world in worlds))

    assert claim.verdict == "holds only if the setting is N = 5 or N = 20"
    assert claim.sources == ("a", "b", "c")


def test_some_of_the_steps_of_one_world(reading):
    made = reading({"ebmUCB": [3.0, 1.0], "ebmTS": [3.0, 1.0]}, steps=(1_000, 4_000))
    claim = verdict_on((made, 1_000), (made, 4_000))

    assert claim.verdict == "holds only if n = 4,000"
    assert claim.value == pytest.approx(1.5)
    assert claim.measure.endswith(" at n = 1,000, the weakest pair")
    assert claim.sources == ("made",)


def test_several_restrictions_at_once(reading):
    fine = reading({"ebmUCB": 1.0, "ebmTS": 3.0, "LinUCB 0.5": 0.9}, label="here")
    bad = reading({"ebmUCB": 3.0, "ebmTS": 3.0}, label="there")
    claim = verdict_on((fine, None), (bad, None))

    assert claim.verdict == "holds only if it is read for ebmUCB alone and the setting is here and rivals are not tuned"


def test_a_tie_everywhere(reading):
    made = reading({"ebmUCB": 2.1, "ebmTS": 2.1}, wobble={"ebmUCB": 0.2, "ebmTS": 0.2})
    claim = verdict_on((made, None))

    assert claim.verdict == "holds only if a tie with RMBandit and OLSBandit and LinTS and LinUCB counts"
    assert claim.interval[0] < 1 < claim.interval[1]
    assert claim.value == pytest.approx(2.1 / 2.0)


def test_worse_than_a_rival_as_the_paper_sets_it(reading):
    claim = verdict_on((reading({"ebmUCB": 2.2, "ebmTS": 2.4, "LinUCB": 1.6}), None))

    assert claim.verdict == FAILS
    assert claim.value == pytest.approx(2.4 / 1.6)
    assert claim.interval == pytest.approx((1.5, 1.5))


def test_a_tie_with_one_rival_does_not_hide_that_another_is_better(reading):
    """LinUCB has 1 / 1.2 of ebm's regret, certainly; OLSBandit as much as ebm, give or take a third."""
    made = reading({"ebmUCB": 1.2, "ebmTS": 1.2, "LinUCB": 1.0, "OLSBandit": 1.2}, wobble={"OLSBandit": 0.45})
    assert made.compare("ebmTS", "LinUCB").ratio_interval == pytest.approx((1.2, 1.2))
    low, high = made.compare("ebmTS", "OLSBandit").ratio_interval
    assert low < 1
    assert high > 1.2

    assert "tie" not in verdict_on((made, None)).verdict


def test_regret_of_the_first_task_is_another_question(reading):
    made = reading(OURS, tracked={"ebmUCB": 0.7, "ebmTS": 0.8})

    assert verdict_on((made, None)).verdict == HOLDS
    claim = verdict_on((made, None), column="tracked_curve")
    assert claim.verdict == FAILS
    assert claim.value == pytest.approx(0.8 / 0.5)


def test_the_step_decides_which_setting_is_the_tuned_one(reading):
    made = reading(OURS | {"LinUCB 0.25": [1.25, 3.0], "LinUCB 4": [3.0, 1.6]})

    assert verdict_on((made, 50)).measure.startswith("regret of ebmTS over LinUCB tuned (exploration 0.25) at n = 50")
    assert verdict_on((made, 100)).measure.startswith("regret of ebmTS over LinUCB tuned (exploration 4) at n = 100")


def test_holds_needs_the_upper_end_of_every_interval_below_one(reading):
    """LinUCB is at 1 / 1.05, certainly; OLSBandit at 1 / 1.1, but its seeds say anything from below to above 1."""
    made = reading(OURS | {"LinUCB": 1.05, "OLSBandit": 1.1}, wobble={"OLSBandit": 0.4})
    assert made.compare("ebmTS", "LinUCB").ratio_interval[1] < 1
    assert made.compare("ebmTS", "OLSBandit").ratio_interval[1] > 1.02

    assert verdict_on((made, None)).verdict != HOLDS


def test_seeds_without_any_regret_do_not_spoil_the_others(reading):
    """A poor task may not arrive, or not be lost in, in most seeds; where it is, ebm has half of each rival's."""
    made = reading({}, tracked={"ebmUCB": 0.25, "ebmTS": 0.25})
    own = pl.col("tracked_curve")
    table = made.result.table.with_columns(pl.when(pl.col("seed") > 1).then(own * 0).otherwise(own))
    made = replace(made, result=replace(made.result, table=table))
    claim = verdict_on((made, None), column="tracked_curve")

    assert claim.value == pytest.approx(0.5)
    assert claim.verdict == HOLDS


def test_the_worst_pair_is_that_of_the_highest_ratio(reading):
    mild = reading(OURS | {"LinUCB": 1.5}, label="mild")
    harsh = reading(OURS | {"LinTS": 0.5, "LinTS matched": 0.1}, label="harsh")

    found = worst([(mild, None), (harsh, 50)], DEFAULT_RIVALS, ("ebmUCB",))

    assert found.comparison == harsh.compare("ebmUCB", "LinTS", 50)
    assert (found.reading, found.step, found.where) == (harsh, 50, ", harsh at n = 50")
    assert not found.lower
    assert found.higher
    assert worst([(mild, None)], DEFAULT_RIVALS, ("ebmUCB",)).lower


def test_the_worst_pair_is_that_of_the_step(reading):
    made = reading(OURS | {"LinUCB": [0.5, 3.0], "LinTS": [3.0, 0.6]})

    assert worst([(made, 50)], DEFAULT_RIVALS).comparison == made.compare("ebmTS", "LinUCB", 50)
    assert worst([(made, 100)], DEFAULT_RIVALS).comparison == made.compare("ebmTS", "LinTS", 100)


def parts_that_hold(places):
    """Return every (method, place, level) of the claim that is true, the plain way: every pair, every interval."""
    rivals = {"default": DEFAULT_RIVALS, "matched": MATCHED_RIVALS, "tuned": TUNED_RIVALS}
    return {
        (method, place, level): all(
            places[place][0].compare(method, rival, places[place][1]).ratio_interval[1] < 1 for rival in rivals[level]
        )
        for method in EBM
        for place in range(len(places))
        for level in LEVELS
    }


@pytest.mark.slow
def test_verdicts_on_random_tables_say_what_every_single_pair_says(reading):
    """Without wobble each interval is a point, so that only the logic is tested: what is said to hold, holds."""
    rng = np.random.default_rng(5)
    names = [*DEFAULT_RIVALS, *MATCHED_RIVALS, "LinUCB 0.1", "LinTS 0.1", "RMBandit q=2"]
    seen = set()
    for _ in range(30):
        ours = rng.uniform(0.5, 1.3)
        places = []
        for label in ("a", "b"):
            factors = dict(zip(names, rng.uniform(0.9, 2.0, len(names)), strict=True))
            factors |= {method: ours * rng.uniform(0.9, 1.1) for method in EBM}
            places.append((reading(factors, label=label), None))
        verdict, true = verdict_on(*places).verdict, parts_that_hold(places)
        seen.add(kind_of(verdict))
        if verdict == FAILS or "a tie" in verdict:
            assert not any(value for (_, _, level), value in true.items() if level == "default"), verdict
            continue
        methods = [method for method in EBM if f"{method} alone" in verdict] or EBM
        where = [place for place, label in enumerate("ab") if f"setting is {label}" in verdict] or [0, 1]
        levels = next((levels for levels, words in LEVEL_WORDS.items() if verdict.endswith(words)), tuple(LEVELS))
        said = set(itertools.product(methods, where, levels))
        assert all(true[cell] for cell in said), verdict
        assert (verdict == HOLDS) == all(true.values()) == (len(said) == len(true)), verdict
    assert seen == {"holds", "holds only if", "does not hold"}
