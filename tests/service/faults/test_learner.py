"""Several processes share one PostgreSQL database: one learns for all, and another takes over when it dies."""

import random
import signal
import statistics
import time

import numpy as np
import pytest

from posse_lab.servers.checking import (
    check_all,
    decide,
    decide_and_report,
    make_fleet,
    read_log,
    rewards_known,
    settle_learned,
    task_path,
)
from posse_lab.servers.clients import FLEET
from posse_lab.servers.service import settle

pytestmark = pytest.mark.slow


@pytest.fixture
def pair(services, postgres_url):
    """Two services on one database."""
    both = [services(name, database=postgres_url, snapshot_seconds=0.5) for name in ("first", "second")]
    for service in both:
        service.start(ready=False)
    for service in both:
        service.wait_until_ready()
    return both


def leader_of(services):
    """Return the one that leads and the others; exactly one does."""

    def found():
        leading = [service for service in services if service.leading]
        assert len(leading) <= 1, "two lead at once"
        return leading

    [leader] = settle(found, 30)
    return leader, [service for service in services if service is not leader]


def same_beliefs(services, tasks):
    """Whether all believe the same about tasks, once what is on its way has come."""

    def agree():
        for task in tasks:
            told = [service.connection.read(task_path(task))["arms"] for service in services]
            for arms in zip(*told, strict=True):
                for name in ("rewards", "mean", "sd", "population_mean"):
                    if not all(np.allclose(arm[name], arms[0][name], 1e-9, 1e-9) for arm in arms):
                        return False
        return True

    settle(agree, 20, 0.1)


def test_changes_through_one_process_reach_the_other(pair):
    one, other = pair
    leader_of(pair)
    make_fleet(one.connection, floor=0.1)

    # A fleet and its arms.
    answer = settle(lambda: (found := decide(other.connection, "new")).status == 200 and found)
    assert one.connection.ask("GET", f"/v1/decisions/{answer.body['id']}").status == 200
    for service, arm in ((one, "tea"), (other, "soup")):
        assert service.connection.ask("POST", f"/v1/fleets/{FLEET}/arms", {"arm": arm}).status == 200
    wanted = ["coffee", "cake", "newspaper", "tea", "soup"]
    for service in pair:
        assert service.connection.read(f"/v1/fleets/{FLEET}")["arms"] == wanted
        settle(lambda service=service: list(decide(service.connection).body["probabilities"]) == wanted)
    assert other.connection.ask("DELETE", f"/v1/fleets/{FLEET}/arms/tea").status == 200
    settle(lambda: "tea" not in decide(one.connection).body["probabilities"])

    # Rewards, whoever decided and whoever is told.
    lags = []
    for turn in range(12):
        decided, told, asked = [pair[(turn >> bit) & 1] for bit in range(3)]
        task = f"lag-{turn}"
        decision = decide(decided.connection, task).body
        answer = told.connection.ask("POST", f"/v1/decisions/{decision['id']}/reward", {"reward": 2.0})
        assert answer.body["new"], answer
        begin = time.monotonic()
        settle(lambda asked=asked, task=task: rewards_known(asked.connection, task) == 1, 60, 0.01)
        if asked is not told:
            lags.append(time.monotonic() - begin)
        again = asked.connection.ask("POST", f"/v1/decisions/{decision['id']}/reward", {"reward": 2.0})
        assert again.body["new"] is False
    print(f"the other knew a reward after {statistics.median(lags):.2f} s, at most {max(lags):.2f} s")
    assert max(lags) < 10  # one second is promised on a machine that has time
    same_beliefs(pair, [f"lag-{turn}" for turn in range(12)])

    # A task that goes.
    assert other.connection.ask("DELETE", task_path("lag-3")).status == 204
    assert one.connection.ask("GET", task_path("lag-3")).status == 404
    assert other.connection.ask("GET", task_path("lag-3")).status == 404
    # It starts anew in both: nothing of what was learned is left.
    for service in pair:
        assert decide(service.connection, "lag-3").status == 200
    for service in pair:
        settle(lambda service=service: rewards_known(service.connection, "lag-3") == 0, 60)

    # A fleet that goes.
    assert one.connection.ask("DELETE", f"/v1/fleets/{FLEET}").status == 204
    settle(lambda: decide(other.connection).status == 404)


