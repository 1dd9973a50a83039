import pytest

from posse.errors import InvalidValue, UnknownPolicy
from posse.policies import (
    MTTS,
    POLICIES,
    EbmRandUCB,
    EbmTS,
    EbmUCB,
    HierTS,
    LinTS,
    LinUCB,
    OLSBandit,
    Oracle,
    Random,
    RMBandit,
    make_policy,
)

SIZES = {"n_tasks": 3, "n_arms": 2, "n_features": 2}


@pytest.mark.parametrize(
    ("key", "policy"),
    [
        ("ebm-ucb", EbmUCB),
        ("ebm-ts", EbmTS),
        ("ebm-rand-ucb", EbmRandUCB),
        ("hier-ts", HierTS),
        ("mtts", MTTS),
        ("lin-ucb", LinUCB),
        ("lin-ts", LinTS),
        ("lin-ucb-pooled", LinUCB),
        ("ols-bandit", OLSBandit),
        ("rm-bandit", RMBandit),
        ("random", Random),
    ],
)
def test_keys(key, policy):
    made = make_policy(key, **SIZES)
    assert type(made) is policy
    assert (made.n_tasks, made.n_arms, made.n_features) == (3, 2, 2)


def test_no_key_is_untested():
    assert len(POLICIES) == 12


def test_the_pooled_key_pools():
    assert make_policy("lin-ucb-pooled", **SIZES).pooled
    assert not make_policy("lin-ucb", **SIZES).pooled


def test_settings_reach_the_policy():
    assert make_policy("lin-ucb", **SIZES, exploration=0.37).exploration == 0.37
    assert make_policy("lin-ucb-pooled", **SIZES, ridge=0.5).ridge == 0.5
    oracle = make_policy("oracle", **SIZES, coefficients=[[[0.0, 0.0]] * 3, [[1.0, 1.0]] * 3])
    assert type(oracle) is Oracle


@pytest.mark.parametrize(("wrong", "right"), [("ebm-usb", "ebm-ucb"), ("lints", "lin-ts"), ("rmbandit", "rm-bandit")])
def test_an_unknown_key_gets_a_suggestion(wrong, right):
    with pytest.raises(UnknownPolicy, match=f"{wrong}.*did you mean '{right}'"):
        make_policy(wrong, **SIZES)


def test_a_hopeless_key_gets_the_list():
    with pytest.raises(UnknownPolicy, match="'ebm-ucb', 'ebm-ts'") as caught:
        make_policy("qqq", **SIZES)
    assert "did you mean" not in str(caught.value)
    assert isinstance(caught.value, KeyError)
    assert not str(caught.value).startswith("'")  # a KeyError would quote the whole sentence


def test_an_unknown_setting_gets_the_list():
    with pytest.raises(InvalidValue, match=r"'lin-ucb' has no setting 'alpha'.*exploration.*ridge"):
        make_policy("lin-ucb", **SIZES, alpha=1.0)
    with pytest.raises(InvalidValue, match="it has none"):
        make_policy("random", **SIZES, exploration=1.0)


def test_the_oracle_says_that_it_needs_coefficients():
    with pytest.raises(InvalidValue, match="coefficients"):
        make_policy("oracle", **SIZES)
