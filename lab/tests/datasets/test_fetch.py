import hashlib
import io
import re
import zipfile
from dataclasses import replace

import pytest

from posse.errors import DamagedData, DataFileError, FetchFailed, InvalidValue, MissingData, UnknownDataset
from posse_lab.datasets.catalogue import DATASETS
from posse_lab.datasets.fetch import fetch

LETTERS = b"A,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0\n" * 5000
TRIALS = {"d1p01M": b"one", "d1p02F": b"two", "d2p01F": b"three"}


def packed(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def listing(folder):
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


@pytest.fixture
def known(monkeypatch, movielens_parts):
    """Make generated contents the published ones."""
    letter, activity = DATASETS["letter"], DATASETS["activity"]
    rooms = (
        replace(activity.files[0], sha256=sha256(b"onetwo")),
        replace(activity.files[1], sha256=sha256(b"three")),
    )
    movielens = DATASETS["movielens-1m"]
    members = tuple(replace(file, sha256=sha256(movielens_parts["1m"][file.member])) for file in movielens.files)
    sarcos = DATASETS["sarcos"]
    for entry in (
        replace(letter, files=(replace(letter.files[0], sha256=sha256(LETTERS)),)),
        replace(activity, files=rooms),
        replace(movielens, files=members),
        replace(sarcos, files=(replace(sarcos.files[0], sha256=sha256(LETTERS)),)),
    ):
        monkeypatch.setitem(DATASETS, entry.name, entry)


@pytest.fixture
def get(known, server, tmp_path):
    def call(name, content=None, **settings):
        server.content = server.content if content is None else content
        return fetch(name, tmp_path, address=server.address, **settings)

    return call


def test_a_plain_file_goes_to_its_place(get, tmp_path):
    done = get("sarcos", LETTERS)

    assert (done.name, done.downloaded) == ("sarcos", True)
    assert done.files == (tmp_path / "sarcos" / "sarcos_inv_test.mat",)
    assert done.files[0].read_bytes() == LETTERS
    assert listing(tmp_path) == ["sarcos/sarcos_inv_test.mat"]


def test_what_is_there_and_right_is_left_alone(get, server, tmp_path):
    get("sarcos", LETTERS)

    done = get("sarcos", b"changed meanwhile")

    assert done.downloaded is False
    assert done.files == (tmp_path / "sarcos" / "sarcos_inv_test.mat",)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "members",
    [
        {"letter-recognition.data": LETTERS, "Index": b"x", "letter-recognition.names": b"y"},
        {"some/folder/letter-recognition.data": LETTERS},
        {"../../letter-recognition.data": LETTERS},
        {"inner.zip": packed({"x/letter-recognition.data": LETTERS})},
    ],
)
def test_only_the_known_member_is_unpacked(get, tmp_path, members):
    done = get("letter", packed(members))

    assert done.files[0].read_bytes() == LETTERS
    assert listing(tmp_path) == ["letter/letter-recognition.data"]
    assert not (tmp_path.parent / "letter-recognition.data").exists()


@pytest.mark.parametrize("nested", [False, True])
def test_trials_go_to_their_rooms(get, tmp_path, nested):
    members = {f"Datasets/S{name[1]}_Dataset/{name}": content for name, content in TRIALS.items()}
    members |= {"Datasets/S1_Dataset/README.txt": b"x", "__MACOSX/Datasets/S1_Dataset/._d1p01M": b"x"}
    content = packed(members)
    done = get("activity", packed({"Datasets_Healthy_Older_People.zip": content}) if nested else content)

    assert done.files == (tmp_path / "activity" / "S1_Dataset", tmp_path / "activity" / "S2_Dataset")
    assert listing(tmp_path) == [
        "activity/S1_Dataset/d1p01M",
        "activity/S1_Dataset/d1p02F",
        "activity/S2_Dataset/d2p01F",
    ]
    assert (done.files[1] / "d2p01F").read_bytes() == b"three"


