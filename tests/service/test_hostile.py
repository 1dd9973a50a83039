"""Ten thousand bodies that no service can accept: each is refused in the one shape, and nothing changes."""

import copy
import json
import random
import string

import pytest

MANY = 10_000
AT_ONCE = 50

NUMERIC = {"kind": "numeric", "name": "hour", "scale": None, "missing": "error"}
ONE_HOT = {"kind": "one_hot", "name": "weather", "categories": ["sun", "rain"], "unknown": "error"}
HASHED = {"kind": "hashed", "name": "shop", "buckets": 8}
ASK = {
    "task": "store-1",
    "context": {"hour": 9.5, "weather": "rain", "shop": "north"},
    "eligible": ["coffee", "cake"],
    "explore": True,
}
DEFINITION = {
    "arms": ["a", "b"],
    "features": ["x", NUMERIC, ONE_HOT, HASHED],
    "intercept": True,
    "policy": "ebm-rand-ucb",
    "prior": "evidence",
    "exploration": 0.1,
    "floor": 0.01,
    "evaluation_budget": 0.01,
    "refresh_growth": 0.1,
    "robust": False,
    "time_to_live": 1000.0,
    "absent_reward": 0.0,
    "retention": 2000.0,
}
LARGE = [1e308, -1e308, 10**60, -(10**60), 1e200, 1.1e9, -(10**10)]
RAW_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 5000, "-" + "9" * 400, "1e-", "+1", ".5", "0x1"]


class Raw:
    """A piece of text that is written into JSON as it is."""

    def __init__(self, text):
        self.text = text


