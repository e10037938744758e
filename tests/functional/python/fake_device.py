"""Tensors of a CUDA device where there is none: memory of the fake driver (tests/unit/cuda), which libsummand is told to use too,
behind as much of a tensor as Summand's Python asks for. torch itself knows nothing of them, so what of `torch.cuda` is asked
stands here as well: what this shows is Summand's part, and nothing of torch's."""

import contextlib
import ctypes
import os
import threading
from unittest import mock

import torch

DRIVER = os.path.join(os.environ["SUMMAND_BUILD"], "tests", "smd_fake_cuda.so")
DEVICE = torch.device("cuda:0")
NON_BLOCKING = 1
GLOBAL, THREAD_LOCAL = 0, 1  # modes of a capture: what other threads may not do meanwhile, or this one alone

_driver = None
_context = ctypes.c_void_p()
current = threading.local()  # .stream: this thread's current stream


def is_here():
    return os.path.exists(DRIVER)


def use():
    """Before the first context of Summand's."""
    global _driver
    os.environ["SUMMAND_CUDA_DRIVER"] = DRIVER
    _driver = ctypes.CDLL(DRIVER)
    _check(_driver.cuInit(0))
    _check(_driver.cuDevicePrimaryCtxRetain(ctypes.byref(_context), 0))


def _check(result):
    if result:
        raise AssertionError(f"the fake driver says {result}")


@contextlib.contextmanager
def entered():
    _check(_driver.cuCtxPushCurrent_v2(_context))
    try:
        yield _driver
    finally:
        _check(_driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())))


@contextlib.contextmanager
def in_current_stream():
    """The driver, and the stream; what is put there is done at the end."""
    stream = getattr(current, "stream", None)
    handle = ctypes.c_void_p(stream.cuda_stream if stream else None)
    with entered() as driver:
        yield driver, handle
        _check(driver.cuStreamSynchronize(handle))


class Stream:
    """Of torch.cuda.Stream what is asked for."""

    def __init__(self, device=None):
        self.device = device
        handle = ctypes.c_void_p()
        with entered() as driver:
            _check(driver.cuStreamCreate(ctypes.byref(handle), NON_BLOCKING))
        self.cuda_stream = handle.value

    def synchronize(self):
        with entered() as driver:
            _check(driver.cuStreamSynchronize(ctypes.c_void_p(self.cuda_stream)))

    def hold(self):
        """What is put into it from now on begins when the word, which is returned, is filled with 1."""
        word = DeviceTensor(torch.zeros(1, dtype=torch.int32))
        with entered() as driver:
            _check(driver.cuStreamWaitValue32_v2(ctypes.c_void_p(self.cuda_stream), ctypes.c_uint64(word.data_ptr()), 1, 1))
        return word

    def capture(self, mode=THREAD_LOCAL):
        with entered() as driver:
            _check(driver.cuStreamBeginCapture_v2(ctypes.c_void_p(self.cuda_stream), mode))

    def is_capturing(self):
        status = ctypes.c_int()
        with entered() as driver:
            _check(driver.cuStreamIsCapturing(ctypes.c_void_p(self.cuda_stream), ctypes.byref(status)))
        return status.value != 0

    def end_capture(self):
        """How many works the graph has; a CUDA error is raised."""
        graph = ctypes.c_void_p()
        with entered() as driver:
            _check(driver.cuStreamEndCapture(ctypes.c_void_p(self.cuda_stream), ctypes.byref(graph)))
        return graph.value or 0


class DeviceTensor:
    """A copy of a tensor, in the fake device's memory."""

    device, layout, requires_grad = DEVICE, torch.strided, False

    def __init__(self, tensor):
        self._like = tensor.clone().contiguous()
        self.dtype, self.shape = tensor.dtype, tensor.shape
        pointer = ctypes.c_uint64()
        with entered() as driver:
            _check(driver.cuMemAlloc_v2(ctypes.byref(pointer), self._bytes()))
        self._pointer = pointer.value
        self.copy_(tensor)

    def _bytes(self):
        return ctypes.c_size_t(self._like.numel() * self._like.element_size())

    def numel(self):
        return self._like.numel()

    def element_size(self):
        return self._like.element_size()

    def stride(self):
        return self._like.stride()

    def is_contiguous(self):
        return True

    def contiguous(self):
        return self

    resolve_conj = resolve_neg = detach = contiguous

    def reshape(self, shape):
        assert tuple(shape) == tuple(self.shape)
        return self

    def as_strided(self, shape, strides):
        return self._like.as_strided(shape, strides)

    def to(self, dtype):
        return DeviceTensor(self.cpu().to(dtype))

    def data_ptr(self):
        return self._pointer

    def fill_(self, word, stream):
        """Every 32-bit word, in the order of the stream."""
        with entered() as driver:
            _check(driver.cuMemsetD32Async(ctypes.c_uint64(self._pointer), ctypes.c_uint(word),
                                           ctypes.c_size_t(self.numel()), ctypes.c_void_p(stream.cuda_stream)))

    def copy_(self, other):
        """From the host, or of another of these, in the order of the current stream, done on return."""
        self._like.copy_(other.cpu() if isinstance(other, DeviceTensor) else other)
        with in_current_stream() as (driver, stream):
            _check(driver.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(self._pointer), ctypes.c_void_p(self._like.data_ptr()),
                                               self._bytes(), stream))
        return self

    def cpu(self):
        result = torch.empty_like(self._like)
        with in_current_stream() as (driver, stream):
            _check(driver.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(result.data_ptr()), ctypes.c_uint64(self._pointer),
                                               self._bytes(), stream))
        return result


class Column(DeviceTensor):
    """As one that is not contiguous."""

    def is_contiguous(self):
        return False

    def contiguous(self):
        return DeviceTensor(self.cpu())


class Future(torch.futures.Future):
    """Takes devices, which a torch without CUDA refuses, and tells in which stream it was completed."""

    def __init__(self, devices=None):
        super().__init__()
        self.devices = devices
        self.completed_in = None

    def __class_getitem__(cls, result):  # torch names its own class with what a future is of
        return cls

    def set_result(self, result):
        self.completed_in = getattr(current, "stream", None)
        super().set_result(result)


@contextlib.contextmanager
def in_stream(stream):
    before = getattr(current, "stream", None)
    current.stream = stream
    try:
        yield
    finally:
        current.stream = before


def patched():
    """torch as Summand's Python finds it while this holds."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(torch.cuda, "current_stream", lambda device: current.stream))
    stack.enter_context(mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: current.stream.is_capturing()))
    stack.enter_context(mock.patch.object(torch.cuda, "device", contextlib.nullcontext))
    stack.enter_context(mock.patch.object(torch.cuda, "Stream", Stream))
    stack.enter_context(mock.patch.object(torch.cuda, "stream", in_stream))
    stack.enter_context(mock.patch.object(torch.futures, "Future", Future))
    return stack
