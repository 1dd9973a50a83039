"""Wrong inputs as people make them: each is answered in one line that says what came and what to do."""

import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from posse import (
    Catalogue,
    EbmTS,
    FeatureSpec,
    HierarchicalRegressor,
    Posse,
    SyntheticWorld,
    load_retailer,
    make_policy,
    simulate,
)  # fmt: skip
from posse.cli.main import main
from posse.errors import PosseError
from posse.features import hashed, numeric, one_hot
from posse.logs import Log, read_log
from posse.offline import Always, Learned, Uniform, evaluate

LONGEST = 300
RAINY = {"hour": 9.5, "weather": "rain"}
TABLE = {
    "task": ["a", "a", "b", "b"], "arm": ["coffee", "cake"] * 2, "hour": [1.0, 2.0, 3.0, 4.0],
    "weather": ["sun", "rain"] * 2, "reward": [1.0, 0.0, 1.0, 1.0], "propensity": [0.5] * 4,
}  # fmt: skip
FEATURES = FeatureSpec(["hour", one_hot("weather", ["sun", "rain"])])


def table(**changes):
    return {name: values for name, values in (TABLE | changes).items() if values is not None}


def logged(**changes):
    frame = pl.DataFrame(table(**changes))
    names = [name for name in ("hour", "weather") if name in frame.columns]
    return Log(frame.with_columns(context=pl.struct(names)).drop(names))


@pytest.fixture
def given(tmp_path):
    """A fleet, a decision of it that has its reward, and files that are not what they should be."""
    fleet = Posse(arms=["coffee", "cake"], features=FEATURES, seed=7)
    decision = fleet.decide("store-17", RAINY)
    fleet.reward(decision, 1.0)
    clicks = Posse(arms=["coffee", "cake"], seed=7, rewards="binary")
    fleet.save(tmp_path / "good.posse")
    whole = (tmp_path / "good.posse").read_bytes()
    (tmp_path / "cut.posse").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "hostile.posse").write_bytes(b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.")
    (tmp_path / "empty.posse").write_bytes(b"")
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "header.csv").write_text("task,arm,reward,hour,weather\n")
    pl.DataFrame(table()).write_csv(tmp_path / "shop.csv")
    (tmp_path / "shop.xlsx").write_bytes(b"PK\x03\x04")
    (tmp_path / "broken.jsonl").write_text('{"task": "a", "arm":\n')
    (tmp_path / "odd.parquet").write_text("task,arm,reward\n")
    return SimpleNamespace(fleet=fleet, decision=decision, clicks=clicks, at=tmp_path)


