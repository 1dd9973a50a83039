import io
import time

import pytest
import rich.console

from posse.cli.stages import stages


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that keeps what is written to it."""
    screen = io.StringIO()
    real = rich.console.Console
    monkeypatch.setattr(rich.console, "Console", lambda **settings: real(file=screen, force_terminal=True, width=80))
    return screen


def test_a_line_per_stage_where_there_is_no_terminal(capsys):
    with stages(2) as begin:
        begin("one")
        begin("two")
    with stages() as begin:
        begin("any")

    assert capsys.readouterr().err.splitlines() == ["one (1 of 2)", "two (2 of 2)", "any"]


def test_a_terminal_shows_what_runs_and_how_much_is_done(terminal):
    with stages(3) as begin:
        begin("one")
        begin("two")
        assert "two" in terminal.getvalue()
        assert "1/3" in terminal.getvalue()


def test_a_terminal_is_drawn_on_only_when_a_stage_begins(terminal):
    with stages() as begin:
        begin("one")
        before = terminal.getvalue()
        time.sleep(0.3)  # a display that moves by itself draws ten times a second
        assert terminal.getvalue() == before
