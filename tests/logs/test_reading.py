"""Any table, one reader: what becomes of every column, and what is refused before anything is learned."""

import gzip
import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pytest

from posse import Posse, load_retailer
from posse.errors import InvalidValue, PosseError
from posse.fleet.decision import Decision
from posse.logs import Log, Names, read_table, write_log
from posse.offline import Logged, Uniform, evaluate

SHOP = {"task": "store", "arm": "offer", "reward": "sold"}
ROWS = 60


def shop(**more):
    """Return visits of a shop; a column that is None is left out."""
    rng = np.random.default_rng(3)
    table = {
        "store": [f"store {row % 6}" for row in range(ROWS)],
        "offer": [["cake", "tea"][int(i)] for i in rng.integers(2, size=ROWS)],
        "sold": rng.integers(2, size=ROWS).tolist(),
        "age": rng.normal(40, 9, size=ROWS).round(1).tolist(),
        "city": [["Bonn", "Ulm", None][int(i)] for i in rng.integers(3, size=ROWS)],
        **more,
    }
    return {name: values for name, values in table.items() if values is not None}


def uses(table, **asked):
    return {use.name: use.use for use in read_table(table, **SHOP, **asked).columns}


def test_columns_without_a_name_of_ours_are_read_by_what_they_are():
    days = pl.date_range(pl.date(2026, 1, 1), pl.date(2026, 3, 1), eager=True)
    log = read_table(
        shop(
            **{"Unnamed: 0": list(range(ROWS))},
            timestamp=[f"2026-01-{1 + row // 24:02} {row % 24:02}:30:00" for row in range(ROWS)],
            day=[f"{1 + row % 27:02}.01.2026" for row in range(ROWS)],
            born=days.to_list(),
            session=[f"s{row}" for row in range(ROWS)],
            number=list(range(1, ROWS + 1)),
            customer_id=[row % 7 for row in range(ROWS)],
            country=["DE"] * ROWS,
            nothing=[None] * ROWS,
            p=[0.5, 0.25] * (ROWS // 2),
            phone=[True, False] * (ROWS // 2),
            reward_time=[1.77e9] * ROWS,
            basket=[[1, 2]] * ROWS,
        ),
        **SHOP,
    )

    assert {use.name: use.use for use in log.columns} == {
        "store": "task", "offer": "arm", "sold": "reward", "age": "feature", "city": "feature", "phone": "feature",
        "Unnamed: 0": "left out", "timestamp": "time", "day": "left out", "born": "left out", "session": "left out",
        "number": "left out", "customer_id": "left out", "country": "left out", "nothing": "left out",
        "p": "propensity", "reward_time": "of logs", "basket": "left out",
    }  # fmt: skip
    notes = {use.name: use.note for use in log.columns}
    assert notes["city"] == "category, 2 levels"
    assert (notes["day"], notes["born"]) == ("a time, and there is another", "a time")
    assert log.features == ["age", "city", "phone"]
    assert log.frame["propensity"].to_list()[:2] == [0.5, 0.25]
    assert str(log.frame["time"][25]) == "2026-01-02 01:30:00+00:00"
    assert log.names == Names("store", "offer", "sale")


def test_who_names_a_column_is_right():
    table = shop(
        day=[f"2026-01-{1 + row % 27:02}" for row in range(ROWS)],
        chance=[0.5] * ROWS,
        customer_id=[row % 7 for row in range(ROWS)],
        p=[0.1] * ROWS,
        when=[1.77e9 + row for row in range(ROWS)],
    )
    found = uses(table, propensity="chance", time="when", ignore=["age"], also=["customer_id"])
    assert [name for name, use in found.items() if use == "feature"] == ["city", "customer_id"]
    assert (found["chance"], found["when"]) == ("propensity", "time")
    assert (found["p"], found["day"], found["age"]) == ("left out",) * 3
    found = uses(table, features=["day"])  # 27 one-hot columns, if that is what somebody wants
    assert [name for name, use in found.items() if use == "feature"] == ["day"]
    assert (found["p"], found["city"]) == ("propensity", "left out")


@pytest.mark.parametrize(
    ("values", "is_time"),
    [
        ([1_770_000_000 + 60 * row for row in range(ROWS)], True),
        ([1_770_000_000_000.0 - row for row in range(ROWS)], True),  # in any order, by its name
        ([20260101 + row % 28 for row in range(ROWS)], True),
        ([f"2026-01-01T00:00:{row:02}Z" for row in range(ROWS)], True),
        ([f"{1 + row % 12}/{13 + row % 15}/2026" for row in range(ROWS)], True),
        ([row % 24 for row in range(ROWS)], False),  # the hour, which is a number
        ([["morning", "night"][row % 2] for row in range(ROWS)], False),
    ],
)
def test_times_are_known_by_their_values(values, is_time):
    assert uses(shop(time=values))["time"] == ("time" if is_time else "feature")


def test_a_date_of_which_day_or_month_comes_first_is_no_time_and_no_feature():
    days = [f"0{1 + row % 9}/0{1 + row % 8}/2026" for row in range(ROWS)]
    assert uses(shop(date=days))["date"] == "left out"
    with pytest.raises(InvalidValue, match="day or month"):
        read_table(shop(date=days), **SHOP, time="date")


@pytest.mark.parametrize(
    ("rewards", "family", "why"),
    [
        ([0, 1], "binary", "0 and 1"),
        ([0.0, 1.0], "binary", "0 and 1"),
        ([True, False], "binary", "true or false"),
        (["True", "False"], "binary", "true or false"),  # as pandas writes them
        ([0, 1, 3, 2], "count", "from 0 to 3"),
        ([1, 5, 3, 2], "number", "from 1 to 5"),  # stars
        ([0, 0, 0, 49.9], "revenue", "75% are 0"),
        ([0, 0, 0, 50], "revenue", "75% are 0"),
        ([-1.5, 2, 0.3, 4], "number", "from -1.5 to 4"),
    ],
)
def test_the_family_of_rewards_is_recognised_and_can_be_said(rewards, family, why):
    table = shop(sold=(rewards * ROWS)[:ROWS])
    log = read_table(table, **SHOP)
    note = next(use.note for use in log.columns if use.use == "reward")
    assert log.rewards == family
    assert note.startswith(family)
    assert why in note
    assert read_table(table, **SHOP, rewards="number").rewards == "number"


def written(path, frame):
    match path.name.partition(".")[2]:
        case "csv":
            frame.write_csv(path)
        case "tsv":
            frame.write_csv(path, separator="\t")
        case "parquet":
            frame.write_parquet(path)
        case "jsonl":
            frame.write_ndjson(path)
        case "csv.gz":
            path.write_bytes(gzip.compress(frame.write_csv().encode()))
        case "jsonl.gz":
            path.write_bytes(gzip.compress(frame.write_ndjson().encode()))
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet", "jsonl", "jsonl.gz"])
def test_the_same_log_from_every_file(tmp_path, kind):
    frame = pl.DataFrame(shop(pscore=[0.5] * ROWS))
    assert read_table(written(tmp_path / f"shop.{kind}", frame), **SHOP) == read_table(frame, **SHOP)


def test_the_same_log_from_every_library():
    frame = pl.DataFrame(shop(pscore=[0.5] * ROWS))
    expected = read_table(frame, **SHOP)
    for table in (frame.to_arrow(), frame.lazy(), frame.to_dict(as_series=False), pd.DataFrame(frame.to_dict())):
        assert read_table(table, **SHOP) == expected


def test_logs_of_posse_are_read_as_they_are(tmp_path):
    log = load_retailer(200)
    assert read_table(log) is not None
    for kind in ("jsonl", "parquet", "jsonl.gz"):
        write_log(log, tmp_path / f"log.{kind}")
        found = read_table(tmp_path / f"log.{kind}")
        assert found == log
        assert (found.rewards, found.columns) == ("binary", ())
    assert read_table(log.frame) == log
    assert read_table(log).names == log.names
    assert read_table(log, ignore=["phone"]).features == ["returning", "basket", "weekend"]
    assert read_table(log, features=["phone"]).features == ["phone"]
    with pytest.raises(InvalidValue, match=r"'height'.*returning"):
        read_table(log, features=["height"])
    with pytest.raises(InvalidValue, match="a log of posse's"):
        read_table(tmp_path / "log.jsonl", task="store")


def test_a_fleet_is_fitted_evaluated_and_reported_in_the_words_of_the_table(tmp_path):
    rng = np.random.default_rng(1)
    n = 1200
    store, offer = rng.integers(30, size=n), rng.integers(2, size=n)
    frame = pd.DataFrame(
        {
            "store": [f"s{i}" for i in store], "offer": np.array(["cake", "tea"])[offer],
            "sold": (rng.random(n) < np.where(offer == 1, 0.6, 0.2)).astype(int), "age": rng.normal(size=n),
            "propensity": 0.5,
        }
    )  # fmt: skip
    stores = Posse.fit(frame, **SHOP, seed=1)

    assert (stores.rewards, stores.features.names, stores.n_rewards) == ("binary", ("age",), n)
    decision = stores.decide("s3", {"age": 0.0}, explore=False)
    assert isinstance(decision, Decision)
    assert decision.arm == "tea"
    frame.to_csv(tmp_path / "shop.csv", index=False)
    (tmp_path / "many").mkdir()
    for part in range(2):
        frame[part::2].to_csv(tmp_path / "many" / f"{part}.csv", index=False)
    for path in ("shop.csv", "many"):
        again = Posse.fit(tmp_path / path, **SHOP, seed=1, ignore=["age"])
        assert (again.rewards, again.features.names, again.n_rewards) == ("binary", (), n)
    log = read_table(frame, **SHOP)
    value = evaluate(log, Uniform(), against=Logged(), estimators=["ips"]).table["value"][0]
    assert value == pytest.approx(frame["sold"].mean())
    plain = frame.rename(columns={"store": "task", "offer": "arm", "sold": "reward"})
    assert evaluate(plain, Uniform(), estimators=["ips"]).table["value"][0] == value
    stores.report(log).save(tmp_path / "report.html")
    assert "Which offer in which store" in (tmp_path / "report.html").read_text("utf-8")


def test_a_public_click_log_is_read_right():
    rng = np.random.default_rng(0)
    n = 2000
    log = read_table(click_log(rng, n), task="position", arm="item_id", reward="click")

    left = {use.name: use.note for use in log.columns if use.use == "left out"}
    assert left == {"": "an index that pandas wrote"}
    assert log.rewards == "binary"
    assert (len(log.tasks), len(log.arms)) == (3, 34)
    assert log.features == [f"user_feature_{i}" for i in range(4)] + ["user-item_affinity_0", "user-item_affinity_1"]
    assert not log.frame["time"].null_count()
    assert log.frame["propensity"].to_list() == [1 / 34] * n


def click_log(rng, n):
    """Return a table like that of a shop of clothes: who saw which item at which of three places, and clicked."""
    users = {
        f"user_feature_{i}": [hashlib.md5(bytes([level])).hexdigest() for level in rng.integers(3 + i, size=n)]
        for i in range(4)
    }
    return {
        "": range(n),
        "timestamp": [f"2019-11-24 00:{row // 60 % 60:02}:{row % 60:02}.{row:06}+00:00" for row in range(n)],
        "item_id": rng.integers(34, size=n), "position": rng.integers(1, 4, size=n),
        "click": (rng.random(n) < 0.05).astype(int), "propensity_score": np.full(n, 1 / 34), **users,
        **{f"user-item_affinity_{i}": rng.integers(3, size=n).astype(float) for i in range(2)},
    }  # fmt: skip


def with_value(name, row, value):
    values = list(shop()[name])
    values[row] = value
    return {name: values}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"store": None}, "store.*one of offer, sold"),
        ({"store": None, "stores": ["a", "b"] * 30}, "did you mean 'stores'"),
        (with_value("store", 4, None), "store.* in every row.* row 4"),
        (with_value("offer", 4, None), "offer.* in every row.* row 4"),
        (with_value("offer", 4, "Cake "), "'Cake ' and 'cake'"),
        ({"offer": ["tea"] * ROWS}, "at least two arms"),
        ({"store": [f"visit {row}" for row in range(ROWS)]}, "'store' looks like an id"),
        ({"store": [1.5] * ROWS}, "text or whole numbers"),
        (with_value("sold", 4, "n/a"), "got 'n/a' in row 4"),
        ({"sold": [1] * ROWS}, "rewards that differ"),
        ({"sold": [None] * ROWS}, "got none"),
        ({"sold": [0.5, float("inf")] * 30}, "finite rewards"),
        ({"sold": [0.5, float("nan")] * 30}, "finite rewards"),
        ({"age": [0.5, float("inf")] * 30}, "'age'.* row 1"),
        ({"propensity": [0.5, 0.0] * 30}, "propensities above 0.* row 1"),
        ({"chance": [0.5, 1.5] * 30}, "propensities above 0.* row 1"),
        ({"chance": ["x"] * ROWS}, "numbers in the propensity column"),
        ({"when": ["soon"] * ROWS}, "time must be ISO 8601"),
    ],
)
def test_what_cannot_be_learned_from_is_one_clear_sentence(table, words):
    roles = {role: column for role, column in (("propensity", "chance"), ("time", "when")) if column in table}
    with pytest.raises(PosseError, match=words) as raised:
        Posse.fit(shop(**table), **SHOP, **roles)
    assert "\n" not in str(raised.value)


