"""Summand as a backend of torch.distributed, for tensors in the memory of the CPU.

    import summand.backend
    dist.init_process_group("summand")           # in place of "gloo"; nothing else of the program changes

All-reduce, reduce, broadcast, barrier and reduce-scatter go through the reduction servers, which the environment names. What
they cannot do goes through a gloo group beside: all-gather, gather, scatter, all-to-all, send and receive, and types and
reductions that Summand does not know. specs/guide/pytorch.md has the table.
"""

import collections
import errno
import os
import socket
import sys
import threading
import weakref

import torch
import torch.distributed as dist

from summand.ddp import DTYPES, Communicator, Context
from summand.error import SummandError
from summand.in_order import InOrder

NAME = "summand"
KEPT = 1000
END_S = 30  # for what is in flight when a group is dropped
OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.PRODUCT: "prod", dist.ReduceOp.MAX: "max", dist.ReduceOp.MIN: "min",
       dist.ReduceOp.AVG: "avg"}

_context = None  # this process's place in the pool, of all groups
_lock = threading.Lock()


def _shared_context():
    global _context
    with _lock:
        if _context is None or _context[0] != os.getpid():  # a fork has no connections
            _context = os.getpid(), Context()
        return _context[1]


def _op_name(op):
    return next((name for known, name in OPS.items() if known == op), None)


def _takes(tensor):
    return tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.dtype in DTYPES


class _Work(dist._Work if hasattr(dist, "_Work") else dist.Work):
    """An operation that was started; its future has the tensors.

    torch's C++ keeps no reference to the Python part: when that is gone, its wait() is the base's, which never returns. So the
    group keeps each until it has been waited for, or its future taken; of those that are done without, the last thousand.
    """

    def __init__(self, future, tensors, kept, limit):
        super().__init__()
        self._future, self._tensors, self._kept, self._limit = future, tensors, kept, limit
        self._over = threading.Event()
        kept[id(self)] = self

    def release(self):
        self._kept.pop(id(self), None)

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
        """By the thread that finishes operations."""
        if error:
            self._future.set_exception(error)
        else:
            self._future.set_result(self._tensors)
        self._over.set()

    def wait(self, timeout=None):
        """Raises what ended the operation; ETIMEDOUT after `timeout`, else after that of the group."""
        limit = timeout.total_seconds() if timeout else self._limit  # torch passes 0 where its caller gave none
        if not self._over.wait(limit):
            raise SummandError(errno.ETIMEDOUT, f"backend {NAME}: an operation must be done within the timeout of {limit:g} s, got "
                                                "none; the log says which rank is late")
        try:
            self._future.wait()
        finally:
            self.release()
        return True

    def synchronize(self):
        self.wait()

    def result(self):
        self.wait()
        return self._tensors

    def get_future(self):
        self.release()
        # then() makes an exception one that torch's C++ sees; it takes that of a bare future for a result.
        return self._future.then(lambda future: future.wait())


def _finisher(done):
    """What finishes an operation; `done` has those that have been. It holds no group, which ends when nobody else does."""

    def finish(item):
        work, requests, pairs, then = item
        try:
            for request in requests:
                request.wait()
            for tensor, copy in pairs:
                if tensor is not copy:
                    tensor.copy_(copy)
            if then:
                then(pairs[0][1])
            work.finished()
        except Exception as error:  # whoever waits has it raised
            work.finished(error)
        done.append(weakref.ref(work))
        while len(done) > KEPT:
            oldest = done.popleft()()
            if oldest:
                oldest.release()

    return finish


