"""MovieLens (Harper and Konstan 2015): stars that people gave to movies."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from posse.checks import one_of
from posse.errors import DamagedData, MissingData
from posse.types import Array, BoolArray, IntArray
from posse_lab.datasets.folder import DATA_VARIABLE, DataFile, data_folder, fetch_command

HOME = "https://grouplens.org/datasets/movielens/"


def _file(size: str, inside: str, title: str, sha256: str | None = None, md5: str | None = None) -> DataFile:
    return DataFile(
        name=f"movielens-{size}",
        title=title,
        path=f"movielens/{inside}",
        home=HOME,
        sha256=sha256,
        md5=md5,
        archive=f"movielens/ml-{size}.zip",
    )


# Packings of the archive differ, so its members are known and it is not.
SHA256 = {
    "ratings": "506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f",
    "movies": "0140fc2356357c1a851d0f52e893a1e4d3696df632c4141cea8d5bc3d621f0b9",
    "users": "1dc3a95300cb19f7c10e027daf29b8cdf1d908dab65b5edfb45950aa389a10a3",
}
FILES = {
    "1m": {part: _file("1m", f"ml-1m/{part}.dat", "MovieLens 1M", sha256) for part, sha256 in SHA256.items()},
    "10m": {
        "ratings": _file("10m", "ml-10M100K/ratings.dat", "MovieLens 10M", md5="3f317698625386f66177629fa5c6b2dc"),
        # No checksum of this member is known to us.
        "movies": _file("10m", "ml-10M100K/movies.dat", "MovieLens 10M"),
    },
}
ENCODINGS = {"1m": "iso-8859-1", "10m": "utf-8"}
AGES = {
    "1": "Under 18", "18": "18-24", "25": "25-34", "35": "35-44", "45": "45-49", "50": "50-55", "56": "56+",
}  # fmt: skip
GROUPS = tuple(f"{gender} {age}" for gender in "FM" for age in AGES.values())
NO_GENRES = "(no genres listed)"
MOST_STARS = 5


@dataclass(frozen=True, slots=True, eq=False)
class MovieLens:
    """Ratings in the order of the file, and what is known about movies and users.

    Parameters
    ----------
    users, movies : ndarray of shape (n_ratings,)
        Index into ``user_ids`` and ``movie_ids``.
    ratings : ndarray of shape (n_ratings,)
        Stars: 1 to 5, in half steps from 0.5 on in 10M.
    times : ndarray of shape (n_ratings,)
        Unix seconds.
    user_ids, movie_ids : ndarray
        The file's own numbers of users that rated and movies that were rated, sorted.
    genres : tuple of str
        Sorted names.
    movie_genres : ndarray of bool, shape (n_movies, n_genres)
        Rows follow ``movie_ids``; a movie without listed genres has none.
    user_groups : tuple of str, optional
        Gender and age, e.g. "M 25-34": women before men, then by age. None for 10M, which tells nothing about users.
    user_group : ndarray of shape (n_users,), optional
        Index into ``user_groups``; follows ``user_ids``.
    size : {"1m", "10m"}
    file : Path
        The archive, or the unpacked ratings, that were read.
    sha256 : str
        Checksum of ``ratings.dat``.
    """

    users: IntArray
    movies: IntArray
    ratings: Array
    times: IntArray
    user_ids: IntArray
    movie_ids: IntArray
    genres: tuple[str, ...]
    movie_genres: BoolArray
    user_groups: tuple[str, ...] | None
    user_group: IntArray | None
    size: str
    file: Path
    sha256: str


def load_movielens(
    folder: str | Path | None = None, size: Literal["1m", "10m"] | None = None, *, verify: bool = True
) -> MovieLens:
    """Read ``movielens/ml-1m.zip`` (1,000,209 ratings) or ``movielens/ml-10m.zip`` (10,000,054 ratings).

    The unpacked folders ``movielens/ml-1m`` and ``movielens/ml-10M100K`` are read too, where there is no archive.

    Parameters
    ----------
    folder : path, optional
        The data folder. Default: the one that the environment variable ``POSSE_DATA`` names.
    size : {"1m", "10m"}, optional
        Default: 10M where it is present, else 1M.
    verify : bool
        Refuse files whose checksum is not that of the published ones.

    Notes
    -----
    1M and 10M differ in more than size: 1M has whole stars, users of the year 2000, and their gender and age. The terms
    forbid passing the data on and commercial use.
    """
    chosen = _present(folder) if size is None else one_of(size, "size", tuple(FILES))
    sources = FILES[chosen]
    files = {part: source.find(folder) for part, source in sources.items()}
    content, sha256 = sources["ratings"].read(files["ratings"], verify=verify)
    genres_of = _genres(sources["movies"], files["movies"], ENCODINGS[chosen], verify=verify)
    group_of = _groups(sources["users"], files["users"], verify=verify) if "users" in sources else None

    columns = _columns(content, 1 if chosen == "1m" else 2, genres_of, group_of)
    if columns is None:
        stars = "whole stars 1 to 5" if chosen == "1m" else "stars 0.5 to 5 in half steps"
        raise DamagedData(
            f"{sources['ratings'].shown(files['ratings'])} has rows that are not user::movie::stars::time with "
            f"{stars}, a known user and movie, and each pair of them once; get it again from {HOME}"
        )
    user_ids, users, movie_ids, movies, ratings, times = columns
    genres = tuple(sorted({genre for names in genres_of.values() for genre in names}))
    column = {genre: position for position, genre in enumerate(genres)}
    movie_genres = np.zeros((len(movie_ids), len(genres)), dtype=np.bool_)
    for row, movie in enumerate(movie_ids):
        movie_genres[row, [column[genre] for genre in genres_of[int(movie)]]] = True
    return MovieLens(
        users=users,
        movies=movies,
        ratings=ratings,
        times=times,
        user_ids=user_ids,
        movie_ids=movie_ids,
        genres=genres,
        movie_genres=movie_genres,
        user_groups=None if group_of is None else GROUPS,
        user_group=None if group_of is None else np.array([group_of[int(user)] for user in user_ids], dtype=np.int64),
        size=chosen,
        file=files["ratings"],
        sha256=sha256,
    )


def _present(folder: str | Path | None) -> str:
    """Return the larger size that is there."""
    root = data_folder(folder)
    for size in ("10m", "1m"):
        source = FILES[size]["ratings"]
        if root is not None and source.exists(source.place(root)):
            return size
    where = f"no MovieLens in {root / 'movielens'}" if root is not None else "MovieLens needs a data folder"
    raise MissingData(
        f"{where}; get it from {HOME}, put ml-1m.zip or ml-10m.zip into DIR/movielens and pass DIR or set "
        f"{DATA_VARIABLE}=DIR; or fetch it with: {fetch_command('movielens-1m', root)} (or movielens-10m)"
    )


def _columns(
    content: bytes, steps: int, movies: Collection[int], users: Collection[int] | None
) -> tuple[IntArray, IntArray, IntArray, IntArray, Array, IntArray] | None:
    """Return user ids and indices, movie ids and indices, stars and times; None if any row is bad.

    ``steps`` is the number of ratings per star; ``movies`` and ``users`` are the ids that may be rated and rate.
    """
    import polars as pl

    # Other characters, such as a sign or a space, would pass as part of a number.
    if not content or content.translate(None, b"0123456789.:\r\n"):
        return None
    schema = {"user": pl.Int64, "movie": pl.Int64, "stars": pl.Float64, "time": pl.Int64}
    try:
        table = pl.read_csv(
            content.replace(b"::", b"\t"), separator="\t", has_header=False, schema=schema, quote_char=None
        )
    except pl.exceptions.PolarsError:
        return None
    if table.height != content.count(b"\n") + (not content.endswith(b"\n")) or any(table.null_count().row(0)):
        return None
    raw_users, raw_movies, ratings, times = (table[name].to_numpy() for name in schema)
    user_ids, movie_ids = np.unique(raw_users), np.unique(raw_movies)
    user_index, movie_index = np.searchsorted(user_ids, raw_users), np.searchsorted(movie_ids, raw_movies)
    pairs = np.sort(user_index * len(movie_ids) + movie_index)
    scaled = ratings * steps
    good = (
        bool(((scaled == np.floor(scaled)) & (scaled >= 1) & (scaled <= MOST_STARS * steps)).all())
        and all(int(movie) in movies for movie in movie_ids)
        and (users is None or all(int(user) in users for user in user_ids))
        and not bool((pairs[1:] == pairs[:-1]).any())
    )
    return (user_ids, user_index, movie_ids, movie_index, ratings.copy(), times.copy()) if good else None


def _genres(source: DataFile, file: Path, encoding: str, *, verify: bool) -> dict[int, list[str]]:
    """Return the genres of every movie by its id."""
    found: dict[int, list[str]] = {}
    for row, line in _lines(source, file, encoding, verify=verify):
        # A title may hold anything, so only the first and the last :: part the cells.
        number, first, rest = line.partition("::")
        _title, last, genres = rest.rpartition("::")
        if not (first and last and genres and _is_id(number)):
            raise source.damaged_row(file, row, "movie::title::genres", repr(line[:80]))
        if int(number) in found:
            raise source.damaged_row(file, row, "each movie once", f"movie {number} again")
        found[int(number)] = [genre for genre in genres.split("|") if genre != NO_GENRES]
    return found


def _groups(source: DataFile, file: Path, *, verify: bool) -> dict[int, int]:
    """Return the index of every user's group by the user's id."""
    found: dict[int, int] = {}
    for row, line in _lines(source, file, "iso-8859-1", verify=verify):
        cells = line.split("::")
        if len(cells) != 5 or not _is_id(cells[0]) or cells[1] not in ("F", "M") or cells[2] not in AGES:
            raise source.damaged_row(file, row, "user::F or M::age code::occupation::zip code", repr(line[:80]))
        if int(cells[0]) in found:
            raise source.damaged_row(file, row, "each user once", f"user {cells[0]} again")
        found[int(cells[0])] = GROUPS.index(f"{cells[1]} {AGES[cells[2]]}")
    return found


def _lines(source: DataFile, file: Path, encoding: str, *, verify: bool) -> Iterator[tuple[int, str]]:
    """Yield rows with their number."""
    content, _ = source.read(file, verify=verify)
    # Lines of bytes end at line ends only; lines of text would end at some characters of titles too.
    for row, line in enumerate(content.splitlines(), start=1):
        try:
            yield row, line.decode(encoding)
        except UnicodeDecodeError:
            raise source.damaged_row(file, row, f"{encoding} text", repr(line[:80])) from None


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18
