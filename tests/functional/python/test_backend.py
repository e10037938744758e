"""The backend of torch.distributed: its operations give what gloo's give, a model trains without another line, and the death
of a rank or of the last server ends the others with the reason."""

import debian_torch

debian_torch.require()

import json
import signal
import unittest

import torch.distributed as dist
from programs import PATIENCE_S
from ranks import RanksTest

import summand.backend

RANK = "backend_rank.py"


class ReductionOfTorch2:
    """It knows the constant that it equals; the constant does not know it."""

    def __init__(self, constant):
        self.constant = constant

    def __eq__(self, other):
        return self.constant == other


class NamesTest(unittest.TestCase):
    def test_reductions_of_torch_2_are_known(self):
        for constant, name in summand.backend.OPS.items():
            self.assertEqual(summand.backend._op_name(constant), name)
            self.assertEqual(summand.backend._op_name(ReductionOfTorch2(constant)), name)
        self.assertIsNone(summand.backend._op_name(ReductionOfTorch2(dist.ReduceOp.BAND)))


    def test_no_operation_has_two_names(self):
        """torch since 2026 refuses a group that has both, and calls the newer one alone."""
        newer = {"all_gather_single": "_allgather_base", "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
                 "all_to_all_single": "alltoall_base", "reduce_scatter_single": "_reduce_scatter_base",
                 "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced"}
        for name, older in newer.items():
            self.assertIn(name, vars(summand.backend.SummandProcessGroup))
            self.assertNotIn(older, vars(summand.backend.SummandProcessGroup))
            self.assertTrue(callable(getattr(summand.backend.SummandProcessGroup, older)))


class BackendTest(RanksTest):
    def check_all(self, *words):
        servers = [self.start_server("--threads=1") for _ in range(2)]
        for number, rank in enumerate(self.start_ranks(RANK, [address for _, address in servers], *words)):
            out, err = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual(rank.returncode, 0, out + err)
            report = json.loads(out.splitlines()[-1])
            self.assertEqual((report["rank"], report["backend"]), (number, "summand"))
            self.assertLess(report["difference"], 1e-5)  # gloo adds in another order
        for server, _ in servers:
            self.terminate(server)
            out, err = self.finish(server)
            self.assertNotIn(" chunks 0", out + err)

    def test_operations_and_training(self):
        self.check_all("destroy")

    def test_a_program_that_ends_without_destroying_its_group(self):
        self.check_all()

    def test_tensors_of_every_kind(self):
        for rank in self.start_ranks("tensors_rank.py", [self.start_server("--threads=1")[1]]):
            out, err = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual(rank.returncode, 0, out + err)

    def test_a_killed_rank_is_named(self):
        ranks = self.start_ranks(RANK, [self.start_server()[1]], "train-until-killed")
        for rank in ranks:
            self.assertEqual(rank.stdout.readline(), "step\n")
        ranks[2].send_signal(signal.SIGKILL)
        for rank in ranks[:2]:
            self.assert_ended(rank, 1, "rank 2 (rank-2) was lost")

    def test_a_late_rank_is_named(self):
        for rank in self.start_ranks(RANK, [self.start_server()[1]], "late-for-long"):
            out, err = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual(rank.returncode, 0, out + err)

    def test_a_lost_server_is_named(self):
        server, address = self.start_server()
        ranks = self.start_ranks(RANK, [address], "train-until-killed")
        for rank in ranks:
            self.assertEqual(rank.stdout.readline(), "step\n")
        server.kill()
        for rank in ranks:
            self.assert_ended(rank, 1, f"reduction server {address} was lost")


if __name__ == "__main__":
    unittest.main(verbosity=2)
