import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from typer.testing import CliRunner

from posse.cli import warmup
from posse.cli.main import app


@pytest.mark.slow
def test_the_command_says_how_long_it_took_and_where_the_cache_is():
    done = CliRunner().invoke(app, ["warmup"], catch_exceptions=False)

    assert "compile" in done.stdout
    assert "the cache is" in done.stdout


def test_times_are_those_of_the_parts_the_longest_first(monkeypatch):
    def long():
        sum(range(3_000_000))

    monkeypatch.setattr(warmup, "parts", lambda **_: {"short": lambda: None, "long": long})
    plain = CliRunner().invoke(app, ["warmup"], catch_exceptions=False)
    done = CliRunner().invoke(app, ["warmup", "--times"], catch_exceptions=False)

    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[-1] for line in lines[:2]] == ["long", "short"]
    assert " s  long" not in plain.stdout


def test_for_an_image_only_what_a_service_uses_is_compiled(monkeypatch):
    done = []
    monkeypatch.setattr("posse.service.warming.parts", lambda: {"beliefs": lambda: done.append("beliefs")})
    CliRunner().invoke(app, ["warmup", "--service"], catch_exceptions=False)
    assert done == ["beliefs"]


@pytest.mark.parametrize(
    ("setting", "folder", "words"),
    [
        ("somewhere", "somewhere/core_1", "that NUMBA_CACHE_DIR names"),
        ("", "posse/core/__pycache__", "in the package itself"),
        ("", "home/numba/core_1", "this user's cache folder"),
    ],
)
def test_where_the_cache_is_in_words(monkeypatch, setting, folder, words):
    monkeypatch.setattr(numba.config, "CACHE_DIR", setting)
    monkeypatch.setattr(warmup, "cache_folders", lambda: [Path(folder)])
    assert words in warmup.cache_words()
    assert folder in warmup.cache_words()


# Before anything of posse is imported: some kernels may be compiled then.
LISTEN = """
import contextlib, json
from numba.core import event
recorder = event.RecordingListener()
event.register("numba:run_pass", recorder)
"""
COMPILED = "print(json.dumps(sorted({one.data['qualname'] for _, one in recorder.buffer})))"

# What a service or a notebook does, with sizes and kinds of input that the warm-up has not seen.
SERVICE = """
import tempfile, numpy as np, polars as pl
from posse import EbmTS, EbmUCB, FeatureSpec, Posse, Prior, SyntheticWorld, make_policy, simulate
rng = np.random.default_rng(3)
for key in (
    "ebm-ucb", "ebm-ts", "ebm-rand-ucb", "hier-ts", "lin-ucb", "lin-ts", "lin-ucb-pooled", "ols-bandit", "rm-bandit"
):
    policy = make_policy(key, n_tasks=7, n_arms=4, n_features=6)
    for step in range(1, 12):
        arm = policy.choose(step % 7, rng.standard_normal(6).tolist(), step, rng)
        policy.update(step % 7, arm, rng.standard_normal((6, 2))[:, 0], 1)
        fixed = np.ones(6)
        fixed.flags.writeable = False
        policy.choose(np.int64(step % 7), fixed, step, rng)
    simulate(SyntheticWorld(n_tasks=4, n_arms=6, n_features=5), {key: key}, horizon=80, seeds=1)
known = Prior.isotropic(n_arms=4, n_features=6)
for settings in ({"prior": "evidence"}, {"prior": "evidence", "robust": True}, {"prior": known}, {"prior": "moments"}):
    policy = EbmTS(n_tasks=7, n_arms=4, n_features=6, **settings)
    for step in range(1, 30):
        policy.update(step % 7, policy.choose(step % 7, rng.standard_normal(6), step, rng), rng.standard_normal(6), 1.0)
    policy.predict(2, rng.standard_normal(6)), policy.borrowing(3), policy.prior_report
n = 9_000
table = pl.DataFrame({f"f{i}": rng.standard_normal(n) for i in range(5)})
table = table.with_columns(
    who=pl.Series(rng.integers(200, size=n)), arm=pl.Series([f"a{i % 3}" for i in range(n)]),
    reward=pl.Series(rng.standard_normal(n)),
)
for policy in ("ebm-rand-ucb", "ebm-ts", "ebm-ucb", "lin-ucb"):
    names = [f"f{i}" for i in range(5)]
    fleet = Posse(arms=["a0", "a1", "a2"], features=FeatureSpec(names, intercept=policy != "lin-ucb"), policy=policy)
    fleet.reward(fleet.decide(1, rng.standard_normal(5)).id, 2)
    fleet.learn_many(table, task="who")
    fleet.learn_many(table[:50].to_pandas(), task="who")
    decision = fleet.decide(1, dict.fromkeys(names, 1), eligible=["a0", "a2"])
    fleet.reward(decision.id, 0)
    fleet.decide_many("who", table), fleet.decide_many(table["who"], table.select(names).to_numpy())
    fleet.refresh()
    with tempfile.TemporaryDirectory() as folder:
        fleet.save(folder + "/f.posse")
        again = Posse.load(folder + "/f.posse")
        Posse.load(folder + "/f.posse", tasks=[1])
    again.reward(again.decide(5, rng.standard_normal(5)).id, 1.0)
    again.forget(3)
now = [0.0]
old = Posse(arms=["a0", "a1", "a2"], features=names, drift=1.0, background=True, clock=lambda: now[0])
old.learn_many(table, task="who"), old.refresh(), now.append(now.pop() + 8e4), old.decide(1, rng.standard_normal(5))
late = Posse(arms=["a0", "a1"], features=["f0", "f1"], absent_reward=0.25)
made = late.decide_many(rng.integers(9, size=90), rng.standard_normal((90, 2)))
late.reward(made.ids[0], 1.0), late.reward_many(made.ids[1:40], rng.standard_normal(39))
late.reward(late.decide(3, [1.0, 2.0]).id, 2.0), late.reward_many(made.ids[40:42], [1.0, 2.0])
"""


def run(program, cache):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    whole = f"{LISTEN}\n{program}\n{COMPILED}"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, env=environment, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_part_that_ran_once_compiles_nothing_in_the_next_process(tmp_path):
    program = """
from posse.cli.warmup import parts
parts()["policy lin-ucb"]()
"""
    assert run(program, tmp_path / "image") != []
    assert run(program, tmp_path / "image") == []
    # What a pod does, which may not write to its image.
    shutil.copytree(tmp_path / "image", tmp_path / "copy")
    assert run(program, tmp_path / "copy") == []


@pytest.mark.slow
def test_after_a_warm_up_nothing_is_compiled(tmp_path):
    program = """
from posse.cli.warmup import parts
for work in parts().values():
    work()
"""
    assert len(run(program, tmp_path)) > 20
    assert run(program, tmp_path) == []
    assert run(SERVICE, tmp_path) == []


def test_every_policy_has_a_part():
    from posse.policies.registry import POLICIES

    assert {f"policy {key}" for key in POLICIES} <= set(warmup.parts())


def test_the_cache_is_where_numba_puts_it():
    assert warmup.cache_folders()
    assert all(isinstance(folder, Path) for folder in warmup.cache_folders())
