"""``posse warmup``: compile everything now, so that nobody waits for it later."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from posse.cli.progress import stages


def warmup(
    times: Annotated[bool, typer.Option("--times", help="Show how long each part took.")] = False,
    service: Annotated[bool, typer.Option("--service", help="Only what posse serve uses, as for an image.")] = False,
) -> None:
    """Compile and cache everything, on two cores, so that nothing waits for the compiler later.

    Run it once after installing or upgrading posse, as the user who will run posse, or when an image is built. The
    cache is of use to processes that see the same files and have a processor of the same kind.
    """
    import rich

    from posse.cli import warming
    from posse.kernels.compiler import announcement
    from posse.service.compile_helper import Helper
    from posse.service.warming import parts as service_parts
    from posse.shared_cache import share_cache
    from posse.threads import workers

    announcement.quiet = True  # whoever asks for it knows
    share_cache()
    todo = service_parts() if service else warming.parts()
    started = time.perf_counter()
    spent: dict[str, float] = {}
    helper = None
    try:
        with warming.compiler_at_work() as compiled, stages(len(todo)) as begin:
            warming.begin()
            for name, work in todo.items():
                begin(name)
                # A second process begins at the other end; not where parts are timed: whose time would it be? All parts
                # of a service need the first.
                if helper is None and compiled and not times and workers() > 1 and (spent or not service):
                    helper = Helper("posse.service.warming" if service else warming.__name__)
                if helper is not None:
                    helper.wait_while_at(name)
                before = time.process_time()
                work()
                spent[name] = time.process_time() - before
    finally:
        if helper is not None:
            helper.end()
    took = time.perf_counter() - started
    console = rich.get_console()
    if times:
        for name, seconds in sorted(spent.items(), key=lambda item: -item[1]):
            console.print(f"{seconds:7.1f} s  {name}", highlight=False)
    what = "all is compiled" if compiled else "nothing to compile: all is in the cache"
    console.print(f"{what} ({took:.1f} s)", highlight=False)
    console.print(f"the cache is {cache_words()}", highlight=False, soft_wrap=True)


def cache_words() -> str:
    """Return where compiled kernels are kept, and why there."""
    import numba

    from posse.cli.warming import cache_folders

    folders = cache_folders()
    where = ", ".join(map(str, folders))
    if getattr(numba.config, "CACHE_DIR", ""):  # from the environment or from numba's own file of settings
        return f"below the folder that NUMBA_CACHE_DIR names: {where}"
    if all(folder.name == "__pycache__" for folder in folders):
        return f"beside the kernels, in the package itself: {where}"
    return (
        "in this user's cache folder, since the package's own cannot be written to; "
        f"set NUMBA_CACHE_DIR to share one: {where}"
    )
