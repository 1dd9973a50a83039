"""What Numba has no words for, written as LLVM instructions behind a few plain functions; other kernels are Python.

Why each is here, and what it gained when it came (docs/performance.md has the circumstances):

``handle``    one address in place of twenty arrays, which Numba takes 0.17 us each to accept: ``choose`` went from 20
              to 3 us, ``update`` from 18 to 2 us. Inside of kernels an opened handle is one word too, so that the
              compiler does not copy four hundred of them at every call.
``vector``    loops over eight problems at a time, which the compiler does not vectorise by itself since it cannot know
              that arrays do not overlap: a pair takes a refresh 0.5 and 0.65 us, where it was 5.3.
``blocks``    products of small matrices that stay in registers from the first row to the last. Not measured by itself.
``room``      arrays on the stack: several threads may decide at once, and to ask for memory costs a third of a small
              decision. ``array_at`` is the way back from an address.
``separate``  a kernel that is compiled once and called by its address. Numba compiles a kernel again into each of its
              callers, and both a refresh and the conditioning of pairs are part of many.

``inner``     kernels that only kernels call are optimised and made machine code once, as part of those that Python
              calls, not at every level of calls: all kernels together take the compiler three quarters of the time.
``quick``     no search for garbage while the compiler runs, and a shorter way to its settings: a quarter less again.

Nothing else in posse imports llvmlite, but for one formula in :mod:`posse.kernels.propensity`.
"""
