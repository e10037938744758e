"""Servers that become slow while ranks work, on links of a lab: the table follows within some operations, and no bit changes.

The links say 10 Gbit/s and carry 200 Mbit/s (specs/design/epochs.md, Rates). What a table deals to each server is in the log of
each rank. How long it took is not judged, only that it took no more than LIMIT operations.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import nodes

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(nodes.TOOLS, "bench"))
import lab  # noqa: E402

BUILD = os.environ["SUMMAND_BUILD"]
RANK = os.path.join(os.path.dirname(os.path.realpath(__file__)), "steady_rank.py")
PORT = 2222
RATE = "200mbit"
BURST = "64kb"      # less than an operation has for a server
BEFORE = 20         # operations before anything changes
LIMIT = 200         # operations after that until the table has followed
PATIENCE_S = 300    # only what hangs takes longer


class Work:
    """Two ranks and three servers in a lab, for the length of a with statement."""

    def __init__(self, elements):
        self.ranks = range(2)
        self.servers = range(2, 5)
        self.elements = elements
        self.lab = lab.Lab([None, None, RATE, RATE, RATE])
        self.folder = tempfile.TemporaryDirectory()
        self.stop = os.path.join(self.folder.name, "stop")
        self.operation = -1
        self.lines = []
        self.read = []

    def __enter__(self):
        self.lab.__enter__()
        for node in self.servers:
            self.shape(node, RATE)
        self.processes = {node: self.lab.start(node, [
            os.path.join(BUILD, "bin", "summand-reduction-server"), f"--listen={lab.address_of(node)}:{PORT}", "--insecure",
            "--memory-limit=256M"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for node in self.servers}
        for node in self.servers:
            assert self.processes[node].stdout.readline().startswith("ready")
        variables = {**os.environ, "SUMMAND_LOG": "info",
                     "SUMMAND_REDUCTION_SERVERS": ",".join(f"{lab.address_of(node)}:{PORT}" for node in self.servers)}
        for rank in self.ranks:
            self.processes[rank] = self.lab.start(rank, [
                sys.executable, RANK, os.path.join(BUILD, "lib", "libsummand.so"), str(len(self.ranks)), str(rank),
                str(self.elements), self.stop], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True)
            self.read_lines(self.processes[rank].stdout, self.count)
            self.read_lines(self.processes[rank].stderr, self.lines.append)
        return self

    def __exit__(self, *failure):
        self.lab.__exit__(*failure)
        for node in self.servers:
            self.processes[node].stdout.close()
        self.folder.cleanup()

    def shape(self, node, rate):
        shaper = ["root", "tbf", "rate", rate, "burst", BURST, "latency", lab.QUEUE]
        lab.run("tc", "-n", lab.name_of(node), "qdisc", "change", "dev", "eth0", *shaper)
        lab.run("tc", "qdisc", "change", "dev", f"port{node}", *shaper)

    def read_lines(self, stream, take):
        def read():
            with stream:
                for line in stream:
                    take(line)

        self.read.append(threading.Thread(target=read))
        self.read[-1].start()

    def count(self, line):
        self.operation = int(line.split()[1])

    def wait(self, done, what):
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, f"{what}: {''.join(self.lines)}"
            assert all(self.processes[rank].poll() is None for rank in self.ranks), "".join(self.lines)
            time.sleep(0.01)

    def tables(self):
        """First operation and the servers' shares of each, as the ranks say them."""
        found = []
        for line in list(self.lines):
            match = re.search(r"epoch \d+, from operation (\d+) on, .* shares, %: ([\d. ]+);", line)
            if match:
                found.append((int(match[1]), [float(share) for share in match[2].split()]))
        return found

    def end(self):
        """Exit codes of the ranks, which compare all bits."""
        with open(self.stop, "w", encoding="ascii"):
            pass
        codes = [self.processes[rank].wait(PATIENCE_S) for rank in self.ranks]
        for thread in self.read:
            thread.join()
        return codes


class RatesTest(unittest.TestCase):
    def follow(self, work, change, less):
        """After that change, within LIMIT operations, the first server gets less than that part, in percent, and the others more."""
        def followed(first, shares):
            return first >= before and shares[0] < less < min(shares[1:])

        with work:
            work.wait(lambda: work.operation >= BEFORE, "operations must end")
            before = work.operation
            change(work)
            work.wait(lambda: work.operation > before + LIMIT or any(followed(*table) for table in work.tables()), "the table must follow")
            tables = work.tables()
            codes = work.end()
        self.assertEqual(codes, [0, 0], "".join(work.lines))
        rates = [int(mbps) for mbps in re.findall(r"a shard has (\d+) Mbit/s", "".join(work.lines))]
        self.assertEqual(max(rates), 10000)  # what the links say
        self.assertLess(min(rates), 400, "what they carry must be found")
        self.assertTrue(any(followed(*table) for table in tables), f"no table in time: change at {before}, tables {tables}")

    def test_a_link_is_halved(self):
        self.follow(Work(1 << 18), lambda work: work.shape(work.servers[0], "100mbit"), 27)

    def test_a_processor_is_taken(self):
        """The server runs for one of twenty milliseconds."""
        def take(work):
            server = work.processes[work.servers[0]]

            def alternate():
                while server.poll() is None:
                    for number, seconds in ((signal.SIGSTOP, 0.019), (signal.SIGCONT, 0.001)):
                        server.send_signal(number)
                        time.sleep(seconds)
            threading.Thread(target=alternate, daemon=True).start()

        self.follow(Work(1 << 19), take, 30)


if __name__ == "__main__":
    sys.exit(lab.enter(lambda: 0 if unittest.main(exit=False).result.wasSuccessful() else 1))