def test_columns_that_are_not_named_are_asked_for():
    with pytest.raises(
        InvalidValue, match=r"task, arm and reward columns.* store, offer, sold, age, city.* task='NAME'"
    ):
        read_table(shop())
    with pytest.raises(InvalidValue, match="'sold' for two"):
        read_table(shop(), task="store", arm="sold", reward="sold")
    with pytest.raises(InvalidValue, match="list of names"):
        read_table(shop(), **SHOP, features="age")
    for empty in (pd.DataFrame(), pd.DataFrame({"store": [], "offer": [], "sold": []})):
        with pytest.raises(InvalidValue, match="rows"):
            read_table(empty, **SHOP)


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
def test_rows_without_a_reward_are_asked_about(make):
    table = make(shop(sold=[None, 0.0, 1.0] * 20))
    with pytest.raises(InvalidValue, match=r"20 of 60 without.*absent_reward=0.*missing_reward='skip'"):
        Posse.fit(table, **SHOP)
    assert Posse.fit(table, **SHOP, missing_reward="skip").n_rewards == 40
    assert Posse.fit(table, **SHOP, absent_reward=0.0).n_rewards == 60
    with pytest.raises(InvalidValue, match="got both"):
        Posse.fit(table, **SHOP, absent_reward=0.0, missing_reward="skip")
    with pytest.raises(InvalidValue, match="rewards that differ"):  # only what was bought is in the table
        Posse.fit(make(shop(sold=[None, 1.0] * 30)), **SHOP, missing_reward="skip")
    waiting = Log({"task": ["a", "a", "b"], "arm": ["x", "y", "x"], "reward": [None, 1.0, 2.0]})
    assert Posse.fit(waiting).n_rewards == 2  # rewards of a log may be on their way


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("csv", "cut off"),
        ("csv.gz", "cut off"),
        ("parquet", "cannot be read"),
        ("jsonl", "cut off"),
        ("jsonl.gz", "cut off"),
    ],
)
def test_a_file_that_is_cut_off_is_refused(tmp_path, kind, words):
    path = written(tmp_path / f"shop.{kind}", pl.DataFrame(shop()))
    data = path.read_bytes()
    path.write_bytes(data[: data[:-20].rfind(b",")] if kind in ("csv", "jsonl") else data[: len(data) // 2])
    with pytest.raises(PosseError, match=words):
        read_table(path, **SHOP)


def test_an_empty_file_is_refused(tmp_path):
    for text in ("", "store,offer,sold\n"):
        (tmp_path / "shop.csv").write_text(text)
        with pytest.raises(InvalidValue, match="rows"):
            read_table(tmp_path / "shop.csv", **SHOP)
    (tmp_path / "shop.csv").write_text("store;offer;sold\na;b;1\n")
    with pytest.raises(InvalidValue, match="got ';'"):
        read_table(tmp_path / "shop.csv", **SHOP)
    (tmp_path / "shop.csv").write_text("store,offer,sold,sold\na,b,1,2\n")
    with pytest.raises(InvalidValue, match='two columns "sold"'):
        read_table(tmp_path / "shop.csv", **SHOP)
