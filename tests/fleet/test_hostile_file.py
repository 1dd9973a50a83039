"""Files that posse would not have written, all with right checksums: one clear error, never a fleet that fails later.

Also truncated and bit-flipped ones. What a file may say is checked against what it holds.
"""

import copy
import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posse import FeatureSpec, Posse
from posse.container import DamagedFile, SavedFileError, write_container
from posse.core.store import COUNT, INFORMATION, SQUARES, n_triangle, totals_at
from posse.errors import PosseError, UnknownTask
from posse.features import hashed, one_hot
from posse.fleet.file import KIND, VERSION, state_of
from posse.model import Prior

D = 3
AT = totals_at(D)
KINDS = ("evidence", "robust", "known", "alone", "paper", "clicks")


def build(kind="evidence", clock=lambda: 1000.0):
    """A small fleet with all that a file can hold: tasks, pending and forgotten decisions, retired and added arms."""
    extra = {
        "evidence": {},
        "robust": {"robust": True},
        "known": {"policy": "ebm-ucb", "prior": Prior.isotropic(n_arms=2, n_features=3, variance=0.5)},
        "alone": {"policy": "lin-ucb"},
        "paper": {"prior": "paper"},
        "clicks": {"rewards": "binary", "absent_reward": 0.0, "costs": {"red": 0.1}},
    }[kind]
    rng = np.random.default_rng(0)
    fleets = []
    for seed in (1, 2):
        spec = FeatureSpec(["a", one_hot("b", ["x", "y"])], intercept=False)
        fleet = Posse(arms=["red", "green"], features=spec, seed=seed, clock=clock, **{"absent_reward": 0.5, **extra})
        if kind not in ("known", "alone"):
            fleet.add_arm("blue")
        for i in range(14):
            context = {"a": rng.normal(), "b": "xy"[i % 2]}
            decision = fleet.decide(f"t{i % 4}", context)
            if i % 3:
                value = float(rng.normal())
                fleet.reward(decision.id, value if kind != "clicks" else float(value > 0))
        fleets.append(fleet)
    fleet = fleets[0]
    fleet.forget("t3")
    fleet.merge(fleets[1])
    fleet.retire_arm("green")
    return fleet


def saved_state(kind="evidence"):
    header, arrays = state_of(build(kind))
    return json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()}


