"""``posse service vacuum``: no byte of an erased task is left in the file of a stopped service."""

import random
import uuid

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue
from posse.storage import NewDecision, open_storage


def vacuum(*arguments):
    return CliRunner().invoke(app, ["service", "vacuum", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def erased(tmp_path):
    """A database from which many tasks were erased."""
    rng = random.Random(4)
    storage = open_storage(tmp_path / "posse.db")
    storage.create_fleet("stores", {"arms": ["a"], "time_to_live": None}, 1.0)
    names = [f"customer-{rng.randbytes(rng.choice([4, 30])).hex()}" for _ in range(200)]
    for _ in range(40):
        storage.write(
            [
                [
                    NewDecision(
                        fleet="stores", id=uuid.UUID(int=rng.getrandbits(128)).hex, task=task, arm="a", time=1.0,
                        propensity=1.0, policy="ebm-ucb", version="1",
                        body=f'{{"who": "{task}", "x": "{"x" * rng.randrange(900)}"}}',
                    )
                ]
                for task in rng.choices(names, k=50)
            ]
        )  # fmt: skip
    gone = names[:100]
    for name in gone:
        storage.erase("stores", name)
    yield storage, gone
    storage.close()


def test_no_byte_of_an_erased_task_is_left(erased, tmp_path):
    storage, gone = erased
    rows = storage.fleet("stores").decisions
    storage.close()
    assert vacuum("--database", tmp_path / "posse.db").exit_code == 0

    content = (tmp_path / "posse.db").read_bytes()
    assert not [name for name in gone if name.encode() in content]
    again = open_storage(tmp_path / "posse.db")
    assert again.fleet("stores").decisions == rows == len(again.decisions("stores", limit=10_000))
    again.close()


def test_a_database_that_is_in_use_or_is_none_is_refused(erased, tmp_path):
    storage, _ = erased
    assert storage.lead()
    with pytest.raises(InvalidValue, match="stop it"):
        vacuum("--database", tmp_path / "posse.db")
    with pytest.raises(InvalidValue, match=r"nowhere\.db"):
        vacuum("--database", tmp_path / "nowhere.db")
    with pytest.raises(InvalidValue, match="VACUUM FULL"):
        vacuum("--database", "postgresql://host/name")
