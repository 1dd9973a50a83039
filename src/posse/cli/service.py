"""``posse service``: keys, copies and checks of a service."""

from __future__ import annotations

import typer

from posse.cli.commands import Home, group_of

DATA, CHECKS = "Data", "Checks and access"

COMMANDS = {
    "ingest": Home(
        "posse.cli.ingest:ingest",
        DATA,
        "Send decisions and rewards from a file to a running service; rows sent before are not counted again.",
    ),
    "backup": Home(
        "posse.cli.backup:backup",
        DATA,
        "Copy the SQLite file of a service, also while it runs; only its owner may read the copy.",
    ),
    "restore": Home(
        "posse.cli.restore:restore",
        DATA,
        "Put a copy in the place of a service's SQLite file, whole and verified; stop the service first.",
    ),
    "vacuum": Home(
        "posse.cli.vacuum:vacuum",
        DATA,
        "Rewrite the SQLite file of a stopped service: erased names leave its unused space, and the file gets smaller.",
    ),
    "keys": Home("posse.cli.keys:keys_app", CHECKS, "Create, list, rotate and revoke the API keys of a service."),
    "verify": Home(
        "posse.cli.verify:verify",
        CHECKS,
        "Compare the snapshots of a service with its log. Exit status 1 if they differ.",
    ),
    "doctor": Home(
        "posse.cli.doctor:doctor",
        CHECKS,
        "Check a deployment and say what is wrong and what to do. Exit status 1 if anything is.",
    ),
}

app = typer.Typer(
    cls=group_of(COMMANDS),
    help="Keys, copies and checks of a service.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _service() -> None:
    """Keys, copies and checks of a service."""
