"""Summand as a backend of torch.distributed, for tensors in the memory of the CPU and of CUDA devices.

    import summand.backend
    dist.init_process_group("summand")           # in place of "gloo"; nothing else of the program changes

All-reduce, reduce, broadcast, barrier, all-gather and reduce-scatter go through the reduction servers, which the environment names.
What they cannot do goes through a gloo group beside, of CUDA devices through the host's memory: gather, scatter, all-to-all, send
and receive, and types and reductions that Summand does not know. specs/guide/pytorch.md has the table.
"""

import inspect
import os
import socket
import sys
import threading

import torch
import torch.distributed as dist

from summand import device
from summand.ddp import BYTES, DTYPES, GLOO_DTYPES, Communicator, Context, names
from summand.error import SummandError
from summand.in_order import InOrder
from summand.works import NAME, Copied, Work, Works

END_S = 30  # for what is in flight when a group is dropped
OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.PRODUCT: "prod", dist.ReduceOp.MAX: "max", dist.ReduceOp.MIN: "min",
       dist.ReduceOp.AVG: "avg"}
BOOL_OPS = {"sum": "max", "max": "max", "prod": "min", "min": "min"}  # of its bytes, which are 0 or 1
ALL, NONE, FIRST, BUT_FIRST = slice(None), slice(0), slice(1), slice(1, None)  # of an operation's tensors: which it changes
OTHER_OPS = {dist.ReduceOp.BAND: "band", dist.ReduceOp.BOR: "bor", dist.ReduceOp.BXOR: "bxor",  # gloo's alone, and NCCL's
             dist.ReduceOp.PREMUL_SUM: "premul_sum"}

_context = None  # this process's place in the pool, of all groups
_lock = threading.Lock()


def _shared_context():
    global _context
    with _lock:
        if _context is None or _context[0] != os.getpid():  # a fork has no connections
            _context = os.getpid(), Context()
        return _context[1]


def _op_name(op, ops=OPS):
    # From torch 2 on it is an object that knows what it equals, which the constants do not.
    return next((name for known, name in ops.items() if op == known), None)


def _op_on(tensor, op):
    """The name of Summand's reduction that does it to this tensor, which for bool is one of its bytes; None: there is none."""
    name = _op_name(op)
    if tensor.layout != torch.strided:
        return None
    return BOOL_OPS.get(name) if tensor.dtype == torch.bool else name if tensor.dtype in DTYPES else None


def _check_type(what, tensor, op):
    """Of what Summand does not reduce: gloo has no more types, and its error names none."""
    if tensor.layout == torch.strided and tensor.dtype != torch.bool and tensor.dtype not in DTYPES:
        use = "use torch.view_as_real() of it" if tensor.is_complex() else "convert it with Tensor.to()"
        raise SummandError(0, f"{what}: the type must be one of {names(DTYPES)}, bool, got {names([tensor.dtype])}; {use}")
    if tensor.dtype == torch.bool and _op_name(op) == "avg":
        raise SummandError(0, f"{what}: the reduction of bool must be one of {names(BOOL_OPS)}, got avg; convert it with "
                              "Tensor.to()")


def _moved(tensor, known=DTYPES):
    """What is only moved may be of any type, and bool is reduced as bytes: those of an element are one more dimension."""
    return tensor if tensor.dtype in known else tensor.unsqueeze(-1).view(BYTES)


def _plain(tensor):
    """With no bit beside its memory that conjugates or negates what is there."""
    return tensor.resolve_conj().resolve_neg()


def _bare(tensor):
    """The same memory, which no gradient follows."""
    return tensor.detach() if tensor.requires_grad else tensor


def _in_one_piece(tensor):
    return _plain(_bare(tensor).contiguous())


def _on_host(tensor):
    """As gloo takes it: it reads and writes memory from a tensor's beginning on, in the order that it is in."""
    return _in_one_piece(_bare(tensor).cpu())


def _on_host_without_bool(tensor):
    host = _on_host(tensor)
    return host.to(BYTES) if host.dtype == torch.bool else host


