"""How many functions a decision and its reward pass through: what ARCHITECTURE.md says of both ways."""

import sys
from pathlib import Path

import posse
from posse import Posse

HOME = Path(posse.__file__).parent


def way(call):
    """Return the functions of posse that a call goes through, by file and name, without those inside others."""
    found = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and HOME in Path(code.co_filename).parents and "<" not in code.co_qualname:
            found.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return result, found


def test_the_ways_of_a_decision_and_of_a_reward_are_short():
    fleet = Posse(arms=["red", "green", "blue"], features=["x"], seed=7)
    for step in range(20):
        fleet.reward(fleet.decide(f"t{step % 3}", {"x": step / 10}), float(step % 2))
    decision, deciding = way(lambda: fleet.decide("t1", {"x": 0.5}))
    _, rewarding = way(lambda: fleet.reward(decision, 1.0))
    for found, functions, files in ((deciding, 26, 14), (rewarding, 24, 9)):
        assert len(found) <= functions, sorted(found)
        assert len({file for file, _ in found}) <= files, sorted(found)
