"""kill -9 of any reduction server but the last, at any moment, under every collective in two communicators: nothing is lost.

The program checks every result to the bit, and of three ranks another order of sums has other bits. Then the last server is killed.
"""

import os
import random
import subprocess
import sys
import time
import unittest

from programs import BIN, ProgramTest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
import pressure  # noqa: E402

RANK = os.path.join(os.path.dirname(BIN), "tests", "collectives_rank")
NRANKS = 3


class KilledServersTest(ProgramTest):
    def start_ranks(self, addresses, transport):
        ranks = []
        for rank in range(NRANKS):
            variables = self.environment(SUMMAND_REPLICA=f"rank-{rank}", SUMMAND_TRANSPORT=transport,
                                         SUMMAND_REDUCTION_SERVERS=",".join(addresses), SUMMAND_HEARTBEAT_LIMIT="60")
            ranks.append(subprocess.Popen([RANK, str(NRANKS), str(rank)], env=variables, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            self.addCleanup(self.end, ranks[-1])
        for rank in ranks:
            self.assertEqual(rank.stdout.readline(), "joined\n")
        return ranks

    def kill_all(self, transport):
        seed = random.randrange(1 << 32)
        moments = random.Random(seed)
        servers = [self.start_server("--threads=1") for _ in range(5)]
        ranks = self.start_ranks([address for _, address in servers], transport)
        moments.shuffle(servers)
        for pause in (0.2, 0.2, 0.005, 0.2):  # the third dies with the second, or in the repair
            time.sleep(moments.random() * pause)
            self.end(servers.pop()[0])  # SIGKILL
        for rank in ranks:
            self.wait_until_it_says(rank, "1 of 5 reduction servers go on")
        time.sleep(0.1)
        (server, address), = servers
        waits, killed = pressure.waited(), time.monotonic()
        self.end(server)
        for rank in ranks:
            out, err = self.assert_ended(rank, 0, f"reduction server {address} was lost: ")
            self.assertGreater(int(out.split()[0]), 10, f"seed {seed}: {out}{err}")
        took = time.monotonic() - killed
        self.assertLess(took, 1 if pressure.was_quiet(waits, took) else 20, f"seed {seed}")

    def test_over_tcp(self):
        self.kill_all("tcp")

    def test_in_shared_memory(self):
        self.kill_all("auto")


if __name__ == "__main__":
    unittest.main()
