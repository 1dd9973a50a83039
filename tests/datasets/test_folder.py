import hashlib

import pytest

from posse.datasets.folder import DataFile, git_blob
from posse.errors import DamagedData, DataFileError, MissingData, PosseError

CONTENT = b"three\nsmall\nrows\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "rows.txt").write_bytes(CONTENT)
    return tmp_path


def toy(**checks):
    return DataFile(title="Toy rows", path="toy/rows.txt", home="https://example.org/toy", **checks)


def test_a_given_folder_comes_before_the_variable(folder, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("POSSE_DATA", str(tmp_path_factory.mktemp("empty")))

    assert toy().find(folder) == folder / "toy" / "rows.txt"


def test_the_variable_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("POSSE_DATA", str(folder))

    assert toy().find() == folder / "toy" / "rows.txt"


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_folder_the_error_says_where_to_get_the_file_and_what_to_set(monkeypatch, value):
    if value is None:
        monkeypatch.delenv("POSSE_DATA", raising=False)
    else:
        monkeypatch.setenv("POSSE_DATA", value)

    with pytest.raises(MissingData, match=r"https://example.org/toy.*DIR/toy/rows.txt.*POSSE_DATA=DIR"):
        toy().find()


def test_a_missing_file_is_named_with_its_home(tmp_path):
    with pytest.raises(MissingData, match=r"no file .*toy/rows.txt; get Toy rows from https://example.org/toy"):
        toy().find(tmp_path)


def test_content_that_was_published_is_read(folder):
    good = hashlib.sha256(CONTENT).hexdigest()
    source = toy(sha256=good, git_blob=git_blob(CONTENT))

    assert source.read(source.find(folder), verify=True) == (CONTENT, good)


@pytest.mark.parametrize(("kind", "words"), [("sha256", "SHA-256"), ("git_blob", "git blob")])
def test_other_content_is_refused_unless_it_is_wanted(folder, kind, words):
    source = toy(**{kind: "0" * 40})
    file = source.find(folder)

    with pytest.raises(DamagedData, match=rf"expected {words} 0000.*verify=False"):
        source.read(file, verify=True)
    assert source.read(file, verify=False)[0] == CONTENT


def test_a_file_that_cannot_be_read_is_our_error(tmp_path):
    with pytest.raises(DataFileError, match="cannot read"):
        toy().read(tmp_path, verify=False)
    assert issubclass(MissingData, PosseError)
    assert issubclass(DamagedData, ValueError)
