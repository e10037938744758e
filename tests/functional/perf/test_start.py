"""What a job meets as it starts: a rank that is late is named, and a port that nobody listens at is no server."""

import os
import subprocess
import time
import unittest

from programs import BIN, ProgramTest

PORTS = (40000, 40003)  # all that the namespace has for connections of its own


class StartTest(ProgramTest):
    def test_who_has_not_joined_is_named_before_the_time_is_over(self):
        _, address = self.start_server()
        first = self.start_rank(0, 2, [address], "--sizes=4K", "--iters=3")
        began = time.monotonic()
        said = self.wait_until_it_says(first, "rank 1 of 2 not joined yet")
        self.assertLess(time.monotonic() - began, 25, said)  # of 30
        self.assertIn("warn", said.splitlines()[-1])
        second = self.start_rank(1, 2, [address], "--sizes=4K", "--iters=3")
        for process in (second, first):
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)

    def test_a_server_with_an_address_less_is_taken_back(self):
        """Each lane whose address refuses goes on to the next one, by itself: others stay where they are."""
        both = ["127.0.0.1:0+127.0.0.2:0"] * 2
        options = ("--memory-limit=256M", "--transport=tcp", "--threads=4")
        servers = [self.start_program("summand-reduction-server", f"--listen={listen}", *options) for listen in both]
        addresses = [server.stdout.readline().split()[1] for server in servers]
        ranks = [self.start_rank(rank, 2, addresses, "--sizes=64K", "--iters=1000000", SUMMAND_TRANSPORT="tcp", SUMMAND_LOG="info")
                 for rank in range(2)]
        self.wait_until_it_says(ranks[0], "group test: 2 ranks")
        servers[1].kill()
        servers[1].wait()
        self.wait_until_it_says(ranks[0], "reduction servers go on")
        self.start_program("summand-reduction-server", "--listen=" + addresses[1].split("+")[0], *options)
        said = self.wait_until_it_says(ranks[0], "is there and serves again")
        self.assertIn(f"shard 3: goes over tcp to {addresses[1].split('+')[0]}", said)

    def test_a_connection_with_itself_is_none(self):
        """The kernel gives a socket the port that it connects to, one time in four here: each 0.1 s in three seconds."""
        words = (f"ip link set lo up && echo {PORTS[0]} {PORTS[1]} > /proc/sys/net/ipv4/ip_local_port_range && "
                 f"{BIN}/summand-reduction-server --listen=127.0.0.1:2222 --memory-limit=64M > ready & "
                 "while ! grep -qs ready ready; do sleep 0.05; done; "
                 f"{BIN}/summand-perf allreduce --nranks=1 --rank=0 --group=g --sizes=4K --iters=3 "
                 "--servers=127.0.0.1:2222,127.0.0.1:40002; code=$?; kill $!; exit $code")
        if subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode:
            self.skipTest("no namespace can be made")
        done = subprocess.run(["unshare", "-n", "sh", "-c", words], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False,
                              env=self.environment(SUMMAND_CONNECT_TIMEOUT="3", SUMMAND_TRANSPORT="tcp", SUMMAND_LOG="debug"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("127.0.0.1:40002 cannot be reached, and the time to connect is over: this process begins without it", done.stderr)
        self.assertNotIn("HELLO", done.stderr)


if __name__ == "__main__":
    unittest.main()
