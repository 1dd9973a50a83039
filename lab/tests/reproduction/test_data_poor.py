"""What the poor task gains, on curves made by hand."""

import pytest

from posse_lab.reproduction.balanced import gains_most
from posse_lab.reproduction.claims import FAILS, HOLDS

# All tasks have factor 2 and the first 0.5, unless said otherwise: the others have 1.5.


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        # The first task goes to a fifth of LinUCB's, the others to (1.1 - 0.1) / 1.5.
        (0.1, HOLDS),
        # It goes to 0.9 of LinUCB's and the others to 0.65 / 1.5.
        (0.45, FAILS),
    ],
)
def test_the_ratio_of_two_ratios(reading, own, verdict):
    claim = gains_most(reading({"ebmUCB": 1.1}, tracked={"ebmUCB": own}), 100)

    assert claim.value == pytest.approx((own / 0.5) / ((1.1 - own) / 1.5))
    assert claim.interval == pytest.approx((claim.value, claim.value))
    assert claim.verdict == verdict
    assert claim.seeds == 8


def test_a_tuned_rival_that_leaves_the_poor_task_less_to_gain(reading):
    made = reading({"ebmUCB": 1.1, "LinUCB 0.5": 1.0}, tracked={"ebmUCB": 0.1, "LinUCB 0.5": 0.05})
    claim = gains_most(made, 100)

    tuned = (0.1 / 0.05) / (1.0 / 0.95)
    assert claim.verdict == f"holds only if LinUCB is not tuned (tuned: {tuned:.2f})"
    assert claim.value == pytest.approx((0.1 / 0.5) / (1.0 / 1.5))
    assert f"against LinUCB tuned (exploration 0.5) it is {tuned:.2f}" in claim.measure


def test_the_step_is_the_one_that_was_asked_for(reading):
    made = reading({"ebmUCB": 1.1}, tracked={"ebmUCB": [0.1, 0.45]})

    assert gains_most(made, 50).value == pytest.approx((0.1 / 0.5) / (1.0 / 1.5))
    assert "at n = 50" in gains_most(made, 50).measure
