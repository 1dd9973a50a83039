"""A newcomer's first minutes: a fresh environment, the wheel, and nothing but the README; how long each step takes.

python lab/scripts/newcomer.py                 # builds the wheel first
python lab/scripts/newcomer.py --wheel dist/posse-0.2.0-py3-none-any.whl

Nothing is compiled beforehand and no cache of this user is used. The last line is JSON: seconds of every step, and
those of the processor, which say more on a machine that is busy with other things. The bar is five minutes on two
cores.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
BAR = 300  # seconds

# Runs the README's first block of Python a statement at a time, and says when the two that people wait for are done.
PLAY = """
import ast, sys, time
source = open("example.py", encoding="utf-8").read()
names, begun = {"__name__": "__main__"}, time.perf_counter()
for statement in ast.parse(source).body:
    text = ast.get_source_segment(source, statement)
    exec(compile(ast.Module([statement], []), "example.py", "exec"), names)
    for step, words in (("first decision", ".decide("), ("report", ".report(")):
        if words in text:
            now = time.perf_counter()
            print(f"{step}={now - begun}", file=sys.stderr)
            begun = now
"""


def example():
    """Return the first block of Python in the README."""
    return re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL).group(1)


def main(wheel=None, folder=None):
    folder = Path(folder or tempfile.mkdtemp())
    if wheel is None:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = (folder / "dist").glob("*.whl")
    # Neither the checkout, the environment of whoever runs this, nor a cache of theirs may help.
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    kept = {**kept, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONUNBUFFERED": "1"}
    kept.pop("NUMBA_CACHE_DIR", None)
    seconds = {}

    def step(name, *command, env=kept):
        print(f"{name} ...", flush=True)
        begun = time.perf_counter()
        done = subprocess.run([*map(str, command)], cwd=folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stdout}\n{done.stderr}")
        seconds[name] = time.perf_counter() - begun
        return done

    python = folder / "fresh" / "bin" / "python"
    step("environment", sys.executable, "-m", "venv", "fresh")
    # Settings of the installer are this machine's business, so it keeps its home.
    installer = {**kept, "HOME": os.environ.get("HOME", str(folder))}
    given = ("install", "--quiet", "--constraint", ROOT / "constraints.txt", f"{Path(wheel).resolve()}[plot]")
    step("install", python, "-m", "pip", *given, env=installer)
    step("import", python, "-c", "import posse; from posse import Posse; print(posse.__file__)")
    (folder / "example.py").write_text(example(), "utf-8")
    played = step("README's example", python, "-c", PLAY)
    del seconds["README's example"]
    steps = re.findall(r"^(first decision|report)=(.*)$", played.stderr, re.MULTILINE)
    seconds |= {name: float(value) for name, value in steps}
    print(played.stdout)
    print(re.sub(r"^(first decision|report)=.*\n", "", played.stderr, flags=re.MULTILINE), file=sys.stderr, end="")
    total = sum(seconds.values())
    for name, value in seconds.items():
        print(f"{name:<16}{value:7.1f} s")
    print(f"{'all':<16}{total:7.1f} s")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime
    print(f"{'processor':<16}{processor:7.1f} s")
    print(f"at most {BAR} s: {'met' if total <= BAR else 'not met'}")
    print(json.dumps({"folder": str(folder), "seconds": seconds, "all": total, "processor": processor}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel")
    parser.add_argument("--folder")
    main(**vars(parser.parse_args()))
