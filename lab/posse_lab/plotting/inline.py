"""A saved figure as part of an HTML page."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

from posse.errors import InvalidValue

SVG = "{http://www.w3.org/2000/svg}"
XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
# All of them are narrower than DejaVu Sans, in which figures are laid out.
FONTS = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
DARKEST_THAT_STAYS = 0x60
LIGHTEST_THAT_STAYS = 0xCC
WHITE = 0xFA

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b|#[0-9a-fA-F]{3}\b|\b(?:black|white)\b")
_REFERENCE = re.compile(r"url\(\s*['\"]?#([^)'\"]+)['\"]?\s*\)")
_PATH_PART = re.compile(r"[A-Za-z]|-?\d*\.?\d+(?:[eE][-+]?\d+)?")


def inline_svg(svg: str, *, prefix: str, title: str) -> str:
    """Return the text of an SVG file as markup that can stand in an HTML page, next to others of its kind.

    The page sizes it (``viewBox`` stays, ``width`` and ``height`` go; ``--width`` holds its natural width) and colours
    it: black and dark grey become ``currentColor``, white becomes ``none`` and light grey ``var(--grid, #e5e5e5)``.
    Other colours stay, so methods look the same on light and on dark pages.

    Parameters
    ----------
    svg : str
        As `plot_panels` and the others write it.
    prefix : str
        Put before every id, and so different for every figure of a page.
    title : str
        What a screen reader says.

    Examples
    --------
    >>> dot = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle r="4" style="fill: #000000"/></svg>'
    >>> print(inline_svg(dot, prefix="a", title="A dot"))
    <svg ...><title id="a-title">A dot</title><circle r="4" style="fill:currentColor" /></svg>
    """
    if not re.fullmatch(r"[A-Za-z_][\w-]*", prefix):
        raise InvalidValue(f"expected prefix to be a letter, then letters, digits, - or _, got {prefix!r}")
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise InvalidValue(f"svg must be the text of an SVG file, but it cannot be parsed: {error}") from None
    if root.tag != SVG + "svg" or "viewBox" not in root.attrib:
        raise InvalidValue("svg must be the text of an SVG file with a viewBox, as plot_panels and the others write it")
    _drop(root, lambda element: element.tag in (SVG + "metadata", SVG + "style", SVG + "title"))
    _rename_ids(root, prefix)
    for element in root.iter():
        _compact(element)
    _drop(root, lambda element: element.tag == "defs" and not len(element))
    _unwrap_groups(root)

    name = ElementTree.Element("title", {"id": f"{prefix}-title"})
    name.text = title
    root.insert(0, name)
    width = float(root.attrib["viewBox"].split()[2])
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "xmlns:xlink": "http://www.w3.org/1999/xlink",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{prefix}-title",
        # What matplotlib says of * in a style sheet, which would reach the whole page, is inherited from here instead,
        # and so is the fill that it leaves out where that is black.
        "style": f"--width:{width:.0f}px;fill:currentColor;stroke-linejoin:round;font-family:{FONTS}",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _drop(root: ElementTree.Element, unwanted: Callable[[ElementTree.Element], bool]) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if unwanted(child):
                parent.remove(child)


def _rename_ids(root: ElementTree.Element, prefix: str) -> None:
    """Put the prefix before every id that something refers to, and remove the others."""
    used = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            used.update(_REFERENCE.findall(value))
            if key in (XLINK_HREF, "href") and value.startswith("#"):
                used.add(value[1:])
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                if value in used:
                    element.attrib["id"] = f"{prefix}-{value}"
                else:
                    del element.attrib["id"]
            elif key in (XLINK_HREF, "href") and value.startswith("#"):
                del element.attrib[key]
                element.attrib["xlink:href"] = f"#{prefix}-{value[1:]}"
            else:
                element.attrib[key] = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)


def _compact(element: ElementTree.Element) -> None:
    """Leave out what a browser does not need, and take colours from the page."""
    element.tag = element.tag.removeprefix(SVG)
    if element.tag not in ("text", "tspan"):
        element.text = None
    element.tail = None if element.tag != "tspan" else element.tail
    for key, value in list(element.attrib.items()):
        if key == "style":
            declarations = (part.partition(":") for part in value.split(";") if part.strip())
            pairs = [(name.strip(), setting.strip()) for name, _, setting in declarations]
            element.attrib[key] = ";".join(
                f"{name}:{_recoloured(setting) if name in PAINTS else setting}"
                for name, setting in pairs
                if name != "font-family" and (name, setting) != ("stroke-dashoffset", "0")
            )
        elif key in PAINTS:
            element.attrib[key] = _recoloured(value)
        elif key == "d":
            element.attrib[key] = _shorter_path(value)
        elif key in ("x", "y") and re.fullmatch(r"-?\d+\.\d{3,}", value):
            element.attrib[key] = f"{float(value):.2f}"


PAINTS = ("fill", "stroke", "color", "stop-color")


def _recoloured(value: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        colour = match.group().lower()
        written = {"black": "#000000", "white": "#ffffff"}.get(colour, colour)
        digits = written[1:] if len(written) == 7 else "".join(2 * digit for digit in written[1:])
        red, green, blue = (int(digits[i : i + 2], 16) for i in (0, 2, 4))
        if max(red, green, blue) - min(red, green, blue) > 8:
            return colour
        if green <= DARKEST_THAT_STAYS:
            return "currentColor"
        if green >= WHITE:
            return "none"
        return "var(--grid, #e5e5e5)" if green >= LIGHTEST_THAT_STAYS else colour

    return value if "url(" in value else _COLOUR.sub(replacement, value)


def _shorter_path(path: str) -> str:
    """Return a path of M, L, C, Q and z, as matplotlib writes it, with steps in place of coordinates, to hundredths."""
    parts = _PATH_PART.findall(path)
    if not set(filter(str.isalpha, parts)) <= set("MLCQz"):
        return " ".join(path.split())
    shorter: list[str] = []
    here, start = (0, 0), (0, 0)
    position = 0
    while position < len(parts):
        letter = parts[position]
        position += 1
        if letter == "z":
            shorter.append("z")
            here = start
            continue
        count = {"M": 1, "L": 1, "C": 3, "Q": 2}[letter]
        numbers = [round(100 * float(part)) for part in parts[position : position + 2 * count]]
        position += 2 * count
        # Each step starts from where the rounded steps before it led, so that rounding does not add up.
        steps = [number - here[i % 2] for i, number in enumerate(numbers)]
        here = numbers[-2], numbers[-1]
        if letter == "M":
            start = here
            shorter.append("M" + _joined(numbers))
        else:
            shorter.append(letter.lower() + _joined(steps))
    return "".join(shorter)


def _joined(hundredths: list[int]) -> str:
    text = ""
    for number in hundredths:
        sign, size = "-" if number < 0 else "", abs(number)
        whole, part = divmod(size, 100)
        digits = f"{whole or (0 if not part else '')}" + (f".{part:02d}".rstrip("0") if part else "")
        text += sign + digits if not text or sign else " " + digits
    return text


def _unwrap_groups(root: ElementTree.Element) -> None:
    """Put the children of groups without attributes into the place of the groups."""
    for parent in list(root.iter()):
        flat: list[ElementTree.Element] = []
        for child in parent:
            flat.extend(_children_or_self(child))
        parent[:] = flat


def _children_or_self(element: ElementTree.Element) -> list[ElementTree.Element]:
    if element.tag != "g" or element.attrib:
        return [element]
    return [inner for child in element for inner in _children_or_self(child)]
