import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import InvalidValue, UnknownPolicy
from posse.policies.registry import policy_factory
from posse.simulation.results import compare_paired
from posse_lab.reproduction.lineup import EXPLORATIONS, GRIDS, TUNED_RIVALS, lineup
from posse_lab.reproduction.reading import Reading

KEYS = {"LinUCB": "lin-ucb", "LinTS": "lin-ts", "RMBandit": "rm-bandit"}


@pytest.fixture
def small(result):
    """Two seeds, three steps; LinUCB 0.5 is best at step 20 and LinUCB 0.1 at the horizon."""
    curves = {name: [[50.0, 60.0, 70.0], [54.0, 64.0, 74.0]] for name in lineup()}
    curves["ebmUCB"] = [[1.0, 2.0, 6.0], [3.0, 4.0, 10.0]]
    curves["LinUCB 0.5"] = [[5.0, 6.0, 40.0], [7.0, 8.0, 40.0]]
    curves["LinUCB 0.1"] = [[9.0, 11.0, 12.0], [9.0, 13.0, 20.0]]
    curves["RMBandit q=5"] = [[1.0, 30.0, 31.0], [1.0, 30.0, 31.0]]
    tracked = {"ebmUCB": [[0.5, 1.0, 1.5], [0.0, 0.0, 2.5]]}
    return Reading(result(curves, [10, 20, 30], tracked=tracked), "small", "a world")


def test_sizes_come_from_the_result(small):
    assert (small.horizon, small.n_seeds) == (30, 2)


def test_regret_is_that_of_the_step(small):
    assert_array_equal(small.regret("ebmUCB"), [6.0, 10.0])
    assert_array_equal(small.regret("ebmUCB", 30), [6.0, 10.0])
    assert_array_equal(small.regret("ebmUCB", 10), [1.0, 3.0])
    assert_array_equal(small.regret("ebmUCB", 20, "tracked_curve"), [1.0, 0.0])
    assert_array_equal(small.curves("ebmUCB"), [[1, 2, 6], [3, 4, 10]])
    assert_array_equal(small.curves("ebmUCB", "tracked_curve"), [[0.5, 1, 1.5], [0, 0, 2.5]])


@pytest.mark.parametrize("step", [0, 1, 11, 29, 31, 1_000])
def test_a_step_that_was_not_kept_is_an_error(small, step):
    with pytest.raises(InvalidValue, match=rf"step {step}; the file has \[10, 20, 30\]"):
        small.regret("ebmUCB", step)


@pytest.mark.parametrize(("asked", "kept"), [(1, 10), (10, 10), (14, 10), (16, 20), (29, 30), (500, 30)])
def test_the_nearest_step_that_was_kept(small, asked, kept):
    assert small.kept(asked) == kept
    small.regret("ebmUCB", small.kept(asked))


def test_a_tuned_rival_is_the_best_of_its_grid_at_the_step_that_is_asked(small):
    assert small.name("LinUCB tuned", 20) == "LinUCB 0.5"
    assert small.name("LinUCB tuned") == small.name("LinUCB tuned", 30) == "LinUCB 0.1"
    assert_array_equal(small.regret("LinUCB tuned", 20), [6.0, 8.0])
    assert_array_equal(small.regret("LinUCB tuned"), [12.0, 20.0])
    # A curve is that of one policy: the one that is best where the run ends.
    assert_array_equal(small.curves("LinUCB tuned")[:, 1], [11.0, 13.0])


def test_a_policy_plays_its_own_role(small):
    for name in ("ebmUCB", "LinUCB", "LinUCB 0.5", "RMBandit", "LinTS matched"):
        assert small.name(name) == small.words(name, 20) == name


def test_words_tell_the_setting_that_tuning_found(small):
    assert small.words("LinUCB tuned", 20) == "LinUCB tuned (exploration 0.5)"
    assert small.words("LinUCB tuned") == "LinUCB tuned (exploration 0.1)"
    assert small.words("RMBandit tuned") == "RMBandit tuned (q 5)"


@pytest.mark.parametrize("rival", ["LinUCB", "LinTS"])
def test_tuning_may_end_at_an_end_of_the_grid(reading, rival):
    ends = [f"{rival} {value:g}" for value in (min(EXPLORATIONS), max(EXPLORATIONS))]
    # Nothing lies beyond greedy, so only the other end says that the grid was too short.
    for best, edge in {ends[0]: False, ends[1]: True, rival: False, f"{rival} 0.5": False}.items():
        made = reading({best: 1.5})
        assert made.name(f"{rival} tuned") == best
        assert made.at_edge(f"{rival} tuned") is edge


def test_every_tuned_rival_is_a_grid_of_policies_that_run():
    assert set(TUNED_RIVALS) == set(GRIDS)
    for grid in GRIDS.values():
        assert set(grid) <= set(lineup(scheduled=True))
        assert set(grid) & set(lineup())


def test_a_grid_is_what_of_it_was_run(result):
    curves = {"LinUCB 0.5": [[3.0]], "LinUCB": [[2.0]], "LinUCB 4": [[1.0]]}

    assert Reading(result(curves, [1]), "made").name("LinUCB tuned") == "LinUCB 4"
    del curves["LinUCB 4"]
    assert Reading(result(curves, [1]), "made").name("LinUCB tuned") == "LinUCB"


def test_the_default_of_each_rival_is_in_its_grid_under_its_own_name():
    for name in ("LinUCB", "LinTS", "RMBandit"):
        assert name in GRIDS[f"{name} tuned"]
        sizes = {"n_tasks": 2, "n_arms": 3, "n_features": 4}
        assert lineup()[name](**sizes).describe() == policy_factory(KEYS[name])(**sizes).describe()


def test_a_comparison_is_paired_and_speaks_of_the_policies_it_compared(small):
    pair = small.compare("ebmUCB", "LinUCB tuned", 20)

    assert (pair.first, pair.second) == ("ebmUCB", "LinUCB tuned (exploration 0.5)")
    assert pair == compare_paired(pair.first, pair.second, np.array([2.0, 4.0]), np.array([6.0, 8.0]))


def test_a_comparison_in_another_column(result):
    curves = {"a": [[1.0], [2.0]], "b": [[4.0], [4.0]]}
    expected = {"a": [[3.0], [3.0]], "b": [[2.0], [2.0]]}
    made = Reading(result(curves, [7], expected=expected), "made")

    assert made.compare("a", "b").ratio == pytest.approx(3 / 8)
    assert made.compare("a", "b", column="expected_curve").ratio == pytest.approx(1.5)


def test_a_policy_that_did_not_run(small):
    with pytest.raises(UnknownPolicy, match="'oracle'"):
        small.regret("oracle")


def test_the_order_of_rows_does_not_matter(result):
    curves = {"a": [[1.0], [2.0], [3.0]]}
    made = result(curves, [7])
    shuffled = type(made)(made.table.reverse(), made.settings, made.descriptions, made.version, made.complete)

    assert_array_equal(Reading(shuffled, "made").regret("a"), [1.0, 2.0, 3.0])
