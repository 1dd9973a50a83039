"""The dashboard and the alert rules in deploy/ name what /metrics tells."""

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from posse.service.http.app import create_app
from posse.service.measures import OF_A_FLEET, OF_PROCESSES
from posse.service.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
ENDINGS = ("_bucket", "_count", "_sum")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Names of all metrics; those of fleets have samples only where there are fleets, but are declared always."""
    database = str(tmp_path_factory.mktemp("metrics") / "posse.db")
    app = create_app(Settings(database=database))
    text = app.state.metrics.text().decode()
    return {
        name
        for family in text_string_to_metric_families(text)
        for name in (family.name, *(family.name + ending for ending in (*ENDINGS, "_total")))
    }


def expressions():
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    dashboard = json.loads((DEPLOY / "grafana/dashboards/posse.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_expressions_name_metrics_that_there_are(told, title, expression):
    names = set(re.findall(r"\bposse_\w+", expression))
    assert names, title
    assert names <= told
    assert expression.count("(") == expression.count(")")


def test_every_number_of_a_fleet_is_on_the_dashboard():
    text = (DEPLOY / "grafana/dashboards/posse.json").read_text()
    assert [name for name in (*OF_A_FLEET, *OF_PROCESSES) if f"posse_fleet_{name}" not in text] == []


def test_alerts_say_what_is_wrong():
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
