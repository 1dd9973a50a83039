"""A second process that compiles what the first will need: both fill one cache, from two ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping


class Helper:
    """A process that goes through the parts of a module from the last to the first, and says where it is.

    Parameters
    ----------
    module : str
        What ``python -m`` runs; it calls :func:`help_with`.
    """

    def __init__(self, module: str) -> None:
        self._at: str | None = ""  # the part that it works on; None when it has ended
        self._news = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._listener = threading.Thread(target=self._listen, name="posse-helper", daemon=True)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
            self._listener.start()
        except (OSError, RuntimeError):  # no process or no thread to be had: it takes longer alone
            self._at = None

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._set(line.strip())
        self._set(None)

    def _set(self, part: str | None) -> None:
        with self._news:
            self._at = part
            self._news.notify_all()

    def wait_while_at(self, part: str) -> None:
        """Return when it does not work on this part: to compile that twice would take longer."""
        with self._news:
            self._news.wait_for(lambda: self._at != part)

    def end(self) -> None:
        """End it, whatever it does."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if self._listener.ident is not None:
            self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def help_with(parts: Mapping[str, Callable[[], None]]) -> None:
    """Load parts from the last to the first, and say which; end when whoever started this has ended."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    for name, load in reversed(list(parts.items())):
        print(name, flush=True)
        load()


def end_with_parent() -> None:
    """End this process when whoever started it closes its standard input, or has ended."""
    sys.stdin.read()  # ends when the other end is closed
    os._exit(0)
