import numpy as np
import polars as pl
import pytest

from posse.errors import InvalidValue
from posse.offline import Always, Function, Limits, Logged, LoggedBandit, Uniform, evaluate
from posse.plotting.offline import plot_evaluation


def log(n_tasks=12, seed=0):
    rng = np.random.default_rng(seed)
    n = 40 * n_tasks
    arms = rng.integers(0, 3, n)
    return LoggedBandit(
        tasks=np.arange(n) % n_tasks,
        arms=arms,
        contexts=np.ones((n, 1)),
        rewards=arms + rng.standard_normal(n),
        propensities=np.full(n, 1 / 3),
        arm_labels=("a", "b", "c"),
    )


def leaning(data):
    return np.tile([0.1, 0.2, 0.7], (data.n_rows, 1))


def some(data=None, targets=None, **settings):
    targets = [Function(leaning, "leaning"), Always("c")] if targets is None else targets
    return evaluate(log() if data is None else data, targets, against=Logged(), **settings)


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_every_format_is_written_and_the_same_twice(tmp_path, ending):
    for name in ("one", "two"):
        plot_evaluation(some(), [tmp_path / f"{name}.{ending}"])

    assert (tmp_path / f"one.{ending}").stat().st_size > 1000
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_every_estimate_stands_under_its_target_and_nothing_touches(tmp_path, read_words):
    evaluation = some()
    plot_evaluation(evaluation, [tmp_path / "figure.svg"], note="A note.")
    words = [word.text for word in read_words(tmp_path / "figure.svg")]

    for name in ("leaning", "always c"):
        assert words.count(name) == 1
    for name in ("IPS", "SNIPS", "DM", "DR", "SWITCH-DR"):
        assert words.count(name) == 2  # the log itself is the line
    row = evaluation.table.filter((pl.col("target") == "leaning") & (pl.col("estimator") == "dr")).row(0, named=True)
    assert any(word.startswith(f"{row['value']:.2f} [{row['low']:.2f}, ") for word in words)
    effective = evaluation.targets[0].diagnostics.effective_rows
    assert f"leaning: {effective:.0f} effective rows" in words
    assert any("what the log itself earned" in word for word in words)
    paired = evaluation.differences.filter(target="leaning", estimator="dr").row(0, named=True)
    assert any(word.startswith(f"leaning less logged, paired, DR: {paired['value']:.3g} (") for word in words)
    assert "A note." in words


def test_what_was_refused_is_named_and_not_drawn(tmp_path, read_words):
    data = log()
    evaluation = some(data, [Function(leaning, "leaning"), Always("c")], limits=Limits(min_effective_rows=200))
    plot_evaluation(evaluation, [tmp_path / "figure.svg"])
    words = [word.text for word in read_words(tmp_path / "figure.svg")]

    assert evaluation.targets[1].refusals
    assert "always c" not in words
    assert any(word.startswith("Refused: always c (few-effective-rows") for word in words)


def test_the_log_alone_is_drawn_too(tmp_path, read_words):
    plot_evaluation(evaluate(log(), Logged()), [tmp_path / "figure.svg"])

    assert "logged" in [word.text for word in read_words(tmp_path / "figure.svg")]


def test_nothing_to_draw_and_nowhere_to_draw_are_errors(tmp_path):
    nothing = evaluate(log(), Uniform(), limits=Limits(min_effective_rows=1e9))
    with pytest.raises(InvalidValue, match="every target was refused"):
        plot_evaluation(nothing, [tmp_path / "figure.png"])
    with pytest.raises(InvalidValue, match="to end in"):
        plot_evaluation(some(), [tmp_path / "figure.bmp"])
