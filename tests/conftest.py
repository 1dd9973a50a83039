"""Shared by all tests."""

import fcntl
import itertools
import logging
import os
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from posse.core.compiler import announcement
from posse_lab.servers.postgres import Server, binaries

# The same examples in every run: a test that fails on one machine fails on all. No deadline: the first example may have
# to compile a kernel.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@contextmanager
def compiler_of_tests():
    """Yield a file that says which run of tests compiled everything; other workers wait meanwhile."""
    with open(Path(tempfile.gettempdir()) / f"posse-tests-{os.getuid()}.lock", "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


@pytest.fixture(scope="session")
def compiled():
    """What a service needs is compiled, so that those which tests start are ready in seconds; one worker does it."""
    from posse.service.warming import Warming

    with compiler_of_tests():
        Warming().run(lambda: None)  # on two cores


def _be_an_ordinary_process() -> None:
    """Undo what a caller may have set: a job in the background ignores Ctrl-C, and the tests' children with it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than cores: those that test services wait a good part of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_configure() -> None:
    _be_an_ordinary_process()
    # Whether a machine has compiled before is not what tests of messages are about.
    announcement.quiet = True


def pytest_terminal_summary(terminalreporter):
    """Say how long a newcomer's steps took, where that was tried."""
    for report in terminalreporter.getreports("passed"):
        steps = [words for name, words in report.user_properties if name == "newcomer"]
        if steps and report.when == "call":
            terminalreporter.write_line(f"a newcomer: {', '.join(steps)}")


@pytest.fixture(autouse=True)
def _no_lines_to_a_closed_stream():
    """A command that was run in this process wrote its log to a standard error that is gone after the test."""
    yield
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if getattr(handler, "of_posse", False)]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server of this worker's own; a test that stops it starts it again."""
    with tempfile.TemporaryDirectory(prefix="posse-postgres-") as folder:
        if binaries() is None:
            pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
        server = Server(Path(folder))
        try:
            server.start()
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
