import itertools
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.environments import SyntheticWorld
from posse.environments.base import ARRIVALS, CONTEXTS, stream
from posse.errors import InvalidValue, NotFinite, NotPositiveDefinite, PosseError, ShapeError

GIVEN = np.array([[2.0, 0.6, -0.4], [0.6, 0.5, 0.1], [-0.4, 0.1, 1.5]])
LAWS = [
    {"contexts": contexts, "heterogeneity": heterogeneity, "arrivals": arrivals}
    for contexts, heterogeneity, arrivals in itertools.product(
        ("mixed-gaussian", "uniform", "intercept", "one-hot"),
        ("gaussian", "sparse", GIVEN),
        ("balanced", "data-poor", [0.1, 0.2, 0.0, 0.7]),
    )
]
FIELDS = ("tasks", "contexts", "expected", "rewards", "coefficients", "arrival_probabilities")


def small(**settings):
    return SyntheticWorld(n_tasks=4, n_arms=2, n_features=3, **settings)


def test_the_same_seed_gives_the_same_draw_and_another_one_another():
    for law in LAWS:
        one, same, other = (small(**law).draw(seed, horizon=30) for seed in (5, 5, 6))
        for field in FIELDS:
            assert_array_equal(getattr(one, field), getattr(same, field))
        assert_array_equal(one.prior.covariance, same.prior.covariance)
        for field in ("contexts", "rewards", "coefficients"):
            assert (getattr(one, field) != getattr(other, field)).any(), (law, field)


def test_a_longer_horizon_only_adds_steps_at_the_end():
    for law in LAWS:
        short, long = small(**law).draw(3, horizon=25), small(**law).draw(3, horizon=90)
        for field in ("tasks", "contexts", "expected", "rewards"):
            assert_array_equal(getattr(long, field)[:25], getattr(short, field))
        assert_array_equal(long.coefficients, short.coefficients)


def test_one_law_does_not_disturb_another():
    plain = small().draw(2, horizon=50)
    other = small(contexts="uniform").draw(2, horizon=50)
    assert_array_equal(plain.tasks, other.tasks)
    assert_array_equal(plain.coefficients, other.coefficients)
    assert_allclose(plain.rewards - plain.expected, other.rewards - other.expected, atol=1e-12)
    other = small(heterogeneity="sparse", arrivals="data-poor").draw(2, horizon=50)
    assert_array_equal(plain.contexts, other.contexts)


def test_golden_numbers():
    """A draw written down: whoever changes the stream must change this test, and say so in the changelog."""
    draw = SyntheticWorld(n_tasks=3, n_arms=2, n_features=2, noise_sd=[0.5, 2.0]).draw(seed=7, horizon=5)
    assert_array_equal(draw.tasks, [1, 0, 0, 0, 0])
    assert_array_equal(draw.contexts[0], [1.0394850165069378, 0.1078549331761538])
    assert_array_equal(draw.contexts[4], [-0.7089928510495809, -0.6832668738087051])
    assert_array_equal(draw.coefficients[1, 1], [-1.173902796413342, 4.412407051414048])
    assert_array_equal(draw.expected[0], [-1.0072339154221066, -0.7443545000310112])
    assert_array_equal(draw.rewards[4], [-1.5253463827783875, 0.47150595029429554])
    assert_array_equal(draw.prior.covariance[1, 0], [1.083209910084566, -0.5528783498694134])


MIXED, GAUSSIAN = [-0.7089928510495809, -0.6832668738087051], [0.34458007794119194, 0.19266649960409166]


@pytest.mark.parametrize(
    ("settings", "last_context", "coefficients"),
    [
        ({"contexts": "uniform"}, [0.06505586253930806, 0.0473034421685079], GAUSSIAN),
        ({"contexts": "one-hot"}, [1.0, 0.0], GAUSSIAN),
        ({"contexts": "intercept"}, [1.0, -0.6832668738087051], GAUSSIAN),
        ({"heterogeneity": "sparse"}, MIXED, [-1.3066874119633458, 2.13635728361371]),
        ({"heterogeneity": [[2.0, 0.6], [0.6, 0.5]]}, MIXED, [0.30229508018354556, 1.4079666925262662]),
    ],
    ids=["uniform", "one-hot", "intercept", "sparse", "given"],
)
def test_golden_numbers_of_the_other_laws(settings, last_context, coefficients):
    draw = SyntheticWorld(n_tasks=3, n_arms=2, n_features=2, **settings).draw(seed=7, horizon=5)
    assert_array_equal(draw.contexts[4], last_context)
    assert_array_equal(draw.coefficients[1, 2], coefficients)


