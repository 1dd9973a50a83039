"""``posse demo``: sixty stores learn from their log which offer sells, and then decide for new visitors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from posse.cli.options import make_folder
from posse.errors import MissingDependency

if TYPE_CHECKING:
    from posse.fleet import Posse
    from posse.logs import Log
    from posse.types import BoolArray

NEW_VISITORS = 10_000
BATCH = 100  # visitors between two updates of the progress bar


class Sales(NamedTuple):
    """Who bought among the new visitors, in the order in which they came.

    Parameters
    ----------
    learned, by_rule, best : ndarray of shape (n_visitors,)
        True where the visitor bought: after the offer that posse chose, the one of the store's own rule, and the best
        one for this visitor.
    """

    learned: BoolArray
    by_rule: BoolArray
    best: BoolArray


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the picture and the fleet.")] = Path("demo"),
    visitors: Annotated[int, typer.Option(min=100, help="New visitors to decide for.")] = NEW_VISITORS,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Let 60 stores learn from 20,000 visitors which offer sells, then decide for 10,000 new ones.

    The stores are simulated, so that what the log promises can be compared with what happens.
    """
    say: Callable[[str], None] = (lambda _text: None) if json else typer.echo
    say("60 stores showed one of 4 offers to each of 20,000 visitors, and logged who bought.")
    make_folder(out)
    from posse.cli.progress import stages

    with stages() as begin:
        begin("learning from the log")
        from posse import Posse, load_retailer

        log = load_retailer()
        fleet = Posse(log.arms, log.features, rewards="binary", seed=1)
        fleet.learn_many(log)
        begin("estimating what the learned policy would sell")
        report = fleet.report(log, title="Which offer in which store")
        report.save(out / "report.html")
        begin(f"deciding for {visitors:,} new visitors")
        sales = _open_the_stores(fleet, log, visitors, begin)
        fleet.save(out / "stores.posse")
    files = [out / "report.html", out / "stores.posse"]
    missing = ""
    try:
        _draw(sales, [out / "sales.png", out / "sales.svg"])
        files.insert(1, out / "sales.png")
    except MissingDependency as error:
        missing = f"no picture: {error}"
    assert report.gains is not None  # the log has propensities
    promised = report.gains.learned.value
    result = {
        "visitors": visitors,
        "promised": {"value": promised.value, "low": promised.low, "high": promised.high},
        "learned": float(sales.learned.mean()),
        "by_rule": float(sales.by_rule.mean()),
        "best": float(sales.best.mean()),
        "files": [str(path) for path in files],
    }
    if json:
        import json as writer

        print(writer.dumps(result, indent=2))
        return
    say(_summary(result))
    for path in files:
        say(f"wrote {path}")
    if missing:
        say(missing)


def _open_the_stores(fleet: Posse, log: Log, n: int, begin: Callable[[str], None]) -> Sales:
    """Decide for new visitors like those of the log, one after the other, and learn from each; return the sales."""
    import numpy as np

    from posse.examples import retailer_rates

    rng = np.random.default_rng(2)
    rows = rng.integers(log.n_rows, size=n)
    new, contexts = log.frame[rows], log.contexts[rows]
    rates = retailer_rates(new["task"], contexts)
    uniform = rng.random(n)  # a visitor buys after an offer if its rate is above this
    place = {arm: number for number, arm in enumerate(log.arms)}
    learned = np.zeros(n, dtype=bool)
    for row, (store, visitor) in enumerate(zip(new["task"], contexts.iter_rows(named=True), strict=True)):
        decision = fleet.decide(store, visitor)
        learned[row] = uniform[row] < rates[row, place[decision.arm]]
        fleet.reward(decision, float(learned[row]))
        if row and not row % BATCH:
            begin(f"deciding for visitor {row:,} of {n:,}")
    by_rule = uniform < rates[np.arange(n), [place[arm] for arm in new["arm"]]]
    return Sales(learned, by_rule, uniform < rates.max(axis=1))


def _summary(found: dict[str, Any]) -> str:
    """Return the result in two sentences."""
    promised = found["promised"]
    more = found["learned"] / found["by_rule"] - 1
    return (
        f"\nWith posse {_percent(found['learned'])} of {found['visitors']:,} new visitors bought, with the stores' own "
        f"rule {_percent(found['by_rule'])}: {100 * more:+.0f} %.\n"
        f"From the log alone posse had promised {_percent(promised['value'])} "
        f"({_percent(promised['low'])} to {_percent(promised['high'])}). "
        f"The best offer for every visitor would have sold to {_percent(found['best'])}.\n"
    )


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"


def _draw(sales: Sales, paths: Sequence[Path]) -> None:
    """Draw the sales so far against visitors."""
    import numpy as np

    from posse.plotting.style import COLOURS, GREY_INK, look

    with look() as plt:
        figure, axes = plt.subplots(figsize=(5.6, 3.4))
        visitors = np.arange(1, len(sales.learned) + 1)
        step = -(-visitors.size // 400)
        lines = (
            ("best offer for every visitor", sales.best, GREY_INK, ":", "bottom"),
            ("posse", sales.learned, COLOURS[0], "-", "top"),
            ("the stores' own rule", sales.by_rule, COLOURS[1], "--", "center"),
        )
        for name, bought, colour, style, place in lines:
            total = np.cumsum(bought)
            axes.plot(visitors[::step], total[::step], style, color=colour, linewidth=2)
            label = f"  {name}: {total[-1]:,.0f}"
            axes.annotate(label, (visitors[-1], total[-1]), color=colour, va=place, annotation_clip=False)
        axes.set(xlim=(0, visitors[-1]), ylim=(0, None), xlabel="new visitors", ylabel="sales so far")
        axes.set_xticks(np.linspace(0, visitors[-1], 6))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_title("60 stores choose among 4 offers", loc="left")
        for path in paths:
            figure.savefig(
                path, dpi=160, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None
            )
        plt.close(figure)
