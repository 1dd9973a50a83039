"""Random writes beside a reference that is a few dictionaries."""

import random
from collections import Counter

import pytest

from posse.storage import ACCEPTED, CONFLICT, EXPIRED, GONE, PENDING, REWARDED, SAME, UNKNOWN, WITHHELD, NewDecision


class Reference:
    """What the contract says, without a database: one copy of everything per group, thrown away if it is refused."""

    def __init__(self):
        self.rows, self.keys, self.changes, self.next, self.last = {}, {}, {"x": [], "y": []}, Counter(), Counter()
        self.counts = {"x": Counter(), "y": Counter()}

    def write(self, groups):
        return [self.group(group) for group in groups]

    def group(self, group):
        saved = (dict(self.rows), dict(self.keys), {f: list(c) for f, c in self.changes.items()})
        numbers = (Counter(self.next), Counter(self.last))
        kinds = [self.decide(one) if isinstance(one, NewDecision) else self.reward(one) for one in group]
        if all(kind in (ACCEPTED, SAME) for kind in kinds):
            return kinds
        self.rows, self.keys, self.changes = saved
        self.next, self.last = numbers
        return [WITHHELD if kind in (ACCEPTED, SAME) and len(kinds) > 1 else kind for kind in kinds]

    def decide(self, new):
        if new.fleet not in self.changes:
            return UNKNOWN
        if new.key is not None and (new.fleet, new.key) in self.keys:
            return SAME if self.keys[new.fleet, new.key] == new.digest else CONFLICT
        if new.id in self.rows:
            same = new.key is None and self.rows[new.id][0] == new
            return SAME if same else CONFLICT
        self.next[new.fleet] += 1
        self.rows[new.id] = (new, self.next[new.fleet], PENDING, None, None)
        if new.key is not None:
            self.keys[new.fleet, new.key] = new.digest
        return ACCEPTED

    def reward(self, new):
        if new.id not in self.rows:
            return UNKNOWN
        decision, number, state, value, change = self.rows[new.id]
        if state == REWARDED:
            return SAME if new.expiring or value == new.value else CONFLICT
        if state == EXPIRED or (new.time - decision.time > 50 and not new.expiring):
            return GONE
        self.last[decision.fleet] += 1
        change = self.last[decision.fleet]
        self.rows[new.id] = (decision, number, REWARDED, new.value, change)
        self.changes[decision.fleet].append((change, decision.task, new.value))
        return ACCEPTED

    def erase(self, fleet, task):
        gone = [name for name, row in self.rows.items() if (row[0].fleet, row[0].task) == (fleet, task)]
        if not gone:
            return None
        for name in gone:
            decision = self.rows.pop(name)[0]
            self.keys.pop((fleet, decision.key), None)
        self.last[fleet] += 1
        kept = {row[4] for row in self.rows.values() if row[0].fleet == fleet}
        self.changes[fleet] = [change for change in self.changes[fleet] if change[0] in kept or change[1] == "erase"]
        self.changes[fleet].append((self.last[fleet], "erase", 0.0))
        return self.last[fleet]

    def expire(self, fleet, before):
        old = [
            name
            for name, row in self.rows.items()
            if row[0].fleet == fleet and row[2] == PENDING and row[0].time < before
        ]
        for name in old:
            self.rows[name] = (*self.rows[name][:2], EXPIRED, None, None)
        return len(old)

    def fleet(self, name):
        rows = [row for row in self.rows.values() if row[0].fleet == name]
        states = Counter(row[2] for row in rows)
        return len({row[0].task for row in rows}), len(rows), states[REWARDED], states[PENDING], self.last[name]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_writes_do_what_the_reference_does(empty, make, seed):
    rng, reference = random.Random(seed), Reference()
    for name in "xy":
        empty.create_fleet(name, {"time_to_live": 50}, 0.0)
    seen = Counter()
    made = [make.decision("d0", "t0", fleet="x", time=0.0)]

    def entry(now):
        if rng.random() < 0.5:
            if rng.random() < 0.1:
                return rng.choice(made)
            key = rng.choice([None, None, f"k{rng.randrange(40)}"])
            new = make.decision(
                f"d{rng.randrange(500)}", f"t{rng.randrange(8)}", fleet=rng.choice("xxxyyyz"), time=now, key=key,
                digest="" if key is None else rng.choice(["one", "one", "two"]),
            )  # fmt: skip
            made.append(new)
            return new
        return make.reward(f"d{rng.randrange(500)}", float(rng.randrange(2)), now, expiring=rng.random() < 0.1)

    for step in range(80):
        now = float(step)
        groups = [[entry(now) for _ in range(rng.choice([1, 1, 1, 2, 3]))] for _ in range(rng.randrange(1, 12))]
        written, expected = empty.write(groups), reference.write(groups)
        assert [[outcome.kind for outcome in group] for group in written.outcomes] == expected
        seen.update(kind for group in expected for kind in group)
        if step % 20 == 13:
            assert empty.erase("x", "t3") == reference.erase("x", "t3")
        if step % 20 == 17:
            assert empty.expire("y", now - 40) == reference.expire("y", now - 40)
        for name in "xy":
            assert empty.fleet(name)[3:8] == reference.fleet(name)
    for name in "xy":
        rows = empty.decisions(name)
        expected_rows = sorted((row for row in reference.rows.values() if row[0].fleet == name), key=lambda row: row[1])
        assert [(row.id, row.number, row.state, row.reward, row.change) for row in rows] == [
            (new.id, number, state, value, change) for new, number, state, value, change in expected_rows
        ]
        changes = [(one.number, one.task or one.kind, one.reward) for one in empty.changes(name, 0)]
        assert changes == reference.changes[name]
        tasks = Counter(row.task for row in rows)
        rewards = Counter(row.task for row in rows if row.state == REWARDED)
        assert {row.task: row[2:] for row in empty.tasks(name)} == {
            task: (tasks[task], rewards[task]) for task in tasks
        }
    assert set(seen) == {ACCEPTED, SAME, CONFLICT, UNKNOWN, GONE, WITHHELD}
