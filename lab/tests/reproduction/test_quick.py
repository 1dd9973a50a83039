"""Everything, small: the command from data files in the official formats to the page."""

import json
import os
import time
from html import escape

import pytest

from posse_lab.reproduction.experiment import load_run
from posse_lab.reproduction.registry import EXPERIMENTS
from posse_lab.reproduction.run import execute, plan

pytestmark = pytest.mark.slow  # half a minute; tests of the command run single experiments

FROM_DATA = ("sarcos", "activity", "movielens", "letter")


@pytest.fixture(scope="module")
def quick(posse, data_files, tmp_path_factory):
    """Run everything with two seeds and two workers: where it went, what was said."""
    out = tmp_path_factory.mktemp("quick") / "report"
    arguments = (
        "lab", "reproduce", "all", "--quick", "--seeds", 2, "--workers", 2, "--data", data_files, "--set",
        "verify=false", "--out", out,
    )  # fmt: skip
    return out, posse(*arguments), arguments


def test_everything_was_run(quick):
    out, done, _ = quick

    assert done.exit_code == 0, done.output
    assert {folder.name for folder in (out / "results").iterdir()} == set(EXPERIMENTS)
    for file in (out / "results").rglob("*.parquet"):
        assert load_run(file).complete
        assert load_run(file).seeds == [0, 1]


def test_every_experiment_is_on_the_page_and_none_is_missing(quick):
    out, done, _ = quick
    page = (out / "index.html").read_text()

    for experiment in EXPERIMENTS.values():
        assert escape(experiment.title, quote=False).replace("'", "&#39;") in page
    assert "No results." not in page
    assert "no results" not in page
    assert "skipped" not in done.stdout


def test_every_experiment_makes_a_claim_and_a_figure(quick):
    out, _, _ = quick
    claims = json.loads((out / "claims.json").read_text())

    assert {claim["experiment"] for claim in claims} == set(EXPERIMENTS)
    assert len({claim["id"] for claim in claims}) == len(claims)
    figures = [file.stem for file in (out / "figures").iterdir()]
    for name in EXPERIMENTS:
        assert any(figure.startswith(name) for figure in figures), name


def test_facts_that_need_no_simulation(quick):
    out, _, _ = quick
    claims = {claim["id"]: claim for claim in json.loads((out / "claims.json").read_text())}
    diversity = claims["mixed-gaussian-violates-diversity"]

    # E[x²] of N(±1, 1) is 2, and half of it lies on either side of any plane through 0.
    assert (diversity["value"], diversity["interval"], diversity["seeds"]) == (1.0, [1.0, 1.0], 0)
    assert diversity["verdict"] == "does not hold"


def test_numbers_of_claims_are_where_they_should_be(quick):
    out, _, _ = quick
    for claim in json.loads((out / "claims.json").read_text()):
        if claim["value"] is None:
            continue
        # A percentile interval contains the value unless the statistic is biased; none here is by much. With two seeds
        # a rival may be without regret in one of them, and then the interval is open above.
        low, high = claim["interval"]
        assert low <= claim["value"] * (1 + 1e-9) + 1e-12, claim
        assert high is None or high >= claim["value"] * (1 - 1e-9) - 1e-12, claim


def test_the_claims_are_printed_and_the_files_named(quick):
    out, done, _ = quick

    for heading in ("claim", "verdict", "value", "95 % interval", "seeds"):
        assert heading in done.stdout
    assert f"wrote {out / 'index.html'}" in done.stdout
    assert f"wrote {out / 'claims.json'}" in done.stdout


@pytest.mark.slow
def test_a_second_run_adds_nothing_and_is_fast(quick, posse, files_of):
    out, first, arguments = quick
    before = files_of(out)
    written = {file: file.stat().st_mtime_ns for file in (out / "results").rglob("*.parquet")}
    start = time.process_time()
    again = posse(*arguments)

    # Planning, bootstraps and 33 figures; nothing is simulated. It takes 15 s of one core.
    assert time.process_time() - start < 60
    assert files_of(out) == before
    assert {file: file.stat().st_mtime_ns for file in written} == written
    assert again.stdout == first.stdout


def test_another_run_leaves_the_same_bytes(quick, data_files, tmp_path, files_of):
    out, _, _ = quick
    planned = plan(list(EXPERIMENTS.values()), data=data_files, quick=True, overrides={"verify": "false"})
    execute(planned, out=tmp_path, seeds=2, workers=1, begin=lambda name: None, advance=lambda seeds: None)

    assert files_of(tmp_path / "results") == files_of(out / "results")


@pytest.mark.slow
def test_the_published_files(posse, tmp_path):
    if not os.environ.get("POSSE_DATA"):
        pytest.skip("POSSE_DATA is not set, so there are no real files to read")
    done = posse("lab", "reproduce", *FROM_DATA, "--quick", "--seeds", 2, "--workers", 2, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert "skipped" not in done.stdout
    assert {claim["experiment"] for claim in claims} == set(FROM_DATA)
    for name in FROM_DATA:
        for key in ("protocol", "heterogeneity", "real-rewards"):
            assert load_run(tmp_path / "results" / name / f"{key}.parquet").complete
