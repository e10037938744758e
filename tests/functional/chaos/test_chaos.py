"""tools/chaos, for a minute of other cells each time, and its table beside the page's."""

import glob
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ["SUMMAND_SOURCE"]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "tools", "chaotic"))
import cells  # noqa: E402
import record  # noqa: E402

CHAOS = os.path.join(SOURCE, "tools", "chaos")
SECONDS = 60
JOBS = 2
PATIENCE_S = 1200   # cells that have begun are finished, on a machine with much other work


def run(*options, **variables):
    return subprocess.run([sys.executable, CHAOS, *options], env={**os.environ, **variables}, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)


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

    def test_what_was_played_least_comes_first(self):
        """Also where another run has played, and what did not hold counts as played."""
        every = cells.all_cells()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results")
            played = record.Record(path)
            self.assertEqual(played.least_played(every), every)
            for cell in every[2:]:
                played.add(cell, 7, record.HELD, "")
            played.add(every[0], 8, record.BROKEN, "took too long")
            again = record.Record(path)
            self.assertEqual(again.least_played(every), [every[1]])
            for seed in range(record.TRIES):  # is tried again, but not for ever
                self.assertEqual(again.least_played(every), [every[1]])
                again.add(every[1], seed, record.SKIPPED, "")
            self.assertEqual(again.least_played([*every[:1], *every[2:]]), [*every[:1], *every[2:]])
            self.assertNotIn(every[1], again.least_played(every))
            again.add(every[0], 10, record.HELD, "")
            self.assertEqual(again.summary(every), f"{len(every) + 3} played, {len(every)} of {len(every)} cells, 1 broken, 1 skipped")
            self.assertEqual(again.words_of(every[0]), "1, 1 broken")

    def test_some_cells(self):
        """Others each time: the output has the seed of the whole and of each."""
        with tempfile.TemporaryDirectory() as folder:
            build, results, said_in = f"--build={os.environ['SUMMAND_BUILD']}", f"--results={folder}/results", os.path.join(folder, "said")
            os.mkdir(said_in)
            done = run(f"--seconds={SECONDS}", f"--jobs={JOBS}", build, results, TMPDIR=said_in)
            print(done.stdout, flush=True)
            self.assertEqual(bool(os.listdir(said_in)), done.returncode == 1, "what was said stays where a cell broke, and only there")
            if done.returncode == 77:
                self.skipTest(done.stdout.strip())
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("chaos: everything held", done.stdout)
            said = run("--seconds=0", build, results).stdout
            self.assertEqual(said.splitlines()[1:-2], done.stdout.splitlines()[-len(said.splitlines()) + 1:-2], "the table goes on")

    def test_one_that_is_interrupted_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as said_in:
            chaos = subprocess.Popen([sys.executable, CHAOS, f"--build={os.environ['SUMMAND_BUILD']}", "--cell=server/join", "--jobs=1"],
                                     env={**os.environ, "TMPDIR": said_in}, stdout=subprocess.DEVNULL)
            while chaos.poll() is None and not glob.glob(f"{said_in}/*/*/*"):
                time.sleep(0.01)
            chaos.send_signal(signal.SIGINT)
            self.assertIn(chaos.wait(PATIENCE_S), (130, 77))
            self.assertEqual(os.listdir(said_in), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
