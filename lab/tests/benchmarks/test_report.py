import json

import pytest

from posse.errors import ResultFileError
from posse_lab.benchmarks.machine import machine
from posse_lab.benchmarks.report import Bar, Report, Table


@pytest.mark.parametrize(
    ("measured", "at_least", "at_most", "met"),
    [
        (None, None, 3.0, None),
        (3.0, None, None, None),
        (3.0, None, 3.0, True),
        (3.01, None, 3.0, False),
        (5.0, 5.0, None, True),
        (4.9, 5.0, None, False),
        (4.0, 3.0, 5.0, True),
    ],
)
def test_a_promise_is_kept_up_to_its_bar(measured, at_least, at_most, met):
    assert Bar(what="x", measured=measured, unit="µs", at_least=at_least, at_most=at_most).met is met


def test_what_was_measured_is_printed_and_written(tmp_path, capsys):
    broken = Bar(what="speed", measured=2.0, unit="s", at_most=1.0, interval=(1.5, 2.5))
    missing = Bar(what="size", measured=None, unit="GB", at_most=8, note="needs more tasks")
    table = Table("Title", ["name", "value", "nothing"], [["a [b]", "1", ""], ["c", "2", ""]])
    report = Report(name="some", tables=[table], bars=[broken, missing], data={"rows": [1]}, notes=["a note"])
    report.show(tmp_path / "new" / "folder")

    shown = capsys.readouterr().out
    for words in (
        "Title",
        "a [b]",
        "2 s",
        "1.5 to 2.5",
        "at most 8 GB",
        "not measured, needs more tasks: size",
        "a note",
    ):
        assert words in shown
    assert "nothing" not in shown
    said = json.loads((tmp_path / "new" / "folder" / "some.json").read_text())
    assert (said["benchmark"], said["machine"], said["rows"]) == ("some", machine(), [1])
    assert [bar["met"] for bar in said["bars"]] == [False, None]
    assert not report.kept


def test_a_report_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultFileError, match=r"cannot write .*choose another --out"):
        Report(name="step").write(tmp_path / "file")