PYTHON = {
    # A fleet.
    "no arms at all": (lambda _: Posse(), "at least one arm", "arms=["),
    "empty arms": (lambda _: Posse(arms=[]), "at least one arm", "got none"),
    "arms as one text": (lambda _: Posse(arms="coffee"), "sequence", "['coffee']"),
    "an arm twice": (lambda _: Posse(arms=["coffee", "cake", "coffee"]), "'coffee' twice"),
    "an arm that is a float": (lambda _: Posse(arms=[1.5, 2.5]), "1.5", "text or a whole number"),
    "arms of two kinds": (lambda _: Posse(arms=["1", 2]), "text or by whole numbers", "one of them"),
    "arms as a number": (lambda _: Posse(arms=3), "sequence of names", "int"),
    "features as one text": (lambda _: Posse(arms=["a", "b"], features="hour"), '["hour"]'),
    "a feature twice": (lambda _: Posse(arms=["a", "b"], features=["hour", "hour"]), "hour", "rename"),
    "a feature that is a number": (lambda _: Posse(arms=["a", "b"], features=[3]), "3", "one_hot"),
    "seed as text": (lambda _: Posse(arms=["a", "b"], seed="seven"), "whole number", "'seven'"),
    "a negative seed": (lambda _: Posse(arms=["a", "b"], seed=-1), "-1"),
    "a policy with a typo": (lambda _: Posse(arms=["a", "b"], policy="ebm-tss"), "'ebm-tss'", "did you mean 'ebm-ts'"),
    "a keyword with a typo": (lambda _: Posse(arms=["a", "b"], polcy="ebm-ts"), "'polcy'", "did you mean 'policy'"),
    "a kind of rewards that is none": (lambda _: Posse(arms=["a", "b"], rewards="clicks"), "'clicks'", "binary"),
    "a floor too high": (lambda _: Posse(arms=["a", "b"], floor=0.9), "0.5", "0.9"),
    "a negative half-life": (lambda _: Posse(arms=["a", "b"], drift=-3), "half-life", "-3"),
    "a half-life in words": (lambda _: Posse(arms=["a", "b"], drift="a week"), "'a week'", "learn"),
    "a budget above 1": (lambda _: Posse(arms=["a", "b"], evaluation_budget=5), "evaluation_budget", "5"),
    "a log that is no JSON Lines": (lambda g: Posse(arms=["a", "b"], log=g.at / "log.csv"), ".jsonl", "log.csv"),
    # Decisions.
    "a context that lacks a feature": (lambda g: g.fleet.decide("s", {"hour": 1}), "weather"),
    "a context with a feature more": (lambda g: g.fleet.decide("s", RAINY | {"age": 3}), "age", "not declared"),
    "a feature with a typo": (lambda g: g.fleet.decide("s", {"huor": 1, "weather": "sun"}), "huor", "mean", "hour"),
    "no context": (lambda g: g.fleet.decide("s"), "hour", "None"),
    "a context that is too long": (lambda g: g.fleet.decide("s", [1, "sun", 3]), "3 values", "2 features"),
    "text for a number": (lambda g: g.fleet.decide("s", {"hour": "nine", "weather": "sun"}), "hour", "nine", "number"),
    "a category never declared": (lambda g: g.fleet.decide("s", {"hour": 1, "weather": "snow"}), "snow", "rain"),
    "NaN in a context": (lambda g: g.fleet.decide("s", {"hour": float("nan"), "weather": "sun"}), "hour", "nan"),
    "infinity in a context": (lambda g: g.fleet.decide("s", {"hour": float("inf"), "weather": "sun"}), "hour", "inf"),
    "an arm with a typo": (
        lambda g: g.fleet.decide("s", RAINY, eligible=["cofee"]), "'cofee'", "did you mean 'coffee'",
    ),
    "no eligible arm": (lambda g: g.fleet.decide("s", RAINY, eligible=[]), "at least one", "leave eligible out"),
    "one eligible arm as text": (lambda g: g.fleet.decide("s", RAINY, eligible="coffee"), "'coffee'", "sequence"),
    "a task that is None": (lambda g: g.fleet.decide(None, RAINY), "None", "text or a whole number"),
    "a task of the other kind": (lambda g: g.fleet.decide(17, RAINY), "17", "text"),
    "too many places": (lambda g: g.fleet.decide("s", RAINY, k=5), "5", "2"),
    "fewer contexts than tasks": (lambda g: g.fleet.decide_many(["a", "b"], [RAINY]), "2 tasks", "1 context"),
    "an array of a wrong shape": (lambda g: g.fleet.decide_many(["a"], np.ones((1, 5))), "(1, 5)", "weather"),
    "an arm to retire with a typo": (lambda g: g.fleet.retire_arm("cak"), "'cak'", "did you mean 'cake'"),
    "an arm that is there already": (lambda g: g.fleet.add_arm("cake"), "'cake'", "already"),
    "a task to forget that is none": (lambda g: g.fleet.forget("store-71"), "'store-71'", "did you mean 'store-17'"),
    # Rewards.
    "a reward of an unknown decision": (lambda g: g.fleet.reward("abc-7", 1.0), "abc-7"),
    "a second reward": (lambda g: g.fleet.reward(g.decision, 0.0), "1", "0"),
    "a reward as text": (lambda g: g.fleet.reward(g.decision, "3.20"), "'3.20'", "number"),
    "a reward of NaN": (lambda g: g.fleet.reward(g.decision, float("nan")), "nan", "leave out"),
    "an infinite reward": (lambda g: g.fleet.reward(g.decision, float("inf")), "inf", "finite"),
    "a click that is 0.5": (lambda g: g.clicks.reward(g.clicks.decide("s"), 0.5), "0 or 1", "0.5"),
    "a context where a decision should be": (lambda g: g.fleet.reward(RAINY, 1.0), "dict", "id"),
    "fewer rewards than decisions": (lambda g: g.fleet.reward_many([g.decision.id], [1.0, 2.0]), "1", "2"),
    # Tables.
    "a table without a reward": (lambda g: g.fleet.learn_many(table(reward=None)), "'reward'", "hour"),
    "a column named otherwise": (lambda g: g.fleet.learn_many(table(), arm="offer"), "'offer'", "arm"),
    "rewards as text": (lambda g: g.fleet.learn_many(table(reward=["1", "0", "1", "x"])), "'reward'", "number"),
    "a table with an unknown arm": (
        lambda g: g.fleet.learn_many(table(arm=["coffee", "cake", "cofee", "cake"])), "'cofee'", "mean 'coffee'",
    ),
    "a table with a null task": (lambda g: g.fleet.learn_many(table(task=["a", None, "b", "b"])), "task", "row 1"),
    "NaN in a table": (lambda g: g.fleet.learn_many(table(reward=[1.0, np.nan, 1, 1])), "row 1", "skip"),
    "columns of two lengths": (lambda g: g.fleet.learn_many(table(hour=[1.0])), "hour", "4", "1"),
    "a file that is not there": (lambda g: g.fleet.learn_many(g.at / "shp.csv"), "shp.csv", "not there"),
    "a file without a line": (lambda g: g.fleet.learn_many(g.at / "empty.csv"), "empty.csv", "empty"),
    "a spreadsheet": (lambda g: g.fleet.learn_many(g.at / "shop.xlsx"), "shop.xlsx", ".csv"),
    "a number for a table": (lambda g: g.fleet.learn_many(7), "int", "data frame"),
    "Parquet that is none": (lambda g: g.fleet.learn_many(g.at / "odd.parquet"), "odd.parquet"),
    # Files of fleets.
    "a fleet that is not there": (lambda g: Posse.load(g.at / "god.posse"), "god.posse", "check the path"),
    "a fleet cut in half": (lambda g: Posse.load(g.at / "cut.posse"), "cut.posse"),
    "a pickle for a fleet": (lambda g: Posse.load(g.at / "hostile.posse"), "hostile.posse", "posse file"),
    "an empty file for a fleet": (lambda g: Posse.load(g.at / "empty.posse"), "empty.posse"),
    "a CSV for a fleet": (lambda g: Posse.load(g.at / "shop.csv"), "shop.csv"),
    "a folder for a fleet": (lambda g: Posse.load(g.at), "folder"),
    "saving into no folder": (lambda g: g.fleet.save(g.at / "none" / "x.posse"), "none", "folder"),
    # Catalogues, features, logs, evaluation, simulation, regression.
    "a catalogue without offers": (
        lambda _: Catalogue(["hour"], ["price"]).decide("s", {"hour": 1}, eligible={}), "at least one",
    ),
    "an offer that lacks a feature": (
        lambda _: Catalogue(["hour"], ["price"]).decide("s", {"hour": 1}, eligible={"tea": {}}), "tea", "price",
    ),
    "a category twice": (lambda _: one_hot("weather", ["sun", "sun"]), "sun", "twice"),
    "categories as one text": (lambda _: one_hot("weather", "sun"), "sun", "list"),
    "a scale that is none": (lambda _: numeric("hour", scale="log"), "log", "standard"),
    "no buckets": (lambda _: hashed("user", 0), "buckets", "0"),
    "a log without arms": (lambda _: Log(pl.DataFrame(table(arm=None))), "arm", "hour"),
    "a log that is no JSON": (lambda g: read_log(g.at / "broken.jsonl"), "broken.jsonl", "line 1"),
    "a propensity above 1": (
        lambda _: evaluate(logged(propensity=[0.5, 2.0, 0.5, 0.5]), Uniform()).estimate(), "propensities", "at most 1",
    ),
    "a log without propensities": (
        lambda _: evaluate(logged(propensity=None), Uniform()).estimate(), "propensities", "nobody can say",
    ),
    "an arm to evaluate with a typo": (
        lambda _: evaluate(load_retailer(300), Always("cuopon")), "'cuopon'", "did you mean 'coupon'",
    ),
    "a policy for a target": (lambda _: evaluate(logged(), "ebm-ts"), "'ebm-ts'", "Learned"),
    "a target that is learned by no policy": (lambda _: evaluate(logged(), Learned("ebm")), "'ebm'", "ebm-ts"),
    "an estimator that is none": (lambda _: evaluate(logged(), Uniform(), estimators=["drr"]), "drr", "'dr'"),
    "a policy to make with a typo": (
        lambda _: make_policy("lin-uc", n_tasks=1, n_arms=2, n_features=1), "'lin-uc'", "did you mean 'lin-ucb'",
    ),
    "a policy without arms": (lambda _: EbmTS(n_tasks=1, n_arms=0, n_features=1), "n_arms", "0"),
    "a horizon of 0": (lambda _: simulate(SyntheticWorld(), {"a": "random"}, horizon=0, seeds=1), "horizon", "0"),
    "no policies": (lambda _: simulate(SyntheticWorld(), {}, horizon=10, seeds=1), "at least one policy"),
    "a class for a world": (lambda _: simulate(SyntheticWorld, {"a": "random"}, horizon=9, seeds=1), "SyntheticWorld("),
    "fewer groups than rows": (
        lambda _: HierarchicalRegressor().fit(np.ones((3, 1)), np.ones(3), groups=[1]), "groups", "3", "1",
    ),
    "a way to estimate that is none": (
        lambda _: HierarchicalRegressor(method="bayes").fit(np.ones((2, 1)), np.ones(2), groups=[1, 2]),
        "'bayes'", "'reml'",
    ),
    "a regression of two lengths": (
        lambda _: HierarchicalRegressor().fit(np.ones((3, 1)), np.ones(2), groups=[1, 1, 2]), "3", "2",
    ),
    "a regression with NaN": (
        lambda _: HierarchicalRegressor().fit(np.full((3, 1), np.nan), np.ones(3), groups=[1, 1, 2]), "nan",
    ),
    "a prediction before the fit": (lambda _: HierarchicalRegressor().predict(np.ones((1, 1)), groups=[1]), "fit"),
}  # fmt: skip


