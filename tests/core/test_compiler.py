"""What is compiled is cached on disk, never older than its sources, and compiled by one process at a time."""

import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import posse
from posse.core import compiler

INNER = "from posse.core.compiler import compiled\n\n\n@compiled\ndef inner(x):\n    return x + {}\n"
OUTER = "from posse.core.compiler import compiled\nfrom posse.core.inner import inner\n\n\n@compiled\ndef outer(x):\n    return inner(x)\n"  # noqa: E501


def run(package, cache, words="from posse.core.outer import outer; print(outer(1.0))"):
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", words], env=environment, cwd=package, capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout


def test_a_caller_follows_a_change_in_another_file(tmp_path):
    # A package of the same shape, with nothing in it but the compiler and two functions.
    package = tmp_path / "package"
    for place in (package / "posse" / "core", package / "posse" / "families"):
        place.mkdir(parents=True)
    for place in (package / "posse", package / "posse" / "core"):
        (place / "__init__.py").touch()
    shutil.copy(Path(posse.__file__).parent / "core" / "compiler.py", package / "posse" / "core")
    (package / "posse" / "core" / "inner.py").write_text(INNER.format("1.0"))
    (package / "posse" / "core" / "outer.py").write_text(OUTER)
    cache = tmp_path / "cache"
    assert run(package, cache) == "2.0\n"
    assert run(package, cache) == "2.0\n"
    (package / "posse" / "core" / "inner.py").write_text(INNER.format("2.0"))
    assert run(package, cache) == "3.0\n"
    found = "from posse.core.outer import outer; outer(1.0); print(sum(outer.stats.cache_hits.values()))"
    assert run(package, cache, found) == "1\n"


def test_one_process_compiles_and_the_others_wait(tmp_path):
    work = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from posse.core import compiler

        compiler.announcement.quiet = True
        folder = Path(sys.argv[1])
        compiler.digests = {str(folder): "sources"}

        def rehearse():
            if (folder / "done").exists():  # then it is only loaded, by all at once
                return
            assert not (folder / "busy").exists()
            (folder / "busy").touch()
            time.sleep(0.3)
            (folder / "busy").unlink()
            with (folder / "done").open("a") as done:
                done.write("once")

        compiler.compile_all("core", rehearse)
        """
    )
    begun = [subprocess.Popen([sys.executable, "-c", work, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(120) for process in begun] == [0, 0, 0]
    assert (tmp_path / "done").read_text() == "once"


def test_what_takes_long_says_so_once_and_then_seldom(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compiler, "digests", {str(tmp_path): "sources"})
    monkeypatch.setattr(compiler.announcement, "quiet", False)
    monkeypatch.setattr(compiler, "AGAIN", 0.05)
    compiler.compile_all("core", lambda: time.sleep(0.3))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("posse: compiling, once")
    assert 2 <= len(lines) <= 5
    assert "functions so far" in lines[1]
    # It is in the cache now, so nothing is to be said.
    compiler.compile_all("core", lambda: time.sleep(0.1))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(compiler, "digests", {str(tmp_path): "others"})
    compiler.compile_all("core", lambda: None)
    assert "compiling" in capsys.readouterr().err


def test_where_no_file_can_be_made_all_is_compiled_all_the_same(monkeypatch):
    monkeypatch.setattr(compiler, "digests", {})
    done = threading.Event()
    compiler.compile_all("core", done.set)
    assert done.is_set()
