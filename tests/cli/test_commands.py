"""The list of commands: quick to show, and true to the commands."""

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from posse.cli.commands import COMMANDS, commands_below
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

    assert "Learn from data" in done.stdout
    assert done.stderr.strip() == "[]"


def below(command, name="posse"):
    """Yield every command, and those below it, with its sentence in the list of its group if it has one."""
    for part, inner in commands_below(command).items():
        listed = command.table[part].says if hasattr(command, "table") else None
        yield f"{name} {part}", inner, listed
        yield from below(inner, f"{name} {part}")


def test_what_a_list_says_is_what_the_command_says():
    for name, command, listed in below(typer.main.get_command(app)):
        said = " ".join((command.help or "").split("\n\n")[0].split())
        assert said, name
        assert listed in (None, said), name


def test_a_command_of_the_laboratory_says_what_to_install_where_it_is_not(monkeypatch):
    monkeypatch.setattr("posse.cli.commands.entry_points", lambda **_: [])
    shown = CliRunner().invoke(app, ["lab", "bench"], env={"COLUMNS": "200"})

    assert shown.exit_code == 2
    assert "pip install ./lab" in shown.output


@pytest.mark.parametrize("arguments", [["fit"], ["lab", "bench", "step"], ["log", "check"], ["service", "keys"]])
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
    leaves = [pair for pair in below(typer.main.get_command(app)) if not commands_below(pair[1])]
    assert len(leaves) > 20
    for name, command, _ in leaves:
        for option in command.get_params(typer.Context(command)):
            if "--json" in option.opts:
                assert option.is_flag, name
            if "--task" in option.opts:
                assert name == "posse inspect", f"{name}: --task names a task; a column is --task-column"


def test_the_help_lists_the_exit_statuses():
    from typer.testing import CliRunner

    from posse.cli.main import app

    said = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    for words in ("0 done", "1 a check failed", "2 refused", "130 stopped"):
        assert words in said