def client_without_a_server():
    from posse.client import Client

    with Client("http://127.0.0.1:9", retries=0) as client:
        client.decide("shops", "shop-17", {"hour": 1})


def client_of_no_address():
    from posse.client import Client

    Client("localhost:8080")


PYTHON |= {
    "a client without a server": (lambda _: client_without_a_server(), "127.0.0.1:9", "posse serve"),
    "a client without http": (lambda _: client_of_no_address(), "localhost:8080", "http://"),
}


def require_one_line(message, words):
    assert "\n" not in message
    assert len(message) <= LONGEST
    for word in words:
        assert word in message, message


@pytest.mark.parametrize("name", PYTHON)
def test_a_wrong_call_is_one_clear_error(given, name):
    call, *words = PYTHON[name]
    before = given.fleet.tasks, given.fleet.n_rewards, given.fleet.n_decisions

    with pytest.raises((PosseError, TypeError)) as caught:
        call(given)

    # A call that does not fit a signature is Python's error, said by the class that was called.
    assert isinstance(caught.value, PosseError) or "has no argument" in str(caught.value)
    require_one_line(str(caught.value), words)
    assert (given.fleet.tasks, given.fleet.n_rewards, given.fleet.n_decisions) == before


COMMANDS = {
    "a command with a typo": ("fitt shop.csv", "'fitt'", "did you mean 'fit'", "--help"),
    "a command below with a typo": ("log chek x", "'chek'", "'check'"),
    "an option with a typo": ("fit shop.csv --polcy ebm-ts", "--polcy", "did you mean --policy"),
    "an option of another command": ("fit shop.csv --port 80", "--port", "posse fit --help"),
    "no file": ("fit", "log", "posse fit --help"),
    "a word too many": ("inspect good.posse more", "more", "posse inspect --help"),
    "an option without its value": ("fit shop.csv --policy", "--policy"),
    "text for a number": ("fit shop.csv --seed seven", "--seed", "'seven'", "whole number"),
    "text for a share": ("fit shop.csv --floor half", "--floor", "'half'", "number"),
    "a file that is not there": ("fit shp.csv", "shp.csv", "not there"),
    "a folder for a fleet": ("inspect .", "folder"),
    "a spreadsheet to learn": ("fit shop.xlsx", "shop.xlsx", ".csv"),
    "a file without a line": ("fit empty.csv", "empty.csv", "empty"),
    "a column named otherwise": ("fit shop.csv --arm-column offer", "'offer'", "--arm-column"),
    "a feature that is no column": ("fit shop.csv --feature huor", "huor", "hour"),
    "a policy with a typo": ("fit shop.csv --policy ebm-tss", "'ebm-tss'", "mean 'ebm-ts'"),
    "a result into no folder": ("fit shop.csv --out none/x.posse", "none", "folder"),
    "a result where a folder is": ("fit shop.csv --out .", "folder"),
    "a fleet that is none": ("inspect shop.csv", "shop.csv"),
    "a fleet cut in half": ("inspect cut.posse", "cut.posse"),
    "a task that is none": ("inspect good.posse --task store-71", "'store-71'", "store-17"),
    "a log that is no JSON": ("log check broken.jsonl", "broken.jsonl", "line 1"),
    "a format that is none": ("log convert shop.csv out.doc", "out.doc", ".parquet"),
    "an evaluation without propensities": (
        "evaluate shop.csv --policy uniform --propensity-column p", "'p'", "--propensity-column",
    ),
    "a policy to evaluate that is none": ("evaluate shop.csv --policy best", "best", "learned:"),
    "a report of no fleet": ("report shop.csv", "shop.csv"),
    "a page that is none": ("docs tutoral", "'tutoral'", "mean 'tutorial'"),
    "a port that is none": ("serve --port 99999", "65535", "99999"),
    "a port in words": ("serve --port http", "--port", "'http'"),
    "settings that are not there": ("serve --config none.toml", "none.toml"),
    "settings with a typo": ("serve --config typo.toml", "typo.toml", "prot", "mean 'port'"),
    "settings of a wrong kind": ("serve --config kind.toml", "kind.toml", "port", "'80'"),
    "settings that are no TOML": ("serve --config shop.csv", "shop.csv", "TOML"),
    "a backup of no database": ("service backup copy.db --database none.db", "none.db"),
    "a copy that is no database": ("service restore shop.csv", "shop.csv"),
    "a file that cannot be ingested": ("service ingest shop.xlsx --fleet shops", "shop.xlsx"),
    "a key with a scope that is none": ("service keys create --scope write --database keys.db", "'write'", "admin"),
    "no database to verify": ("service verify none.db", "none.db"),
    "a dataset with a typo": ("lab data fetch movilens", "movilens", "mean"),
    "an experiment with a typo": ("lab reproduce balancd", "balancd", "mean 'balanced'"),
    "seeds in words": ("lab paper --seeds many", "'many'", "whole number"),
    "a benchmark that is none": ("lab bench steps", "'steps'", "'step'"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command_is_one_line_and_status_2(given, name, monkeypatch, capsys):
    command, *words = COMMANDS[name]
    (given.at / "typo.toml").write_text("prot = 80\n")
    (given.at / "kind.toml").write_text("port = '80'\n")
    monkeypatch.chdir(given.at)
    monkeypatch.setattr(sys, "argv", ["posse", *command.split()])

    with pytest.raises(SystemExit) as stopped:
        main()

    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert said.out == ""
    *progress, error = said.err.splitlines()
    assert error.startswith("posse: ")
    assert not any("posse:" in line or "Traceback" in line for line in progress)
    require_one_line(error, words)
