"""Several processes fill Numba's cache at the same time."""

import threading

from numba.core.caching import IndexDataCacheFile

from posse.shared_cache import Turn, share_cache


def test_what_many_save_at_once_is_all_there_and_nobody_gets_what_is_not_theirs(tmp_path):
    share_cache()
    share_cache()
    names = [f"kind-{i}" for i in range(40)]
    together = threading.Barrier(len(names))

    def save(name):
        # As in a process of its own: nothing but the folder is shared.
        file = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
        together.wait()
        file.save(name, f"code of {name}")

    threads = [threading.Thread(target=save, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    assert {name: file.load(name) for name in names} == {name: f"code of {name}" for name in names}


def test_one_has_the_turn_until_it_ends(tmp_path):
    one, other = Turn(str(tmp_path)), Turn(str(tmp_path))
    assert one.taken()
    assert not other.taken()
    one.end()
    assert other.taken()
    other.end()


def test_where_no_file_can_be_made_all_have_the_turn(tmp_path):
    for folder in (None, str(tmp_path / "none")):
        one, other = Turn(folder), Turn(folder)
        assert one.taken()
        assert other.taken()
