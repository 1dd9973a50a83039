"""One page for the people who decide: which offer is best where, what deciding has gained, when to stop exploring.

python examples/report.py --out report.html

With ``--picture FILE.png`` the beginning of the page is photographed as well, which needs Playwright and Chromium: so
the picture of docs/report.md is made.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from stores import FEATURES, OFFERS, Stores

from posse import Posse


def main(decisions, out=None, picture=None):
    stores = Stores(n_stores=40, seed=5)
    folder = Path(tempfile.mkdtemp())
    log, out = folder / "decisions.jsonl", Path(out or folder / "report.html")
    # A little of what deciding gains pays for a log that can say what it was.
    fleet = Posse(arms=OFFERS, features=FEATURES, seed=4, evaluation_budget=0.05, log=log)
    for _ in range(decisions):
        store, context = stores.customer()
        decision = fleet.decide(store, context)
        fleet.reward(decision.id, stores.sales(store, context, decision.arm))

    report = fleet.report(log, unit="€", title="What the stores should offer")
    report.save(out)
    best = report.best
    print(f"one offer is clearly best in {best.sure.sum()} of {len(best.tasks)} stores")
    for gain in report.gains.gains:
        told = (
            f"{gain.gain.value:+.3f} € per decision"
            if not gain.refusals
            else f"the log cannot tell: {gain.refusals[0]}"
        )
        print(f"gained over {gain.over}: {told}")
    print(f"exploring on pays in {report.stopping.pays.sum()} stores")
    print(f"wrote {out}")
    if picture is not None:
        photograph(out, picture)


def photograph(page, picture):
    """Draw the beginning of a page as a small PNG."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1000, "height": 1260})
        shown.goto(page.resolve().as_uri())
        shown.add_style_tag(content=".box.tall { max-height: 17rem !important; overflow: hidden !important; }")
        shown.screenshot(path=picture)
        browser.close()
    # A page has few colours, and a file with few is a third of the size.
    Image.open(picture).quantize(64).save(picture, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=6000)
    parser.add_argument("--out")
    parser.add_argument("--picture")
    main(**vars(parser.parse_args()))
