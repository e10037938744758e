"""tools/bench-mixed: small operations beside large ones are measured, every sum is right, and what cannot be measured is said."""

import json
import os
import subprocess
import unittest

import nodes

BENCH = os.path.join(nodes.TOOLS, "bench-mixed")
BUILD = f"--build={os.environ['SUMMAND_BUILD']}"
PATIENCE_S = 300    # only one that hangs takes longer


def bench(*options):
    return subprocess.run([BENCH, BUILD, *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class MixedTest(unittest.TestCase):
    def test_both_are_measured(self):
        done = bench("--rate=200mbit", "--large=1M", "--seconds=1", "--told", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(done.stdout)["servers_are"]
        self.assertEqual(set(found), {"defaults", "told"})
        for one in found.values():
            self.assertTrue(all(us > 0 for us in one.values()), one)

    def test_an_operation_that_takes_longer_than_there_is_time(self):
        done = bench("--rate=20mbit", "--large=4M", "--seconds=1")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("--seconds must be more", done.stderr)

    def test_a_wrong_command_line(self):
        for option in ("--rate=fast", "--large=1", "--seconds=0", "--nothing"):
            done = bench(option)
            self.assertEqual(done.returncode, 2, option)
            self.assertIn(option.partition("=")[0], done.stderr)


if __name__ == "__main__":
    nodes.require()
    unittest.main()
