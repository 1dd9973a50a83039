"""Progress goes to standard error, comes before anybody wonders, and can be switched off."""

import io
import subprocess
import sys
import time

import pytest
import rich.console

from posse.cli import progress
from posse.cli.progress import be_quiet, rows_done, stages
from posse.fleet.streaming import Progress
from posse_lab.cli.progress import many_runs


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that keeps what is written to it."""
    screen = io.StringIO()
    real = rich.console.Console
    monkeypatch.setattr(
        rich.console, "Console", lambda **settings: real(file=screen, force_terminal=True, width=100, no_color=True)
    )
    return screen


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "AGAIN", 0.05)


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(progress, "_quiet", True)


def said_within(capsys, words, seconds=30):
    """Return what is on standard error as soon as the words are, or after so many seconds."""
    said, deadline = "", time.monotonic() + seconds
    while words not in said and time.monotonic() < deadline:
        time.sleep(0.02)
        found = capsys.readouterr()
        assert found.out == ""
        said += found.err
    return said


def test_a_stage_that_takes_long_is_named_again_and_again(capsys, impatient):
    with stages() as begin:
        begin("learning 10,000 rows")
        assert "learning 10,000 rows" in said_within(capsys, "learning 10,000 rows")
        assert "learning 10,000 rows" in said_within(capsys, "learning 10,000 rows")


def test_what_is_over_soon_says_nothing(capsys):
    with stages() as begin:
        begin("reading")
        begin("saving")
    assert capsys.readouterr() == ("", "")


def test_lines_tell_how_many_seeds_are_done(capsys, impatient):
    with many_runs(10) as (begin, advance):
        begin("first world")
        advance(4)
        said = said_within(capsys, "4 of 10 seeds")
    assert "first world" in said
    assert "left" in said


def test_lines_tell_how_many_rows_were_read(capsys, impatient):
    with rows_done() as rows:
        rows(Progress(2_000, 50_000, 1.0, 24.0))
        assert "2,000 of 50,000 rows" in said_within(capsys, "2,000 of 50,000 rows")
    assert rows.rows == 2_000


@pytest.mark.usefixtures("impatient", "quiet")
@pytest.mark.parametrize("where", ["terminal", "elsewhere"])
def test_nothing_is_shown_when_quiet(capsys, request, where):
    screen = request.getfixturevalue("terminal") if where == "terminal" else io.StringIO()
    with stages() as begin, many_runs(2) as (run, advance):
        begin("learning")
        run("a")
        advance(1)
        time.sleep(0.3)
    assert capsys.readouterr() == ("", "")
    assert screen.getvalue() == ""


def test_the_option_silences_the_compiler_too(monkeypatch):
    from posse.core.compiler import announcement

    monkeypatch.setattr(announcement, "quiet", announcement.quiet)
    monkeypatch.setattr(progress, "_quiet", False)
    be_quiet(True)

    assert announcement.quiet


def test_a_terminal_gets_one_bar_over_all_runs(terminal, capsys):
    with many_runs(6) as (begin, advance):
        begin("first")
        advance(3)
        begin("second [1]")  # text, and no markup
        advance(3)
    shown = terminal.getvalue()

    assert "second [1]" in shown
    assert "6/6" in shown
    assert "seeds" in shown
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_what_runs_and_how_much_is_done(terminal):
    with stages(3) as begin:
        begin("one")
        begin("two")
        assert "two" in terminal.getvalue()
        assert "1/3" in terminal.getvalue()


def test_the_bar_of_a_stopped_run_goes_away(terminal):
    def stopped():
        with many_runs(8) as (begin, _advance):
            begin("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    # The cursor is shown again, and the line erased.
    assert "\x1b[?25h" in terminal.getvalue()
    assert "\x1b[2K" in terminal.getvalue()


def test_where_stages_are_timed_nothing_is_drawn_between_them(terminal):
    with stages(moves=False) as begin:
        begin("one")
        before = terminal.getvalue()
        time.sleep(0.3)  # a display that moves by itself draws ten times a second
        assert terminal.getvalue() == before


def test_every_command_can_be_quiet(tmp_path):
    table = tmp_path / "shop.csv"
    table.write_text("task,arm,x,reward\n" + "".join(f"t{n % 3},{'ab'[n % 2]},{n % 7},{n % 5}\n" for n in range(60)))
    command = [sys.executable, "-m", "posse", "fit", str(table), "--out", str(tmp_path / "fleet"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)

    assert "rewards learned" in done.stdout
    assert done.stderr == ""
