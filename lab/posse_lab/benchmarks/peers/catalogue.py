"""Everyone who takes part, by name."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Sequence

from posse.errors import InvalidValue, MissingDependency
from posse_lab.benchmarks.peers import bayesianbandits, mabwiser, ours, river, vowpal_wabbit
from posse_lab.benchmarks.peers.entry import INSTALL, TASK_BLOCKS, Peer

POSSE = Peer(
    name="posse",
    package="posse",
    build=ours.build,
    forms=(ours.TS, ours.UCB, ours.FLEET),
    recommended={"prior": "evidence"},
)
PEERS = {peer.package: peer for peer in (vowpal_wabbit.PEER, river.PEER, mabwiser.PEER, bayesianbandits.PEER)}
"""The other libraries, in the order of the table."""

BLOCKS = "blocks"  # what --only calls the comparison with task blocks
NAMES = ("posse", *PEERS, BLOCKS)


def peer_of(package: str, form: str) -> Peer:
    """Return a library in one of its forms."""
    if package == "posse":
        return POSSE
    return bayesianbandits.BLOCKS if form == TASK_BLOCKS else PEERS[package]


def installed(package: str) -> bool:
    """Whether a library can be imported."""
    return importlib.util.find_spec(package) is not None


def chosen(only: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """Return what will run of `NAMES`, and what will not, with the reason.

    Libraries that are not installed are left out; one that was asked for by name is an error.
    """
    for name in only or ():
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f" did you mean {near[0]!r}?" if near else ""
            raise InvalidValue(f"no entry {name!r};{hint} The entries are {', '.join(NAMES)}")
    run, skipped = ["posse"], {}
    for name in NAMES[1:]:
        if only and name not in only:
            continue
        package = "bayesianbandits" if name == BLOCKS else name
        if installed(package):
            run.append(name)
            continue
        reason = f"{package} is not installed: {INSTALL}"
        if only:
            raise MissingDependency(f"{name} was asked for, but {reason}")
        skipped[name] = reason
    return run, skipped
