"""``posse service vacuum``: no byte of an erased task is left in the file of a stopped service."""

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue
from posse.storage import NewDecision, open_storage

PAGE = 4096


def vacuum(*arguments):
    return CliRunner().invoke(app, ["service", "vacuum", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def database(tmp_path):
    """A database of 100 decisions."""
    storage = open_storage(tmp_path / "posse.db")
    storage.create_fleet("stores", {"arms": ["a"], "time_to_live": None}, 1.0)
    storage.write(
        [
            [
                NewDecision(
                    fleet="stores", id=str(n), task=f"customer-{n:03}", arm="a", time=1.0, propensity=1.0,
                    body="x" * 700, policy="ebm-ucb", version="1",
                )
            ]
            for n in range(100)
        ]
    )  # fmt: skip
    storage.close()
    return tmp_path / "posse.db"


def leave_a_copy(database, text):
    """Put text into the unused space of a page, as SQLite does when it moves rows to another one."""
    with database.open("r+b") as file:
        content = file.read()
        for page in range(PAGE, len(content), PAGE):
            cells = int.from_bytes(content[page + 3 : page + 5], "big")
            low, high = 8 + 2 * cells, int.from_bytes(content[page + 5 : page + 7], "big")
            if content[page] in (10, 13) and high - low > len(text):
                file.seek(page + low)
                file.write(text)
                return


def test_no_byte_of_an_erased_task_is_left(database):
    storage = open_storage(database)
    storage.erase("stores", "customer-017")
    storage.close()
    leave_a_copy(database, b"customer-017")
    assert b"customer-017" in database.read_bytes()

    assert vacuum("--database", database).exit_code == 0

    assert b"customer-017" not in database.read_bytes()
    storage = open_storage(database)
    assert storage.fleet("stores").decisions == 99 == len(storage.decisions("stores", limit=1000))
    storage.close()


def test_a_database_that_is_in_use_or_is_none_is_refused(database, tmp_path):
    storage = open_storage(database)
    assert storage.lead()
    with pytest.raises(InvalidValue, match="stop it"):
        vacuum("--database", database)
    storage.close()
    with pytest.raises(InvalidValue, match=r"nowhere\.db"):
        vacuum("--database", tmp_path / "nowhere.db")
    with pytest.raises(InvalidValue, match="VACUUM FULL"):
        vacuum("--database", "postgresql://host/name")
