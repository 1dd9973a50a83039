"""What the service writes to its standard error, the same in every process."""

from __future__ import annotations

import logging
import sys


def write_log_lines(verbose: bool = False) -> None:
    """Write warnings of all libraries, and what the service has to say, to the standard error of this process.

    Parameters
    ----------
    verbose : bool
        Whether other libraries may say more, too.
    """
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("posse.service").setLevel(logging.INFO)
