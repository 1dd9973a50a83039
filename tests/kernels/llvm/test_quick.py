"""The compiler makes the same code with less work."""

import gc
import itertools
import threading

from numba import njit
from numba.core.compiler import Flags
from numba.core.targetconfig import Option, TargetConfig

from posse.kernels.llvm.quick import quick_values, uncollected


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


def test_garbage_collection_that_was_off_stays_off():
    gc.disable()
    try:
        assert njit(lambda value: value - 1)(3) == 2
        assert not gc.isenabled()
    finally:
        gc.enable()


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
