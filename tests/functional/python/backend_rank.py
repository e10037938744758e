"""A rank of test_backend.py: what the backend gives, beside gloo's; ends with one line of JSON on standard output."""

import datetime
import errno
import json
import sys
import time
import weakref

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import summand.backend  # noqa: F401 (registers it)

TYPES = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]
WIDER = {torch.float16: torch.float32}  # what not every gloo knows, and what has the same small numbers
OPS = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]


def values(rank, dtype, count=1000):
    return (torch.arange(count) % 5 + rank + 1).to(dtype)


def same(name, ours, reference):
    if not torch.equal(ours, reference):
        raise AssertionError(f"{name}: {ours} is not {reference}")


def collectives(rank, size, gloo):
    for dtype in TYPES:
        for op in OPS:
            ours, reference = values(rank, dtype), values(rank, WIDER.get(dtype, dtype))
            dist.all_reduce(ours, op)
            dist.all_reduce(reference, op, group=gloo)
            same(f"all_reduce {dtype} {op}", ours, reference.to(dtype))
            root = int(dtype == torch.int32) + 1
            ours, reference = values(rank, dtype), values(rank, WIDER.get(dtype, dtype))
            dist.reduce(ours, root, op)
            dist.reduce(reference, root, op, group=gloo)
            if rank == root:
                same(f"reduce {dtype} {op}", ours, reference.to(dtype))
            else:
                same("reduce, not the root", ours, values(rank, dtype))
        tensor = values(rank, dtype)
        dist.broadcast(tensor, 2)
        same(f"broadcast {dtype}", tensor, values(2, dtype))
    average = values(rank, torch.float32)
    dist.all_reduce(average, dist.ReduceOp.AVG)  # gloo has none
    same("average", average, sum(values(r, torch.float32) for r in range(size)) / size)


def awkward_tensors(rank, size):
    """Some are not contiguous, some are empty, some are of types that gloo must take."""
    tensor = torch.arange(12.).reshape(3, 4).t() * (rank + 1)
    dist.all_reduce(tensor)
    same("not contiguous", tensor, torch.arange(12.).reshape(3, 4).t() * (size * (size + 1) / 2))
    dist.all_reduce(torch.empty(0))
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    same("bits", bits, torch.tensor([(1 << size) - 1]))
    complex_ = torch.full((3,), complex(rank, 1))
    dist.all_reduce(complex_)
    same("complex", complex_, torch.full((3,), complex(size * (size - 1) / 2, size)))


def bools(rank, size):
    """As numbers that are 0 or 1: a sum is any, a product all. What is bitwise goes through gloo, as bytes."""
    mine = torch.tensor([[rank == 1, True, False, rank != 0]] * 3)
    some, every = torch.tensor([[True, True, False, True]] * 3), torch.tensor([[False, True, False, False]] * 3)
    odd = torch.tensor([[True, size % 2 == 1, False, size % 2 == 0]] * 3)
    results = {dist.ReduceOp.SUM: some, dist.ReduceOp.MAX: some, dist.ReduceOp.PRODUCT: every, dist.ReduceOp.MIN: every,
               dist.ReduceOp.BOR: some, dist.ReduceOp.BAND: every, dist.ReduceOp.BXOR: odd}
    for op, result in results.items():
        for name, given in ("bool", mine), ("bool, not contiguous", mine.t()):
            ours = given.clone(memory_format=torch.preserve_format)
            dist.all_reduce(ours, op)
            same(f"all_reduce, {name}", ours, result if given is mine else result.t())
        ours = mine.clone()
        dist.reduce(ours, 1, op)
        if rank == 1:
            same("reduce of bool", ours, result)
    ours = torch.zeros(3, 4, dtype=torch.bool)
    dist.reduce_scatter(ours, [mine] * size)
    same("reduce_scatter of bool", ours, some)
    same("future of bool", dist.all_reduce(mine, dist.ReduceOp.BOR, async_op=True).get_future().wait()[0], some)


