import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.simulation import SimulationResult


@pytest.mark.slow
def test_the_papers_methods_are_compared_and_drawn(tmp_path):
    done = CliRunner().invoke(app, ["lab", "paper", "--seeds", "2", "--workers", "1", "--out", str(tmp_path)])

    assert done.exit_code == 0, done.output
    result = SimulationResult.load(tmp_path / "regret.parquet")
    assert result.seeds == [0, 1]
    assert {"posse", "ebmUCB", "ebmTS", "LinUCB", "LinTS", "OLSBandit", "RMBandit"} <= set(result.policies)
    for name in ("posse", "ebmUCB", "RMBandit"):
        assert f"{result.regret_of(name).mean():.1f}" in done.stdout
    assert {file.name for file in tmp_path.iterdir()} == {"regret.parquet", "regret.png", "regret.svg"}
