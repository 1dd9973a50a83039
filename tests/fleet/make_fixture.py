"""Write the fixture of a released format: a small fleet as text, and what it must answer.

Run once when a format is released, and never again for that format::

    python tests/fleet/make_fixture.py

``test_format.py`` reads what it wrote with every later version of posse.
"""

import base64
import json
import secrets
import sys
import tempfile
from pathlib import Path

import numpy as np

from posse import FeatureSpec, Posse
from posse.features import numeric, one_hot
from posse.fleet.file_format import VERSION

FOLDER = Path(__file__).parent / "fixtures"
NOW = 1_700_000_000.0


def context(rng, row):
    return {"age": float(rng.normal(40, 10)), "kind": ["shop", "bar", None][row % 3]}


def build():
    """A fleet with retired, renamed and added arms, rewards late and twice, a forgotten task and a merged fleet."""
    age = numeric("age", scale="standard", center=40.0, spread=10.0)
    spec = FeatureSpec([age, one_hot("kind", ["shop", "bar"], missing="zeros")], intercept=False)
    rng = np.random.default_rng(20_240)
    fleets = []
    for number in (1, 2):
        # Ids that do not depend on the machine.
        secrets.token_hex = lambda n, number=number: f"{number:012x}"
        fleet = Posse(
            arms=["red", "green"], features=spec, seed=17, floor=0.02, evaluation_budget=0.01, time_to_live=1000.0,
            absent_reward=0.25, clock=lambda: NOW,
        )  # fmt: skip
        fleet.add_arm("blue")
        for row in range(16):
            decision = fleet.decide(f"café {row % 5}", context(rng, row))
            if row % 4:
                fleet.reward(decision.id, float(rng.normal()))
        fleets.append(fleet)
    fleet, other = fleets
    fleet.forget("café 3")
    fleet.merge(other)
    fleet.retire_arm("green")
    fleet.rename("blue", "azure")
    return fleet


def told(decision):
    """Return what a decision says; its id is new in every fleet that was loaded."""
    return {name: value for name, value in decision._asdict().items() if name != "id"}


def answers(fleet):
    """Return what a fleet says next; changes it."""
    rng = np.random.default_rng(7)
    contexts = [context(rng, row) for row in range(8)]
    tasks = [f"café {row % 4}" for row in range(7)] + ["never seen"]
    stats, prior = fleet.statistics, fleet.prior
    result = {
        "arms": list(fleet.arms),
        "retired": list(fleet.retired_arms),
        "tasks": list(fleet.tasks),
        "count": stats.count.tolist(),
        "moment": stats.moment.tolist(),
        "noise_variance": prior.noise_variance.tolist(),
        "covariance": prior.covariance.tolist(),
        "pending": [[entry.id, entry.task, entry.arm, entry.age] for entry in fleet.pending()],
        "expected": [fleet.expected(task, x)._asdict() for task, x in zip(tasks, contexts, strict=True)],
        "decisions": [told(fleet.decide(task, x)) for task, x in zip(tasks, contexts, strict=True)],
    }
    for entry in fleet.pending()[:5]:
        fleet.reward(entry.id, 0.5)
    fleet.refresh()
    result["later"] = [told(fleet.decide(task, x)) for task, x in zip(tasks, contexts, strict=True)]
    return result


def main():
    target = FOLDER / f"format{VERSION}.posse.b64"
    if target.exists() and "--again" not in sys.argv:
        raise SystemExit(
            f"{target} is there already: a released format does not change (--again if it is not released)"
        )
    fleet = build()
    with tempfile.TemporaryDirectory() as folder:
        fleet.save(Path(folder) / "fleet.posse")
        data = (Path(folder) / "fleet.posse").read_bytes()
        fleet = Posse.load(Path(folder) / "fleet.posse", clock=lambda: NOW)
    FOLDER.mkdir(exist_ok=True)
    target.write_text(base64.encodebytes(data).decode())
    (FOLDER / f"format{VERSION}.json").write_text(json.dumps(answers(fleet), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