def conjugated(rank, size):
    """Tensors that a bit beside their memory conjugates or negates."""
    start = torch.arange(4.) + 1 + (rank + 1j)
    root = torch.arange(4.) + 1 - 1j
    for given in start.conj(), start.conj().resolve_conj():
        # By torch since 2026 no program comes to this: dist.broadcast() refuses what is conjugated.
        dist.distributed_c10d._get_default_group().broadcast([given], dist.BroadcastOptions()).wait()
        same("broadcast of what is conjugated", given, root)
    negated = torch._neg_view(torch.arange(4.) + rank)
    dist.all_reduce(negated)
    same("all_reduce of what is negated", negated, -(torch.arange(4.) * size + size * (size - 1) / 2))
    mine = torch._neg_view(torch.zeros(2))
    dist.reduce_scatter(mine, [torch.full((2,), float(part)) for part in range(size)], op=dist.ReduceOp.MAX)
    same("reduce_scatter to what is negated", mine, torch.full((2,), float(rank)))
    if int(torch.__version__.split(".")[0]) > 1:
        return  # it has no message of such a tensor
    if rank == 0:
        dist.send(start.conj(), 1)
    elif rank == 1:
        received = torch.zeros(4, dtype=start.dtype).conj()
        dist.recv(received, 0)
        same("a message of what is conjugated", received, root)


def in_flight(rank, size):
    tensors = [values(rank, torch.float32, 10000) * factor for factor in range(10)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
        assert work.is_completed() and work.is_success()
    total = sum(values(r, torch.float32, 10000) for r in range(size))
    for factor, tensor in enumerate(tensors):
        same("in flight", tensor, total * factor)
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    same("future", future.wait()[0], torch.full((3,), float(size)))
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()  # as DDP's join() has it
    same("future of what is done", work.get_future().wait()[0], torch.full((3,), float(size)))
    # A callback may start another operation and wait for it, as PowerSGD's does.
    twice = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(
        lambda future: dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0])
    same("an operation in a callback", twice.wait(), torch.full((1,), float(size * size)))
    for _ in range(1100):  # nobody waits for these
        dist.all_reduce(torch.ones(1), async_op=True)
    dist.barrier()


def gathered(rank, size):
    """As FullyShardedDataParallel calls them: parts of one tensor; and the kinds that are less usual."""
    whole = torch.zeros(size * 5)
    dist._all_gather_base(whole, torch.arange(5.) + 10 * rank)
    same("_all_gather_base", whole, torch.cat([torch.arange(5.) + 10 * r for r in range(size)]))
    part = torch.empty(5, dtype=torch.float16)
    dist._reduce_scatter_base(part, torch.arange(size * 5).half() * (rank + 1), op=dist.ReduceOp.AVG)
    same("_reduce_scatter_base", part, (torch.arange(5 * rank, 5 * rank + 5) * (size + 1) / 2).half())
    columns = torch.zeros(4, size)  # parts that are not contiguous
    dist.all_gather([columns[:, r] for r in range(size)], torch.arange(4.) + rank)
    same("all_gather of columns", columns, torch.arange(4.).reshape(-1, 1) + torch.arange(float(size)))
    column = torch.zeros(4, 2)[:, 1]
    dist.reduce_scatter(column, [torch.arange(4.) + part for part in range(size)], op=dist.ReduceOp.MAX)
    same("reduce_scatter to a column", column, torch.arange(4.) + rank)
    flags = [torch.zeros(1, dtype=torch.bool) for _ in range(size)]
    dist.all_gather(flags, torch.tensor([rank == 1]))
    same("all_gather of bool", torch.cat(flags), torch.arange(size) == 1)
    uneven = [torch.zeros(r) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank,), float(rank)))
    same("all_gather of parts of different sizes", torch.cat(uneven), torch.cat([torch.full((r,), float(r)) for r in range(size)]))
    coalesced = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    dist.all_gather_coalesced(coalesced, [torch.full((2,), float(rank)), torch.full((3,), float(-rank))])
    same("all_gather_coalesced", coalesced[size - 1][1], torch.full((3,), 1. - size))
    parts = [torch.zeros(2) for _ in range(size)] if rank == 1 else None
    dist.gather(torch.full((2,), float(rank)), parts, dst=1)
    if parts:
        same("gather", torch.stack(parts), torch.arange(float(size)).reshape(-1, 1).expand(size, 2))
    mine = torch.zeros(2)
    dist.scatter(mine, [torch.full((2,), float(r)) for r in range(size)] if rank == 2 else None, src=2)
    same("scatter", mine, torch.full((2,), float(rank)))
    swapped = torch.zeros(size)
    dist.all_to_all_single(swapped, torch.arange(float(size)) + 10 * rank)
    same("all_to_all_single", swapped, torch.arange(float(size)) * 10 + rank)
    lists = [torch.zeros(r + 1, 2) for r in range(size)]  # of rank r r + 1 rows
    dist.all_to_all(lists, [torch.full((rank + 1, 2), float(rank * size + r)) for r in range(size)])
    for r, part in enumerate(lists):
        same("all_to_all", part, torch.full((r + 1, 2), float(r * size + rank)))


