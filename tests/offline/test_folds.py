import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.errors import InvalidValue
from posse.offline.model import deal_folds

labels = st.lists(st.integers(0, 6), min_size=1, max_size=60).map(np.array)


@given(labels, st.integers(2, 5), st.integers(0, 3))
def test_every_task_is_dealt_out_evenly(tasks, folds, seed):
    dealt = deal_folds(tasks, folds=folds, seed=seed)

    for task in np.unique(tasks):
        counts = np.bincount(dealt[tasks == task], minlength=folds)
        assert counts.max() - counts.min() <= 1
    counts = np.bincount(dealt, minlength=folds)
    assert counts.max() - counts.min() <= 1


@given(labels, st.permutations(range(7)))
def test_names_of_tasks_do_not_matter(tasks, names):
    assert (deal_folds(np.array(names)[tasks]) == deal_folds(tasks)).all()


def test_another_seed_is_another_deal():
    tasks = np.repeat(np.arange(5), 20)

    assert (deal_folds(tasks, seed=0) != deal_folds(tasks, seed=1)).any()
    assert (deal_folds(tasks, seed=1) == deal_folds(tasks, seed=1)).all()


def test_one_fold_is_refused():
    with pytest.raises(InvalidValue, match="folds to be at least 2"):
        deal_folds(np.array([0, 1]), folds=1)
