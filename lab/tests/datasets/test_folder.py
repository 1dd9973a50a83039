import hashlib

import pytest

from posse.errors import DamagedData, DataFileError, MissingData, PosseError
from posse_lab.datasets.folder import DataFile, FileCheck, git_blob

CONTENT = b"three\nsmall\nrows\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "rows.txt").write_bytes(CONTENT)
    return tmp_path


def toy(**checks):
    return DataFile(name="toy", title="Toy rows", path="toy/rows.txt", home="https://example.org/toy", **checks)


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

    with pytest.raises(MissingData, match=r"https://example.org/toy.*DIR/toy/rows.txt.*POSSE_DATA=DIR.*fetch toy"):
        toy().find()


def test_a_missing_file_is_named_with_its_home(tmp_path):
    with pytest.raises(MissingData, match=r"no file .*toy/rows.txt; get Toy rows from https://example.org/toy"):
        toy().find(tmp_path)


def test_a_missing_file_says_what_to_type(tmp_path):
    folder = tmp_path / "my data"

    with pytest.raises(MissingData) as caught:
        toy().find(folder)
    assert str(caught.value).endswith(f"; or fetch it with: posse lab data fetch toy --data '{folder}'")


def test_content_that_was_published_is_read(folder):
    good = hashlib.sha256(CONTENT).hexdigest()
    source = toy(sha256=good, md5=hashlib.md5(CONTENT).hexdigest(), git_blob=git_blob(CONTENT))

    assert source.read(source.find(folder), verify=True) == (CONTENT, good)


@pytest.mark.parametrize(("kind", "words"), [("sha256", "SHA-256"), ("md5", "MD5"), ("git_blob", "git blob")])
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


def test_one_wrong_checksum_of_several_is_enough(folder):
    good = hashlib.sha256(CONTENT).hexdigest()
    checks = {"sha256": good, "md5": hashlib.md5(CONTENT).hexdigest(), "git_blob": git_blob(CONTENT)}
    for wrong in checks:
        found = toy(**{**checks, wrong: "0" * 32}).check(folder)
        assert (found.state, found.expected) == ("damaged", "0" * 32)


def test_a_check_tells_what_is_there(folder):
    good = hashlib.sha256(CONTENT).hexdigest()

    assert toy(sha256=good).check(folder) == FileCheck("toy/rows.txt", "ok", "SHA-256", good, good)
    assert toy().check(folder) == FileCheck("toy/rows.txt", "ok")
    assert toy(sha256="1" * 64).check(folder).complaint == f"expected SHA-256 {'1' * 64}, but {good} came"
    (folder / "toy" / "rows.txt").unlink()
    assert toy(sha256=good).check(folder) == FileCheck("toy/rows.txt", "missing")


def packed(**checks):
    return DataFile(
        name="toy", title="Toy", path="toy/inner/rows.txt", home="https://example.org", archive="toy/all.zip", **checks
    )


def test_a_file_may_come_in_an_archive(tmp_path, zip_file):
    zip_file(tmp_path / "toy" / "all.zip", {"inner/rows.txt": CONTENT})
    source = packed(sha256=hashlib.sha256(CONTENT).hexdigest())

    file = source.find(tmp_path)

    assert file == tmp_path / "toy" / "all.zip"
    assert source.read(file, verify=True)[0] == CONTENT
    assert source.check(tmp_path).path == "toy/all.zip/inner/rows.txt"
    assert "all.zip/inner/rows.txt, row 3: expected" in str(source.damaged_row(file, 3, "a", "b"))


def test_the_archive_comes_before_the_unpacked_file(tmp_path, zip_file):
    (tmp_path / "toy" / "inner").mkdir(parents=True)
    (tmp_path / "toy" / "inner" / "rows.txt").write_bytes(b"other")
    assert packed().read(packed().find(tmp_path), verify=False)[0] == b"other"

    zip_file(tmp_path / "toy" / "all.zip", {"inner/rows.txt": CONTENT})
    assert packed().read(packed().find(tmp_path), verify=False)[0] == CONTENT


def test_an_archive_that_cannot_be_read_is_damaged(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "all.zip").write_bytes(b"PK no")

    found = packed(sha256="0" * 64).check(tmp_path)

    assert found.state == "damaged"
    assert "is not a zip file" in found.complaint


def test_a_missing_archive_is_named_where_nothing_is_unpacked(tmp_path):
    with pytest.raises(MissingData, match=r"no file .*toy/all\.zip;"):
        packed().find(tmp_path)
    (tmp_path / "toy" / "inner").mkdir(parents=True)
    with pytest.raises(MissingData, match=r"no file .*toy/inner/rows\.txt;"):
        packed().find(tmp_path)