def beside_gloo(rank, size):
    got = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(got, torch.full((2,), float(rank)))
    same("all_gather", torch.stack(got), torch.arange(float(size)).reshape(-1, 1).expand(size, 2))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)], objects
    mine = torch.zeros(4)
    dist.reduce_scatter(mine, [torch.full((4,), float(rank + part)) for part in range(size)])
    same("reduce_scatter", mine, torch.full((4,), size * (size - 1) / 2 + size * rank))
    gathered(rank, size)
    message = torch.tensor([float(rank)])
    if rank == 0:
        dist.send(message, 1)
    elif rank == 1:
        dist.recv(message, 0)
        same("recv", message, torch.zeros(1))
    pair = dist.new_group([0, 2])
    if rank in (0, 2):
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=pair)
        same("new_group", tensor, torch.full((3,), 2.0))


def give_up_coalescing(received, before, after):
    """As where a program raises within torch's coalescing manager, which then never says that it ends. Returns a sum of after that,
    which has been waited for."""
    dist.group.WORLD.start_coalescing()
    for work in [dist.irecv(received, before, tag=1), dist.isend(torch.zeros(3), after, tag=1)]:
        work.wait()
    work = dist.all_reduce(torch.ones(5000), async_op=True)
    work.wait()
    return work


def messages(rank, size):
    """By tags, whatever their order; from whoever comes; and several that are one, as torch coalesces them."""
    if rank == 0:
        got = {tag: torch.zeros(2) for tag in (7, 8)}
        works = [dist.irecv(tensor, 1, tag=tag) for tag, tensor in got.items()]
        for work in works:
            work.wait()
        same("tags", torch.cat([got[7], got[8]]), torch.tensor([7., 7., 8., 8.]))
        senders = set()
        for _ in range(size - 1):
            tensor = torch.zeros(1)
            sender = dist.recv(tensor)
            same("from whoever comes", tensor, torch.tensor([float(sender)]))
            senders.add(sender)
        assert senders == set(range(1, size)), senders
    else:
        if rank == 1:
            for work in [dist.isend(torch.full((2,), float(tag)), 0, tag=tag) for tag in (8, 7)]:
                work.wait()
        dist.send(torch.tensor([float(rank)]), 0)
    group = dist.group.WORLD
    after, before = (rank + 1) % size, (rank - 1) % size
    received, summed = torch.zeros(3).t(), torch.ones(2)
    group._start_coalescing(torch.device("cpu"))
    dist.irecv(received, before, tag=1)
    dist.isend(torch.full((3,), float(rank)), after, tag=1)
    dist.all_reduce(summed, async_op=True)
    work = group._end_coalescing(torch.device("cpu"))
    work.wait()
    assert work.is_completed() and work.is_success()
    same("a message of several that are one", received, torch.full((3,), float(before)))
    same("a sum of several that are one", summed, torch.full((2,), float(size)))
    group.start_coalescing()
    group.end_coalescing().wait()  # of none
    given_up = weakref.ref(give_up_coalescing(received, before, after))
    limit = time.monotonic() + 30
    while given_up() is not None:  # the group's threads let go of it when they are through
        assert time.monotonic() < limit
        time.sleep(0.01)
    group.start_coalescing()
    dist.all_reduce(summed, async_op=True)
    work = group.end_coalescing()
    work.wait()
    same("a sum after several that were given up", summed, torch.full((2,), float(size * size)))
    assert [len(tensor) for tensor in work.result()] == [2], work.result()
    for k in range(3):  # which waits for each, and torch coalesces where it can
        values = torch.full((3,), float(10 * rank + k))
        parts = [dist.P2POp(dist.isend, values, after), dist.P2POp(dist.irecv, received, before)]
        for one in dist.batch_isend_irecv(parts):
            one.wait()
        same("messages in a batch", received, torch.full((3,), float(10 * before + k)))


