"""tools/chaos, for a quarter of a minute, and its table beside the page's."""

import os
import subprocess
import sys
import unittest

SOURCE = os.environ["SUMMAND_SOURCE"]
CHAOS = os.path.join(SOURCE, "tools", "chaos")
SECONDS = 15
PATIENCE_S = 1200   # cells that have begun are finished, on a machine with much other work


def run(*options):
    return subprocess.run([sys.executable, CHAOS, *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class ChaosTest(unittest.TestCase):
    def test_the_table_is_the_pages(self):
        listed = run("--list")
        self.assertEqual(listed.returncode, 0, listed)
        with open(os.path.join(SOURCE, "specs", "design", "chaos.md"), encoding="utf-8") as page:
            self.assertIn(listed.stdout, page.read())

    def test_usage_errors(self):
        for options, text in ((("--sec=1",), "there is no option --sec=1"), (("--seconds=x",), "--seconds: must be a number, got 'x'"),
                              (("--build=/nowhere",), "must be a build"), (("--jobs=0",), "--jobs: must be at least 1"),
                              ((f"--build={os.environ['SUMMAND_BUILD']}", "--cell=client"), "no cell's name begins with 'client'")):
            done = run(*options)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(text, done.stderr)

    def test_some_cells(self):
        done = run(f"--seconds={SECONDS}", "--seed=1", "--jobs=2", f"--build={os.environ['SUMMAND_BUILD']}")
        print(done.stdout)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("chaos: everything held", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
