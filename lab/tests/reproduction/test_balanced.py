"""Claims about Figure 1 (a) on curves made by hand."""

import pytest

from posse_lab.reproduction.balanced import PAPER_PULLS, rm_exploration, still_growing, ucb_ts_comparable
from posse_lab.reproduction.claims import FAILS, HOLDS, kind_of
from posse_lab.reproduction.lineup import PULLS

EXPLORED = 5 * PAPER_PULLS  # the made worlds have five arms
STEPS = (EXPLORED, 2 * EXPLORED, 10 * EXPLORED)


def explored(reading, early, late, **others):
    """RMBandit's excess over ebmUCB, in levels of the seed: ``early`` after its exploration and ``late`` at the end."""
    factors = {
        "ebmUCB": 1.0,
        # At the second step a factor 1 is a fifth of the level.
        "RMBandit": [1 + early / 0.1, 1 + late / 0.2, 9.0],
        **{f"RMBandit q={q}": 20.0 for q in PULLS if q != 50},
    }
    return reading(factors | others, steps=STEPS)


def test_the_share_of_the_excess_that_exploration_explains(reading):
    made = explored(reading, early=0.3, late=0.4, **{"RMBandit q=5": 1.5})
    claim = rm_exploration(made, STEPS[1])

    assert claim.value == pytest.approx(0.75)
    assert claim.interval == pytest.approx((0.75, 0.75))
    assert claim.verdict == HOLDS
    assert f"at step {STEPS[1]:,} that it had by step {EXPLORED}" in claim.measure
    assert "RMBandit tuned (q 5)" in claim.measure


def test_exploring_less_that_does_not_help(reading):
    claim = rm_exploration(explored(reading, early=0.3, late=0.4), STEPS[1])

    assert kind_of(claim.verdict) == "holds only if"
    assert "exploring less does not help" in claim.verdict


def test_an_excess_that_came_later(reading):
    made = explored(reading, early=0.1, late=0.4, **{"RMBandit q=5": 1.5})

    assert rm_exploration(made, STEPS[1]).value == pytest.approx(0.25)
    assert rm_exploration(made, STEPS[1]).verdict == FAILS


def test_a_step_within_the_exploration_decides_nothing(reading):
    made = reading({"ebmUCB": 1.0, "RMBandit": 3.0, "RMBandit q=5": 1.5}, steps=(80, EXPLORED, 400))

    assert rm_exploration(made, 80).verdict != HOLDS


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.0, HOLDS), (1.09, HOLDS), (0.91, HOLDS), (1.12, FAILS), (0.85, FAILS)]
)
def test_within_ten_percent_is_comparable(reading, ratio, verdict):
    claim = ucb_ts_comparable(reading({"ebmTS": ratio, "ebmUCB": 1.0}), 50)

    assert claim.verdict == verdict
    assert claim.value == pytest.approx(ratio)
    assert "n = 50" in claim.measure


def test_comparable_needs_the_whole_interval(reading):
    made = reading({"ebmTS": 1.05, "ebmUCB": 1.0}, wobble={"ebmTS": 0.3})

    assert ucb_ts_comparable(made, 100).verdict != HOLDS


def test_what_is_lost_in_the_second_half(reading):
    """With factors f and g at the half and at the end, the second half costs g - f / 2."""
    rivals = {name: [0.8, 1.9] for name in ("LinTS", "LinUCB", "OLSBandit")}  # 1.5, each the best of its grid
    ours = {"ebmUCB": [1.0, 1.25], "ebmTS": [1.0, 1.2]}  # 0.75 and 0.7
    tuned = {"LinUCB 0.5": [2.8, 1.8]}  # 0.4

    claim = still_growing(reading(rivals | ours))
    assert claim.verdict == HOLDS
    assert claim.value == pytest.approx(0.75 / 1.5)
    claim = still_growing(reading(rivals | ours | tuned))
    assert claim.verdict == "holds only if the rivals are not tuned"
    assert claim.value == pytest.approx(0.75 / 0.4)
    assert "LinUCB tuned (exploration 0.5)" in claim.measure
    for method in ours:
        assert still_growing(reading(rivals | ours | {method: [0.1, 1.9]})).verdict == FAILS
