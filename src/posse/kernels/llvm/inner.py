"""Kernels that only other kernels call: they are neither optimised nor made machine code by themselves.

Numba optimises every function together with all that it calls, and its callers once more together with it; for each it
also writes machine code, and a wrapper that takes the arguments out of Python's objects. What is four calls deep is
optimised five times and written five times, and only the last time counts. Here a kernel stays as it was written until
it is part of one that Python calls. The code that runs is the same; the compiler takes a fifth to a third less time.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from numba import jit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, LoweringPass, register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.core.untyped_passes import IRProcessing

if TYPE_CHECKING:
    from collections.abc import Callable


class AsWritten(JITCodeLibrary):
    """Code that is linked into its callers as it was written."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the caller is optimised with this in it."""

    def _finalize_final_module(self) -> None:
        """Be ready to be linked, and no more."""
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Return what a cache keeps: there is no machine code."""
        kept: tuple[str, str, bytes] = self.serialize_using_bitcode()
        return kept


@register_pass(mutates_CFG=False, analysis_only=True)
class LeaveToCallers(FunctionPass):
    """Have the function written into such a library, and no machine code made of it."""

    _name = "leave_to_callers"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Set both before the function is lowered."""
        state.library = AsWritten(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_compile = True
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class OfferToCallers(LoweringPass):
    """Let other kernels find the function. A function without machine code is known by an object of its own."""

    _name = "offer_to_callers"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Do what lowering does after it made machine code."""
        lowered = state["cr"]._replace(cfunc=object())
        state.targetctx.insert_user_function(lowered.cfunc, lowered.fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = lowered
        return True


class InnerCompiler(CompilerBase):
    """Numba's compiler with these two steps in it."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual steps and ours."""
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.add_pass_after(LeaveToCallers, IRProcessing)
        steps.add_pass_after(OfferToCallers, NativeLowering)
        steps.finalize()
        return [steps]


class InnerKernel(CPUDispatcher):
    """A kernel for other kernels. Tests may call it too: it is then compiled by itself, as any other function."""

    def add_overload(self, compiled: Any) -> None:
        """Keep what was compiled where other kernels look; Python has nothing to call."""
        self.overloads[tuple(compiled.signature.args)] = compiled

    @cached_property
    def _by_itself(self) -> Any:
        wrapped = {"no_cpython_wrapper": False, "no_cfunc_wrapper": False}
        return jit(**{**self.targetoptions, **wrapped})(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        """Run it from Python."""
        return self._by_itself(*arguments)


def inner(*, kept: bool = True, **options: Any) -> Callable[[Any], Any]:
    """Return a decorator for such kernels, with options of :func:`numba.njit`; ``kept`` if a cache is to have them."""
    options = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}

    def decorate(function: Any) -> Any:
        made = InnerKernel(function, targetoptions=options, pipeline_class=InnerCompiler)
        if kept:
            made.enable_caching()
        return made

    return decorate
