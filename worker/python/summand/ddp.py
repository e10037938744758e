"""Summand for PyTorch: all-reduce, reduce and broadcast of tensors, and a communication hook for DistributedDataParallel.

    state = summand.ddp.register(model)     # model is a DistributedDataParallel
    ...                                     # train as before
    state.close()

The library is libsummand, called through ctypes; specs/guide/pytorch.md tells more. Tensors must be dense and contiguous, in the
memory of the CPU or of a CUDA device; of the latter an operation follows the current stream. Every rank must start the same
operations in the same order.
"""

import contextlib
import ctypes
import functools
import json
import os
import threading

import torch
import torch.distributed as dist

from summand import device, places
from summand.error import SummandError
from summand.in_order import InOrder

# The numbers are those of summand.h.
DTYPES = {torch.int8: 0, torch.uint8: 1, torch.int32: 2, torch.int64: 4, torch.float16: 6, torch.float32: 7,
          torch.float64: 8, torch.bfloat16: 9}
BYTES = torch.uint8  # as which what is only moved may be of any type
WIRES = {"float32": 7, "bf16": 9, "fp16": 6}  # what float32 may be sent as
GLOO_DTYPES = DTYPES.keys() - {torch.float16, torch.bfloat16}  # what gloo's collectives know, in every torch
NARROW = {9: torch.bfloat16, 6: torch.float16}
WIRE_LEAST = 1024  # elements, as in libsummand
LATE_TEXT_MAX = 512  # bytes, as there
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}


# ---- the library ----

class _Options(ctypes.Structure):
    """struct smd_context_options; a newer library may know more fields, which are 0 here."""
    _fields_ = [("servers", ctypes.c_char_p), ("replica", ctypes.c_char_p), ("job", ctypes.c_char_p),
                ("transport", ctypes.c_char_p), ("connect_timeout_s", ctypes.c_uint), ("later", ctypes.c_char * 256)]


class _Stats(ctypes.Structure):
    """struct smd_stats, with room for what a newer library adds."""
    _fields_ = [("operations", ctypes.c_uint64), ("bytes_reduced", ctypes.c_uint64), ("bytes_sent", ctypes.c_uint64),
                ("bytes_received", ctypes.c_uint64), ("busy_seconds", ctypes.c_double), ("rdma_requests", ctypes.c_uint64),
                ("rdma_doorbells", ctypes.c_uint64), ("epochs", ctypes.c_uint64), ("history_bytes", ctypes.c_uint64),
                ("history_limit", ctypes.c_uint64), ("undo_bytes", ctypes.c_uint64),
                ("undo_limit", ctypes.c_uint64), ("table_bytes", ctypes.c_uint64), ("tables", ctypes.c_uint64),
                ("bytes_skipped", ctypes.c_uint64), ("exchanges", ctypes.c_uint64),
                ("later", ctypes.c_char * 256)]


