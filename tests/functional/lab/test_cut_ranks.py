"""A route between two ranks that is lost while both reach the reduction servers: these do what ranks cannot do among themselves."""

import os
import subprocess
import sys
import tempfile
import unittest

import nodes

BIN = os.path.join(os.environ["SUMMAND_BUILD"], "bin")
RANKS = 3
LIMIT_S = 1  # of servers; a lane between ranks is given 5 s
# Node 3 has the server. In the others a rank works, and when it is in the middle of that rank 1 no longer finds rank 2.
NODE = """
import os, subprocess, sys, time
node, here, bin, stop = int(os.environ["NETLAB_NODE"]), os.environ["NETLAB_ADDRESS"], sys.argv[1], sys.argv[2]
sizes, iterations = sys.argv[3], sys.argv[4]
if node == 3:
    server = subprocess.Popen([bin + "/summand-reduction-server", "--listen=" + here + ":2222", "--insecure"])
    while not os.path.exists(stop):
        time.sleep(0.05)
    server.terminate()
    sys.exit(server.wait())
os.environ["SUMMAND_LOG"] = "info"
rank = subprocess.Popen([bin + "/summand-perf", "allreduce", "--group=cut", "--nranks=3", "--rank=%d" % node, "--servers=10.77.0.4:2222",
                         "--sizes=" + sizes, "--iters=" + iterations, "--warmup=1", "--each", "--inflight=4", "--rolling"], stderr=subprocess.PIPE, text=True)
said = ""
for line in rank.stderr:
    said += line
    if node == 1 and "go from rank to rank" in line and "operation" in line and "lladdr" not in said:
        said += "lladdr\\n"
        subprocess.run(["ip", "neigh", "replace", "10.77.0.3", "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent"], check=True)
sys.stderr.write("rank %d\\n" % node + said)
code = rank.wait()
if node == 0:
    time.sleep(1)
    open(stop, "w").close()
sys.exit(code)
"""


class CutRanksTest(unittest.TestCase):
    def play(self, sizes, iterations):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                [nodes.NETLAB, "--nodes=4", "--", sys.executable, "-c", NODE, BIN, os.path.join(folder, "stop"), sizes, str(iterations)],
                env=dict(os.environ, SUMMAND_EXCHANGE="on", SUMMAND_HEARTBEAT_LIMIT=str(LIMIT_S)), capture_output=True, text=True,
                timeout=2 * nodes.LONG, check=False)

    def assert_goes_on(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"the connection between rank [12] \(\S+\) and rank [12] \(\S+\) has ended \(.+\): reduction servers do")
        self.assertIn("no operations from rank to rank", done.stderr)

    def test_large_and_small_operations(self):
        for sizes, iterations in (("4K", 5000), ("4M", 60)):
            with self.subTest(sizes):
                self.assert_goes_on(self.play(sizes, iterations))


if __name__ == "__main__":
    nodes.require()
    unittest.main()
