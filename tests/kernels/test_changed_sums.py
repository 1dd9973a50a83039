import numpy as np

from posse.kernels.changed_sums import copy_row, copy_rows, keep_rows, new_block, new_sums

D = 3


def some_sums(n, seed=0):
    rng = np.random.default_rng(seed)
    sums = new_sums(n, D)
    for field in sums:
        field[...] = rng.normal(size=field.shape)
    return sums


def rows_of(sums, rows):
    return [field[rows].tobytes() for field in sums]


def test_sums_have_triangles_and_nothing_in_them():
    sums = new_sums(4, D)

    assert [field.shape for field in sums] == [(4, 6), (4, 3), (4,), (4,)]
    assert all((field == 0).all() for field in sums)


def test_a_block_has_room_for_so_many_rows():
    block = new_block(5, D)

    assert block.rows.tolist() == [0, 1, 2, 3, 4]
    assert block.weight.tolist() == [1.0] * 5
    assert len(block.sums.gram) == 5


def test_one_row_is_copied_and_no_other():
    source, target = some_sums(4), some_sums(6, 1)
    others = rows_of(target, [0, 1, 2, 3, 5])

    copy_row(source, 2, target, 4)

    assert rows_of(target, 4) == rows_of(source, 2)
    assert rows_of(target, [0, 1, 2, 3, 5]) == others


def test_slots_are_kept_once_as_they_were_at_first():
    sums, kept = some_sums(6), new_sums(5, D)
    place, of = np.zeros(5, dtype=np.int64), np.full((2, 5), -9)
    first = some_sums(6)

    # A slot that came after the beginning (5) has nothing to be kept; one that is named twice is kept once.
    count = keep_rows(sums, np.array([3, 5, 1, 3]), np.array([2, 0, 1, 2]), place, kept, of, 0)
    assert count == 2
    for field in sums:
        field += 1.0
    count = keep_rows(sums, np.array([1, 4]), np.array([1, 0]), place, kept, of, count)

    assert count == 3
    assert of[:, :3].tolist() == [[3, 1, 4], [2, 1, 0]]
    assert place.tolist() == [0, 2, 0, 1, 3]
    assert rows_of(kept, [0, 1]) == rows_of(first, [3, 1])
    assert rows_of(kept, 2) == rows_of(sums, 4)
    assert all((field[3:] == 0).all() for field in kept)


def test_rows_are_copied_as_they_were_with_the_weights_of_their_tasks():
    sums, kept, block = some_sums(6), some_sums(2, 1), new_block(4, D)
    place = np.array([0, 2, 0, 1])  # slots 4 and 5 came later
    task_of, weight = np.array([1, 0, 2, 1, 0, 3]), np.array([0.5, 2.0, 4.0])
    block.weight[:] = 9.0

    copy_rows(sums, np.array([3, 0, 5]), place, kept, task_of, weight, block)

    assert rows_of(block.sums, 0) == rows_of(kept, 0)
    assert rows_of(block.sums, [1, 2]) == rows_of(sums, [0, 5])
    # A task that came later has none of its own yet.
    assert block.weight.tolist() == [2.0, 2.0, 1.0, 9.0]
