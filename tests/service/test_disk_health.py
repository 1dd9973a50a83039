"""A disk that does not write is said once, and once a minute."""

from posse.errors import StorageMismatch, StorageUnavailable
from posse.service.disk import AGAIN, DiskHealth


def test_it_is_said_at_once_then_once_a_minute_and_when_it_is_over(caplog):
    now = 0.0
    disk = DiskHealth(lambda: now)
    assert not disk.tried
    disk.succeeded()
    assert disk.tried
    assert caplog.text == ""
    full = StorageUnavailable("the disk is full")
    for _ in range(100):
        now += 0.1
        disk.failed(full, requests=2)
    assert disk.problem is full
    assert caplog.text.count("nothing can be written: the disk is full") == 1
    now += AGAIN
    disk.failed(full)
    assert caplog.text.count("nothing can be written") == 2
    assert "200 requests refused in 70 s" in caplog.text
    disk.succeeded()
    disk.succeeded()
    assert disk.problem is None
    assert caplog.text.count("writing works again after 70 s") == 1


def test_a_damaged_file_that_works_for_some_rows_stays_a_problem_for_a_minute(caplog):
    now = 0.0
    disk = DiskHealth(lambda: now)
    damaged = StorageMismatch("the file is damaged")
    for _ in range(100):
        now += 0.1
        disk.failed(damaged)
        disk.succeeded()
        assert disk.problem is damaged
    assert caplog.text.count("the file is damaged") == 1
    now += AGAIN
    disk.succeeded()
    assert disk.problem is None
