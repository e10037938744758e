"""tools/bench-setting: what a setting changes is measured in pairs, every sum is right, and what cannot be measured is said."""

import json
import os
import subprocess
import unittest

import nodes

BENCH = os.path.join(nodes.TOOLS, "bench-setting")
BUILD = f"--build={os.environ['SUMMAND_BUILD']}"
PATIENCE_S = 300    # only one that hangs takes longer


def bench(*options):
    return subprocess.run([BENCH, BUILD, *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class SettingTest(unittest.TestCase):
    def test_both_settings_are_measured(self):
        done = bench("SUMMAND_WIRE=float32,bf16", "--workers=2", "--servers=1", "--rate=100mbit", "--size=256K", "--rounds=2",
                     "--pairs=4", "--set=SUMMAND_RATES=declared", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((found["values"], found["bytes"], len(found["ratios"])), (["float32", "bf16"], 256 << 10, 4))
        self.assertGreater(found["ratio"], 1.2)  # a link of 100 Mbit/s, and half the bytes

    def test_a_setting_that_libsummand_refuses(self):
        done = bench("SUMMAND_WIRE=float32,bf17", "--workers=2", "--servers=1", "--rounds=2", "--pairs=1")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn('got "bf17"', done.stderr)

    def test_a_wrong_command_line(self):
        for words in (("--size=1",), ("--pairs=0",), ("--nothing",), ("SUMMAND_WIRE=bf16",), ("A=b,c", "B=c,d"), ("SUMMAND_AFFINITY=any,spread",), ()):
            done = bench(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(words[-1].partition("=")[0] if words else "VARIABLE=A,B must be given", done.stderr)


if __name__ == "__main__":
    nodes.require()
    unittest.main()
