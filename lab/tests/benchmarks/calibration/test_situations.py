import numpy as np
import pytest

from posse.errors import InvalidValue
from posse_lab.benchmarks.calibration import fleets, policies
from posse_lab.benchmarks.calibration.situations import SITUATIONS, chosen_situations


@pytest.mark.slow
# All of them take a minute; one is enough to see that a situation depends on its seed alone.
@pytest.mark.parametrize(
    "name", [name if name == "few-rows" else pytest.param(name, marks=pytest.mark.slow) for name in SITUATIONS]
)
def test_every_line_of_the_table_is_measured_the_same_way_again(name):
    situation = SITUATIONS[name]
    first, again = situation.meet(3), situation.meet(3)

    assert first == again
    assert first != situation.meet(4)
    asked = {line.value for line in situation.quantities} | {line.over for line in situation.quantities} - {None}
    assert asked == set(first)
    assert all(np.isfinite(value) for value in first.values())
    for key, value in first.items():
        if key.endswith(("held", "within", "above", "share", "probability")):
            assert 0 <= value <= 1, key


def test_the_bars_are_those_that_were_promised():
    bars = {
        name: {(line.at_least, line.at_most) for line in situation.quantities} - {(None, None)}
        for name, situation in SITUATIONS.items()
    }

    assert bars == {
        "constant-arm": {(0.9, 1.1), (0.6, 1.4)},
        "rare-clicks": {(1 / 1.5, 1.5), (0.85, 0.97)},
        "rare-clicks-binary": {(1 / 1.5, 1.5), (0.85, 0.97)},
        "task-rates": {(0.86, 0.94)},
        "offsets": {(None, 1.0)},
        "few-rows": {(0.85, 0.95)},
        "late-zeros": {(None, 0.04), (None, 0.25)},
        "equal-rewards": {(0.95, None)},
        "digging": {(None, 0.1)},
        "cannot-know": set(),
    }
    assert len(SITUATIONS["few-rows"].quantities) == 12
    assert len(SITUATIONS["rare-clicks"].quantities) == 12


def test_arms_beside_an_ordinary_one_are_known():
    # Nothing is unlike here: 5,000 rows of three arms give noise within 5 % and variances of 20 tasks within 40 %.
    noise, variance = policies._beside_unlike_arm(0, 1.0, 20)

    assert (abs(noise - 1) < 0.05).all()
    assert (abs(variance - 1) < 0.4).all()


def test_intervals_hold_the_truth_where_rows_are_many():
    held = [policies._few_rows(seed, 3, 40, 10) for seed in range(6)]

    # 6 seeds of 3 arms, 40 contexts of one task each: about 30 independent intervals, so four standard errors are 0.22.
    assert 0.68 <= np.mean(held) <= 1.0


def test_a_new_arm_starts_with_the_others_where_rewards_are_around_zero(monkeypatch):
    monkeypatch.setattr(fleets, "OFFSETS", (0.0,))

    assert fleets.meet_offsets(1)["0 distance"] < 1


def test_what_was_not_asked_for_is_left_out():
    assert [situation.name for situation in chosen_situations()] == list(SITUATIONS)
    assert [situation.name for situation in chosen_situations(["offsets", "rare-clicks"])] == ["rare-clicks", "offsets"]


def test_an_unknown_situation_is_refused_with_a_hint():
    with pytest.raises(InvalidValue, match=r"no situation 'offset'; did you mean 'offsets'\? The situations are const"):
        chosen_situations(["offset"])
