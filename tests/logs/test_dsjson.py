import json

import pytest

from posse.errors import DataFileError, InvalidValue
from posse.logs import check_log, from_dsjson
from posse.logs.dsjson import looks_like_dsjson

ACTIONS = [
    {"_tag": "r", "Item": {"name": "red", "price": 3}},
    {"_tag": "g", "Item": {"name": "green", "price": 4}},
    {"_tag": "b", "Item": {"name": "blue", "price": 5}},
]
LINE = {
    "_label_cost": -2.5,
    "_label_probability": 0.7,
    "_label_Action": 2,
    "_labelIndex": 1,
    "Timestamp": "2026-01-31T12:00:00.2500000Z",
    "Version": "1",
    "EventId": "event-1",
    "a": [2, 1, 3],
    "c": {"Shop": {"id": "store-17", "hour": 9}, "sunny": True, "temperature": 20.5, "_multi": ACTIONS},
    "p": [0.7, 0.2, 0.1],
    "o": [{"v": 2.5, "EventId": "event-1"}],
    "VWState": {"m": "model-3"},
}


def read(*lines, task="Shop.id", **settings):
    return from_dsjson([json.dumps(line) for line in lines], task=task, **settings)


def without(*keys, **changes):
    return {key: value for key, value in {**LINE, **changes}.items() if key not in keys}


def test_a_line_is_a_decision():
    row = read(LINE, arms="Item.name").frame.row(0, named=True)

    assert row.pop("time").isoformat() == "2026-01-31T12:00:00.250000+00:00"
    assert row == {
        "decision_id": "event-1",
        "task": "store-17",
        "arm": "green",
        "eligible": ["red", "green", "blue"],
        "probabilities": [0.2, 0.7, 0.1],  # of the actions as they stand in _multi, not as they were ranked
        "expected_rewards": None,
        "propensity": 0.7,
        "context": {"Shop.hour": 9, "sunny": True, "temperature": 20.5},
        "reward": 2.5,
        "reward_family": None,
        "reward_time": None,
        "policy": None,
        "version": "model-3",
        "ranking_id": None,
        "ranking_place": None,
    }


def test_arms_go_by_position_tag_or_name():
    assert read(LINE).frame["arm"].to_list() == ["2"]
    assert read(LINE).frame["eligible"].to_list() == [["1", "2", "3"]]
    assert read(LINE, arms="_tag").frame["arm"].to_list() == ["g"]
    assert read(LINE, arms="Item.price").frame["eligible"].to_list() == [[3, 4, 5]]


def test_a_task_may_be_the_same_everywhere():
    log = read(LINE, task="=all")

    assert log.tasks == ["all"]
    assert "Shop.id" in log.features


def test_a_cost_of_zero_is_a_reward_of_zero():
    log = read(without(_label_cost=0))

    assert str(log.frame["reward"][0]) == "0.0"


def test_without_a_label_the_first_of_the_ranking_was_taken():
    log = read(without("_label_cost", "_label_probability", "_label_Action", "_labelIndex"))

    assert log.frame["arm"].to_list() == ["2"]
    assert log.frame["propensity"].to_list() == [0.7]
    assert log.frame["reward"].to_list() == [None]


@pytest.mark.parametrize("absent", ["_label_Action", "_labelIndex"])
def test_either_place_of_the_label_is_enough(absent):
    assert read(without(absent, a=[1, 2, 3], p=[0.2, 0.7, 0.1])).frame["arm"].to_list() == ["2"]


def test_of_a_ranking_that_was_cut_short_the_rest_is_unknown():
    log = read(without(a=[2], p=[0.7]))

    assert log.frame["eligible"].to_list() == [["1", "2", "3"]]
    assert log.frame["probabilities"].to_list() == [None]
    assert log.frame["propensity"].to_list() == [0.7]


def test_nested_namespaces_and_lists_are_called_by_their_path():
    context = {"id": "s", "a": {"b": {"c": 1}}, "v": [0.5, 2], "w": [{"x": "y"}], "gone": None, "_multi": ACTIONS}

    log = read(without(c=context), task="id")

    assert log.contexts.row(0, named=True) == {"a.b.c": 1, "v.0": 0.5, "v.1": 2, "w.0.x": "y", "gone": None}


