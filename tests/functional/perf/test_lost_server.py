"""Reduction servers are killed while ranks work: the others take over, and every result is right (specs/design/epochs.md)."""

import os
import random
import signal
import sys
import time
import unittest

from programs import ProgramTest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
import pressure  # noqa: E402

SOON_S = 0.3
TRIES = 5
ROUNDS = 2 if os.environ.get("SUMMAND_SANITIZE") else 6


class LostServerTest(ProgramTest):
    def start_pool(self, nservers, *options):
        servers = [self.start_server("--threads=2") for _ in range(nservers)]
        addresses = [address for _, address in servers]
        ranks = [self.start_rank(r, 3, addresses, *options) for r in range(3)]
        ranks[0].stdout.readline()  # rank 0 has something to say when all have joined
        return [server for server, _ in servers], addresses, ranks

    def test_killed_servers_cost_nothing(self):
        seed = random.randrange(1 << 32)
        moments = random.Random(seed)
        taken_over = 0
        for _ in range(ROUNDS):
            servers, _, ranks = self.start_pool(3, "--sizes=4,4K,256K,2M", "--iters=60", "--each")
            killed = moments.sample(servers, 2)
            for server in killed:
                time.sleep(moments.random() * 0.3)
                server.kill()
            for rank in ranks:
                out, err = self.finish(rank)
                self.assertEqual(rank.returncode, 0, f"seed {seed}: {out}{err}")
                taken_over += err.count("1 of 3 reduction servers go on")
            for server in servers:
                self.end(server)
        self.assertGreater(taken_over, 0, f"seed {seed}: no server was lost while ranks worked")

    def start_again(self, servers, addresses, k, *options):
        servers[k].kill()
        servers[k].wait()
        again = self.start_program("summand-reduction-server", f"--listen={addresses[k]}", "--memory-limit=64M", "--threads=2", *options)
        again.stdout.readline()
        servers[k] = again

    def test_both_end_together_and_are_started_again(self):
        """As by a supervisor: the one that was lost first is tried for half a second."""
        for _ in range(TRIES):
            servers, addresses, ranks = self.start_pool(2, "--sizes=4,256K", "--iters=1500", "--each")
            killed = time.monotonic()
            servers[1].kill()
            self.start_again(servers, addresses, 0)
            self.start_again(servers, addresses, 1)
            at_once = time.monotonic() - killed < SOON_S
            for rank in ranks:
                out, err = self.finish(rank)
                if at_once:
                    self.assertEqual(rank.returncode, 0, out + err)
            if at_once:
                return
        self.skipTest(f"no two servers could be started within {SOON_S} s")

    def test_one_that_is_there_again_and_refuses_is_named(self):
        servers, addresses, ranks = self.start_pool(2, "--sizes=64K", "--iters=100000000", "--each")
        token = os.path.join(self.folder, "token")
        with open(token, "w", encoding="ascii") as file:
            file.write("secret\n")
        os.chmod(token, 0o600)
        self.start_again(servers, addresses, 0, f"--token-file={token}")
        for rank in ranks:
            said = self.wait_until_it_says(rank, "it is there again, and is not used")
            self.assertIn(f"reduction server {addresses[0]} refuses this process", said)
            self.end(rank)

    def test_both_are_started_again_while_a_rank_stands_still(self):
        """The others wait for it at the one that is there: it comes, as one that stands still does where nothing is lost."""
        servers, addresses, ranks = self.start_pool(2, "--sizes=4,256K", "--iters=3000", "--each")
        ranks[1].send_signal(signal.SIGSTOP)
        for k in range(2):
            self.start_again(servers, addresses, k)
            time.sleep(0.5)  # before the next one the others reach the first one, and it is in no table
        time.sleep(1.5)
        ranks[1].send_signal(signal.SIGCONT)
        for rank in ranks:
            self.assert_ended(rank, 0)

    def test_last_one_is_named_within_a_second(self):
        servers, addresses, ranks = self.start_pool(2, "--sizes=64K", "--iters=100000000", "--each")
        servers[0].kill()
        time.sleep(0.5)
        for rank in ranks:
            self.assertIsNone(rank.poll())
        waits, killed = pressure.waited(), time.monotonic()
        servers[1].kill()
        for rank in ranks:
            self.assert_ended(rank, 1, f"reduction server {addresses[1]} was lost: ")
        took = time.monotonic() - killed
        self.assertLess(took, 1 if pressure.was_quiet(waits, took) else 20)


if __name__ == "__main__":
    unittest.main()
