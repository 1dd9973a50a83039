import numpy as np
import polars as pl
import pytest

from posse.errors import InvalidValue, NotFinite, ShapeError, UnknownArm
from posse.logs import Log, from_obp, to_obp

RNG = np.random.default_rng(3)
FEEDBACK = {
    "n_rounds": 4,
    "n_actions": 3,
    "context": np.column_stack([RNG.normal(size=4), [5.0, 6.0, 5.0, 6.0]]),
    "action": np.array([0, 2, 1, 1]),
    "position": None,
    "reward": np.array([1.0, 0.0, 0.5, 0.25]),
    "pscore": np.array([0.5, 0.3, 0.25, 0.2]),
    "action_context": np.eye(3),
    "expected_reward": np.ones((4, 3)),
}
PI_B = np.array([[0.5, 0.2, 0.3], [0.5, 0.2, 0.3], [0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])


def test_a_round_is_a_decision():
    log = from_obp(FEEDBACK)

    assert log.tasks == ["all"]
    assert log.frame["arm"].to_list() == [0, 2, 1, 1]
    assert log.frame["eligible"].to_list() == [[0, 1, 2]] * 4
    assert log.frame["propensity"].to_list() == [0.5, 0.3, 0.25, 0.2]
    assert log.frame["probabilities"].null_count() == 4
    assert log.features == ["x0", "x1"]
    np.testing.assert_array_equal(log.contexts.to_numpy(), FEEDBACK["context"])


def test_names_can_be_given():
    log = from_obp(FEEDBACK, features=["age", "hour"], arms=["r", "g", "b"], task=["s", "t", "s", "t"])

    assert log.frame["arm"].to_list() == ["r", "b", "g", "g"]
    assert log.arms == ["b", "g", "r"]
    assert log.frame["task"].to_list() == ["s", "t", "s", "t"]
    assert log.features == ["age", "hour"]


@pytest.mark.parametrize(("features", "names"), [(None, ["x0"]), (["age"], ["age"]), (["age", "store"], ["age"])])
def test_the_task_may_be_a_column_of_the_context(features, names):
    log = from_obp(FEEDBACK, task=1, features=features)

    assert log.frame["task"].to_list() == [5, 6, 5, 6]
    assert log.features == names


@pytest.mark.parametrize("table", [PI_B, PI_B[:, :, None]])
def test_the_policy_gives_probabilities_and_propensities(table):
    log = from_obp({**FEEDBACK, "pscore": None, "pi_b": table})

    assert log.frame["probabilities"].to_list() == PI_B.tolist()
    assert log.frame["propensity"].to_list() == [0.5, 0.3, 0.25, 0.2]


def test_positions_choose_the_policy_and_become_a_feature():
    wrong = np.full((4, 3), 1 / 3)
    position = np.array([0, 1, 0, 1])
    pi_b = np.stack([PI_B, wrong], axis=2)
    pi_b[[1, 3], :, 1], pi_b[[1, 3], :, 0] = PI_B[[1, 3]], wrong[[1, 3]]

    log = from_obp({**FEEDBACK, "position": position, "pi_b": pi_b})

    assert log.frame["probabilities"].to_list() == PI_B.tolist()
    assert log.contexts["position"].to_list() == [0, 1, 0, 1]
    assert "position" not in from_obp({**FEEDBACK, "position": np.zeros(4, dtype=int)}).features


def test_a_log_as_feedback():
    log = Log(
        {
            "task": ["b", "a"],
            "arm": ["y", "z"],
            "eligible": [["y", "x"], ["x", "y", "z"]],
            "probabilities": [[0.75, 0.25], [0.5, 0.125, 0.375]],
            "propensity": [0.75, 0.375],
            "context": [{"n": 2, "f": 0.5, "b": True}, {"n": 3, "f": 1.5, "b": False}],
            "reward": [1.0, 0.0],
        }
    )

    feedback = to_obp(log)

    assert feedback["n_rounds"] == 2
    assert feedback["n_actions"] == 3
    np.testing.assert_array_equal(feedback["context"], [[2.0, 0.5, 1.0], [3.0, 1.5, 0.0]])
    np.testing.assert_array_equal(feedback["action"], [1, 2])
    np.testing.assert_array_equal(feedback["pscore"], [0.75, 0.375])
    np.testing.assert_array_equal(feedback["pi_b"][:, :, 0], [[0.25, 0.75, 0.0], [0.5, 0.125, 0.375]])
    assert feedback["position"] is None
    assert feedback["task"].tolist() == ["b", "a"]
    assert feedback["arms"].tolist() == ["x", "y", "z"]
    assert feedback["features"].tolist() == ["n", "f", "b"]


def test_feedback_comes_back(make_log):
    log = make_log(n_rows=80, missing=0)
    log = Log(log.frame.with_columns(context=pl.struct(log.contexts["age"], log.contexts["hour"].cast(float))))
    back = from_obp(to_obp(log))

    kept = ["task", "arm", "propensity", "context", "reward"]
    assert back.frame.select(kept).equals(log.frame.select(kept))
    # Arms that were not eligible are among those of the feedback, with probability 0.
    for row in range(log.n_rows):
        given = dict(zip(log.frame["eligible"][row], log.frame["probabilities"][row], strict=True))
        assert back.frame["probabilities"][row].to_list() == [given.get(arm, 0.0) for arm in log.arms]


def test_feedback_without_propensities_or_features():
    log = Log({"task": [1, 2], "arm": [0, 1], "reward": [1.0, 2.0]})

    feedback = to_obp(log)

    assert feedback["pscore"] is None
    assert feedback["pi_b"] is None
    assert feedback["context"].shape == (2, 0)
    assert from_obp(feedback).frame.select("task", "arm", "reward").equals(log.frame.select("task", "arm", "reward"))


@pytest.mark.parametrize(
    ("changes", "settings", "error", "words"),
    [
        ({"reward": [1.0]}, {}, ShapeError, r"reward must have shape \(4,\), but its shape is \(1,\)"),
        ({"reward": [1, 2, 3, np.nan]}, {}, NotFinite, "reward to be finite"),
        ({"action": [0.0, 1.0, 2.0, 0.0]}, {}, InvalidValue, "action to be whole numbers"),
        ({"action": [0, 1, 2, 3]}, {}, UnknownArm, "action 3 at row 3 is unknown; the actions are 0 to 2"),
        ({"position": [0, -1, 0, 0]}, {}, InvalidValue, "position must be whole numbers of at least 0, but -1"),
        ({"context": np.zeros(4)}, {}, ShapeError, r"context must have shape \(4, n_features\)"),
        ({"pi_b": np.ones((4, 2))}, {}, ShapeError, r"pi_b must have shape \(4, 3, n_positions\)"),
        ({"pi_b": np.ones((4, 3, 2))}, {}, InvalidValue, "pi_b has 2 positions, but position does not say"),
        ({"n_actions": 0}, {}, InvalidValue, "n_actions to be at least 1"),
        ({}, {"arms": ["r", "r", "g"]}, ShapeError, "arms must be 3 different names, but 3 came, 2 different"),
        ({}, {"features": ["age"]}, ShapeError, "features must be 2 different names, but 1 came"),
        ({}, {"task": ["a"]}, ShapeError, "task must have 4 labels, one per round, but 1 came"),
        ({}, {"task": 2}, InvalidValue, "task must be a column of the context, 0 to 1, but 2 came"),
        ({}, {"task": 0}, InvalidValue, "column 0 of the context cannot be the task"),
        ({"position": [0, 1, 0, 1]}, {"features": ["position", "x"]}, InvalidValue, "a feature is called 'position'"),
    ],
)
def test_bad_feedback_is_one_clear_error(changes, settings, error, words):
    with pytest.raises(error, match=words):
        from_obp({**FEEDBACK, **changes}, **settings)


def test_keys_that_are_needed_are_named():
    with pytest.raises(
        InvalidValue, match="feedback needs 'n_rounds', 'n_actions', 'context', 'action'; it has 'reward'"
    ):
        from_obp({"reward": [1.0]})


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"reward": [1.0, None]}, r"needs every reward; pass log.with_rewards\(\)"),
        ({"context": [{"c": "Rome"}, {"c": "Pisa"}]}, "feature 'c' is text"),
        ({"context": [{"n": 1.0}, {"n": None}]}, "feature 'n' has gaps"),
        ({"propensity": [1.0, None]}, "some propensities are known and others not"),
        ({"probabilities": [[1.0], [1.0, 0.0]]}, "probabilities must have as many entries as eligible"),
    ],
)
def test_logs_that_feedback_cannot_hold(columns, words):
    with pytest.raises(InvalidValue, match=words):
        to_obp(Log({"task": [1, 1], "arm": [1, 2], "reward": [1.0, 2.0], **columns}))