def by_newer_names(rank, size):
    """As torch calls a group since 2026."""
    group, ranks = dist.group.WORLD, torch.arange(float(size))
    whole = torch.zeros(size * 2)
    group.all_gather_single(whole, torch.full((2,), float(rank)), None).wait()
    same("all_gather_single", whole, ranks.repeat_interleave(2))
    group.all_gather_single_coalesced([whole], [torch.full((2,), 2. * rank)], None).wait()
    same("all_gather_single_coalesced", whole, 2 * ranks.repeat_interleave(2))
    part = torch.zeros(2)
    group.reduce_scatter_single(part, torch.arange(size * 2.), None).wait()
    same("reduce_scatter_single", part, size * torch.arange(2. * rank, 2. * rank + 2))
    group.reduce_scatter_single_coalesced([part], [torch.ones(size * 2)], None).wait()
    same("reduce_scatter_single_coalesced", part, torch.full((2,), float(size)))
    swapped = torch.zeros(size)
    group.all_to_all_single(swapped, ranks + 10 * rank, [], [], dist.AllToAllOptions()).wait()
    same("all_to_all_single", swapped, ranks * 10 + rank)


def refused_types():
    """A type or a reduction that nobody has is named; the group is as it was."""
    size = dist.get_world_size()
    types = "uint8, int32, int64, float16, float32, float64, bfloat16, bool, got"
    reductions = "the reduction must be one of sum, prod, max, min, avg of dense tensors, got bxor of strided"
    short, bits = torch.ones(3, dtype=torch.int16), torch.ones(3, dtype=torch.int32)
    cases = [
        (lambda: dist.all_reduce(short), f"all_reduce: the type must be one of int8, {types} int16; convert it with Tensor.to()"),
        (lambda: dist.reduce(short, 0), f"reduce: the type must be one of int8, {types} int16; convert it with Tensor.to()"),
        (lambda: dist.reduce(short * 1j, 0), f"{types} complex64; use torch.view_as_real() of it"),
        (lambda: dist.all_reduce(short.bool(), dist.ReduceOp.AVG),
         "all_reduce: the reduction of bool must be one of sum, max, prod, min, got avg; convert it with Tensor.to()"),
        (lambda: dist.reduce_scatter(short, [short] * size), f"reduce_scatter: the type must be one of int8, {types} int16;"),
        (lambda: dist.reduce_scatter(bits, [bits] * size, dist.ReduceOp.BXOR), f"reduce_scatter: {reductions}"),
        (lambda: dist.reduce_scatter(bits, [bits] * size, dist._make_nccl_premul_sum(2.)), reductions.replace("bxor", "premul_sum")),
    ]
    for call, sentence in cases:
        try:
            call()
        except RuntimeError as error:
            assert sentence in str(error), error
        else:
            raise AssertionError(f"must be refused: {sentence}")
    dist.all_reduce(bits)
    same("after what was refused", bits, torch.full((3,), size, dtype=torch.int32))


