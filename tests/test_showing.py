"""Anything public shows itself in at most 40 lines, however much is in it."""

import numpy as np
import pytest

from posse import Posse, Prior, Statistics, SyntheticWorld, posterior, simulate
from posse.model import estimate_prior
from posse.offline import Always, Logged, LoggedBandit, Uniform, evaluate
from posse.showing import Sheet, Table

N_ARMS, N_TASKS, N_FEATURES, N_ROWS = 40, 30, 30, 3000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return {
        "task": rng.integers(0, N_TASKS, N_ROWS),
        "arm": rng.integers(0, N_ARMS, N_ROWS),
        "context": rng.normal(size=(N_ROWS, N_FEATURES)),
        "reward": rng.normal(size=N_ROWS),
    }


@pytest.fixture(scope="module")
def answers(rows):
    arms = [f"<arm {place} with a name that is far too long for any table of a terminal>" for place in range(N_ARMS)]
    names = [f"feature {place}" for place in range(N_FEATURES)]
    fleet = Posse(arms=arms, features=names, seed=1, policy="ebm-ts", prior=Prior(
        covariance=np.tile(np.eye(N_FEATURES + 1), (N_ARMS, 1, 1)), noise_variance=np.ones(N_ARMS), shared_precision=1.0
    ))  # fmt: skip
    columns = {name: rows["context"][:, place] for place, name in enumerate(names)}
    fleet.learn_many(
        {"task": rows["task"], "arm": [arms[arm] for arm in rows["arm"]], "reward": rows["reward"], **columns}
    )
    many = fleet.decide_many(rows["task"][:500], rows["context"][:500])
    statistics = Statistics.from_data(**rows, n_tasks=N_TASKS, n_arms=N_ARMS)
    log = LoggedBandit(
        tasks=rows["task"],
        arms=rows["arm"],
        contexts=rows["context"][:, :2],
        rewards=rows["reward"],
        propensities=np.full(N_ROWS, 1 / N_ARMS),
    )
    targets = [Uniform(), *map(Always, range(20))]
    return {
        "fleet": fleet,
        "decision": many[0],
        "decisions": many,
        "overview": fleet.overview(),
        "coefficients": fleet.coefficients(3),
        "expectation": fleet.expected(3, rows["context"][0]),
        "results": simulate(SyntheticWorld(), {"random": "random"}, horizon=20, seeds=2),
        "evaluation": evaluate(log, targets, against=Logged(), estimators=["ips", "snips"]),
        "arm": fleet.overview().arms[0],
        "borrowing": fleet.borrowing(3),
        "statistics": statistics,
        "prior": fleet.prior,
        "estimate": estimate_prior(statistics, method="moments"),
        "posterior": posterior(statistics, Prior(
            covariance=np.tile(np.eye(N_FEATURES), (N_ARMS, 1, 1)), noise_variance=np.ones(N_ARMS), shared_precision=1.0
        )),
        "draw": SyntheticWorld().draw(0, 1000),
    }  # fmt: skip


def test_every_repr_fits_on_a_screen(answers):
    for name, answer in answers.items():
        assert repr(answer).count("\n") < 40, name
        assert len(repr(answer)) < 6000, name


def test_what_people_look_at_has_html_with_names_escaped(answers):
    for name in ("fleet", "decision", "decisions", "overview", "coefficients", "expectation", "results", "evaluation"):
        shown = answers[name]._repr_html_()
        assert "<table>" in shown, name
        assert "<arm" not in shown, name
    assert "&lt;arm" in answers["overview"]._repr_html_()


def test_a_shortened_repr_names_what_it_omits(answers):
    assert "8 of 40 rows" in repr(answers["overview"])
    assert "8 of 500 rows" in repr(answers["decisions"])
    assert "8 of 31 rows, 8 of 41 columns" in repr(answers["coefficients"])


def test_the_chosen_arm_comes_with_its_numbers():
    fleet = Posse(arms=["red", "green"], features=["age"], seed=7)
    decision = fleet.decide("a", [1.0])
    first, head, *lines = repr(decision).splitlines()
    assert first == f"Decision {decision.id}: arm 'green' for task 'a', propensity 0.5"
    assert head.split() == ["arm", "probability", "mean", "sd"]
    assert len(lines) == 2
    assert bool(Posse(arms=["red"], features=["age"]))
    assert (len(fleet), len(Posse(arms=["red"], features=["age"]))) == (1, 0)


def test_numbers_stand_to_the_right_and_names_to_the_left():
    sheet = Sheet("title", [Table("", ("name", "number"), [("a", 1.23456), ("long name", 123456.0)])], ["a note"])
    assert sheet.text().splitlines() == [
        "title",
        "  name        number",
        "  a             1.23",
        "  long name  123,456",
        "- a note",
    ]
