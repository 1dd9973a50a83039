"""``posse decide`` and ``posse reward``: one decision of a saved fleet, and its reward."""

from __future__ import annotations

from json import JSONDecodeError, dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.inspect import task_label
from posse.errors import InvalidValue

if TYPE_CHECKING:
    from posse.fleet import Posse

FLEET = Annotated[Path, typer.Argument(help="The fleet's file.")]


def decide(
    fleet: FLEET,
    task: Annotated[str, typer.Option("--task", "-t", help="The task.")],
    context: Annotated[
        str, typer.Option("--context", "-c", help='The features, as JSON: `{"age": 3, "hour": 0.5}` or `[3, 0.5]`.')
    ] = "{}",
    eligible: Annotated[
        str | None, typer.Option(help="Arms to choose among, with commas. Default: all that are not retired.")
    ] = None,
    explore: Annotated[bool, typer.Option(help="Explore, or take the arm with the best mean.")] = True,
    save: Annotated[
        bool, typer.Option("--save", help="Note the decision in the file, so that `posse reward` can reward it.")
    ] = False,
) -> None:
    """Ask a saved fleet for one decision; prints it as JSON."""
    from posse.fleet import Posse

    loaded = Posse.load(fleet)
    choice = loaded.decide(
        task_label(loaded, task),
        _context(context),
        eligible=None if eligible is None else _arms(loaded, eligible),
        explore=explore,
    )
    if save:
        loaded.save(fleet)
    print(dumps(choice._asdict() if save else {**choice._asdict(), "id": None}, indent=2))
    if not save:
        typer.echo("not noted in the file: with --save the decision gets an id and may be rewarded", err=True)


def reward(
    fleet: FLEET,
    decision: Annotated[str, typer.Argument(help="The id of a decision that was saved.")],
    value: Annotated[float, typer.Argument(help="The reward.")],
) -> None:
    """Reward a decision of a saved fleet, and save what it teaches."""
    from posse.fleet import Posse

    loaded = Posse.load(fleet)
    news = loaded.reward(decision, value)
    if news:
        loaded.save(fleet)
    print("learned" if news else "known already; nothing changed")


def _context(text: str) -> Any:
    try:
        return loads(text, parse_constant=_refuse)
    except (JSONDecodeError, RecursionError) as error:
        raise InvalidValue(f"expected --context to be JSON such as '{{\"age\": 3}}', got {text!r}: {error}") from None


def _refuse(constant: str) -> float:
    raise InvalidValue(f"expected --context to have finite numbers, got {constant}")


def _arms(fleet: Posse, text: str) -> list[Any]:
    """Return the arms that were typed: numbers where arms are named by numbers."""
    parts = [part.strip() for part in text.split(",")]
    if isinstance(fleet.arms[0], int):
        try:
            return [int(part) for part in parts]
        except ValueError:
            raise InvalidValue(f"expected arms named by whole numbers, as in this fleet, got {text!r}") from None
    return parts