def refused():
    try:
        dist.all_reduce(torch.empty(3, device="meta"))
    except RuntimeError as error:
        assert "tensors must be on the CPU or a CUDA device, got one on meta" in str(error), error
    else:
        raise AssertionError("a tensor on no CPU must be refused")
    try:
        dist.reduce_scatter(torch.empty(1), [torch.empty(1, device="meta")] * dist.get_world_size())
    except RuntimeError as error:
        assert "tensors must be on the CPU or a CUDA device, got one on meta" in str(error), error
    else:
        raise AssertionError("a part on no CPU must be refused")
    parts = [torch.empty(2) for _ in range(dist.get_world_size())]
    try:
        dist.all_gather(parts, torch.empty(3))
    except RuntimeError as error:
        assert "part must have 3 elements, as its input has, got 2" in str(error), error
        return
    raise AssertionError("a part of another size must be refused")


def late(rank, size):
    """Rank 1 comes late: whoever waits for less has an error that says so, and what it asked for is done later."""
    if rank == 1:
        time.sleep(4)
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 0:
        try:
            work.wait(datetime.timedelta(seconds=1))
        except RuntimeError as error:
            assert error.code == errno.ETIMEDOUT and "within the timeout of 1 s" in str(error), error
            assert "Servers name a rank when it is 10 s late. The operation goes on" in str(error), error
            assert work.exception() is None
        else:
            raise AssertionError("a late rank must be noticed")
    work.wait()
    same("late", tensor, torch.full((3,), float(size)))


def late_for_long(rank):
    """Rank 1 comes when the others have given up: their error names it."""
    if rank == 1:
        time.sleep(14)
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    if rank != 1:
        try:
            work.wait(datetime.timedelta(seconds=12))
        except RuntimeError as error:
            assert error.code == errno.ETIMEDOUT and "within the timeout of 12 s, but rank 1 (rank-1) is 1" in str(error), error
            assert " s late for operation " in str(error) and "The operation goes on" in str(error), error
        else:
            raise AssertionError("a late rank must be noticed")
    work.wait()


def train(group, seed_rank):
    torch.manual_seed(7)
    network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4))
    model = DistributedDataParallel(network, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    torch.manual_seed(seed_rank)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).pow(2).mean().backward()
        optimizer.step()
    return torch.cat([each.detach().reshape(-1) for each in network.parameters()])


def train_unevenly(rank, size):
    """Rank r has r inputs more than rank 0; who has none left plays along."""
    model = DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
    with model.join(divide_by_initial_world_size=False):
        for step in range(2 + rank):
            model.zero_grad()
            model(torch.full((1, 4), float(rank))).sum().backward()
            at_work = [r for r in range(size) if step < 2 + r]
            same("gradient", model.module.weight.grad, torch.full((1, 4), sum(at_work) / len(at_work)))


def main():
    dist.init_process_group("summand")
    rank, size = dist.get_rank(), dist.get_world_size()
    if "train-until-killed" in sys.argv:
        model = DistributedDataParallel(torch.nn.Linear(1000, 100))
        while True:
            model(torch.randn(4, 1000)).sum().backward()
            print("step", flush=True)
    if "late-for-long" in sys.argv:
        late_for_long(rank)
        return
    gloo = dist.new_group(backend="gloo")
    collectives(rank, size, gloo)
    awkward_tensors(rank, size)
    bools(rank, size)
    conjugated(rank, size)
    refused_types()
    in_flight(rank, size)
    beside_gloo(rank, size)
    messages(rank, size)
    by_newer_names(rank, size)
    refused()
    late(rank, size)
    train_unevenly(rank, size)
    ours, reference = train(None, rank), train(gloo, rank)
    difference = float((ours - reference).abs().max())
    gathered = [torch.empty_like(ours) for _ in range(size)]
    dist.all_gather(gathered, ours)
    assert all(torch.equal(each, ours) for each in gathered)
    print(json.dumps({"rank": rank, "difference": difference, "backend": dist.get_backend()}), flush=True)
    if "destroy" in sys.argv:
        dist.destroy_process_group()


main()
