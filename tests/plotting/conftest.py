from dataclasses import dataclass
from itertools import combinations
from xml.etree import ElementTree

import pytest

SVG = "{http://www.w3.org/2000/svg}"


def text_width(text, size, *, bold=False):
    """Return how wide a line of text is in DejaVu Sans, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]


@dataclass(frozen=True)
class Word:
    """A line of text of a figure and the rectangle it fills, in points; upright text only."""

    text: str
    left: float
    right: float
    baseline: float
    size: float

    def overlaps(self, other):
        # From the baseline to the height of capitals; what hangs below may come near the next line.
        return (
            self.left < other.right
            and other.left < self.right
            and self.baseline - 0.72 * self.size < other.baseline
            and other.baseline - 0.72 * other.size < self.baseline
        )


def _words(path):
    root = ElementTree.fromstring(path.read_text())
    words = []
    for element in root.iter(SVG + "text"):
        style = dict(part.strip().split(": ", 1) for part in element.attrib["style"].split(";") if part.strip())
        transform = element.attrib["transform"]
        if "rotate(-90" in transform:
            continue
        size = float(style["font-size"].removesuffix("px"))
        width = text_width(element.text or "", size, bold=style.get("font-weight") == "700")
        if "x" in element.attrib:
            x, y = float(element.attrib["x"]), float(element.attrib["y"])
        else:
            x, y = map(float, transform.split("translate(")[1].split(")")[0].split())
        x -= {"start": 0, "middle": width / 2, "end": width}[style.get("text-anchor", "start")]
        words.append(Word(element.text or "", x, x + width, y, size))
    return words, [float(part) for part in root.attrib["viewBox"].split()]


@pytest.fixture
def read_words():
    """Words of an SVG file, after a check that none touch each other or leave the figure."""

    def read(path):
        words, (_, _, width, height) = _words(path)
        for word in words:
            assert word.left >= -0.5, word
            assert word.right <= width + 0.5, word
            assert word.baseline - 0.72 * word.size >= 0, word
            assert word.baseline <= height, word
        touching = [(one.text, two.text) for one, two in combinations(words, 2) if one.overlaps(two)]
        assert not touching
        return words

    return read
