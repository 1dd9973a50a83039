"""What puts exceptions into an operation leaves nothing behind for other tests."""

import gc

import numpy as np

from posse.container import open_container, write_container

from .injecting import places


def test_an_exception_releases_its_open_file(tmp_path):
    """Found where the collector came by: in another test, minutes later, as a file that nobody had closed."""
    path = tmp_path / "box"
    write_container(path, kind="numbers", version=1, header={}, arrays={"x": np.zeros(3)})

    def read():
        with open_container(path, kind="numbers", versions=[1]) as box:
            return box.names

    found = [injection.run(read) for injection in places(100, errors=[OSError])]
    assert found[0] is None
    assert found[-1] == ("x",), "there are fewer calls than that"
    gc.collect()
