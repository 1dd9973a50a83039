"""Fleets of clicks and counts behind the API: what they take, show, verify, forget and share."""

import json
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import posse.service
from posse.client import Client

KINDS = {"binary": [True, False, 1, 0.0], "count": [0, 3, True, 10**6], "revenue": [0, 19.9, 3, 1e6]}
WRONG = {"binary": [0.5, -1, 2, 2.5, 1e6], "count": [-1, 2.5, 0.1], "revenue": [-1, -0.01]}
RULES = {
    "binary": "expected a binary reward of 0 or 1 (False or True), got",
    "count": "expected a count of 0, 1, 2, ..., got",
    "revenue": "expected revenue of 0 or an amount",
}


def feed(service, fleet, steps=60, tasks=4, seed=0):
    """Clicks whose rate rises with the hour; arms are given, so that only the seed matters."""
    rng = np.random.default_rng(seed)
    arms = service.read(f"/v1/fleets/{fleet}")["arms"]
    for step in range(steps):
        context = {"hour": float(rng.normal()), "weather": ("sun", "rain")[step % 2]}
        decision = service.decide(f"t{rng.integers(tasks)}", context, fleet=fleet, eligible=[arms[step % 3]])
        service.reward(decision, bool(rng.random() < 1 / (1 + np.exp(1 - context["hour"]))))


def beliefs(service, fleet, tasks=("t0", "t1", "t3")):
    while service.live(fleet).replica.refreshing:
        time.sleep(0.01)
    found = [
        [*arm["mean"], *arm["sd"], *arm["rate"].values()] for task in tasks for arm in service.task(task, fleet)["arms"]
    ]
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_of_the_family_are_taken_and_others_refused(service, shape, rainy, kind):
    found = service.make_fleet(f"takes-{kind}", rewards=kind)
    assert found["definition"]["rewards"] == kind
    decisions = [service.decide("t", rainy, fleet=f"takes-{kind}") for _ in KINDS[kind]]
    for wrong in WRONG[kind]:
        before = service.live(f"takes-{kind}").applied
        error = shape(
            service.post(f"/v1/decisions/{decisions[0]['id']}/reward", json={"reward": wrong}), 422, "invalid"
        )
        assert RULES[kind] in error["message"]
        assert error["field"] == "reward"
        items = [{"id": one["id"], "reward": value} for one, value in zip(decisions, (1, wrong), strict=False)]
        error = shape(service.post("/v1/rewards", json={"rewards": items}), 422, "invalid")
        assert error["field"] == "rewards.1.reward"
        assert service.live(f"takes-{kind}").applied == before
    assert service.counts(f"takes-{kind}")["rewards"] == 0
    for decision, value in zip(decisions, KINDS[kind], strict=True):
        assert service.reward(decision, value) == {"id": decision["id"], "reward": float(value), "new": True}
        assert service.reward(decision, float(value))["new"] is False
    assert service.live(f"takes-{kind}").replica.n_rewards == len(KINDS[kind])
    for part in service.decide("t", rainy, fleet=f"takes-{kind}")["mean"].values():
        assert np.isfinite(part)


def test_what_cannot_be_a_fleet_of_clicks_is_refused(service, shape):
    path = "/v1/fleets/no-fleet"
    definition = {"arms": ["a", "b"], "features": ["x"], "rewards": "binary"}
    for change, words in (
        ({"rewards": "clicks"}, "rewards: input should be 'number', 'binary', 'count' or 'revenue'"),
        ({"policy": "lin-ucb"}, "expected a policy of"),
        ({"prior": "paper"}, "expected prior='evidence'"),
        ({"robust": True}, "expected robust=False"),
        ({"absent_reward": 0.5}, "expected a binary reward of 0 or 1"),
    ):
        error = shape(service.put(path, json=definition | change), 422, "invalid")
        assert words in error["message"]


