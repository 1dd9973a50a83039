"""Settings from the command line, and files of both kinds."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import polars as pl
import pytest

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, ResultFileError
from posse.simulation import SimulationResult
from posse.simulation.files import write_result
from posse_lab.reproduction.experiment import Experiment, Measured, Section, Simulated, kind_of_result, load_run
from posse_lab.reproduction.registry import EXPERIMENTS
from posse_lab.reproduction.seed_table import SeedTable


@dataclass(frozen=True)
class Settings:
    count: int = 3
    share: float = 0.5
    verify: bool = True
    sizes: tuple[int, ...] = (2, 4)
    scales: tuple[float, ...] = (0.1, 1.0)
    word: str = "some"


TOY = Experiment(
    name="toy",
    title="Toy",
    figure="none",
    says="Nothing.",
    choices=(),
    settings=Settings(),
    quick=Settings(count=1, sizes=(2,)),
    runs=lambda settings, data: [],
    section=lambda results: Section(found=(), figures=()),
)


def test_without_overrides_settings_are_as_they_stand():
    assert TOY.sized() == Settings()
    assert TOY.sized(quick=True) == Settings(count=1, sizes=(2,))
    assert TOY.sized(overrides={}) == Settings()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "7", 7),
        ("count", " 7", 7),
        ("count", "-7", -7),
        ("share", "0.25", 0.25),
        ("share", "1e-3", 0.001),
        ("share", "2", 2),
        ("verify", "false", False),
        ("verify", "true", True),
        ("sizes", "[5, 6, 7]", (5, 6, 7)),
        ("sizes", "5", (5,)),
        ("scales", "[0.5, 2]", (0.5, 2)),
        ("scales", "3", (3,)),
        ("word", "other", "other"),
        ("word", '"quoted"', "quoted"),
    ],
)
def test_a_text_becomes_a_value_of_the_type_that_was_there(name, text, value):
    made = TOY.sized(overrides={name: text})

    assert getattr(made, name) == value
    assert type(getattr(made, name)) is type(value)
    assert made == replace(Settings(), **{name: value})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "2.5"),
        ("count", "7.0"),
        ("count", "many"),
        ("count", "true"),
        ("count", "[1]"),
        ("count", "null"),
        ("count", ""),
        ("share", "half"),
        ("share", "false"),
        ("share", "[0.5]"),
        ("verify", "0"),
        ("verify", "no"),
        ("verify", "null"),
        ("sizes", "[]"),
        ("sizes", "[1.5]"),
        ("sizes", "1,2"),
        ("sizes", "[1, true]"),
        ("sizes", "[[1]]"),
        ("scales", "[0.1, null]"),
        ("scales", '["a"]'),
        ("word", "3"),
    ],
)
def test_a_text_of_another_type_is_refused_with_an_example(name, text):
    with pytest.raises(InvalidValue) as caught:
        TOY.sized(overrides={name: text})
    said = str(caught.value)
    assert repr(name) in said
    assert repr(text) in said
    assert json.dumps(getattr(Settings(), name)) in said


def test_overrides_change_the_quick_settings_too():
    made = TOY.sized(quick=True, overrides={"share": "0.9"})

    assert made == Settings(count=1, sizes=(2,), share=0.9)


def test_names_are_those_of_the_dataclass():
    assert TOY.setting_names == {"count", "share", "verify", "sizes", "scales", "word"}


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
@pytest.mark.parametrize("quick", [False, True], ids=["full", "quick"])
def test_every_setting_of_every_experiment_can_be_set(experiment, quick):
    """To its own value, as it is written in JSON, and numbers to others."""
    base = experiment.quick if quick else experiment.settings
    for name, value in asdict(base).items():
        assert experiment.sized(quick=quick, overrides={name: json.dumps(value)}) == base
        if isinstance(value, bool):
            changed = not value
        elif isinstance(value, tuple):
            changed = (value[0] + 1, *value)
        else:
            changed = value + 1
        made = experiment.sized(quick=quick, overrides={name: json.dumps(changed)})
        assert made == replace(base, **{name: changed})
        assert made != base


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_settings_are_plain_values_of_the_declared_kinds(experiment):
    for field in fields(experiment.settings):
        value = getattr(experiment.settings, field.name)
        kinds = {type(each).__name__ for each in (value if isinstance(value, tuple) else (value,))}
        assert len(kinds) == 1
        assert field.type == (f"tuple[{kinds.pop()}, ...]" if isinstance(value, tuple) else kinds.pop())


# ---- runs and their files

WORLD = SyntheticWorld(n_tasks=2, n_arms=2, n_features=1)


def quiet(seeds):
    pass


def test_files_of_both_kinds_are_recognised(tmp_path):
    simulated, measured = tmp_path / "simulated.parquet", tmp_path / "measured.parquet"
    Simulated(key="a", world=WORLD, policies={"x": "random"}, horizon=9, checkpoints=3).run(simulated, 2, 1, quiet)
    Measured(key="b", measure=lambda seed: [{"value": seed}], settings={"a": 1}).run(measured, 3, 1, quiet)

    first, second = load_run(simulated), load_run(measured)
    assert isinstance(first, SimulationResult)
    assert (first.seeds, first.policies, first.steps.tolist()) == ([0, 1], ["x"], [3, 6, 9])
    assert not first.settings["appendix"]
    assert isinstance(second, SeedTable)
    assert (second.seeds, second.settings) == ([0, 1, 2], {"a": 1})


def test_a_run_with_the_regret_of_the_appendix(tmp_path):
    file = tmp_path / "run.parquet"
    Simulated(key="a", world=WORLD, policies={"x": "random"}, horizon=9, appendix=True).run(file, 1, 1, quiet)

    assert "expected_curve" in load_run(file).table.columns


def test_runs_tell_their_progress_and_continue(tmp_path):
    file, told = tmp_path / "run.parquet", []
    run = Simulated(key="a", world=WORLD, policies={"x": "random"}, horizon=9)
    run.run(file, 2, 1, told.append)
    run.run(file, 3, 1, told.append)

    assert told == [0, 1, 1, 2, 1]


@pytest.mark.parametrize("content", [b"", b"no table"])
def test_a_file_of_neither_kind(tmp_path, content):
    file = tmp_path / "odd.parquet"
    file.write_bytes(content)
    with pytest.raises(ResultFileError, match=r"cannot read .*odd\.parquet"):
        load_run(file)


def test_no_file():
    with pytest.raises(ResultFileError, match="no result file"):
        load_run(Path("nowhere.parquet"))


def test_a_damaged_measurement_is_not_said_to_be_of_another_kind(tmp_path):
    file = tmp_path / "measured.parquet"
    Measured(key="b", measure=lambda seed: [{"value": seed}], settings={}).run(file, 1, 1, quiet)
    kept = SeedTable.load(file)
    SeedTable(kept.table.rename({"seed": "saat"}), kept.settings, kept.version).save(file)

    with pytest.raises(ResultFileError, match="columns seed are missing"):
        load_run(file)


def test_the_kind_of_a_file_is_known_without_reading_it(tmp_path):
    file = tmp_path / "result.parquet"
    table = pl.DataFrame({"seed": [0, 1]})
    assert kind_of_result(file) == ""
    write_result(file, table, {"posse": "toy/1"})
    assert kind_of_result(file) == "toy/1"
    table.write_parquet(file)
    assert kind_of_result(file) == ""
    file.write_bytes(b"PAR1")
    assert kind_of_result(file) == ""
