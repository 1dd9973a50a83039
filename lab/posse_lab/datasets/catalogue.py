"""Every dataset by name: what it is, where it comes from, on what terms, and whether it is there."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from posse.errors import UnknownDataset
from posse_lab.datasets import activity, letter, movielens, sarcos
from posse_lab.datasets.folder import DataFile, FileCheck

Status = Literal["missing", "present", "damaged"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """One dataset that can be fetched.

    Parameters
    ----------
    name, title : str
        What to type, and what people call it.
    home : str
        Official page.
    addresses : tuple of str
        What to download; the next one is tried where one fails.
    download : str
        Place of the downloaded file inside the data folder.
    packing : {"plain", "kept zip", "zip"}
        Whether the download is the file itself, a zip file that is kept, or one that is unpacked.
    size : int
        Bytes in the data folder, about.
    licence, terms : str
        What one may do with it, in a few words and in full.
    citation : str
    files : tuple of DataFile
    """

    name: str
    title: str
    home: str
    addresses: tuple[str, ...]
    download: str
    packing: Literal["plain", "kept zip", "zip"]
    size: int
    licence: str
    terms: str
    citation: str
    files: tuple[DataFile, ...]

    def check(self, folder: str | Path) -> list[FileCheck]:
        """Return what is at the place of every file."""
        return [file.check(Path(folder)) for file in self.files]

    def status(self, folder: str | Path) -> Status:
        """Return "damaged" if any file is, else "missing" if any file is, else "present"."""
        states = {found.state for found in self.check(folder)}
        return "damaged" if "damaged" in states else "missing" if "missing" in states else "present"


UCI_TERMS = (
    "CC BY 4.0",
    "CC BY 4.0 as the UCI repository lists it: share and adapt for any purpose, with credit to the creators. Check the "
    "home page for the terms in force.",
)
SARCOS_TERMS = (
    "none stated; research use",
    "No licence is known to be stated by the source: treat it as for research use and cite the source.",
)
SARCOS_CITATION = (
    "S. Vijayakumar, A. D'Souza and S. Schaal; companion data of C. E. Rasmussen and C. K. I. Williams, Gaussian "
    "Processes for Machine Learning, 2006."
)
MOVIELENS_TERMS = (
    "research only; no redistribution, no commercial use",
    "Any research purpose, acknowledged in publications and without implied endorsement. No redistribution without "
    "separate permission; no commercial or revenue-bearing use without permission. The archive's README has the full "
    "text.",
)
MOVIELENS_CITATION = "F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015."
LETTER_CITATION = (
    "P. W. Frey and D. J. Slate, Letter Recognition Using Holland-style Adaptive Classifiers, Machine Learning 6(2), "
    "1991."
)
ACTIVITY_CITATION = (
    "R. L. Shinmoto Torres, R. Visvanathan and D. C. Ranasinghe, Activity recognition with healthy older people using "
    "a batteryless wearable sensor, UCI Machine Learning Repository, 2016."
)
UCI, GPML, GROUPLENS = (
    "https://archive.ics.uci.edu/static/public/",
    "http://www.gaussianprocess.org/gpml/data/",
    "https://files.grouplens.org/datasets/movielens/",
)
# Addresses as public loaders name them; the second one of Activity is the older.
ACTIVITY = (
    f"{UCI}427/activity+recognition+with+healthy+older+people+using+a+batteryless+wearable+sensor.zip",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00427/Datasets_Healthy_Older_People.zip",
)


def _dataset(
    title: str, files: tuple[DataFile, ...], addresses: tuple[str, ...], download: str,
    packing: Literal["plain", "kept zip", "zip"], size: int, terms: tuple[str, str], citation: str,
) -> Dataset:  # fmt: skip
    name, home, (licence, in_full) = files[0].name, files[0].home, terms
    return Dataset(name, title, home, addresses, download, packing, size, licence, in_full, citation, files)


# fmt: off
_TABLE = (
    _dataset("Letter Recognition", (letter.FILE,), (f"{UCI}59/letter+recognition.zip",),
             "letter/letter-recognition.zip", "zip", 712_565, UCI_TERMS, LETTER_CITATION),
    _dataset("Activity recognition, batteryless wearable sensor", tuple(activity.ROOMS.values()), ACTIVITY,
             "activity/activity.zip", "zip", 4_090_248, UCI_TERMS, ACTIVITY_CITATION),
    _dataset("SARCOS inverse dynamics, test file", (sarcos.FILES["test"],), (f"{GPML}sarcos_inv_test.mat",),
             "sarcos/sarcos_inv_test.mat", "plain", 996_776, SARCOS_TERMS, SARCOS_CITATION),
    _dataset("SARCOS inverse dynamics, training file", (sarcos.FILES["train"],), (f"{GPML}sarcos_inv.mat",),
             "sarcos/sarcos_inv.mat", "plain", 9_960_000, SARCOS_TERMS, SARCOS_CITATION),
    _dataset("MovieLens 1M", tuple(movielens.FILES["1m"].values()), (f"{GROUPLENS}ml-1m.zip",),
             "movielens/ml-1m.zip", "kept zip", 5_920_000, MOVIELENS_TERMS, MOVIELENS_CITATION),
    _dataset("MovieLens 10M", tuple(movielens.FILES["10m"].values()), (f"{GROUPLENS}ml-10m.zip",),
             "movielens/ml-10m.zip", "kept zip", 65_570_000, MOVIELENS_TERMS, MOVIELENS_CITATION),
)
# fmt: on
DATASETS = {entry.name: entry for entry in _TABLE}


def dataset(name: str) -> Dataset:
    """Return the dataset that goes by ``name``."""
    if name not in DATASETS:
        close = difflib.get_close_matches(str(name), DATASETS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise UnknownDataset(f"no dataset {name!r}{hint} The datasets are {', '.join(DATASETS)}")
    return DATASETS[name]
