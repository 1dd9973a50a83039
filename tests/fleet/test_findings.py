"""Every situation in which data cannot tell ends in a sentence, and ordinary data in none."""

import numpy as np
import polars as pl
import pytest

from posse import FeatureSpec, Posse
from posse.features import one_hot
from posse.fleet.replica import Replica

ARMS = ["red", "green", "blue"]


def fleet_with(table, *, arms=ARMS, features=("a", "b"), **settings):
    fleet = Posse(arms=arms, features=FeatureSpec(list(features)), seed=3, **settings)
    if table is not None:
        fleet.learn_many(table)
    return fleet


def said(fleet, *words):
    """Return how many findings hold all these words."""
    return sum(all(word in finding for word in words) for finding in fleet.findings())


@pytest.fixture(scope="module")
def healthy(table):
    return table(1500, n_tasks=20)


def test_a_healthy_fleet_has_no_findings(healthy, tmp_path):
    fleet = fleet_with(healthy)
    assert fleet.findings() == []
    fleet.save(tmp_path / "fleet.posse")
    assert Posse.load(tmp_path / "fleet.posse").findings() == []
    assert fleet_with(healthy, background=True).findings() == []


def test_nothing_learned_is_one_sentence():
    assert fleet_with(None).findings() == ["there are no rewards yet: what is believed is the start value of the prior"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.with_columns(task=pl.lit("only")), ["one task only"]),
        (lambda t: t.head(1), ["one reward only"]),
        (lambda t: t.filter(pl.col("arm") != "green"), ["arm 'green' has no rewards yet"]),
        (lambda t: t.filter(pl.col("arm") == "red"), ["arms 'green' and 'blue' have no rewards yet"]),
        (
            lambda t: t.filter((pl.col("arm") != "green") | (pl.col("task") == "t3")),
            ["arm 'green' was seen in one task only"],
        ),
        (
            lambda t: pl.concat([t.filter(pl.col("arm") != "blue"), t.filter(pl.col("arm") == "blue").unique("task")]),
            ["arm 'blue' has one reward per task"],
        ),
        (lambda t: t.with_columns(a=pl.lit(0.0)), ["feature 'a' is always 0"]),
        (lambda t: t.with_columns(a=pl.lit(7.0)), ["feature 'a' is constant", "intercept"]),
        (lambda t: t.with_columns(b=3 * pl.col("a") - 1), ["features 'intercept', 'a' and 'b' are collinear"]),
        (lambda t: t.with_columns(reward=pl.lit(0.0)), ["all rewards are 0", "no scale"]),
        (lambda t: t.with_columns(reward=pl.lit(2.5)), ["all rewards are 2.5"]),
        (lambda t: t.with_columns(reward=pl.col("a") - pl.col("b")), ["fitted exactly"]),
        (lambda t: t.head(2), ["fewer rewards (2) than coefficients (3)"]),
        (
            lambda t: t.with_columns(reward=pl.when(pl.col("arm") == "red").then(1.0).otherwise(pl.col("reward"))),
            ["arm 'red' shows hardly any noise"],
        ),
        (
            lambda t: t.with_columns(reward=pl.when(pl.int_range(pl.len()) % 150 == 0).then(50.0).otherwise(0.01)),
            ["few rewards or tasks carry most of the variance"],
        ),
    ],
)
def test_findings_name_what_data_cannot_show(healthy, change, words, tmp_path):
    fleet = fleet_with(change(healthy))
    assert said(fleet, *words) == 1, fleet.findings()
    fleet.save(tmp_path / "fleet.posse")
    assert Posse.load(tmp_path / "fleet.posse").findings() == fleet.findings()


def test_categories_that_add_up_to_one_are_nothing_to_tell(healthy):
    rng = np.random.default_rng(2)
    rows = healthy.with_columns(
        sky=pl.Series(rng.choice(["sun", "rain", "snow"], len(healthy))), city=pl.Series(rng.choice(["x", "y"], 1500))
    )
    spec = ["a", "b", one_hot("sky", ["sun", "rain", "snow"]), one_hot("city", ["x", "y"])]
    assert fleet_with(rows, features=spec).findings() == []
    without = Posse(arms=ARMS, features=FeatureSpec(spec, intercept=False), seed=3)
    without.learn_many(rows)
    assert without.findings() == []
    # A category that goes with another one always is something to tell, and one that never came too.
    same = rows.with_columns(city=pl.when(pl.col("sky") == "sun").then(pl.lit("x")).otherwise(pl.lit("y")))
    assert said(fleet_with(same, features=spec), "'sky=sun' and 'city=x' are collinear") == 1
    never = rows.filter(pl.col("sky") != "snow")
    assert said(fleet_with(never, features=spec), "feature 'sky=snow' is always 0") == 1


