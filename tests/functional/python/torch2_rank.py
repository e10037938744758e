"""A rank of test_torch2.py: trains sharded models (FSDP and FSDP2), and sums by the collectives that torch's compiler and DTensor
are made of. All of it on the device that SUMMAND_TEST_DEVICE names, as tools/gpu-check does with a GPU, else on the CPU."""

import functools
import os
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import summand.backend  # noqa: F401 (registers it)

DEVICE = torch.device(os.environ.get("SUMMAND_TEST_DEVICE", "cpu"))
NEAR = 1e-6 if DEVICE.type == "cpu" else 1e-5  # by which orders of summation may part two models


def network():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                               torch.nn.Linear(64, 4)).to(DEVICE)


def train(model, rank):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    numbers = torch.Generator("cpu").manual_seed(rank)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(8, 16, generator=numbers, device="cpu").to(DEVICE)).pow(2).mean().backward()
        optimizer.step()


def weights(module):
    return torch.cat([each.detach().reshape(-1) for each in module.parameters()])


def sharded(rank):
    whole = DistributedDataParallel(network())
    train(whole, rank)
    in_parts = functools.partial(size_based_auto_wrap_policy, min_num_params=500)
    for strategy in ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD:
        for original in False, True:
            model = FullyShardedDataParallel(network(), device_id=DEVICE, sharding_strategy=strategy,
                                             auto_wrap_policy=in_parts, use_orig_params=original)
            train(model, rank)
            with FullyShardedDataParallel.summon_full_params(model):
                difference = float((weights(model) - weights(whole.module)).abs().max())
            assert difference < NEAR, (strategy, original, difference)


def sharded_by_parameter(rank):
    """FSDP2: parts are reduced and gathered beside the backward pass. To torch 2.6 the CPU's stream, which waits for all, had no
    events, and parameters that are parts again after the forward pass failed there, by any backend."""
    for name in "record_event", "wait_event":
        if not hasattr(torch.cpu.Stream, name):
            setattr(torch.cpu.Stream, name, lambda *_: None)
    whole = DistributedDataParallel(network())
    train(whole, rank)
    grown = DEVICE.type != "cpu" or tuple(map(int, torch.__version__.split(".")[:2])) > (2, 6)
    for reshard in (True, False) if grown else (False,):
        model = network()
        for each in model:
            if isinstance(each, torch.nn.Linear):
                fully_shard(each, reshard_after_forward=reshard)
        fully_shard(model, reshard_after_forward=reshard)
        train(model, rank)
        difference = float((torch.cat([each.full_tensor().detach().reshape(-1) for each in model.parameters()])
                            - weights(whole.module)).abs().max())
        assert difference < NEAR, (reshard, difference)


def messages(rank, size):
    """Of GPUs torch coalesces them, as pipelines have them; of the CPU where it is told to."""
    received = torch.zeros(3)
    ops = [dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % size),
           dist.P2POp(dist.irecv, received, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert torch.equal(received, torch.full((3,), float((rank - 1) % size)))
    received.zero_()
    with dist._coalescing_manager(dist.group.WORLD, DEVICE, async_ops=True) as coalesced:
        dist.isend(torch.full((3,), float(rank)), (rank + 1) % size)
        dist.irecv(received, (rank - 1) % size)
    coalesced.wait()
    assert torch.equal(received, torch.full((3,), float((rank - 1) % size)))


def functional_collectives(rank, size):
    world = dist.group.WORLD
    mine = torch.ones(3) * (rank + 1)
    ranks = torch.arange(float(size))
    assert torch.equal(functional.all_reduce(mine, "sum", world) + 0, torch.full((3,), size * (size + 1) / 2))
    assert torch.equal(functional.all_gather_tensor(mine, 0, world) + 0, (ranks + 1).repeat_interleave(3))
    part = functional.reduce_scatter_tensor(torch.arange(size * 2.) * (rank + 1), "sum", 0, world) + 0
    assert torch.equal(part, torch.arange(rank * 2., rank * 2 + 2) * (size * (size + 1) / 2))
    assert torch.equal(functional.all_to_all_single(ranks + 10 * rank, None, None, world) + 0, ranks * 10 + rank)
    one, other = torch.ones(2) * rank, torch.ones(3)
    with dist._coalescing_manager():
        dist.all_reduce(one)
        dist.all_reduce(other)
    assert torch.equal(torch.cat([one, other]), torch.tensor([size * (size - 1) / 2] * 2 + [float(size)] * 3))


def distributed_tensors(size):
    mesh = init_device_mesh(DEVICE.type, (size,))
    torch.manual_seed(7)
    whole = torch.randn(2 * size, size + 1)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(rows.full_tensor(), whole)
    assert torch.equal(rows.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local(), whole)
    product = rows.t() @ rows  # partial sums
    assert torch.allclose(product.full_tensor(), whole.t() @ whole, atol=1e-5)


def beside_a_capture(rank):
    """Operations that end while a graph is captured, in the mode by default, leave it alone. Rank 0 captures; the others begin then."""
    store = dist.distributed_c10d._get_default_store()
    mine, column, bits, captured = torch.ones(1 << 20), torch.ones(64, 32).t(), torch.ones(1, dtype=torch.int64), torch.zeros(8)
    if rank:
        store.wait(["captures"])
    works = [dist.all_reduce(mine, async_op=True), dist.all_reduce(column, async_op=True),
             dist.all_reduce(bits, dist.ReduceOp.BOR, async_op=True)]
    ends = [work.get_future() for work in works]
    if rank == 0:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            store.set("captures", "yes")
            while not all(end.done() for end in ends):  # nobody may wait in a stream that is captured
                time.sleep(0.001)
            captured.add_(1)
        graph.replay()
        assert torch.equal(captured, torch.ones(8))
    for work in works:
        work.wait()
    assert torch.equal(mine, torch.full((1 << 20,), float(dist.get_world_size())))
    assert torch.equal(column, torch.full((32, 64), float(dist.get_world_size()))) and bits.item() == 1


def main():
    dist.init_process_group("summand", device_id=DEVICE if DEVICE.type == "cuda" else None)
    assert not dist.group.WORLD._get_backend(torch.device("cuda", 0)).supports_splitting  # as it is asked then
    torch.set_default_device(DEVICE)
    rank, size = dist.get_rank(), dist.get_world_size()
    sharded(rank)
    sharded_by_parameter(rank)
    messages(rank, size)
    functional_collectives(rank, size)
    distributed_tensors(size)
    if DEVICE.type == "cuda":
        beside_a_capture(rank)
    dist.barrier()
    dist.destroy_process_group()


main()
