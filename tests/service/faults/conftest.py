"""Services that are to fail: real processes, real signals, real databases."""

import pytest

from posse_lab.servers.clients import Load
from posse_lab.servers.service import Service


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for service in getattr(item, "services_of_faults", ()):
            report.sections.append((f"stderr of the service in {service.folder.name}", service.tail()))
    return report


@pytest.fixture
def services(request, tmp_path):
    """Make services; what is left of them is ended, and what they said is shown if the test fails."""
    made = request.node.services_of_faults = []

    def make(name="service", *options, **settings):
        service = Service(tmp_path / name, *options, **settings)
        made.append(service)
        return service

    yield make
    for service in made:
        service.clear()


@pytest.fixture
def loads():
    """Make clients; they end with the test."""
    made = []

    def make(*services, **settings):
        load = Load([service.port for service in services], **settings)
        made.append(load)
        return load.start()

    yield make
    for load in made:
        load.over.set()
    for load in made:
        load.end()
