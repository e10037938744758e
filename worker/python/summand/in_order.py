"""A thread that finishes what was started, in its order."""

import atexit
import os
import queue
import threading
import weakref

EXIT_S = 10  # for what is in flight when the program ends

_all = weakref.WeakSet()


class InOrder:
    """Calls finish(item) for each item, on a thread of its own."""

    def __init__(self, name, finish):
        self._items = queue.SimpleQueue()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=_run, args=(self._items, finish), name=name, daemon=True)
        self._thread.start()
        _all.add(self)

    def put(self, item):
        self._items.put(item)

    def end(self, timeout=None):
        """Waits for what was put; whether all of it is finished. A second time does nothing; in a fork there is no thread."""
        if self._pid != os.getpid():
            return True
        self._items.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()


def _run(items, finish):
    while True:
        item = items.get()
        if item is None:
            return
        finish(item)
        item = None  # what it holds is not kept until the next one comes


@atexit.register
def _end_all():
    """A thread that comes back from torch's C++ when the interpreter has gone takes the process with it (SIGABRT)."""
    for each in list(_all):
        each.end(EXIT_S)
