"""Reduction servers get SIGTERM while ranks work: all end with 0, nobody is warned, and every result is right (specs/design/epochs.md)."""

import unittest

from programs import ProgramTest

SILENCE = {"SUMMAND_HEARTBEAT_LIMIT": "600", "SUMMAND_LOG": "info"}  # nobody is silent, however slow the machine
DRAINS = "is being drained: groups go on without it"


class DrainedServerTest(ProgramTest):
    def start_pool(self, iterations):
        servers = [self.start_server("--threads=2", "--memory-limit=256M", "--drain-timeout=3600", "--heartbeat-limit=600") for _ in range(3)]
        addresses = [address for _, address in servers]
        ranks = [self.start_rank(r, 3, addresses, "--sizes=256K", f"--iters={iterations}", "--each", **SILENCE) for r in range(3)]
        ranks[0].stdout.readline()  # rank 0 has something to say when all have joined
        return [server for server, _ in servers], ranks

    def drain(self, server):
        """It would wait for an hour; it ends because all have left it."""
        self.terminate(server)
        self.assert_ended(server, 0, "draining")

    def run_round(self, iterations):
        """Whether ranks still worked when the servers had ended."""
        servers, ranks = self.start_pool(iterations)
        self.drain(servers[0])
        self.drain(servers[2])
        worked = all(rank.poll() is None for rank in ranks)
        for rank in ranks:
            out, err = self.finish(rank)  # every result is verified
            self.assertEqual(rank.returncode, 0, out + err)
            self.assertNotRegex(err, "warn |error ")
            self.assertTrue(not worked or err.count(DRAINS) == 2, out + err)
        self.end(servers[1])
        return worked

    def test_ranks_go_on_without_them(self):
        iterations = 500
        while not self.run_round(iterations):
            iterations *= 4
            self.assertLess(iterations, 1000000, "ranks have always ended before the servers")


if __name__ == "__main__":
    unittest.main()