def written(value):
    """JSON as text, with raw pieces in it."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value)


class Hostility:
    """Makes bodies that are wrong on purpose; every method returns one that cannot be right."""

    def __init__(self, seed, decision_ids):
        self.random = random.Random(seed)
        self.ids = decision_ids

    # Values that are never right, by what is expected in their place.

    def junk(self, depth=0):
        """Any JSON value at all."""
        pick = self.random.random()
        if depth < 4 and pick < 0.15:
            return [self.junk(depth + 1) for _ in range(self.random.randrange(4))]
        if depth < 4 and pick < 0.3:
            return {self.text(): self.junk(depth + 1) for _ in range(self.random.randrange(4))}
        return self.random.choice(
            [None, True, False, 0, -1, 1.5, self.text(), *LARGE, "NaN", "", "\0", "9" * 500, "\U0001f600" * 50]
        )

    def text(self):
        letters = string.printable + "\0\x1b\x7f\x85  \ufeffé日☕"
        return "".join(self.random.choices(letters, k=self.random.randrange(1, 12)))

    def deep(self):
        depth = self.random.choice([100, 500, 5000])
        opened, closed = self.random.choice([("[", "]"), ('{"a":', "}")])
        return Raw(
            opened * depth
            + self.random.choice(["", "1"]) * (opened != "[")
            + ("1" if opened == "[" else "")
            + closed * depth
        )

    def not_text(self):
        return self.random.choice([None, True, 7, 1.5, [], ["a"], {}, {"a": "b"}, self.deep(), *map(Raw, RAW_NUMBERS)])

    def not_name(self):
        odd = self.random.choice("\0\n\r\t\x1b\x7f\x85\u2028\u2029\x01\x9f")
        long = self.random.choice(["x", "é", "\U0001f600"]) * self.random.randrange(201, 2000)
        return self.random.choice(
            [self.not_text(), "", ".", "..", odd, "a" + odd, odd + "b", f"a{odd}b", long, Raw('"\\ud800"')]
        )

    def not_number(self):
        return self.random.choice(
            [None, "1", "", "NaN", [], [1.0], {}, {"value": 1}, self.deep(), *LARGE, *map(Raw, RAW_NUMBERS)]
        )

    def not_setting(self):
        return self.random.choice(["1", "", [], [0.1], {}, -1, -1e-9, 1e300, self.deep(), *map(Raw, RAW_NUMBERS)])

    def not_truth(self):
        return self.random.choice(
            [None, 0, 1, 1.0, "true", "yes", "", [], [True], {}, self.deep(), *map(Raw, RAW_NUMBERS)]
        )

    def not_list(self):
        return self.random.choice([None, True, 7, "text", {}, {"0": "a"}, 1.5, *map(Raw, RAW_NUMBERS)])

    def not_arms(self):
        wrong = [self.not_list(), [], ["a", "a"], ["a", self.not_name()], [self.not_name()], [["a"]]]
        return self.random.choice(wrong)

    def not_eligible(self):
        wrong = [
            True,
            7,
            "cake",
            {},
            {"cake": True},
            [],
            ["none"],
            ["cake", "cake"],
            ["cake", self.not_text()],
            [[]],
            [{}],
        ]
        return self.random.choice(wrong)

    def not_feature(self):
        kind = copy.deepcopy(self.random.choice([NUMERIC, ONE_HOT, HASHED]))
        wrong = {
            "kind": ["", "other", None, 1, [], {}, ["numeric"], "Numeric"],
            "name": [self.not_name()],
            "scale": [1, [], {}, "big", "standard", True],
            "missing": [[], {}, "what"],
            "unknown": [1, [], {}, "what", True],
            "categories": [None, 1, "ab", {}, {"a": 1}, [], ["a", "a"], [None], [[]], [{}], ["a", ["b"]]],
            "buckets": [None, 0, -1, 1.5, "8", [], {}, True, 10**6, 10**12, 10**400],
        }
        place = self.random.choice([*kind, "more"])
        if place == "more":
            return {**kind, "surprise" + self.text(): self.junk()}
        if place in ("kind", "name") and self.random.random() < 0.3:
            del kind[place]
            return kind
        return {**kind, place: self.random.choice(wrong[place])}

    def not_features(self):
        feature = self.not_feature()
        return self.random.choice(
            [
                self.not_list(),
                [feature],
                ["x", feature],
                [feature, "x"],
                ["x", "x"],
                [7],
                [None],
                [[]],
                [self.not_name()],
            ]
        )

    def not_context(self):
        right = ASK["context"]
        name = self.random.choice(["hour", "weather", "shop"])
        # A category may be any number or text if it is hashed, and is then no longer wrong.
        value = (
            self.not_number()
            if name == "hour"
            else self.random.choice([None, [], {}, ["sun"], {"sun": 1}, self.deep()])
        )
        left_out = {other: right[other] for other in right if other != name}
        return self.random.choice(
            [
                None, True, 7, "hour", [], {}, {**right, name: value}, left_out, {**right, "surprise": 1},
                [1], [1, "sun"], [1, "sun", "north", 4], [value if name == "hour" else None, "sun", "north"],
                {**right, "weather": "hail" + self.text()}, self.deep(),
            ]
        )  # fmt: skip

    # Bodies.

    def ask(self, *, keyed=False):
        wrong = {
            "task": self.not_name,
            "context": self.not_context,
            "eligible": self.not_eligible,
            "explore": self.not_truth,
        }
        if keyed:
            wrong["key"] = lambda: self.random.choice([1, True, [], {}, "", "\0", "x" * 201])
        return self.spoil(ASK, wrong, required=("task", "context"))

    def spoil(self, right, wrong, required):
        """A right body with one thing wrong."""
        body, pick = copy.deepcopy(right), self.random.random()
        if pick < 0.1:
            return {**body, "surprise" + self.text(): self.junk()}
        if pick < 0.2:
            del body[self.random.choice(required)]
            return body
        place = self.random.choice(list(wrong))
        return {**body, place: wrong[place]()}

    def batch(self):
        items = [copy.deepcopy(ASK) for _ in range(self.random.randrange(4))]
        items.insert(self.random.randrange(len(items) + 1), self.ask(keyed=True))
        wrong = {"decisions": lambda: self.random.choice([items, items, items, self.not_list(), [None], [[]], [7]])}
        return self.spoil({"decisions": []}, wrong, required=("decisions",))

    def one_reward(self):
        return self.spoil({"reward": 1.0}, {"reward": self.not_number}, required=("reward",))

    def rewards(self):
        right = [{"id": each, "reward": 1.0} for each in self.random.sample(self.ids, 2)]
        wrong = {
            "id": lambda: self.random.choice([self.not_text(), "", "none", "\0", "x" * 5000]),
            "reward": self.not_number,
        }
        items = [*right, self.spoil(right[0], wrong, required=("id", "reward"))]
        self.random.shuffle(items)
        return self.spoil({"rewards": []}, {"rewards": lambda: items}, required=("rewards",))

    def arm(self):
        return self.spoil({"arm": "tea"}, {"arm": self.not_name}, required=("arm",))

    def definition(self):
        wrong = {
            "arms": self.not_arms,
            "features": self.not_features,
            "intercept": self.not_truth,
            "policy": lambda: self.random.choice([self.not_text(), "", "best", self.text() + "!"]),
            "prior": lambda: self.random.choice([1, True, [], {}, "", "guess", self.text() + "!"]),
            "exploration": self.not_setting,
            "floor": lambda: self.random.choice([None, 1, 0.6, self.not_setting()]),
            "evaluation_budget": lambda: self.random.choice([None, 2, -0.1, self.not_setting()]),
            "refresh_growth": self.not_setting,
            "robust": self.not_truth,
            "time_to_live": lambda: self.random.choice([0, 1e11, self.not_setting()]),
            "absent_reward": lambda: self.random.choice(["0", [], {}, True, *LARGE]),
            "retention": lambda: self.random.choice([0, 1, 999.0, self.not_setting()]),
        }
        return self.spoil(DEFINITION, wrong, required=("arms", "features"))

    # Bytes.

    def bytes_of(self, body, right):
        """A body as bytes; now and then something else that cannot be one."""
        pick = self.random.random()
        text = json.dumps(right)
        if pick < 0.7:
            return written(body).encode()
        if pick < 0.8:
            # Part of an object is none.
            return text[: self.random.randrange(len(text))].encode()
        if pick < 0.87:
            data = bytearray(text.encode())
            data.insert(
                self.random.randrange(len(data) + 1), self.random.choice([0, 1, 8, 11, 14, 31, 0x80, 0xC0, 0xFF])
            )
            return bytes(data)
        if pick < 0.92:
            return bytes([0xFF]) + self.random.randbytes(self.random.randrange(2000))
        if pick < 0.97:
            return written(
                self.random.choice([None, True, 1, "text", [], [self.junk()], self.deep(), *map(Raw, RAW_NUMBERS)])
            ).encode()
        return self.random.choice(
            [b"", b" ", text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode(), text.encode() * 2]
        )


@pytest.fixture(scope="module")
def fleet(service):
    service.make_fleet(features=["hour", ONE_HOT, HASHED])
    for i in range(20):
        decision = service.decide(f"store-{i % 4}", ASK["context"])
        if i % 2:
            service.reward(decision, i / 3)
    return service


def everything(service):
    fleets = service.read("/v1/fleets")
    names = [fleet["name"] for fleet in fleets["fleets"]]
    return fleets, [
        service.get(f"/v1/fleets/{name}/{part}").text for name in names for part in ("log", "population", "tasks")
    ]


@pytest.mark.slow
def test_hostile_bodies_are_refused_in_the_one_shape_and_change_nothing(fleet, shape):
    pending = [row["id"] for row in fleet.read("/v1/fleets/stores/pending")["pending"]]
    hostile = Hostility(20261115, pending)
    makers = [
        ("PUT", "/v1/fleets/hostile", hostile.definition, DEFINITION),
        ("POST", "/v1/fleets/stores/arms", hostile.arm, {"arm": "tea"}),
        ("POST", "/v1/fleets/stores/decisions", hostile.ask, ASK),
        ("POST", "/v1/fleets/stores/decisions/batch", hostile.batch, {"decisions": [ASK]}),
        ("POST", f"/v1/decisions/{pending[0]}/reward", hostile.one_reward, {"reward": 1.0}),
        ("POST", "/v1/rewards", hostile.rewards, {"rewards": [{"id": pending[0], "reward": 1.0}]}),
    ]
    before = everything(fleet)
    headers = {"content-type": "application/json"}
    seen = {}
    for begin in range(0, MANY, AT_ONCE):
        requests = []
        for number in range(begin, begin + AT_ONCE):
            method, path, make, right = makers[number % len(makers)]
            requests.append((method, path, {"content": hostile.bytes_of(make(), right), "headers": headers}))
        for (method, path, rest), answer in zip(requests, fleet.together(requests), strict=True):
            where = f"{method} {path} {rest['content'][:2000]!r}: {answer.status_code} {answer.text[:300]}"
            assert 400 <= answer.status_code < 500, where
            error = shape(answer)
            seen.setdefault((method, path), set()).add(error["code"])
    assert everything(fleet) == before
    # The bodies are not all refused for one reason.
    for place, codes in seen.items():
        assert {"invalid", "invalid_json"} <= codes, place


def test_the_bodies_that_were_spoiled_are_right_before(fleet):
    assert fleet.post("/v1/fleets/stores/decisions", json=ASK).status_code == 200
    answer = fleet.post("/v1/fleets/stores/decisions/batch", json={"decisions": [ASK, ASK]})
    assert answer.status_code == 200
    ids = [decision["id"] for decision in answer.json()["decisions"]]
    assert fleet.post(f"/v1/decisions/{ids[0]}/reward", json={"reward": 1.0}).status_code == 200
    assert fleet.post("/v1/rewards", json={"rewards": [{"id": each, "reward": 1.0} for each in ids]}).status_code == 200
    assert fleet.post("/v1/fleets/stores/arms", json={"arm": "tea"}).status_code == 200
    right = {**DEFINITION, "features": ["x", NUMERIC, ONE_HOT, HASHED]}
    assert fleet.put("/v1/fleets/right", json=right).status_code == 201


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-50, 1e5, 1e9])
def test_numbers_that_are_allowed_do_no_harm_however_odd_they_are(service, size):
    name = f"odd-{size:g}".replace("+", "")
    service.make_fleet(name, features=["x"], arms=["a", "b"])
    for step in range(12):
        decision = service.decide(f"t{step % 3}", {"x": size * (-1) ** step}, fleet=name)
        service.reward(decision, size)
    for part in (
        "",
        "/population",
        "/tasks/t0",
        "/value",
        "/log",
        "/pending",
        "/activity",
        "/history/t1",
        "/export/t2",
    ):
        answer = service.get(f"/v1/fleets/{name}{part}")
        assert answer.status_code == 200, (part, answer.text)
        if part != "/log":
            json.loads(answer.text, parse_constant=pytest.fail)
    assert service.decide("new", {"x": 1.0}, fleet=name)["propensity"] > 0
    assert service.delete(f"/v1/fleets/{name}").status_code == 204
