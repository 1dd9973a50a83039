"""The commands of ``posse``, each imported when it is called.

``posse --help`` shows names and sentences without loading what the commands need: the compiler alone takes longer than
a person wants to wait for a list. Installed packages add commands by the entry points ``posse.commands``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


class Home(NamedTuple):
    """Where a command is, the panel of the help that lists it, and its sentence there."""

    target: str
    panel: str
    says: str


def homes(package: str, panels: Mapping[str, Mapping[str, str]], **targets: str) -> dict[str, Home]:
    """Return the commands of a package, by panel and sentence: each ``name:name``, or where ``targets`` says.

    A test compares each sentence with the first one of the command's own help.
    """
    return {
        name: Home(f"{package}.{targets.get(name, f'{name}:{name}')}", panel, says)
        for panel, commands in panels.items()
        for name, says in commands.items()
    }


COMMANDS = homes(
    "posse.cli",
    {
        "Learn from data": {
            "demo": "Let 60 stores learn from 20,000 visitors which offer sells, then decide for 10,000 new ones.",
            "fit": "Learn a fleet from a log of decisions and rewards, or from any table with task, arm, reward and "
            "features.",
            "evaluate": "Estimate what policies would have earned per decision, or say why the data cannot tell (exit "
            "status 1).",
            "log": "Check and convert logs of decisions and rewards.",
        },
        "Read results": {
            "report": "Write one page for people who decide: what is gained, which arm is best where, when exploring "
            "stops paying.",
            "inspect": "Show a fleet's arms, its population, what is unusual about it, its tasks and how much they "
            "borrow.",
            "docs": "Read the documentation: list its pages, or show one.",
        },
        "Run a service": {
            "serve": "Serve decisions over HTTP, with a durable log and a page that shows what was learned.",
            "service": "Keys, copies and checks of a service.",
            "warmup": "Compile and cache everything, so that nothing waits for the compiler later.",
        },
    },
    log="log:log_app",
    service="commands:service_app",
)
SERVICE_COMMANDS = homes(
    "posse.cli",
    {
        "Data": {
            "ingest": "Send decisions and rewards from a file to a running service; rows sent before are not counted "
            "again.",
            "backup": "Copy the SQLite file of a service, also while it runs; only its owner may read the copy.",
            "restore": "Put a copy in the place of a service's SQLite file, whole and verified; stop the service "
            "first.",
            "vacuum": "Rewrite the SQLite file of a stopped service: erased names leave its unused space, and the file "
            "gets smaller.",
        },
        "Checks and access": {
            "keys": "Create, list, rotate and revoke the API keys of a service.",
            "verify": "Compare the snapshots of a service with its log. Exit status 1 if they differ.",
            "doctor": "Check a deployment and say what is wrong and what to do. Exit status 1 if anything is.",
        },
    },
    keys="keys:keys_app",
    **{name: f"database:{name}" for name in ("backup", "restore", "vacuum", "verify")},
)


def added_commands() -> dict[str, Home]:
    """Return the commands that other installed packages add."""
    return {
        point.name: Home(point.value, "More", str(point.dist and point.dist.metadata["Summary"]))
        for point in entry_points(group="posse.commands")
    }


def load(name: str, home: Home) -> TyperCommand | TyperGroup:
    """Import a command."""
    module, _, attribute = home.target.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
        alone.command(name)(found)
        found = alone
    found._add_completion = False  # only the root installs it
    command: Any = typer.main.get_command(found)
    command.name = name
    _tidy(command)
    return command  # type: ignore[no-any-return]


def commands_below(command: Any) -> dict[str, Any]:
    """Return the commands of a group, imported; none below a command."""
    if isinstance(command, Group):
        return {name: load(name, home) for name, home in command.table.items()}
    return dict(getattr(command, "commands", {}))


def _without_types_of_flags(options: list[Any]) -> list[Any]:
    """Have the help show ``--json`` rather than ``--json <bool>``."""
    for option in options:
        if isinstance(option, TyperOption) and option.is_bool_flag:
            option.metavar = ""
    return options


def _choose_quiet(quiet: bool) -> None:
    from posse.cli.progress import be_quiet

    be_quiet(quiet)


def _with_quiet(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", callback=_choose_quiet, expose_value=False, help="Show results only.")
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


class Group(TyperGroup):
    """A group that lists its commands and imports the one that is called."""

    table: Mapping[str, Home]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=home.says, rich_help_panel=home.panel, rich_markup_mode="markdown")
            for name, home in self.table.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, imported."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load(name, self.table[name]), rest

    def get_params(self, ctx: Any) -> Any:
        """Return the group's own options."""
        return _without_types_of_flags(super().get_params(ctx))


def group_of(table: Mapping[str, Home]) -> type[Group]:
    """Return a group of these commands."""
    return type("Commands", (Group,), {"table": table})


service_app = typer.Typer(
    cls=group_of(SERVICE_COMMANDS), help=COMMANDS["service"].says, no_args_is_help=True, rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@service_app.callback()
def _service() -> None:
    """Keys, copies and checks of a service."""


class Root(Group):
    """``posse`` itself: its commands, and those that other packages add."""

    def __init__(self, **settings: Any) -> None:
        self.table = COMMANDS | added_commands()
        super().__init__(**settings)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, imported; say where that of the laboratory comes from."""
        if args and args[0] == "lab" and "lab" not in self.table:
            ctx.fail("expected posse-lab for `posse lab`, which is not installed; install it with: pip install ./lab")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is called; one that is stopped says what is left of it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:  # of which Typer would say nothing
            notes = getattr(stopped, "__notes__", ["what was written is whole"])
            typer.echo(f"posse: stopped; {'; '.join(notes)}", err=True)
            raise typer.Exit(130) from None
