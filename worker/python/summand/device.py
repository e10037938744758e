"""What tensors on GPUs ask of an operation: a stream to follow, and futures that know their device.

libsummand follows a stream when an operation begins, and says that it is done when the result is in its place, for every stream.
So who waits for it waits for nothing else on the device: futures are completed beside all streams of the program.
"""

import contextlib
import ctypes
import errno
import functools
import os
import threading

import torch

from summand.error import SummandError

KINDS = ("cpu", "cuda")
GLOBAL, RELAXED = 0, 2  # CUDA's modes of a thread: what it does may spoil a graph that another one captures, or not

_sides = threading.local()  # streams that have no other work, of each thread by device


def check_capture(tensors):
    """Before anything is put into the current streams of their devices: it would become part of a CUDA graph, or spoil it."""
    for device in {tensor.device for tensor in tensors if tensor.device.type == "cuda"}:
        with torch.cuda.device(device):
            if torch.cuda.is_current_stream_capturing():
                raise SummandError(errno.EINVAL, "operations cannot be captured into CUDA graphs, and the current stream of "
                                                 f"{device} is being captured")


def stream(tensor):
    """What libsummand must follow: the current stream of the tensor's device, as a number; None for one in the CPU's memory."""
    check_capture([tensor])
    return torch.cuda.current_stream(tensor.device).cuda_stream if tensor.device.type == "cuda" else None


def future(tensors):
    devices = {tensor.device for tensor in tensors if tensor.device.type == "cuda"}
    return torch.futures.Future(devices=sorted(devices, key=str)) if devices else torch.futures.Future()


@functools.lru_cache(maxsize=None)
def _driver():
    """The one that libsummand opens, as torch has no such call; None: there is none, as on AMD's devices."""
    try:
        return ctypes.CDLL(os.environ.get("SUMMAND_CUDA_DRIVER") or "libcuda.so.1")
    except OSError:
        return None


def _exchange_mode(mode):
    """That of this thread; returns what it was."""
    before = ctypes.c_int(mode)
    return before.value if _driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(before)) == 0 else GLOBAL


@contextlib.contextmanager
def _relaxed():
    """No graph that the program captures meanwhile has anything to do with what is done here, nor is spoiled by it."""
    if _driver() is None:
        yield
        return
    before = _exchange_mode(RELAXED)
    try:
        yield
    finally:
        _exchange_mode(before)


@contextlib.contextmanager
def beside(tensors):
    """In a stream of its own on the device of the tensors: what is done there is over at the end, as the processor sees it."""
    device = next((tensor.device for tensor in tensors if tensor.device.type == "cuda"), None)
    if device is None:
        yield
        return
    known = _sides.__dict__
    with _relaxed():
        if str(device) not in known:
            known[str(device)] = torch.cuda.Stream(device)
        side = known[str(device)]
        with torch.cuda.stream(side):
            yield
        side.synchronize()


def copy(pairs):
    """What came about elsewhere, to where it belongs, in the order of the current stream."""
    # Modes are a thread's own: memory of inference may be written in that mode only, and no gradient follows a copy.
    with torch.inference_mode():
        for tensor, source in pairs:
            if not _is_there(tensor, source):
                tensor.copy_(source.clone() if _may_overlap(tensor, source) else source)


def _is_there(tensor, source):
    """Whether they read the same memory in the same way, as a tensor and what is detached from it."""
    return source is tensor or (tensor.layout == torch.strided and tensor.data_ptr() == source.data_ptr()
                                and _way_of_reading(tensor) == _way_of_reading(source))


def _way_of_reading(tensor):
    return tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.is_conj(), tensor.is_neg()


def _may_overlap(tensor, source):
    """As an input that is elsewhere in the memory of its own output."""
    if tensor.layout != torch.strided:
        return False
    (begin, end), (source_begin, source_end) = _bounds(tensor), _bounds(source)
    return begin < source_end and source_begin < end


def _bounds(tensor):
    begin = tensor.data_ptr()
    last = sum((count - 1) * stride for count, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * tensor.element_size()


def begin_to_write(tensors):
    """Lets autograd know, which then refuses a backward pass that would need what was there before. What libsummand writes, torch
    does not see."""
    with torch.inference_mode():
        for tensor in tensors:
            tensor.as_strided((0,), (1,)).zero_()


def copy_back(pairs):
    """The same beside all streams: done on return. On any thread."""
    with beside([tensor for tensor, _ in pairs]):
        copy(pairs)


def complete(future, result, tensors):
    """Gives a future its result, which the tensors are, or what keeps it from that."""
    try:
        with beside(tensors):
            future.set_result(result)
    except Exception as error:
        if future.done():  # it has its result, and what its callbacks have begun has failed
            raise
        future.set_exception(error)