def test_a_replica_that_adopts_a_population_looks_at_its_own_sums(healthy):
    zero = healthy.with_columns(a=pl.lit(0.0))
    leader, follower = (Replica(arms=ARMS, features=["a", "b"], seed=1) for _ in range(2))

    def learn(replica, table, *, catching_up=False):
        columns = (table[name].to_list() for name in ("task", "arm"))
        replica.learn(*columns, table.select("a", "b"), table["reward"].to_list(), catching_up=catching_up)

    learn(leader, healthy)
    learn(follower, zero.head(3))  # what it estimated itself, when feature a had always been 0
    learn(follower, healthy, catching_up=True)
    assert follower.adopt(leader.dump_population())
    assert not said(follower, "always 0")


def test_a_part_of_a_fleet_says_that_it_is_one(healthy, tmp_path):
    fleet_with(healthy).save(tmp_path / "fleet.posse")
    part = Posse.load(tmp_path / "fleet.posse", tasks=["t3"])
    assert part.findings() == [
        "only some tasks of this fleet were loaded: load all of it to see what could not be learned"
    ]


def test_forgotten_tasks_leave_no_findings_behind(healthy):
    fleet = fleet_with(healthy.with_columns(a=pl.when(pl.col("task") == "t1").then(pl.col("a")).otherwise(0.0)))
    assert not said(fleet, "always 0")
    fleet.forget("t1")
    assert said(fleet, "feature 'a' is always 0") == 1


def test_findings_are_in_the_overview_and_change_nothing(healthy, snapshot, differences):
    fleet = fleet_with(healthy.with_columns(a=pl.lit(0.0)))
    before = snapshot(fleet)
    assert fleet.overview().findings == fleet.overview().to_json()["findings"] == fleet.findings() != []
    assert differences(before, snapshot(fleet)) == []


@pytest.mark.parametrize("family", ["number", "binary", "count"])
@pytest.mark.parametrize("unknown", ["zeros", "other"])
def test_categories_that_are_not_declared_are_named_for_every_family(table, family, unknown):
    rows = table(600, n_tasks=20).with_row_index("i")
    rows = rows.with_columns(
        sky=pl.when(pl.col("i") % 6 == 0)
        .then(pl.lit("hail"))
        .when(pl.col("i") % 2 == 0)
        .then(pl.lit("sun"))
        .otherwise(pl.lit("rain")),
        reward=(pl.col("reward") > 0).cast(pl.Float64),
    ).drop("i")
    sky = one_hot("sky", ["sun", "rain"], unknown=unknown)

    fleet = fleet_with(rows, features=("a", "b", sky), rewards=family)

    assert said(fleet, "feature 'sky'", "in 100 of 600 rewards", "not declared") == 1


def test_revenue_has_no_findings_of_numbers():
    rng = np.random.default_rng(4)
    bought = rng.random(1200) < 0.1
    rows = pl.DataFrame(
        {
            "task": [f"t{number}" for number in rng.integers(20, size=1200)],
            "arm": np.array(ARMS)[rng.integers(3, size=1200)],
            "a": rng.normal(size=1200),
            "b": rng.normal(size=1200),
            "reward": bought * rng.lognormal(3.0, 0.8, size=1200),
        }
    )
    assert fleet_with(rows, rewards="revenue").findings() == []
    assert said(fleet_with(rows), 'rewards="revenue"', "are 0 and the others amounts") == 1
    price = rows.with_columns(reward=pl.col("reward").sign() * 9.99)
    assert fleet_with(price, rewards="revenue").findings() == []
    nothing = rows.with_columns(reward=0.0)
    assert fleet_with(nothing, rewards="revenue").findings() == ["every reward is 0: nothing says yet how much is paid"]
    everybody = rows.with_columns(reward=9.99)
    assert said(fleet_with(everybody, rewards="revenue"), "every reward is 9.99", "how many pay less") == 1
