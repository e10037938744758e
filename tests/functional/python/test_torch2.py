"""The backend under torch 2: FullyShardedDataParallel, with the original parameters and without, trains what DistributedDataParallel
does; functional collectives and DTensor find the group. Nothing goes through gloo that servers can sum."""

import debian_torch

debian_torch.require()

import unittest

import torch
from programs import PATIENCE_S
from ranks import RANKS, RanksTest

if int(torch.__version__.split(".")[0]) < 2:
    debian_torch.skip(f"torch must be 2.5 or later, which trains in shards on a CPU, got {torch.__version__}; Debian 13 has 2.6")


class Torch2Test(RanksTest):
    def test_shards_functional_collectives_and_tensors(self):
        server, address = self.start_server("--threads=1")
        for rank in self.start_ranks("torch2_rank.py", [address]):
            out, err = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual(rank.returncode, 0, out + err)
            self.assertNotIn("Exception ignored", err)
        self.terminate(server)
        reduced = int("".join(self.finish(server)).split("ended: ")[1].split()[0])
        # Each of 7 models takes 10 steps, of one sum or more for each rank.
        self.assertGreaterEqual(reduced, 7 * 10 * RANKS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
