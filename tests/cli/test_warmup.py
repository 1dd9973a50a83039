from pathlib import Path

import numba
import pytest
from typer.testing import CliRunner

from posse.cli import warmup
from posse.cli.main import app


@pytest.mark.slow
def test_the_command_says_how_long_it_took_and_where_the_cache_is():
    done = CliRunner().invoke(app, ["warmup"], catch_exceptions=False)

    assert "compile" in done.stdout
    assert "the cache is" in done.stdout


def test_times_are_those_of_the_parts_the_longest_first(monkeypatch):
    def long():
        sum(range(3_000_000))

    monkeypatch.setattr(warmup, "parts", lambda **_: {"short": lambda: None, "long": long})
    plain = CliRunner().invoke(app, ["warmup"], catch_exceptions=False)
    done = CliRunner().invoke(app, ["warmup", "--times"], catch_exceptions=False)

    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[-1] for line in lines[:2]] == ["long", "short"]
    assert " s  long" not in plain.stdout


def test_for_an_image_only_what_a_service_uses_is_compiled(monkeypatch):
    done = []
    monkeypatch.setattr("posse.service.warming.parts", lambda: {"beliefs": lambda: done.append("beliefs")})
    CliRunner().invoke(app, ["warmup", "--service"], catch_exceptions=False)
    assert done == ["beliefs"]


@pytest.mark.parametrize(
    ("setting", "folder", "words"),
    [
        ("somewhere", "somewhere/kernels_1", "that NUMBA_CACHE_DIR names"),
        ("", "posse/kernels/__pycache__", "beside the kernels"),
        ("", "home/numba/kernels_1", "this user's cache folder"),
    ],
)
def test_where_the_cache_is_in_words(monkeypatch, setting, folder, words):
    monkeypatch.setattr(numba.config, "CACHE_DIR", setting)
    monkeypatch.setattr(warmup, "cache_folders", lambda: [Path(folder)])
    assert words in warmup.cache_words()
    assert folder in warmup.cache_words()
