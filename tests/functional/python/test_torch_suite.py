"""torch's own tests of its collectives and of DistributedDataParallel (torch.testing._internal.distributed), four ranks over the
backend `summand` and tensors of the CPU, which plays the GPUs of those that ask for some (cpu_as_gpu.py).

    test_torch_suite.py [TestAsSummand.NAME ...]

Many of torch's tests are for backends that they name. Those for gloo run too, with Summand's groups under gloo's name.
"""

import debian_torch

debian_torch.require()

import dataclasses
import functools
import importlib
import logging
import os
import sys
import tempfile
import types
import unittest

RANKS = 4
NAMES = ("summand", "gloo")
# What asks for more of a GPU than that tensors are there, for NCCL, or for what gloo alone says; or may fail by itself.
LEFT_OUT = {
    "test_DistributedDataParallel_non_default_stream": "streams",
    "test_DistributedDataParallel_with_amp_and_grad_is_view": "gradients that are scaled on a GPU",
    "test_average_parameters": "NCCL",
    "test_ddp_inference": "SyncBatchNorm",
    "test_ddp_logging_data_gpu": "devices' numbers in DDP's records",
    "test_ddp_uneven_inputs": "minutes of convolutions",
    "test_post_localSGD_optimizer_step_reload": "a file that rank 0 may remove before the others have read it",
}
LEFT_OUT_PARTS = ("SyncBatchNorm", "sync_bn", "nccl", "_cuda", "multigpu")
# Of tests that are run, or what torch refuses before a backend hears of it. In groups of their own reductions are sums.
VARIANTS = ("_adamw_", "_profiler", "_parity_grad_is_view", "_sgd_grad_is_view", "_optimize_subset_True", "group_max", "group_min", "group_product",
            "_input_rank", "exceeds_world_size", "_overlap_not_allowed", "_not_divisible_by")

folder = tempfile.TemporaryDirectory()
os.environ.update(WORLD_SIZE=str(RANKS), TEMP_DIR=folder.name, INIT_METHOD=f"file://{folder.name}/meet", OMP_NUM_THREADS="1",
                  DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="200")
# Debian has no expecttest; torch's tests of collectives compare no texts with it.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False))
import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed


def with_hash(cls=None, **named):
    return dataclass(cls, **{"unsafe_hash": "__hash__" not in vars(cls), **named}) if cls else functools.partial(with_hash, **named)


dataclass, dataclasses.dataclass = dataclasses.dataclass, with_hash  # else Python 3.11 refuses torch 1.13's shards
import torch.distributed._shard.sharded_tensor
dataclasses.dataclass = dataclass

import cpu_as_gpu
import summand.backend
from programs import ProgramTest

FORK = torch.multiprocessing.get_context("fork").Process


SUITE = "torch.testing._internal.distributed.distributed_test"


def suite_of(backend):
    """torch's module, which asks the environment when it is imported for which backend it is."""
    os.environ["BACKEND"] = backend
    sys.modules.pop(SUITE, None)
    module = importlib.import_module(SUITE)
    module.PROFILING_SUPPORTED_BACKENDS = []  # profiles have names of torch's own backends
    return module


def tests_of(module, others):
    """Its tests that are not skipped at once, nor among the others: what NAME to run in a class of."""
    every = vars(module.DistributedTest._DistTestBase)
    return {name: test for name, test in every.items()
            if name.startswith("test_") and name not in others and name not in LEFT_OUT
            and not any(part in name for part in LEFT_OUT_PARTS + VARIANTS) and not getattr(test, "__unittest_skip__", False)}


class InGroupsOfSummand:
    """A test that is played by processes of its own."""

    def setUp(self):
        super().setUp()
        self._start_processes(FORK)

    @classmethod
    def _run(cls, *arguments):
        dist.distributed_c10d.ProcessGroupGloo = summand.backend.SummandProcessGroup
        cpu_as_gpu.begin(RANKS)
        sys.modules[SUITE] = cls.suite  # where models that are saved look for themselves
        super()._run(*arguments)


for features in common_distributed.DistTestCases.backend_feature.values():
    features.add("summand")
logging.getLogger().setLevel(logging.WARNING)
suites = {name: suite_of(name) for name in NAMES}


def class_of(name, others):
    base = suites[name].DistributedTest._DistTestBase
    left = {each: None for each in dir(base) if each.startswith("test_")}
    return type(f"TestAs{name.capitalize()}", (InGroupsOfSummand, suites[name].TestDistBackend, base),
                {**left, **tests_of(suites[name], others), "suite": suites[name]})


TestAsSummand = class_of("summand", ())
TestAsGloo = class_of("gloo", tests_of(suites["summand"], ()))


class Servers(ProgramTest):
    def runTest(self):
        pass


def setUpModule():
    global servers
    servers = Servers()
    servers.setUp()
    os.environ["SUMMAND_REDUCTION_SERVERS"] = ",".join(servers.start_server("--threads=1")[1] for _ in range(2))


def tearDownModule():
    servers.doCleanups()
    folder.cleanup()


if __name__ == "__main__":
    unittest.main(verbosity=2)
