from pathlib import Path

import numba
import pytest
from typer.testing import CliRunner

from posse.cli import warming
from posse.cli.main import app
from posse.cli.warmup import cache_words


@pytest.mark.slow
def test_the_command_says_how_long_it_took_and_where_the_cache_is():
    done = CliRunner().invoke(app, ["warmup"], catch_exceptions=False)

    assert "compile" in done.stdout
    assert "the cache is" in done.stdout
    assert "policy lin-ts" in done.stderr


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
    monkeypatch.setattr(warming, "cache_folders", lambda: [Path(folder)])
    assert words in cache_words()
    assert folder in cache_words()
