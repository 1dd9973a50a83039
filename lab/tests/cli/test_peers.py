import json
from dataclasses import replace

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from posse.errors import InvalidValue, MissingDependency
from posse_lab.benchmarks.machine import Timing
from posse_lab.benchmarks.peers import catalogue, ours, run
from posse_lab.benchmarks.peers.blocks import BlockRow, Blocks
from posse_lab.benchmarks.peers.entry import RECOMMENDED, TUNED
from posse_lab.benchmarks.peers.latency import Latency
from posse_lab.benchmarks.peers.report import PeersReport, Row
from posse_lab.benchmarks.workload import Size
from posse_lab.cli.peers import bars_table, blocks_table, entries_table, notes, peers

SLOW = Latency(
    *(Timing(value * 1e-6, value * 1e-6, 9) for value in (48_000.0, 38_000.0, 49_000.0, 39_000.0, 48_100.0, 38_123.0))
)


@pytest.fixture
def report():
    """As wide as it gets: the longest names and the largest numbers."""
    rows = [
        Row(library=library, form=form, configuration=words, settings={"a": 1}, regret=[1e5, 3e5], latency=SLOW)
        for library, form, words in (
            *(("posse", form, "") for form in (ours.TS, ours.UCB, ours.FLEET)),
            ("Vowpal Wabbit", "task features", RECOMMENDED),
            ("bayesianbandits", "per task", TUNED),
        )
    ]
    ours_too = {ours.TS: [5e4], ours.UCB: [4e4]}
    block_rows = [
        BlockRow(configuration=words, settings={"b": 2}, n_steps=[20_000], regret=[1e5], ours=ours_too)
        for words in (RECOMMENDED, TUNED)
    ]
    state = dict.fromkeys((ours.TS, ours.UCB, RECOMMENDED, TUNED), SLOW)
    return PeersReport(
        size=Size(1000, 5, 10),
        n_steps=100_000,
        seeds=2,
        rows=rows,
        random=[4e5, 6e5],
        blocks=Blocks(size=Size(1000, 5, 10), solver="CHOLMOD", rows=block_rows, first=state, known=state),
        parsed=Timing(4e-6, 5e-6, 9),
        skipped={},
        versions={"posse": "0.1.0", "vowpalwabbit": "9.11.9", "bayesianbandits": "1.5.0"},
    )


@pytest.mark.parametrize("table", [entries_table, lambda report: blocks_table(report.blocks), bars_table])
def test_tables_fit_80_columns(report, table):
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(table(report))
    text = capture.get()

    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "…" not in text


def test_tables_show_what_was_measured(report):
    console = Console(width=150)
    with console.capture() as capture:
        for table in (entries_table(report), blocks_table(report.blocks), bars_table(report)):
            console.print(table)
    text = capture.get()

    line = next(line for line in text.splitlines() if "task features, recommended" in line)
    assert line.split()[3:] == ["48,000", "38,000", "39,000", "223", "200,000", "100,000"]
    assert "Vowpal Wabbit 9.11.9" in text
    assert "500,000" in next(line for line in text.splitlines() if "at random" in line)
    line = next(line for line in text.splitlines() if line.startswith("tuned"))
    assert line.split()[1:] == ["49,000", "39,000", "49,000", "39,000", "20,000", "100,000", "0.50", "0.40"]
    assert text.count("at least 5 ") == 5
    assert text.count("at most 0.6") == 2


def test_notes_say_what_was_tuned_and_what_is_missing(report):
    text = "\n".join(notes(replace(report, skipped={"river": "river is not installed: pip install '.[peers]'"})))

    assert "bayesianbandits per task: a 1; task blocks: b 2." in text
    assert "parsed beforehand takes 4 µs" in text
    assert "skipped river: river is not installed: pip install '.[peers]'" in text
    assert "No peer is installed" not in text


@pytest.fixture
def call(monkeypatch, tmp_path):
    small = replace(run.QUICK, size=Size(3, 2, 2), n_steps=20, turn_seconds=0.001, turns=1)
    monkeypatch.setattr(run, "QUICK", small)
    monkeypatch.setattr(catalogue, "installed", lambda _: False)
    app = typer.Typer()
    app.command()(peers)

    def invoke(*arguments):
        fixed = ["--quick", "--workers", "1", "--out", str(tmp_path / "new" / "bench")]
        return CliRunner().invoke(app, [*fixed, *map(str, arguments)], catch_exceptions=False)

    return invoke


def test_without_peers_posse_runs_alone_and_says_so(call, tmp_path):
    done = call("--seeds", 3)
    flat = " ".join(done.stdout.split())

    assert done.exit_code == 0
    assert "cores" in done.stdout.splitlines()[0]  # the machine
    assert "3 seeds" in done.stdout
    assert "No peer is installed, so only posse's own entries ran; to compare: pip install '.[peers]'" in flat
    for name in ("vowpalwabbit", "river", "mabwiser", "bayesianbandits"):
        assert f"skipped {name}: {name} is not installed: pip install '.[peers]'" in flat
    assert "latency, turn 1 of 1 (3 of 3)" in done.stderr
    out = tmp_path / "new" / "bench"
    assert {file.name for file in out.iterdir()} == {"peers.json", "peers.png", "peers.svg"}
    said = json.loads((out / "peers.json").read_text())
    assert said["benchmark"] == "peers"
    assert said["machine"]["cores"] >= 1
    assert [row["form"] for row in said["rows"]] == [ours.TS, ours.UCB, ours.FLEET]
    assert (said["seeds"], said["n_steps"]) == (3, 20)
    assert f"{said['rows'][0]['mean']:,.0f}" in done.stdout
    assert f"wrote {out / 'peers.json'}" in done.stdout


def test_without_matplotlib_there_is_a_report_and_no_picture(call, tmp_path, monkeypatch):
    def missing(*_):
        raise MissingDependency("figures need matplotlib")

    monkeypatch.setattr("posse_lab.plotting.peers.plot_peers", missing)
    done = call("--steps", 10)

    assert "no picture: figures need matplotlib" in done.stdout
    assert [file.name for file in (tmp_path / "new" / "bench").iterdir()] == ["peers.json"]


def test_wrong_names_and_numbers_are_refused_before_anything_is_made(call, tmp_path):
    with pytest.raises(InvalidValue, match="no entry 'vw'"):
        call("--only", "vw")
    with pytest.raises(MissingDependency, match="river was asked for"):
        call("--only", "river")
    with pytest.raises(InvalidValue, match="n_steps to be at least 1, got 0"):
        call("--steps", 0)
    assert not (tmp_path / "new").exists()


def test_only_posse_is_not_a_complaint(call):
    done = call("--only", "posse")

    assert "skipped" not in done.stdout
    assert "No peer is installed" not in done.stdout
