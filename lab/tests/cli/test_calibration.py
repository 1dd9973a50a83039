import json

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue


def run(*arguments):
    fixed = ["lab", "bench", "calibration", "--seeds", "2", "--workers", "1"]
    return CliRunner().invoke(app, [*fixed, *map(str, arguments)], catch_exceptions=False)


def test_files_hold_what_was_shown(tmp_path):
    out, markdown = tmp_path / "new" / "folder", tmp_path / "table.md"
    done = run("--only", "cannot-know", "--first-seed", 5, "--out", out, "--markdown", markdown)

    assert "one reward: width of the interval / truth" in done.stdout
    assert "rare-clicks" not in done.stdout
    assert "cannot-know: 2 seeds done (2 of 2)" in done.stderr
    said = json.loads((out / "calibration.json").read_text())
    assert (said["benchmark"], said["seeds"], said["first_seed"], len(said["findings"])) == ("calibration", 2, 5, 8)
    assert "one reward: width of the interval / truth" in markdown.read_text()
    assert f"wrote {markdown}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "clicks"], "did you mean 'rare-clicks'"),
        (["--only", "offsets", "--seeds", "0"], "seeds to be at least 1"),
        (["--only", "offsets", "--markdown", "no/such/folder/table.md"], "needs a folder that exists"),
    ],
)
def test_bad_input_is_one_clear_error(arguments, words):
    with pytest.raises(InvalidValue, match=words):
        run(*arguments)


def test_the_command_explains_itself():
    runner = CliRunner()

    assert "calibration" in runner.invoke(app, ["lab", "bench", "--help"]).stdout
    for option in ("--seeds", "--first-seed", "--workers", "--only", "--out", "--markdown"):
        assert option in runner.invoke(app, ["lab", "bench", "calibration", "--help"], env={"COLUMNS": "160"}).stdout