def test_streams_of_different_purposes_differ():
    assert (stream(4, ARRIVALS).random(5) != stream(4, CONTEXTS).random(5)).all()
    assert (stream(4, ARRIVALS).random(5) != stream(5, ARRIVALS).random(5)).all()


def test_expected_rewards_are_linear_in_the_context():
    for law in LAWS:
        draw = small(**law).draw(1, horizon=40)
        assert_allclose(draw.expected, np.einsum("td,ktd->tk", draw.contexts, draw.coefficients[:, draw.tasks]))


@pytest.mark.parametrize(
    ("arrivals", "probabilities"),
    [
        ("balanced", [0.2] * 5),
        ("data-poor", [0.1 / 4.1] + [1 / 4.1] * 4),  # p_1 = 0.1 / (N - 0.9), the others 1 / (N - 0.9)
        ([0.5, 0.0, 0.25, 0.05, 0.2], [0.5, 0.0, 0.25, 0.05, 0.2]),
    ],
    ids=["balanced", "data-poor", "given"],
)
def test_arrivals(arrivals, probabilities):
    n = 100_000
    draw = SyntheticWorld(n_tasks=5, n_arms=1, n_features=1, arrivals=arrivals).draw(seed=0, horizon=n)
    assert_allclose(draw.arrival_probabilities, probabilities)
    share = np.bincount(draw.tasks, minlength=5) / n
    p = np.array(probabilities)
    # Four standard errors of a share: one of five goes beyond in 3,000 seeds. A chance of 0 gives exactly none.
    assert (np.abs(share - p) <= 4 * np.sqrt(p * (1 - p) / n)).all()


def test_arrivals_are_independent_of_each_other():
    tasks = SyntheticWorld(n_tasks=2, n_arms=1, n_features=1).draw(seed=0, horizon=40_000).tasks
    # The share of repeats has standard error 0.5 / 200; four of them.
    assert abs(np.mean(tasks[1:] == tasks[:-1]) - 0.5) < 4 * 0.5 / 200


def moments(contexts):
    X = SyntheticWorld(n_tasks=1, n_arms=1, n_features=3, contexts=contexts).draw(seed=8, horizon=100_000).contexts
    return X, X.mean(axis=0), X.T @ X / len(X)


def test_mixed_gaussian_contexts():
    X, mean, second = moments("mixed-gaussian")
    # Var x = 2; Var x^2 = E x^4 - 4 = 10 - 4 = 6 (E (s + z)^4 = 1 + 6 + 3); Var x_i x_j = 4. Four standard errors each.
    root = np.sqrt(len(X))
    assert np.abs(mean).max() < 4 * np.sqrt(2) / root
    assert np.abs(np.diagonal(second) - 2).max() < 4 * np.sqrt(6) / root
    assert np.abs(second - np.diag(np.diagonal(second))).max() < 4 * 2 / root
    # The mixture, not N(0, 2), whose fourth moment is 12: Var x^4 = E x^8 - 100 = 764 - 100, (E(s+z)^8 = 764).
    assert np.abs((X**4).mean(axis=0) - 10).max() < 4 * np.sqrt(664) / root


def test_uniform_contexts():
    X, mean, second = moments("uniform")
    root = np.sqrt(len(X))
    assert X.min() >= -1
    assert X.max() <= 1
    assert np.abs(mean).max() < 4 * np.sqrt(1 / 3) / root
    assert np.abs(second - np.eye(3) / 3).max() < 4 * (1 / 3) / root


def test_contexts_with_an_intercept():
    X, _, _ = moments("intercept")
    assert (X[:, 0] == 1).all()
    plain, _, _ = moments("mixed-gaussian")
    assert_array_equal(X[:, 1:], plain[:, 1:])


def test_one_hot_contexts():
    X, mean, _ = moments("one-hot")
    assert set(np.unique(X)) == {0.0, 1.0}
    assert (X.sum(axis=1) == 1).all()
    assert np.abs(mean - 1 / 3).max() < 4 * np.sqrt(2 / 9 / len(X))


def covariance_errors(deviations, covariance):
    """Empirical covariance less the declared one, in standard errors of Gaussian samples."""
    n = deviations.shape[0]
    scale = np.sqrt((np.outer(np.diagonal(covariance), np.diagonal(covariance)) + covariance**2) / n)
    return np.abs(np.cov(deviations, rowvar=False) - covariance) / np.where(scale > 0, scale, 1e-9)


