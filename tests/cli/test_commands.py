"""The list of commands: quick to show, and true to the commands."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from posse.cli.commands import COMMANDS, load
from posse.cli.main import app

HEAVY = ("numba", "numpy", "scipy", "polars", "pandas", "matplotlib", "fastapi", "posse.policies", "posse.fleet")


def test_the_help_lists_every_command_in_its_group():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output

    for name, home in COMMANDS.items():
        assert f" {name} " in shown
        assert home.panel in shown
    assert "<bool>" not in shown


def test_the_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from posse.cli.main import app\n"
        "try:\n    app(['--help'])\n"
        "except SystemExit as stop:\n    assert not stop.code\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "Decide and learn" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_the_list_says_is_what_the_command_says(name):
    said = " ".join((load(name).help or "").split("\n\n")[0].split())

    assert said == COMMANDS[name].says


@pytest.mark.parametrize("arguments", [["fit"], ["bench", "step"], ["log", "check"], ["keys"]])
def test_flags_have_no_type(arguments):
    shown = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "200"})

    assert shown.exit_code == 0
    assert "<bool>" not in shown.output
    assert "--install-completion" not in shown.output


def test_a_misspelt_command_is_answered_with_the_nearest():
    shown = CliRunner().invoke(app, ["evalute"], env={"COLUMNS": "200"})

    assert shown.exit_code == 2
    assert "Did you mean 'evaluate'" in shown.output


def test_options_have_one_meaning_everywhere():
    import typer

    from posse.cli.commands import COMMANDS, load

    def commands(command, name):
        below = getattr(command, "commands", {})
        yield from (
            ((name, command),)
            if not below
            else (pair for part, inner in below.items() for pair in commands(inner, f"{name} {part}"))
        )

    found = [pair for name in COMMANDS for pair in commands(load(name), name)]
    assert len(found) > 20
    for name, command in found:
        for option in command.get_params(typer.Context(command)):
            if "--json" in option.opts:
                assert option.is_flag, name
            if "--task" in option.opts:
                assert name in ("inspect", "decide"), f"{name}: --task names a task; a column is --task-column"


def test_the_help_lists_the_exit_statuses():
    from typer.testing import CliRunner

    from posse.cli.main import app

    said = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    for words in ("0 done", "1 a check failed", "2 refused", "130 stopped"):
        assert words in said


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"paper", "simulate", "reproduce", "data", "bench"}))
def test_the_help_is_in_plain_words(name):
    below = getattr(load(name), "commands", {})
    for arguments in ([name], *([name, part] for part in below)):
        shown = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "400"}).output
        for words in ("the answer is no", "counts once", "good for nothing", "Of the fleet", "are made", "posse["):
            assert words not in shown, arguments
        assert "Look" not in CliRunner().invoke(app, ["--help"]).output.split()
