"""Every route does what it says, and its numbers are those of the library on the same data."""

import json
import re
import threading
import time
from collections import Counter
from datetime import datetime

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.logs import check_log, read_log
from posse.model import Statistics, posterior
from posse.offline import Always, Logged, Uniform, evaluate
from posse.service.jobs import MOST_WAITING

ARMS = ["coffee", "cake", "newspaper"]
TASKS = [f"store-{i}" for i in range(6)]
MORE = [f"store-{i}" for i in range(40)]
N = 300
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def encoded(context):
    return [1.0, context["hour"], float(context["weather"] == "sun"), float(context["weather"] == "rain")]


class World:
    """A fleet that was asked and rewarded, and a plain account of all of it."""

    def __init__(self, service, name, n_tasks=6, n_steps=N, **settings):
        self.service, self.name = service, name
        rng = np.random.default_rng(3)
        service.make_fleet(name, floor=0.2, **settings)
        effects = rng.normal(size=(3, n_tasks, 4)) * [1, 0.1, 1, 1] + rng.normal(size=(3, 1, 4))
        self.decisions, self.rows, self.pending = [], [], []
        for step in range(n_steps):
            task = int(rng.integers(n_tasks))
            context = {"hour": float(np.round(rng.uniform(6, 20), 1)), "weather": ["sun", "rain"][rng.integers(2)]}
            decision = service.decide(MORE[task], context, fleet=name)
            self.decisions.append((decision, context))
            if step % 10 == 9:
                self.pending.append(decision)
                continue
            arm = ARMS.index(decision["arm"])
            reward = float(effects[arm, task] @ encoded(context) + 0.5 * rng.normal())
            answer = service.reward(decision, reward)
            assert answer == {"id": decision["id"], "reward": reward, "new": True}
            self.rows.append((task, arm, context, reward))
        fleet = service.live(name).replica
        fleet.refresh()
        self.prior = fleet.prior
        self.stats = Statistics.from_data(
            task=[row[0] for row in self.rows],
            arm=[row[1] for row in self.rows],
            context=[encoded(row[2]) for row in self.rows],
            reward=[row[3] for row in self.rows],
            n_tasks=n_tasks,
            n_arms=3,
        )
        self.posterior = posterior(self.stats, self.prior)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def service(request, tmp_path_factory, kinds):
    """The service on either database: what it says does not depend on which."""
    in_process, settings, _ = kinds
    if request.param == "sqlite":
        database = str(tmp_path_factory.mktemp("service") / "posse.db")
    else:
        import psycopg

        server = request.getfixturevalue("postgres_server")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE api_of_service")
        database = server.database("api_of_service")
    running = in_process(settings(database=database))
    assert running.settings.embedded == (request.param == "sqlite")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def world(service):
    return World(service, "stores")


