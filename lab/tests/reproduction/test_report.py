"""The report: from result files alone, the same bytes every time, every number to be found in them."""

import json
import re
import shutil
from html import unescape

import numpy as np
import polars as pl
import pytest

from posse.errors import ResultFileError
from posse.simulation import SimulationResult
from posse_lab.reproduction.experiment import load_run
from posse_lab.reproduction.registry import EXPERIMENTS, chosen
from posse_lab.reproduction.report import write_report
from posse_lab.reproduction.run import execute, plan
from posse_lab.reproduction.seed_table import SeedTable

NAMES = ("sparse", "contexts", "tasks", "oracle-regret", "coverage")
PAGES = ("index.html", "claims.json", "claims.md")
SEEDS = 3


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with the results of some experiments, and nothing else."""
    out = tmp_path_factory.mktemp("report")
    overrides = {"horizon": "60", "n_contexts": "3"}
    planned = plan(chosen(NAMES), quick=True, overrides=overrides)
    execute(planned, out=out, seeds=SEEDS, workers=1, begin=lambda name: None, advance=lambda seeds: None)
    return out


@pytest.fixture(scope="module")
def drawn(results, tmp_path_factory):
    """The same with its page, and what went into it."""
    out = tmp_path_factory.mktemp("drawn") / "report"
    shutil.copytree(results, out)
    return out, write_report(out, list(EXPERIMENTS.values()))


@pytest.fixture
def folder(results, tmp_path):
    """A copy to spoil."""
    shutil.copytree(results / "results", tmp_path / "results")
    return tmp_path


def page_words(out):
    """The text of the page."""
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", (out / "index.html").read_text())))


def table_of(out, experiment, key):
    return pl.read_parquet(out / "results" / experiment / f"{key}.parquet")


def last(table, policy, column="curve"):
    return np.array([row[-1] for row in table.filter(pl.col("policy") == policy).sort("seed")[column].to_list()])


def ratio_interval(a, b):
    """The percentile bootstrap by its definition: the same pairs of seeds above and below."""
    rows = np.random.default_rng(0).integers(0, a.size, (10_000, a.size))
    return np.quantile(a[rows].mean(axis=1) / b[rows].mean(axis=1), [0.025, 0.975])


# ---- what is written


@pytest.mark.slow
def test_the_page_its_claims_and_its_figures_are_written(drawn):
    out, report = drawn
    figures = {picture.name for chapter in report.chapters for picture in chapter.pictures}

    assert {file.name for file in out.iterdir()} == {"results", "figures", *PAGES}
    assert {file.name for file in (out / "figures").iterdir()} == {f"{name}.svg" for name in figures}
    assert figures >= {"sparse", "contexts-boxes", "tasks-boxes", "oracle-regret", "coverage-intervals"}
    assert (out / "index.html").read_text().count("data:image/svg+xml") == len(figures)


def test_every_experiment_has_a_chapter_and_those_without_results_say_so(drawn):
    _, report = drawn

    assert [chapter.name for chapter in report.chapters] == list(EXPERIMENTS)
    for chapter in report.chapters:
        if chapter.name in NAMES:
            assert not chapter.missing
            assert chapter.found
            assert chapter.pictures
            assert chapter.claims
        else:
            assert chapter.missing == f"Not run yet: posse lab reproduce {chapter.name}"
            assert chapter.pictures + chapter.claims + chapter.files + chapter.found == ()


def test_claims_are_a_list_of_the_seven_values(drawn):
    out, report = drawn

    def no_such_number(text):
        raise AssertionError(f"{text} is not JSON")

    said = json.loads((out / "claims.json").read_text(), parse_constant=no_such_number)
    assert [claim["id"] for claim in said] == [claim.id for claim in report.claims]
    assert len({claim["id"] for claim in said}) == len(said) >= 12
    for claim in said:
        assert list(claim) == ["id", "claim", "experiment", "verdict", "value", "interval", "seeds"]
        assert claim["experiment"] in NAMES
        assert re.fullmatch(r"holds|does not hold|holds only if .+", claim["verdict"])
        assert claim["seeds"] in (0, SEEDS)
        assert len(claim["interval"]) == 2


def test_every_source_is_a_file(drawn):
    out, report = drawn
    for chapter in report.chapters:
        for part in (*chapter.claims, *chapter.tables, *chapter.pictures):
            for source in part.sources:
                assert source.startswith(f"results/{chapter.name}/")
                assert (out / source).is_file()
        for part in (*chapter.pictures, *chapter.tables, *(claim for claim in chapter.claims if claim.seeds)):
            assert part.sources
        for file in chapter.files:
            assert (out / file.path).is_file()
            assert file.seeds == SEEDS
    assert {file.path for chapter in report.chapters for file in chapter.files} == {
        str(file.relative_to(out)) for file in (out / "results").rglob("*.parquet")
    }


def test_the_page_shows_every_claim_with_its_words(drawn):
    out, report = drawn
    shown = page_words(out)
    for claim in report.claims:
        for text in (claim.claim, claim.verdict, claim.measure):
            assert text in shown


def test_few_seeds_are_not_passed_off_as_the_papers(drawn):
    out, report = drawn

    assert report.note.startswith("All experiments: run with another number of seeds or other settings")
    assert report.note in page_words(out)


def test_the_claims_as_a_table_in_markdown(drawn):
    out, report = drawn
    lines = (out / "claims.md").read_text().splitlines()
    rows = [line for line in lines if re.match(r"\| [✓◐✗] \|", line)]

    assert len(rows) == len(report.claims)
    for row, claim in zip(rows, report.claims, strict=True):
        cells = [cell.strip().replace("\\", "") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert cells[0] == {"holds": "✓", "does not hold": "✗"}.get(claim.verdict, "◐")
        assert cells[1:3] == [claim.claim, claim.verdict]
        assert cells[4] == claim.measure
        assert cells[5] == (str(claim.seeds) if claim.seeds else "–")


def test_the_settings_of_every_run_are_on_the_page(drawn):
    _, report = drawn
    by_path = {file.path: file for chapter in report.chapters for file in chapter.files}
    sparse = by_path["results/sparse/2-of-8.parquet"]
    radius = by_path["results/coverage/radius.parquet"]

    assert (sparse.settings["horizon"], sparse.settings["n_features"], sparse.settings["jumps"]) == ("60", "8", "2")
    assert sparse.policies["LinUCB 0.25"].startswith("exploration 0.25")
    assert (radius.settings["n_contexts"], radius.settings["steps"]) == ("3", "[50, 200]")


# ---- numbers by another road


def test_the_ratio_to_rmbandit_by_hand(drawn):
    out, report = drawn
    claim = next(claim for claim in report.claims if claim.id == "sparse-beats-rmbandit")
    pairs = []
    for key in ("1-of-3", "2-of-3", "2-of-8"):
        table = table_of(out, "sparse", key)
        rivals = {name: last(table, name) for name in table["policy"].unique() if name.startswith("RMBandit")}
        best = min(rivals.values(), key=np.mean)
        pairs += [(last(table, method), best) for method in ("ebmUCB", "ebmTS")]
    mine, theirs = max(pairs, key=lambda pair: pair[0].mean() / pair[1].mean())

    assert len(rivals) >= 4
    assert claim.value == pytest.approx(mine.mean() / theirs.mean(), rel=1e-12)
    assert claim.interval == pytest.approx(tuple(ratio_interval(mine, theirs)), rel=1e-9)
    assert claim.seeds == mine.size == SEEDS


def test_where_the_definitions_of_regret_differ_most_by_hand(drawn):
    out, report = drawn
    claim = next(claim for claim in report.claims if claim.id == "regret-definitions-agree")
    found = {}
    for key in ("balanced", "data-poor"):
        table = table_of(out, "oracle-regret", key)
        for policy in table["policy"].unique():
            appendix, main = last(table, policy, "expected_curve"), last(table, policy)
            found[policy, key] = appendix.mean() / main.mean(), appendix, main
    value, appendix, main = next(each for each in found.values() if each[0] == pytest.approx(claim.value, rel=1e-12))

    assert claim.interval == pytest.approx(tuple(ratio_interval(appendix, main)), rel=1e-9)
    # Not every setting of a tuned rival is among the methods that are looked at, but these are.
    for policy in ("ebmUCB", "ebmTS", "OLSBandit", "RMBandit", "LinUCB", "LinTS", "HierTS", "evidence UCB"):
        for key in ("balanced", "data-poor"):
            assert abs(found[policy, key][0] - 1) <= abs(value - 1) + 1e-12


def test_what_greed_costs_by_hand(drawn):
    out, report = drawn
    claim = next(claim for claim in report.claims if claim.id == "uniform-needs-less-exploration")
    price = {}
    for law in ("uniform", "mixed-gaussian"):
        table = table_of(out, "contexts", law)
        scales = ["ebmUCB 0", "ebmUCB 0.03", "ebmUCB", "ebmUCB 0.3", "ebmUCB 1"]
        means = [last(table, name).mean() for name in scales]
        price[law] = means[0] / min(means)

    assert claim.value == pytest.approx(price["uniform"] / price["mixed-gaussian"], rel=1e-12)
    for law in price:
        assert f"({price[law]:.2f} times)" in claim.measure


def test_coverage_by_hand(drawn):
    out, report = drawn
    claim = next(claim for claim in report.claims if claim.id == "tau-measures-uncertainty")
    table = table_of(out, "coverage", "intervals")
    chosen_rows = table.filter((pl.col("prior") == "paper") & (pl.col("step") == 200) & (pl.col("level") == 0.95))

    assert chosen_rows.height == SEEDS
    assert claim.value == pytest.approx(chosen_rows["covered"].mean(), rel=1e-12)
    assert 0 <= claim.interval[0] <= claim.value <= claim.interval[1] <= 1


def test_the_slack_of_theorem_1_by_hand(drawn):
    out, report = drawn
    table = table_of(out, "coverage", "radius").filter(
        (pl.col("form") == "printed") & (pl.col("norm") == "one context")
    )
    table = table.with_columns(slack=pl.col("radius") / pl.col("largest_error"))
    smallest = table.group_by("noise_sd", "shared_precision").agg(pl.col("slack").mean())["slack"].min()
    claim = next(claim for claim in report.claims if claim.id == "theorem-1-prediction")

    assert claim.value == pytest.approx(smallest, rel=1e-12)


def test_mean_regret_of_a_table_by_hand(drawn, final_regret):
    out, report = drawn
    chapter = next(chapter for chapter in report.chapters if chapter.name == "tasks")
    (table,) = chapter.tables
    rows = {row[0]: row[1:] for row in table.rows}

    assert table.columns[1:] == ("N = 2", "N = 5")
    for policy in ("ebmUCB", "HierTS", "pooled LinUCB", "LinTS matched"):
        means = [final_regret(out / "results" / "tasks" / f"n-{n}.parquet")[policy] for n in (2, 5)]
        assert rows[policy] == pytest.approx(tuple(means), rel=1e-12)
    grids = [final_regret(out / "results" / "tasks" / f"n-{n}.parquet") for n in (2, 5)]
    best = [min(value for name, value in grid.items() if re.fullmatch(r"LinTS( [\d.]+)?", name)) for grid in grids]
    assert rows["LinTS tuned"] == pytest.approx(tuple(best), rel=1e-12)


# ---- drawing again


@pytest.mark.slow
def test_drawing_again_gives_the_same_bytes(drawn, files_of):
    out, _ = drawn
    before = files_of(out)
    shutil.rmtree(out / "figures")
    for name in PAGES:
        (out / name).unlink()
    write_report(out, list(EXPERIMENTS.values()))

    assert files_of(out) == before


def test_the_page_does_not_depend_on_where_it_lies(drawn, folder, files_of):
    out, _ = drawn
    names = ("oracle-regret",)
    shutil.rmtree(folder / "results" / "sparse")
    write_report(folder, chosen(names))

    assert str(folder) not in (folder / "index.html").read_text()
    for file in (folder / "figures").iterdir():
        assert file.read_bytes() == (out / "figures" / file.name).read_bytes()


# ---- results that are not all there


def changed(file, **change):
    """Write a result again with other seeds, or not finished."""
    kept = load_run(file)
    table = kept.table.filter(pl.col("seed").is_in(change.get("seeds", kept.seeds)))
    complete = change.get("complete", True)
    if isinstance(kept, SeedTable):
        SeedTable(table, kept.settings, kept.version).save(file)
    else:
        SimulationResult(table, kept.settings, kept.descriptions, kept.version, complete).save(file)


@pytest.mark.parametrize(("name", "key"), [("sparse", "2-of-3")])
def test_a_run_that_was_stopped_is_named_and_not_shown(folder, name, key):
    changed(folder / "results" / name / f"{key}.parquet", seeds=[0], complete=False)
    report = write_report(folder, chosen([name, "oracle-regret"]))
    chapter = next(chapter for chapter in report.chapters if chapter.name == name)

    notice = f"The run was stopped ({key}): posse lab reproduce {name} continues it"
    assert chapter.missing == notice
    assert chapter.pictures + chapter.claims + chapter.files == ()
    assert f"No results. {notice}" in page_words(folder)
    assert {claim["experiment"] for claim in json.loads((folder / "claims.json").read_text())} == {"oracle-regret"}


@pytest.mark.parametrize(
    ("name", "key"), [("contexts", "one-hot"), ("oracle-regret", "balanced"), ("tasks", "n-5"), ("sparse", "2-of-8")]
)
def test_a_result_file_that_is_missing_is_named(folder, name, key):
    (folder / "results" / name / f"{key}.parquet").unlink()
    report = write_report(folder, chosen([name, "coverage"]))
    chapter = next(chapter for chapter in report.chapters if chapter.name == name)

    assert chapter.missing == f"The result file {key} is missing: posse lab reproduce {name} continues the run"
    assert not chapter.claims
    assert chapter.missing in page_words(folder)


def test_a_result_of_other_settings_that_is_still_there_is_not_shown(folder):
    """The grid was another one before; what the last command ran is what the page is about."""
    other = folder / "results" / "tasks" / "n-40.parquet"
    shutil.copy(folder / "results" / "tasks" / "n-5.parquet", other)
    report = write_report(folder, chosen(["tasks"]))

    assert [file.path for file in report.chapters[0].files] == [f"results/tasks/n-{n}.parquet" for n in (2, 5)]
    assert "N = 40" not in page_words(folder)


def test_a_list_of_runs_that_is_damaged_is_named(folder):
    (folder / "results" / "tasks" / "runs.json").write_text("{")
    with pytest.raises(ResultFileError, match=r"tasks/runs\.json is damaged"):
        write_report(folder, chosen(["tasks", "coverage"]))


def test_results_of_other_methods_are_not_mistaken_for_missing_files(folder):
    file = folder / "results" / "oracle-regret" / "balanced.parquet"
    kept = load_run(file)
    kept.only_policies([name for name in kept.policies if name != "HierTS"]).save(file)
    report = write_report(folder, chosen(["oracle-regret", "coverage"]))

    assert "HierTS" in report.chapters[0].missing
    assert "is missing" not in report.chapters[0].missing


def test_why_an_experiment_was_skipped_is_on_the_page(folder):
    report = write_report(folder, chosen(["oracle-regret", "letter"]), skipped=["letter"])

    assert report.chapters[1].missing.startswith("Not run: its data were not there.")
    assert "No results. Not run: its data were not there." in page_words(folder)


def test_earlier_results_are_shown_though_the_data_are_gone(folder):
    report = write_report(folder, chosen(["oracle-regret"]), skipped=["oracle-regret"])

    assert not report.chapters[0].missing


def test_values_of_a_grid_may_have_different_numbers_of_seeds(folder):
    """More seeds were asked for, and the run was stopped before the second file got any of them."""
    changed(folder / "results" / "tasks" / "n-5.parquet", seeds=[0, 1])
    report = write_report(folder, chosen(["tasks"]))

    assert report.chapters[0].claims or report.chapters[0].missing


def test_a_file_that_is_being_written_is_not_read(folder):
    shutil.copy(
        folder / "results" / "oracle-regret" / "balanced.parquet",
        folder / "results" / "oracle-regret" / ".balanced.parquet.77.partial",
    )
    assert not write_report(folder, chosen(["oracle-regret"])).chapters[0].missing


def test_a_damaged_file_is_named(folder):
    (folder / "results" / "coverage" / "radius.parquet").write_bytes(b"PAR1")
    with pytest.raises(ResultFileError, match=r"radius\.parquet"):
        write_report(folder, chosen(["coverage", "oracle-regret"]))


@pytest.mark.parametrize("stopped", [False, True])
def test_a_folder_without_complete_results_gets_no_page(tmp_path, results, stopped):
    if stopped:
        shutil.copytree(results / "results" / "tasks", tmp_path / "results" / "tasks")
        changed(tmp_path / "results" / "tasks" / "n-2.parquet", complete=False)
    with pytest.raises(ResultFileError, match=rf"no complete results in {tmp_path}/results; run posse lab reproduce"):
        write_report(tmp_path, list(EXPERIMENTS.values()))
    assert not [name for name in PAGES if (tmp_path / name).exists()]


def test_a_page_that_cannot_be_written_is_one_clear_error(folder):
    (folder / "claims.json").mkdir()
    with pytest.raises(ResultFileError, match=r"cannot write .*claims\.json"):
        write_report(folder, chosen(["oracle-regret"]))
