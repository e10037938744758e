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
