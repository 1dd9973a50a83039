"""Shared by all tests."""

import importlib.util
import itertools
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

import posse

KERNELS = Path(posse.__file__).parent / "kernels"


# The same examples in every run: a test that fails on one machine fails on all. No deadline: the first example may have
# to compile a kernel.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


def pytest_configure() -> None:
    # Numba recompiles a kernel when its own file changed, but not when a kernel it calls in another file did. A cache
    # that is older than any kernel source would test code that is no longer there.
    newest = max(source.stat().st_mtime for source in KERNELS.glob("*.py"))
    for cached in KERNELS.glob("__pycache__/*.nb[ci]"):
        if cached.stat().st_mtime < newest:
            cached.unlink(missing_ok=True)


def _neighbour(name):
    """A module beside this file; folders of tests are not on the path."""
    spec = importlib.util.spec_from_file_location(f"posse_tests_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server of this worker's own; a test that stops it starts it again."""
    with tempfile.TemporaryDirectory(prefix="posse-postgres-") as folder:
        server = _neighbour("postgres").start_postgres(Path(folder))
        if server is None:
            pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def _postgres_template(postgres_server):
    psycopg = pytest.importorskip("psycopg")
    from posse.storage import open_storage

    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE template_of_tests")
    open_storage(postgres_server.database("template_of_tests")).close()
    return itertools.count()


@pytest.fixture
def postgres_url(postgres_server, _postgres_template):
    """The address of a database of the test's own, with the tables of a storage."""
    import psycopg

    name = f"test_{next(_postgres_template)}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template_of_tests")
    yield postgres_server.database(name)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
