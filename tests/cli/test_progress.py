import io
import time

import pytest
import rich.console

from posse.cli import progress
from posse.cli.progress import long_stages, many_runs, preparing


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that keeps what is written to it."""
    screen = io.StringIO()
    real = rich.console.Console
    monkeypatch.setattr(
        rich.console, "Console", lambda **settings: real(file=screen, force_terminal=True, width=100, no_color=True)
    )
    return screen


def test_elsewhere_a_line_per_run_says_how_far_it_is(capsys):
    with many_runs(10) as (begin, advance):
        begin("first")
        advance(3)
        advance(1)
        advance(1)
        begin("second world")
        advance(0)
        assert capsys.readouterr().err == "first: 5 seeds done (5 of 10)\n"
        advance(1)
        advance(4)
    assert capsys.readouterr().err == "second world: 5 seeds done (10 of 10)\n"


def test_nothing_is_said_where_nothing_began(capsys):
    with many_runs(0):
        pass
    assert capsys.readouterr() == ("", "")


def test_lines_go_to_standard_error(capsys):
    with many_runs(1) as (begin, advance):
        begin("only")
        advance(1)
    assert capsys.readouterr() == ("", "only: 1 seeds done (1 of 1)\n")


def stopped(error):
    """Two runs, the second of which is stopped."""
    with many_runs(8) as (begin, advance):
        begin("a")
        advance(4)
        begin("b")
        advance(2)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_run_that_is_stopped_says_how_far_it_came(capsys, error):
    with pytest.raises(error):
        stopped(error)
    assert capsys.readouterr().err.splitlines() == ["a: 4 seeds done (4 of 8)", "b: 2 seeds done (6 of 8)"]


def test_a_terminal_gets_one_bar_over_all_runs(terminal, capsys):
    with many_runs(6) as (begin, advance):
        begin("first")
        advance(3)
        begin("second")
        advance(3)
    shown = terminal.getvalue()

    assert "second" in shown
    assert "6/6" in shown
    assert "seeds" in shown
    assert "seeds done" not in shown
    assert capsys.readouterr() == ("", "")


def test_the_bar_of_a_stopped_run_goes_away(terminal):
    with pytest.raises(KeyboardInterrupt):
        stopped(KeyboardInterrupt)
    # The cursor is shown again, and the line erased.
    assert "\x1b[?25h" in terminal.getvalue()
    assert "\x1b[2K" in terminal.getvalue()


def test_the_name_of_a_run_is_text_and_not_markup(terminal):
    with many_runs(1) as (begin, advance):
        begin("heterogeneity [1]")
        advance(1)
    assert "heterogeneity [1]" in terminal.getvalue()


def test_what_is_prepared_is_shown_on_a_terminal(terminal):
    with preparing() as begin:
        begin("movielens")
    assert "preparing" in terminal.getvalue()


def test_elsewhere_preparations_are_silent(capsys):
    with preparing() as begin:
        begin("movielens")
    assert capsys.readouterr() == ("", "")


def test_a_stage_that_takes_long_is_named_and_a_short_one_is_not(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.2)
    with long_stages() as begin:
        begin("reading")
        begin("learning")
        deadline = time.monotonic() + 20
        said = ""
        while not said and time.monotonic() < deadline:
            time.sleep(0.05)
            said = capsys.readouterr().err
        begin("saving")

    assert said == "learning ...\n"
    time.sleep(0.4)
    assert capsys.readouterr().err == ""
