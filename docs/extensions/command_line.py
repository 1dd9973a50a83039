"""The ``command-line`` directive: every command of ``posse`` with its arguments and options, as the help has them."""

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx


class CommandLine(Directive):
    """Write a section for every command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        from posse.cli.commands import COMMANDS, load

        lines: list[str] = []
        for name, home in COMMANDS.items():
            lines += _described(f"posse {name}", load(name, home))
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(StringList(lines, source="posse --help"), self.content_offset, section, match_titles=1)
        return section.children


def _described(name: str, command: Any) -> list[str]:
    from posse.cli.commands import commands_below

    lines = [f"## {name}", "", (command.help or "").strip(), ""]
    if below := commands_below(command):
        for part in below.values():
            lines += _described(f"{name} {part.name}", part)
        return lines
    rows = [(_names(each), _words(each)) for each in command.params if each.name != "help"]
    if rows:
        lines += ["| | |", "|---|---|", *(f"| {left} | {right} |" for left, right in rows), ""]
    return lines


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    return ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])


def _words(parameter: Any) -> str:
    text = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
    default = parameter.default
    shown = default not in (None, False, (), []) and "Default" not in text and not callable(default)
    return f"{text} Default: `{default}`." if shown else text


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
