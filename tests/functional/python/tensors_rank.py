"""A rank of test_backend.py: every collective of tensors that require gradients, of those that lie in memory in another way than torch's
usual one, and of every type; ends with one line of JSON on standard output."""

import json
import time
import weakref

import torch
import torch.distributed as dist

import summand.backend  # noqa: F401 (registers it)
import summand.works

SHAPE = (3, 2, 2, 2)
FLAT = (9, 2, 2, 2)
ROOT = 1


def same(name, ours, reference):
    if not torch.equal(ours, reference):
        raise AssertionError(f"{name}: {ours} is not {reference}")


def of_rank(rank):
    return torch.arange(24.).reshape(SHAPE) + 30 * rank


def moves(rank, size, make, place):
    """Names, and of what has been received the tensors and their values. `make` gives a tensor of values that is sent, `place` a
    tensor of a shape to receive into."""
    mine, every = of_rank(rank), [of_rank(r) for r in range(size)]
    rows = [torch.cat([values[rank:rank + 1] for values in every])]
    group, after, before = dist.group.WORLD, (rank + 1) % size, (rank - 1) % size

    def places(shape=SHAPE):
        return [place(shape) for _ in range(size)]

    got = places()
    dist.all_gather(got, make(mine))
    yield "all_gather", got, every
    got = [place(FLAT)]
    dist.all_gather_into_tensor(got[0], make(mine))
    yield "all_gather_into_tensor", got, [torch.cat(every)]
    got = places()
    dist.all_gather_coalesced([[each] for each in got], [make(mine)])
    yield "all_gather_coalesced", got, every
    got = [place(FLAT)]
    group.all_gather_single_coalesced(got, [make(mine)], None).wait()
    yield "all_gather_single_coalesced", got, [torch.cat(every)]
    got = places() if rank == ROOT else []
    dist.gather(make(mine), got or None, dst=ROOT)
    yield "gather", got, every
    got = [place(SHAPE)]
    dist.scatter(got[0], [make(values) for values in every] if rank == ROOT else None, src=ROOT)
    yield "scatter", got, [mine]
    got = [place(SHAPE)]
    dist.all_to_all_single(got[0], make(mine))
    yield "all_to_all_single", got, rows
    sizes = [[0] * size, [0] * size]  # all goes to the next rank
    sizes[0][before] = sizes[1][after] = SHAPE[0]
    got = [place(SHAPE)]
    dist.all_to_all_single(got[0], make(mine), *sizes)
    yield "all_to_all_single of splits", got, [every[before]]
    got = places()
    dist.all_to_all(got, [make(mine + r) for r in range(size)])
    yield "all_to_all", got, [values + rank for values in every]
    got = [make(mine)]
    dist.broadcast(got[0], ROOT)
    yield "broadcast", got, [every[ROOT]]
    got = [place(SHAPE)]
    sent = dist.isend(make(mine), after)
    dist.recv(got[0], before)
    sent.wait()
    yield "a message", got, [every[before]]
    got = [place(SHAPE)]
    group.start_coalescing()
    dist.irecv(got[0], before)
    dist.isend(make(mine), after)
    group.end_coalescing().wait()
    yield "messages that are one", got, [every[before]]


def reductions(rank, size, make, place):
    mine, total = of_rank(rank), sum(of_rank(r) for r in range(size))
    group = dist.group.WORLD
    got = [make(mine)]
    dist.all_reduce(got[0])
    yield "all_reduce", got, [total]
    got = [make(mine), make(2 * mine)]
    dist.all_reduce_coalesced(got)
    yield "all_reduce_coalesced", got, [total, 2 * total]
    got = [make(mine)]
    dist.reduce(got[0], ROOT)
    yield "reduce", got, [total if rank == ROOT else mine]
    got = [place(SHAPE)]
    dist.reduce_scatter(got[0], [make(mine + r) for r in range(size)])
    yield "reduce_scatter", got, [total + size * rank]
    got = [place((1, *SHAPE[1:]))]
    dist.reduce_scatter_tensor(got[0], make(mine))
    yield "reduce_scatter_tensor", got, [total[rank:rank + 1]]
    got = [place((1, *SHAPE[1:]))]
    group.reduce_scatter_single_coalesced(got, [make(mine)], None).wait()
    yield "reduce_scatter_single_coalesced", got, [total[rank:rank + 1]]


IN_PLACE = ("broadcast", "all_reduce", "all_reduce_coalesced", "reduce")


def check(kind, results, of=lambda values: values):
    for name, got, values in results:
        for tensor, expected in zip(got, values):
            same(f"{name} of {kind}", tensor.detach(), of(expected))
        yield name, got


def parameter(values):
    return torch.nn.Parameter(values.clone())


def of_what_requires_gradients(rank, size):
    """What is received has none, whatever was sent."""
    kinds = {"a result": lambda values: values.clone().requires_grad_() * 1, "a parameter": parameter}
    for kind, make in kinds.items():
        for collectives in moves, reductions:
            for name, got in check(kind, collectives(rank, size, make, torch.zeros)):
                assert name in IN_PLACE or not any(each.requires_grad for each in got), (name, kind)


