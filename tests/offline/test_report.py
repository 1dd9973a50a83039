import json
from dataclasses import asdict

import pytest
from numpy.testing import assert_array_equal

from posse.errors import InvalidValue, ResultFileError
from posse.offline import Always, Evaluation, EvaluationRefused, Limits, Logged, Replay, Uniform, evaluate

QUICK = {"estimators": ("ips", "snips", "dr", "switch-dr")}


@pytest.fixture
def evaluation(make):
    log = make(floor=0.8).log
    targets = [Uniform(), Always("red"), Replay("random")]
    return evaluate(log, targets, against=Logged(), groups=["side"], **QUICK)


@pytest.fixture
def refused(make):
    return evaluate(make().log, Uniform(), limits=Limits(min_effective_rows=1e6), **QUICK)


def test_what_was_saved_is_what_is_loaded(evaluation, refused, make, tmp_path):
    few = evaluate(make(n_tasks=5).log, Uniform(), **QUICK)
    nothing = make()
    nothing.changes = {"propensity": None, "probabilities": None}
    for number, one in enumerate((evaluation, refused, few, evaluate(nothing.log, Uniform()))):
        path = tmp_path / f"{number}.json"
        one.save(path)
        again = Evaluation.load(path)

        assert str(again) == str(one)
        for name in ("table", "differences", "by_task", "by_group"):
            assert getattr(again, name).equals(getattr(one, name))
        assert [asdict(target) for target in again.targets] == [asdict(target) for target in one.targets]
        assert again.settings == one.settings
        assert_array_equal(list(asdict(again.on_policy).values()), list(asdict(one.on_policy).values()))
        again.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_the_file_is_plain_json(evaluation, tmp_path):
    evaluation.save(tmp_path / "one.json")
    content = json.loads((tmp_path / "one.json").read_text())

    assert content["rows"] == 480
    assert content["targets"][0]["name"] == "uniform"
    assert content["targets"][0]["switch_threshold"] is not None
    assert content["table"][0]["estimator"] == "ips"


def test_one_estimate_can_be_asked_for(evaluation):
    row = evaluation.table.filter(
        (evaluation.table["target"] == "always red") & (evaluation.table["estimator"] == "dr")
    )
    found = evaluation.estimate("always red")

    assert (found.value, found.low, found.high) == row.select("value", "low", "high").row(0)
    assert evaluation.estimate().value == evaluation.table["value"][2]
    with pytest.raises(InvalidValue, match="no target 'mine'"):
        evaluation.estimate("mine")
    with pytest.raises(InvalidValue, match="no estimate 'dm'"):
        evaluation.estimate(estimator="dm")


def test_a_refusal_is_never_a_number(refused):
    assert refused.refused
    assert refused.table.is_empty()
    assert refused.by_task.is_empty()
    with pytest.raises(EvaluationRefused, match=r"480 rows are worth .* What helps: a longer log"):
        refused.estimate()


@pytest.mark.parametrize("content", ["{}", "[]", "no json", '{"format": 99}', '{"format": 1, "version": "0"}'])
def test_other_files_are_one_clear_error(tmp_path, content):
    (tmp_path / "odd.json").write_text(content)

    with pytest.raises(ResultFileError, match=r"odd\.json"):
        Evaluation.load(tmp_path / "odd.json")


def test_places_that_are_not_there_are_one_clear_error(evaluation, tmp_path):
    with pytest.raises(ResultFileError, match="cannot write"):
        evaluation.save(tmp_path / "nowhere" / "one.json")
    with pytest.raises(ResultFileError, match="cannot read"):
        Evaluation.load(tmp_path / "nowhere.json")
