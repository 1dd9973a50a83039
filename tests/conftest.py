"""Shared by all tests."""

from pathlib import Path

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
