"""The commands of ``posse``, each imported when it is called.

``posse --help`` shows names and sentences without loading what the commands need: the compiler alone takes longer than
a person wants to wait for a list.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

DECIDE, LOOK, SERVE, RESEARCH = "Decide and learn", "Look", "Serve", "Research"


class Home(NamedTuple):
    """Where a command is, the panel of the help that lists it, and what the list says of it."""

    module: str
    name: str
    panel: str
    says: str


# A test compares each sentence with the first one of the command's own help.
COMMANDS = {
    "demo": Home(
        "demo",
        "demo",
        DECIDE,
        "Let 60 stores learn from 20,000 visitors which offer sells, then decide for 10,000 new ones.",
    ),
    "fit": Home(
        "fit",
        "fit",
        DECIDE,
        "Learn a fleet from a log of decisions and rewards, or from any table with task, arm, reward and features.",
    ),
    "decide": Home("decide", "decide", DECIDE, "Ask a saved fleet for one decision; prints it as JSON."),
    "reward": Home("decide", "reward", DECIDE, "Reward a decision of a saved fleet, and save what it teaches."),
    "inspect": Home(
        "inspect",
        "inspect",
        LOOK,
        "Show a fleet's arms, its population, what is unusual about it, its tasks and how much they borrow.",
    ),
    "report": Home(
        "report",
        "report",
        LOOK,
        "Write one page for people who decide: what is gained, which arm is best where, when exploring stops paying.",
    ),
    "evaluate": Home(
        "evaluate",
        "evaluate",
        LOOK,
        "Estimate what policies would have earned per decision, or say why the log cannot tell (exit status 1).",
    ),
    "log": Home("log", "log_app", LOOK, "Check and convert logs of decisions and rewards."),
    "docs": Home("docs", "docs", LOOK, "Read the documentation: list its pages, or show one."),
    "serve": Home(
        "serve", "serve", SERVE, "Serve decisions over HTTP, with a durable log and a page that shows what was learned."
    ),
    "ingest": Home(
        "ingest",
        "ingest",
        SERVE,
        "Take decisions and rewards from a file into the log of a running service; what came before counts once.",
    ),
    "keys": Home("keys", "keys_app", SERVE, "API keys of a service: made, listed, rotated and revoked."),
    "verify": Home(
        "verify",
        "verify",
        SERVE,
        "Compare what is in snapshots with the log: sums of every task and arm. Exit status 1 if any differ.",
    ),
    "backup": Home(
        "backup",
        "backup",
        SERVE,
        "Copy the SQLite file of a service, also while it runs; only its owner may read the copy.",
    ),
    "restore": Home(
        "restore",
        "restore",
        SERVE,
        "Put a copy in the place of a service's SQLite file, whole and verified; stop the service first.",
    ),
    "doctor": Home(
        "doctor",
        "doctor",
        SERVE,
        "Check a deployment and say what is wrong and what to do. Exit status 1 if anything is.",
    ),
    "warmup": Home(
        "warmup",
        "warmup",
        SERVE,
        "Compile and cache every kernel, on two cores: afterwards nothing that starts waits for the compiler.",
    ),
    "paper": Home(
        "paper",
        "paper",
        RESEARCH,
        "Compare posse with the paper's six methods: 10 tasks, 5 arms, 3 features, 2,000 steps, 100 seeds.",
    ),
    "simulate": Home(
        "simulate", "simulate", RESEARCH, "Run policies on the same synthetic worlds and compare their regret."
    ),
    "reproduce": Home(
        "reproduce",
        "reproduce",
        RESEARCH,
        "Run the paper's experiments and write one page: every figure redrawn, every claim tested.",
    ),
    "data": Home("data", "app", RESEARCH, "List, fetch and verify the datasets."),
    "bench": Home("bench", "app", RESEARCH, "Run a fixed benchmark."),
}


def load(name: str) -> TyperCommand | TyperGroup:
    """Import a command."""
    home = COMMANDS[name]
    found = getattr(import_module(f"posse.cli.{home.module}"), home.name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
        alone.command(name)(found)
        found = alone
    found._add_completion = False  # only the root installs it
    command: Any = typer.main.get_command(found)
    command.name = name
    _tidy(command)
    return command  # type: ignore[no-any-return]


def _without_types_of_flags(options: list[Any]) -> list[Any]:
    """Have the help show ``--json`` rather than ``--json <bool>``."""
    for option in options:
        if isinstance(option, TyperOption) and option.is_bool_flag:
            option.metavar = ""
    return options


def _choose_quiet(quiet: bool) -> None:
    from posse.cli.progress import be_quiet

    if quiet:
        be_quiet()


def _with_quiet(
    quiet: Annotated[
        bool, typer.Option("--quiet", callback=_choose_quiet, expose_value=False, help="Show no progress.")
    ] = False,
) -> None:
    """Have the option that every command has."""


def _quiet_option() -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command()(_with_quiet)
    return typer.main.get_command(alone).params[0]


def _tidy(command: Any) -> None:
    """Tidy the options of a command and of those below it, as its help will list them."""
    if not hasattr(command, "commands"):
        command.params.append(_quiet_option())
    listed = command.get_params
    command.get_params = lambda ctx: _without_types_of_flags(listed(ctx))
    for below in getattr(command, "commands", {}).values():
        _tidy(below)


class Commands(TyperGroup):
    """A group that lists :data:`COMMANDS` and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=home.says, rich_help_panel=home.panel, rich_markup_mode="markdown")
            for name, home in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, imported."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load(name), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is called; one that is stopped says what is left of it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:  # of which Typer would say nothing
            notes = getattr(
                stopped, "__notes__", ["what was written is whole, and simulate --out continues where it was"]
            )
            typer.echo(f"posse: stopped; {'; '.join(notes)}", err=True)
            raise typer.Exit(130) from None

    def get_params(self, ctx: Any) -> Any:
        """Return the options of ``posse`` itself."""
        return _without_types_of_flags(super().get_params(ctx))
