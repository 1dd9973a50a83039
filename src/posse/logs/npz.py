"""A feedback dictionary of the Open Bandit Pipeline as an .npz file of plain arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posse.errors import DataFileError, InvalidValue


def write_npz(feedback: Mapping[str, Any], path: str | Path) -> None:
    """Write a feedback dictionary as plain arrays; what is None is left out, text must be text."""
    arrays = {}
    for key, value in feedback.items():
        if value is None:
            continue
        array = np.asarray(value)
        if array.dtype.kind not in "biufU":
            raise InvalidValue(
                f"{key} cannot be written to .npz: it must be numbers or text, but its type is {array.dtype}"
            )
        if array.dtype.kind == "U" and array.tolist() != np.asarray(value, dtype=object).tolist():
            raise InvalidValue(f"{key} cannot be written to .npz: a text ends in a null character")
        arrays[key] = array
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in arrays.items():
            # Without a date, so that the same feedback gives the same bytes.
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def read_npz(path: str | Path) -> dict[str, Any]:
    """Read a feedback dictionary from plain arrays; nothing in the file is run."""
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as stream:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception as error:  # the readers of zip and arrays raise whatever they meet
        reason = str(error).splitlines() or [type(error).__name__]
        raise DataFileError(f"cannot read {path} as .npz: {reason[0]}") from None
    return arrays