_POINTER, _OUT, _INT = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int
_CALLS = {
    "smd_context_create": (_INT, [ctypes.POINTER(_Options), _OUT]),
    "smd_context_destroy": (None, [_POINTER]),
    "smd_context_stats": (None, [_POINTER, ctypes.POINTER(_Stats)]),
    "smd_register": (_INT, [_POINTER, _POINTER, ctypes.c_size_t]),
    "smd_deregister": (_INT, [_POINTER, _POINTER, ctypes.c_size_t]),
    "smd_comm_create": (_INT, [_POINTER, ctypes.c_char_p, _INT, _INT, _OUT]),
    "smd_comm_destroy": (None, [_POINTER]),
    "smd_comm_set_stream": (None, [_POINTER, _POINTER]),
    "smd_comm_set_wire": (_INT, [_POINTER, _INT]),
    "smd_comm_wire": (_INT, [_POINTER]),
    "smd_comm_late": (_INT, [_POINTER, ctypes.c_char_p, ctypes.c_size_t]),
    "smd_allreduce": (_INT, [_POINTER, _POINTER, _POINTER, ctypes.c_size_t, _INT, _INT]),
    "smd_allreduce_start": (_INT, [_POINTER, _POINTER, _POINTER, ctypes.c_size_t, _INT, _INT, _OUT]),
    "smd_reduce": (_INT, [_POINTER, _POINTER, _POINTER, ctypes.c_size_t, _INT, _INT, _INT]),
    "smd_reduce_start": (_INT, [_POINTER, _POINTER, _POINTER, ctypes.c_size_t, _INT, _INT, _INT, _OUT]),
    "smd_broadcast": (_INT, [_POINTER, _POINTER, ctypes.c_size_t, _INT, _INT]),
    "smd_broadcast_start": (_INT, [_POINTER, _POINTER, ctypes.c_size_t, _INT, _INT, _OUT]),
    "smd_request_test": (_INT, [_POINTER]),
    "smd_request_wait": (_INT, [_POINTER]),
    "smd_barrier": (_INT, [_POINTER]),
    "smd_error_message": (ctypes.c_char_p, []),
}
_library = None
_library_lock = threading.Lock()


def _open_library():
    reasons = []
    for place in places.libraries():
        try:
            library = ctypes.CDLL(place)
        except OSError as error:
            reasons.append(str(error))
            continue
        for name, (result, arguments) in _CALLS.items():
            call = getattr(library, name)
            call.restype, call.argtypes = result, arguments
        return library
    raise SummandError(0, f"{places.LIBRARY} must be found: set SUMMAND_HOME to where Summand is installed or built, or "
                          f"SUMMAND_LIBRARY to the library itself: {'; '.join(reasons)}")


def _lib():
    global _library
    with _library_lock:
        if _library is None:
            _library = _open_library()
        return _library


def _check(result):
    """The sentence belongs to the thread that made the call, so this must follow it at once."""
    if result < 0:
        raise SummandError(-result, _lib().smd_error_message().decode(errors="replace"))


def _bytes(text):
    return None if text is None else text.encode()


# ---- the job ----

def job_rank():
    """This process's (rank, world size): RANK and WORLD_SIZE, else its place in CLUSTER_SPEC's pools 0 and 1."""
    try:
        if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
            return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        spec = json.loads(os.environ["CLUSTER_SPEC"])
        chiefs = len(spec["cluster"]["workerpool0"])
        workers = len(spec["cluster"].get("workerpool1", []))
        before = {"workerpool0": 0, "workerpool1": chiefs}[spec["task"]["type"]]
        return before + int(spec["task"]["index"]), chiefs + workers
    except (KeyError, TypeError, ValueError) as error:
        raise SummandError(0, "RANK and WORLD_SIZE, or CLUSTER_SPEC with this process in worker pool 0 or 1, must tell "
                              f"the rank: {error!r}") from error