def test_a_fleet_is_described_with_its_counts(service, world):
    found = service.read("/v1/fleets/stores")

    assert found["name"] == "stores"
    assert TIME.fullmatch(found["created"])
    assert found["arms"] == ARMS
    assert found["retired_arms"] == []
    assert found["columns"] == ["intercept", "hour", "weather=sun", "weather=rain"]
    assert found["tasks"] == len({decision["task"] for decision, _ in world.decisions}) == 6
    assert (found["decisions"], found["rewards"], found["pending"]) == (N, N * 9 // 10, N // 10)
    definition = found["definition"]
    assert (definition["floor"], definition["evaluation_budget"]) == (0.2, 0.0)
    assert (definition["policy"], definition["prior"], definition["time_to_live"]) == (
        "ebm-rand-ucb",
        "evidence",
        2592000.0,
    )
    assert [feature["name"] for feature in definition["features"]] == ["hour", "weather"]
    assert found in service.read("/v1/fleets")["fleets"]


def test_a_description_makes_the_same_fleet_again(service, world):
    found = service.read("/v1/fleets/stores")
    body = {"arms": found["arms"], **found["definition"]}
    assert service.put("/v1/fleets/copy", json=body).status_code == 201
    assert service.read("/v1/fleets/copy")["definition"] == found["definition"]
    assert service.put("/v1/fleets/stores", json=body).status_code == 200
    service.delete("/v1/fleets/copy")


def test_decisions_are_what_the_posterior_says(service, world, rainy):
    x = np.array(encoded(rainy))
    for number, task in enumerate(TASKS):
        decision = service.decide(task, rainy)
        assert list(decision["probabilities"]) == list(decision["mean"]) == list(decision["sd"]) == ARMS
        assert_allclose(list(decision["mean"].values()), world.posterior.mean[:, number] @ x, rtol=1e-8, atol=1e-8)
        variance = np.einsum("i,kij,j->k", x, world.posterior.covariance[:, number], x)
        assert_allclose(list(decision["sd"].values()), np.sqrt(variance), rtol=1e-8)
        assert sum(decision["probabilities"].values()) == pytest.approx(1, abs=1e-12)
        assert min(decision["probabilities"].values()) >= 0.2 - 1e-12
        assert decision["propensity"] == decision["probabilities"][decision["arm"]]
        assert (decision["fleet"], decision["task"]) == ("stores", task)


def test_a_task_never_seen_starts_from_the_population(service, world, rainy):
    x = np.array(encoded(rainy))
    decision = service.decide("store-new", rainy)
    assert_allclose(list(decision["mean"].values()), world.posterior.shared_mean @ x, rtol=1e-8, atol=1e-8)

    found = service.task("store-new")
    assert (found["decisions"], found["rewards"]) == (1, 0)
    for place, arm in enumerate(found["arms"]):
        assert_allclose(arm["mean"], world.posterior.shared_mean[place], rtol=1e-8, atol=1e-8)
        assert arm["rewards"] == 0
        assert arm["own_share"] == 0
    assert service.delete("/v1/fleets/stores/tasks/store-new").status_code == 204


def test_the_posterior_of_a_task_is_that_of_the_model(service, world):
    fleet = service.live().replica
    for number, task in enumerate(TASKS):
        found = service.task(task)
        assert found["columns"] == ["intercept", "hour", "weather=sun", "weather=rain"]
        assert [arm["arm"] for arm in found["arms"]] == ARMS
        borrowing = fleet.borrowing(task)
        for place, arm in enumerate(found["arms"]):
            assert_allclose(arm["mean"], world.posterior.mean[place, number], rtol=1e-8, atol=1e-8)
            sd = np.sqrt(np.diagonal(world.posterior.covariance[place, number]))
            assert_allclose(arm["sd"], sd, rtol=1e-8)
            assert_allclose(arm["population_mean"], world.posterior.shared_mean[place], rtol=1e-8, atol=1e-8)
            assert arm["rewards"] == world.stats.count[place, number]
            assert arm["own_share"] == pytest.approx(borrowing.own_share[place])
            assert arm["borrowed"] == pytest.approx(borrowing.borrowed[place])
            assert not arm["retired"]


def test_the_population_is_that_of_the_model(service, world):
    found = service.read("/v1/fleets/stores/population")

    assert (found["policy"], found["prior"]) == ("ebm-rand-ucb", "evidence")
    assert found["refreshed_rewards"] == len(world.rows)
    assert found["findings"] == []
    for place, arm in enumerate(found["arms"]):
        assert arm["arm"] == ARMS[place]
        assert_allclose(arm["mean"], world.posterior.shared_mean[place], rtol=1e-8, atol=1e-8)
        assert_allclose(arm["mean_sd"], np.sqrt(np.diagonal(world.posterior.shared_covariance[place])), rtol=1e-8)
        assert_allclose(arm["covariance"], world.prior.covariance[place], rtol=1e-12)
        assert arm["noise_sd"] == pytest.approx(world.prior.noise_variance[place] ** 0.5)
        assert arm["rewards"] == world.stats.count[place].sum()
        assert arm["tasks"] == (world.stats.count[place] > 0).sum()


def test_tasks_are_counted_and_listed_by_name(service, world):
    found = {row["task"]: row for row in service.read("/v1/fleets/stores/tasks")["tasks"]}
    assert list(found) == sorted(found)
    rewards = Counter(TASKS[row[0]] for row in world.rows)
    for task in TASKS:
        assert found[task]["rewards"] == rewards[task]
        assert TIME.fullmatch(found[task]["first_time"])


def test_waiting_decisions_are_listed_the_oldest_first(service, world):
    found = service.read("/v1/fleets/stores/pending?limit=5")
    assert [row["id"] for row in found["pending"]] == [decision["id"] for decision in world.pending[:5]]
    assert found["total"] == service.counts()["pending"]
    ages = [row["age"] for row in found["pending"]]
    assert ages == sorted(ages, reverse=True)
    assert 0 <= ages[-1] < 600
    assert {row["task"] for row in found["pending"]} <= set(TASKS)


def test_a_decision_is_in_the_log_as_it_was_answered(service, world):
    for decision, context in world.decisions[:20]:
        row = service.read(f"/v1/decisions/{decision['id']}")
        for name in ("id", "task", "arm", "propensity", "probabilities", "mean", "sd"):
            assert row[name] == decision[name]
        assert row["context"] == context
        assert (row["state"] == "pending") == (decision in world.pending) == (row["reward"] is None)
        assert TIME.fullmatch(row["time"])
        assert row["reward_time"] is None or TIME.fullmatch(row["reward_time"])


def test_history_is_paged_the_newest_first(service, world):
    mine = [decision["id"] for decision, _ in world.decisions if decision["task"] == "store-3"]
    seen, path = [], "/v1/fleets/stores/history/store-3?limit=7"
    pages = 0
    following = ""
    while following is not None:
        page = service.read(path + (f"&before={following}" if following else ""))
        seen += [row["id"] for row in page["decisions"]]
        following, pages = page["next"], pages + 1
    assert pages == len(seen) // 7 + 1
    assert seen[::-1][: len(mine)] == mine
    assert len(set(seen)) == len(seen)


def test_activity_counts_what_happened(service, world):
    for minutes in (60, 24 * 60, 7 * 24 * 60):
        found = service.read(f"/v1/fleets/stores/activity?minutes={minutes}")
        counts = service.counts()
        assert sum(entry["decisions"] for entry in found["activity"]) >= counts["decisions"]
        assert sum(entry["rewards"] for entry in found["activity"]) == counts["rewards"]
        total = sum(entry["rewards"] * entry["mean_reward"] for entry in found["activity"] if entry["rewards"])
        assert total == pytest.approx(sum(row[3] for row in world.rows))
        for entry in found["activity"]:
            moment = datetime.fromisoformat(entry["time"]).timestamp()
            assert moment % found["stretch"] == 0
            assert (entry["mean_reward"] is None) == (entry["rewards"] == 0)
        assert minutes * 60 / found["stretch"] <= 121


def read_file(service, fleet, log_format, folder):
    answer = service.get(f"/v1/fleets/{fleet}/log?format={log_format}")
    assert answer.status_code == 200, answer.text
    assert f'filename="{fleet}.{log_format}"' in answer.headers["content-disposition"]
    path = folder / f"log.{log_format}"
    path.write_bytes(answer.content)
    return read_log(path)


@pytest.mark.parametrize("log_format", ["jsonl", "parquet"])
def test_the_log_is_a_file_that_the_library_reads(service, world, tmp_path, log_format):
    log = read_file(service, "stores", log_format, tmp_path)
    rows = {row["decision_id"]: row for row in log.frame.iter_rows(named=True)}
    assert len(rows) == service.counts()["decisions"]
    rewards = {decision["id"]: None for decision, _ in world.decisions}
    rewarded = iter(row[3] for row in world.rows)
    for decision, context in world.decisions:
        row = rows[decision["id"]]
        if decision not in world.pending:
            rewards[decision["id"]] = next(rewarded)
        assert row["reward"] == rewards[decision["id"]]
        assert (row["task"], row["arm"], row["propensity"]) == (
            decision["task"],
            decision["arm"],
            decision["propensity"],
        )
        assert dict(zip(row["eligible"], row["probabilities"], strict=True)) == decision["probabilities"]
        assert row["context"] == context
        assert row["policy"] == "ebm-rand-ucb"
    assert [finding for finding in check_log(log) if finding.severity == "error"] == []


@pytest.fixture(scope="module")
def valued(service):
    """A fleet like the other one, of which nothing else is asked."""
    # One that chooses by chance, and long: whatever was drawn, the log can tell what any arm would have earned.
    return World(service, "valued", n_tasks=40, n_steps=2 * N, policy="random")


@pytest.mark.slow
@pytest.mark.parametrize(("baseline", "target"), [("uniform", Uniform()), ("arm:cake", Always("cake"))])
def test_value_is_what_the_library_says_about_the_log(service, valued, tmp_path, baseline, target):
    found = service.read(f"/v1/fleets/valued/value?baseline={baseline}")

    log = read_file(service, "valued", "jsonl", tmp_path)
    expected = evaluate(log, [target], against=Logged(), estimators=("snips",), confidence=0.9)
    table = {row["target"]: row for row in expected.table.iter_rows(named=True)}
    own = table.pop("logged")
    (other,) = table.values()
    for part, row in (("policy", own), ("baseline", other)):
        for name in ("value", "low", "high"):
            assert found[part][name] == pytest.approx(row[name], rel=1e-9), (part, name)
    (difference,) = [row for row in expected.differences.iter_rows(named=True) if row["estimator"] == "snips"]
    assert found["difference"]["value"] == pytest.approx(-difference["value"], rel=1e-9)
    assert found["difference"]["low"] == pytest.approx(-difference["high"], rel=1e-9)
    assert found["difference"]["value"] == pytest.approx(found["policy"]["value"] - found["baseline"]["value"])
    assert found["difference"]["low"] <= found["difference"]["value"] <= found["difference"]["high"]
    assert found["baseline"]["name"] == baseline
    assert found["policy"]["value"] == pytest.approx(np.mean([row[3] for row in valued.rows]))
    assert (found["rows"], found["rewards"]) == (2 * N, len(valued.rows))
    assert (found["confidence"], found["refusal"]) == (0.9, None)


def test_value_says_why_there_is_none(service):
    service.make_fleet("quiet")
    found = service.read("/v1/fleets/quiet/value")
    assert found["policy"] is found["baseline"] is found["difference"] is None
    assert "10" in found["refusal"]


@pytest.mark.slow
@pytest.mark.parametrize(("counted", "expected"), [(True, 0.25), (False, None)])
def test_value_is_not_that_of_the_early_rewards_alone(service, rainy, counted, expected):
    name = f"silent-{counted}"
    service.make_fleet(name, policy="random", absent_reward=0.0, count_pending=counted)
    for i in range(200):
        decision = service.decide(f"t{i % 10}", rainy, fleet=name)
        if i % 4 == 0:  # one in four buys at once, and what the others do is known in a month
            service.reward(decision, 1.0)
    found = service.read(f"/v1/fleets/{name}/value")
    if expected is None:
        assert found["policy"] is None
        assert "wait" in found["refusal"]
    else:
        assert found["policy"]["value"] == pytest.approx(expected)


def test_value_of_a_fleet_that_never_tries_a_baseline_is_refused_in_words(service, rainy):
    service.make_fleet("sure")
    for _ in range(15):
        service.reward(service.decide("t", rainy, fleet="sure", eligible=["coffee"]), 1.0)
    found = service.read("/v1/fleets/sure/value?baseline=arm:cake")
    assert found["baseline"] is None
    assert found["refusal"]


def test_many_who_ask_for_values_keep_nobody_else_waiting(start, shape, wait_for, rainy, monkeypatch):
    service = start()
    service.make_fleet()
    begun, go_on = threading.Event(), threading.Event()

    def evaluate(*_):
        begun.set()
        go_on.wait(20)
        return {}

    monkeypatch.setattr("posse.service.http.routes.looking.value_of", evaluate)
    asked = [("GET", f"/v1/fleets/stores/value?rows={10 + i}", {}) for i in range(30)]
    answers = []
    people = threading.Thread(target=lambda: answers.extend(service.together(asked)))
    people.start()
    begun.wait(20)
    wait_for(lambda: service.app.state.jobs.asked == 1 + MOST_WAITING)
    try:
        batch = {"decisions": [{"task": "t", "context": rainy}] * 20}
        assert service.post("/v1/fleets/stores/decisions/batch", json=batch).status_code == 200
        assert service.get("/readyz").status_code == 200
    finally:
        go_on.set()
        people.join()
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(answers) - len(refused) == 1 + MOST_WAITING
    for answer in refused:
        shape(answer, 429, "rate_limited")


def test_all_stored_data_of_a_task_is_exported(service, world):
    answer = service.get("/v1/fleets/stores/export/store-2")
    found = answer.json()
    assert "attachment" in answer.headers["content-disposition"]
    mine = [decision["id"] for decision, _ in world.decisions if decision["task"] == "store-2"]
    assert [row["id"] for row in found["log"]][: len(mine)] == mine
    for place, arm in enumerate(ARMS):
        sums = found["learned"]["arms"][arm]
        assert sums["count"] > 0
        assert_allclose(sums["gram"], world.stats.gram[place, 2], rtol=1e-12)
        assert_allclose(sums["moment"], world.stats.moment[place, 2], rtol=1e-12)
        assert sums["count"] == world.stats.count[place, 2]
    assert (found["fleet"], found["task"]) == ("stores", "store-2")
    service.decide("silent")
    assert service.read("/v1/fleets/stores/export/silent")["learned"] is None


def test_metrics_count_fleets_and_requests(service, world):
    counts = service.counts()
    answer = service.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name, count in counts.items():
        assert f'posse_fleet_{name}{{fleet="stores"}} {float(count)}' in answer.text
    assert "posse_ready 1.0" in answer.text
    assert "posse_leading 1.0" in answer.text
    assert 'posse_fleet_changes_behind{fleet="stores"} 0.0' in answer.text
    assert 'posse_fleet_refresh_failing{fleet="stores"} 0.0' in answer.text
    made = re.search(
        r'posse_requests_total{method="POST",route="/v1/fleets/{fleet}/decisions",status="200"} (\S+)', answer.text
    )
    assert float(made[1]) >= N
    service.get("/v1/fleets/stores/tasks/some-private-name")
    service.get("/some/private/path")
    assert "private" not in service.get("/metrics").text


# Decisions.


@pytest.mark.parametrize("eligible", [["cake"], ["newspaper", "coffee"], ["cake", "coffee", "newspaper"]])
def test_only_eligible_arms_are_chosen_among(service, world, rainy, eligible):
    decision = service.decide("store-1", rainy, eligible=eligible)
    assert set(decision["probabilities"]) == set(eligible)
    assert decision["arm"] in eligible
    everyone = service.decide("store-1", rainy)
    for arm in eligible:
        assert decision["mean"][arm] == everyone["mean"][arm]
    if len(eligible) == 1:
        assert decision["propensity"] == 1.0
    row = service.read(f"/v1/decisions/{decision['id']}")
    assert set(row["probabilities"]) == set(eligible)


def test_a_context_may_come_as_a_list_and_is_logged_by_name(service, rainy):
    decision = service.decide("listed", list(rainy.values()))
    assert service.read(f"/v1/decisions/{decision['id']}")["context"] == rainy


@pytest.mark.parametrize("many", [2, 15, 16, 200])
def test_a_batch_is_decided_in_order(service, world, rainy, many):
    asks = [{"task": TASKS[i % 6], "context": {**rainy, "hour": i}, "explore": i % 2 == 0} for i in range(many)]
    before = service.counts()
    answer = service.post("/v1/fleets/stores/decisions/batch", json={"decisions": asks})
    made = answer.json()["decisions"]
    assert [decision["task"] for decision in made] == [ask["task"] for ask in asks]
    assert all(decision["propensity"] == 1.0 for decision in made[1::2])
    assert service.counts()["decisions"] == before["decisions"] + many
    rows = [service.read(f"/v1/decisions/{decision['id']}") for decision in made[:20]]
    assert [row["context"]["hour"] for row in rows] == list(range(min(many, 20)))
    numbers = [row["number"] for row in rows]
    assert numbers == list(range(numbers[0], numbers[0] + len(rows)))


def test_an_empty_batch_is_nothing(service, world):
    before = service.counts()
    assert service.post("/v1/fleets/stores/decisions/batch", json={"decisions": []}).json() == {"decisions": []}
    assert service.post("/v1/rewards", json={"rewards": []}).json() == {"new": 0, "same": 0}
    assert service.counts() == before


@pytest.mark.parametrize("many", [3, 40])
def test_a_batch_with_one_wrong_item_decides_nothing_and_says_which(service, world, shape, rainy, many):
    before = service.counts()
    asks = [{"task": "t", "context": rainy} for _ in range(many)]
    asks[-2] = {"task": "t", "context": {"hour": 1}}
    error = shape(service.post("/v1/fleets/stores/decisions/batch", json={"decisions": asks}), 422, "invalid")
    assert error["field"].startswith(f"decisions.{many - 2}")
    assert service.counts() == before


# The same again.


def test_the_same_key_and_request_get_the_same_decision(service, world, rainy):
    headers = {"idempotency-key": "order-1"}
    first = service.decide("store-1", rainy, headers=headers)
    before = service.counts()
    for _ in range(5):
        assert service.decide("store-1", rainy, headers=headers) == first
    assert service.counts() == before
    service.reward(first, 2.0)
    assert service.decide("store-1", rainy, headers=headers) == first


def test_the_same_key_for_another_request_is_refused(service, world, shape, rainy):
    headers = {"idempotency-key": "order-2"}
    service.decide("store-1", rainy, headers=headers)
    before = service.counts()
    for body in (
        {"task": "store-2", "context": rainy},
        {"task": "store-1", "context": {**rainy, "hour": 9.6}},
        {"task": "store-1", "context": rainy, "eligible": ["cake"]},
        {"task": "store-1", "context": rainy, "explore": False},
    ):
        shape(service.post("/v1/fleets/stores/decisions", json=body, headers=headers), 409, "key_reused")
    assert service.counts() == before


def test_defaults_and_omitted_fields_are_the_same_request(service, world, rainy):
    headers = {"idempotency-key": "order-3"}
    first = service.decide("store-1", rainy, headers=headers)
    assert service.decide("store-1", rainy, headers=headers, explore=True, eligible=None) == first


def test_however_a_request_is_written_it_is_the_same_request(service, world, shape):
    headers = {"idempotency-key": "order-5"}
    first = service.decide("store-1", {"hour": 1, "weather": "rain"}, headers=headers, eligible=["cake", "coffee"])
    before = service.counts()
    for context in ({"hour": 1.0, "weather": "rain"}, {"weather": "rain", "hour": 1}, [1, "rain"], [1.0, "rain"]):
        for eligible in (["cake", "coffee"], ["coffee", "cake"]):
            assert service.decide("store-1", context, headers=headers, eligible=eligible) == first
    assert service.counts() == before
    body = {"task": "store-1", "context": [1.5, "rain"], "eligible": ["cake", "coffee"]}
    shape(service.post("/v1/fleets/stores/decisions", json=body, headers=headers), 409, "key_reused")


def test_keys_of_fleets_are_apart(service, world, rainy):
    service.make_fleet("apart")
    headers = {"idempotency-key": "order-4"}
    one = service.decide("t", rainy, headers=headers)
    other = service.decide("t", rainy, fleet="apart", headers=headers)
    assert one["id"] != other["id"]
    assert other["fleet"] == "apart"


def test_many_at_once_with_one_key_get_one_decision(service, world, rainy):
    before = service.counts()
    request = (
        "POST",
        "/v1/fleets/stores/decisions",
        {"json": {"task": "x", "context": rainy}, "headers": {"idempotency-key": "race"}},
    )
    answers = service.together([request] * 30)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert service.counts()["decisions"] == before["decisions"] + 1


def test_a_batch_with_a_key_is_decided_once(service, world, shape, rainy):
    body = {"decisions": [{"task": f"store-{i}", "context": rainy} for i in range(4)]}
    headers = {"idempotency-key": "batch-1"}
    path = "/v1/fleets/stores/decisions/batch"
    first = service.post(path, json=body, headers=headers).json()
    before = service.counts()
    assert service.post(path, json=body, headers=headers).json() == first
    # Item i has the key "batch-1/i".
    single = service.decide("store-2", rainy, headers={"idempotency-key": "batch-1/2"})
    assert single == first["decisions"][2]
    body["decisions"][3]["task"] = "another"
    error = shape(service.post(path, json=body, headers=headers), 409, "key_reused")
    assert error["field"] == "decisions.3"
    assert service.counts() == before


def test_items_of_a_batch_may_have_keys_of_their_own(service, world, shape, rainy):
    path = "/v1/fleets/stores/decisions/batch"
    asks = [{"task": "t", "context": rainy, "key": "mine"}, {"task": "t", "context": rainy}]
    first = service.post(path, json={"decisions": asks}).json()["decisions"]
    again = service.post(path, json={"decisions": asks}).json()["decisions"]
    assert again[0] == first[0]
    assert again[1]["id"] != first[1]["id"]
    twice = [{"task": "t", "context": rainy, "key": "twice"}] * 2
    one, other = service.post(path, json={"decisions": twice}).json()["decisions"]
    assert one == other
    before = service.counts()
    mixed = [{"task": "t", "context": rainy}, {"task": "other", "context": rainy, "key": "mine"}]
    assert shape(service.post(path, json={"decisions": mixed}), 409, "key_reused")["field"] == "decisions.1"
    assert service.counts() == before


# Rewards.


def test_a_reward_may_come_late_and_twice_but_not_another(service, world, shape):
    decision = service.decide("late")
    for i in range(5):
        service.decide(f"between-{i}")
    path = f"/v1/decisions/{decision['id']}/reward"
    assert service.post(path, json={"reward": 0.1}).json() == {"id": decision["id"], "reward": 0.1, "new": True}
    before = service.counts(), service.task("late")
    assert service.post(path, json={"reward": 0.1}).json()["new"] is False
    error = shape(service.post(path, json={"reward": 0.2}), 409, "reward_conflict")
    assert "0.1" in error["message"]
    assert (service.counts(), service.task("late")) == before
    row = service.read(f"/v1/decisions/{decision['id']}")
    assert (row["state"], row["reward"]) == ("rewarded", 0.1)


def test_a_reward_is_learned_when_it_is_acknowledged(service, rainy):
    service.make_fleet("prompt")
    for count in range(1, 20):
        decision = service.decide("t", rainy, fleet="prompt", eligible=["cake"])
        service.reward(decision, 3.0)
        (cake,) = [arm for arm in service.task("t", "prompt")["arms"] if arm["arm"] == "cake"]
        assert cake["rewards"] == count
        assert service.counts("prompt")["rewards"] == count


def test_rewards_in_a_batch(service, world, shape):
    made = [service.decide(f"batch-{i}") for i in range(6)]
    rewards = [{"id": decision["id"], "reward": float(i)} for i, decision in enumerate(made)]
    service.reward(made[5], 5.0)
    assert service.post("/v1/rewards", json={"rewards": rewards[:2]}).json() == {"new": 2, "same": 0}
    assert service.post("/v1/rewards", json={"rewards": rewards[1:3]}).json() == {"new": 1, "same": 1}
    before = service.counts()
    for wrong, status, code in (
        ({"id": "none-1", "reward": 1.0}, 404, "unknown_decision"),
        ({"id": made[5]["id"], "reward": 1.0}, 409, "reward_conflict"),
        ({"id": made[3]["id"], "reward": 99.0}, 409, "reward_conflict"),
    ):
        error = shape(service.post("/v1/rewards", json={"rewards": [*rewards[3:5], wrong]}), status, code)
        assert error["field"].startswith("rewards.2")
        assert service.counts() == before
        assert service.read(f"/v1/decisions/{made[3]['id']}")["state"] == "pending"
    assert service.post("/v1/rewards", json={"rewards": [*rewards[3:], rewards[3]]}).json() == {"new": 2, "same": 2}


def test_rewards_of_several_fleets_in_one_batch(service, world, shape, rainy):
    service.make_fleet("second")
    mixed = [service.decide("m", rainy), service.decide("m", rainy, fleet="second")]
    rewards = [{"id": decision["id"], "reward": 1.5} for decision in mixed]
    assert service.post("/v1/rewards", json={"rewards": rewards}).json() == {"new": 2, "same": 0}
    assert service.task("m", "second")["rewards"] == 1
    assert service.task("m")["rewards"] == 1


def test_many_at_once_with_one_reward_count_once(service, world):
    decision = service.decide("raced")
    requests = [
        ("POST", f"/v1/decisions/{decision['id']}/reward", {"json": {"reward": float(i % 2)}}) for i in range(30)
    ]
    answers = service.together(requests)
    new = [answer for answer in answers if answer.status_code == 200 and answer.json()["new"]]
    assert len(new) == 1
    assert Counter(answer.status_code for answer in answers) == {200: 15, 409: 15}
    assert service.task("raced")["rewards"] == 1


# What happens by itself.


class Clock:
    def __init__(self):
        self.ahead = 0.0

    def __call__(self):
        return time.time() + self.ahead


@pytest.fixture
def clock(service, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(service.runtime, "clock", clock)
    return clock


def test_a_decision_that_waited_too_long_is_gone(service, shape, wait_for, rainy, clock):
    service.make_fleet("short", time_to_live=60.0)
    early, late = (service.decide("t", rainy, fleet="short") for _ in range(2))
    clock.ahead = 59
    service.reward(early, 1.0)
    clock.ahead = 61
    path = f"/v1/decisions/{late['id']}/reward"
    shape(service.post(path, json={"reward": 1.0}), 410, "decision_expired")
    shape(service.post("/v1/rewards", json={"rewards": [{"id": late["id"], "reward": 1.0}]}), 410, "decision_expired")
    # The same reward of one that has it is no news, however old it is.
    assert service.reward(early, 1.0)["new"] is False
    wait_for(lambda: service.read(f"/v1/decisions/{late['id']}")["state"] == "expired")
    shape(service.post(path, json={"reward": 1.0}), 410, "decision_expired")
    assert service.counts("short") == {"tasks": 1, "decisions": 2, "rewards": 1, "pending": 0}
    assert service.read("/v1/fleets/short/pending") == {"pending": [], "total": 0}


def test_what_it_means_if_none_came_is_learned(service, shape, wait_for, rainy, clock):
    service.make_fleet("silence", time_to_live=60.0, absent_reward=-2.5)
    made = [service.decide("t", rainy, fleet="silence", eligible=["cake"]) for _ in range(3)]
    sums = service.read("/v1/fleets/silence/export/t")["learned"]["arms"]["cake"]
    assert (sums["count"], sums["moment"][0]) == (3, pytest.approx(-7.5))  # they count from the moment they are made
    service.reward(made[0], 1.0)
    fleet = service.read("/v1/fleets/silence")
    assert (fleet["pending"], fleet["pending_reward"], fleet["definition"]["count_pending"]) == (2, -2.5, True)
    clock.ahead = 61
    wait_for(lambda: service.counts("silence")["pending"] == 0)
    row = service.read(f"/v1/decisions/{made[1]['id']}")
    assert (row["state"], row["reward"]) == ("rewarded", -2.5)
    assert service.counts("silence")["rewards"] == 3
    (cake,) = [arm for arm in service.task("t", "silence")["arms"] if arm["arm"] == "cake"]
    assert cake["rewards"] == 3
    sums = service.read("/v1/fleets/silence/export/t")["learned"]["arms"]["cake"]
    assert sums["moment"][0] == pytest.approx(1.0 - 2.5 - 2.5)
    for late in (4.0, -2.5):
        answer = service.post(f"/v1/decisions/{made[2]['id']}/reward", json={"reward": late})
        shape(answer, 410, "decision_expired")
    assert service.reward(made[0], 1.0)["new"] is False


def test_what_is_learned_at_the_deadline_only(service, shape, wait_for, stores, rainy, clock):
    shape(service.put("/v1/fleets/wrong", json=stores | {"count_pending": False}), 422, "invalid")
    service.make_fleet("patient", time_to_live=60.0, absent_reward=-2.5, count_pending=False)
    made = [service.decide("t", rainy, fleet="patient", eligible=["cake"]) for _ in range(3)]
    assert service.reward(made[0], 1.0)["new"] is True
    assert service.reward(made[0], 1.0)["new"] is False
    shape(service.post(f"/v1/decisions/{made[0]['id']}/reward", json={"reward": 2.0}), 409, "reward_conflict")
    assert service.counts("patient") == {"tasks": 1, "decisions": 3, "rewards": 1, "pending": 2}
    assert service.read("/v1/fleets/patient")["pending_reward"] is None
    assert service.live("patient").replica.n_rewards == 0
    clock.ahead = 61
    wait_for(lambda: service.live("patient").replica.n_rewards == 3)
    assert service.counts("patient") == {"tasks": 1, "decisions": 3, "rewards": 3, "pending": 0}
    sums = service.read("/v1/fleets/patient/export/t")["learned"]["arms"]["cake"]
    assert sums["moment"][0] == pytest.approx(1.0 - 2.5 - 2.5)
    shape(service.post(f"/v1/decisions/{made[2]['id']}/reward", json={"reward": 4.0}), 410, "decision_expired")


@pytest.mark.slow
def test_old_rows_leave_the_log_and_what_they_taught_stays(start, wait_for, rainy):
    service = start(snapshot_seconds=0.2, follow_seconds=0.05)
    service.runtime.clock = clock = Clock()
    service.make_fleet("forgetful", time_to_live=60.0, retention=120.0)
    made = [service.decide("t", {**rainy, "hour": i}, fleet="forgetful") for i in range(5)]
    for decision in made[:3]:
        service.reward(decision, 2.0)
    before = service.task("t", "forgetful")
    clock.ahead = 121
    newest = service.decide("t", rainy, fleet="forgetful")
    service.reward(newest, 1.0)
    wait_for(lambda: not service.live("forgetful").replica.refreshing)  # the population is estimated beside it
    after = service.task("t", "forgetful")
    assert after["rewards"] == before["rewards"] + 1

    def ids():
        return [json.loads(line)["decision_id"] for line in service.get("/v1/fleets/forgetful/log").text.splitlines()]

    wait_for(lambda: ids() == [newest["id"]])
    answers = [service.get(f"/v1/decisions/{decision['id']}").status_code for decision in [*made, newest]]
    assert answers == [404] * 5 + [200]
    assert service.task("t", "forgetful") == after
    assert service.counts("forgetful") == {"tasks": 1, "decisions": 6, "rewards": 4, "pending": 0}


def test_rows_of_a_fleet_that_is_quiet_leave_the_log_too(start, wait_for, rainy):
    service = start(snapshot_seconds=0.2, follow_seconds=0.05)
    service.make_fleet("quiet", time_to_live=0.5, retention=1.5)
    for reward in (True, False, True, False):
        decision = service.decide("t", rainy, fleet="quiet")
        if reward:
            service.reward(decision, 1.0)
    # Nothing more happens; time goes by.
    wait_for(lambda: service.get("/v1/fleets/quiet/log").text == "")
    assert service.counts("quiet") == {"tasks": 1, "decisions": 4, "rewards": 2, "pending": 0}
    assert service.task("t", "quiet")["rewards"] == 2


@pytest.mark.slow
def test_a_fleet_that_is_only_asked_keeps_no_more_than_it_should(start, wait_for, rainy):
    service = start(snapshot_seconds=0.2, follow_seconds=0.05)
    service.make_fleet("asked", time_to_live=0.5, retention=1.0)
    body = {"decisions": [{"task": f"t{i % 5}", "context": rainy} for i in range(1000)]}
    for _ in range(3):
        assert service.post("/v1/fleets/asked/decisions/batch", json=body).status_code == 200
    # All of them expire soon, not a thousand now and a thousand some other time.
    wait_for(lambda: service.counts("asked")["pending"] == 0)
    wait_for(lambda: service.get("/v1/fleets/asked/log").text == "")


# Arms and fleets come and go.


def test_arms_come_go_and_come_back(service, shape, rainy):
    service.make_fleet("kiosk")
    waiting = service.decide("t", rainy, fleet="kiosk", eligible=["cake"])
    assert service.post("/v1/fleets/kiosk/arms", json={"arm": "ice cream"}).json()["arms"] == [*ARMS, "ice cream"]
    shape(service.post("/v1/fleets/kiosk/arms", json={"arm": "ice cream"}), 409, "arm_exists")
    assert list(service.decide("t", rainy, fleet="kiosk")["mean"]) == [*ARMS, "ice cream"]

    found = service.delete("/v1/fleets/kiosk/arms/cake").json()
    assert (found["arms"], found["retired_arms"]) == (["coffee", "newspaper", "ice cream"], ["cake"])
    assert service.delete("/v1/fleets/kiosk/arms/cake").json()["retired_arms"] == ["cake"]
    assert "cake" not in service.decide("t", rainy, fleet="kiosk")["mean"]
    body = {"task": "t", "context": rainy, "eligible": ["cake"]}
    shape(service.post("/v1/fleets/kiosk/decisions", json=body), 422, "invalid")
    # Its reward is still learned, and it is still shown.
    service.reward(waiting, 7.0)
    arms = {arm["arm"]: arm for arm in service.task("t", "kiosk")["arms"]}
    assert (arms["cake"]["retired"], arms["cake"]["rewards"]) == (True, 1.0)
    population = {arm["arm"]: arm["retired"] for arm in service.read("/v1/fleets/kiosk/population")["arms"]}
    assert population == {"coffee": False, "cake": True, "newspaper": False, "ice cream": False}

    found = service.post("/v1/fleets/kiosk/arms", json={"arm": "cake"}).json()
    assert (set(found["arms"]), found["retired_arms"]) == ({*ARMS, "ice cream"}, [])
    arms = {arm["arm"]: arm for arm in service.task("t", "kiosk")["arms"]}
    assert (arms["cake"]["retired"], arms["cake"]["rewards"]) == (False, 1.0)


def test_the_last_arm_stays(service, shape):
    service.make_fleet("single", arms=["only", "other"])
    service.delete("/v1/fleets/single/arms/only")
    shape(service.delete("/v1/fleets/single/arms/other"), 422, "invalid")
    shape(service.delete("/v1/fleets/single/arms/none"), 404, "unknown_arm")


def test_a_floor_that_more_arms_cannot_have_refuses_them(service, shape):
    service.make_fleet("floored", floor=0.3)
    before = service.read("/v1/fleets/floored")
    shape(service.post("/v1/fleets/floored/arms", json={"arm": "tea"}), 422, "invalid")
    assert service.read("/v1/fleets/floored") == before
    assert list(service.decide("t", fleet="floored")["mean"]) == ARMS


def test_the_same_definition_again_is_the_same_fleet(service, shape, stores, rainy):
    made = service.make_fleet("twice")
    service.decide("t", rainy, fleet="twice")
    again = service.put("/v1/fleets/twice", json=stores)
    assert again.status_code == 200
    assert again.json()["created"] == made["created"]
    assert again.json()["decisions"] == 1
    for change in (
        {"floor": 0.1}, {"evaluation_budget": 0.1}, {"arms": ["coffee", "cake"]}, {"arms": [*ARMS, "tea"]},
        {"arms": ARMS[::-1]}, {"features": ["hour"]},
        {"policy": "lin-ucb"}, {"time_to_live": None}, {"intercept": False}, {"absent_reward": 0.0},
    ):  # fmt: skip
        shape(service.put("/v1/fleets/twice", json={**stores, **change}), 409, "fleet_exists")
    # Arms that came since change nothing about what was asked for.
    service.post("/v1/fleets/twice/arms", json={"arm": "tea"})
    assert service.put("/v1/fleets/twice", json=stores).status_code == 200


@pytest.mark.parametrize("policy", ["ebm-rand-ucb", "ebm-ts", "ebm-ucb", "lin-ucb", "random"])
def test_every_policy_serves(service, policy, rainy):
    name = f"policy-{policy}"
    made = service.make_fleet(name, policy=policy)
    assert made["definition"]["policy"] == policy
    for i in range(12):
        service.reward(service.decide(f"t{i % 2}", {**rainy, "hour": i}, fleet=name), float(i))
    for part in ("population", "tasks/t0", "value", "log", "pending", "history/t1", "export/t1", "activity"):
        assert service.get(f"/v1/fleets/{name}/{part}").status_code == 200, part
    assert service.decide("t0", rainy, fleet=name)["propensity"] > 0
    assert service.delete(f"/v1/fleets/{name}").status_code == 204


def test_a_deleted_fleet_is_gone_and_its_name_is_free(service, shape, rainy):
    service.make_fleet("brief")
    decision = service.decide("t", rainy, fleet="brief", headers={"idempotency-key": "k"})
    service.reward(decision, 1.0)
    waiting = service.decide("t", rainy, fleet="brief")
    assert service.delete("/v1/fleets/brief").status_code == 204
    shape(service.delete("/v1/fleets/brief"), 404, "unknown_fleet")
    shape(service.get("/v1/fleets/brief"), 404, "unknown_fleet")
    shape(service.get(f"/v1/decisions/{decision['id']}"), 404, "unknown_decision")
    shape(service.post(f"/v1/decisions/{waiting['id']}/reward", json={"reward": 1.0}), 404, "unknown_decision")
    body = {"task": "t", "context": rainy}
    shape(service.post("/v1/fleets/brief/decisions", json=body), 404, "unknown_fleet")
    for part in ("tasks", "tasks/t", "history/t", "export/t", "population", "pending", "activity", "value", "log"):
        shape(service.get(f"/v1/fleets/brief/{part}"), 404, "unknown_fleet")

    made = service.make_fleet("brief", arms=["x", "y"])
    assert service.counts("brief") == {"tasks": 0, "decisions": 0, "rewards": 0, "pending": 0}
    assert made["arms"] == ["x", "y"]
    again = service.decide("t", rainy, fleet="brief", headers={"idempotency-key": "k"})
    assert again["id"] != decision["id"]
    assert set(again["mean"]) == {"x", "y"}
    assert set(again["mean"].values()) == {0.0}
    shape(service.post(f"/v1/decisions/{waiting['id']}/reward", json={"reward": 1.0}), 404, "unknown_decision")
    assert service.read("/v1/fleets/brief/activity")["activity"][0]["rewards"] == 0
    service.delete("/v1/fleets/brief")


@pytest.mark.slow
def test_fleets_come_and_go_while_others_look(service, rainy):
    requests = []
    for i in range(12):
        requests.append(("PUT", f"/v1/fleets/passing-{i % 3}", {"json": {"arms": ["a", "b"], "features": ["x"]}}))
        requests.append(("GET", "/v1/fleets", {}))
        requests.append(("POST", f"/v1/fleets/passing-{i % 3}/decisions", {"json": {"task": "t", "context": [1.0]}}))
        requests.append(("DELETE", f"/v1/fleets/passing-{i % 3}", {}))
        requests.append(("GET", "/metrics", {}))
    for _ in range(5):
        for (method, path, _), answer in zip(requests, service.together(requests), strict=True):
            assert answer.status_code < 500, (method, path, answer.text)
            if path in ("/v1/fleets", "/metrics"):
                assert answer.status_code == 200, (path, answer.text)
    for i in range(3):
        service.delete(f"/v1/fleets/passing-{i}")


# Names.

NAMES = [
    "a/b", "/", "//", "a//b/", "50%", "%2F", "%25", "ü", "日本 店", "☕", "🙂🙃", "a?b=c", "a#b", "a+b", " ", " a ",
    ";", "\\", "'\"<b>&", "null", "~", "a.b", "...", "tasks", "x" * 200, "🙂" * 200, "e\u0301", "\u0639\u0631\u0628",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_tasks_may_have_any_name(service, path_of, shape, rainy, name):
    if "names" not in {fleet["name"] for fleet in service.read("/v1/fleets")["fleets"]}:
        service.make_fleet("names")
    decision = service.decide(name, rainy, fleet="names")
    service.reward(decision, 1.0)
    assert service.task(name, "names")["task"] == name
    assert service.read(path_of("names", name, "history"))["decisions"][0]["id"] == decision["id"]
    assert service.read(path_of("names", name, "export"))["task"] == name
    found = service.read("/v1/fleets/names/tasks?limit=1000")["tasks"]
    assert name in [row["task"] for row in found]
    listed = service.get("/v1/fleets/names/tasks", params={"search": name, "limit": 1000}).json()["tasks"]
    assert name in [row["task"] for row in listed]
    assert service.delete(path_of("names", name)).status_code == 204
    shape(service.get(path_of("names", name)), 404, "unknown_task")
    shape(service.delete(path_of("names", name)), 404, "unknown_task")
    shape(service.get(path_of("names", name, "history")), 404, "unknown_task")
    shape(service.get(path_of("names", name, "export")), 404, "unknown_task")


def test_tasks_are_paged_and_searched(service, rainy):
    service.make_fleet("town")
    names = [f"shop {i:02d}" for i in range(25)] + ["Ärger", "ÄRGER 2", "50% off", "under_score", "a\\b", "x'y"]
    asks = [{"task": name, "context": rainy} for name in names]
    service.post("/v1/fleets/town/decisions/batch", json={"decisions": asks})
    seen, after, pages = [], "", 0
    while after is not None:
        page = service.get("/v1/fleets/town/tasks", params={"limit": 10, "after": after}).json()
        seen += [row["task"] for row in page["tasks"]]
        after, pages = page["next"], pages + 1
    assert sorted(seen) == sorted(names)
    assert len(set(seen)) == len(seen)
    assert pages == 4

    def search(text):
        found = service.get("/v1/fleets/town/tasks", params={"search": text}).json()["tasks"]
        return {row["task"] for row in found}

    assert search("SHOP 1") == {f"shop {i}" for i in range(10, 20)}
    assert search("ärger") == {"Ärger", "ÄRGER 2"}
    assert search("%") == {"50% off"}
    assert search("_") == {"under_score"}
    assert search("\\") == {"a\\b"}
    assert search("'") == {"x'y"}
    assert search("nowhere") == set()
    page = service.get("/v1/fleets/town/tasks", params={"search": "shop", "limit": 10}).json()
    rest = service.get("/v1/fleets/town/tasks", params={"search": "shop", "limit": 100, "after": page["next"]}).json()
    assert len(page["tasks"]) + len(rest["tasks"]) == 25


# Logs of all kinds.


def test_the_log_of_a_fleet_without_decisions_is_empty_and_can_be_read(service, tmp_path):
    service.make_fleet("empty")
    assert service.get("/v1/fleets/empty/log").content == b""
    answer = service.get("/v1/fleets/empty/log?format=parquet")
    assert answer.status_code == 200
    path = tmp_path / "log.parquet"
    path.write_bytes(answer.content)
    assert len(read_log(path).frame) == 0
