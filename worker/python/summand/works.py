"""What the backend's operations give: works to wait for, whose futures have the tensors; and how long a group keeps them.

A work that is done keeps its tensors for who may ask for them. Those that nobody has any more are the group's to let go.
"""

import collections
import errno
import functools
import sys
import threading
import weakref

import torch.distributed as dist

from summand import device
from summand.error import SummandError

NAME = "summand"
KEPT = 1000  # works that are done without
KEPT_BYTES = 64 << 20  # of their tensors
KEPT_LEAST = 2  # that have their tensors, whatever their size: torch's C++ may be about to ask for them
LOOKS = 2  # at old works for each new one
SMALL_BYTES = 4096
LATE_S = 10  # a server names a rank that it has waited for so long (SMD_LATE_MOST_S)


def _without_graph(tensor):
    """The memory of what autograd has computed, whose graph would be kept with it."""
    return tensor if not tensor.requires_grad or tensor.is_leaf else tensor.detach()


class Work(dist._Work if hasattr(dist, "_Work") else dist.Work):
    """An operation that was started; its future has the tensors.

    torch's C++ keeps no reference to the Python part: when that is gone, its wait() is the base's, which never returns. So the
    group keeps each until it has been waited for, or its future taken; of those that are done without, the last KEPT. Small
    ones are kept as those: DDP's join() waits first, and takes the future then.
    """

    def __init__(self, future, tensors, kept, limit, communicator=None):
        """communicator: whose servers know who is late; None: it is an operation of gloo's."""
        super().__init__()
        self._future, self._kept, self._limit = future, kept, limit
        self._tensors = [_without_graph(each) for each in tensors]
        self._communicator = communicator
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._shown = None  # what its future's callbacks are of
        self.bytes = sum(each.numel() * each.element_size() for each in tensors)
        self._coalesced = {}  # by which it may be waited for with others
        kept[id(self)] = self

    def coalesce(self, works):
        self._coalesced = works
        works[id(self)] = self

    def release(self):
        self._kept.pop(id(self), None)

    def is_kept(self):
        return id(self) in self._kept

    def is_small(self):
        return self.bytes <= SMALL_BYTES

    def let_go(self):
        """Of the tensors, when it is done: it can still be waited for."""
        with self._lock:
            if self._shown is None and self.is_success():
                self._tensors, self._future = [], device.future([])
                self._future.set_result([])

    def _leave_the_others(self):
        """Somebody waits for it alone."""
        self._coalesced.pop(id(self), None)

    def is_completed(self):
        return self._future.done()

    def is_success(self):
        return self._future.done() and self.exception() is None

    def exception(self):
        if not self._future.done():
            return None
        try:
            self._future.value()
        except Exception as error:
            return error
        return None

    def finished(self, error=None):
        """By the thread that finishes operations. Callbacks may wait for later ones, so where there may be any, what is left to
        do is returned."""
        with self._lock:
            if self._shown is None:
                self._complete(error)
                return None
        return functools.partial(self._complete, error)

    def _complete(self, error):
        self._over.set()
        if error:
            self._future.set_exception(error)
        else:
            device.complete(self._future, self._tensors, self._tensors)

    def wait(self, timeout=None):
        """Raises what ended the operation; ETIMEDOUT after `timeout`, else after that of the group."""
        limit = timeout.total_seconds() if timeout else self._limit  # torch passes 0 where its caller gave none
        if not self._over.wait(limit):
            raise SummandError(errno.ETIMEDOUT, f"backend {NAME}: an operation must be done within the timeout of {limit:g} s, "
                                                f"{self._who_is_late()}. The operation goes on, and may still write its tensors")
        try:
            (self._shown or self._future).wait()
        finally:
            self._leave_the_others()
            if not self.is_small():
                self.release()
        return True

    def _who_is_late(self):
        if self._communicator is None:
            return "got none"
        try:
            late = self._communicator.late()
        except SummandError:  # it has been closed
            late = ""
        return f"but {late}" if late else f"got none. Servers name a rank when it is {LATE_S} s late"

    def synchronize(self):
        self.wait()

    def result(self):
        self.wait()
        return self._tensors

    def get_future(self):
        self._leave_the_others()
        self.release()
        with self._lock:
            # then() makes an exception one that torch's C++ sees; it takes that of a bare future for a result.
            self._shown = self._shown or self._future.then(lambda future: future.wait())
            return self._shown