def gradients(rank, group):
    """Of a loss whose negatives come from other ranks, without a gradient, into the same tensors in each step."""
    torch.manual_seed(rank)
    weight, inputs = torch.nn.Parameter(torch.eye(3)), torch.randn(2, 3)
    buffers = [torch.zeros(2, 3) for _ in range(dist.get_world_size())]
    result = []
    for _ in range(2):
        weight.grad = None
        embedded = inputs @ weight
        dist.all_gather(buffers, embedded, group=group)
        (embedded @ torch.cat(buffers).t()).exp().mean().backward()
        result.append(weight.grad)
    return torch.stack(result)


def gradients_are_those_of_gloo(rank, gloo):
    ours, reference = gradients(rank, None), gradients(rank, gloo)
    assert torch.equal(ours, reference), (ours, reference)


def what_was_saved_is_known_to_be_overwritten(size):
    """A backward pass that needs what was in the place of any rank's part before is refused."""
    for order in torch.clone, every_second:
        for r in range(size):
            weight, got = torch.ones(SHAPE, requires_grad=True), [order(torch.zeros(SHAPE)) for _ in range(size)]
            loss = (weight * got[r]).sum()
            dist.all_gather(got, torch.ones(SHAPE))
            try:
                loss.backward()
            except RuntimeError as error:
                assert "modified by an inplace operation" in str(error), error
            else:
                raise AssertionError(f"the part of rank {r}, {order.__name__}, was overwritten and used")


def into_parameters(rank, size):
    """They are received into, and stay what they are: leaves that require gradients."""
    def place(shape):
        return parameter(torch.zeros(shape))

    for collectives in moves, reductions:
        for name, got in check("what is received into parameters", collectives(rank, size, parameter, place)):
            assert all(each.is_leaf and each.requires_grad for each in got), name


def transposed(values):
    return values.transpose(0, 3).contiguous().transpose(0, 3)


def channels_last(values):
    return values.contiguous(memory_format=torch.channels_last)


def every_second(values):
    return torch.stack([values, values], -1)[..., 0]


def in_other_orders(rank, size):
    """In memory; what is sent, what is received into, and both."""
    for order in transposed, channels_last, every_second:
        def place(shape):
            return order(torch.zeros(shape))

        for kind, make, into in ("sent", order, torch.zeros), ("received", torch.clone, place), ("both", order, place):
            for collectives in moves, reductions:
                for _ in check(f"{order.__name__}, {kind}", collectives(rank, size, make, into)):
                    pass


TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64, torch.complex64, torch.complex128]


def of_every_type(rank, size):
    """What is only moved; in the usual order in memory, and transposed."""
    for dtype in TYPES:
        def of(values):
            return values % 5 > 2 if dtype == torch.bool else values.to(dtype)

        for order in torch.clone, transposed:
            def place(shape):
                return order(torch.zeros(shape, dtype=dtype))

            for _ in check(dtype, moves(rank, size, lambda values: order(of(values)), place), of):
                pass
    got = torch.zeros(size, dtype=torch.int16)
    dist.all_to_all_single(got, torch.arange(size, dtype=torch.int16), [1] * size, [1] * size)
    assert torch.equal(got, torch.full((size,), rank, dtype=torch.int16)), got
    empty = torch.zeros(0, 3, dtype=torch.bfloat16)
    dist.all_to_all_single(empty, empty.clone())
    one = [torch.tensor(False) for _ in range(size)] if rank == ROOT else None  # without dimensions
    dist.gather(torch.tensor(True), one, dst=ROOT)
    assert rank != ROOT or all(one), one


def into_memory_of_inference(rank):
    """It may be written in that mode alone, which the collective is not called in."""
    with torch.inference_mode():
        got = [torch.zeros(2) for _ in range(dist.get_world_size())]
    dist.all_gather(got, torch.full((2,), float(rank)))
    assert [each.tolist() for each in got] == [[float(r)] * 2 for r in range(len(got))], got


def from_memory_that_is_received_into(rank, size):
    """An input may lie where its output does, in another way."""
    def every(values):
        return [values + 10 * r for r in range(size)]

    numbers, square = torch.arange(6.) + 10 * rank, torch.arange(4.).view(2, 2) + 10 * rank
    turning = torch.complex(torch.arange(2.), torch.arange(2.) + 10 * rank)
    cases = {"every second": (numbers[:3], numbers[::2], every(torch.arange(0., 6., 2))),
             "transposed": (square.t(), square, every(torch.arange(4.).view(2, 2))),
             "negated": (turning.imag, turning.conj().imag, [-values for values in every(torch.arange(2.))])}
    for kind, (own, given, values) in cases.items():
        got = [torch.zeros_like(own) for _ in range(size)]
        got[rank] = own
        dist.all_gather(got, given)
        for r in range(size):
            same(f"all_gather of what is {kind}, of rank {r}", got[r], values[r])
    moved = torch.arange(4.) + 10 * rank
    got = [torch.zeros(3) for _ in range(size)]
    got[rank] = moved[1:]
    dist.all_gather(got, moved[:3])
    for r in range(size):
        same(f"all_gather to the next place, of rank {r}", got[r], every(torch.arange(3.))[r])


