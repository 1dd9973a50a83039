import re
import shutil

import pytest

from posse.errors import UnknownDataset, UnknownLabel
from posse_lab.datasets.catalogue import DATASETS, dataset


def test_every_dataset_says_what_it_is():
    assert list(DATASETS) == ["letter", "activity", "sarcos", "sarcos-train", "movielens-1m", "movielens-10m"]
    for name, entry in DATASETS.items():
        assert entry.name == name
        assert all((entry.title, entry.licence, entry.terms, entry.citation, entry.files))
        assert entry.home.startswith("http")
        assert all(re.match("https?://", address) for address in entry.addresses)
        assert 10**5 < entry.size < 10**8


def test_every_dataset_can_be_known_and_named_by_its_files():
    for name, entry in DATASETS.items():
        assert {file.name for file in entry.files} == {name}
        assert any(file.sha256 or file.md5 or file.git_blob for file in entry.files)
        assert {file.home for file in entry.files} == {entry.home}
        for file in entry.files:
            if entry.packing == "plain":
                assert file.path == entry.download
            if entry.packing == "kept zip":
                assert file.archive == entry.download


def test_terms_of_movielens_forbid_passing_it_on():
    for name in ("movielens-1m", "movielens-10m"):
        assert "no redistribution, no commercial use" in DATASETS[name].licence
        assert "No redistribution" in DATASETS[name].terms


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(UnknownDataset, match=r"no dataset 'movielens-1M'; did you mean 'movielens-1m'\?"):
        dataset("movielens-1M")
    with pytest.raises(UnknownLabel, match=r"no dataset 'mnist'\. The datasets are letter, activity"):
        dataset("mnist")


def test_status_of_nothing_is_missing(tmp_path):
    assert {entry.status(tmp_path) for entry in DATASETS.values()} == {"missing"}
    assert dataset("letter").status(tmp_path / "no" / "folder") == "missing"


def test_status_of_other_files_is_damaged(letter_folder, sarcos_folder, activity_folder, write_movielens):
    folder = write_movielens("1m")

    states = {name: entry.status(folder) for name, entry in DATASETS.items()}

    assert states.pop("movielens-10m") == "missing"
    assert set(states.values()) == {"damaged"}


def test_damage_counts_more_than_absence(activity_folder):
    shutil.rmtree(activity_folder / "activity" / "S2_Dataset")

    assert [found.state for found in dataset("activity").check(activity_folder)] == ["damaged", "missing"]
    assert dataset("activity").status(activity_folder) == "damaged"


def test_one_missing_room_is_missing_and_one_damaged_room_is_damaged(real_folder, tmp_path):
    (tmp_path / "activity").mkdir()
    (tmp_path / "activity" / "S1_Dataset").symlink_to(real_folder.resolve() / "activity" / "S1_Dataset")
    assert dataset("activity").status(tmp_path) == "missing"

    (tmp_path / "activity" / "S2_Dataset").mkdir()
    (tmp_path / "activity" / "S2_Dataset" / "d2p01F").write_text("")
    assert dataset("activity").status(tmp_path) == "damaged"


def test_the_real_files_are_present(real_folder):
    for name in ("letter", "activity", "sarcos", "movielens-1m"):
        assert DATASETS[name].status(real_folder) == "present", name