class _OlderNames:
    """What torch calls since 2026 by the names that SummandProcessGroup has, by those of before. Beside it, because torch refuses
    a group that has both itself."""

    def _allgather_base(self, *arguments):
        return self.all_gather_single(*arguments)

    def allgather_into_tensor_coalesced(self, *arguments):
        return self.all_gather_single_coalesced(*arguments)

    def _reduce_scatter_base(self, *arguments):
        return self.reduce_scatter_single(*arguments)

    def reduce_scatter_tensor_coalesced(self, *arguments):
        return self.reduce_scatter_single_coalesced(*arguments)

    def alltoall_base(self, *arguments):
        return self.all_to_all_single(*arguments)

    def _start_coalescing(self, *arguments):
        self.start_coalescing(*arguments)

    def _end_coalescing(self, *arguments):
        return self.end_coalescing(*arguments)

    def recvAnysource(self, *arguments):  # torch's C++ has it so
        return self.recv_anysource(*arguments)


class SummandProcessGroup(_OlderNames, dist.ProcessGroup):
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
        self._works = Works()
        self._coalesced = None  # what has begun since torch said that it is to be one, and nobody has waited for
        self._started = InOrder("summand-torch", self._works.finish)  # which holds no group: that ends when nobody else does

    # ---- what torch asks of a backend ----

    def getBackendName(self):  # torch's name for it
        return NAME

    def _get_backend_name(self):
        return NAME

    # Torch asks what is behind a group for a device, as init_process_group(device_id=...) does: the group itself, which can do
    # none of what it asks for then.
    def _get_backend(self, _device):
        return self

    supports_splitting = supports_coalescing = supports_time_estimate = False

    @property
    def group_name(self):  # by which torch's functional collectives find it, from torch 2.1 on
        return dist.distributed_c10d._world.pg_names[self]

    pg_name = group_name

    # ---- operations through the servers ----

    def allreduce(self, tensors, opts=None):
        op = opts.reduceOp if opts else dist.ReduceOp.SUM
        if not self._is_ours("all_reduce", tensors, op):
            return self._copied(lambda *ours: self._gloo.allreduce(list(ours), opts if opts else dist.AllreduceOptions()),
                                tensors, ALL, _on_host_without_bool)
        return self._start(tensors, lambda each: self._communicator.all_reduce_start(_moved(each), _op_on(each, op)))

    def allreduce_coalesced(self, tensors, opts=None):
        op = opts.reduceOp if opts else dist.ReduceOp.SUM
        if not self._is_ours("all_reduce_coalesced", tensors, op):
            return self._copied(lambda *ours: self._gloo.allreduce_coalesced(list(ours), opts), tensors, ALL,
                                _on_host_without_bool)
        return self._start(tensors, lambda each: self._communicator.all_reduce_start(_moved(each), _op_on(each, op)))

    def reduce(self, tensors, opts):
        op = opts.reduceOp
        if not self._is_ours("reduce", tensors, op):
            return self._copied(lambda *ours: self._gloo.reduce(list(ours), opts), tensors,
                                ALL if self.rank() == opts.rootRank else NONE, _on_host_without_bool)
        return self._start(tensors, lambda each: self._communicator.reduce_start(_moved(each), opts.rootRank, _op_on(each, op)),
                           changes=self.rank() == opts.rootRank)

    def broadcast(self, tensors, opts):
        self._check_devices(tensors)
        return self._start(tensors, lambda each: self._communicator.broadcast_start(_moved(each), opts.rootRank))

    def barrier(self, opts=None):
        # As an operation, so that it comes behind those that were started before.
        return self._start([torch.zeros(1, device="cpu")], lambda each: self._communicator.all_reduce_start(each, "sum"))

    def allgather(self, outputs, inputs, opts=None):
        """Each rank's part is broadcast to the others: it crosses the network once from there, and once to each. Parts may have
        different sizes."""
        own = outputs[0][self.rank()]
        if own.numel() != inputs[0].numel():
            raise SummandError(0, f"all_gather: rank {self.rank()}'s part must have {inputs[0].numel()} elements, as its input "
                                  f"has, got {own.numel()}")
        return self._gather_parts([outputs[0]], inputs)

    def all_gather_single(self, output, part, opts=None):
        return self.allgather([self._parts(output, part)], [part])

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """outputs: of each rank, of each input its part."""
        return self._gather_parts([list(parts) for parts in zip(*outputs)], inputs)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return self._gather_parts([self._parts(output, part) for output, part in zip(outputs, inputs)], inputs)

    def reduce_scatter(self, outputs, inputs, opts=None):
        """Each rank's part is reduced to it alone."""
        return self._scatter_parts(outputs, inputs, opts)

    def reduce_scatter_single(self, output, whole, opts=None):
        return self._scatter_parts([output], [self._parts(whole, output)], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return self._scatter_parts(outputs, [self._parts(whole, output) for output, whole in zip(outputs, inputs)], opts)

    def _parts(self, whole, part):
        """Of each rank, as large as the part that is given."""
        return list(_bare(whole).view(self.size(), *part.shape).unbind())

    def _gather_parts(self, outputs, inputs):
        """outputs: of each input, of each rank its part."""
        self._check_devices([*inputs, *(part for parts in outputs for part in parts)])
        own = [parts[self.rank()] for parts in outputs]
        device.copy([(place, _bare(part).reshape(place.shape)) for place, part in zip(own, inputs)])
        flat = [part for parts in outputs for part in parts]
        device.begin_to_write(flat)
        roots = iter(list(range(self.size())) * len(outputs))
        return self._start(flat, lambda each: self._communicator.broadcast_start(_moved(each), next(roots)), result=outputs[0])

    def _scatter_parts(self, outputs, inputs, opts):
        """inputs: of each output, of each rank its part."""
        op = opts.reduceOp if opts else dist.ReduceOp.SUM
        flat = [part for parts in inputs for part in parts]
        if not self._is_ours("reduce_scatter", flat + outputs, op):
            raise SummandError(0, f"reduce_scatter: the reduction must be one of {names(OPS.values())} of dense tensors, got "
                                  f"{_op_name(op, {**OPS, **OTHER_OPS}) or op} of {names({each.layout for each in flat + outputs})}")
        roots = iter(list(range(self.size())) * len(outputs))
        mine = [_in_one_piece(output) for output in outputs]
        places = iter([mine[i] if root == self.rank() else None for i in range(len(outputs)) for root in range(self.size())])

        def start(each):
            place = next(places)
            return self._communicator.reduce_start(_moved(each), next(roots), _op_on(each, op),
                                                   out=None if place is None else _moved(place))

        return self._start(flat, start, changes=list(zip(outputs, mine)), result=outputs)

    # ---- operations beside them ----

    def gather(self, outputs, inputs, opts):
        parts = outputs[0] if outputs else []
        return self._copied(lambda *ours: self._gloo.gather([ours[1:]] if parts else [], [ours[0]], opts),
                            [inputs[0], *parts], BUT_FIRST, known=GLOO_DTYPES)

    def scatter(self, outputs, inputs, opts):
        parts = inputs[0] if inputs else []
        return self._copied(lambda *ours: self._gloo.scatter([ours[0]], [ours[1:]] if parts else [], opts),
                            [outputs[0], *parts], FIRST, known=GLOO_DTYPES)

    def all_to_all_single(self, output, whole, *rest):
        return self._copied(lambda *ours: self._gloo.alltoall_base(*ours, *rest), [output, whole], FIRST, known=GLOO_DTYPES)

    def alltoall(self, outputs, inputs, *rest):
        """As one tensor, since gloo knows no other."""
        self._check_devices([*outputs, *inputs])
        sizes = [[each.numel() for each in parts] for parts in (outputs, inputs)]
        whole = _on_host(torch.cat([_bare(each).reshape(-1) for each in inputs]))
        output = whole.new_empty(sum(sizes[0]))
        pairs = list(zip(outputs, (part.view(place.shape) for part, place in zip(output.split(sizes[0]), outputs))))
        return self._copied_back(self._gloo.alltoall_base(_moved(output, GLOO_DTYPES), _moved(whole, GLOO_DTYPES), *sizes, *rest),
                                 outputs, pairs)

    def send(self, tensors, to, tag):
        return self._copied(lambda *ours: self._gloo.send(list(ours), to, tag), tensors, NONE)

    def recv(self, tensors, source, tag):
        return self._copied(lambda *ours: self._gloo.recv(list(ours), source, tag), tensors, ALL)

    def recv_anysource(self, tensors, tag):
        return self._copied(lambda *ours: self._gloo.recv_anysource(list(ours), tag), tensors, ALL)

    def start_coalescing(self, _device=None):
        """It may be that no end follows: torch says none where the program raises before."""
        self._coalesced = {}

    def end_coalescing(self, _device=None, *_works):
        """What has begun since then is one to be waited for: on a thread of its own, as there may be messages among it that come
        late."""
        works, self._coalesced = list((self._coalesced or {}).values()), None
        tensors = [tensor for work in works for tensor in getattr(work, "_tensors", [])]
        work = Work(device.future(tensors), tensors, self._works.kept, self._limit, self._communicator)
        self._started.put_beside((work, works, []))
        return work

    # Where a group has gloo's name, as in torch's own tests; of others torch says that they have none.
    def monitored_barrier(self, *arguments, **named):
        return self._gloo.monitored_barrier(*arguments, **named)

    def _set_sequence_number_for_group(self):
        self._gloo._set_sequence_number_for_group()

    def _get_sequence_number_for_group(self):
        return self._gloo._get_sequence_number_for_group()

    # ---- how they are waited for ----

    @staticmethod
    def _check_devices(tensors):
        """Before they are touched."""
        for tensor in tensors:
            if tensor.device.type not in device.KINDS:
                raise SummandError(0, f"backend {NAME}: tensors must be on the CPU or a CUDA device, got one on {tensor.device}")
        device.check_capture(tensors)

    def _is_ours(self, what, tensors, op):
        """Whether the servers do that to them; else gloo may, but not if it has no such type."""
        self._check_devices(tensors)
        if all(_op_on(tensor, op) for tensor in tensors):
            return True
        for tensor in tensors:
            _check_type(what, tensor, op)
        return False

    def _copied(self, start, tensors, changes, copy=_on_host, known=None):
        """An operation of gloo's, on copies where it does not know the device, or how the tensor is in its memory; and on bytes if
        there are types that it knows alone. `changes` is a place among them, as one tensor may be there twice."""
        self._check_devices(tensors)
        copies = [copy(tensor) for tensor in tensors]
        given = [_moved(each, known) for each in copies] if known else copies
        # Gloo's own work can be waited for once: where it is one of several that are coalesced, it is, with these.
        if self._coalesced is None and all(ours is tensor for ours, tensor in zip(given, tensors)):
            return self._begun(start(*tensors))
        return self._copied_back(start(*given), tensors, list(zip(tensors, copies))[changes])

    def _copied_back(self, gloo, tensors, pairs):
        """What gloo has begun."""
        work = Copied(gloo, pairs, self._started.put_beside, self._works.ended, device.future(tensors),
                      [tensor for tensor, _ in pairs] or tensors, self._works.kept, self._limit)
        self._works.unclaimed(work)
        return self._begun(work)

    def _start(self, tensors, start, changes=True, result=None):
        """Starts one operation for each tensor. One that is not contiguous, or is conjugated or negated by a bit beside its
        memory, has a copy of its own in its place, which is copied back if the operation changes it; or `changes` are pairs of
        what is to be written and from where."""
        result = tensors if result is None else result
        copies = [_in_one_piece(tensor) for tensor in tensors]
        requests = [start(copy) for copy in copies]
        work = Work(device.future(tensors), result, self._works.kept, self._limit, self._communicator)
        pairs = list(zip(tensors, copies)) if changes is True else (changes or [])
        self._started.put((work, requests, pairs))
        return self._begun(work)

    def _begun(self, work):
        if self._coalesced is not None:
            work.coalesce(self._coalesced)
        return work

    def __del__(self):
        # At the end of the interpreter its thread has ended, and the process's end says the rest.
        if hasattr(self, "_started") and sys and not sys.is_finalizing():
            # What hangs, it leaves to the process's end: whoever waits for it has its timeout.
            if self._started.end(END_S):
                self._communicator.close()


def _create(store, rank, size, timeout):
    return SummandProcessGroup(store, rank, size, timeout)


def _register():
    # From torch 2.0 on a backend says which devices it is for; 1.13 asks every backend for every tensor.
    known = inspect.signature(dist.Backend.register_backend).parameters
    dist.Backend.register_backend(NAME, _create, **({"devices": list(device.KINDS)} if "devices" in known else {}))


_register()