def test_rewards_without_decisions_are_left_out_and_told():
    log = read({"RewardValue": 1.0, "EventId": "late", "EnqueuedTimeUtc": "2026-01-31T12:00:00Z"}, LINE,
               {"o": [{"v": 1}], "EventId": "other"}, without("a", "_label_Action", "_labelIndex", "p"))  # fmt: skip

    assert log.n_rows == 1
    (note,) = log.notes
    assert (note.code, note.severity, note.rows, note.example) == ("dsjson-dangling", "note", 3, "line 1")
    assert note in check_log(log)


def test_what_was_not_acted_on_has_no_reward():
    log = read(LINE, without(EventId="event-2", _skipLearn=True), without(EventId="event-3", _skipLearn=False))

    assert log.frame["reward"].to_list() == [2.5, None, 2.5]
    assert [(note.code, note.rows, note.example) for note in log.notes] == [("dsjson-skipped", 1, "line 2")]


def test_thinned_logs_have_weights_that_matter_if_they_differ():
    (same,) = read(without(pdrop=0.5), without(pdrop=0.5)).notes
    (different,) = read(LINE, without(pdrop=0.5)).notes

    assert (same.code, same.severity, same.rows) == ("dsjson-dropped", "note", 2)
    assert (different.code, different.severity, different.rows) == ("dsjson-dropped", "warning", 1)
    assert read(without(pdrop=0)).notes == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (without(c=3), "c must be an object, but 3 came"),
        (without(c={"Shop": {"id": "x"}}), "_multi must be a list of actions, but None came"),
        (without(c={"Shop": {"id": "x"}, "_multi": []}), r"_multi must be a list of actions, but \[\] came"),
        (without(c={"_slots": [], "_multi": ACTIONS}), "this is a decision with several slots"),
        (without(c={"_multi": ACTIONS}), "the shared context must have text or a whole number at 'Shop.id', but None"),
        (
            without(c={"Shop": {"id": 1.5}, "_multi": ACTIONS}),
            "the shared context must have .* at 'Shop.id', but 1.5 came",
        ),
        (without(a=[0, 1, 2]), r"a must list different actions, counted from 1 to 3, but \[0, 1, 2\] came"),
        (without(a=[1, 1, 2]), "a must list different actions"),
        (without(a=[1, 4]), "a must list different actions, counted from 1 to 3"),
        (without(a="x"), "a must list different actions"),
        (without(p=[0.5]), r"p must list a probability for each of 3 actions of a, but \[0.5\] came"),
        (without(p=[0.5, "x", 0.1]), "a probability of p must be a number, but 'x' came"),
        (without(_labelIndex=0), "_label_Action counts from 1 and _labelIndex from 0, but 2 and 0 came"),
        (without("_labelIndex", _label_Action=4), "the label is of action 4, but the actions are 1 to 3"),
        (without(_label_Action="2"), "_label_Action must be a whole number, but '2' came"),
        (without(_label_cost="x"), "_label_cost must be a number, but 'x' came"),
        (without(pdrop=1), "pdrop must be at least 0 and below 1, but 1 came"),
        (without(Timestamp="soon"), "time is 'soon'"),
        (without(EventId=7), "decision_id must be text"),
    ],
)
def test_a_bad_line_is_named(line, words):
    with pytest.raises(DataFileError, match=f"^dsjson, line 2: {words}"):
        read({"RewardValue": 1}, line)


def test_a_file_and_its_bad_lines(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(f"{json.dumps(LINE)}\n\n{json.dumps(LINE)}\n")
    assert from_dsjson(path, task="Shop.id").n_rows == 2
    path.write_text(f"{json.dumps(LINE)}\n\n{{")
    with pytest.raises(DataFileError, match=r"log\.json, line 3: this is not JSON"):
        from_dsjson(str(path), task="Shop.id")


def test_the_task_must_be_said():
    with pytest.raises(InvalidValue, match="task must say where the task is found"):
        read(LINE, task="")


def test_its_keys_tell_it_from_a_log():
    assert looks_like_dsjson(json.dumps(LINE))
    assert looks_like_dsjson('{"RewardValue": 1}')
    assert not looks_like_dsjson('{"task": "a", "arm": "x"}')
    assert not looks_like_dsjson("{")
