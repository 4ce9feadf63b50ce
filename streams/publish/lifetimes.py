"""What lives as long as its process: things that must end in time at exit, and start afresh in a forked child.

`atexit` does not run in children of multiprocessing (fork), which have finalizers of their own; both are served here.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Protocol


class Lasting(Protocol):
    """What this module calls at the turns of a process's life."""

    def close_at_exit(self) -> None: ...

    def go_on_in_child(self) -> None: ...


_ALL: weakref.WeakSet[Lasting] = weakref.WeakSet()
generation = 0
"""How many forks lie between the first process of the program and this one."""


def register(thing: Lasting) -> None:
    """Call `thing.close_at_exit` when the process ends, and `thing.go_on_in_child` in each child that is forked."""
    _ALL.add(thing)


def close_in_multiprocessing() -> None:
    """Make sure of the end of a child of multiprocessing. Called when work starts: it clears its finalizers before."""
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, _close_all, exitpriority=0)


def leak(thing: object) -> None:
    """Keep an object for ever, beyond the end of the interpreter.

    librdkafka's threads do not exist in a forked child; freeing the parent's client there waits for them for ever.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _close_all() -> None:
    for thing in list(_ALL):
        thing.close_at_exit()


def _after_fork_in_child() -> None:
    global generation
    generation += 1
    for thing in list(_ALL):
        thing.go_on_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_close_all)
