"""Two processes' worth of service on one PostgreSQL database: what one is told, the other knows soon."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytestmark = pytest.mark.slow


@pytest.fixture
def pair(postgres_url, start, wait_for):
    one, other = start(postgres_url), start(postgres_url)
    wait_for(lambda: one.runtime.leading != other.runtime.leading)
    return (one, other) if one.runtime.leading else (other, one)


def beliefs(service, tasks, fleet="stores"):
    found = [[arm["mean"], arm["sd"]] for task in tasks for arm in service.task(task, fleet)["arms"]]
    return np.array(found)


def soon(check):
    """Wait for something that comes within a second; a machine that is busy gets more."""
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)
    return True


def test_one_of_them_learns(pair):
    learner, follower = pair
    assert learner.read("/readyz")["leading"] is True
    assert follower.read("/readyz")["leading"] is False


def test_a_fleet_made_by_one_is_there_for_the_other_at_once(pair, shape):
    for maker, user in (pair, pair[::-1]):
        name = "of-the-learner" if maker.runtime.leading else "of-the-follower"
        maker.make_fleet(name)
        decision = user.decide(fleet=name)
        assert maker.read(f"/v1/decisions/{decision['id']}")["task"] == decision["task"]
        assert user.delete(f"/v1/fleets/{name}").status_code == 204
        soon(lambda: maker.get(f"/v1/fleets/{name}/population").status_code == 404)  # noqa: B023
        shape(maker.get(f"/v1/fleets/{name}"), 404, "unknown_fleet")


@pytest.mark.parametrize("silence", [{}, {"absent_reward": -0.75}], ids=["plain", "pending counts"])
def test_rewards_through_either_are_learned_by_both(pair, rainy, silence):
    learner, follower = pair
    learner.make_fleet(**silence)
    tasks = [f"store-{i}" for i in range(4)]
    for step in range(60):
        asked, told = (pair, pair[::-1])[step % 2]
        decision = asked.decide(tasks[step % 4], {**rainy, "hour": float(step)})
        if step % 3 or not silence:  # the others wait, and count all the same
            told.reward(decision, float(step % 5))

    def same():
        counts = [sum(arm["rewards"] for task in tasks for arm in each.task(task)["arms"]) for each in pair]
        return counts == [60, 60] and np.allclose(beliefs(learner, tasks), beliefs(follower, tasks), rtol=1e-9)

    soon(same)
    assert_allclose(beliefs(learner, tasks), beliefs(follower, tasks), rtol=1e-9, atol=1e-12)
    assert learner.counts() == follower.counts()


def test_keys_and_rewards_count_once_across_both(pair, shape, rainy):
    learner, follower = pair
    learner.make_fleet()
    headers = {"idempotency-key": "order-1"}
    first = learner.decide("t", rainy, headers=headers)
    assert follower.decide("t", rainy, headers=headers) == first
    assert follower.reward(first, 1.0)["new"] is True
    assert learner.reward(first, 1.0)["new"] is False
    shape(learner.post(f"/v1/decisions/{first['id']}/reward", json={"reward": 2.0}), 409, "reward_conflict")
    ids = {service.decide("t", rainy)["id"] for service in pair for _ in range(50)}
    assert len(ids) == 100


def test_arms_that_come_and_go_reach_both(pair, rainy):
    learner, follower = pair
    learner.make_fleet()
    follower.decide("t", rainy)
    learner.post("/v1/fleets/stores/arms", json={"arm": "tea"})
    soon(lambda: "tea" in follower.decide("t", rainy)["mean"])
    follower.delete("/v1/fleets/stores/arms/tea")
    soon(lambda: "tea" not in learner.decide("t", rainy)["mean"])
    # Both at once: neither change is lost.
    for number in range(5):
        answers = [service.post("/v1/fleets/stores/arms", json={"arm": f"{name}-{number}"})
                   for service, name in zip(pair, ("a", "b"), strict=True)]  # fmt: skip
        assert [answer.status_code for answer in answers] == [200, 200]
    expected = {f"{name}-{number}" for name in "ab" for number in range(5)}
    assert expected <= set(learner.read("/v1/fleets/stores")["arms"])
    soon(lambda: all(expected <= set(service.decide("t", rainy)["mean"]) for service in pair))


@pytest.mark.parametrize("who", [0, 1])
def test_an_erased_task_is_forgotten_by_both(pair, path_of, rainy, who):
    learner, follower = pair
    learner.make_fleet()
    for service in pair:
        for step in range(12):
            service.reward(service.decide(("gone", "kept")[step % 2], {**rainy, "hour": float(step)}), float(step))
    soon(lambda: all("gone" in service.live().replica.tasks for service in pair))
    assert pair[who].delete(path_of("stores", "gone")).status_code == 204
    soon(lambda: all("gone" not in service.live().replica.tasks for service in pair))
    soon(lambda: np.allclose(beliefs(learner, ["kept"]), beliefs(follower, ["kept"]), rtol=1e-9))


def test_keys_made_for_one_are_known_to_both(pair, postgres_url, keys, wait_for):
    (key,) = keys(postgres_url, ["read"])
    for service in pair:
        wait_for(lambda service=service: service.get("/v1/fleets").status_code == 401)
        assert service.get("/v1/fleets", headers={"authorization": f"Bearer {key}"}).status_code == 200


def test_the_other_takes_over_when_the_learner_stops(pair, wait_for, rainy):
    learner, follower = pair
    learner.make_fleet()
    decision = learner.decide("t", rainy)
    learner.stop()
    wait_for(lambda: follower.runtime.leading)
    follower.reward(decision, 1.0)
    assert sum(arm["rewards"] for arm in follower.task("t")["arms"]) == 1
