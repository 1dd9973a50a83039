"""API keys: random, kept as digests, compared whole."""

import hashlib

import pytest

from posse.errors import InvalidValue
from posse.service.keys import PREFIX, SCOPES, KeyRing, new_key


def test_a_key_is_long_random_and_names_itself():
    made = [new_key(["read"], "", 0.0) for _ in range(200)]
    assert len({key for key, _ in made}) == 200
    assert len({row.id for _, row in made}) == 200
    for key, row in made:
        prefix, key_id, secret = key.split("_", 2)
        assert (prefix, key_id) == (PREFIX, row.id)
        assert len(secret) >= 43  # 256 bits
        assert row.digest == hashlib.sha256(secret.encode()).hexdigest()
        assert secret not in str(row)


def test_scopes_are_ordered_and_unique():
    _, row = new_key(["admin", "decide", "admin"], "x", 5.0)
    assert row.scopes == ("decide", "admin")
    assert (row.label, row.created) == ("x", 5.0)


@pytest.mark.parametrize("scopes", [[], ["root"], ["read", "root"], ["READ"], [""], "read"])
def test_scopes_are_some_of_those_there_are(scopes):
    with pytest.raises(InvalidValue, match="scopes to be some of decide, reward, read, admin"):
        new_key(scopes, "", 0.0)


@pytest.mark.parametrize("label", ["x" * 101, "a\nb", "\0", "\x1b[31m"])
def test_labels_can_be_shown(label):
    with pytest.raises(InvalidValue, match="label"):
        new_key(["read"], label, 0.0)


def test_a_ring_finds_whole_keys_only():
    (one, first), (other, second) = (new_key([scope], "", 0.0) for scope in ("read", "admin"))
    ring = KeyRing([first, second])
    assert ring.find(one) == first
    assert ring.find(other) == second
    secret, other_secret = one.split("_", 2)[2], other.split("_", 2)[2]
    for wrong in (
        "", "_", "__", PREFIX, f"{PREFIX}_", f"{PREFIX}__", one[:-1], one + "x", one.upper(), f"{PREFIX}_{first.id}_",
        f"{PREFIX}_{first.id}_{other_secret}", f"{PREFIX}_{second.id}_{secret}", f"other_{first.id}_{secret}", secret,
        f"{PREFIX}_{first.id}_{first.digest}", f" {one}", one + "\udcff", f"{PREFIX}_{'0' * 12}_",
    ):  # fmt: skip
        assert ring.find(wrong) is None, wrong


@pytest.mark.parametrize(
    ("rule", "needed"),
    [("once-made", (False, True, True)), ("always", (True, True, True)), ("while-any", (False, True, False))],
)
def test_a_rule_says_when_a_key_is_needed(rule, needed):
    _, row = new_key(["read"], "", 0.0)
    revoked = row._replace(digest="", scopes=())
    assert tuple(KeyRing(rows, rule).needed for rows in ([], [row], [revoked])) == needed
    assert len(KeyRing([revoked], rule)) == 0
    assert KeyRing([revoked], rule).find(f"{PREFIX}_{row.id}_") is None


def test_a_ring_that_had_a_key_needs_one_from_then_on():
    key, row = new_key(SCOPES, "", 0.0)
    ring = KeyRing()
    assert not ring.needed
    ring.replace([])
    assert not ring.needed
    ring.replace([row])
    assert ring.needed
    assert ring.find(key) == row
    ring.replace([])
    assert ring.needed
    assert ring.find(key) is None
