"""Servers that become slow while ranks work, on links of a lab: the table follows within some operations, and no bit changes.

The links say 10 Gbit/s and carry 200 Mbit/s (specs/design/epochs.md, Rates). The table follows within LIMIT operations, a halved link's
where nothing else had the processors within FOLLOW_S, too. tools/bench-rates, which measures that, is run once.
"""

import json
import os
import subprocess
import sys
import time
import unittest

import nodes

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(nodes.TOOLS, "bench"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
import lab  # noqa: E402
import pressure  # noqa: E402
import steady  # noqa: E402

BUILD = os.environ["SUMMAND_BUILD"]
BENCH = os.path.join(nodes.TOOLS, "bench-rates")
RATE = "200mbit"
BURST = "64kb"      # less than an operation has for a server
BEFORE = 20         # operations before anything changes
LIMIT = 200         # operations after that until the table has followed
FOLLOW_S = 3


class RatesTest(unittest.TestCase):
    def follow(self, elements, change, less, follow_s=None):
        """After that change, within LIMIT operations, and so many seconds, the first server gets less than that part, in percent, and
        the others more."""
        def followed(table):
            return table.first >= before and table.shares[0] < less < min(table.shares[1:])

        begin, waits = time.monotonic(), pressure.waited()
        with steady.Steady(BUILD, 2, [None, None, RATE, RATE, RATE], elements, BURST) as work:
            work.wait(lambda: work.operations >= BEFORE)
            before = work.operations
            change(work, work.servers[0])
            changed, waits_then = time.monotonic(), pressure.waited()
            work.wait(lambda: work.operations > before + LIMIT or any(map(followed, work.tables())))
            took = time.monotonic() - changed
            too_slow = follow_s and took > follow_s and pressure.was_quiet(waits_then, took)
            tables = work.tables()
            work.end()  # all bits are those of the first operation
        if pressure.was_quiet(waits, time.monotonic() - begin):   # else the processors decide, and nothing is said of links
            self.assertLess(min(table.mbps for table in tables), 400, "what links carry must be found, which say 10000")
        self.assertTrue(any(map(followed, tables)), f"no table in time: change at {before}, tables {tables}")
        self.assertFalse(too_slow, f"the table must follow within {follow_s} s, got {took:.1f} s")

    def test_a_link_is_halved(self):
        self.follow(1 << 18, lambda work, server: work.shape(server, "100mbit"), 27, FOLLOW_S)

    def test_a_processor_is_taken(self):
        self.follow(1 << 19, lambda work, server: work.take_processor(server, 0.95), 30)

    def test_spare_reducers_serve_where_servers_claim_too_much(self):
        """One server for two ranks, on links that all carry the same: with reducers on the ranks' nodes it takes half of the time."""
        def serves(table):
            return min(table.shares) > 0

        begin, waits = time.monotonic(), pressure.waited()
        with steady.Steady(BUILD, 2, [RATE, RATE, RATE], 1 << 18, BURST, spare="1/2") as work:
            work.wait(lambda: work.operations > LIMIT or any(map(serves, work.tables())))
            work.wait(lambda: work.operations >= BEFORE)
            tables = work.tables()
            work.end()
        if not pressure.was_quiet(waits, time.monotonic() - begin):
            self.skipTest("other processes had the processors: operations may gain nothing then")
        self.assertTrue(any(map(serves, tables)), f"no table with reducers in time: {tables}")

    def test_one_shard_is_tried_where_it_can_carry_the_link(self):
        """Of servers that have two, as if their interfaces said 20 Gbit/s. Whether it is kept depends on what else this machine does."""
        with steady.Steady(BUILD, 2, [None, None, RATE, RATE], 1 << 18, BURST, ["--threads=2", "--bandwidth=20gbps"]) as work:
            work.wait(lambda: work.operations > LIMIT or any(table.shards == 2 for table in work.tables()))
            work.wait(lambda: work.operations >= BEFORE)
            tables = work.tables()
            work.end()
        self.assertTrue(any(table.shards == 2 for table in tables), f"no table of one shard for each server in time: {tables}")


def bench(*options):
    return subprocess.run([BENCH, f"--build={BUILD}", *options], capture_output=True, text=True, timeout=nodes.LONG * 5, check=False)


class BenchTest(unittest.TestCase):
    def test_a_short_run(self):
        done = bench("--workers=2", "--servers=2", "--rate=200mbit", "--size=512K", "--changes=link,shared,none", "--seconds=1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)["changes"]
        self.assertEqual(set(found), {"link", "shared", "none"})
        for change in found.values():
            self.assertGreater(change["before_ms"], 0)
            self.assertGreater(change["after_ms"], 0)
            self.assertEqual(len(change["servers_busy"]), 2)

    def test_wrong_command_lines(self):
        for words in (["--changes=weather"], ["--workers=0"], ["--rate=fast"], ["--bogus=1"], ["--servers=1"], ["--changes=spare"]):
            self.assertEqual(bench(*words).returncode, 2, words)


if __name__ == "__main__":
    if sys.argv[1:] == ["follow"]:
        sys.exit(lab.enter(lambda: 0 if unittest.main(argv=["follow", "RatesTest"], exit=False).result.wasSuccessful() else 1))
    nodes.require()
    CODE = subprocess.run([sys.executable, __file__, "follow"], check=False).returncode
    sys.exit(CODE or (0 if unittest.main(argv=["bench", "BenchTest"], exit=False).result.wasSuccessful() else 1))
