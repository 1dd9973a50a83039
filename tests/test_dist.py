"""What is shipped works where the checkout is not: a newcomer with the wheel and the README gets to a report."""

import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

import posse

ROOT = Path(__file__).parents[1]


def test_the_citation_names_this_version_and_the_paper():
    text = (ROOT / "CITATION.cff").read_text()

    assert f"\nversion: {posse.__version__}\n" in text
    for words in ("Empirical Bayesian Multi-Bandit Learning", "Jiang", "Zhu"):
        assert words in text
        assert words in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_a_newcomer_gets_from_the_wheel_to_a_report_with_nothing_but_the_readme(tmp_path, record_property):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "dist"], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,), (sdist,) = (list((tmp_path / "dist").glob(f"*.{end}")) for end in ("whl", "tar.gz"))
    assert wheel.name.startswith(f"posse-{posse.__version__}-")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"posse/py.typed", "posse/docs/index.md", "posse/docs/changes.md"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]
    with tarfile.open(sdist) as archive:
        assert {f"posse-{posse.__version__}/{name}" for name in ("README.md", "CITATION.cff", "LICENSE")} <= set(
            archive.getnames()
        )

    # Neither the checkout, the environment of whoever runs this, nor a cache of theirs may help.
    helpful = ("PYTHONPATH", "VIRTUAL_ENV", "NUMBA_CACHE_DIR")
    clean = {name: value for name, value in os.environ.items() if name not in helpful}
    alone = {**clean, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*command, env=alone, status=0):
        done = subprocess.run([*map(str, command)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout[-1000:] + done.stderr[-2000:]
        return done.stdout, done.stderr

    def timed(step, *command, env=alone):
        begun = time.perf_counter()
        found = run(*command, env=env)
        record_property("newcomer", f"{step} {time.perf_counter() - begun:.0f} s")
        return found

    python = tmp_path / "fresh" / "bin" / "python"
    timed("environment", sys.executable, "-m", "venv", "fresh")
    # Settings of the installer are this machine's business, so it keeps its home.
    given = ("install", "--quiet", "--constraint", ROOT / "constraints.txt", f"{wheel}[plot]")
    timed("install", python, "-m", "pip", *given, env=clean)
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL).group(1)
    (tmp_path / "example.py").write_text(example, "utf-8")
    said, noted = timed("README's example", python, "example.py")
    assert "gift" in said
    assert "The learned policy would bring a sale" in said
    assert "posse: compiling" in noted  # nobody waits without knowing why
    assert "When exploring stops paying" in (tmp_path / "report.html").read_text("utf-8")

    def posse_says(*command):
        return run(tmp_path / "fresh" / "bin" / "posse", *command)[0]

    assert Path(run(python, "-c", "import posse; print(posse.__file__)")[0].strip()).is_relative_to(tmp_path)
    assert f"posse {posse.__version__}" in posse_says("--version")
    assert "Clicks and counts" in posse_says("docs", "clicks")
    assert "0.2.0" in posse_says("docs", "changes")
    assert "60 tasks" in posse_says("log", "example") + posse_says("log", "check", "retailer.jsonl")
    posse_says("fit", "retailer.jsonl", "--out", "stores.posse")
    posse_says("report", "stores.posse", "--log", "retailer.jsonl", "--out", "stores.html")
    assert (tmp_path / "stores.html").stat().st_size > 10_000
    assert not [name for name in names if "lab" in name.split("/")]
    assert "pip install ./lab" in run(tmp_path / "fresh" / "bin" / "posse", "lab", "bench", status=2)[1]