class Copied(Work):
    """An operation of gloo's on copies in the host's memory, which change nothing before somebody asks for them. Who waits copies
    back, on the own thread. Whose future is asked for, or who is waited for with a limit, is finished by another one, `beside`:
    messages have no order that they end in, and one that never comes must keep no thread that nobody has asked for."""

    def __init__(self, gloo, pairs, beside, ended, *arguments):
        super().__init__(*arguments)
        self._gloo, self._pairs, self._beside, self._ended = gloo, pairs, beside, ended
        self._source = None
        self._claimed = False  # by a thread, which finishes it

    def _claim(self):
        with self._lock:
            first, self._claimed = not self._claimed, True
        return first

    def _leave_to_another(self):
        if self._claim():
            self._beside((self, [self._gloo], self._pairs))

    def is_ripe(self):
        """Nothing is left to do but to copy back."""
        gloo = self._gloo
        return gloo is None or gloo.is_completed()

    def leave_when_ripe(self):
        ripe = self.is_ripe()
        if ripe:
            self._leave_to_another()
        return ripe

    def is_completed(self):
        return self._future.done() or (not self._claimed and self.is_ripe())

    def wait(self, timeout=None):
        device.check_capture([tensor for tensor, _ in self._pairs])  # as it may be copied to here
        if timeout:
            self._leave_to_another()
        elif self._claim():
            try:
                self._gloo.wait()
                device.copy(self._pairs)  # returns when it is done, as what is in the host's memory is not pinned
                rest = self.finished()
            except Exception as error:
                rest = self.finished(error)
            self._ended(self)
            if rest:
                rest()
        return super().wait(timeout)

    def get_future(self):
        self._leave_to_another()
        return super().get_future()

    def finished(self, error=None):
        try:
            self._source = self._gloo._source_rank()
        except Exception:
            pass  # it is no message
        self._gloo, self._pairs = None, []  # and the copies
        return super().finished(error)

    def _source_rank(self):
        return self._source if self._gloo is None else self._gloo._source_rank()


def _has_been_let_go(reference):
    """Of a work that is done, unless somebody in Python has it, who may ask for its tensors."""
    only_kept = sys.getrefcount(reference()) == 2  # by its group, and the argument
    work = reference()
    if only_kept and work is not None and work.is_kept():
        work.let_go()
        return True
    return work is None


def _is_left_to_another(reference):
    work = reference()
    return work is None or work.leave_when_ripe()


class _Oldest:
    """Works that may be left alone, the oldest first. While they are too many, or their tensors too large, the oldest is looked at;
    one that must stay is looked at again later."""

    def __init__(self, is_relieved):
        self._is_relieved = is_relieved  # given a reference to a work
        self._works = collections.deque()  # references, and bytes
        self._bytes = 0
        self._lock = threading.Lock()

    def _put(self, reference, size):
        with self._lock:
            self._works.append((reference, size))
            self._bytes += size

    def _take(self):
        with self._lock:
            if len(self._works) <= KEPT and (self._bytes <= KEPT_BYTES or len(self._works) <= KEPT_LEAST):
                return None
            reference, size = self._works.popleft()
            self._bytes -= size
            return reference, size

    def add(self, work):
        self._put(weakref.ref(work), work.bytes)
        for _ in range(LOOKS):
            oldest = self._take()
            if oldest is None:
                return
            if not self._is_relieved(oldest[0]):
                self._put(*oldest)


class Works:
    """Those of a group, which keeps them as long as torch's C++ may need them."""

    def __init__(self):
        self.kept = {}
        self._done = collections.deque()  # references
        self._done_large = _Oldest(_has_been_let_go)
        self._unclaimed = _Oldest(_is_left_to_another)

    def unclaimed(self, work):
        """One of gloo's has begun: those that nobody waits for are finished when there are many."""
        self._unclaimed.add(work)

    def finish(self, item):
        """A work, what it waits for, and what is to be copied then; on any thread."""
        work, requests, pairs = item
        try:
            for request in requests:
                request.wait()
            device.copy_back(pairs)
            rest = work.finished()
        except Exception as error:  # whoever waits has it raised
            rest = work.finished(error)
        self.ended(work)
        return rest

    def ended(self, work):
        """It keeps its tensors from now on as those that are done do."""
        self._done.append(weakref.ref(work))
        while len(self._done) > KEPT:
            oldest = self._done.popleft()()
            if oldest:
                oldest.release()
        if not work.is_small():
            self._done_large.add(work)
