"""What is shipped works where the checkout is not: a wheel in a fresh environment runs the README's example."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import posse

ROOT = Path(__file__).parents[1]


def test_the_citation_names_this_version_and_the_paper():
    text = (ROOT / "CITATION.cff").read_text()

    assert f"\nversion: {posse.__version__}\n" in text
    for words in ("Empirical Bayesian Multi-Bandit Learning", "Jiang", "Zhu"):
        assert words in text
        assert words in (ROOT / "README.md").read_text()


def last_year(path):
    """Write the table that the README's example reads."""
    rng = np.random.default_rng(0)
    n = 2000
    pl.DataFrame(
        {
            "store": [f"store-{store}" for store in rng.integers(20, size=n)],
            "offer": rng.choice(["coffee", "cake", "newspaper"], n),
            "hour": rng.uniform(6, 20, n),
            "basket": rng.integers(1, 9, n),
            "weather": rng.choice(["sun", "rain"], n),
            "sales": rng.gamma(2.0, 1.5, n),
        }
    ).write_parquet(path)


@pytest.mark.slow
def test_a_wheel_in_a_fresh_environment_runs_the_example_of_the_readme(tmp_path):
    def run(*command, cwd=tmp_path):
        # Neither the checkout nor the environment of these tests may help.
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "dist"], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,), (sdist,) = (list((tmp_path / "dist").glob(f"*.{end}")) for end in ("whl", "tar.gz"))
    assert wheel.name.startswith(f"posse-{posse.__version__}-")
    names = zipfile.ZipFile(wheel).namelist()
    assert "posse/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]
    with tarfile.open(sdist) as archive:
        assert {f"posse-{posse.__version__}/{name}" for name in ("README.md", "CITATION.cff", "LICENSE")} <= set(
            archive.getnames()
        )

    run(sys.executable, "-m", "venv", "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    (tmp_path / "example.py").write_text(example)
    last_year(tmp_path / "last-year.parquet")

    said = run(python, "example.py")

    assert re.match(r"(coffee|cake|newspaper) [0-9.]+\n", said)
    assert (tmp_path / "stores.posse").is_file()
    where = run(python, "-c", "import posse; print(posse.__file__)").strip()
    assert Path(where).is_relative_to(tmp_path / "fresh")
    assert f"posse {posse.__version__}" in run(tmp_path / "fresh" / "bin" / "posse", "--version")
    assert "stores" in run(tmp_path / "fresh" / "bin" / "posse", "inspect", "stores.posse")
