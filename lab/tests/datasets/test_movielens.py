import hashlib
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import DamagedData, InvalidValue, MissingData
from posse_lab.datasets import load_movielens
from posse_lab.datasets.movielens import FILES

GOOD_1M = ["5::10::4::978300760", "5::3::1::978302109", "2::3::5::978301968"]


def lines(*rows):
    return ("\n".join(rows) + "\n").encode("utf-8")


def test_1m_comes_as_it_stands(write_movielens, movielens_parts):
    folder = write_movielens("1m")

    data = load_movielens(folder, verify=False)

    assert_array_equal(data.user_ids, [2, 5])
    assert_array_equal(data.users, [1, 1, 0])
    assert_array_equal(data.movie_ids, [3, 10])
    assert_array_equal(data.movies, [1, 0, 0])
    assert_array_equal(data.ratings, [4.0, 1.0, 5.0])
    assert_array_equal(data.times, [978300760, 978302109, 978301968])
    # Names of all movies, also of the one that nobody rated; rows of rated ones.
    assert data.genres == ("Comedy", "Drama", "Film-Noir", "War")
    assert_array_equal(data.movie_genres, [[False, True, True, False], [True, False, False, False]])
    assert data.user_groups[:2] == ("F Under 18", "F 18-24")
    assert data.user_groups[7:10] == ("M Under 18", "M 18-24", "M 25-34")
    assert [data.user_groups[group] for group in data.user_group] == ["M 25-34", "F Under 18"]
    assert (data.size, data.file) == ("1m", folder / "movielens" / "ml-1m.zip")
    assert data.sha256 == hashlib.sha256(movielens_parts["1m"]["ml-1m/ratings.dat"]).hexdigest()


def test_10m_has_half_stars_and_no_groups(write_movielens):
    data = load_movielens(write_movielens("10m"), verify=False)

    assert_array_equal(data.ratings, [0.5, 5.0, 3.5, 4.0])
    assert_array_equal(data.user_ids, [1, 8, 71567])
    assert_array_equal(data.users, [0, 0, 2, 1])
    assert_array_equal(data.movie_ids, [3, 10, 65133])
    assert_array_equal(data.movies, [2, 0, 1, 0])
    # A title with :: and a line end of Unicode in it leaves the genres alone; none are listed for the second movie.
    assert data.genres == ("Comedy", "Drama", "IMAX")
    assert_array_equal(data.movie_genres, [[False, True, True], [False, False, False], [True, True, False]])
    assert (data.user_groups, data.user_group, data.size) == (None, None, "10m")


def test_arrays_have_the_types_that_others_rely_on(write_movielens):
    data = load_movielens(write_movielens("1m"), verify=False)

    for name in ("users", "movies", "times", "user_ids", "movie_ids", "user_group"):
        assert getattr(data, name).dtype == np.int64, name
        assert getattr(data, name).flags.writeable, name
    assert (data.ratings.dtype, data.movie_genres.dtype) == (np.float64, np.bool_)


@pytest.mark.parametrize("size", ["1m", "10m"])
def test_an_unpacked_folder_says_the_same(write_movielens, size):
    packed = load_movielens(write_movielens(size), verify=False)
    (packed.file).unlink()

    loose = load_movielens(write_movielens(size, unpacked=True), verify=False)

    assert loose.file.name == "ratings.dat"
    assert loose.sha256 == packed.sha256
    assert_array_equal(loose.movie_genres, packed.movie_genres)
    assert_array_equal(loose.users, packed.users)


def test_an_archive_with_a_folder_around_everything_is_read(tmp_path, movielens_parts, zip_file):
    parts = {f"copy/{name}": content for name, content in movielens_parts["1m"].items()}
    zip_file(tmp_path / "movielens" / "ml-1m.zip", parts)

    assert len(load_movielens(tmp_path, verify=False).ratings) == 3


def test_the_larger_one_is_the_default_and_the_other_can_be_asked_for(write_movielens):
    write_movielens("1m")
    folder = write_movielens("10m")

    assert load_movielens(folder, verify=False).size == "10m"
    assert load_movielens(folder, "1m", verify=False).size == "1m"


