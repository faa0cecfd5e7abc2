"""Importing a program quickly: nothing of it is garbage, and two can read at once."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from threading import Thread


@contextmanager
def gc_paused() -> Generator[None]:
    """Look for no garbage inside; what was made there is never looked at again. Saves a fifth of the time."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def import_in_background(module: str) -> None:
    """Begin to import what is needed soon; whoever imports it meanwhile waits for this."""
    Thread(target=import_module, args=[module], name=f"import {module}").start()
