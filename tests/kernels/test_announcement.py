"""A newcomer is told why the first call takes long, and that it goes on."""

from types import SimpleNamespace

from posse.kernels import compiler
from posse.kernels.compiler import Announcement


def compiled(module):
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


def test_it_speaks_at_first_and_every_ten_seconds(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(compiler.time, "monotonic", lambda: now[0])
    announcement, mine = Announcement(), compiled("posse.kernels.fleet")

    announcement.on_start(compiled("another.library"))
    assert capsys.readouterr().err == ""
    for seconds in (0.0, 4.0, 9.0, 11.0, 12.0, 30.0):
        now[0] = 100.0 + seconds
        announcement.on_start(mine)
        announcement.on_end(mine)
    said = capsys.readouterr().err.splitlines()

    assert "about 20 seconds" in said[0]
    assert "posse warmup does it ahead" in said[0]
    assert said[1:] == ["posse: still compiling"] * 2


def test_whoever_asked_for_it_is_told_nothing(capsys):
    announcement = Announcement()
    announcement.made = True  # as posse warmup does

    announcement.on_start(compiled("posse.kernels.fleet"))

    assert capsys.readouterr().err == ""