SINGULAR = np.outer([1.0, -2.0, 0.5], [1.0, -2.0, 0.5])


@pytest.mark.parametrize(
    "heterogeneity", ["gaussian", GIVEN, [GIVEN, 0.3 * GIVEN], SINGULAR], ids=["bb'+I", "one", "per arm", "singular"]
)
def test_coefficients_vary_as_the_prior_says(heterogeneity):
    world = SyntheticWorld(n_tasks=20_000, n_arms=2, n_features=3, heterogeneity=heterogeneity)
    draw = world.draw(seed=3, horizon=1)
    for arm in range(2):
        # Twelve different entries: the largest is beyond four standard errors in one of a thousand seeds.
        assert covariance_errors(draw.coefficients[arm], draw.prior.covariance[arm]).max() < 4
    if not isinstance(heterogeneity, str):
        assert_array_equal(draw.prior.covariance, np.broadcast_to(heterogeneity, (2, 3, 3)))


def test_gaussian_heterogeneity_is_rank_one_plus_identity_and_differs_between_arms_and_seeds():
    first, second = (SyntheticWorld(n_arms=4).draw(seed, horizon=1).prior.covariance for seed in (0, 1))
    for matrix in (*first, *second):
        values = np.linalg.eigvalsh(matrix)
        assert_allclose(values[:2], 1.0)
        assert values[2] > 1
    assert len(np.unique(np.concatenate([first, second])[:, 0, 0])) == 8


def test_a_singular_covariance_keeps_coefficients_on_its_range():
    world = SyntheticWorld(n_tasks=50, n_arms=1, n_features=3, heterogeneity=SINGULAR)
    deviations = world.draw(seed=0, horizon=1).coefficients[0]
    deviations = deviations - deviations[0]
    assert_allclose(deviations, np.outer(deviations[:, 0], [1.0, -2.0, 0.5]), atol=1e-12)


@pytest.mark.parametrize(("jumps", "expected"), [(None, 2), (0, 0), (1, 1), (7, 7), (20, 20)])
def test_sparse_heterogeneity_shifts_so_many_coordinates(jumps, expected):
    shape = {"n_tasks": 300, "n_arms": 3, "n_features": 20}
    world = SyntheticWorld(**shape, heterogeneity="sparse", jumps=jumps)
    draw = world.draw(seed=4, horizon=1)
    shared = SyntheticWorld(**shape, heterogeneity="sparse", jumps=0).draw(seed=4, horizon=1).coefficients
    assert_array_equal(shared, np.broadcast_to(shared[:, :1], shared.shape))
    shifted = draw.coefficients != shared
    assert_array_equal(shifted.sum(axis=-1), np.full((3, 300), expected))
    assert_allclose(draw.prior.covariance, np.tile(expected / 20 * np.eye(20), (3, 1, 1)))
    if 0 < expected < 20:
        # Each coordinate is chosen with chance s / d; four standard errors of its share of 900.
        p = expected / 20
        assert np.abs(shifted.mean(axis=(0, 1)) - p).max() < 4 * np.sqrt(p * (1 - p) / 900)
    if expected:
        sizes = (draw.coefficients - shared)[shifted]
        # N(0, 1): standard errors 1 / sqrt(n) of the mean and sqrt(2 / n) of the variance.
        assert abs(sizes.mean()) < 4 / np.sqrt(sizes.size)
        assert abs(sizes.var() - 1) < 4 * np.sqrt(2 / sizes.size)


def test_at_least_one_coordinate_jumps_by_default():
    draw = SyntheticWorld(n_features=3, heterogeneity="sparse").draw(seed=0, horizon=1)
    assert_allclose(draw.prior.covariance[0], np.eye(3) / 3)


@pytest.mark.parametrize("shared_sd", [1.0, 2.5])
def test_shared_coefficients(shared_sd):
    world = SyntheticWorld(n_tasks=2, n_arms=5_000, n_features=1, heterogeneity=[[0.0]], shared_sd=shared_sd)
    draw = world.draw(seed=1, horizon=1)
    assert_array_equal(draw.coefficients[:, 0], draw.coefficients[:, 1])
    # A standard deviation of n normals has standard error sd / sqrt(2 n).
    assert abs(draw.coefficients[:, 0].std() / shared_sd - 1) < 4 / np.sqrt(2 * 5_000)
    assert_allclose(draw.prior.shared_precision, shared_sd**-2)


