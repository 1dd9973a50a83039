import threading

import pytest

from posse.cli import progress


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch):
    """On a busy machine, commands of these tests say how far they are, which is not what the tests are about."""
    monkeypatch.setattr(progress, "PATIENCE", threading.TIMEOUT_MAX)