def test_published_members_are_read_and_others_are_refused(write_movielens, movielens_parts, monkeypatch):
    folder = write_movielens("1m")
    for part, source in FILES["1m"].items():
        good = hashlib.sha256(movielens_parts["1m"][f"ml-1m/{part}.dat"]).hexdigest()
        monkeypatch.setitem(FILES["1m"], part, replace(source, sha256=good))
    assert len(load_movielens(folder).ratings) == 3

    for part in FILES["1m"]:
        content = movielens_parts["1m"][f"ml-1m/{part}.dat"]
        write_movielens("1m", **{part: content + content.splitlines()[-1]})
        with pytest.raises(DamagedData, match=rf"ml-1m\.zip/ml-1m/{part}\.dat is not the published file: .*SHA-256"):
            load_movielens(folder)


def test_10m_is_known_by_its_md5(write_movielens, movielens_parts, monkeypatch):
    folder = write_movielens("10m")
    with pytest.raises(DamagedData, match="expected MD5 3f317698625386f66177629fa5c6b2dc, but"):
        load_movielens(folder)

    good = hashlib.md5(movielens_parts["10m"]["ml-10M100K/ratings.dat"]).hexdigest()
    monkeypatch.setitem(FILES["10m"], "ratings", replace(FILES["10m"]["ratings"], md5=good))
    assert load_movielens(folder).size == "10m"


BAD_ROWS = [
    "5::10::4",
    "5::10::4::978300760::1",
    "5:10:4:978300760",
    "5\t10\t4\t978300760",
    "5::10::x::978300760",
    "5::10::nan::978300760",
    "5::10::::978300760",
    "+5::10::4::978300760",
    "-5::10::4::978300760",
    "5:: 10::4::978300760",
    "5::10.0::4::978300760",
    "5::10::4::99999999999999999999",
    "",
    "\xff",
    "5::10::0::978300760",
    "5::10::6::978300760",
    "5::10::5.5::978300760",
    "5::10::3.7::978300760",
    "5::11::4::978300760",
    "5::3::4::978300760",
]


@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize("size", ["1m", "10m"])
def test_a_bad_row_is_refused(write_movielens, size, bad):
    folder = write_movielens(size, ratings=lines("9::10::4::1", "5::3::1::2", "2::3::5::3", bad))

    with pytest.raises(DamagedData, match=r"ratings\.dat has rows that are not .*; get it again from https://group"):
        load_movielens(folder, size, verify=False)


def test_half_stars_are_for_10m_only(write_movielens):
    half = lines("5::10::4::1", "5::3::3.5::2")

    assert load_movielens(write_movielens("10m", ratings=half), "10m", verify=False).ratings[1] == 3.5
    with pytest.raises(DamagedData, match="with whole stars 1 to 5"):
        load_movielens(write_movielens("1m", ratings=half), "1m", verify=False)


def test_a_rating_by_nobody_is_refused(write_movielens):
    folder = write_movielens("1m", ratings=lines(*GOOD_1M, "6::3::5::1"))

    with pytest.raises(DamagedData, match="a known user and movie"):
        load_movielens(folder, verify=False)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_line_ends_do_not_matter(write_movielens, end):
    middle = end or b"\n"
    folder = write_movielens("1m", ratings=middle.join(row.encode() for row in GOOD_1M) + end)

    assert_array_equal(load_movielens(folder, verify=False).ratings, [4, 1, 5])


@pytest.mark.parametrize("part", ["ratings", "movies", "users"])
def test_an_empty_member_is_refused(write_movielens, part):
    with pytest.raises(DamagedData, match=r"ratings\.dat"):
        load_movielens(write_movielens("1m", **{part: b""}), verify=False)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("3::Title", "movie::title::genres"),
        ("3", "movie::title::genres"),
        ("3::Title::", "movie::title::genres"),
        ("x::Title::Drama", "movie::title::genres"),
        ("-3::Title::Drama", "movie::title::genres"),
        ("", "movie::title::genres"),
        ("10::Title::Drama", "each movie once, but movie 10 again"),
    ],
)
def test_the_first_bad_movie_is_named(write_movielens, bad, words):
    folder = write_movielens("1m", movies=lines("10::Two (1996)::Comedy", bad, bad))

    with pytest.raises(DamagedData, match=rf"movies\.dat, row 2: expected {words}"):
        load_movielens(folder, verify=False)


