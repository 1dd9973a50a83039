import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import DamagedData, MissingData
from posse_lab.datasets import load_letter


def test_rows_come_as_they_stand(letter_folder, letter_rows):
    labels, X = letter_rows

    data = load_letter(letter_folder, verify=False)

    assert_array_equal(data.X, X)
    assert_array_equal(data.labels, labels)
    assert len(data.names) == 16
    assert data.classes[3] == "D"
    assert data.file == letter_folder / "letter" / "letter-recognition.data"
    assert len(data.sha256) == 64


def test_other_line_ends_are_read_too(letter_folder, letter_rows):
    file = letter_folder / "letter" / "letter-recognition.data"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))

    assert_array_equal(load_letter(letter_folder, verify=False).X, letter_rows[1])


def test_a_file_that_was_not_published_is_refused(letter_folder):
    with pytest.raises(DamagedData, match=r"not the published file: expected SHA-256 2b89f3602cf7"):
        load_letter(letter_folder)


@pytest.mark.parametrize(
    "bad",
    [
        "A,1,2",
        "a,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0",
        "AB,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0",
        "A,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
        "A,-1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0",
        "A,1.5,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0",
        "A,,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0",
        "A,nan,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0",
        "A,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0,7",
        "",
        "\xff\x00",
    ],
)
def test_the_first_bad_row_is_named(letter_folder, bad):
    file = letter_folder / "letter" / "letter-recognition.data"
    lines = file.read_text().splitlines()
    lines[6] = lines[20] = bad
    file.write_text("\n".join(lines))

    with pytest.raises(DamagedData, match=r"row 7: expected a letter A to Z and 16 whole numbers from 0 to 15"):
        load_letter(letter_folder, verify=False)


def test_an_empty_file_is_refused(letter_folder):
    (letter_folder / "letter" / "letter-recognition.data").write_text("")

    with pytest.raises(DamagedData, match="is empty"):
        load_letter(letter_folder, verify=False)


def test_a_missing_file_says_where_to_get_it(tmp_path):
    with pytest.raises(MissingData, match=r"archive\.ics\.uci\.edu/dataset/59"):
        load_letter(tmp_path)


def test_the_real_file(real_folder):
    data = load_letter(real_folder)

    assert data.X.shape == (20000, 16)
    assert (data.X.min(), data.X.max()) == (0, 15)
    counts = dict(zip(data.classes, np.bincount(data.labels), strict=True))
    # As its makers count them in letter-recognition.names.
    assert {letter: counts[letter] for letter in "ADUZ"} == {"A": 789, "D": 805, "U": 813, "Z": 734}
