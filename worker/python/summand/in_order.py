"""Threads that finish what was started: one in the order of that, and others where callbacks may wait for what comes later."""

import atexit
import functools
import os
import queue
import threading
import time
import traceback
import weakref

EXIT_S = 10  # for what is in flight when the program ends

_all = weakref.WeakSet()


class InOrder:
    """Calls finish(item) for each item, on a thread of its own. What that returns, if anything, is called on another one: it may
    take as long as it likes, and wait for later items."""

    def __init__(self, name, finish):
        self._finish = finish
        self._items = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._ended = False
        self._pid = os.getpid()
        self._beside = _Beside(name)
        self._thread = threading.Thread(target=_run, args=(self._items, finish, self._beside), name=name, daemon=True)
        self._thread.start()
        _all.add(self)

    def put(self, item):
        """After the end, which handlers of the program's own may come after when it exits, each is finished on another thread."""
        with self._lock:
            if not self._ended:
                self._items.put(item)
                return
        self.put_beside(item)

    def put_beside(self, item):
        """One that has no place in the order: on another thread."""
        self._beside.call(functools.partial(_finish_whole, self._finish, item))

    def end(self, timeout=None):
        """Waits for what was put; whether all of it is finished. A second time does nothing; in a fork there is no thread."""
        if self._pid != os.getpid():
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            if not self._ended:
                self._ended = True
                self._items.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive() and self._beside.end(deadline)


class _Beside:
    """Calls on threads that are idle, or on others."""

    def __init__(self, name):
        self._name = name
        self._calls = queue.SimpleQueue()
        self._ended = threading.Condition()  # a call has
        self._under_way = 0
        self._threads = set()
        self._idle = 0

    def call(self, what):
        with self._ended:
            begun = self._idle > 0 or self._begin()
            if begun:
                self._idle -= 1
                self._under_way += 1
        if begun:
            self._calls.put(what)
        else:
            what()

    def _begin(self):
        """One more idle thread. False: there can be no more threads."""
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._threads.add(thread)
        self._idle += 1
        return True

    def _run(self):
        while True:
            what = self._calls.get()
            if what is None:
                return
            try:
                what()
            except Exception:  # this thread has others to call
                traceback.print_exc()
            finally:
                what = None  # as below
                with self._ended:
                    self._under_way -= 1
                    self._idle += 1
                    self._ended.notify_all()

    def end(self, deadline):
        """Waits for all calls, but not for the one that calls it; whether they have ended. Later ones begin threads again."""
        own = threading.current_thread() in self._threads
        with self._ended:
            left = None if deadline is None else max(0, deadline - time.monotonic())
            has_ended = self._ended.wait_for(lambda: self._under_way <= own, left)
            for _ in self._threads:
                self._calls.put(None)
            self._threads = set()
            self._idle = 0
        return has_ended


def _finish_whole(finish, item):
    rest = finish(item)
    if rest:
        rest()


def _run(items, finish, beside):
    while True:
        item = items.get()
        if item is None:
            return
        try:
            rest = finish(item)
            if rest:
                beside.call(rest)
        except Exception:  # those that come later are finished all the same
            traceback.print_exc()
        item = rest = None  # what they hold is not kept until the next one comes


@atexit.register
def _end_all():
    """A thread that comes back from torch's C++ when the interpreter has gone takes the process with it (SIGABRT)."""
    for each in list(_all):
        each.end(EXIT_S)
