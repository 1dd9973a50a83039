"""The settings, and the outlier tasks and units that their worlds ask of SyntheticWorld."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, NotFinite, ShapeError
from posse_lab.benchmarks.settings import SETTINGS, feature_scale

SYNTHETIC = [name for name, setting in SETTINGS.items() if not setting.from_data]
FIELDS = ("tasks", "contexts", "expected", "rewards", "coefficients")


@pytest.mark.parametrize("name", SYNTHETIC)
def test_every_setting_can_be_drawn_and_played_by_its_methods(name):
    setting = SETTINGS[name]
    world = setting.world(None)
    draw = world.draw(0, 3)

    assert draw.rewards.shape == (3, world.n_arms)
    if not setting.everyday:  # whose methods know no prior
        assert draw.prior.covariance.shape == (5, world.n_features, world.n_features)
    assert set(setting.needs) <= set(SETTINGS)
    assert {"evidence UCB", *setting.rivals} <= set(setting.methods(world))


def test_the_bars_are_those_that_were_promised():
    bars = {name: (setting.bar_paper, setting.bar_known) for name, setting in SETTINGS.items()}

    dense, limit = (0.90, 1.08), (1.02, 1.10)
    assert bars == {
        **dict.fromkeys(("balanced", "data-poor", "uniform", "n30", "d8"), dense),
        **dict.fromkeys(("sparse-3", "sparse-20"), (0.92, None)),
        **dict.fromkeys(("anisotropic-5", "anisotropic-10"), (0.8, 1.2)),
        "sarcos": (0.12, 1.12),
        "letter": (0.45, 1.12),
        **dict.fromkeys(("one-task", "identical", "unrelated"), limit),
        **dict.fromkeys(("scaled", "no-odd", "odd"), (None, None)),
        **dict.fromkeys((name for name, setting in SETTINGS.items() if setting.everyday), (None, None)),
    }
    assert {name: setting.bar_rival for name, setting in SETTINGS.items() if setting.rivals} == {
        **dict.fromkeys(("always-0", "quiet-arm", "always-0-n200", "quiet-arm-n200"), 1.05),
        **dict.fromkeys(("clicks-5", "clicks-20"), 1.0),
    }


def test_an_arm_unlike_the_others_is_compared_with_methods_as_they_come():
    setting = SETTINGS["quiet-arm"]
    world = setting.world(None)
    noise = world.draw(0, 200).rewards - world.draw(0, 200).expected

    assert setting.rivals == ("paper ebmUCB", "LinUCB")
    assert_allclose(noise[:, 0], 0.01 * noise[:, 1], atol=1e-12)
    assert_array_equal(SETTINGS["always-0"].world(None).draw(0, 200).rewards[:, 0], np.zeros(200))


def test_offsets_shift_the_same_streams():
    worlds = {name: SETTINGS[name].world(None) for name in SETTINGS if name.startswith("offset")}
    plain = worlds["offset-0"].draw(2, 30)

    assert len(worlds) == 5
    for name, world in worlds.items():
        offset = float(name.removeprefix("offset-").replace("minus-", "-"))
        draw = world.draw(2, 30)
        assert_allclose(draw.rewards, plain.rewards + offset, rtol=1e-12)
        assert_allclose(draw.expected, plain.expected + offset, rtol=1e-12)


def test_units_span_orders_of_magnitude():
    factors = np.array(feature_scale(3))

    assert ((factors >= 0.01) & (factors <= 100)).all()
    assert factors.max() / factors.min() > 100


def test_other_units_change_contexts_and_coefficients_but_no_reward():
    plain = SyntheticWorld(n_tasks=4, shared_sd=2.0)
    scaled = SyntheticWorld(n_tasks=4, shared_sd=2.0, feature_scale=[0.1, 3.0, 70.0])
    one, other = plain.draw(3, 40), scaled.draw(3, 40)
    factors = np.array([0.1, 3.0, 70.0])

    assert_allclose(other.contexts, one.contexts * factors)
    assert_allclose(other.coefficients, one.coefficients / factors)
    assert_allclose(other.rewards, one.rewards, atol=1e-10)
    assert_allclose(other.prior.covariance, one.prior.covariance / np.outer(factors, factors))
    assert_allclose(other.prior.shared_precisions, one.prior.shared_precisions * factors**2)


@pytest.mark.parametrize("heterogeneity", ["gaussian", "sparse", np.diag([2.0, 0.5, 0.1])])
def test_only_odd_tasks_are_odd(heterogeneity):
    plain = SyntheticWorld(n_tasks=5, heterogeneity=heterogeneity)
    odd = SyntheticWorld(n_tasks=5, heterogeneity=heterogeneity, odd_share=0.3, odd_scale=4.0)
    one, other = plain.draw(3, 40), odd.draw(3, 40)
    shared = SyntheticWorld(n_tasks=5, heterogeneity=heterogeneity, odd_share=1.0, odd_scale=1e-12).draw(3, 40)

    assert (plain.n_odd_tasks, odd.n_odd_tasks) == (0, 2)
    assert_array_equal(other.coefficients[:, 2:], one.coefficients[:, 2:])
    away, before = (draw.coefficients[:, :2] - shared.coefficients[:, :2] for draw in (other, one))
    assert_allclose(away, 4.0 * before, atol=1e-9)
    for field in ("tasks", "contexts"):
        assert_array_equal(getattr(other, field), getattr(one, field))
    # Two of five tasks at 16 times the variance.
    assert_allclose(other.prior.covariance, one.prior.covariance * (3 + 2 * 16) / 5)


def test_unused_settings_leave_no_trace():
    plain, spelled = SyntheticWorld(), SyntheticWorld(odd_share=0.0, odd_scale=3.0, feature_scale=None)

    for field in FIELDS:
        assert_array_equal(getattr(plain.draw(1, 20), field), getattr(spelled.draw(1, 20), field))
    assert plain.settings() == spelled.settings()
    used = SyntheticWorld(odd_share=0.2, feature_scale=(1.0, 2.0, 0.5)).settings()
    assert {key: used[key] for key in used.keys() - plain.settings().keys()} == {
        "odd_share": 0.2,
        "odd_scale": 10.0,
        "feature_scale": [1.0, 2.0, 0.5],
    }


@pytest.mark.parametrize(
    ("share", "tasks", "odd"), [(0.1, 20, 2), (0.1, 21, 3), (0.07, 100, 7), (1e-6, 10, 1), (1, 3, 3)]
)
def test_the_share_of_odd_tasks_is_rounded_up(share, tasks, odd):
    assert SyntheticWorld(n_tasks=tasks, odd_share=share).n_odd_tasks == odd


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"odd_share": -0.1}, InvalidValue, "odd_share to be at least 0"),
        ({"odd_share": 1.5}, InvalidValue, "odd_share to be at most 1, got 1.5"),
        ({"odd_share": "some"}, InvalidValue, "odd_share to be a number"),
        ({"odd_scale": 0.0}, InvalidValue, "odd_scale to be greater than 0"),
        ({"feature_scale": [1.0, 2.0]}, ShapeError, r"length n_features=3, got shape \(2,\)"),
        ({"feature_scale": [1.0, 2.0, 0.0]}, InvalidValue, "feature_scale to be greater than 0, got 0"),
        ({"feature_scale": [1.0, 2.0, np.inf]}, NotFinite, "feature_scale to be finite"),
    ],
)
def test_bad_settings(settings, error, words):
    with pytest.raises(error, match=words):
        SyntheticWorld(**settings)
