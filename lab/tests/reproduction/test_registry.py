"""The experiments: which there are, that each is one file that explains itself, and what their runs are called."""

import re

import pytest

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue
from posse_lab.reproduction.experiment import Experiment, Measured, Simulated
from posse_lab.reproduction.lineup import lineup
from posse_lab.reproduction.registry import EXPERIMENTS, chosen

NAMES = [
    "balanced", "data-poor", "sparse", "contexts", "tasks", "arms", "features", "oracle-regret",
    "sarcos", "activity", "movielens", "letter", "coverage", "bounds", "ablation",
]  # fmt: skip
FROM_DATA = ("sarcos", "activity", "movielens", "letter")


def test_the_names_in_the_order_of_the_report():
    assert list(EXPERIMENTS) == NAMES
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_each_explains_itself(experiment):
    assert isinstance(experiment, Experiment)
    for text in (experiment.title, experiment.figure, experiment.says, *experiment.choices):
        assert text.strip() == text
        assert text
        assert "  " not in text  # pieces of a sentence are joined by one space
    assert len(experiment.choices) >= 1
    assert experiment.says.endswith(".")
    assert all(choice.endswith(".") for choice in experiment.choices)


def test_each_figure_and_theorem_has_its_experiment():
    said = " ".join(experiment.figure for experiment in EXPERIMENTS.values())

    for part in ("1 (a)", "1 (b)", "2", "3 (a)", "3 (b)", "3 (c)", "3 (d)", "4 (a)", "4 (b)", "4 (c)", "4 (d)", "5"):
        assert re.search(rf"Figure {re.escape(part)}(?! \()", said), part
    for number in "123":
        assert re.search(rf"Theorems? [0-9a-z ]*{number}", said), number


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FROM_DATA])
@pytest.mark.parametrize("quick", [False, True], ids=["full", "quick"])
def test_runs_have_keys_of_their_own_that_are_file_names(name, quick):
    runs = EXPERIMENTS[name].runs(EXPERIMENTS[name].sized(quick=quick), None)
    keys = [run.key for run in runs]

    assert keys
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]*", key) for key in keys)
    assert all(isinstance(run, Simulated | Measured) for run in runs)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FROM_DATA])
def test_every_setting_reaches_a_run(name):
    """Changing any one setting changes what some run records about itself, or which runs there are."""
    experiment = EXPERIMENTS[name]
    before = described(experiment.runs(experiment.quick, None))
    for setting in experiment.setting_names:
        old = getattr(experiment.quick, setting)
        new = tuple(value + 1 for value in old) if isinstance(old, tuple) else old + 1
        if (name, setting) == ("sparse", "jumps"):
            new = tuple(value - 1 for value in old)
        changed = experiment.sized(quick=True, overrides={setting: str(list(new) if isinstance(new, tuple) else new)})
        assert described(experiment.runs(changed, None)) != before, setting


def described(runs):
    return [
        (run.key, run.settings)
        if isinstance(run, Measured)
        else (run.key, run.world.settings(), run.horizon, sorted(run.policies))
        for run in runs
    ]


def test_the_papers_sizes_are_the_default():
    """N = 10, K = 5, d = 3 in Figure 1; 30, 16, 10 and 30 tasks in Figure 4."""
    for name in ("balanced", "data-poor", "contexts", "oracle-regret", "coverage", "bounds"):
        settings = EXPERIMENTS[name].settings
        assert (settings.n_tasks, settings.n_arms, settings.n_features) == (10, 5, 3)
    assert [EXPERIMENTS[name].settings.n_tasks for name in FROM_DATA] == [30, 16, 10, 30]
    assert EXPERIMENTS["movielens"].settings.n_factors == EXPERIMENTS["movielens"].settings.n_arms == 10
    assert EXPERIMENTS["activity"].settings.n_components == 8


def test_every_world_has_the_whole_lineup():
    for name in ("balanced", "data-poor", "sparse", "contexts", "tasks", "arms", "features", "oracle-regret"):
        for run in EXPERIMENTS[name].runs(EXPERIMENTS[name].quick, None):
            assert isinstance(run.world, SyntheticWorld)
            assert set(lineup()) <= set(run.policies)


def test_only_the_appendix_asks_every_task():
    for name in NAMES:
        if name not in FROM_DATA:
            for run in EXPERIMENTS[name].runs(EXPERIMENTS[name].quick, None):
                assert getattr(run, "appendix", False) == (name == "oracle-regret")


def test_choosing_by_name_keeps_the_order_of_the_report():
    assert [each.name for each in chosen(["tasks", "balanced", "tasks"])] == ["balanced", "tasks"]
    assert [each.name for each in chosen(["all"])] == NAMES
    assert [each.name for each in chosen(["letter", "all"])] == NAMES


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["balance"], "no experiment 'balance'; did you mean 'balanced'"),
        (["tasks", "leter"], "no experiment 'leter'; did you mean 'letter'"),
        (["zzz"], r"no experiment 'zzz'\. They are balanced, data-poor"),
        (["data_poor"], "did you mean 'data-poor'"),
    ],
)
def test_a_wrong_name_lists_them_all(names, words):
    with pytest.raises(InvalidValue, match=words) as caught:
        chosen(names)
    for name in (*NAMES, "all"):
        assert name in str(caught.value)