def test_two_deciders_do_not_disturb_each_other(pair, loads):
    make_fleet(pair[0].connection)
    load = loads(*pair, seed=21, clients=4, erasing=True)
    load.wait_for_answers(1500)
    books = load.rest()
    assert len({name.partition("-")[0] for name in books.decisions}) == 2, "both decide, with ids of their own"
    assert not books.refusals
    for service in pair:
        settle_learned(service.connection)
        check_all(service.connection, books, service.database)
    same_beliefs(pair, [f"task-{number}" for number in range(5)])
    for service in pair:
        assert service.stop() == 0
        assert service.complaints() == []


@pytest.mark.parametrize("kills", [1, 20])
def test_another_learns_when_the_learner_is_killed(pair, loads, kills):
    rng = random.Random(kills)
    make_fleet(pair[0].connection)
    load = loads(*pair, seed=31 + kills, clients=3, erasing=True, pause=0.0 if kills == 3 else 0.005)
    takeovers = []
    for kill in range(1, kills + 1):
        load.wait_for_answers(rng.randrange(50, 150))
        leader, [follower] = leader_of(pair)
        leader.kill()
        begin = time.monotonic()
        settle(lambda follower=follower: follower.leading, 30, 0.01)
        takeovers.append(time.monotonic() - begin)
        assert not [refusal for refusal in load.books.refusals if refusal.time > begin], "the other one goes on"
        # It really leads: populations are estimated again when rewards have grown.
        refreshed = follower.connection.read(f"/v1/fleets/{FLEET}/population")["refreshed_rewards"]
        settle(
            lambda follower=follower, refreshed=refreshed: (
                follower.connection.read(f"/v1/fleets/{FLEET}/population")["refreshed_rewards"] > refreshed
            )
        )
        leader.start()
        assert not leader.leading, "two lead at once"
        if kill % max(1, kills // 3) == 0:
            books = load.rest()
            for service in pair:
                settle_learned(service.connection)
                check_all(service.connection, books, service.database)
            same_beliefs(pair, [f"task-{number}" for number in range(5)])
            load.resume()
    print(
        f"{kills} kills; the other led after {statistics.median(takeovers):.2f} s, at most {max(takeovers):.2f} s; "
        f"{len(books.rewards)} rewards, {books.broken} broken requests"
    )
    assert max(takeovers) < 20  # five seconds are promised on a machine that has time
    assert books.broken
    for service in pair:
        assert service.complaints() == []


def test_another_learns_when_the_learner_stands_still(pair, loads):
    """Its connection stays open, so the database has to end it; when it goes on it follows."""
    make_fleet(pair[0].connection)
    load = loads(*pair, seed=37, clients=3)
    load.wait_for_answers(100)
    leader, [follower] = leader_of(pair)
    load.rest()
    leader.send(signal.SIGSTOP)
    begin = time.monotonic()
    try:
        settle(lambda: follower.leading, 60)
        print(f"the other led {time.monotonic() - begin:.1f} s after the learner stood still")
        answer = settle(lambda: (found := decide(follower.connection)).status == 200 and found)
        load.books.decided(answer.body, {"hour": 1.0, "rain": 0.0}, "")
    finally:
        leader.send(signal.SIGCONT)
    settle(lambda: not leader.leading, 30)
    leader_of(pair)
    load.resume()
    load.wait_for_answers(200)
    books = load.rest()
    for service in pair:
        settle_learned(service.connection)
        check_all(service.connection, books, service.database)
    same_beliefs(pair, [f"task-{number}" for number in range(5)])


def test_a_decider_that_stood_still_knows_what_the_log_has_let_go_since(pair):
    make_fleet(pair[0].connection, time_to_live=1.0, retention=1.0)
    for service in pair:
        settle(lambda service=service: decide(service.connection).status == 200)
    decide_and_report(pair[0].connection, "early")
    leader, [follower] = leader_of(pair)
    settle(lambda: rewards_known(follower.connection, "early") == 6)
    follower.send(signal.SIGSTOP)
    try:
        decide_and_report(leader.connection, "meanwhile")

        def pruned():
            # Something has to be new for a snapshot to be written, and only then old rows go.
            decide_and_report(leader.connection, "news", 1, 1)
            return not any(row["task"] == "meanwhile" for row in read_log(leader.connection))

        settle(pruned, 30, 0.2)
    finally:
        follower.send(signal.SIGCONT)
    settle(lambda: rewards_known(follower.connection, "meanwhile") == 6, 20)
    settle(lambda: rewards_known(follower.connection, "news") == rewards_known(leader.connection, "news"), 20)
    assert rewards_known(follower.connection, "early") == 6
    same_beliefs(pair, ["early", "meanwhile", "news"])
