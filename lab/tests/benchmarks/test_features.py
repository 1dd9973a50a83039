"""``posse lab bench features``, small: that it runs, and that knowing helps where it should."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse_lab.benchmarks.features import (
    CATEGORIES,
    CLICKS,
    CLICKS_CATEGORIES,
    CLICKS_USELESS,
    MATTER,
    RATIOS,
    USELESS,
    arm_regret,
    catalogue_milliseconds,
    mtts_regret,
    region_regret,
)

SMALL = {"n_tasks": 40, "n_old": 30, "n_regions": 3, "n_arms": 3, "decisions": 5}


@pytest.mark.parametrize(("matter", "useless"), [(MATTER, USELESS), (CLICKS, CLICKS_USELESS)])
def test_regions_help_where_they_matter_and_change_nothing_where_they_do_not(matter, useless):
    world = replace(matter, **SMALL)
    known, none, each = (region_regret(world, 1, fleets) for fleets in ("known", "none", "per region"))
    assert 0 < known < none
    assert each > 0
    useless = replace(useless, **SMALL)
    assert region_regret(useless, 1, "known") == region_regret(useless, 1, "none")


def test_categories_help_new_offers():
    world = replace(CATEGORIES, n_arms=18, n_old=12, n_categories=3, n_tasks=4, history=300, pulls=5)
    known, none = (arm_regret(world, 1, known) for known in (True, False))
    assert 0 < known < none


def test_categories_help_clicks_on_new_offers():
    world = replace(CLICKS_CATEGORIES, n_arms=18, n_old=12, n_categories=3, n_tasks=4, history=600, pulls=5)
    known, none = (arm_regret(world, 1, known) for known in (True, False))
    assert 0 < known < none


def test_catalogues_are_timed():
    assert set(catalogue_milliseconds(20, 3)) == {"menu", "table"}


def test_a_wrong_row_lists_them():
    result = CliRunner().invoke(app, ["lab", "bench", "features", "--only", "nothing"])
    assert result.exit_code == 2 or result.exception is not None
    assert set(RATIOS) >= {"regions", "regions-useless", "categories", "categories-useless", "mtts-meta"}


@pytest.mark.slow
def test_the_ordering_of_the_figures_holds():
    """Tasks in turn, Gaussian rewards, no contexts; 8 arms, 5 task features, tasks 0.5 from what these say.

    As in the paper's Figure 2: who knows the effects < MTTS < no metadata < every task alone, and metadata taken for
    all there is loses most in the end.
    """

    def regret(name, **sizes):
        return np.mean([mtts_regret(name, seed, **sizes) for seed in range(3)])

    order = ["oracle-TS", "MTTS", "meta-TS", "individual-TS"]
    by_name = {name: regret(name, n_tasks=40, rounds=40) for name in order}
    assert sorted(order, key=by_name.get) == order
    assert regret("MTTS", n_tasks=20, rounds=150) < regret("linear-TS", n_tasks=20, rounds=150)
