"""The compiler makes the same code with less work."""

import gc
import inspect
import itertools
import threading

import numpy as np
import pytest
from numba import njit
from numba.core.compiler import Flags
from numba.core.targetconfig import Option, TargetConfig

from posse.kernels.llvm.callback import CompiledCallback
from posse.kernels.llvm.quick import Uncollected, quick_values, uncollected


def plain_values(settings):
    return {name: getattr(settings, name) for name in settings.options}


class Few(TargetConfig):
    one = Option(type=int, default=1, doc="one")
    two = Option(type=bool, default=False, doc="another")


class More(Few):
    one = Option(type=int, default=7, doc="overridden")
    three = Option(type=str, default="", doc="more")


def settings():
    """Return settings that are equal and settings that are not, set and left alone."""
    yield from (Flags(), Few(), More())
    for one, two in itertools.product((None, 0, 1, 7), (None, True, False)):
        for kind in (Few, More):
            made = kind()
            if one is not None:
                made.one = one
            if two is not None:
                made.two = two
            yield made
    flags = Flags()
    flags.nrt, flags.error_model = True, "numpy"
    yield flags
    yield flags.copy()


def test_settings_have_the_values_that_numba_reads():
    assert TargetConfig.values is quick_values, (
        "Numba keeps its settings elsewhere: posse.kernels.llvm.quick does nothing"
    )
    for one in settings():
        assert one.values() == plain_values(one)
        assert list(one.values()) == list(plain_values(one))


def test_settings_are_equal_where_their_values_are():
    for one, other in itertools.product(settings(), repeat=2):
        assert (one == other) == (plain_values(one) == plain_values(other))
        if one == other:
            assert hash(one) == hash(other)


def test_a_setting_that_is_discarded_has_its_default_again():
    made = More()
    made.one = 3
    made.discard("one")
    assert made.values() == {"one": 7, "two": False, "three": ""}


def test_numba_still_reads_settings_as_this_was_written_for():
    assert "self._values.get(name, option.default)" in inspect.getsource(type(TargetConfig))


@pytest.fixture
def seen(monkeypatch):
    """Notes whether garbage is searched for whenever a kernel begins and ends."""
    states = []
    for name in ("on_start", "on_end"):
        plain = getattr(Uncollected, name)

        def noted(self, event, plain=plain, name=name):
            plain(self, event)
            states.append((name, gc.isenabled()))

        monkeypatch.setattr(Uncollected, name, noted)
    return states


def test_no_garbage_is_searched_for_until_the_outermost_kernel_is_ready(seen):
    part = njit(lambda value: value + 1)
    whole = njit(lambda value: part(value) * 2)
    assert whole(3) == 8
    assert seen == [("on_start", False), ("on_start", False), ("on_end", False), ("on_end", True)]
    assert gc.isenabled()


def test_it_is_searched_for_again_when_compiling_fails(seen):
    @njit
    def wrong(value):
        return value.nothing

    with pytest.raises(Exception, match="nothing"):
        wrong(np.ones(2))
    assert ("on_start", False) in seen
    assert gc.isenabled()


def test_whoever_had_switched_it_off_finds_it_off():
    gc.disable()
    try:
        assert njit(lambda value: value - 1)(3) == 2
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_kernels_that_are_called_by_their_address_are_compiled_so_too(seen, tmp_path, monkeypatch):
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def nothing(handle, number):
        pass

    assert CompiledCallback(nothing).address
    assert seen[0] == ("on_start", False)
    assert seen[-1] == ("on_end", True)


def test_threads_that_compile_at_once_leave_it_on():
    def compile_some():
        for number in range(3):
            njit(lambda value, number=number: value + number)(1.0)

    threads = [threading.Thread(target=compile_some) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()
    assert uncollected._depth == 0
