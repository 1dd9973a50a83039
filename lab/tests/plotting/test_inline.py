import re
from xml.etree import ElementTree

import numpy as np
import pytest

from posse.errors import InvalidValue
from posse.plotting import Interval, plot_intervals
from posse_lab.plotting import BoxGroup, Panel, Series, inline_svg, plot_boxes, plot_panels

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    steps = np.arange(50.0)
    names = ("ebmUCB", "LinTS tuned", "known UCB", "HierTS", "chance")
    lines = [
        Series(name=name, x=steps, y=steps * i, low=steps * i - 1, high=steps * i + 1) for i, name in enumerate(names)
    ]
    panel = Panel(title="A < B & C", series=lines, x_label="x", y_label="y", reference={"here": 3.0}, diagonal=True)
    plot_panels([panel, panel], [folder / "panels.svg"], note="Note.")
    group = BoxGroup(label="one", values={name: np.arange(9.0) ** 3 for name in (*names, "ebmTS", "pooled LinUCB")})
    plot_boxes([group], [folder / "boxes.svg"], x_label="x", y_label="y")
    plot_intervals([Interval(label="a", value=1, low=0, high=2, group="g")], [folder / "intervals.svg"], x_label="x")
    return {path.stem: path.read_text() for path in folder.iterdir()}


@pytest.fixture(params=["panels", "boxes", "intervals"])
def svg(files, request):
    return files[request.param]


def ids(markup):
    return re.findall(r'\bid="([^"]+)"', markup)


def references(markup):
    return re.findall(r"url\(#([^)]+)\)", markup) + re.findall(r'href="#([^"]+)"', markup)


def test_it_is_one_svg_element_that_parses(svg):
    markup = inline_svg(svg, prefix="a", title="A")

    assert ElementTree.fromstring(markup).tag == SVG + "svg"
    assert markup.startswith("<svg ")
    for unwanted in ("<?xml", "<!DOCTYPE", "<metadata", "<style", "<!--", "rdf:", "ns0:"):
        assert unwanted not in markup


def test_two_copies_share_no_id_and_every_reference_finds_its_own(svg):
    one, two = inline_svg(svg, prefix="one", title="A"), inline_svg(svg, prefix="two", title="A")

    assert set(ids(one)).isdisjoint(ids(two))
    for prefix, markup in (("one", one), ("two", two)):
        assert len(set(ids(markup))) == len(ids(markup))
        assert references(markup)
        assert set(references(markup)) <= set(ids(markup))
        assert all(name.startswith(f"{prefix}-") for name in ids(markup))
    assert len(references(one)) == len(references(svg))
    assert len(references(one)) == len(re.findall(r"url\(#|href=", one))


def test_the_page_decides_on_size_ink_background_and_grid(svg):
    markup = inline_svg(svg, prefix="a", title="A")
    root = ElementTree.fromstring(markup)

    assert "width" not in root.attrib
    assert "height" not in root.attrib
    assert root.attrib["viewBox"] == ElementTree.fromstring(svg).attrib["viewBox"]
    # What has no fill of its own is black in the file and takes the ink here.
    assert "fill:currentColor" in root.attrib["style"]
    for colour in ("#000000", "#555555", "#ffffff", "white", "black"):
        assert colour not in markup.lower()
    assert "currentColor" in markup
    assert "var(--grid, #e5e5e5)" in markup
    assert len(re.findall("#e5e5e5", markup)) == len(re.findall(r"var\(--grid, #e5e5e5\)", markup))


def test_colours_of_methods_and_words_stay(files):
    markup = inline_svg(files["panels"], prefix="a", title="A")

    assert {"#0072b2", "#cc79a7", "#7f7f7f"} <= set(re.findall("#[0-9a-f]{6}", markup))
    before = ["".join(e.itertext()) for e in ElementTree.fromstring(files["panels"]).iter(SVG + "text")]
    after = ["".join(e.itertext()) for e in ElementTree.fromstring(markup).iter(SVG + "text")]
    assert before == after
    assert "A < B & C" in after


def test_a_screen_reader_finds_the_title(svg):
    root = ElementTree.fromstring(inline_svg(svg, prefix="a", title='5 < 6 & "7"'))

    assert root.attrib["role"] == "img"
    assert root[0].tag == SVG + "title"
    assert root[0].text == '5 < 6 & "7"'
    assert root.attrib["aria-labelledby"] == root[0].attrib["id"]


def test_shorter_paths_end_where_the_long_ones_do():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(400, 2)) * 100
    path = "M 3.125 4.5 \n" + "".join(f"L {x:.6f} {y:.6f} \n" for x, y in points) + "z"
    markup = inline_svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="{path}"/></svg>', prefix="a", title="A"
    )

    (shorter,) = re.findall(r' d="([^"]+)"', markup)
    numbers = [
        [float(part) for part in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", step)]
        for step in re.findall("[Ml][^Mlz]+", shorter)
    ]
    assert np.abs(np.cumsum(numbers, axis=0) - np.vstack([[3.125, 4.5], points])).max() < 0.0051
    assert shorter.endswith("z")
    assert len(shorter) < 0.7 * len(path)


def test_a_figure_with_outlined_letters_is_inlined_too(files, tmp_path):
    from posse.environments import SyntheticWorld
    from posse.plotting import plot_regret
    from posse.simulation import simulate

    world = SyntheticWorld(n_tasks=2, n_arms=2, n_features=1)
    plot_regret(simulate(world, ["random"], horizon=5, seeds=1), [tmp_path / "regret.svg"])
    markup = inline_svg((tmp_path / "regret.svg").read_text(), prefix="a", title="A")

    assert set(references(markup)) <= set(ids(markup))
    assert "#000000" not in markup


def test_short_and_named_colours_and_attributes_are_read():
    dot = '<circle r="4" fill="{}" stroke="{}"/>'
    body = dot.format("black", "#FFF") + dot.format("#333", "#eee") + dot.format("#D55E00", "none")
    markup = inline_svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{body}</svg>', prefix="a", title="A"
    )

    fills = re.findall(r'fill="([^"]+)" stroke="([^"]+)"', markup)
    assert fills == [("currentColor", "none"), ("currentColor", "var(--grid, #e5e5e5)"), ("#d55e00", "none")]


def test_what_is_no_figure_is_refused():
    with pytest.raises(InvalidValue, match="cannot be parsed"):
        inline_svg("<svg", prefix="a", title="A")
    with pytest.raises(InvalidValue, match="viewBox"):
        inline_svg("<html/>", prefix="a", title="A")
    with pytest.raises(InvalidValue, match="prefix to be"):
        inline_svg("<svg/>", prefix="1 a", title="A")
