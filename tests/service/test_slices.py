"""Long work leaves room for others: short slices, and a rest after each."""

from posse.service.slices import FEWEST, FIRST, MOST, SLICE_SECONDS, Slices


class Disk:
    """Work on rows that takes a time of its own for every row; the clock is that of the work."""

    def __init__(self, rows, seconds_per_row):
        self.left, self.pace = rows, seconds_per_row
        self.now, self.slices, self.rested = 0.0, [], []

    def work(self, limit):
        done = min(limit, self.left)
        self.left -= done
        self.now += self.pace * done
        self.slices.append(done)
        return done

    def sleep(self, seconds):
        self.now += seconds
        self.rested.append(seconds)


def run(disk, seconds=float("inf"), stopped=lambda: False):
    slices = Slices(stopped, lambda: disk.now, disk.sleep)
    return slices.run(disk.work, seconds)


def test_slices_are_as_long_as_may_be_and_others_have_half_the_time():
    disk = Disk(5000, SLICE_SECONDS / 50)
    assert run(disk)
    assert disk.left == 0
    assert disk.slices[0] == FIRST
    assert set(disk.slices[1:-1]) == {50}
    assert len(disk.rested) == len(disk.slices) - 1
    assert sum(disk.rested) > 0.49 * disk.now


def test_slices_are_never_empty_nor_endless():
    slow, quick = Disk(200, 1.0), Disk(20_000, 1e-9)
    assert run(slow)
    assert run(quick)
    assert set(slow.slices[1:-1]) == {FEWEST}
    assert max(quick.slices) == MOST


def test_the_rest_is_left_for_later():
    disk = Disk(5000, SLICE_SECONDS / 50)
    assert not run(disk, seconds=0.2)
    assert 0 < disk.left < 5000
    assert not run(disk, stopped=lambda: disk.left < 2000)
    assert 1000 < disk.left < 2000
    assert run(disk)
