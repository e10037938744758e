"""TorchDistributor: functions and scripts, values and exceptions, what is refused, and that nothing is left behind."""

import debian_torch

debian_torch.require()

import asyncio
import atexit
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

from programs import ProgramTest

if importlib.util.find_spec("cloudpickle") is None:
    debian_torch.skip("no cloudpickle; python3-cloudpickle brings it")

from summand import SummandError, TorchDistributor
from summand.own_folder import own_folder

HOME = debian_torch.BUILD
PATIENCE_S = 120


class Captured:
    """In place of sys.stdout, as a notebook has it: no descriptor is behind it."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass


class Strange(Exception):
    """Its own arguments are not those of Exception: pickle could not make it again."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Unloadable:
    """Can be pickled, and not be made again."""

    def __reduce__(self):
        return int, ("no number",)


def of_mark(mark):
    """The processes that have it in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                found += [int(pid)] if f"MARK={mark}\0".encode() in file.read() else []
        except OSError:
            pass
    return found


def wait_until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


class DistributorTest(ProgramTest):
    def setUp(self):
        super().setUp()
        variables = mock.patch.dict(os.environ, {"SUMMAND_STATE_DIR": os.path.join(self.folder, "state")})
        variables.start()
        self.addCleanup(variables.stop)

    def run_all(self, function, *args, processes=2, options={}, **kwargs):
        """What came back, and what was printed."""
        captured = Captured()
        with mock.patch.object(sys, "stdout", captured):
            value = TorchDistributor(processes, use_gpu=False, **options).run(function, *args, **kwargs)
        return value, captured.text

    def raised(self, kind, function, *args, processes=2, **options):
        with self.assertRaises(kind) as caught:
            self.run_all(function, *args, processes=processes, options=options)
        return caught.exception

    # ---- what comes back ----

    def test_training(self):
        """Gradients go through reduction servers; the model comes back."""
        def train(rate, steps=1):
            import torch
            import torch.distributed as dist
            import summand.ddp
            dist.init_process_group("gloo")
            torch.manual_seed(1)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), rate)
            with summand.ddp.register(model):
                for _ in range(steps):
                    optimizer.zero_grad()
                    model(torch.full((2, 4), float(dist.get_rank()))).sum().backward()
                    optimizer.step()
            print("rank", dist.get_rank(), "of", dist.get_world_size())
            return model.module, dist.is_torchelastic_launched()

        with self.assertNoLogs("summand", logging.WARNING):
            (model, elastic), said = self.run_all(train, 0.1, steps=2, options={"reduction_servers": 1})
        self.assertTrue(elastic)
        self.assertEqual(tuple(model.weight.shape), (1, 4))
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2", said)

    def test_servers_that_nobody_uses(self):
        with self.assertLogs("summand", logging.WARNING) as logs:
            self.run_all(lambda: None, processes=1, options={"reduction_servers": 1})
        self.assertIn("the reduction servers were sent nothing: the function must call summand.ddp.register", logs.output[0])

    def test_values(self):
        array = bytearray(os.urandom(1 << 20)) * 40  # a closure over much
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "MINE")

        def look(*args, **kwargs):
            return len(array), args, kwargs, [os.environ.get(name) for name in names], os.getcwd()

        value, _ = self.run_all(look, 1, "zwei", three=[3], options={"env": {"MINE": "a = $(RANK)"}})
        self.assertEqual(value, (len(array), (1, "zwei"), {"three": [3]}, ["0", "2", "0", "", "a = $(RANK)"], os.getcwd()))
        value, _ = self.run_all(look, options={"local_mode": False})
        self.assertEqual(value[3], ["0", "2", "0", "", None])

    def test_the_callers_modules(self):
        """Those that only sys.path leads to, in a folder with spaces; and classes keep their identity."""
        folder = os.path.join(self.folder, "my modules")
        os.mkdir(folder)
        with open(os.path.join(folder, "trainer_of_test.py"), "w", encoding="utf-8") as file:
            file.write("class Done:\n    pass\ndef train():\n    return Done()\n")
        with mock.patch.object(sys, "path", [folder, *sys.path]):
            import trainer_of_test
            value, _ = self.run_all(trainer_of_test.train, processes=1)
        self.assertIs(type(value), trainer_of_test.Done)

    def test_a_script(self):
        path = os.path.join(self.folder, "a script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("import os, sys\nprint('rank', os.environ['RANK'], sys.argv[1:])\nsys.exit(len(sys.argv) > 3)\n")
        value, said = self.run_all(path, "--lr=1e-3", 2)
        self.assertIsNone(value)
        self.assertIn("rank 1 ['--lr=1e-3', '2']", said)
        error = self.raised(SummandError, path, 1, 2, 3)
        self.assertIn("failed. The last 100 lines of the task output are included below", str(error))
        self.assertRegex(str(error), r"rank [01] \['1', '2', '3'\]")  # the other one may not have begun

    def test_a_terminal_takes_no_orders(self):
        terminal = Captured()
        terminal.isatty = lambda: True
        with mock.patch.object(sys, "stdout", terminal):
            TorchDistributor(1, use_gpu=False).run(print, "\x1b[2Jcleared\x9b31m\x07\x1b]0;title\tend")
        self.assertIn("cleared]0;title\tend", terminal.text)
        self.assertIn("\x1b[2Jcleared", self.run_all(print, "\x1b[2Jcleared", processes=1)[1])

    # ---- exceptions ----

    def test_an_exception(self):
        def fail():
            if os.environ["RANK"] == "1":
                raise KeyError("no such layer")
            time.sleep(PATIENCE_S)

        error = self.raised(KeyError, fail)
        self.assertEqual((error.args, error.rank), (("no such layer",), 1))
        cause = str(error.__cause__)
        self.assertIn("rank 1:\nTraceback (most recent call last):", cause)
        self.assertIn("in fail", cause)
        self.assertNotIn("rank.py", cause)

    def test_exceptions_that_cannot_come(self):
        def odd(which):
            if which == "class":
                raise type("OfThere", (Exception,), {"__module__": "not.here"})("far away")
            if which == "arguments":
                raise Strange(1, 2)
            if which == "exit":
                sys.exit("gives up")
            if which == "system":
                os._exit(7)
            if which == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if which == "value":
                return threading.Lock()
            if which == "cancelled":
                raise asyncio.CancelledError("no Exception")
            if which == "unloadable":
                return Unloadable()
            os._exit(0)

        for which, sentence in {"class": "far away", "arguments": "rank 0: Strange: 1 and 2", "exit": "rank 0: SystemExit: gives up",
                                "system": "The replica workerpool0-0 exited with a non-zero status of 7",
                                "kill": "was killed by signal 9",
                                "cancelled": "rank 0: asyncio.exceptions.CancelledError: no Exception",
                                "unloadable": "has come, and cannot be loaded here: ValueError: invalid literal for int()",
                                "nothing": "rank 0 ended with status 0 before its function returned"}.items():
            with self.subTest(which=which):
                error = self.raised(Exception, odd, which, processes=1)
                self.assertIn(sentence, str(error))
                self.assertNotIsInstance(error, SystemExit)
        self.assertIn("the value that rank 0 returns must go to another process",
                      str(self.raised(Exception, odd, "value", processes=1)))

    def test_a_collective_without_its_peer(self):
        def lose():
            import torch
            import torch.distributed as dist
            dist.init_process_group("gloo")
            if dist.get_rank() == 1:
                raise ValueError("before the collective")
            dist.all_reduce(torch.ones(4))

        self.assertEqual(self.raised(ValueError, lose).rank, 1)

    def test_a_rank_that_is_long_in_ending(self):
        """Who fails by its failure may be gone before it."""
        def lose(folder):
            told = os.path.join(folder, "told")
            if os.environ["RANK"] == "1":
                atexit.register(time.sleep, 3)
                atexit.register(lambda: open(told, "w", encoding="ascii").close())
                raise ValueError("first")
            while not os.path.exists(told):
                time.sleep(0.01)
            raise RuntimeError("the other one has gone")

        self.assertEqual(self.raised(ValueError, lose, self.folder).rank, 1)

    def test_a_rank_that_ends_early(self):
        """Without an error: what rank 0 returned is all there is to return, and it is told of."""
        def leave(early):
            if os.environ["RANK"] == "1":
                early(0)
            return "done"

        with self.assertLogs("summand", logging.WARNING) as logs:
            self.assertEqual(self.run_all(leave, os._exit)[0], "done")
        self.assertIn("rank 1 ended with status 0 before its function returned", logs.output[0])
        with self.assertNoLogs("summand", logging.WARNING):
            self.run_all(leave, sys.exit)  # as it means to

    def test_a_value_of_the_attempt_before(self):
        def train(path):
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1":
                os._exit(0)
            if os.environ["RANK"] == "1":
                while not os.path.exists(path):
                    time.sleep(0.05)
                time.sleep(0.5)  # and rank 0 has ended
                raise ValueError("once")
            open(path, "w", encoding="utf-8").close()
            return "of the first attempt"

        error = self.raised(SummandError, train, os.path.join(self.folder, "go"), max_restarts=1)
        self.assertIn("rank 0 ended with status 0 before its function returned", str(error))

    def test_restarts(self):
        def flaky():
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                raise ValueError("the first time")
            return os.environ["TORCHELASTIC_RESTART_COUNT"]

        self.assertEqual(self.run_all(flaky, options={"max_restarts": 1})[0], "1")
        self.raised(ValueError, flaky)

    def test_timeout(self):
        self.assertIn("did not end within its timeout of 1 second",
                      str(self.raised(SummandError, lambda: time.sleep(PATIENCE_S), processes=1, timeout=1)))

    # ---- processes within a rank ----

    def test_processes_of_a_rank(self):
        """Those that are spawned load the program again, and those that are forked may return from the function."""
        def work():
            import multiprocessing
            sums = []
            for method in "fork", "spawn", "forkserver":
                with multiprocessing.get_context(method).Pool(1) as pool:
                    sums += pool.map(abs, [-1, -2])
            if os.fork() == 0:
                return "of the child"
            os.wait()
            return sums

        self.assertEqual(self.run_all(work, processes=1)[0], [1, 2] * 3)

    # ---- where it runs ----

    def test_many_processes(self):
        self.assertEqual(self.run_all(lambda: os.environ["WORLD_SIZE"], processes=24)[0], "24")

    def test_places(self):
        folder = os.path.join(self.folder, "a \"folder\" with $HOME, é and '")
        os.mkdir(folder)
        with mock.patch.object(tempfile, "tempdir", folder), mock.patch.object(sys, "stdout", None):
            self.assertEqual(TorchDistributor(1, use_gpu=False).run(lambda: 3), 3)
        self.assertEqual(os.listdir(folder), [])
        with mock.patch.dict(os.environ, {"SUMMAND_STATE_DIR": "/dev/null/state"}):
            error = self.raised(SummandError, lambda: None)
        self.assertEqual(str(error), "/dev/null/state: Not a directory; SUMMAND_STATE_DIR names another state directory")

    # ---- what is refused ----

    def test_refused(self):
        for arguments, kind, sentence in (
                ({"num_processes": 0}, ValueError, "num_processes must be 1 or more, got 0"),
                ({"num_processes": "2"}, TypeError, "num_processes must be a whole number, got '2'"),
                ({"num_processes": True}, TypeError, "must be a whole number"),
                ({"local_mode": "yes"}, TypeError, "local_mode must be True or False, got 'yes'"),
                ({"reduction_servers": -1}, ValueError, "reduction_servers must be 0 or more"),
                ({"timeout": 0}, ValueError, "timeout must be 1 or more")):
            with self.subTest(arguments=arguments), self.assertRaises(kind) as caught:
                TorchDistributor(use_gpu=False, **arguments)
            self.assertIn(sentence, str(caught.exception))
        numpys = type("Integer", (), {"__index__": lambda self: 2})
        self.assertEqual(TorchDistributor(numpys(), use_gpu=False).num_processes, 2)
        distributor = TorchDistributor(use_gpu=False)
        for kind, sentence, arguments, named in (
                (TypeError, "must be a function or the path of a script, got 3", (3,), {}),
                (ValueError, "does not support key-word type arguments", (__file__,), {"lr": 1}),
                (FileNotFoundError, "the script must be a file, got '/none.py'", ("/none.py",), {})):
            with self.assertRaises(kind) as caught:
                distributor.run(*arguments, **named)
            self.assertIn(sentence, str(caught.exception))
        lock = threading.Lock()
        error = self.raised(Exception, lambda: lock)
        self.assertIn("must go to other processes, and cannot be pickled: TypeError: cannot pickle '_thread.lock'", str(error))
        self.assertIn("must be NAME=VALUE with a C identifier as name, got \"1=2\"",
                      str(self.raised(SummandError, lambda: None, env={"1": 2})))

    def test_gpus(self):
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": ""}):
            with self.assertRaisesRegex(RuntimeError, "GPUs were unable to be found on the driver"):
                TorchDistributor()
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "3,5"}):
            with self.assertLogs("summand", logging.WARNING) as logs:
                distributor = TorchDistributor(3)
            self.assertIn("reset to be equal to the number of available GPUs", logs.output[0])
            self.assertEqual(distributor.num_processes, 2)
            with mock.patch.object(sys, "stdout", Captured()):
                self.assertEqual(distributor.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"]), "3,5")
            with self.assertRaisesRegex(RuntimeError, "must be at most the number of GPUs, which is 2"):
                TorchDistributor(3, local_mode=False)

    # ---- beside each other, within each other, and the end ----

    def test_two_at_once(self):
        results = {}

        def run(number):
            results[number] = TorchDistributor(1, use_gpu=False).run(lambda: (number, os.environ["MASTER_PORT"]))

        with mock.patch.object(sys, "stdout", Captured()):
            threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
        self.assertEqual([results[number][0] for number in range(2)], [0, 1])

    def test_within(self):
        def outer():
            from summand import TorchDistributor
            return TorchDistributor(2, use_gpu=False).run(lambda: (os.environ["RANK"], os.environ["WORLD_SIZE"]))

        self.assertEqual(self.run_all(outer, processes=1)[0], ("0", "2"))

    def start_caller(self, mark):
        """A program that runs a function that never ends; its ranks have begun."""
        script = os.path.join(self.folder, "caller.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("from summand import TorchDistributor\ndef train():\n    import os, time\n"
                       "    print('begun', os.environ['RANK'])\n    time.sleep(1000)\n"
                       "TorchDistributor(2, use_gpu=False).run(train)\n")
        path = os.path.join(HOME, "share", "summand", "python")
        caller = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "MARK": mark, "PYTHONPATH": path, "TMPDIR": self.folder}, start_new_session=True)
        self.addCleanup(self.end, caller)
        begun = 0
        while begun < 2:
            line = caller.stdout.readline()
            self.assertTrue(line, "the ranks never began")
            begun += "begun" in line
        return caller

    def test_interrupted(self):
        mark = f"interrupted-{os.getpid()}"
        caller = self.start_caller(mark)
        caller.send_signal(signal.SIGINT)
        _, err = caller.communicate(timeout=PATIENCE_S)
        self.assertIn("KeyboardInterrupt", err)
        self.assertEqual(of_mark(mark), [])
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("summand-torch-")], [])

    def test_killed(self):
        mark = f"killed-{os.getpid()}"
        caller = self.start_caller(mark)
        caller.kill()
        caller.communicate()
        self.assertTrue(wait_until(lambda: not of_mark(mark)), of_mark(mark))
        # What it left, the next one removes; what is in use, stays.
        self.assertEqual(len([name for name in os.listdir(self.folder) if name.startswith("summand-torch-")]), 1)
        with mock.patch.object(tempfile, "tempdir", self.folder):
            def look():
                return [name for name in os.listdir(folder) if name.startswith("summand-torch-")]
            folder = self.folder
            with own_folder("summand-torch-") as mine:
                found, _ = self.run_all(look, processes=1)
                self.assertEqual(len(found), 2)
                self.assertIn(os.path.basename(mine), found)
        self.assertEqual(look(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