class SummandProcessGroup(dist.ProcessGroup):
    """One group of ranks: a communicator, a gloo group for the rest, and a thread that waits for operations in their order."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout=timeout)
        # Groups of all jobs meet at the servers: rank 0 draws a name that no other has.
        if rank == 0:
            store.set("summand-group", f"torch-{socket.gethostname()}-{os.getpid()}-{os.urandom(8).hex()}"[-200:])
        group = store.get("summand-group").decode()
        self._communicator = Communicator(_shared_context(), group, rank, size)
        self._limit = timeout.total_seconds()
        self._kept = {}  # works, which torch may still wait for
        self._done = collections.deque()
        self._started = InOrder("summand-torch", _finisher(self._done))

    # ---- what torch asks of a backend ----

    def getBackendName(self):  # torch's name for it
        return NAME

    def _get_backend_name(self):
        return NAME

    # ---- operations through the servers ----

    def allreduce(self, tensors, opts=None):
        op = _op_name(opts.reduceOp if opts else dist.ReduceOp.SUM)
        if not self._is_ours(tensors, op):
            return self._gloo.allreduce(tensors, opts if opts else dist.AllreduceOptions())
        return self._start(tensors, lambda each: self._communicator.all_reduce_start(each, op))

    def allreduce_coalesced(self, tensors, opts=None):
        op = _op_name(opts.reduceOp if opts else dist.ReduceOp.SUM)
        if not self._is_ours(tensors, op):
            return self._gloo.allreduce_coalesced(tensors, opts)
        return self._start(tensors, lambda each: self._communicator.all_reduce_start(each, op))

    def reduce(self, tensors, opts):
        op = _op_name(opts.reduceOp)
        if not self._is_ours(tensors, op):
            return self._gloo.reduce(tensors, opts)
        return self._start(tensors, lambda each: self._communicator.reduce_start(each, opts.rootRank, op),
                           changes=self.rank() == opts.rootRank)

    def broadcast(self, tensors, opts):
        if not self._is_ours(tensors, "sum"):
            return self._gloo.broadcast(tensors, opts)
        return self._start(tensors, lambda each: self._communicator.broadcast_start(each, opts.rootRank))

    def barrier(self, opts=None):
        # As an operation, so that it comes behind those that were started before.
        return self._start([torch.zeros(1)], lambda each: self._communicator.all_reduce_start(each, "sum"))

    def reduce_scatter(self, outputs, inputs, opts=None):
        """Every rank gets the sum of its part: the others' parts cross the network too."""
        op = _op_name(opts.reduceOp if opts else dist.ReduceOp.SUM)
        parts = inputs[0]
        if not self._is_ours(parts + outputs, op):
            raise SummandError(0, f"reduce_scatter: must be of a type and reduction that {NAME} has, got {parts[0].dtype}")
        whole = torch.cat([each.reshape(-1) for each in parts])
        begin = sum(each.numel() for each in parts[:self.rank()])

        def take(result):
            outputs[0].copy_(result[begin:begin + outputs[0].numel()].reshape(outputs[0].shape))

        return self._start([whole], lambda each: self._communicator.all_reduce_start(each, op), then=take,
                           result=outputs)

    def _reduce_scatter_base(self, output, whole, opts=None):
        return self.reduce_scatter([output], [list(whole.reshape(self.size(), -1).unbind())], opts)

    # ---- operations beside them ----

    def allgather(self, outputs, inputs, opts=None):
        return self._gloo.allgather(outputs, inputs, *([opts] if opts else []))

    def _allgather_base(self, output, part, opts=None):
        return self._gloo.allgather([list(output.reshape(self.size(), *part.shape).unbind())], [part])

    def allgather_coalesced(self, outputs, inputs, *opts):
        return self._gloo.allgather_coalesced(outputs, inputs, *opts)

    def gather(self, outputs, inputs, opts):
        return self._gloo.gather(outputs, inputs, opts)

    def scatter(self, outputs, inputs, opts):
        return self._gloo.scatter(outputs, inputs, opts)

    def alltoall_base(self, *arguments):
        return self._gloo.alltoall_base(*arguments)

    def alltoall(self, *arguments):
        return self._gloo.alltoall(*arguments)

    def send(self, tensors, to, tag):
        return self._gloo.send(tensors, to, tag)

    def recv(self, tensors, source, tag):
        return self._gloo.recv(tensors, source, tag)

    def recv_anysource(self, tensors, tag):
        return self._gloo.recv_anysource(tensors, tag)

    def monitored_barrier(self, *arguments, **named):
        return self._gloo.monitored_barrier(*arguments, **named)

    def _set_sequence_number_for_group(self):
        self._gloo._set_sequence_number_for_group()

    def _get_sequence_number_for_group(self):
        return self._gloo._get_sequence_number_for_group()

    # ---- how they are waited for ----

    def _is_ours(self, tensors, op):
        for tensor in tensors:
            if tensor.device.type != "cpu":
                raise SummandError(0, f"backend {NAME}: tensors must be on the CPU, got one on {tensor.device}; for GPUs use the "
                                      "backend nccl with Summand's plugin")
        return op is not None and all(_takes(tensor) for tensor in tensors)

    def _start(self, tensors, start, then=None, changes=True, result=None):
        """Starts one operation for each tensor. One that is not contiguous has a copy of its own in its place."""
        future = torch.futures.Future()
        copies = [tensor if tensor.is_contiguous() else tensor.contiguous() for tensor in tensors]
        requests = [start(copy) for copy in copies]
        result = tensors if result is None else result
        work = _Work(future, result, self._kept, self._limit)
        self._started.put((work, requests, list(zip(tensors, copies)) if changes else [], then))
        return work

    def __del__(self):
        # At the end of the interpreter its thread has ended, and the process's end says the rest.
        if hasattr(self, "_started") and not sys.is_finalizing():
            # What hangs, it leaves to the process's end: whoever waits for it has its timeout.
            if self._started.end(END_S):
                self._communicator.close()


def _create(store, rank, size, timeout):
    return SummandProcessGroup(store, rank, size, timeout)


dist.Backend.register_backend(NAME, _create)