@pytest.mark.parametrize("noise_sd", [0.3, [0.5, 2.0, 1.0]])
def test_noise_per_arm(noise_sd):
    n = 50_000
    draw = SyntheticWorld(n_tasks=3, n_arms=3, n_features=2, noise_sd=noise_sd).draw(seed=5, horizon=n)
    noise = draw.rewards - draw.expected
    sd = np.broadcast_to(noise_sd, 3)
    assert (np.abs(noise.std(axis=0) / sd - 1) < 4 / np.sqrt(2 * n)).all()
    assert (np.abs(noise.mean(axis=0) / sd) < 4 / np.sqrt(n)).all()
    assert_allclose(draw.prior.noise_variance, sd**2)


def test_settings_are_plain_and_say_which_law_it_is():
    worlds = [
        SyntheticWorld(),
        SyntheticWorld(n_tasks=np.int64(7), noise_sd=np.float64(0.5)),
        small(noise_sd=(0.5, 1.0), arrivals=np.array([0.1, 0.2, 0.3, 0.4]), heterogeneity=GIVEN),
        small(heterogeneity="sparse", jumps=2),
        small(contexts="one-hot"),
    ]
    written = [json.dumps(world.settings()) for world in worlds]
    assert len(set(written)) == len(worlds)
    plain = json.loads(written[2])
    assert plain.pop("world") == "synthetic"
    again = SyntheticWorld(**plain)
    for field in FIELDS:
        assert_array_equal(getattr(again.draw(1, 20), field), getattr(worlds[2].draw(1, 20), field))


def test_settings_are_keyword_only():
    with pytest.raises(TypeError):
        SyntheticWorld(10, 5, 3)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"n_tasks": 0}, InvalidValue),
        ({"n_arms": -1}, InvalidValue),
        ({"n_features": 2.5}, InvalidValue),
        ({"n_features": "3"}, InvalidValue),
        ({"noise_sd": -0.1}, InvalidValue),
        ({"noise_sd": np.nan}, NotFinite),
        ({"noise_sd": [1.0, np.inf]}, NotFinite),
        ({"noise_sd": [1.0, 1.0, 1.0]}, ShapeError),
        ({"noise_sd": [[1.0, 1.0]]}, ShapeError),
        ({"noise_sd": "loud"}, InvalidValue),
        ({"arrivals": "often"}, InvalidValue),
        ({"arrivals": [0.5, 0.5]}, ShapeError),
        ({"arrivals": [0.5, 0.5, 0.5, -0.5]}, InvalidValue),
        ({"arrivals": [0.5, 0.5, 0.5, 0.5]}, InvalidValue),
        ({"arrivals": [0.5, 0.5, np.nan, 0.0]}, NotFinite),
        ({"contexts": "gaussian"}, InvalidValue),
        ({"contexts": np.ones((4, 3))}, InvalidValue),
        ({"heterogeneity": "mixed"}, InvalidValue),
        ({"heterogeneity": np.eye(2)}, ShapeError),
        ({"heterogeneity": np.ones(3)}, ShapeError),
        ({"heterogeneity": np.tile(np.eye(3), (3, 1, 1))}, ShapeError),
        ({"heterogeneity": -np.eye(3)}, NotPositiveDefinite),
        ({"heterogeneity": np.triu(np.ones((3, 3)))}, NotPositiveDefinite),
        ({"heterogeneity": np.full((3, 3), np.nan)}, NotFinite),
        ({"shared_sd": 0.0}, InvalidValue),
        ({"shared_sd": np.inf}, NotFinite),
        ({"jumps": 1}, InvalidValue),
        ({"jumps": 1, "heterogeneity": np.eye(3)}, InvalidValue),
        ({"jumps": 4, "heterogeneity": "sparse"}, InvalidValue),
        ({"jumps": -1, "heterogeneity": "sparse"}, InvalidValue),
        ({"jumps": 1.5, "heterogeneity": "sparse"}, InvalidValue),
    ],
)
def test_bad_settings(settings, error):
    with pytest.raises(error, match=next(iter(settings))) as caught:
        SyntheticWorld(**({"n_tasks": 4, "n_arms": 2, "n_features": 3} | settings))
    assert isinstance(caught.value, PosseError)


@pytest.mark.parametrize(
    ("seed", "horizon", "words"),
    [(-1, 5, "seed"), (0.5, 5, "seed"), (None, 5, "seed"), (0, 0, "horizon"), (0, 1.5, "horizon")],
)
def test_bad_draws(seed, horizon, words):
    with pytest.raises(InvalidValue, match=words):
        small().draw(seed, horizon)