@pytest.fixture(scope="module")
def states():
    return {kind: saved_state(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "fleet.posse"


def write(path, header, arrays):
    write_container(path, kind=KIND, version=VERSION, header=header, arrays=arrays)


def use(fleet, clock):
    """Do everything that a fleet can do; what it refuses, it refuses with an error of posse."""
    context = {"a": 0.5, "b": "y"}

    def attempt(work):
        try:
            return work()
        except PosseError:
            return None

    tasks = [*fleet.tasks[:2], *(["new"] if not fleet.tasks or isinstance(fleet.tasks[0], str) else [987654])]
    for task in tasks:
        decision = attempt(lambda task=task: fleet.decide(task, context))
        attempt(lambda task=task: fleet.expected(task, context))
        attempt(lambda task=task: fleet.coefficients(task))
        attempt(lambda task=task: fleet.export(task))
        if decision is not None:
            attempt(lambda decision=decision: fleet.reward(decision.id, 1.5))
    waiting = attempt(fleet.pending) or []
    attempt(lambda: fleet.reward_many([entry.id for entry in waiting[:3]], [0.5] * len(waiting[:3])))
    attempt(lambda: fleet.decide_many(tasks * 2, [context] * 2 * len(tasks)))
    attempt(lambda: fleet.probabilities(tasks, [context] * len(tasks)))
    rows = [{"task": task, "arm": arm, **context, "reward": 1.0} for task in tasks for arm in fleet.arms]
    attempt(lambda: fleet.learn_many(rows))
    attempt(fleet.refresh)
    attempt(lambda: fleet.overview().to_json())
    attempt(lambda: fleet.statistics)
    attempt(lambda: fleet.prior)
    attempt(lambda: Posse(arms=fleet.arms, features=fleet.features, clock=clock).merge(fleet))
    attempt(lambda: fleet.forget(*fleet.tasks[:1]))
    attempt(lambda: fleet.add_arm("extra" if isinstance(fleet.arms[0], str) else 12345))
    attempt(lambda: fleet.rename(fleet.arms[0], "renamed" if isinstance(fleet.arms[0], str) else 54321))
    attempt(lambda: fleet.retire_arm(fleet.arms[0]))
    for arm in fleet.retired_arms:
        attempt(lambda arm=arm: fleet.add_arm(arm))
    attempt(lambda: fleet.decide(tasks[0], context, [fleet.arms[-1]]))
    return repr(fleet)


def refusal(path, header, arrays):
    """Return what a file is refused with."""
    write(path, header, arrays)
    with pytest.raises(DamagedFile) as refused:
        Posse.load(path)
    return str(refused.value)


def require_harmless(path, header, arrays):
    """Either it is refused, or what comes back works; whole and in part."""
    write(path, header, arrays)
    for tasks in (None, ["t0"], []):
        now = [1000.0]

        def clock(now=now):
            return now[0]

        try:
            fleet = Posse.load(path, tasks=tasks, clock=clock)
        except SavedFileError:
            continue
        except UnknownTask:
            assert tasks == ["t0"]
            continue
        use(fleet, clock)
        now[0] += 1e9
        use(fleet, clock)


# Wrong headers


def test_the_state_itself_is_fine(states, path):
    for header, arrays in states.values():
        require_harmless(path, header, arrays)
        assert len(Posse.load(path)) == len(arrays["task_at"])  # and it is not refused


@pytest.mark.parametrize("kind", ["evidence", "known"])
def test_missing_fields_and_arrays(states, path, kind):
    header, arrays = states[kind]
    for name in header:
        if name != "posse":  # says who wrote it
            assert str(path) in refusal(path, {key: header[key] for key in header if key != name}, arrays)
    for name in arrays:
        if name.endswith(".others"):  # which numbers are none; not every file has some
            continue
        assert name in refusal(path, header, {key: arrays[key] for key in arrays if key != name})


WRONG_FIELDS = {
    "features": [None, {}, [], "a", {"version": 2}, {"version": 1, "intercept": True, "features": []}],
    "task_features": [{}, [], "a", 5],
    "arm_features": [{}, [], "a", 5],
    "known_arms": [None, [], {}, 5, [None], [None] * 4],
    "arms": [None, [], ["red"], ["red", "green", "green"], ["red", "green", 3], ["red", "green", ""], ["red"] * 3, 5,
             ["red", "green", None], ["red", "green", "blue", "black"], {"red": 1}, "rgb2"],
    "worth": [5, "a", [], {}, {"values": None}, {"costs": [0.0] * 3}, {"values": None, "costs": [0.0] * 2},
              {"values": [1.0], "costs": [0.0] * 3}, {"values": [1.0, None, None], "costs": [0.0] * 3},
              {"values": [1.0, -1.0, 1.0], "costs": [0.0] * 3}, {"values": ["1"] * 3, "costs": [0.0] * 3},
              {"values": {"red": 1.0}, "costs": [0.0] * 3}, {"values": None, "costs": [True] * 3}],
    "retired": [None, "1", [3], [-1], [1, 1], [True], [0, 1, 2], ["green"], [1.0], {"1": 1}, [[]]],
    "tasks": [None, "number", "none!", "", 3, ["text"]],
    "seed": ["", "-1", "x", [], None, {}, str(2**128), "9" * 5000, -5],
    "decided": [None, -1, 1.5, "3", True, 2**63, 10**30],
    "origins": ["x", 5, [], {}, [1]],
    "ledgers": [None, [], {}, [1], [[]], [{}], "abc", [{"prefix": "a", "first": 1, "size": 0}] * 2,
                [{"prefix": "a", "first": 0, "size": 0}], [{"prefix": "", "first": 1, "size": 0}],
                [{"prefix": "a-1", "first": 1, "size": 0}], [{"prefix": 5, "first": 1, "size": 0}],
                [{"prefix": "a", "first": 1, "size": -1}], [{"prefix": "a", "first": 1, "size": 10**6}],
                [{"prefix": "a", "first": 1.0, "size": 0}], [{"prefix": "a", "first": 1}],
                [{"prefix": ["a"], "first": 1, "size": 0}]],
    "settings": [None, [], 5, "a", {"nonsense": 1}],
}  # fmt: skip
WRONG_SETTINGS = {
    "policy": [None, "", "ebm", "hier-ts", 5, ["ebm-ts"], {}],
    "prior": ["best", 5, [], {"a": 1}],
    "exploration": ["0.1", -1, [], 10**400, True],
    "floor": ["0", -0.1, 0.6, 2, [], None, True],
    "evaluation_budget": ["0", -0.1, 1.5, [], None, True],
    "refresh_growth": ["0.1", -1, [], 10**400],
    "rewards": ["click", 5, None, []],
    "drift": ["soon", -1.0, 0, []],
    "time_to_live": [0, -1, "1", [], True],
    "absent_reward": ["1", [], 1e60],
    "count_pending": [None, "yes", 1, 0, [], {}],
}


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_fields_that_cannot_be(states, path, name):
    header, arrays = states["evidence"]
    assert name in header
    for value in WRONG_FIELDS[name]:
        assert str(path) in refusal(path, header | {name: value}, arrays)


@pytest.mark.parametrize("name", WRONG_SETTINGS)
def test_settings_that_cannot_be(states, path, name):
    header, arrays = states["evidence"]
    for value in WRONG_SETTINGS[name]:
        assert str(path) in refusal(path, header | {"settings": header["settings"] | {name: value}}, arrays)


def test_all_fields_have_wrong_values_here(states):
    assert set(states["evidence"][0]) - set(WRONG_FIELDS) == {"posse"}
    assert set(states["evidence"][0]["settings"]) - set(WRONG_SETTINGS) == {"robust"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.integers(-3, 5)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
    | st.sampled_from(["known", "evidence", "lin-ucb", "random", "number", "paper-literal", "7"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(value, here=()):
    """Every place in a JSON value."""
    yield here
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*here, key))


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_anywhere_in_the_header(states, path, data):
    kind = data.draw(st.sampled_from(sorted(states)))
    header, arrays = copy.deepcopy(states[kind][0]), states[kind][1]
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from([place for place in places(header) if place]))
        inner = header
        for key in place[:-1]:
            inner = inner[key]
        value = data.draw(json_values)
        if isinstance(inner, dict) and data.draw(st.integers(0, 9)) == 0:
            del inner[place[-1]]
        else:
            inner[place[-1]] = value
    require_harmless(path, header, arrays)


# Wrong arrays


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["evidence", "known"])
def test_wrong_shapes_and_types(states, path, kind):
    header, arrays = states[kind]
    for name, array in arrays.items():
        with np.errstate(invalid="ignore"):
            other = array.astype(np.int64 if array.dtype == np.float64 else np.float64)
            wrong = [array[..., None], array.astype(np.int32), np.concatenate([array, array]), np.zeros((0, 3)), other]
        if name in ("task_text", "known_text"):  # bytes are bytes, whatever their shape
            del wrong[0]
        for candidate in [*wrong, *([array[:-1]] if array.ndim else [])]:
            if (candidate.shape, candidate.dtype) != (array.shape, array.dtype):
                assert str(path) in refusal(path, header, arrays | {name: candidate})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", ["evidence", "known"])
def test_numbers_that_are_none(states, path, kind, value):
    header, arrays = states[kind]
    for name, array in arrays.items():
        if array.dtype == np.float64 and array.size:
            wrong = array.copy()
            wrong.flat[-1] = value
            assert name in refusal(path, header, arrays | {name: wrong})


def changed(array, place, value):
    result = array.copy()
    result[place] = value
    return result


WRONG_ENTRIES = [
    ("core.store.owner", (0, 0), -2), ("core.store.owner", (0, 0), 99), ("core.store.owner", (0, 1), -1),
    ("core.store.owner", (0, 1), 3), ("core.store.sums", (0, AT + COUNT), -1.0),
    ("core.store.sums", (0, AT + SQUARES), -1.0), ("core.store.sums", (0, AT + INFORMATION), -1.0),
    ("core.store.sums", (0, 0), -1.0), ("core.store.weight", 0, 0.0), ("core.store.weight", 0, -1.0),
    ("task_end", 0, 0), ("task_end", 0, -5), ("task_end", -1, 99), ("task_end", 0, 2**62), ("task_text", 0, 255),
    ("task_at", 0, -1), ("task_at", 0, 99), ("core.store.prior", (0, 0, 0), -1.0), ("core.store.noise", 0, 0.0),
    ("core.store.noise", 0, -1.0), ("core.store.told", (0, 0, 0), -1e9), ("ledger0.status", 0, 3),
    ("ledger0.status", 0, 255), ("ledger0.task", 2, -1), ("ledger0.task", 2, 99), ("ledger0.arm", 2, -1),
    ("ledger0.arm", 2, 3), ("ledger1.task", 0, 2**62), ("ledger1.arm", 0, -(2**62)), ("ledger0.reward", 2, -1e60),
    ("ledger0.context", (2, 0), 1e60),
]  # fmt: skip


@pytest.mark.parametrize(("name", "place", "value"), WRONG_ENTRIES)
def test_entries_that_cannot_be(states, path, name, place, value):
    header, arrays = states["evidence"]
    assert str(path) in refusal(path, header, arrays | {name: changed(arrays[name], place, value)})


@pytest.mark.parametrize("name", ["core.store.row_links", "core.store.row_ends", "core.store.free_rows"])
def test_lists_of_rows_that_cannot_be(states, path, name):
    header, arrays = states["clicks"]
    for value in (-2, 99, 2**62, -(2**62)):
        for place in range(arrays[name].size):
            wrong = arrays[name].copy()
            if wrong.flat[place] != value:
                wrong.flat[place] = value
                require_harmless(path, header, arrays | {name: wrong})


def test_a_pair_twice_and_a_name_twice(states, path):
    header, arrays = states["evidence"]
    pairs = arrays["core.store.owner"].copy()
    pairs[1] = pairs[0]
    assert "one slot for every pair" in refusal(path, header, arrays | {"core.store.owner": pairs})
    text = arrays["task_text"].copy()
    assert bytes(text[:4]) == b"t0t1"
    text[3] = ord("0")
    assert "one name" in refusal(path, header, arrays | {"task_text": text})
    numbers = {key: arrays[key] for key in arrays if key not in ("task_text", "task_end")}
    numbers["task_number"] = np.array([5, 5, 6, 7][: len(arrays["task_at"])])
    assert "one name" in refusal(path, header | {"tasks": "number"}, numbers)


def test_the_arm_of_a_forgotten_decision_is_nobody(states, path):
    header, arrays = states["evidence"]
    gone = np.flatnonzero(arrays["ledger0.status"] == 2)
    assert gone.size
    require_harmless(path, header, arrays | {"ledger0.arm": changed(arrays["ledger0.arm"], gone[0], 99)})


def test_decisions_of_a_loaded_fleet_can_be_rewarded(states, path):
    header, arrays = copy.deepcopy(states["evidence"][0]), states["evidence"][1]
    header["ledgers"][0]["first"] = 10**18
    write(path, header, arrays)
    try:
        fleet = Posse.load(path, clock=lambda: 1000.0)
    except DamagedFile:
        return
    assert fleet.reward(fleet.decide("t0", {"a": 1.0, "b": "x"}).id, 1.0)


IMPOSSIBLE = [
    (0, 1e120), (0, -1.0), (n_triangle(D), 1e60), (n_triangle(D), 1e4), (AT + COUNT, 1e60),
    (AT + SQUARES, 1e120),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value"), IMPOSSIBLE)
def test_sums_that_no_fleet_can_have(states, path, column, value):
    header, arrays = states["robust"]
    sums = arrays["core.store.sums"].copy()
    sums[:, column] = value
    assert "sums over rewards" in refusal(path, header, arrays | {"core.store.sums": sums})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["evidence", "clicks"])
def test_a_fleet_from_odd_numbers_does_not_fail_later(states, path, kind):
    header, arrays = states[kind]
    with np.errstate(all="ignore"):
        for name in [name for name, array in arrays.items() if array.dtype == np.float64 and array.size]:
            for value in (0.0, 1.0, 1e-300, 1e60, 1e300):
                for place in (..., -1):
                    array = arrays[name].copy()
                    array[place] = value
                    require_harmless(path, header, arrays | {name: array})


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_number_elsewhere_is_harmless(states, path, data):
    kind = data.draw(st.sampled_from(KINDS))
    header, arrays = states[kind]
    array = arrays[name := data.draw(st.sampled_from([name for name in arrays if arrays[name].size]))].copy()
    numbers = {
        "f": st.sampled_from([-1.0, 0.0, 1.0, 1e-300, 1e60, -1e60, 1e300]),
        "i": st.integers(-3, 6) | st.sampled_from([99, 2**62, -(2**62)]),
        "u": st.integers(0, 255),
        "b": st.booleans(),
    }
    value = data.draw(numbers[array.dtype.kind])
    if data.draw(st.booleans()):
        array[...] = value
    else:
        array.flat[data.draw(st.integers(0, array.size - 1))] = value
    with np.errstate(all="ignore"):
        require_harmless(path, header, arrays | {name: array})


def test_a_small_file_takes_little_memory(states, path):
    header, arrays = states["evidence"]
    features = FeatureSpec([hashed("a", 200)], intercept=False).to_json()
    write(path, header | {"features": features}, arrays)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFile):
            Posse.load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1e7  # the file has twelve thousand bytes


# Damage


def test_a_file_cut_anywhere_is_refused(states, path):
    write(path, *states["evidence"])
    whole = path.read_bytes()
    for length in [*range(0, 300, 7), *range(300, len(whole), 211), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(SavedFileError):
            Posse.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(SavedFileError):
        Posse.load(path)


def test_a_flipped_bit_anywhere_is_found(states, path):
    write(path, *states["evidence"])
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in [*range(40), *rng.integers(40, len(whole), size=400).tolist()]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(SavedFileError):
            Posse.load(path)


def test_other_kinds_and_versions_are_refused(states, path):
    header, arrays = states["evidence"]
    for kind, version in (("result", VERSION), (KIND, VERSION + 1), (KIND, VERSION - 1)):
        write_container(path, kind=kind, version=version, header=header, arrays=arrays)
        with pytest.raises(DamagedFile):
            Posse.load(path)
    with pytest.raises(DamagedFile, match=f"version {VERSION - 1} of 'fleet'.* learn its log again"):
        Posse.load(path)
    path.write_text("not a fleet")
    with pytest.raises(DamagedFile):
        Posse.load(path)
