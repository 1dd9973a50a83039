import json
import subprocess
import sys
from itertools import combinations

from posse.plotting.style import METHODS, style_of, styles_of

KNOWN = [
    "posse",
    "ebmUCB",
    "ebmTS",
    "RMBandit",
    "RMBandit tuned",
    "OLSBandit",
    "LinTS",
    "LinTS matched",
    "LinTS tuned",
    "LinUCB",
    "LinUCB matched",
    "LinUCB tuned",
    "pooled LinUCB",
    "HierTS",
    "evidence UCB",
    "evidence TS",
    "known UCB",
]


def line(style):
    return style["color"], style["linestyle"]


def box(style):
    return style["color"], style["fill"], style["hatch"]


def test_every_method_of_the_report_is_known():
    assert set(KNOWN) == set(METHODS)


def test_no_two_methods_look_alike_as_lines_or_as_boxes():
    for look in (line, box):
        assert all(look(style_of(one)) != look(style_of(two)) for one, two in combinations(KNOWN, 2))


def test_a_family_shares_its_colour():
    colours = {name: style_of(name)["color"] for name in KNOWN}

    assert colours["ebmUCB"] == colours["ebmTS"]
    assert colours["LinUCB"] == colours["LinUCB tuned"] == colours["LinUCB matched"] == colours["pooled LinUCB"]
    assert len({colours[name] for name in ("ebmUCB", "RMBandit", "OLSBandit", "LinTS", "LinUCB", "HierTS")}) == 6


def test_a_method_keeps_its_style_whatever_stands_beside_it():
    alone = {name: style_of(name) for name in KNOWN}
    among = styles_of(["chance", *reversed(KNOWN), "another", *KNOWN])

    assert {name: among[name] for name in KNOWN} == alone
    assert list(among) == ["chance", *reversed(KNOWN), "another"]


def test_other_names_cannot_be_taken_for_a_method_or_for_each_other():
    names = [*KNOWN, *(f"other {i}" for i in range(32))]
    styles = styles_of(names)

    assert len({line(styles[name]) for name in names}) == len(names)
    assert len({box(styles[name]) for name in names}) == len(names)


def test_names_that_are_all_unknown_get_plain_lines_first():
    styles = styles_of(f"n = {i}" for i in range(32))

    assert [style["linestyle"] for style in styles.values()][:8] == ["-"] * 8
    assert len({line(style) for style in styles.values()}) == 32


def test_styles_do_not_run_out():
    assert len(styles_of(["ebmUCB", *(f"other {i}" for i in range(100))])) == 101


def test_changing_a_style_does_not_change_the_method():
    style_of("ebmUCB")["color"] = "red"

    assert style_of("ebmUCB")["color"] == "#0072B2"


def test_importing_the_package_does_not_import_matplotlib():
    program = "import json, sys, posse.plotting; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)

    assert "matplotlib" not in loaded
