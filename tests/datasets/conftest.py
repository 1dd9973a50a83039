"""Small files in the official formats, and the folder with the real ones if there is one."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat


@pytest.fixture
def letter_rows():
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 26, 40)
    return labels, rng.integers(0, 16, (40, 16))


@pytest.fixture
def letter_folder(tmp_path, letter_rows):
    labels, X = letter_rows
    lines = [",".join([chr(65 + label), *map(str, row)]) for label, row in zip(labels, X, strict=True)]
    (tmp_path / "letter").mkdir()
    (tmp_path / "letter" / "letter-recognition.data").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def sarcos_table():
    return np.random.default_rng(5).normal(size=(30, 28)) * 3 + 1


@pytest.fixture
def sarcos_folder(tmp_path, sarcos_table):
    (tmp_path / "sarcos").mkdir()
    savemat(tmp_path / "sarcos" / "sarcos_inv_test.mat", {"sarcos_inv_test": sarcos_table})
    savemat(tmp_path / "sarcos" / "sarcos_inv.mat", {"sarcos_inv": sarcos_table[:12]})
    return tmp_path


@pytest.fixture
def real_folder():
    folder = os.environ.get("POSSE_DATA")
    if not folder:
        pytest.skip("POSSE_DATA is not set, so there are no real files to read")
    return Path(folder)