def test_titles_of_10m_must_be_utf_8(write_movielens):
    movies = lines("3::One::Drama") + "10::Café::Comedy\n".encode("iso-8859-1")

    with pytest.raises(DamagedData, match=r"movies\.dat, row 2: expected utf-8 text"):
        load_movielens(write_movielens("10m", movies=movies), verify=False)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("2::M::25::16", "user::F or M"),
        ("2::M::25::16::70072::x", "user::F or M"),
        ("x::M::25::16::70072", "user::F or M"),
        ("2::X::25::16::70072", "user::F or M"),
        ("2::M::26::16::70072", "user::F or M"),
        ("5::M::25::16::70072", "each user once, but user 5 again"),
    ],
)
def test_the_first_bad_user_is_named(write_movielens, bad, words):
    folder = write_movielens("1m", users=lines("5::F::1::10::48067", bad, bad))

    with pytest.raises(DamagedData, match=rf"users\.dat, row 2: expected {words}"):
        load_movielens(folder, verify=False)


@pytest.mark.parametrize("size", [None, "1m", "10m"])
def test_a_missing_archive_says_where_to_get_it(tmp_path, size):
    name = f"movielens-{size or '1m'}"
    with pytest.raises(MissingData, match=rf"grouplens\.org/datasets/movielens.*posse lab data fetch {name} --data "):
        load_movielens(tmp_path, size)


@pytest.mark.parametrize("size", [None, "1m"])
def test_without_a_folder_the_error_says_what_to_set(monkeypatch, size):
    monkeypatch.delenv("POSSE_DATA", raising=False)

    with pytest.raises(MissingData, match=r"needs a data folder.*grouplens.*POSSE_DATA=DIR.*--data DIR"):
        load_movielens(size=size)


def test_a_missing_member_is_named(write_movielens, tmp_path, movielens_parts, zip_file):
    del movielens_parts["1m"]["ml-1m/users.dat"]
    with pytest.raises(DamagedData, match=r"ml-1m\.zip has no member ml-1m/users\.dat"):
        load_movielens(write_movielens("1m"), verify=False)


def test_a_missing_file_of_an_unpacked_folder_is_named(write_movielens, movielens_parts):
    del movielens_parts["1m"]["ml-1m/users.dat"]
    with pytest.raises(MissingData, match=r"no file .*ml-1m/users\.dat"):
        load_movielens(write_movielens("1m", unpacked=True), verify=False)


def test_an_archive_that_is_none_is_refused(tmp_path):
    (tmp_path / "movielens").mkdir()
    (tmp_path / "movielens" / "ml-1m.zip").write_bytes(b"<html>not found</html>")

    with pytest.raises(DamagedData, match=r"ml-1m\.zip is not a zip file"):
        load_movielens(tmp_path)


def test_an_unknown_size_is_refused(tmp_path):
    with pytest.raises(InvalidValue, match="size to be one of '1m', '10m'"):
        load_movielens(tmp_path, "20m")


def test_importing_the_datasets_loads_neither_tables_nor_the_network():
    program = "import json, sys, posse, posse_lab.datasets; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)

    assert {"polars", "urllib.request", "http.client", "posse_lab.datasets.fetch"}.isdisjoint(loaded)


def test_the_real_files(real_folder):
    data = load_movielens(real_folder, "1m")

    # As shared/data/README.md counts them.
    assert len(data.ratings) == 1_000_209
    assert (len(data.user_ids), len(data.movie_ids)) == (6040, 3706)
    assert np.bincount(data.ratings.astype(int)).tolist() == [0, 56174, 107557, 261197, 348971, 226310]
    assert data.ratings.mean() == pytest.approx(3.5816, abs=5e-5)
    assert (data.user_ids[data.users[0]], data.movie_ids[data.movies[0]], data.times[0]) == (1, 1193, 978300760)
    assert len(data.genres) == 18
    assert data.movie_genres.any(axis=1).all()
    # Movie 1 is Toy Story.
    assert [data.genres[i] for i in np.flatnonzero(data.movie_genres[0])] == ["Animation", "Children's", "Comedy"]
    assert data.user_groups[data.user_group[0]] == "F Under 18"
    assert (np.bincount(data.user_group, minlength=14) > 0).all()


def test_the_real_10m(real_folder):
    if FILES["10m"]["ratings"].check(real_folder).state == "missing":
        pytest.skip("MovieLens 10M is not in the data folder")
    data = load_movielens(real_folder, "10m")

    assert len(data.ratings) == 10_000_054
