"""Lets torch's tests for GPUs run on tensors of the CPU: what puts something on a GPU leaves it where it is.

Only what those tests of torch.testing use is there. Import it before them.
"""

import contextlib

import torch
from torch.testing._internal import common_distributed


def _nothing(*_, **__):
    return None


def _itself(subject, *_, **__):
    return subject


def _any_test(*_):
    return lambda test: test


def _is_gpu(place):
    return isinstance(place, (int, torch.device)) and str(place) != "cpu" or isinstance(place, str) and place.startswith("cuda")


class _OnCpu(torch.overrides.TorchFunctionMode):
    """Tensors that are made on a GPU, or moved to one, are the CPU's."""

    def __torch_function__(self, call, types, arguments=(), named=None):
        named = dict(named or {})
        if _is_gpu(named.get("device")):
            named["device"] = "cpu"
        if call is torch.Tensor.to:
            arguments = tuple("cpu" if _is_gpu(each) and not isinstance(each, bool) else each for each in arguments)
        return call(*arguments, **named)


def begin(gpus):
    """For the rest of this process, which believes in so many."""
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: gpus
    _OnCpu().__enter__()


def _install():
    for decorator in "skip_if_lt_x_gpu", "nccl_skip_if_lt_x_gpu", "require_n_gpus_for_nccl_backend":
        setattr(common_distributed, decorator, _any_test)
    common_distributed.skip_if_no_gpu = lambda test: test
    common_distributed.init_multigpu_helper = lambda ranks, _: {rank: [rank] for rank in range(ranks)}
    torch.Tensor.cuda = torch.nn.Module.cuda = _itself
    for call in "set_device", "synchronize", "empty_cache", "manual_seed":
        setattr(torch.cuda, call, _nothing)
    torch.cuda.device = contextlib.nullcontext
    torch.cuda.current_device = lambda: "cpu"

    model = torch.nn.parallel.DistributedDataParallel
    begin_model = model.__init__

    def on_cpu(self, module, device_ids=None, output_device=None, *rest, **named):
        begin_model(self, module, None, None, *rest, **named)

    model.__init__ = on_cpu


_install()
