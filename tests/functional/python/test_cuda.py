"""The Python package on memory of a CUDA device: the hook of DistributedDataParallel and the backend follow the current stream, give
futures of that device, and copy nothing on the caller's thread. The device is fake_device.py's, and torch's part is not tested."""

import debian_torch

debian_torch.require()

import contextlib
import datetime
import errno
import threading
import time
import unittest
import unittest.mock
import weakref

import fake_device

if not fake_device.is_here():
    debian_torch.skip("the fake CUDA driver was not built: there are no CUDA headers")
fake_device.use()

import torch
import torch.distributed as dist
from fake_device import DEVICE, DeviceTensor, Stream, in_stream
from programs import ProgramTest

import summand.backend
import summand.works
from summand.ddp import Communicator, Context, HookState, SummandError

RANKS = 3
COUNT = 200_000
KEPT = 2  # works of the backend's
ONE, TWO = 0x3F800000, 0x40000000  # 1.0 and 2.0


class CudaTest(ProgramTest):
    def setUp(self):
        super().setUp()
        patched = fake_device.patched()
        self.addCleanup(patched.close)
        self.server, self.address = self.start_server("--threads=2")
        self.together = threading.Barrier(RANKS)  # of all ranks

    def run_ranks(self, body):
        """body(rank) on a thread each; what one raises is raised."""
        errors = []

        def run(rank):
            try:
                with in_stream(Stream()):
                    body(rank)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(180)
        self.assertFalse(any(thread.is_alive() for thread in threads))
        for error in errors:
            raise error

    def communicator(self, context, rank, group="cuda"):
        return Communicator(context, group, rank, RANKS)

    def test_every_operation_of_a_communicator(self):
        def body(rank):
            with Context(servers=self.address) as context, self.communicator(context, rank) as communicator:
                tensor = DeviceTensor(torch.arange(float(COUNT)) * (rank + 1))
                total = torch.arange(float(COUNT)) * (RANKS * (RANKS + 1) / 2)
                out = DeviceTensor(torch.zeros(COUNT))
                self.assertIs(communicator.all_reduce(tensor, "sum", out), out)
                self.assertTrue(torch.equal(out.cpu(), total))
                communicator.reduce(tensor, 1)
                self.assertTrue(torch.equal(tensor.cpu(), total if rank == 1 else torch.arange(float(COUNT)) * (rank + 1)))
                communicator.broadcast_start(tensor, 1).wait()
                self.assertTrue(torch.equal(tensor.cpu(), total))

        self.run_ranks(body)

    def test_the_hook_follows_the_current_stream_and_its_future_the_device(self):
        def body(rank):
            context = Context(servers=self.address)
            with HookState(self.communicator(context, rank), context) as state:
                bucket = DeviceTensor(torch.full((COUNT,), -1.))
                state.average(DeviceTensor(torch.zeros(COUNT))).wait()  # memory is pinned now
                hold = fake_device.current.stream.hold() if rank == 0 else None
                bucket.fill_(ONE if rank else TWO, fake_device.current.stream)  # its kernel
                future = state.average(bucket)
                self.assertEqual(future.devices, [DEVICE])
                if hold:
                    self.assertFalse(future.done())
                    hold.fill_(1, Stream())
                self.assertIs(future.wait(), bucket)
                self.assertTrue(torch.equal(bucket.cpu(), torch.full((COUNT,), 4 / 3)))
                # Beside the program's streams: whoever waits for the future waits for nothing else.
                self.assertIsInstance(future.completed_in, Stream)
                self.assertIsNot(future.completed_in, fake_device.current.stream)

        self.run_ranks(body)

    def test_the_device_narrows_float32_to_the_same_bits_as_the_host(self):
        inputs = [torch.randn(COUNT, generator=torch.Generator().manual_seed(rank)) for rank in range(RANKS)]
        for wire, op in (("bf16", "sum"), ("fp16", "avg")):
            results = {}

            def body(rank):
                with Context(servers=self.address) as context, \
                        Communicator(context, f"narrow-{wire}", rank, RANKS, wire=wire) as communicator:
                    mine = inputs[rank].clone()
                    results["host", rank] = communicator.all_reduce(mine.clone(), op)
                    tensor, out = DeviceTensor(mine), DeviceTensor(torch.zeros(COUNT))
                    before = context.stats()["bytes_sent"]
                    self.assertIs(communicator.all_reduce(tensor, op, out), out)
                    self.assertLess(context.stats()["bytes_sent"] - before, COUNT * 2.2)
                    self.assertTrue(torch.equal(tensor.cpu(), mine))
                    results["device", rank] = out.cpu()
                    # Where one rank's memory is the host's it is the same operation.
                    mixed = tensor if rank else mine.clone()
                    results["mixed", rank] = communicator.all_reduce_start(mixed, op).wait().cpu()
                    out = DeviceTensor(torch.zeros(COUNT))
                    results["across", rank] = communicator.all_reduce(mine.clone() if rank else DeviceTensor(mine), op, out).cpu()
                    tensor = DeviceTensor(mine)
                    request = communicator.all_reduce_start(tensor, op)
                    while not request.done():
                        time.sleep(0.001)
                    results["done", rank] = tensor.cpu()
                    few = DeviceTensor(torch.full((1023,), 1 / 3))
                    self.assertEqual(communicator.all_reduce(few, "max").cpu()[0], torch.tensor(1 / 3))

            self.run_ranks(body)
            for way, result in results.items():
                self.assertTrue(torch.equal(result, results["host", 0]), f"{wire} {way}")

    def test_the_hook_narrows_on_the_device(self):
        def body(rank):
            context = Context(servers=self.address)
            with HookState(Communicator(context, "narrow", rank, RANKS, wire="bf16"), context) as state:
                bucket = DeviceTensor(torch.full((COUNT,), 1 + rank * 2.0 ** -10))  # one in bfloat16
                self.assertIs(state.average(bucket).wait(), bucket)
                self.assertTrue(torch.equal(bucket.cpu(), torch.ones(COUNT)))
                self.assertLess(context.stats()["bytes_sent"], COUNT * 2.2)

        self.run_ranks(body)

    def assert_capture_is_left_alone(self, call, what):
        fake_device.current.stream.capture()
        with self.assertRaises(SummandError, msg=what) as caught:
            call()
        self.assertEqual(caught.exception.code, errno.EINVAL, what)
        self.assertIn("cannot be captured into CUDA graphs", str(caught.exception))
        self.assertEqual(fake_device.current.stream.end_capture(), 0, what)

    def test_a_stream_that_is_captured_is_refused(self):
        def body(rank):
            for wire in "float32", "bf16":
                with Context(servers=self.address) as context, \
                        Communicator(context, f"captured-{wire}", rank, RANKS, wire=wire) as communicator:
                    tensor = DeviceTensor(torch.ones(COUNT))
                    for call in communicator.all_reduce, communicator.all_reduce_start, \
                            lambda each: communicator.reduce_start(each, 0), lambda each: communicator.broadcast_start(each, 0):
                        self.assert_capture_is_left_alone(lambda: call(tensor), wire)
                    self.assertTrue(torch.equal(communicator.all_reduce(tensor).cpu(), torch.full((COUNT,), float(RANKS))))

        self.run_ranks(body)

    def test_the_backend_refuses_a_stream_that_is_captured(self):
        store = dist.HashStore()

        def body(rank):
            group = self.backend(rank, store)
            self.use_backend_in_a_capture(group, rank)
            tensor = DeviceTensor(torch.ones(4))
            group.allreduce([tensor]).wait()
            self.assertTrue(torch.equal(tensor.cpu(), torch.full((4,), float(RANKS))))

        with self.patched_backend():
            self.run_ranks(body)

    def use_backend_in_a_capture(self, group, rank):
        bits, of_reduction = dist.AllreduceOptions(), dist.ReduceOptions()
        bits.reduceOp = dist.ReduceOp.BOR
        mine, whole = DeviceTensor(torch.ones(4)), DeviceTensor(torch.tensor([1]))
        column = fake_device.Column(torch.ones(4))
        parts = [DeviceTensor(torch.ones(4)) for _ in range(RANKS)]
        calls = {
            "all-reduce": lambda: group.allreduce([mine]),
            "all-reduce of a column": lambda: group.allreduce([column]),
            "all-reduces": lambda: group.allreduce_coalesced([mine, column]),
            "all-reduce of bits": lambda: group.allreduce([whole], bits),
            "reduce": lambda: group.reduce([column], of_reduction),
            "broadcast": lambda: group.broadcast([column], dist.BroadcastOptions()),
            "all-gather": lambda: group.allgather([parts], [mine]),
            "all-gathers": lambda: group.allgather_coalesced([[part] for part in parts], [mine]),
            "reduce-scatter": lambda: group.reduce_scatter([column], [parts]),
            "gather": lambda: group.gather([parts] if rank == 0 else [], [mine], dist.GatherOptions()),
            "scatter": lambda: group.scatter([mine], [parts] if rank == 0 else [], dist.ScatterOptions()),
            "all-to-all": lambda: group.alltoall(parts, parts),
            "all-to-all of one": lambda: group.all_to_all_single(mine, column, [], []),
            "send": lambda: group.send([mine], (rank + 1) % RANKS, 0),
            "receive": lambda: group.recv([mine], (rank + 1) % RANKS, 0),
            "receive from any": lambda: group.recv_anysource([mine], 0),
        }
        for what, call in calls.items():
            self.assert_capture_is_left_alone(call, what)
        begun = group.allreduce([whole], bits)  # before the capture, so that only its result is to be copied
        self.assert_capture_is_left_alone(begun.wait, "wait")
        begun.wait()

    def test_a_graph_that_a_thread_captures_is_left_alone_by_those_that_finish(self):
        """In CUDA's strictest mode. Rank 0 alone has a device; the others begin when it captures, so that all ends meanwhile."""
        store, captures = dist.HashStore(), threading.Event()
        to_host = dist.AllreduceOptions()
        to_host.reduceOp = dist.ReduceOp.BOR

        def body(rank):
            context = Context(servers=self.address)
            group = self.backend(rank, store)
            column = fake_device.Column if rank == 0 else torch.Tensor.clone
            with HookState(Communicator(context, "beside", rank, RANKS), context) as hook, \
                    Communicator(context, "beside-narrow", rank, RANKS, wire="bf16") as narrow:
                tensors = [torch.ones(COUNT), torch.ones(COUNT), torch.ones(4), torch.ones(4), torch.tensor([1])]
                if rank == 0:
                    tensors = [DeviceTensor(each) for each in tensors]
                else:
                    self.assertTrue(captures.wait(60))
                tensors[3] = column(tensors[3].cpu())
                ends = [hook.average(tensors[0]), narrow.all_reduce_start(tensors[1])]
                works = [group.allreduce([each]) for each in tensors[2:4]] + [group.allreduce(tensors[4:], to_host)]
                ends += [work.get_future() for work in works]
                if rank == 0:
                    captured = Stream()
                    captured.capture(fake_device.GLOBAL)
                    captures.set()
                results = [end.wait() for end in ends]
                if rank == 0:
                    self.assertEqual(captured.end_capture(), 0)
                self.assertIs(results[1], tensors[1])
                for each, total in zip(tensors, (1., RANKS, RANKS, RANKS, 1)):
                    self.assertEqual(each.cpu()[-1].item(), total)

        with self.patched_backend():
            self.run_ranks(body)

    def test_the_backend(self):
        store = dist.HashStore()
        with self.patched_backend():
            self.run_ranks(lambda rank: self.use_backend(rank, store))

    @contextlib.contextmanager
    def patched_backend(self):
        with unittest.mock.patch.dict("os.environ", SUMMAND_REDUCTION_SERVERS=self.address, GLOO_SOCKET_IFNAME="lo"), \
                unittest.mock.patch.object(summand.backend, "_shared_context", Context), \
                unittest.mock.patch.object(summand.works, "KEPT", KEPT):
            yield

    def backend(self, rank, store):
        return summand.backend.SummandProcessGroup(store, rank, RANKS, datetime.timedelta(seconds=60))

    def use_backend(self, rank, store):
        group = self.backend(rank, store)
        tensor = DeviceTensor(torch.full((1000,), float(rank)))
        work = group.allreduce([tensor])
        self.assertTrue(work.wait())
        self.assertTrue(torch.equal(tensor.cpu(), torch.full((1000,), 3.)))
        self.assertEqual(work._future.devices, [DEVICE])
        self.assertIsInstance(work._future.completed_in, Stream)
        parts = [DeviceTensor(torch.zeros(5)) for _ in range(RANKS)]
        group.allgather([parts], [DeviceTensor(torch.full((5,), float(rank)))]).wait()
        self.assertEqual([part.cpu()[4].item() for part in parts], [0., 1., 2.])
        mine = DeviceTensor(torch.zeros(5))
        group.reduce_scatter([mine], [[DeviceTensor(torch.full((5,), float(rank + part))) for part in range(RANKS)]]).wait()
        self.assertTrue(torch.equal(mine.cpu(), torch.full((5,), 3. + RANKS * rank)))
        # Through the host's memory, by gloo:
        bits = DeviceTensor(torch.tensor([1 << rank]))
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.BOR
        group.allreduce([bits], options).wait()
        self.assertEqual(bits.cpu().item(), 7)
        message = DeviceTensor(torch.full((3,), float(rank)))
        if rank == 0:
            group.send([message], 1, 0).wait()
        elif rank == 1:
            group.recv([message], 0, 0).wait()
            self.assertTrue(torch.equal(message.cpu(), torch.zeros(3)))
        group.barrier().wait()
        self.use_what_is_copied(group, rank)

    def use_what_is_copied(self, group, rank):
        """gloo's operations have what others have: the rest of torch asks some for it, and drops some unasked."""
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.BOR
        bits = DeviceTensor(torch.tensor([1 << rank]))
        work = group.allreduce([bits], options)
        future = work.get_future()
        self.assertEqual(work._future.devices, [DEVICE])
        self.assertEqual(future.wait(), [bits])
        self.assertEqual(bits.cpu().item(), 7)
        self.assertEqual(work.result(), [bits])
        self.assertTrue(work.is_completed() and work.is_success())
        self.assertIsNone(work.exception())
        refused = group.allreduce([DeviceTensor(torch.ones(1))], options)  # bits of floating-point numbers
        with self.assertRaises(RuntimeError):
            refused.get_future().wait()
        with self.assertRaises(RuntimeError):
            refused.wait()
        self.assertIsInstance(refused.exception(), RuntimeError)
        self.assertTrue(refused.is_completed() and not refused.is_success())
        # A message that is awaited holds up none that comes before it.
        late, early = (DeviceTensor(torch.full((3,), 4. + rank)) for _ in range(2))
        if rank == 0:
            awaited = group.recv([late], 1, 1)
            first = group.recv_anysource([early], 2)
            first.wait()
            self.assertEqual((first._source_rank(), early.cpu()[2].item()), (1, 5.))
            self.assertFalse(awaited.is_completed())
            with self.assertRaisesRegex(SummandError, "must be done within the timeout of 0.01 s"):
                awaited.wait(datetime.timedelta(seconds=0.01))
        elif rank == 1:
            group.send([early], 0, 2).wait()
        group.barrier().wait()
        if rank == 0:
            awaited.wait()
            self.assertEqual(late.cpu()[2].item(), 5.)
        elif rank == 1:
            group.send([late], 0, 1).wait()
        # Of those that nobody has waited for, the last KEPT keep their tensors.
        dropped = [DeviceTensor(torch.tensor([1])) for _ in range(KEPT + 3)]
        left = weakref.WeakSet(dropped)
        for each in dropped:
            group.allreduce([each], options)
        del dropped, each
        group.barrier().wait()
        for _ in range(10):  # as many on all ranks; each looks after those before
            time.sleep(0.02)
            group.allreduce([DeviceTensor(torch.tensor([1]))], options).wait()
        until = time.monotonic() + 60  # threads that finish the last of them may be late
        while len(left) > KEPT and time.monotonic() < until:
            time.sleep(0.01)
        self.assertLessEqual(len(left), KEPT)
        # Who only drops a message that never comes has no thread for it, and ends as others do. No rank starts others meanwhile.
        self.together.wait(60)
        threads = threading.active_count()
        group.recv([DeviceTensor(torch.zeros(1))], (rank + 1) % RANKS, 99)
        self.assertLessEqual(threading.active_count(), threads)
        self.together.wait(60)
        # Memory of inference may be written in that mode only, which is a thread's own.
        modes = []

        class Written(DeviceTensor):
            def copy_(self, *arguments):
                modes.append(torch.is_inference_mode_enabled())
                return super().copy_(*arguments)

        written = Written(torch.tensor([1 << rank]))
        group.allreduce([written], options).get_future().wait()
        self.assertEqual((written.cpu().item(), modes[-1]), (7, True))


if __name__ == "__main__":
    unittest.main(verbosity=2)
