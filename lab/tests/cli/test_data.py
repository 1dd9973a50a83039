import hashlib
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from posse.errors import FetchFailed, MissingData, UnknownDataset
from posse_lab.cli import data as command
from posse_lab.datasets import fetch as fetching
from posse_lab.datasets.catalogue import DATASETS

CONTENT = b"seven torques" * 40_000


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("POSSE_DATA", raising=False)
    runner = CliRunner()
    return lambda *arguments: runner.invoke(command.app, [str(part) for part in arguments], catch_exceptions=False)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def address(tmp_path_factory, monkeypatch):
    """A web server with the files that the catalogue, for the time of the test, calls SARCOS."""
    site = tmp_path_factory.mktemp("site")
    (site / "test.mat").write_bytes(CONTENT)
    (site / "wrong.mat").write_bytes(b"<html>")
    monkeypatch.setenv("no_proxy", "*")
    web = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    base = f"http://127.0.0.1:{web.server_port}"
    for name, file in {"sarcos": "test.mat", "sarcos-train": "none.mat"}.items():
        entry = DATASETS[name]
        source = replace(entry.files[0], sha256=hashlib.sha256(CONTENT).hexdigest(), git_blob=None)
        monkeypatch.setitem(DATASETS, name, replace(entry, files=(source,), addresses=(f"{base}/{file}",)))
    yield base
    web.shutdown()
    thread.join()
    web.server_close()


def test_list_shows_every_dataset_with_its_terms(run, tmp_path):
    shown = run("list", "--data", tmp_path).stdout

    for name, entry in DATASETS.items():
        line = next(line for line in shown.splitlines() if line.startswith(f"{name} "))
        assert entry.title in line
        assert entry.licence in line
        assert "missing" in line
    assert f"in {tmp_path}" in shown


def test_list_without_a_folder_says_how_to_name_one(run):
    shown = run("list").stdout

    assert "missing" not in shown
    assert "pass --data DIR or set POSSE_DATA=DIR" in shown


def test_fetch_puts_the_file_into_place_and_tells_the_terms(run, tmp_path, address):
    done = run("fetch", "sarcos", "--data", tmp_path / "new")

    file = tmp_path / "new" / "sarcos" / "sarcos_inv_test.mat"
    assert done.exit_code == 0
    assert file.read_bytes() == CONTENT
    assert f"sarcos: fetched, {file}" in done.stdout
    assert DATASETS["sarcos"].terms in done.stdout


def test_fetching_again_does_nothing(run, tmp_path, address):
    run("fetch", "sarcos", "--data", tmp_path)
    again = run("fetch", "sarcos", "sarcos", "--data", tmp_path)

    assert again.stdout == f"sarcos: already there, {tmp_path / 'sarcos' / 'sarcos_inv_test.mat'}\n"


def test_one_failure_of_several_does_not_stop_the_others(run, tmp_path, address):
    done = run("fetch", "sarcos-train", "sarcos", "--data", tmp_path)

    assert done.exit_code == 2
    assert "posse: cannot download" in done.stderr
    assert "none.mat: the server answers 404" in done.stderr
    assert (tmp_path / "sarcos" / "sarcos_inv_test.mat").read_bytes() == CONTENT


def test_fetch_all_is_every_dataset(run, tmp_path, monkeypatch):
    asked = []

    def pretend(name, folder, **settings):
        asked.append((name, folder))
        return fetching.Fetched(name, False, ())

    monkeypatch.setattr(fetching, "fetch", pretend)
    run("fetch", "all", "--data", tmp_path)

    assert asked == [(name, tmp_path) for name in DATASETS]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            ["fetch", "sarcos"],
            MissingData,
            r"no data folder was named: posse lab data fetch sarcos --data DIR, or set POSSE",
        ),
        (["verify"], MissingData, r"no data folder was named: posse lab data verify --data DIR"),
        (["verify", "--data", "no/such/folder"], MissingData, r"no folder no/such/folder"),
        (["fetch", "sarkos", "--data", "."], UnknownDataset, "did you mean 'sarcos'"),
        (["verify", "letter", "sarkos", "--data", "."], UnknownDataset, "did you mean 'sarcos'"),
        (["fetch", "all", "x", "--data", "."], UnknownDataset, "no dataset 'x'"),
        (["fetch", "sarcos-train"], MissingData, "--data DIR"),
    ],
)
def test_bad_input_is_one_clear_error(run, arguments, error, words):
    with pytest.raises(error, match=words):
        run(*arguments)


def test_one_failure_of_one_is_its_error(run, tmp_path, address):
    with pytest.raises(FetchFailed, match="the server answers 404"):
        run("fetch", "sarcos-train", "--data", tmp_path)


def test_verify_names_every_file(run, tmp_path, address):
    run("fetch", "sarcos", "--data", tmp_path)

    done = run("verify", "--data", tmp_path)

    assert done.exit_code == 0
    assert "sarcos: sarcos/sarcos_inv_test.mat: ok\n" in done.stdout
    assert "letter: letter/letter-recognition.data: missing\n" in done.stdout
    assert "activity: activity/S2_Dataset: missing\n" in done.stdout
    assert len(done.stdout.splitlines()) == sum(len(entry.files) for entry in DATASETS.values())


def test_missing_counts_only_when_named(run, tmp_path, address):
    assert run("verify", "letter", "--data", tmp_path).exit_code == 1
    assert run("verify", "all", "--data", tmp_path).exit_code == 0
    run("fetch", "sarcos", "--data", tmp_path)
    assert run("verify", "sarcos", "--data", tmp_path).exit_code == 0
    assert run("verify", "sarcos", "letter", "--data", tmp_path).exit_code == 1


def test_damaged_always_counts_and_both_checksums_are_told(run, tmp_path, address):
    (tmp_path / "sarcos").mkdir()
    (tmp_path / "sarcos" / "sarcos_inv_test.mat").write_bytes(b"mine")

    done = run("verify", "--data", tmp_path)

    assert done.exit_code == 1
    expected, found = hashlib.sha256(CONTENT).hexdigest(), hashlib.sha256(b"mine").hexdigest()
    assert f"sarcos_inv_test.mat: damaged: expected SHA-256 {expected}, but {found} came" in done.stdout


def test_a_file_without_a_known_checksum_is_not_called_ok(run, tmp_path):
    folder = tmp_path / "movielens" / "ml-10M100K"
    folder.mkdir(parents=True)
    (folder / "movies.dat").write_bytes(b"1::One::Drama\n")

    done = run("verify", "movielens-10m", "--data", tmp_path)

    assert "movielens-10m: movielens/ml-10M100K/movies.dat: there, but no checksum of it is known" in done.stdout
