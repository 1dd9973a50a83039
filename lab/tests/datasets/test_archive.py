import io
import zipfile

import pytest

from posse.errors import DamagedData, DataFileError
from posse_lab.datasets import archive
from posse_lab.datasets.archive import find_members, read_member


def wanted(name):
    return name in ("a.txt", "b.txt")


def packed(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


@pytest.fixture
def write(tmp_path, zip_file):
    return lambda members: zip_file(tmp_path / "made.zip", members)


def test_members_are_found_by_their_last_name(write):
    file = write({"a.txt": b"1", "deep/in/b.txt": b"22", "c.txt": b"333", "deep/": b""})

    assert find_members(file, "made.zip", wanted) == {"a.txt": b"1", "b.txt": b"22"}


@pytest.mark.parametrize("path", ["../../a.txt", "/etc/a.txt", "..\\..\\a.txt", "C:\\a.txt", "x/../../a.txt"])
def test_only_the_last_name_of_a_path_is_seen(write, path):
    assert find_members(write({path: b"1"}), "made.zip", wanted) == {"a.txt": b"1"}


def test_members_of_an_archive_inside_are_found(write):
    assert find_members(write({"x/in.ZIP": packed({"y/b.txt": b"22"}), "a.txt": b"1"}), "made.zip", wanted) == {
        "a.txt": b"1",
        "b.txt": b"22",
    }


def test_deeper_archives_are_left_alone(write):
    deeper = packed({"in.zip": packed({"a.txt": b"1"})})

    assert find_members(write({"in.zip": deeper}), "made.zip", wanted) == {}


def test_shadows_of_macos_are_left_alone(write):
    assert find_members(
        write({"a.txt": b"1", "__MACOSX/._a.txt": b"x", "__MACOSX/._in.zip": b"x"}), "made.zip", wanted
    ) == {"a.txt": b"1"}


def test_the_same_member_twice_is_fine_but_not_with_two_contents(write):
    assert find_members(write({"a.txt": b"1", "copy/a.txt": b"1"}), "made.zip", wanted) == {"a.txt": b"1"}
    with pytest.raises(DamagedData, match=r"two different members a\.txt"):
        find_members(write({"a.txt": b"1", "copy/a.txt": b"2"}), "made.zip", wanted)


def test_a_member_that_would_grow_too_large_is_refused_unread(write, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST", 1000)
    file = write({"a.txt": bytes(1001)})

    with pytest.raises(DamagedData, match=r"'a\.txt' has 1,001 bytes, more than 1,000"):
        find_members(file, "made.zip", wanted)
    with pytest.raises(DamagedData, match="more than 1,000"):
        read_member(file, "a.txt")


def test_members_that_are_too_large_together_are_refused(write, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST", 1000)

    with pytest.raises(DamagedData, match="holds more than 1,000 bytes"):
        find_members(write({"a.txt": bytes(600), "b.txt": bytes(600)}), "made.zip", wanted)
    with pytest.raises(DamagedData, match="more than 1,000"):
        find_members(write({"in.zip": packed({"a.txt": bytes(1001)})}), "made.zip", wanted)


def test_a_member_that_lies_about_its_size_does_not_become_large(write, monkeypatch):
    file = write({"a.txt": bytes(100_000)})
    content = file.read_bytes()
    # Both headers now say 10 bytes; the compressed data still unpacks to many more.
    lie = content.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert lie != content
    file.write_bytes(lie)

    with pytest.raises(DamagedData, match=r"'a\.txt' cannot be read"):
        find_members(file, "made.zip", wanted)


def test_a_changed_byte_is_noticed(write):
    file = write({"a.txt": b"some text that is not compressed away" * 9})
    content = bytearray(file.read_bytes())
    content[45] ^= 0xFF
    file.write_bytes(content)

    with pytest.raises(DamagedData, match="cannot be read"):
        read_member(file, "a.txt")


@pytest.mark.parametrize("keep", [0, 10, 60])
def test_a_file_cut_short_is_refused(write, keep):
    file = write({"a.txt": b"text" * 40})
    file.write_bytes(file.read_bytes()[:keep])

    with pytest.raises(DamagedData, match="is not a zip file"):
        find_members(file, "made.zip", wanted)


def test_an_archive_inside_that_is_none_is_refused(write):
    with pytest.raises(DamagedData, match="is not a zip file"):
        find_members(write({"in.zip": b"no"}), "made.zip", wanted)


def test_an_encrypted_member_is_refused(write):
    file = write({"a.txt": b"text"})
    content = bytearray(file.read_bytes())
    # The flag for encryption, in the header of the member and in the directory.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(content)

    with pytest.raises(DamagedData, match="cannot be read"):
        read_member(file, "a.txt")


def test_a_missing_file_is_our_error(tmp_path):
    with pytest.raises(DataFileError, match="cannot read"):
        read_member(tmp_path / "none.zip", "a.txt")


def test_a_member_may_lie_in_a_folder(write):
    file = write({"top/inner/a.txt": b"1", "xinner/a.txt": b"2"})

    assert read_member(file, "inner/a.txt") == b"1"
    with pytest.raises(DamagedData, match=r"has no member b\.txt"):
        read_member(file, "b.txt")
