"""Shared by all tests."""

from pathlib import Path

import posse

KERNELS = Path(posse.__file__).parent / "kernels"


def pytest_configure() -> None:
    # Numba recompiles a kernel when its own file changed, but not when a kernel it calls in another file did. A cache
    # that is older than any kernel source would test code that is no longer there.
    newest = max(source.stat().st_mtime for source in KERNELS.glob("*.py"))
    for cached in KERNELS.glob("__pycache__/*.nb[ci]"):
        if cached.stat().st_mtime < newest:
            cached.unlink(missing_ok=True)