def into_what_is_sent(rank, size):
    """The result is what stays in a tensor that is an operation's input and output, and is copied as both."""
    parts = [every_second(of_rank(r)) for r in range(size)]
    got = parts[0] if rank == ROOT else torch.zeros(SHAPE)
    dist.scatter(got, parts if rank == ROOT else None, src=ROOT)
    same("scatter into a part", got, of_rank(rank))
    parts = [every_second(of_rank(rank)) for _ in range(size)]
    dist.gather(parts[0], parts if rank == ROOT else None, dst=ROOT)
    for r in range(size if rank == ROOT else 0):
        same(f"gather of a part, of rank {r}", parts[r], of_rank(r))


def whole(dtype):
    return torch.ones(512, 512, dtype=dtype)


KINDS_OF_WORKS = {"the servers'": (lambda: whole(torch.float32), dist.ReduceOp.SUM),
                  "gloo's": (lambda: whole(torch.int32).t(), dist.ReduceOp.BOR)}


def dropped(count, make, op):
    """References to the tensors of operations that are done, and that nobody has waited for."""
    result = []
    for _ in range(count):
        tensor = make()
        result.append(weakref.ref(tensor))
        work = dist.all_reduce(tensor, op, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)
    return result


def of_works_that_nobody_has(size):
    """They are let go; those of works that somebody has are not."""
    summand.works.KEPT_BYTES = 2 << 20
    for kind, (make, op) in KINDS_OF_WORKS.items():
        expected = make() * (size if op == dist.ReduceOp.SUM else 1)
        held = [dist.all_reduce(make(), op, async_op=True) for _ in range(8)]
        tensors = dropped(40, make, op)
        most = 2 * len(held)  # as those that are held are looked at, too
        limit = time.monotonic() + 60
        while True:
            left = sum(each() is not None for each in tensors)
            done = torch.tensor([left <= most or time.monotonic() > limit])
            dist.all_reduce(done, dist.ReduceOp.MIN)
            if done:
                break
            tensors += dropped(1, make, op)  # threads finish them
        assert left <= most, (kind, left)
        for work in held[:2]:
            work.wait()
        for work in held[:4]:
            same(kind, work.result()[0], expected)
        for work in held[4:]:
            same(kind, work.get_future().wait()[0], expected)


class Mark:
    """Is there as long as the graph that it is put into."""


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, mark):
        ctx.mark = mark
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def comes_about(condition):
    """Soon, as threads let go of what they have finished."""
    limit = time.monotonic() + 30
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.001)
    return True


def of_losses(rank, size):
    """An operation on one keeps its graph no longer than it takes, waited for or not."""
    def gather(loss):
        return dist.gather(loss, [torch.zeros(2) for _ in range(size)] if rank == ROOT else None, dst=ROOT, async_op=True)

    def send(loss):
        work = dist.isend(loss, (rank + 1) % size)
        dist.recv(torch.zeros(2), (rank - 1) % size)
        return work

    for start in lambda loss: dist.all_reduce(loss, async_op=True), gather, send:
        for is_waited_for in True, False:
            mark = Mark()
            loss, graph = Marked.apply(torch.ones(2, requires_grad=True), mark), weakref.ref(mark)
            work = start(loss)
            if is_waited_for:
                work.wait()
            del mark, loss, work
            assert comes_about(lambda: graph() is None), (start, is_waited_for)


def of_small_works_that_were_waited_for():
    """As many are kept as of those that nobody waits for, whoever does them."""
    kept, summand.works.KEPT = summand.works.KEPT, 20
    for make, op in (lambda: torch.ones(4), dist.ReduceOp.SUM), (lambda: torch.ones(4, 2, dtype=torch.int32).t(), dist.ReduceOp.BOR):
        for _ in range(5 * summand.works.KEPT):
            dist.all_reduce(make(), op)
        left = len(dist.group.WORLD._works.kept)
        assert left <= 2 * summand.works.KEPT, (op, left)
    summand.works.KEPT = kept


def works_that_are_asked_after_they_were_let_go(size):
    """As torch's C++ may, which has works that nobody in Python has."""
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    work.let_go()
    assert work.wait() and work.is_success() and work.result() == [] and work.get_future().wait() == []
    same("what was let go", tensor, torch.full((3,), float(size)))


def main():
    dist.init_process_group("summand")
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    gradients_are_those_of_gloo(rank, gloo)
    of_what_requires_gradients(rank, size)
    what_was_saved_is_known_to_be_overwritten(size)
    into_parameters(rank, size)
    in_other_orders(rank, size)
    of_every_type(rank, size)
    into_memory_of_inference(rank)
    from_memory_that_is_received_into(rank, size)
    into_what_is_sent(rank, size)
    of_works_that_nobody_has(size)
    of_losses(rank, size)
    of_small_works_that_were_waited_for()
    works_that_are_asked_after_they_were_let_go(size)
    dist.barrier()
    print(json.dumps({"rank": rank}), flush=True)
    dist.destroy_process_group()


main()
