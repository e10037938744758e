"""A rank of test_wire.py: averages the same gradients in every way that sends them in two bytes, and says how far each is off."""

import json
import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import summand.ddp

COUNT = 30000


class Given(torch.nn.Module):
    """Its gradient is what it is given."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(COUNT))

    def forward(self, gradient):
        return (self.weight * gradient).sum()


def gradient_of(rank):
    """Of many magnitudes, which neither type has exactly."""
    generator = torch.Generator().manual_seed(rank)
    scale = torch.randint(-6, 3, (COUNT,), generator=torch.Generator().manual_seed(1000))
    return torch.randn(COUNT, generator=generator) * torch.pow(2.0, scale)


def swap(sent, received, rank, size):
    """gloo of torch 1.13 knows no bfloat16, but bytes."""
    requests = [dist.isend(sent.view(torch.uint8), (rank + 1) % size), dist.irecv(received.view(torch.uint8), (rank - 1) % size)]
    for request in requests:
        request.wait()


def ring(tensor, group=None, async_op=True):
    """An all-reduce as a ring does it, which adds in the tensor's own type at every hop: NCCL's, where that is a ring."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = list(tensor.tensor_split(size))
    for step in range(size - 1):
        part = parts[(rank - step - 1) % size]
        received = torch.empty_like(part)
        swap(parts[(rank - step) % size].contiguous(), received, rank, size)
        part.add_(received)
    for step in range(size - 1):
        part = parts[(rank - step) % size]
        received = torch.empty_like(part)
        swap(parts[(rank - step + 1) % size].contiguous(), received, rank, size)
        part.copy_(received)
    done = torch.futures.Future()
    done.set_result([tensor])

    class Work:
        @staticmethod
        def get_future():
            return done

    return Work()


def torch_hook(hook, all_reduce):
    """torch's own hook, with that for its all-reduce."""
    def averaged(model):
        def call(state, bucket):
            before, dist.all_reduce = dist.all_reduce, all_reduce
            try:
                return hook(state, bucket)
            finally:
                dist.all_reduce = before
        model.register_comm_hook(None, call)
    return averaged


def by_option(wire):
    return lambda model: summand.ddp.register(model, group=f"option-{wire}", wire=wire)


def by_environment(wire):
    def register(model):
        os.environ["SUMMAND_WIRE"] = wire   # read when the context is made
        try:
            return summand.ddp.register(model, group=f"environment-{wire}")
        finally:
            del os.environ["SUMMAND_WIRE"]
    return register


def by_communicator(wire):
    def register(model):
        context = summand.ddp.Context()
        communicator = summand.ddp.Communicator(context, f"communicator-{wire}", dist.get_rank(), dist.get_world_size(), wire=wire)
        state = summand.ddp.HookState(communicator, context)
        model.register_comm_hook(state, summand.ddp.allreduce_hook)
        return state
    return register


WAYS = {
    "float32": by_option("float32"),
    "bf16 option": by_option("bf16"), "bf16 environment": by_environment("bf16"), "bf16 communicator": by_communicator("bf16"),
    "fp16 option": by_option("fp16"), "fp16 environment": by_environment("fp16"), "fp16 communicator": by_communicator("fp16"),
    "torch bf16": torch_hook(default_hooks.bf16_compress_hook, ring),
    "torch fp16": torch_hook(default_hooks.fp16_compress_hook, dist.all_reduce),
}
UNIT = {"float32": 2.0 ** -24, "bf16": 2.0 ** -8, "fp16": 2.0 ** -11}
SMALLEST = 2.0 ** -24   # of fp16


def average(way):
    model = DistributedDataParallel(Given())
    state = WAYS[way](model)
    model(gradient_of(dist.get_rank())).backward()
    result = model.module.weight.grad.clone()
    if state:
        state.close()
    return result


def judge(way, result):
    """How far it is off in the mean, and the most as a part of what specs/design/numerics.md allows."""
    size = dist.get_world_size()
    inputs = [gradient_of(rank).double() for rank in range(size)]
    exact, magnitude = sum(inputs) / size, sum(x.abs() for x in inputs) / size
    off = (result.double() - exact).abs()
    unit = UNIT[way.split()[0]] if not way.startswith("torch") else 1.0
    allowed = unit * (magnitude + exact.abs()) + size * 2.0 ** -24 * magnitude + SMALLEST
    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(way.split()[0], torch.float32)
    return {"off": off.mean().item(), "of_allowed": (off / allowed).max().item(), "hash": hash(tuple(result.tolist())),
            "is_narrow": torch.equal(result, result.to(narrow).float())}


def main():
    dist.init_process_group("gloo")
    print(json.dumps({way: judge(way, average(way)) for way in WAYS}), flush=True)
    dist.barrier()


main()
