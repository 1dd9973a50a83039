import pytest

from posse_lab.plotting.serve import plot_serve

MACHINE = {"processor": "Some Processor", "cores": 2, "posse": "0.1.0"}
PLAN = {"n_tasks": 10_000, "n_arms": 5, "n_features": 10, "connections": 16}


def run(storage, deciders, *, memory=(3e8, 3.1e8, 3.1e8), p99=0.02):
    latencies = {"requests": 30, "quantiles": {"p50": 0.004, "p95": 0.01, "p99": p99, "p99.9": 0.2}}
    timeline = [{"pairs": 1200 + i, "p99": p99} for i in range(3)]
    return {
        "storage": storage, "deciders": deciders, "memory": list(memory),
        "load": {"decide": latencies, "reward": latencies, "timeline": timeline},
    }  # fmt: skip


def drawn(tmp_path, read_words, runs):
    plot_serve({"machine": MACHINE, "plan": PLAN, "runs": runs}, [tmp_path / "serve.svg"])
    return " ".join(" ".join(word.text for word in read_words(tmp_path / "serve.svg")).split())


def test_every_storage_has_lines_beside_the_bars(tmp_path, read_words):
    said = drawn(tmp_path, read_words, [run("SQLite", 1), run("PostgreSQL", 2)])
    for title in ("Decisions with their rewards", "Requests of every second, 99 %", "Resident memory of the service"):
        assert title in said
    for name in ("SQLite 1202", "PostgreSQL 1202", "SQLite, decide", "PostgreSQL, reward", "bar 1000", "bar 50"):
        assert name in said
    assert "SQLite: 1 process; PostgreSQL: 2 processes" in said


@pytest.mark.parametrize("changes", [{"memory": ()}, {"p99": 0.0}])
def test_what_was_not_measured_is_left_out(tmp_path, read_words, changes):
    said = drawn(tmp_path, read_words, [run("SQLite", 1, **changes)])
    assert ("Resident memory" in said) == ("memory" not in changes)


def test_a_second_without_answers_is_a_gap(tmp_path, read_words):
    gap = run("SQLite", 1)
    gap["load"]["timeline"][1]["p99"] = None
    gap["load"]["reward"] = {"requests": 0, "quantiles": {}}
    said = drawn(tmp_path, read_words, [gap])
    assert "SQLite, decide" in said
    assert "SQLite, reward" not in said
