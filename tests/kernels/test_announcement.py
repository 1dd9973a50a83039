"""A newcomer sees why the first call takes long, how long it will on this machine, and that it goes on."""

import re
from types import SimpleNamespace

import pytest

from posse.kernels import compiler
from posse.kernels.compiler import PROBE, Announcement


def compiled(module):
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless it is moved."""
    now = [100.0]
    monkeypatch.setattr(compiler.time, "monotonic", lambda: now[0])
    return now


def compile_kernels(announcement, clock, n, seconds):
    for _ in range(n):
        announcement.on_start(compiled("posse.kernels.fleet"))
        clock[0] += seconds
        announcement.on_end(compiled("posse.kernels.fleet"))


def seconds_left(said):
    return float(re.search(r"about (\d+) s left", said).group(1))


def test_a_slower_machine_is_given_a_longer_estimate(clock, capsys):
    estimates = []
    for seconds in (0.1, 0.3):
        compile_kernels(Announcement(), clock, PROBE, seconds)
        first, *_, last = capsys.readouterr().err.splitlines()
        assert "posse warmup" in first
        estimates.append(seconds_left(last))

    assert estimates[1] == pytest.approx(3 * estimates[0], rel=0.1)


def test_it_says_now_and_then_how_far_it_is_and_never_less_than_nothing(clock, capsys):
    announcement = Announcement()
    compile_kernels(announcement, clock, PROBE, 0.1)
    before = seconds_left(capsys.readouterr().err)
    compile_kernels(announcement, clock, 11, 1.0)
    later = capsys.readouterr().err.splitlines()
    compile_kernels(announcement, clock, 100, 1.0)

    assert 1 < len(later) < 11
    assert seconds_left(later[-1]) < before
    assert "left" not in capsys.readouterr().err.splitlines()[-1]


def test_warmup_prints_no_announcement(clock, capsys):
    announcement = Announcement()
    announcement.quiet = True  # as posse warmup does

    compile_kernels(announcement, clock, PROBE + 1, 11.0)

    assert capsys.readouterr().err == ""
