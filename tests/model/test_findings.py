import numpy as np
import pytest

from posse.model.findings import Names, Seen, Unusual, data_findings, unusual_findings

QUIET = Unusual(quiet=(), far=(), coefficient_share=0.2, overdispersion=1.1, converged=True)


def seen_of(X, y, **rest):
    """Rows of one arm in as many tasks as there are rows."""
    Z = np.column_stack([X, y])
    rest = {"tasks": np.array([9]), "rewards": np.array([float(len(y))]), "n_tasks": 9, "products": Z.T @ Z} | rest
    return Seen(**rest)


def columns(n=40, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(-3, 3, d) + np.arange(d)
    X[:, 0] = 1.0
    return X, rng.normal(size=n)


def found(X, y, **rest):
    return [
        text
        for text in data_findings(seen_of(X, y, **rest), Names(arm=None))
        if "coefficient" in text or "told" in text
    ]


def test_independent_columns_of_any_size_are_nothing_to_tell():
    X, y = columns()
    assert found(X, y) == found(X, y, intercept=0) == []


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_collinear_columns_are_named_and_no_others(scale):
    # The 4th is made of the 2nd and the 3rd; the 5th has nothing to do with it.
    X, y = columns(d=5)
    X[:, 3] = scale * (X[:, 1] * 1e3 - 2 * X[:, 2])
    (text,) = found(X, y, intercept=0)
    assert text == "features 1, 2 and 3 are collinear: some directions of their coefficients were never seen"


def test_a_constant_column_is_told_from_a_collinear_one_by_the_intercept():
    X, y = columns()
    X[:, 2] = 5.0
    assert found(X, y, intercept=0) == ["feature 2 is constant: it cannot be told from the intercept"]
    (text,) = found(X, y)  # which of them is the intercept is not known
    assert text.startswith("features 0 and 2 are collinear")
    X[:, 1] = -1.0
    assert found(X, y, intercept=0) == ["features 1 and 2 are constant: they cannot be told from the intercept"]


def test_many_collinear_columns_make_one_sentence():
    X, y = columns(d=3)
    (text,) = found(np.hstack([X, 2 * X, 3 * X]), y)
    assert text.startswith("9 features (0, 1, 2, 3, 4 and 4 more) are collinear")


def test_the_upper_triangle_of_products_is_enough():
    X, y = columns()
    X[:, 3] = X[:, 1]
    whole = seen_of(X, y)
    upper = seen_of(X, y, products=np.triu(whole.products))
    assert data_findings(upper) == data_findings(whole) != []


def test_rewards_that_a_regression_explains_are_said_and_those_with_noise_not():
    X, y = columns()
    exact = X @ [1.0, 2.0, -3.0, 0.01]
    assert any("fitted exactly" in text for text in data_findings(seen_of(X, exact)))
    # A thousandth of noise is a millionth of the variance, which is far more than rounding.
    assert not any("fitted exactly" in text for text in data_findings(seen_of(X, exact + 1e-3 * y)))
    # As many rewards as columns are always fitted.
    assert not any("fitted exactly" in text for text in data_findings(seen_of(X[:4], y[:4])))


def test_every_unusual_number_has_its_sentence():
    assert unusual_findings(QUIET) == []
    for change, words in (
        ({"quiet": (2,)}, "arm 2 shows hardly any noise"),
        ({"quiet": (0, 2)}, "arms 0 and 2 show hardly any noise"),
        ({"far": (1,)}, "arm 1 is far from the others"),
        ({"coefficient_share": 0.51}, "51% of what rewards say"),
        ({"overdispersion": 12.0}, "counts 12 times less"),
        ({"converged": False}, "did not come to rest"),
    ):
        (text,) = unusual_findings(QUIET._replace(**change))
        assert words in text


def test_a_regression_has_words_of_its_own():
    words = Names(arm=None, task="group", reward="row", always="y is always", fitted="y is")
    bad = Unusual(quiet=(0,), far=(0,), coefficient_share=0.9, overdispersion=9.0, converged=True)
    X, y = columns()
    one = data_findings(seen_of(X, 0 * y, n_tasks=1, tasks=np.array([1])), words)
    assert one == [
        "rows come from one group only: how groups differ cannot be learned",
        "y is always 0: there is no scale to learn",
    ]
    said = " ".join([*one, *unusual_findings(bad, words)])
    assert not any(word in said for word in ("arm", "task", "reward"))


def test_one_arm_is_worth_a_word_where_arms_learn_from_each_other():
    X, y = columns()
    assert data_findings(seen_of(X, y)) == []
    assert data_findings(seen_of(X, y, arms_pooled=True)) == [
        "there is one arm only: how arms differ cannot be learned"
    ]
