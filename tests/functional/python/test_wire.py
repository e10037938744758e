"""Gradients that cross in two bytes: within the error that specs/design/numerics.md states, the same bits on all ranks and
by every way to ask for it, and nearer to the true average than those of torch's hooks, which round at each hop."""

import debian_torch

debian_torch.require()

import json
import os
import sys
import unittest

from programs import PATIENCE_S, ProgramTest
from ranks import PACKAGE, free_port

RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wire_rank.py")
RANKS = 5
WAYS = ("option", "environment", "communicator")


class WireTest(ProgramTest):
    def judgements(self):
        servers = ",".join(self.start_server("--threads=1")[1] for _ in range(2))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS),
                 "SUMMAND_REDUCTION_SERVERS": servers, "PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        ranks = [self.start_program(sys.executable, RANK, RANK=str(rank), **place) for rank in range(RANKS)]
        found = []
        for rank in ranks:
            out, err = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual(rank.returncode, 0, out + err)
            found.append(json.loads(out.splitlines()[-1]))
        return found

    def test_half_the_bytes(self):
        found = self.judgements()
        print(json.dumps(found[0], indent=1))
        for way, one in found[0].items():
            self.assertEqual({each[way]["hash"] for each in found}, {one["hash"]}, way)
        for wire in ("bf16", "fp16"):
            asked = [found[0][f"{wire} {way}"] for way in WAYS]
            self.assertEqual({one["hash"] for one in asked}, {asked[0]["hash"]}, wire)
            for one in asked:
                self.assertTrue(one["is_narrow"])
                self.assertLessEqual(one["of_allowed"], 1, wire)
                self.assertGreater(one["of_allowed"], 0.5, wire)    # it was rounded to that type, and not to a wider one
                self.assertLess(one["off"] * 1.3, found[0][f"torch {wire}"]["off"], wire)
        self.assertLess(found[0]["float32"]["off"] * 100, found[0]["fp16 option"]["off"])
        self.assertLessEqual(found[0]["float32"]["of_allowed"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
