"""tools/bench-allreduce: a small run measures every system that is here, checks it, and draws it."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import nodes

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(nodes.TOOLS, "bench"))
import lab  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
import setups  # noqa: E402

SIZES = [4096, 65536]
PATIENCE_S = 1000   # what a starved machine may take; only one that hangs takes longer


def bench(*options):
    return subprocess.run([nodes.BENCH, *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="summand-test-")
        cls.done = bench("--workers=2", "--server-rates=750mbit,250mbit", "--sizes=4K,64K", "--budget=0.02", "--tries=1", "--rounds=2",
                         f"--build={os.environ['SUMMAND_BUILD']}", f"--output={cls.folder}",
                         "--server-args=--memory-limit=64M")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def found(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        with open(os.path.join(self.folder, "allreduce.json"), encoding="utf-8") as file:
            setups_ = json.load(file)["setups"]
        self.assertEqual(len(setups_), 1)
        return setups_[0]

    def test_every_system_is_measured_and_verified(self):
        found = self.found()
        here = {"summand": True, "gloo": shutil.which("c++") and os.path.exists("/usr/include/gloo/allreduce.h"),
                "openmpi": shutil.which("mpirun") and shutil.which("mpicc"), "plain": shutil.which("cc")}
        for name, present in here.items():
            if not present:
                self.assertIn(name, found["absent"])
                self.assertIn(f"{name}: not measured", self.done.stdout)
                continue
            results = found["systems"][name]
            self.assertEqual(sorted(map(int, results)), SIZES)
            for result in results.values():
                self.assertTrue(result["verified"])
                self.assertGreater(result["us"], 0)
                self.assertGreaterEqual(result["iters"], 3)
                self.assertGreaterEqual(result["p95_us"], result["least_us"])
                self.assertGreater(result["rank_s_per_gb"], 0)
                self.assertEqual(result["rounds"], 2)
            self.assertIn(name, self.done.stdout)

    def test_the_link_is_measured(self):
        if not shutil.which("iperf3"):
            self.assertIn("iperf3", self.found()["absent"])
            return
        found = self.found()
        self.assertGreater(found["link"]["bytes_per_s"], 0)
        self.assertGreater(found["link"]["both_s_per_gb"], 0)
        self.assertGreater(found["mesh"]["server_s_per_gb"], 0)
        self.assertAlmostEqual(found["limit"] / found["link"]["bytes_per_s"], 0.5)

    def test_the_plot_is_xml(self):
        self.found()
        paths = glob.glob(os.path.join(self.folder, "*.svg"))
        self.assertEqual(len(paths), 1)
        root = xml.etree.ElementTree.parse(paths[0]).getroot()
        curves = root.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(curves), len(self.found()["systems"]))


class PartsTest(unittest.TestCase):
    def test_a_job_by_ssh(self):
        """Ranks and servers by one command, beside the same by hand, and beside servers that are told their rate."""
        with tempfile.TemporaryDirectory(prefix="summand-test-") as folder:
            options = ["--systems=summand,summand-job,iperf3", "--workers=2", "--server-rates=750mbit,250mbit", "--sizes=64K", "--budget=0.02",
                       "--tries=1", f"--build={os.environ['SUMMAND_BUILD']}", f"--output={folder}", "--server-args=--memory-limit=64M"]
            done = bench(*options, "--told")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"bandwidth by defaults to that of servers that are told their rate: 64K \d\.\d+")
        if "summand-job: not measured: needs ssh" in done.stdout:
            self.skipTest("ssh and sshd are not both here")
        if shutil.which("iperf3"):
            self.assertRegex(done.stdout, r"bandwidth of a job over ssh to the limit: 64K \d\.\d+")

    def test_wrong_sums_fail(self):
        """A stand-in for summand-perf that reports a wrong element fails the run."""
        with tempfile.TemporaryDirectory(prefix="summand-test-") as folder:
            os.mkdir(os.path.join(folder, "bin"))
            for name, script in (("summand-reduction-server", "echo ready; exec sleep 1000"),
                                 ("summand-perf", """echo '{"results": [{"wrong": 1, "time_us": {"median": 1, "p95": 1}, "cpu_us": 1}]}'""")):
                path = os.path.join(folder, "bin", name)
                with open(path, "w", encoding="ascii") as file:
                    file.write(f"#!/bin/sh\n{script}\n")
                os.chmod(path, 0o755)
            done = bench("--systems=summand", "--sizes=4K", "--workers=2", "--tries=1", f"--build={folder}")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("1 elements are wrong", done.stderr)

    def test_what_is_not_built_is_named(self):
        with tempfile.TemporaryDirectory(prefix="summand-test-") as folder:
            done = bench("--systems=summand", "--sizes=4K", "--workers=2", f"--build={folder}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("summand: not measured: must be built", done.stdout)

    def test_wrong_command_lines(self):
        for text, words in (("--bogus", ["--bogus=1"]), ("--sizes", ["--sizes=5"]), ("got 'ucx'", ["--systems=ucx"]),
                            ("got 'fast'", ["--rate=fast"]), ("--workers", ["--workers=1"]), ("--only", ["--only=99x"])):
            done = bench(*words)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(text, done.stderr)

    def test_limits_of_links(self):
        setup = setups.Setup("", 4, "1gbit", ["750mbit", "250mbit"])
        self.assertAlmostEqual(setup.share(100.0), 25.0)
        self.assertAlmostEqual(setups.equal(4, "1gbit").share(100.0), 100.0)
        self.assertAlmostEqual(setups.equal(8, "1gbit").ring(100.0), 100.0 * 8 / 14)

    def test_reducers_beside_workers(self):
        """From a ring's time to that of as many servers as workers, with shares that are exact."""
        limits = [setup.share(100.0) for setup in setups.hybrids() if setup.workers == 8]
        self.assertEqual(len(limits), 9)
        self.assertAlmostEqual(limits[0], 100 * 8 / 14)
        self.assertAlmostEqual(limits[4], 100 * (64 + 32 - 8) / (2 * 8 * 7))
        self.assertAlmostEqual(limits[8], 100.0)
        shares = [setup.reducer_share for setup in setups.hybrids() if setup.workers == 8]
        self.assertEqual([str(share) for share in shares], ["4/7", "1/2", "3/7", "5/14", "2/7", "3/14", "1/7", "1/14", "0"])
        self.assertEqual(setups.equal(4, "1gbit").reducer_share, 0)
        halves = setups.Setup("", 4, "1gbit", ["500mbit"] * 4, hybrid=True)
        self.assertEqual(str(halves.reducer_share), "2/3")
        self.assertAlmostEqual(halves.share(100.0), 100 * (16 + 2 * 2) / 24)
        with tempfile.TemporaryDirectory(prefix="summand-test-") as folder:
            done = bench("--hybrid", "--systems=summand", "--workers=2", "--servers=0", "--sizes=64K", "--budget=0.02", "--tries=1",
                         f"--build={os.environ['SUMMAND_BUILD']}", f"--output={folder}", "--server-args=--memory-limit=64M")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("0 servers, reducers beside the workers", done.stdout)

    def test_rates_of_nodes(self):
        self.assertEqual(lab.parse_rates("2:750mbit,1gbit", 3), ["1gbit", "1gbit", "750mbit"])
        self.assertEqual(lab.parse_rates("", 2), [None, None])
        self.assertEqual(lab.parse_bits("1.5gbit"), 1.5e9)

    def test_bfloat16_beside_float32(self):
        row = {"algorithm": "servers", "p95_us": 10.0, "rank_s_per_gb": 1.0}
        found = {"name": "x", "title": "x", "sizes": [4096], "absent": {}, "systems": {"summand": {4096: {**row, "us": 10.0}}}}
        self.assertEqual(report.verdicts(found, {"bf16": {4096: 1.8}}), [])
        found["systems"]["summand-bf16"] = {4096: {**row, "us": 5.0}}
        self.assertEqual([(v["target"], v["ratio"], v["reached"]) for v in report.verdicts(found, {"bf16": {4096: 1.8}})],
                         [("4K in two bytes an element to four", 2.0, True)])
        self.assertIn("in four: 4K 2.000", "\n".join(report.table(found)))

    def test_verdicts(self):
        found = {"name": "x", "sizes": [4096], "limit": 1e9, "ring": 5e8, "mesh": {"server_s_per_gb": 1.0}, "systems": {
            "summand": {4096: {"us": 10.0, "server_s_per_gb": 2.0}}, "gloo": {4096: {"us": 15.0}}}}
        targets = {"limit": {4096: 0.4}, "peer": {4096: 1.0}, "half_of_gloo": True, "cost": True}
        self.assertEqual([(round(v["ratio"], 3), v["reached"]) for v in report.verdicts(found, targets)],
                         [(0.41, True), (1.5, True), (1.5, False), (0.5, False)])

    def test_a_job_has_the_same_targets(self):
        found = {"name": "x", "sizes": [4096], "limit": 1e9, "systems": {"summand-job": {4096: {"us": 10.0}}}}
        for systems, ratios in ((found["systems"], [0.41]), ({**found["systems"], "summand": {4096: {"us": 5.0}}}, [0.819, 0.41])):
            verdicts = report.verdicts({**found, "systems": systems}, {"limit": {4096: 0.5}})
            self.assertEqual([round(verdict["ratio"], 3) for verdict in verdicts], ratios)
            self.assertEqual((verdicts[-1]["target"], verdicts[-1]["reached"]), ("4K of a job to the links' limit", False))

    def test_targets_against_the_yardsticks(self):
        """Latency's tail against Open MPI's, speed and the servers' time against the plain server, ranks' time against Gloo's."""
        found = {"name": "x", "sizes": [4096], "systems": {
            "summand": {4096: {"us": 10.0, "p95_us": 20.0, "rank_s_per_gb": 1.0, "server_s_per_gb": 2.0}},
            "plain": {4096: {"us": 5.0, "p95_us": 9.0, "rank_s_per_gb": 1.0, "server_s_per_gb": 3.0}},
            "gloo": {4096: {"us": 15.0, "p95_us": 30.0, "rank_s_per_gb": 0.5}},
            "openmpi": {4096: {"us": 12.0, "p95_us": 30.0, "rank_s_per_gb": 0.5}}}}
        targets = {"p95": True, "plain": {4096: 1.0}, "plain_cost": True, "rank_cost": True}
        self.assertEqual([(v["ratio"], v["reached"]) for v in report.verdicts(found, targets)],
                         [(1.5, True), (0.5, False), (1.5, True), (0.5, False)])

    def test_rounds_are_combined_by_medians(self):
        one = {"algorithm": "ring", "lost": 0}
        several = rounds.Rounds()
        for us, p95 in ((30.0, 31.0), (10.0, 99.0), (20.0, 50.0)):
            several.add({4096: dict(one, us=us, p95_us=p95)})
        self.assertEqual(several.combined()[4096],
                         dict(one, us=20.0, p95_us=50.0, rounds=3, least_us=10.0, most_us=30.0))

    def test_the_plots_grid_has_some_lines_whatever_is_highest(self):
        for top in range(1, 1000):
            labels = [part for part in plot.grid(plot.Axes([4096], top / 100), []) if 'text-anchor="end"' in part]
            self.assertTrue(3 <= len(labels) <= 9, (top, labels))

    def test_sizes_of_the_plot(self):
        self.assertEqual([plot.size_text(size) for size in (4, 4096, 6 << 20)], ["4", "4K", "6M"])


if __name__ == "__main__":
    nodes.require()
    unittest.main()