class Context:
    """The connections of this process to the reduction servers. What is None comes from the environment."""

    def __init__(self, servers=None, replica=None, job=None, connect_timeout=None):
        options = _Options(servers=_bytes(servers), replica=_bytes(replica), job=_bytes(job),
                           connect_timeout_s=connect_timeout or 0)
        self._handle = ctypes.c_void_p()
        self._communicators = []
        self._registered = []  # tensors, which stay while their memory is registered
        _check(_lib().smd_context_create(ctypes.byref(options), ctypes.byref(self._handle)))

    def _open(self):
        if not self._handle:
            raise SummandError(0, "the context must be open, got one that was closed")
        return self._handle

    def stats(self):
        """What has been moved since the context was created, by the names of struct smd_stats."""
        stats = _Stats()
        _lib().smd_context_stats(self._open(), ctypes.byref(stats))
        return {name: getattr(stats, name) for name, _ in _Stats._fields_ if name != "later"}

    def register(self, tensor):
        """Registers a tensor of the CPU's memory, which will be used again and again, with the network cards, until
        deregister() or close(): over RDMA it is then neither watched nor copied. The context keeps the tensor."""
        _check(_lib().smd_register(self._open(), *_range(tensor)))
        self._registered.append(tensor)

    def deregister(self, tensor):
        """Its memory, as it was registered. No operation in flight may use it."""
        _check(_lib().smd_deregister(self._open(), *_range(tensor)))
        place = [_range(other) for other in self._registered].index(_range(tensor))
        del self._registered[place]

    def close(self):
        """Closes its communicators too. A second time does nothing."""
        while self._communicators:
            self._communicators[-1].close()
        if self._handle:
            _lib().smd_context_destroy(self._handle)
            self._handle = ctypes.c_void_p()
            self._registered = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Communicator:
    """A group of ranks that was created under the same name. Rank and size come from the job unless they are given.

    wire: "bf16" or "fp16" sends float32 in half the bytes in all-reduces, "float32" as it is; None: as SUMMAND_WIRE says.
    The same on all ranks.
    """

    def __init__(self, context, group="default", rank=None, size=None, wire=None):
        if wire is not None and wire not in WIRES:
            raise SummandError(0, f"group {group}: wire must be one of {names(WIRES)}, got {wire!r}")
        if rank is None or size is None:
            rank, size = job_rank()
        self.group, self.rank, self.size = group, rank, size
        self._context = context
        self._handle = ctypes.c_void_p()
        self._lock = threading.Lock()
        self._pending = set()  # the library uses their buffers
        self._pid = os.getpid()
        _check(_lib().smd_comm_create(context._open(), group.encode(), size, rank, ctypes.byref(self._handle)))
        context._communicators.append(self)
        if wire is not None:
            _check(_lib().smd_comm_set_wire(self._handle, WIRES[wire]))
        self._narrow = NARROW.get(_lib().smd_comm_wire(self._handle))

    def _open(self):
        if not self._handle:
            raise SummandError(0, f"group {self.group}: the communicator must be open, got one that was closed")
        return self._handle

    def _buffer(self, tensor):
        """What the library must know of a tensor: where it is, how long, of which type; and it is told the stream to follow."""
        if tensor.device.type not in device.KINDS or tensor.layout != torch.strided or not tensor.is_contiguous():
            raise SummandError(0, f"group {self.group}: a tensor must be dense, contiguous and on the CPU or a CUDA device, got "
                                  f"{tensor.layout} with strides {_strides(tensor)} on {tensor.device}")
        if tensor.dtype not in DTYPES:
            raise SummandError(0, f"group {self.group}: the type must be one of {names(DTYPES)}, got {tensor.dtype}")
        stream = device.stream(tensor)
        if stream is not None:
            _lib().smd_comm_set_stream(self._open(), stream)
        return tensor.data_ptr(), tensor.numel(), DTYPES[tensor.dtype]

    def _arguments(self, tensor, op, out):
        out = tensor if out is None else out
        send, count, dtype = self._buffer(tensor)
        recv = self._buffer(out)[0]
        if op not in OPS:
            raise SummandError(0, f"group {self.group}: the operation must be one of {names(OPS)}, got {op!r}")
        if out.dtype != tensor.dtype or out.numel() != tensor.numel():
            raise SummandError(0, f"group {self.group}: out must have {tensor.numel()} elements of {tensor.dtype}, got "
                                  f"{out.numel()} of {out.dtype}")
        return out, (self._open(), send, recv, count, dtype, OPS[op])

    def _is_narrowed_there(self, tensor, out):
        """Whether a device rounds it, as libsummand does where both are in the CPU's memory: half as much leaves the device, too."""
        return (self._narrow is not None and not all(each is None or each.device.type == "cpu" for each in (tensor, out))
                and tensor.dtype == torch.float32 and tensor.numel() >= WIRE_LEAST)

    def _start(self, call, arguments, tensor, out, narrow=None):
        handle = ctypes.c_void_p()
        _check(call(*arguments, ctypes.byref(handle)))
        return Request(self, handle, tensor, out, narrow)

    def all_reduce(self, tensor, op="sum", out=None):
        """Combines the tensors of all ranks, in rank order, into out, else in place; returns the result."""
        if self._is_narrowed_there(tensor, out):
            return self.all_reduce_start(tensor, op, out).wait()
        out, arguments = self._arguments(tensor, op, out)
        _check(_lib().smd_allreduce(*arguments))
        return out

    def all_reduce_start(self, tensor, op="sum", out=None):
        """The same without waiting: returns a Request. Until it is done, the tensors must be left alone."""
        out, arguments = self._arguments(tensor, op, out)
        narrow = None
        if self._is_narrowed_there(tensor, out):
            narrow = tensor.detach().to(self._narrow)
            arguments = self._arguments(narrow, op, None)[1]
        return self._start(_lib().smd_allreduce_start, arguments, tensor, out, narrow)

    def reduce(self, tensor, root, op="sum", out=None):
        """The same, but only rank root gets the result; the others get None, and their tensors stay as they are."""
        out, arguments = self._arguments(tensor, op, out)
        _check(_lib().smd_reduce(*arguments, root))
        return out if self.rank == root else None

    def reduce_start(self, tensor, root, op="sum", out=None):
        """The same without waiting: returns a Request."""
        out, arguments = self._arguments(tensor, op, out)
        return self._start(_lib().smd_reduce_start, (*arguments, root), tensor, out if self.rank == root else None)

    def broadcast(self, tensor, root):
        """Copies the tensor of rank root into those of all others; returns it."""
        _check(_lib().smd_broadcast(self._open(), *self._buffer(tensor), root))
        return tensor

    def broadcast_start(self, tensor, root):
        """The same without waiting: returns a Request."""
        return self._start(_lib().smd_broadcast_start, (self._open(), *self._buffer(tensor), root), tensor, tensor)

    def late(self):
        """Which ranks an operation in flight waits for, as servers say it of those that are 10 s late; "": none that is known."""
        text = ctypes.create_string_buffer(LATE_TEXT_MAX)
        _check(_lib().smd_comm_late(self._open(), text, len(text)))
        return text.value.decode(errors="replace")

    def barrier(self):
        """Returns when every rank has called it."""
        _check(_lib().smd_barrier(self._open()))

    def close(self):
        """Waits for what was started, and leaves the group. A second time does nothing. A fork only forgets it."""
        if self._pid != os.getpid():
            self._handle = ctypes.c_void_p()
            self._pending = set()
            if self in self._context._communicators:
                self._context._communicators.remove(self)
            return
        while True:
            with self._lock:  # other threads take theirs out
                request = next(iter(self._pending), None)
            if request is None:
                break
            try:
                request.wait()
            except Exception:
                pass  # told to who waits for that request
        if self._handle:
            _lib().smd_comm_destroy(self._handle)
            self._handle = ctypes.c_void_p()
            self._context._communicators.remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _range(tensor):
    if not tensor.is_contiguous():
        raise SummandError(0, f"a tensor to be registered must be contiguous, got strides {_strides(tensor)}")
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()


