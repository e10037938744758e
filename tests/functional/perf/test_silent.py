"""Processes that are there and do nothing: stopped, not killed. Their connections stay, so only their silence tells."""

import signal
import time
import unittest

from programs import ProgramTest

LIMIT = "2"
MUST = "must be 0.5 to 86400 seconds, such as 15, 0.5s or 500ms"


class SilentTest(ProgramTest):
    def start_pool(self):
        server, address = self.start_server("--heartbeat-limit=" + LIMIT)
        ranks = [self.start_rank(r, 2, [address], "--sizes=64K", "--iters=100000000", SUMMAND_HEARTBEAT_LIMIT=LIMIT)
                 for r in range(2)]
        ranks[0].stdout.readline()  # rank 0 has something to say when all have joined
        time.sleep(0.5)
        return server, address, ranks

    def stop(self, process):
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)

    def test_stopped_worker_is_named_to_the_others(self):
        server, _, ranks = self.start_pool()
        self.stop(ranks[1])
        self.assert_ended(ranks[0], 1, "rank 1 (rank-1) was lost: it has been silent for 2 s")
        ranks[1].send_signal(signal.SIGCONT)
        out, err = self.assert_ended(ranks[1], 1)
        self.assertRegex(out + err, r"this process \(rank-1\) stood still for \d+ s, and then: ")
        self.terminate(server)
        self.assert_ended(server, 0, "lane of rank-1 (127.0.0.1:", "ended: it has been silent for 2 s")

    def test_stopped_server_is_named_to_all(self):
        server, address, ranks = self.start_pool()
        self.stop(server)
        for rank in ranks:
            self.assert_ended(rank, 1, f"reduction server {address} was lost: it has been silent for 2 s")

    def test_limit_may_be_half_a_second(self):
        server, address = self.start_server("--heartbeat-limit=500ms")
        rank = self.start_rank(0, 1, [address], "--sizes=64K", "--iters=100000000", SUMMAND_HEARTBEAT_LIMIT="0.5s")
        rank.stdout.readline()
        time.sleep(0.5)
        self.stop(server)
        self.assert_ended(rank, 1, f"reduction server {address} was lost: it has been silent for 0.5 s")

    def test_limit_is_checked(self):
        for option in "0", "-1", "soon", "86401", "499ms", "0.4s":
            done = self.run_program("summand-reduction-server", "--heartbeat-limit=" + option)
            self.assert_usage_error(done, f'--heartbeat-limit: {MUST}, got "{option}"')
        rank = self.start_rank(0, 1, ["127.0.0.1:1"], SUMMAND_HEARTBEAT_LIMIT="soon")
        self.assert_ended(rank, 1, f'SUMMAND_HEARTBEAT_LIMIT: {MUST}, got "soon"')


if __name__ == "__main__":
    unittest.main()
