import json

from typer.testing import CliRunner

from posse.cli.main import app


def test_the_demo_sells_more_than_the_stores_and_as_much_as_the_log_promised(tmp_path):
    found = json.loads(CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--visitors", "3000", "--json"]).stdout)

    assert found["by_rule"] < found["promised"]["low"] < found["learned"] < found["promised"]["high"] + 0.02
    assert found["learned"] < found["best"]
    assert {file.name for file in tmp_path.iterdir()} == {"report.html", "sales.png", "sales.svg", "stores.posse"}