def _strides(tensor):
    return tuple(tensor.stride()) if tensor.layout == torch.strided else None


def names(table):
    return ", ".join(str(key).replace("torch.", "") for key in table)


class Request:
    """An operation that was started."""

    def __init__(self, communicator, handle, tensor, out, narrow=None):
        """narrow: what is reduced in place of the tensor, whose result is to be copied to out."""
        self._communicator, self._handle = communicator, handle
        self._tensors = (tensor, out)
        self._narrow = narrow
        self._lock = threading.Lock()  # a handle is waited for once
        self._error = None
        with communicator._lock:
            communicator._pending.add(self)

    def done(self):
        """Whether wait() would return at once."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread waits for it
        try:
            if self._handle and _lib().smd_request_test(self._handle) == 0:
                return False
            if self._narrow is not None:
                self._finish()  # the result is in its place then, as others are
            return True
        finally:
            self._lock.release()

    def _finish(self):
        """With the lock, which whoever waits has: a handle is waited for once, however that ends."""
        handle, self._handle = self._handle, None
        try:
            _check(_lib().smd_request_wait(handle))
            if self._narrow is not None:
                device.copy_back([(self._tensors[1], self._narrow)])
        except BaseException as error:  # of the device, too, and an interrupt: the result may not be there
            self._error = error
        finally:
            self._narrow = None
            with self._communicator._lock:
                self._communicator._pending.discard(self)

    def wait(self):
        """Returns the result, or raises what ended the operation; as often as it is asked."""
        with self._lock:
            if self._handle:
                self._finish()
        if self._error:
            raise self._error
        return self._tensors[1]


# ---- DistributedDataParallel ----

class HookState:
    """What allreduce_hook() needs: a communicator, and a thread that waits for its operations in their order."""

    def __init__(self, communicator, context=None):
        """A context that is given is closed with the state; else only the communicator is."""
        self.communicator = communicator
        self.context = context
        self._started = InOrder("summand-ddp", self._complete)
        self._buckets = {}  # registered, by index

    def register(self, index, tensor):
        """Registers a bucket's memory, the same in every step until DDP makes others, in place of the one before."""
        before = self._buckets.get(index)
        if tensor.device.type != "cpu" or (before is not None and _range(before) == _range(tensor)):
            return
        self._forget(index)
        self._buckets[index] = tensor
        with contextlib.suppress(SummandError):  # what is not registered may be used all the same
            self.communicator._context.register(tensor)

    def _forget(self, index):
        tensor = self._buckets.pop(index, None)
        if tensor is not None:
            with contextlib.suppress(SummandError):
                self.communicator._context.deregister(tensor)

    def average(self, tensor):
        """Starts to average the tensor over all ranks, in place; returns a future of it."""
        # The servers divide, before they round: a float16 sum does not overflow where its average would not, and this thread
        # does not touch the tensor.
        future = device.future([tensor])
        self._started.put((self.communicator.all_reduce_start(tensor, "avg"), future))
        return future

    @staticmethod
    def _complete(item):
        request, future = item
        try:
            tensor = request.wait()
        except Exception as error:  # else the thread would end, and later operations with it
            return functools.partial(future.set_exception, error)
        return functools.partial(device.complete, future, tensor, [tensor])

    def close(self):
        """Waits for what was started, and leaves the group. A second time does nothing."""
        self._started.end()
        for index in list(self._buckets):
            self._forget(index)
        self.communicator.close()
        if self.context:
            self.context.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def allreduce_hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel.register_comm_hook(): averages a bucket while the backward pass goes on."""
    state.register(bucket.index(), bucket.buffer())
    # then() makes an exception one that DDP raises with its text; of a bare future it sees only a wrong result.
    return state.average(bucket.buffer()).then(lambda future: future.wait())


_registered = 0


def register(model, group=None, context=None, wire=None):
    """Lets a DistributedDataParallel average its gradients through Summand; returns the HookState to close.

    wire="bf16" sends gradients of float32 in half the bytes: each is rounded once, as its average is (Communicator).

    The first model of each rank is group ddp-0, the next ddp-1, and so on. Models on process groups of different ranks
    need names of their own.
    """
    global _registered
    rank, size = dist.get_rank(model.process_group), dist.get_world_size(model.process_group)
    own = Context() if context is None else None
    try:
        communicator = Communicator(context or own, group or f"ddp-{_registered}", rank, size, wire)
    except SummandError:
        if own:
            own.close()
        raise
    _registered += 1
    state = HookState(communicator, own)
    model.register_comm_hook(state, allreduce_hook)
    return state
