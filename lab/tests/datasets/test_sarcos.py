import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import savemat

from posse.errors import DamagedData, InvalidValue, MissingData
from posse_lab.datasets import load_sarcos


def replace(folder, **arrays):
    savemat(folder / "sarcos" / "sarcos_inv_test.mat", arrays)


def test_features_and_torques_come_apart(sarcos_folder, sarcos_table):
    data = load_sarcos(sarcos_folder, verify=False)

    assert_array_equal(data.X, sarcos_table[:, :21])
    assert_array_equal(data.y, sarcos_table[:, 21:])
    assert (len(data.names), len(data.targets)) == (21, 7)
    assert (data.names[7], data.targets[6]) == ("velocity 1", "torque 7")
    assert data.file.name == "sarcos_inv_test.mat"


def test_the_training_file_is_the_other_part(sarcos_folder, sarcos_table):
    data = load_sarcos(sarcos_folder, "train", verify=False)

    assert_array_equal(data.y, sarcos_table[:12, 21:])
    assert (data.part, data.file.name) == ("train", "sarcos_inv.mat")


@pytest.mark.parametrize(("part", "words"), [("test", "SHA-256 161a59b5"), ("train", "git blob 687b7aaa")])
def test_a_file_that_was_not_published_is_refused(sarcos_folder, part, words):
    with pytest.raises(DamagedData, match=f"expected {words}"):
        load_sarcos(sarcos_folder, part)


def test_the_first_bad_row_is_named(sarcos_folder, sarcos_table):
    sarcos_table[[8, 17], 4] = np.nan
    replace(sarcos_folder, sarcos_inv_test=sarcos_table)

    with pytest.raises(DamagedData, match=r"row 9: expected 28 finite numbers, but nan in column 5 came"):
        load_sarcos(sarcos_folder, verify=False)


def test_another_shape_is_refused(sarcos_folder, sarcos_table):
    replace(sarcos_folder, sarcos_inv_test=sarcos_table[:, :27])

    with pytest.raises(DamagedData, match=r"rows of 28 numbers, but an array of shape \(30, 27\) came"):
        load_sarcos(sarcos_folder, verify=False)


def test_another_array_is_refused_by_name(sarcos_folder, sarcos_table):
    replace(sarcos_folder, other=sarcos_table)

    with pytest.raises(DamagedData, match=r"must hold an array 'sarcos_inv_test', but its arrays are 'other'"):
        load_sarcos(sarcos_folder, verify=False)


@pytest.mark.parametrize("cut", [0, 40, 200, 3000])
def test_a_file_cut_short_is_refused(sarcos_folder, cut):
    file = sarcos_folder / "sarcos" / "sarcos_inv_test.mat"
    file.write_bytes(file.read_bytes()[:cut])

    with pytest.raises(DamagedData, match="sarcos_inv_test"):
        load_sarcos(sarcos_folder, verify=False)


def test_an_unknown_part_is_refused(sarcos_folder):
    with pytest.raises(InvalidValue, match="part to be one of 'test', 'train'"):
        load_sarcos(sarcos_folder, "validation")


def test_a_missing_file_says_where_to_get_it(tmp_path):
    with pytest.raises(MissingData, match=r"SARCOS \(training file\) from http://www.gaussianprocess.org"):
        load_sarcos(tmp_path, "train")


def test_the_real_file(real_folder):
    data = load_sarcos(real_folder)

    assert data.X.shape == (4449, 21)
    # Means of the torques as shared/data/README.md records them, to its two decimals.
    means = [13.69, -24.35, 11.36, 27.48, -0.79, -0.78, 4.16]
    assert_allclose(data.y.mean(axis=0), means, atol=0.011)
    assert len(np.unique(data.X, axis=0)) == 4449
