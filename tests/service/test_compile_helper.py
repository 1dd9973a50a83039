"""A second process that helps to compile."""

import threading
import time

from posse.service.compile_helper import Helper

MODULE = """
import time
from pathlib import Path
from posse.service.compile_helper import help_with

def wait_for(name):
    while not Path(__file__).with_name(name).exists():
        time.sleep(0.01)

help_with({"one": lambda: wait_for("never"), "two": lambda: wait_for("go")})
"""


def test_it_goes_from_the_last_to_the_first_is_waited_for_and_ends(tmp_path, monkeypatch, wait_for):
    (tmp_path / "helping_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    helper = Helper("helping_module")
    wait_for(lambda: helper._at == "two")
    waiting = threading.Thread(target=helper.wait_while_at, args=("two",))
    waiting.start()
    helper.wait_while_at("one")  # it is not there
    time.sleep(0.05)
    assert waiting.is_alive()
    (tmp_path / "go").touch()
    waiting.join(20)
    assert not waiting.is_alive()
    wait_for(lambda: helper._at == "one")
    helper.end()
    helper.wait_while_at("one")


def test_one_that_cannot_be_started_is_not_waited_for():
    helper = Helper("no_such_module_anywhere")
    for part in ("", "one"):
        helper.wait_while_at(part)
    helper.end()
