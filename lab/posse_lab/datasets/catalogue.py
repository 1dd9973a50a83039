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
    "CC BY 4.0 as the UCI repository lists it: share and adapt for any purpose, with credit to the creators. Check the "
    "home page for the terms in force."
)
SARCOS_TERMS = "No licence is known to be stated by the source: treat it as for research use and cite the source."
SARCOS_CITATION = (
    "S. Vijayakumar, A. D'Souza and S. Schaal; companion data of C. E. Rasmussen and C. K. I. Williams, Gaussian "
    "Processes for Machine Learning, 2006."
)
MOVIELENS_TERMS = (
    "Any research purpose, acknowledged in publications and without implied endorsement. No redistribution without "
    "separate permission; no commercial or revenue-bearing use without permission. The archive's README has the full "
    "text."
)
MOVIELENS_CITATION = "F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015."

# Addresses as public loaders name them; the second one of Activity is the older.
DATASETS = {
    entry.name: entry
    for entry in (
        Dataset(
            name="letter",
            title="Letter Recognition",
            home=letter.FILE.home,
            addresses=("https://archive.ics.uci.edu/static/public/59/letter+recognition.zip",),
            download="letter/letter-recognition.zip",
            packing="zip",
            size=712_565,
            licence="CC BY 4.0",
            terms=UCI_TERMS,
            citation="P. W. Frey and D. J. Slate, Letter Recognition Using Holland-style Adaptive Classifiers, Machine "
            "Learning 6(2), 1991.",
            files=(letter.FILE,),
        ),
        Dataset(
            name="activity",
            title="Activity recognition, batteryless wearable sensor",
            home=activity.HOME,
            addresses=(
                "https://archive.ics.uci.edu/static/public/427/"
                "activity+recognition+with+healthy+older+people+using+a+batteryless+wearable+sensor.zip",
                "https://archive.ics.uci.edu/ml/machine-learning-databases/00427/Datasets_Healthy_Older_People.zip",
            ),
            download="activity/activity.zip",
            packing="zip",
            size=4_090_248,
            licence="CC BY 4.0",
            terms=UCI_TERMS,
            citation="R. L. Shinmoto Torres, R. Visvanathan and D. C. Ranasinghe, Activity recognition with healthy "
            "older people using a batteryless wearable sensor, UCI Machine Learning Repository, 2016.",
            files=tuple(activity.ROOMS.values()),
        ),
        Dataset(
            name="sarcos",
            title="SARCOS inverse dynamics, test file",
            home=sarcos.HOME,
            addresses=("http://www.gaussianprocess.org/gpml/data/sarcos_inv_test.mat",),
            download="sarcos/sarcos_inv_test.mat",
            packing="plain",
            size=996_776,
            licence="none stated; research use",
            terms=SARCOS_TERMS,
            citation=SARCOS_CITATION,
            files=(sarcos.FILES["test"],),
        ),
        Dataset(
            name="sarcos-train",
            title="SARCOS inverse dynamics, training file",
            home=sarcos.HOME,
            addresses=("http://www.gaussianprocess.org/gpml/data/sarcos_inv.mat",),
            download="sarcos/sarcos_inv.mat",
            packing="plain",
            size=9_960_000,
            licence="none stated; research use",
            terms=SARCOS_TERMS,
            citation=SARCOS_CITATION,
            files=(sarcos.FILES["train"],),
        ),
        Dataset(
            name="movielens-1m",
            title="MovieLens 1M",
            home=movielens.HOME,
            addresses=("https://files.grouplens.org/datasets/movielens/ml-1m.zip",),
            download="movielens/ml-1m.zip",
            packing="kept zip",
            size=5_920_000,
            licence="research only; no redistribution, no commercial use",
            terms=MOVIELENS_TERMS,
            citation=MOVIELENS_CITATION,
            files=tuple(movielens.FILES["1m"].values()),
        ),
        Dataset(
            name="movielens-10m",
            title="MovieLens 10M",
            home=movielens.HOME,
            addresses=("https://files.grouplens.org/datasets/movielens/ml-10m.zip",),
            download="movielens/ml-10m.zip",
            packing="kept zip",
            size=65_570_000,
            licence="research only; no redistribution, no commercial use",
            terms=MOVIELENS_TERMS,
            citation=MOVIELENS_CITATION,
            files=tuple(movielens.FILES["10m"].values()),
        ),
    )
}


def dataset(name: str) -> Dataset:
    """Return the dataset that goes by ``name``."""
    if name not in DATASETS:
        close = difflib.get_close_matches(str(name), DATASETS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise UnknownDataset(f"no dataset {name!r}{hint} The datasets are {', '.join(DATASETS)}")
    return DATASETS[name]