def test_true_is_no_number(service, shape, rainy):
    service.make_fleet("of-numbers")
    decision = service.decide("t", rainy, fleet="of-numbers")
    error = shape(service.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": True}), 422, "invalid")
    assert "true is no reward of this decision's fleet" in error["message"]
    service.reward(decision, 1)
    assert service.task("t", "of-numbers")["arms"][0]["rate"] is None


def test_probabilities_and_intervals_are_inside_their_range(service, rainy):
    service.make_fleet("rates", rewards="binary")
    for number in range(30):
        decision = service.decide(f"t{number % 3}", rainy, fleet="rates")
        assert all(0 < part < 1 for part in decision["mean"].values())
        service.reward(decision, False)
    decision = service.decide("t0", rainy, fleet="rates")
    assert max(decision["mean"].values()) < 0.4
    population, task = service.read("/v1/fleets/rates/population"), service.task("t0", "rates")
    assert population["reward_family"] == task["reward_family"] == "binary"
    for arm in [*population["arms"], *task["arms"]]:
        rate = arm["rate"]
        assert 0 < rate["low"] < rate["mean"] < rate["high"] < 1
    # All contexts are one, so the rate at the average is what a decision says.
    assert {arm["arm"]: arm["rate"]["mean"] for arm in task["arms"]} == pytest.approx(decision["mean"])


def test_a_fleet_from_before_there_were_clicks_is_one_of_numbers(start, tmp_path, rainy):
    service = start(tmp_path / "old.db")
    service.make_fleet()
    service.reward(service.decide(), 2.5)
    service.stop()
    with sqlite3.connect(tmp_path / "old.db") as connection:
        (text,) = connection.execute("SELECT definition FROM fleets").fetchone()
        definition = json.loads(text)
        assert definition.pop("rewards") == "number"
        connection.execute("UPDATE fleets SET definition = ?", (json.dumps(definition),))
    connection.close()
    again = start(tmp_path / "old.db")
    assert again.read("/v1/fleets/stores")["definition"]["rewards"] == "number"
    again.reward(again.decide(), 3.5)
    assert again.live().replica.n_rewards == 2
    same = {"arms": ["coffee", "cake", "newspaper"], "features": ["hour", rainy_feature()]}
    assert again.put("/v1/fleets/stores", json=same).status_code == 200


def rainy_feature():
    return {"kind": "one_hot", "name": "weather", "categories": ["sun", "rain"]}


@pytest.mark.slow
def test_two_processes_believe_the_same_and_what_is_erased_leaves_no_trace(postgres_url, start, wait_for):
    one, other = start(postgres_url), start(postgres_url)
    one.make_fleet("clicks", rewards="binary")
    feed(one, "clicks", seed=1)
    feed(other, "clicks", seed=2)
    wait_for(lambda: {each.live("clicks").replica.n_rewards for each in (one, other)} == {120.0})
    assert_allclose(beliefs(one, "clicks"), beliefs(other, "clicks"), rtol=1e-9)
    before = beliefs(one, "clicks")

    assert other.delete("/v1/fleets/clicks/tasks/t2").status_code == 204
    wait_for(lambda: "t2" not in one.live("clicks").replica.tasks)
    assert (beliefs(one, "clicks") != before).any()
    assert one.read("/v1/fleets/clicks/verify")["different"] == 0
    # A process that never saw the task believes what those believe that did.
    third = start(postgres_url)
    for each in (one, other):
        wait_for(lambda each=each: np.allclose(beliefs(each, "clicks"), beliefs(third, "clicks"), rtol=1e-9))


@pytest.mark.slow
def test_what_was_learned_is_compared_with_the_log_and_learned_again(start):
    service = start()
    service.make_fleet(rewards="count")
    feed(service, "stores")
    assert service.read("/v1/fleets/stores/verify")["different"] == 0
    before = beliefs(service, "stores")
    service.live().replica.learn(["t1"], ["cake"], [{"hour": 1.0, "weather": "sun"}], [3.0])
    found = service.read("/v1/fleets/stores/verify")
    assert [(one["task"], one["arm"]) for one in found["differences"]] == [("t1", "cake")]
    assert service.post("/v1/fleets/stores/repair").status_code == 200
    assert service.read("/v1/fleets/stores/verify")["different"] == 0
    assert_allclose(beliefs(service, "stores"), before, rtol=1e-9)


def test_rows_that_leave_the_log_stay_learned_and_a_task_is_forgotten_without_them(start):
    service = start()
    service.make_fleet(rewards="binary", retention=1000.0, time_to_live=1000.0)
    feed(service, "stores")
    before = beliefs(service, "stores")
    service.snapshot()
    assert service.runtime.writer.run(lambda: service.runtime.storage.prune("stores", 1e12)) == 60
    found = service.read("/v1/fleets/stores/verify")
    assert (found["different"], found["partial"]) == (0, 4)
    assert service.post("/v1/fleets/stores/repair").status_code == 200
    assert_allclose(beliefs(service, "stores"), before, rtol=1e-9)
    assert service.delete("/v1/fleets/stores/tasks/t2").status_code == 204
    assert "t2" not in service.live().replica.tasks
    assert service.live().replica.n_rewards < 60


def test_a_row_of_the_log_that_is_no_click_is_left_out(start, tmp_path, caplog):
    service = start()
    service.make_fleet(rewards="binary")
    feed(service, "stores")
    service.stop()
    with sqlite3.connect(service.settings.database) as connection:
        connection.execute("DELETE FROM snapshots")
        connection.execute("UPDATE decisions SET reward = 0.5 WHERE number = 7")
    connection.close()
    again = start(service.settings.database)
    assert again.live().replica.n_rewards == 59
    assert again.live().replica.unlearned == 1
    assert "cannot be learned" in caplog.text


@pytest.mark.slow
def test_the_client_reads_rates(serve, rainy):
    served = serve("--database", "clicks.db")
    with Client(served.url) as client:
        client.create_fleet("shop", arms=["a", "b"], features=["hour"], rewards="binary")
        decision = client.decide("shop", "t", {"hour": 1.0})
        assert client.reward(decision, True)
        task, population = client.task("shop", "t"), client.population("shop")
        assert task.reward_family == population.reward_family == "binary"
        assert 0 < task.arms[0].rate.low < task.arms[0].rate.high < 1
        assert 0 < population.arms[0].rate.mean < 1


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_intervals_of_the_history_stay_in_their_range(tmp_path):
    script = tmp_path / "format.mjs"  # by which Node knows a module
    script.write_bytes((Path(posse.service.__file__).parent / "page" / "static" / "format.js").read_bytes())
    code = (
        f"import {{ intervalOf }} from {json.dumps(script.as_uri())};"
        "const cases = ["
        "['binary', 0.02, 0.03], ['binary', 0.97, 0.05], ['binary', 0.5, 0.01], ['binary', 0, 0],"
        "['count', 0.1, 0.2], ['count', 5, 0.1], ['count', 0, 0], ['number', 0.02, 0.03]];"
        "const found = cases.map(([family, mean, sd]) => [family, mean, sd, ...intervalOf(family, mean, sd)]);"
        "console.log(JSON.stringify(found))"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", code], capture_output=True, text=True, timeout=60, check=True
    )

    found = json.loads(done.stdout)

    for family, mean, _, low, high in found:
        assert low <= mean <= high
        assert family == "number" or (low >= 0 and (family == "count" or high <= 1))
    # Where beliefs are sure, and for numbers, it is the mean and its standard deviations.
    for place in (2, 5, 7):
        _, mean, sd, low, high = found[place]
        assert (low, high) == pytest.approx((mean - 1.6449 * sd, mean + 1.6449 * sd), rel=0.01)


def test_the_history_says_what_rewards_are(service, rainy):
    for family in ("number", "binary"):
        service.make_fleet(f"history-of-{family}", rewards=family)
        service.decide("t", rainy, fleet=f"history-of-{family}")
        assert service.read(f"/v1/fleets/history-of-{family}/history/t")["reward_family"] == family
