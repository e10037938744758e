"""summand_ddp against torch's own arithmetic: every type and operation, in place and not, blocking and not; errors."""

import debian_torch

debian_torch.require()

import errno
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import summand_ddp
import torch
from programs import ProgramTest
from summand_ddp import Communicator, Context, SummandError

RANKS = 4
SHIFTS = [0, 1, -1, 0]  # of each rank's values 1, 2, 3: every result is exact in every type, averages too
COUNT = 1001
PATIENCE_S = 180  # only what hangs takes longer, also where other work has the processors


def values(rank, dtype):
    return (torch.arange(COUNT) % 3 + 1 + SHIFTS[rank]).to(dtype)


def expected(op, dtype):
    stack = torch.stack([values(rank, torch.int64) for rank in range(RANKS)])
    result = {"sum": stack.sum(0), "prod": stack.prod(0), "min": stack.amin(0), "max": stack.amax(0),
              "avg": stack.sum(0) // RANKS}[op]
    return result.to(dtype)


class BindingTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.servers = ",".join(self.start_server("--threads=1")[1] for _ in range(2))

    def in_ranks(self, work, count=RANKS):
        """Runs work(communicator) as every rank, each in a thread; returns what they returned, or raised."""
        results = [None] * count

        def run(rank):
            try:
                with Context(servers=self.servers, replica=f"rank-{rank}") as context:
                    results[rank] = work(Communicator(context, "binding", rank, count))
            except Exception as error:  # for the test to judge
                results[rank] = error

        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            self.assertFalse(thread.is_alive(), "a rank hangs")
        return results

    def of_all(self, work, count=RANKS):
        results = self.in_ranks(work, count)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def test_every_type_and_operation(self):
        cases = [(dtype, op) for dtype in summand_ddp.DTYPES for op in summand_ddp.OPS]

        self.assertEqual(len(cases), 8 * 5)
        results = self.of_all(lambda communicator: {
            (dtype, op): communicator.all_reduce(values(communicator.rank, dtype), op) for dtype, op in cases})
        for rank, got in enumerate(results):
            for dtype, op in cases:
                with self.subTest(rank=rank, dtype=dtype, op=op):
                    self.assertTrue(torch.equal(got[dtype, op], expected(op, dtype)), got[dtype, op])

    def test_in_flight_and_out_of_place(self):
        def work(communicator):
            inputs = [values(communicator.rank, torch.float32) * factor for factor in range(8)]
            requests = [communicator.all_reduce_start(each, out=torch.empty(COUNT)) for each in inputs]
            results = [request.wait() for request in reversed(requests)][::-1]
            self.assertTrue(all(request.done() for request in requests))
            self.assertIs(requests[3].wait(), results[3])
            communicator.barrier()
            return inputs, results

        for rank, (inputs, results) in enumerate(self.of_all(work)):
            for factor in range(8):
                self.assertTrue(torch.equal(inputs[factor], values(rank, torch.float32) * factor))
                self.assertTrue(torch.equal(results[factor], expected("sum", torch.float32) * factor))

    def test_half_the_bytes_on_the_wire(self):
        count = 100000
        exact = [torch.arange(count, dtype=torch.float32).mul_(0.001).add_(rank) for rank in range(RANKS)]

        def work(rank, wire, context):
            with Communicator(context, f"wire-{wire}", rank, RANKS, wire=wire) as communicator:
                before = context.stats()["bytes_sent"]
                result = communicator.all_reduce(exact[rank].clone())
                return result, context.stats()["bytes_sent"] - before

        def in_context(communicator):
            return {wire: work(communicator.rank, wire, communicator._context) for wire in summand_ddp.WIRES}

        results = self.of_all(in_context)
        for wire, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("float32", torch.float32)):
            total = sum(each.to(dtype).to(torch.float32) for each in exact).to(dtype).to(torch.float32)
            for got, sent in (result[wire] for result in results):
                self.assertTrue(torch.equal(got, total), wire)
                bytes_each = 4 if wire == "float32" else 2
                self.assertGreaterEqual(sent, bytes_each * count)
                self.assertLess(sent, 1.2 * bytes_each * count)
        with self.assertRaisesRegex(SummandError, "wire must be one of float32, bf16, fp16, got 'int8'"):
            Communicator(None, "wrong", 0, 1, wire="int8")

    def test_registered_memory(self):
        def work(communicator):
            context, whole = communicator._context, torch.empty(3 * COUNT)
            context.register(whole)
            context.register(whole)
            part = whole[COUNT:2 * COUNT].copy_(values(communicator.rank, torch.float32))
            communicator.all_reduce(part)
            with self.assertRaisesRegex(SummandError, "must not overlap other registered memory"):
                context.register(part)
            with self.assertRaisesRegex(SummandError, "must be contiguous"):
                context.register(torch.empty(4, 4).t())
            context.deregister(whole)
            context.deregister(whole)
            with self.assertRaisesRegex(SummandError, "must be registered as they are"):
                context.deregister(whole)
            return part

        for part in self.of_all(work):
            self.assertTrue(torch.equal(part, expected("sum", torch.float32)))

    def test_a_hook_registers_the_buckets_that_there_are(self):
        with Context(servers=self.servers) as context, Communicator(context, "buckets", 0, 1) as communicator:
            buckets = [torch.ones(COUNT) for _ in range(3)]
            state = summand_ddp.HookState(communicator)
            for index, bucket in ((0, 0), (1, 1), (0, 0), (1, 2)):
                state.register(index, buckets[bucket])
            self.assertEqual([id(each) for each in context._registered], [id(buckets[0]), id(buckets[2])])
            state.close()
            self.assertEqual(context._registered, [])

    def test_what_nobody_waits_for_is_waited_for_at_the_end(self):
        def work(communicator):
            tensor = values(communicator.rank, torch.float32)
            communicator.all_reduce_start(tensor)
            return tensor

        for tensor in self.of_all(work):
            self.assertTrue(torch.equal(tensor, expected("sum", torch.float32)))

    def test_a_fork_forgets_what_its_parent_waits_for(self):
        """As DataLoader's workers do: the fork ends, with the parent's communicator among its objects."""
        children = queue.Queue()

        def work(communicator):
            if communicator.rank == 1:  # only now, so that rank 0 forks while it waits
                status = self.ended(children.get(timeout=PATIENCE_S))
                return status, communicator.all_reduce(torch.ones(1))
            started = communicator.all_reduce_start(torch.ones(1))
            child = os.fork()
            if child == 0:
                communicator.close()
                os._exit(len(communicator._pending))
            children.put(child)
            return started.wait()

        first, (status, second) = self.of_all(work, 2)
        self.assertEqual((status, first.tolist(), second.tolist()), (0, [2.0], [2.0]))

    def ended(self, child):
        """How the child ended, which must be soon."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.fail("the fork waits for what its parent has started")

    def test_reduce_gives_the_result_to_the_root_alone(self):
        cases = [(dtype, op) for dtype in summand_ddp.DTYPES for op in summand_ddp.OPS]

        def work(communicator):
            kept = {}
            for i, (dtype, op) in enumerate(cases):
                tensor = values(communicator.rank, dtype)
                kept[dtype, op] = communicator.reduce(tensor, i % RANKS, op), tensor
            return kept

        results = self.of_all(work)
        for i, (dtype, op) in enumerate(cases):
            for rank, kept in enumerate(results):
                got, tensor = kept[dtype, op]
                with self.subTest(rank=rank, dtype=dtype, op=op, root=i % RANKS):
                    if rank == i % RANKS:
                        self.assertIs(got, tensor)
                        self.assertTrue(torch.equal(tensor, expected(op, dtype)), tensor)
                    else:
                        self.assertIsNone(got)
                        self.assertTrue(torch.equal(tensor, values(rank, dtype)), tensor)

    def test_broadcast_gives_everyone_what_the_root_has(self):
        roots = {dtype: i % RANKS for i, dtype in enumerate(summand_ddp.DTYPES)}

        def work(communicator):
            tensors = {dtype: values(communicator.rank, dtype) for dtype in roots}
            for dtype, root in roots.items():
                self.assertIs(communicator.broadcast(tensors[dtype], root), tensors[dtype])
            return tensors

        for rank, tensors in enumerate(self.of_all(work)):
            for dtype, root in roots.items():
                with self.subTest(rank=rank, dtype=dtype, root=root):
                    self.assertTrue(torch.equal(tensors[dtype], values(root, dtype)), tensors[dtype])

    def test_reduce_and_broadcast_in_flight(self):
        def work(communicator):
            tensor, out = values(communicator.rank, torch.float32), torch.zeros(COUNT)
            told = values(communicator.rank, torch.int64)
            requests = [communicator.reduce_start(tensor, 2, "max", out=out), communicator.broadcast_start(told, 1)]
            results = [request.wait() for request in reversed(requests)][::-1]
            self.assertIs(results[0], out if communicator.rank == 2 else None)
            self.assertIs(results[1], told)
            return tensor, out, told

        for rank, (tensor, out, told) in enumerate(self.of_all(work)):
            self.assertTrue(torch.equal(tensor, values(rank, torch.float32)))
            self.assertTrue(torch.equal(out, expected("max", torch.float32) if rank == 2 else torch.zeros(COUNT)))
            self.assertTrue(torch.equal(told, values(1, torch.int64)))

    def test_no_elements(self):
        self.of_all(lambda communicator: communicator.all_reduce(torch.empty(0)))

    def test_statistics(self):
        def work(communicator):
            communicator.all_reduce(torch.ones(COUNT))
            return communicator._context.stats()

        stats = self.of_all(work)[0]
        self.assertEqual((stats["operations"], stats["bytes_reduced"]), (1, COUNT * 4))
        self.assertGreater(stats["bytes_sent"], COUNT * 4)

    def assert_refused(self, text, call, *arguments, **named):
        with self.assertRaises(SummandError) as caught:
            call(*arguments, **named)
        self.assertIn(text, str(caught.exception))
        return caught.exception

    def test_refused_arguments(self):
        def work(communicator):
            reduce = communicator.all_reduce
            self.assert_refused("contiguous and on the CPU or a CUDA device, got torch.strided with strides (1, 3)", reduce,
                                torch.ones(2, 3).t())
            self.assert_refused("contiguous and on the CPU or a CUDA device, got torch.sparse_coo", reduce, torch.ones(3).to_sparse())
            self.assert_refused("contiguous and on the CPU", reduce, torch.ones(3, device="meta"))
            self.assert_refused("got torch.complex64", reduce, torch.ones(3, dtype=torch.complex64))
            self.assert_refused("must be one of sum, prod, max, min, avg, got 'mean'", reduce, torch.ones(3), "mean")
            self.assert_refused("out must have 3 elements", reduce, torch.ones(3), out=torch.ones(4))
            self.assert_refused("the root must be a rank below 1, got 1", communicator.reduce, torch.ones(3), 1)
            self.assert_refused("must be one of sum", communicator.reduce_start, torch.ones(3), 0, "mean")
            self.assert_refused("the root must be a rank below 1, got 7", communicator.broadcast_start, torch.ones(3),
                                7)
            self.assert_refused("contiguous and on the CPU", communicator.broadcast, torch.ones(2, 3).t(), 0)
            overlapping = torch.ones(8)
            self.assert_refused("must not overlap", reduce, overlapping[:4], out=overlapping[2:6])
            communicator.close()
            communicator.close()
            self.assert_refused("the communicator must be open", reduce, torch.ones(3))
            self.assert_refused("the communicator must be open", communicator.broadcast, torch.ones(3), 0)
            self.assert_refused("the communicator must be open", communicator.barrier)

        self.of_all(work, 1)

    def test_after_the_end(self):
        context = Context(servers=self.servers, replica="rank-0")
        communicator = Communicator(context, "ended", 0, 1)
        tensor = torch.ones(3)
        request = communicator.all_reduce_start(tensor)
        stale = request._handle.value
        self.assertIs(request.wait(), tensor)
        context.close()
        context.close()
        communicator.close()
        self.assertIs(request.wait(), tensor)
        self.assertTrue(request.done())
        self.assert_refused("the communicator must be open", communicator.all_reduce_start, tensor)
        self.assert_refused("the context must be open", context.stats)
        self.assert_refused("the context must be open", Communicator, context, "ended", 0, 1)
        # What a program might do by itself is the library's to tell.
        library = summand_ddp._lib()
        for call, argument, text in ((library.smd_request_wait, stale, "request: must have been started"),
                                     (library.smd_request_test, stale, "request: must have been started"),
                                     (library.smd_request_wait, None, "request: must have been started"),
                                     (library.smd_barrier, None, "communicator: must be one that smd_comm_create()")):
            self.assertEqual(call(argument), -errno.EINVAL)
            self.assertIn(text, library.smd_error_message().decode())

    def test_ranks_that_disagree(self):
        results = self.in_ranks(lambda communicator: communicator.all_reduce(torch.ones(10 + communicator.rank)), 2)
        for result in results:
            self.assertIsInstance(result, SummandError)
            self.assertEqual(result.code, errno.EINVAL)
            for text in ("rank 0", "rank 1", "10", "11"):
                self.assertIn(text, str(result))

    def test_no_server(self):
        error = self.assert_refused("127.0.0.1:1", Context, servers="127.0.0.1:1", connect_timeout=1)
        self.assertIn(error.code, (errno.ECONNREFUSED, errno.ETIMEDOUT))

    def test_ranks_of_a_job(self):
        def spec(pool, index):
            cluster = {"workerpool0": ["a:1"], "workerpool1": ["b:1", "c:1"], "workerpool3": ["d:1"]}
            return {"CLUSTER_SPEC": json.dumps({"cluster": cluster, "task": {"type": pool, "index": index}})}

        for variables, rank in [(spec("workerpool0", 0), (0, 3)), (spec("workerpool1", 1), (2, 3)),
                                ({"RANK": "1", "WORLD_SIZE": "5", "CLUSTER_SPEC": "{"}, (1, 5))]:
            with mock.patch.dict(os.environ, variables, clear=True):
                self.assertEqual(summand_ddp.job_rank(), rank)
        for variables in [spec("workerpool3", 0), {}, {"CLUSTER_SPEC": "{"}, {"RANK": "x", "WORLD_SIZE": "1"}]:
            with mock.patch.dict(os.environ, variables, clear=True):
                self.assert_refused("must tell the rank", summand_ddp.job_rank)

    def test_a_library_that_is_not_there(self):
        script = f"import sys; sys.path[:0] = {sys.path[:2]!r}; import summand_ddp; summand_ddp.Context()"
        done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "SUMMAND_LIBRARY": "/none/x.so"},
                              capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("libsummand.so.0 must be found: set SUMMAND_HOME to where Summand is installed or built, or "
                      "SUMMAND_LIBRARY to the library itself: /none/x.so", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
