import pytest

from posse_lab.plotting.bench import plot_scale, plot_simulate, plot_step

MACHINE = {"processor": "Some Processor", "cores": 2, "posse": "0.1.0"}
CALLS = ("choose, ebmTS", "choose, ebmUCB", "update", "Posse.decide", "Posse.decide, names", "Posse.reward")


@pytest.fixture
def step():
    base = {"n_tasks": 1000, "n_arms": 5, "n_features": 10}
    sizes = [base, *(base | {"n_tasks": n} for n in (100, 100_000)), base | {"n_arms": 26}, base | {"n_features": 32}]
    rows = [
        {"what": what, **size, "best": (i + 1) * 1e-6 * size["n_arms"], "median": 1.0, "calls": 1}
        for i, what in enumerate((*CALLS, "Posse.refresh"))
        for size in sizes
    ]
    rows.append({"what": "learn_many, table", **base, "best": 1e-6, "median": 1.0, "calls": 1})
    floors = [
        base | {"n_tasks": n, "n_features": d, "step_seconds": {"best": n * d * 1e-7}, "floor_seconds": d * 1e-8}
        for n in (10, 1000)
        for d in (10, 32)
    ]
    return {"machine": MACHINE, "base": base, "rows": rows, "floors": floors}


@pytest.fixture
def scale():
    latencies = {"best": 1e-5, "median": 2e-5, "p99.9": 2e-4}
    results = [
        {
            "job": {"n_tasks": n, "n_arms": 5, "n_features": 10, "rewards": 20},
            "rows_per_second": 1.2e6,
            "refresh": n / 30_000,
            "resident": n * 6e3,
            "peak": n * 7e3,
            "decide": latencies,
            "decide_behind": {"p99.9": 1e-3},
        }
        for n in (1_000_000, 1_000, 100_000)
    ]
    return {"machine": MACHINE, "results": results}


@pytest.fixture
def simulate():
    size = {"n_tasks": 1000, "n_arms": 5, "n_features": 3}
    rows = [
        {"size": size | {"n_tasks": n}, "policy": policy, "steps": 10, "best": 1e-6 * n, "median": 2e-6 * n}
        for n in (10, 1000)
        for policy in ("evidence UCB", "ebmUCB", "Random")
    ]
    return {"machine": MACHINE, "rows": rows}


def texts(words):
    return [word.text for word in words]


def test_calls_have_lines_against_tasks_arms_and_features(tmp_path, read_words, step):
    plot_step(step, [tmp_path / "step.svg"])
    said = texts(read_words(tmp_path / "step.svg"))

    for title in ("A call, K=5, d=10", "A call, N=1,000, d=10", "A call, N=1,000, K=5"):
        assert title in said
    assert "The compiled step and its floor, K=5" in said
    # At the right end of a line stands its value: 5 arms at a hundred thousand tasks, then 26 arms.
    assert "update\u200215.0" in said
    assert "update\u200278.0" in said
    assert "step, N=10\u200232.0" in said
    assert not any("refresh" in text or "learn_many" in text for text in said)
    assert any("Some Processor, 2 cores" in text for text in said)


def test_a_fleet_is_drawn_against_its_tasks_with_the_bars(tmp_path, read_words, scale):
    plot_scale(scale, [tmp_path / "scale.svg"])
    said = texts(read_words(tmp_path / "scale.svg"))

    # The largest is last, whatever the order in the report.
    assert "refresh\u200233.3" in said
    assert "most\u20027.00" in said
    assert "99.9 % in a refresh\u20021000" in said
    assert "bar\u20021M" in said
    assert "bar in a refresh\u20022000" in said


def test_what_was_not_measured_has_no_line(tmp_path, read_words, scale):
    for result in scale["results"]:
        result["decide_behind"] = {}
        result["resident"] = None
    plot_scale(scale, [tmp_path / "scale.svg"])
    said = texts(read_words(tmp_path / "scale.svg"))

    assert not any(text.startswith(("99.9 % in", "in the end")) for text in said)
    assert "99.9 %\u2002200" in said


def test_policies_stand_under_their_world(tmp_path, read_words, simulate):
    plot_simulate(simulate, [tmp_path / "simulate.svg"])
    words = sorted(read_words(tmp_path / "simulate.svg"), key=lambda word: (round(word.baseline), word.left))

    assert texts(words)[:3] == ["N=10 K=5 d=3", "evidence UCB", "10 [10, 20]"]
    assert "N=1,000 K=5 d=3" in texts(words)
    assert "µs per step, one core" in texts(words)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_report_is_the_same_picture(tmp_path, ending, step, scale, simulate):
    for draw, report in ((plot_step, step), (plot_scale, scale), (plot_simulate, simulate)):
        for name in ("one", "two"):
            draw(report, [tmp_path / f"{name}.{ending}"])
        assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()
