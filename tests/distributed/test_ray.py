"""A real Ray on this machine: fits, fleets and sweeps. One cluster for all of them."""

import json
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import posse.distributed.fit
import posse.distributed.keeping
from posse import Posse
from posse.cli.main import app
from posse.distributed import ShardedPosse
from posse.distributed.cluster import gather
from posse.distributed.fit import learn_files
from posse.errors import (
    DamagedFile,
    InvalidValue,
    MissingFile,
    PosseError,
    RewardConflict,
    UnknownArm,
    UnknownDecision,
    UnknownTask,
)
from posse.features import FeatureSpec, numeric
from posse.fleet.names import buckets_of
from posse.fleet.tables import Columns

pytest.importorskip("ray")
# Ray closes its own sockets when it pleases.
pytestmark = [
    pytest.mark.slow,  # processes of Ray take seconds to start
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
ARMS, FEATURES = ["red", "green", "blue"], ["a", "b"]
CONTEXT = {"a": 0.5, "b": -1.0}


@pytest.fixture(scope="module")
def files(tmp_path_factory, log):
    """A log in files of different sizes, in an order that the names give."""
    folder, table = tmp_path_factory.mktemp("log"), log(3000)
    cuts = [0, 10, 1400, 1500, 1510, 3000]
    for number, (first, last) in enumerate(pairwise(cuts)):
        table[first:last].write_parquet(folder / f"{number}.parquet", row_group_size=200)
    return folder


@pytest.fixture(scope="module")
def one(files):
    fleet = Posse(arms=ARMS, features=FEATURES, seed=1)
    fleet.learn_many(files)
    return fleet


@pytest.mark.parametrize(("workers", "shards"), [(2, 2), (1, 1), (4, 3)])
def test_sums_are_those_of_one_machine_to_the_last_bit(ray, files, one, pair_sums, monkeypatch, workers, shards):
    monkeypatch.setattr(posse.distributed.fit, "ROWS", 250)
    fleet = ShardedPosse(arms=ARMS, features=FEATURES, seed=1, shards=shards)
    seen = []
    try:
        assert learn_files(fleet.running, files, Columns(), seen.append, workers=workers) == 3000
        assert pair_sums(fleet) == pair_sums(one)
        fleet.refresh()
        assert_allclose(fleet.prior.covariance, one.prior.covariance, rtol=1e-10)
        assert_allclose(fleet.prior.noise_variance, one.prior.noise_variance, rtol=1e-10)
    finally:
        fleet.close()
    assert (seen[-1].rows, seen[-1].total) == (3000, 3000)


@pytest.fixture
def fleet(ray, tmp_path, log):
    made = ShardedPosse(
        arms=ARMS, features=FEATURES, seed=1, shards=2, folder=tmp_path / "fleet", fsync=False, snapshot_bytes=300_000
    )
    made.learn_many(log(3000))
    yield made
    made.close()


def test_the_calls_of_a_fleet(ray, fleet, one, log, pair_sums):
    assert pair_sums(fleet) == pair_sums(one)
    assert (len(fleet), fleet.n_rewards) == (60, 3000)
    assert_allclose(fleet.prior.covariance, one.prior.covariance, rtol=1e-10)
    for task in ("t1", "t2", "nobody"):
        assert_allclose(
            list(fleet.expected(task, CONTEXT).mean.values()), list(one.expected(task, CONTEXT).mean.values())
        )
    # What is believed of some tasks is what one fleet believes.
    tasks, contexts = (
        ["t2", "t1", "nobody", "t2"],
        pl.DataFrame({"a": [0.1, 0.5, -1.0, 2.0], "b": [1.0, 0.0, 0.5, 0.2]}),
    )
    assert (
        fleet.expected_many(tasks, contexts)
        .select("row", "task", "arm")
        .equals(one.expected_many(tasks, contexts).select("row", "task", "arm"))
    )
    for column in ("mean", "low", "high", "probability_best"):
        assert_allclose(
            fleet.expected_many(tasks, contexts)[column], one.expected_many(tasks, contexts)[column], rtol=1e-7
        )
    with pytest.raises(InvalidValue, match="average context"):
        fleet.expected_many(tasks, None)
    some = [None, ["red", "blue"], None, ["green"]]
    assert_allclose(
        fleet.probabilities(tasks, contexts, some), one.probabilities(tasks, contexts, some), rtol=1e-6, atol=1e-9
    )
    for arm in ARMS:
        assert_allclose(fleet.coefficients("t1").mean[arm], one.coefficients("t1").mean[arm], rtol=1e-7)
    for name in ("own_share", "borrowed"):
        assert_allclose(getattr(fleet.borrowing("t1"), name), getattr(one.borrowing("t1"), name), rtol=1e-7)
    exported, whole = fleet.export("t1"), one.export("t1")
    assert exported["arms"]["red"]["gram"] == whole["arms"]["red"]["gram"]
    assert fleet.retired_arms == ()
    # Looking leaves no trace, and a ranking is decisions.
    preview = fleet.decide_many(tasks, contexts, record=False)
    assert (fleet.decide("t1", CONTEXT, record=False).id, preview.ids, preview[1].id) == ("", [""] * 4, "")
    assert fleet.decide("t1", CONTEXT, record=False, k=2).ids == ["", ""]
    assert (fleet.n_decisions, fleet.pending(), len(fleet)) == (0, [], 60)
    ranking = fleet.decide("t5", CONTEXT, k=3)
    assert sorted(ranking.arms) == sorted(ARMS)
    assert [entry.id for entry in fleet.pending()] == ranking.ids
    assert [entry["id"] for entry in fleet.export("t5")["decisions"]] == ranking.ids
    fleet.forget("t5")
    fleet.learn_many(log(3000).filter(pl.col("task") == "t5"))

    decision = fleet.decide("t1", CONTEXT, eligible=["red", "blue"])
    assert decision.arm in ("red", "blue")
    assert fleet.reward(decision, 1.0)
    assert not fleet.reward(decision.id, 1.0)
    with pytest.raises(RewardConflict):
        fleet.reward(decision, 2.0)
    many = fleet.decide_many(["t1", "new", "t2", "t1"], np.zeros((4, 2)))
    assert many[1].task == "new"
    assert many[1].id == many.ids[1]
    assert_allclose(many.probabilities.sum(axis=1), 1.0)
    with pytest.raises(UnknownDecision):
        fleet.reward_many([*many.ids, "7.nobody-1"], [1.0] * 5)
    assert fleet.n_rewards == 3001, "all or none"
    rewarded = fleet.reward_many([*many.ids, "nonsense"], [1.0] * 5, errors="skip")
    assert (rewarded, rewarded.skipped[0].row) == (4, 4)
    with pytest.raises(UnknownArm):
        fleet.learn_many(log(10).with_columns(arm=np.array(["violet"] * 10)))
    assert fleet.n_rewards == 3005
    fleet.add_arm("violet")
    assert "violet" in fleet.decide("t1", CONTEXT).probabilities
    fleet.retire_arm("red")
    assert "red" not in fleet.decide("t1", CONTEXT).probabilities
    fleet.forget("t1", "new")
    assert len(fleet) == 59
    with pytest.raises(UnknownTask):
        fleet.forget("t2", "t1")
    with pytest.raises(InvalidValue, match="one by one"):
        fleet.forget(["t2"])
    for sample in (0, "many"):
        with pytest.raises(InvalidValue, match="sample"):
            fleet.refresh(sample=sample)
    assert len(fleet) == 59
    # One that is killed comes back with everything.
    before, decision = pair_sums(fleet), fleet.decide("t2", CONTEXT)
    for actor in (fleet.running.shards[0], fleet.running.coordinator):
        ray.kill(actor, no_restart=False)
    assert pair_sums(fleet) == before
    assert fleet.reward(decision, 1.0)


def test_what_a_driver_that_died_had_begun_is_finished(ray, tmp_path, log):
    fleet = ShardedPosse(arms=ARMS, features=FEATURES, seed=1, shards=2, folder=tmp_path / "fleet", fsync=False)
    fleet.learn_many(log(500))
    # It dies when one shard has an arm more, and the other one less that may be chosen.
    running = fleet.running
    gather([running.shards[0].add_arm.remote("violet"), running.shards[1].retire_arm.remote("red")])
    tasks = [f"t{number}" for number in range(20)]
    many, likely = fleet.decide_many(tasks, np.zeros((20, 2))), fleet.probabilities(tasks, np.zeros((20, 2)))
    assert many.arms == (*ARMS, "violet")
    for decision, row in zip(many, likely, strict=True):
        shard = running.home[buckets_of([decision.task])[0]]
        assert set(decision.probabilities) == ({*ARMS, "violet"} if shard == 0 else {"green", "blue"})
        assert decision.arm in decision.probabilities
        assert shard == 0 or row[0] == row[3] == 0.0
    assert_allclose(likely.sum(axis=1), 1.0)
    running.end()
    fleet = ShardedPosse.open(tmp_path / "fleet", fsync=False)
    try:
        assert fleet.arms == (*ARMS, "violet")
        for state in fleet.running.states():
            assert ([arm for arm, _ in state["arms"]], state["retired"]) == ([*ARMS, "violet"], [])
        assert fleet.reward_many(many, np.ones(20)) == 20
        fleet.refresh()
        # What is refused leaves all as it was; what is done twice is done once.
        for wrong in ("violet", 7):
            with pytest.raises(InvalidValue):
                fleet.add_arm(wrong)
        fleet.retire_arm("red")
        with pytest.raises(InvalidValue, match="retired already"):
            fleet.retire_arm("red")
        fleet.add_arm("red")
        assert fleet.arms == (*ARMS, "violet")
    finally:
        fleet.close()
    fleet.close()
    with pytest.raises(PosseError, match="was closed"):
        fleet.decide("t1", CONTEXT)


def test_scaling_that_is_learned_from_the_first_table_is_known_to_shards_and_folder(ray, tmp_path, log):
    spec = FeatureSpec([numeric("a", scale="standard"), "b"])
    one, table = Posse(arms=ARMS, features=spec, seed=1), log(3000)
    one.learn_many(table)
    fleet = ShardedPosse(arms=ARMS, features=spec, seed=1, shards=2, folder=tmp_path / "fleet", fsync=False)
    try:
        with pytest.raises(UnknownArm):
            fleet.learn_many(table.with_columns(arm=np.array(["violet"] * 3000)))
        assert not fleet.features.ready, "a table that was refused taught nothing"
        fleet.learn_many(table)

        def require_same():
            assert fleet.features == one.features
            mean = fleet.expected("t1", CONTEXT).mean
            assert_allclose(list(mean.values()), list(one.expected("t1", CONTEXT).mean.values()), rtol=1e-8)
            assert fleet.decide("t2", CONTEXT).arm in ARMS

        require_same()
        for actor in (*fleet.running.shards, fleet.running.coordinator):
            ray.kill(actor, no_restart=False)
        require_same()
        fleet.close()
        fleet = ShardedPosse.open(tmp_path / "fleet", fsync=False)
        require_same()
    finally:
        fleet.close()


def test_shards_are_saved_loaded_moved_and_opened_again(ray, fleet, tmp_path, pair_sums, monkeypatch):
    waiting = [fleet.decide(f"t{number}", CONTEXT) for number in range(10)]
    fleet.refresh()
    sums, expected = pair_sums(fleet), fleet.expected("t7", CONTEXT)
    fleet.save(tmp_path / "m.posse")
    fleet.save(tmp_path / "m.posse")  # again: the files of before are gone
    assert len(list(tmp_path.glob("m.posse*"))) == 4

    whole = Posse.load(tmp_path / "m.posse")
    assert pair_sums(whole) == sums
    assert_allclose(list(whole.expected("t7", CONTEXT).mean.values()), list(expected.mean.values()), rtol=1e-9)
    assert whole.reward(waiting[0].id.partition(".")[2], 1.0)

    loaded = ShardedPosse.load(tmp_path / "m.posse", shards=3, snapshot_bytes=400_000)
    assert loaded.running.place.snapshot_bytes == 400_000
    monkeypatch.setattr(posse.distributed.keeping, "has_several_machines", lambda: True)
    with pytest.raises(InvalidValue, match="folder"):
        loaded.rebalance(2)
    assert pair_sums(loaded) == sums
    assert loaded.n_decisions == 10
    assert_allclose(list(loaded.expected("t7", CONTEXT).mean.values()), list(expected.mean.values()), rtol=1e-9)
    assert all(loaded.reward(decision, 1.0) for decision in waiting)
    loaded.close()

    fleet.rebalance(3)
    assert fleet.n_shards == 3
    assert fleet.running.place.snapshot_bytes == 300_000
    assert pair_sums(fleet) == sums
    assert all(fleet.reward(decision, 1.0) for decision in waiting)
    after = pair_sums(fleet)
    with pytest.raises(InvalidValue, match="running"):
        ShardedPosse.open(tmp_path / "fleet")
    fleet.close()
    again = ShardedPosse.open(tmp_path / "fleet")
    assert again.running.place.snapshot_bytes == 300_000
    assert pair_sums(again) == after
    assert not again.reward(waiting[0], 1.0)
    fleet.__dict__.update(again.__dict__)  # for whoever closes it

    with pytest.raises(DamagedFile, match=r"is the file of one fleet, which Posse\.load reads"):
        ShardedPosse.load(next(tmp_path.glob("m.posse.*.shard-0001")))
    next(tmp_path.glob("m.posse.*.shard-0001")).unlink()
    with pytest.raises(MissingFile, match="shard-0001"):
        Posse.load(tmp_path / "m.posse")


def test_an_actor_that_is_killed_comes_back_with_everything(ray, fleet, pair_sums):
    decisions = [fleet.decide(f"t{number % 20}", CONTEXT) for number in range(10)]
    for decision in decisions[:5]:
        fleet.reward(decision, 1.0)
    before = pair_sums(fleet)
    for actor in (*fleet.running.shards, fleet.running.coordinator):
        ray.kill(actor, no_restart=False)
    assert all(fleet.reward(decision, 2.0) for decision in decisions[5:])
    after = pair_sums(fleet)
    assert after.keys() >= before.keys()
    assert fleet.n_rewards == 3010
    assert not fleet.reward(decisions[0], 1.0)
    fleet.refresh()


def test_fit_from_the_shell_on_ray(ray, files, one, tmp_path, pair_sums):
    out = tmp_path / "fleet.posse"
    result = CliRunner().invoke(
        app, ["fit", str(files), "--engine", "ray", "--out", str(out), "--shards", "2"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert "3,000 rewards of 60 tasks learned" in result.stdout
    loaded = Posse.load(out)
    assert pair_sums(loaded).keys() == {
        (task, ["blue", "green", "red"].index(ARMS[arm])) for task, arm in pair_sums(one)
    }
    assert loaded.n_rewards == 3000


def test_a_fit_on_ray_that_is_interrupted_goes_on(ray, files, tmp_path, pair_sums, monkeypatch):
    monkeypatch.setattr(posse.distributed.fit, "ROWS", 250)
    out, folder, seen = tmp_path / "fleet.posse", tmp_path / "fleet.posse.checkpoint", []
    learn, ended = posse.distributed.fit.learn_files, []

    def fit(*more, stop=10**9, kill=False):
        def learn_some(fleet, table, columns, progress, **settings):
            def tell(now):
                if kill and not seen:
                    ray.kill(fleet.shards[0], no_restart=False)
                seen.append(now.rows)
                if now.rows > stop:
                    raise KeyboardInterrupt
                progress(now)

            return learn(fleet, table, columns, tell, **settings)

        monkeypatch.setattr(posse.distributed.fit, "learn_files", learn_some)
        seen.clear()
        ended.append(CliRunner().invoke(app, ["fit", str(files), "--engine", "ray", "--out", str(out), *more]))
        return ended[-1]

    assert fit(stop=1000).exit_code != 0
    assert folder.is_dir()
    assert not out.exists()
    refused = fit("--shards", "3")
    assert refused.exit_code != 0
    assert not seen
    assert "another fit's" in str(refused.exception) + refused.output
    result = fit("--json", kill=True)
    assert result.exit_code == 0, result.output
    assert seen[0] > 1000, "what was learned before is not read again"
    assert json.loads(result.stdout[result.stdout.index("{\n") :])["rows"] == 3000  # Ray tells of the death there, too
    assert not folder.exists()
    whole = Posse(arms=sorted(ARMS), features=FEATURES)
    whole.learn_many(files)
    found, wanted = pair_sums(Posse.load(out)), pair_sums(whole)
    assert found.keys() == wanted.keys()
    for pair, sums in found.items():
        assert sums[-1] == wanted[pair][-1], "every reward counts once"
        # Calls that Ray makes again after a death come in another order: last bits differ.
        for mine, other in zip(sums, wanted[pair], strict=True):
            assert_allclose(np.frombuffer(mine), np.frombuffer(other), rtol=1e-11, atol=1e-11)
    # What nothing was learned of leaves nothing behind, and what had not begun is in nobody's way.
    for refused in (("--shards", "0"), ("--shards", "5000")):
        assert fit(*refused).exit_code != 0
        assert not folder.exists()
    folder.mkdir()
    (folder / "fit.json").write_text("{}")
    assert fit().exit_code == 0
    assert not folder.exists()


def test_a_sweep_on_ray_gives_the_same_bytes(ray, tmp_path):
    from posse.environments import SyntheticWorld
    from posse.simulation import simulate

    paths = {engine: tmp_path / f"{engine}.parquet" for engine in ("processes", "ray")}
    for engine, path in paths.items():
        workers = 2 if engine == "ray" else 1
        policies = {"ebmUCB": "ebm-ucb", "random": "random"}
        simulate(SyntheticWorld(), policies, horizon=30, seeds=3, workers=workers, engine=engine, out=path)
    assert paths["ray"].read_bytes() == paths["processes"].read_bytes()
    with pytest.raises(InvalidValue, match="engine"):
        simulate(SyntheticWorld(), ["random"], horizon=3, seeds=1, engine="spark")


@pytest.mark.parametrize("command", ["bench", "reproduce"])
def test_sweeps_from_the_shell(ray, tmp_path, command):
    arguments = {
        "bench": ["lab", "bench", "regret", "--only", "balanced", "--seeds", "1", "--out"],
        "reproduce": ["lab", "reproduce", "balanced", "--quick", "--seeds", "1", "--set", "horizon=20", "--out"],
    }[command]
    out = tmp_path / "out"
    runner = CliRunner()
    result = runner.invoke(app, [*arguments, str(out), "--engine", "ray", "--workers", "2"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert out.exists()


def test_what_cannot_be_sharded_is_refused(ray):
    for settings in ({"drift": "learn"}, {"robust": True}, {"prior": "moments"}):
        with pytest.raises(InvalidValue, match="sharded"):
            ShardedPosse(arms=ARMS, features=FEATURES, **settings)


@pytest.mark.parametrize("settings", [{"drift": "learn"}, {"background": True}])
def test_what_shards_do_not_learn_is_refused_before_there_is_a_cluster(settings):
    with pytest.raises(InvalidValue, match="for a sharded fleet"):
        ShardedPosse(**{"arms": ARMS, "features": FEATURES} | settings)


def test_features_drift_and_corrections_on_ray(ray, tmp_path, log):
    arms = {arm: {"price": float(price)} for price, arm in enumerate(ARMS)}
    settings = {"arms": arms, "features": FEATURES, "seed": 1, "drift": 30.0}
    settings |= {"task_features": FeatureSpec([numeric("size", scale="standard")])}
    settings |= {"arm_features": ["price"], "absent_reward": 0.0}
    fleet = ShardedPosse(**settings, shards=2, folder=tmp_path / "fleet", fsync=False)
    one = Posse(**settings)
    known = {f"t{task}": {"size": float(task % 7)} for task in range(50)}
    table = log(1000).with_columns(time=pl.Series(time.time() - np.linspace(1e6, 0.0, 1000)))
    try:
        for each in (fleet, one):
            assert each.set_task_features(known) == 50
            assert each.learn_many(table, time="time") == 1000
            each.add_arm("violet", {"price": 1.5})
        fleet.refresh()
        one.refresh()
        assert_allclose(fleet.prior.covariance, one.prior.covariance, rtol=1e-3)  # each as of its own present
        assert_allclose(fleet.n_rewards, one.n_rewards, rtol=1e-4)
        decision = fleet.decide("t1", CONTEXT)
        assert fleet.reward(decision, 5.0)
        assert fleet.correct(decision, 1.0)
        assert not fleet.correct(decision, 1.0)
        for actor in (*fleet.running.shards, fleet.running.coordinator):
            ray.kill(actor, no_restart=False)
        mean = fleet.expected("t2", CONTEXT).mean
        assert_allclose(list(mean.values()), list(one.expected("t2", CONTEXT).mean.values()), rtol=0.05, atol=0.05)
        fleet.rebalance(3)
        assert_allclose(list(fleet.expected("t2", CONTEXT).mean.values()), list(mean.values()), rtol=1e-3)
        assert fleet.set_task_features({"t59": {"size": 3.0}}) == 1
        fleet.save(tmp_path / "m.posse")
        assert Posse.load(tmp_path / "m.posse").about_task("t9") == {"size": 2.0}
    finally:
        fleet.close()


def test_clicks_on_ray(ray, tmp_path, log):
    table = log(600, 30).with_columns(reward=(pl.col("reward") > 0).cast(pl.Float64))
    settings = {"arms": ARMS, "features": FEATURES, "seed": 1, "rewards": "binary"}
    fleet, one = ShardedPosse(**settings, shards=2, folder=tmp_path / "fleet", fsync=False), Posse(**settings)
    try:
        for each in (fleet, one):
            assert each.learn_many(table, refresh=False) == 600
        with pytest.raises(InvalidValue, match="0 or 1"):
            fleet.learn_many(table.with_columns(reward=0.5))
        one.core.estimate(steps=300, settled=1e-9)
        fleet.running.refresh(300, 1e-9)
        assert_allclose(fleet.prior.covariance, one.prior.covariance, rtol=1e-5)
        for task in ("t1", "t2", "nobody"):
            found, wanted = (each.expected(task, CONTEXT).mean for each in (fleet, one))
            assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-5)
        decision = fleet.decide("t1", CONTEXT)
        assert fleet.reward(decision, 1.0)
        assert fleet.correct(decision, 0.0)
        before = fleet.expected("t1", CONTEXT).mean
        for actor in (*fleet.running.shards, fleet.running.coordinator):
            ray.kill(actor, no_restart=False)
        assert_allclose(list(fleet.expected("t1", CONTEXT).mean.values()), list(before.values()), rtol=1e-9)
        fleet.save(tmp_path / "m.posse")
        whole = Posse.load(tmp_path / "m.posse")
        assert whole.n_rewards == 601
        assert_allclose(list(whole.expected("t1", CONTEXT).mean.values()), list(before.values()), rtol=1e-6)
    finally:
        fleet.close()


def test_an_address_where_nobody_is_is_refused_at_once():
    program = (
        "import socket\n"
        "from posse.distributed.cluster import start\n"
        "from posse.errors import PosseError\n"
        "with socket.socket() as free: free.bind(('127.0.0.1', 0)); port = free.getsockname()[1]\n"
        "for address in (f'127.0.0.1:{port}', f'ray://127.0.0.1:{port}', '127.0.0.1:99999'):\n"
        "    try: start(address)\n"
        "    except PosseError as error: assert 'ray start --head' in str(error), error\n"
        "    else: raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_importing_posse_does_not_import_ray():
    program = (
        "import sys, posse; from posse import Posse, simulate; import posse.distributed, posse.cli.main;"
        "from posse.distributed import ShardedPosse; assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_ray_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['ray'] = None\n"
        "from posse.distributed import ShardedPosse\n"
        "try: ShardedPosse(arms=['a'], features=['x'])\n"
        "except ImportError as error: assert 'ray[data]' in str(error), error\n"
        "else: raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