def test_rooms_that_are_half_there_are_completed(get, tmp_path):
    room = tmp_path / "activity" / "S1_Dataset"
    room.mkdir(parents=True)
    (room / "d1p01M").write_bytes(b"one")

    get("activity", packed(TRIALS))

    assert (room / "d1p02F").read_bytes() == b"two"


def test_a_trial_that_nobody_published_is_told(get, tmp_path):
    room = tmp_path / "activity" / "S1_Dataset"
    room.mkdir(parents=True)
    (room / "d1p77M").write_bytes(b"mine")

    with pytest.raises(DamagedData, match=r"was fetched, but .*S1_Dataset is still damaged: expected SHA-256"):
        get("activity", packed(TRIALS))
    assert (room / "d1p77M").read_bytes() == b"mine"


def test_an_archive_of_movielens_is_kept_as_it_is(get, tmp_path, movielens_parts):
    content = packed(movielens_parts["1m"])
    done = get("movielens-1m", content)

    assert done.files == (tmp_path / "movielens" / "ml-1m.zip",)
    assert done.files[0].read_bytes() == content
    assert listing(tmp_path) == ["movielens/ml-1m.zip"]


def test_another_packing_of_the_same_members_is_fine(get, tmp_path, movielens_parts, zip_file):
    content = zip_file(tmp_path / "other.zip", movielens_parts["1m"]).read_bytes()
    assert content != packed(movielens_parts["1m"])

    assert get("movielens-1m", content).downloaded


@pytest.mark.parametrize("says_length", [True, False])
def test_a_download_that_ends_early_changes_nothing(get, server, tmp_path, says_length):
    server.cut, server.says_length = 70_000, says_length
    with pytest.raises((FetchFailed, DamagedData), match=r"70,000"):
        get("sarcos", LETTERS)
    assert listing(tmp_path) == []
    server.cut = None

    get("sarcos", LETTERS)

    assert listing(tmp_path) == ["sarcos/sarcos_inv_test.mat"]


def test_what_is_too_large_or_no_web_address_is_refused(get, monkeypatch, tmp_path, known):
    monkeypatch.setattr("posse_lab.datasets.fetch.LARGEST", 1000)
    with pytest.raises(FetchFailed, match="sends more than 1,000 bytes"):
        get("sarcos", LETTERS)
    with pytest.raises(InvalidValue, match="http:// or https://, got 'file:///etc/passwd'"):
        fetch("sarcos", tmp_path, address="file:///etc/passwd")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("sarcos", b"<html>moved</html>", r"for sarcos/sarcos_inv_test\.mat, expected SHA-256 \w+, but \w+ came"),
        ("letter", b"<html>moved</html>", r"is not a zip file"),
        ("letter", packed({"other.data": LETTERS}), r"it does not hold letter/letter-recognition\.data"),
        ("letter", packed({"letter-recognition.data": b"x"}), r"for letter/letter-recognition\.data, expected SHA-256"),
        ("activity", packed({"d1p01M": b"one", "d1p02F": b"two"}), r"it does not hold activity/S2_Dataset"),
        ("activity", packed(TRIALS | {"d1p02F": b"2"}), r"for activity/S1_Dataset, expected SHA-256"),
        ("movielens-1m", packed({"ml-1m/ratings.dat": b""}), r"for movielens/ml-1m/ratings\.dat, expected SHA-256"),
        ("movielens-1m", packed({"x": b""}), r"has no member ml-1m/ratings\.dat"),
    ],
    # A zip file holds the time of its making, which two workers would not name alike.
    ids=lambda value: "file" if isinstance(value, bytes) else None,
)
def test_what_is_not_the_published_file_is_refused_and_nothing_is_lost(get, server, tmp_path, name, content, words):
    target = tmp_path / DATASETS[name].files[0].path
    mine = target / "d1p01M" if name == "activity" else target
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")

    with pytest.raises(DamagedData) as caught:
        get(name, content)

    said = str(caught.value)
    assert said.startswith(f"what came from {server.address} is not {DATASETS[name].title}: ")
    assert re.search(words, said)
    assert f"{len(content):,} bytes came, beginning with {content[:40]!r}" in said
    assert DATASETS[name].home in said
    assert mine.read_bytes() == b"mine"
    assert len(listing(tmp_path)) == 1


