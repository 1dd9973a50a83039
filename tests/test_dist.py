"""What is shipped works where the checkout is not: a newcomer with the wheel and the README gets to a report."""

import json
import os
import subprocess
import sys
import tarfile
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

    # The script lets neither the checkout nor the environment of these tests help.
    played = subprocess.run(
        [sys.executable, ROOT / "lab" / "scripts" / "newcomer.py", "--wheel", wheel, "--folder", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stdout.splitlines()[-1].startswith("{")
    measured = json.loads(played.stdout.splitlines()[-1])
    for step, seconds in measured["seconds"].items():
        record_property("newcomer", f"{step} {seconds:.0f} s")
    assert set(measured["seconds"]) == {"environment", "install", "import", "first decision", "report"}
    assert "gift" in played.stdout
    assert "The learned policy would bring a sale" in played.stdout
    assert "posse: compiling" in played.stderr  # nobody waits without knowing why
    assert "When exploring stops paying" in (tmp_path / "report.html").read_text("utf-8")

    def run(*command, status=0):
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            [*map(str, command)], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr[-2000:]
        return done.stdout if status == 0 else done.stderr

    fresh = tmp_path / "fresh" / "bin"
    assert Path(run(fresh / "python", "-c", "import posse; print(posse.__file__)").strip()).is_relative_to(tmp_path)
    assert f"posse {posse.__version__}" in run(fresh / "posse", "--version")
    assert "Clicks and counts" in run(fresh / "posse", "docs", "clicks")
    assert "0.2.0" in run(fresh / "posse", "docs", "changes")
    assert "60 tasks" in run(fresh / "posse", "log", "example") + run(fresh / "posse", "log", "check", "retailer.jsonl")
    run(fresh / "posse", "fit", "retailer.jsonl", "--out", "stores.posse")
    run(fresh / "posse", "report", "stores.posse", "--log", "retailer.jsonl", "--out", "stores.html")
    assert (tmp_path / "stores.html").stat().st_size > 10_000
    assert not [name for name in names if "lab" in name.split("/")]
    assert "pip install ./lab" in run(fresh / "posse", "lab", "bench", status=2)