def test_a_file_in_the_way_is_named_and_never_overwritten(get, tmp_path):
    target = tmp_path / "sarcos" / "sarcos_inv_test.mat"
    target.parent.mkdir()
    target.write_bytes(b"mine")
    with pytest.raises(DamagedData, match=r"sarcos_inv_test\.mat is there and is not the published file; move it away"):
        get("sarcos", LETTERS)
    assert target.read_bytes() == b"mine"


def test_the_next_address_is_tried_where_one_fails(known, server, tmp_path, monkeypatch):
    server.content, server.statuses = LETTERS, [404]
    two = (f"{server.address}/first", f"{server.address}/second")
    monkeypatch.setitem(DATASETS, "sarcos", replace(DATASETS["sarcos"], addresses=two))

    assert fetch("sarcos", tmp_path).downloaded
    assert len(server.asked) == 2


def test_if_all_addresses_fail_all_are_told(known, server, tmp_path, monkeypatch):
    server.content, server.statuses = b"<html>", [404]
    two = (f"{server.address}/first", f"{server.address}/second")
    monkeypatch.setitem(DATASETS, "sarcos", replace(DATASETS["sarcos"], addresses=two))

    with pytest.raises(FetchFailed, match=r"file/first: the server answers 404.*; then what came from .*file/second"):
        fetch("sarcos", tmp_path)


def test_the_folder_may_come_from_the_variable_and_is_made(known, server, tmp_path, monkeypatch):
    monkeypatch.setenv("POSSE_DATA", str(tmp_path / "new" / "folder"))
    server.content = LETTERS

    assert fetch("sarcos", address=server.address).files[0].is_relative_to(tmp_path / "new" / "folder")


def test_without_a_folder_the_error_says_what_to_set(monkeypatch):
    monkeypatch.delenv("POSSE_DATA", raising=False)

    with pytest.raises(MissingData, match=r"no folder to put letter into; pass one or set POSSE_DATA=DIR"):
        fetch("letter")


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(UnknownDataset, match="did you mean 'letter'"):
        fetch("leter", tmp_path)


def test_a_folder_that_cannot_be_made_is_our_error(get, tmp_path):
    (tmp_path / "sarcos").write_text("a file")

    with pytest.raises(DataFileError, match=r"cannot put sarcos into"):
        get("sarcos", LETTERS)


def test_a_place_that_cannot_be_written_is_our_error(get, tmp_path):
    (tmp_path / "letter" / "letter-recognition.data.new").mkdir(parents=True)

    with pytest.raises(DataFileError, match=r"cannot put letter into .*"):
        get("letter", packed({"letter-recognition.data": LETTERS}))


def test_the_real_archives_are_accepted(server, real_folder, tmp_path):
    """What the official addresses would send, as far as we have it, through a real download."""
    rooms = sorted((real_folder / "activity").glob("S?_Dataset/d*"))
    members = {f"{file.parent.name}/{file.name}": file.read_bytes() for file in rooms}
    sent = {
        "activity": packed(members),
        "letter": packed(
            {"letter-recognition.data": (real_folder / "letter" / "letter-recognition.data").read_bytes()}
        ),
        "sarcos": (real_folder / "sarcos" / "sarcos_inv_test.mat").read_bytes(),
        "movielens-1m": (real_folder / "movielens" / "ml-1m.zip").read_bytes(),
    }
    for name, content in sent.items():
        server.content = content
        done = fetch(name, tmp_path, address=server.address)
        assert done.downloaded
        assert DATASETS[name].status(tmp_path) == "present"
