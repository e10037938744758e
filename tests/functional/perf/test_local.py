"""summand-perf with servers and ranks of its own: its table, its JSON, its usage errors."""

import json
import re
import unittest

from programs import ProgramTest


class LocalTest(ProgramTest):
    def perf(self, *options):
        return self.run_program("summand-perf", "allreduce", *options)

    def test_table(self):
        done = self.perf("--local=3", "--local-servers=2", "--sizes=4,4K,1M", "--iters=3")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertIn("all-reduce of 3 ranks", lines[0])
        self.assertRegex(lines[1], r"^# servers 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+$")
        self.assertRegex(done.stdout, r"#\s+size\s+count\s+type\s+op\s+time\s+algbw\s+busbw\s+wrong")
        rows = [line.split() for line in lines if not line.startswith("#")]
        self.assertEqual([row[:4] for row in rows], [["4", "1", "float32", "sum"], ["4096", "1024", "float32", "sum"],
                                                    ["1048576", "262144", "float32", "sum"]])
        self.assertEqual([row[7] for row in rows], ["0", "0", "0"])
        self.assertNotIn("operations at the same time", done.stdout)
        self.assertRegex(lines[-2], r"# in case a server is lost, at most \d+ KiB of 4096 were kept, and 0 of 65536 of inputs in place; "
                                    r"the table of servers changed \d+ times, at most \d+ were there at once, and all took \d+ KiB$")
        self.assertEqual(lines[-1], "# wrong elements: 0 OK")

    def test_small_sizes_have_more_iterations(self):
        """20 of 4 KiB would be over before ranks have found out what is fastest."""
        done = self.perf("--local=2", "--local-servers=1", "--sizes=4K,2M")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("# 500 iterations after 101 of the smallest size, to 128 after 26 of the largest; ", done.stdout)
        done = self.perf("--local=2", "--local-servers=1", "--sizes=4K,2M", "--iters=2")
        self.assertIn("# 2 iterations after 5; ", done.stdout)

    def test_json(self):
        done = self.perf("--local=4", "--local-servers=1", "--sizes=64K,3M", "--dtype=int32", "--iters=3", "--json")
        self.assertEqual(done.returncode, 0, done)
        report = json.loads(done.stdout)
        self.assertEqual(report["nranks"], 4)
        self.assertEqual([result["bytes"] for result in report["results"]], [64 << 10, 3 << 20])
        self.assertEqual(report["history"]["limit"], 4 << 20)
        self.assertEqual(report["undo"], {"bytes": 0, "limit": 64 << 20})  # for network cards only
        self.assertTrue(64 << 10 <= report["history"]["bytes"] < 256 << 10, report)  # of the larger one nothing is kept
        self.assertGreaterEqual(report["epochs"], 0)
        self.assertGreaterEqual(report["tables"]["most"], 1)
        self.assertGreater(report["tables"]["bytes"], 0)
        for result in report["results"]:
            self.assertEqual(set(result), {"bytes", "count", "dtype", "op", "time_us", "algbw_GBps", "busbw_GBps",
                                           "cpu_us", "idle_percent", "wrong", "iters", "warmup"})
            self.assertEqual((result["iters"], result["warmup"]), (3, 5))
            self.assertEqual(result["count"], result["bytes"] // 4)
            self.assertEqual((result["dtype"], result["op"], result["wrong"]), ("int32", "sum", 0))
            time_us = result["time_us"]
            self.assertTrue(0 < time_us["min"] <= time_us["median"] <= time_us["p95"] <= time_us["max"])
            self.assertTrue(time_us["min"] <= time_us["mean"] <= time_us["max"])
            self.assertGreater(result["cpu_us"], 0)
            self.assertAlmostEqual(result["algbw_GBps"], result["bytes"] / time_us["median"] / 1e3, delta=1e-3)
            self.assertAlmostEqual(result["busbw_GBps"], result["algbw_GBps"] * 2 * 3 / 4, delta=1e-3)

    def test_each_iteration(self):
        done = self.perf("--local=2", "--local-servers=1", "--sizes=4K,64K", "--iters=7", "--each", "--json")
        self.assertEqual(done.returncode, 0, done)
        for result in json.loads(done.stdout)["results"]:
            self.assertEqual(len(result["each_us"]), 7)
            self.assertEqual(result["wrong"], 0)
            most = result["time_us"]["max"] * 1.00001 + 0.1  # of six digits
            self.assertTrue(all(0 < us <= most for us in result["each_us"]), (most, result["each_us"]))

    def test_in_place(self):
        for inflight in (1, 3):
            done = self.perf("--local=3", "--local-servers=2", "--in-place", f"--inflight={inflight}", "--sizes=4,100000,1M",
                             "--iters=4", "--each", "--json")
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual([result["wrong"] for result in json.loads(done.stdout)["results"]], [0, 0, 0])

    def test_rolling(self):
        """The next operation begins when the oldest has ended, whatever communicator it is in; all results are right."""
        for options in (), ("--inflight=1", "--warmup=0", "--each"), ("--comms=2",), ("--in-place", "--each"):
            with self.subTest(options=options):
                done = self.perf("--local=2", "--local-servers=1", "--rolling", "--inflight=3", "--sizes=4,100000", "--iters=4",
                                 "--json", *options)
                self.assertEqual(done.returncode, 0, done)
                report = json.loads(done.stdout)
                self.assertTrue(report["rolling"])
                for result in report["results"]:
                    self.assertEqual(result["wrong"], 0)
                    time_us = result["time_us"]
                    self.assertTrue(0 < time_us["min"] <= time_us["median"] <= time_us["max"], time_us)
                    self.assertEqual(len(result.get("each_us", [])), 4 if "--each" in options else 0)
        done = self.perf("--local=2", "--local-servers=1", "--rolling", "--inflight=3", "--sizes=4K", "--iters=2")
        self.assertIn("# always 3 operations at the same time", done.stdout)

    def test_idle_share_of_processors(self):
        """It is that of timed iterations, which one alone is not: that one is checked."""
        done = self.perf("--local=2", "--local-servers=1", "--sizes=1M", "--iters=100")
        idle = re.search(r"^# processors of this host: idle for (\d+) % of the timed iterations$", done.stdout, re.MULTILINE)
        self.assertTrue(idle and 0 <= int(idle[1]) <= 100, done)
        done = self.perf("--local=2", "--local-servers=1", "--sizes=4K", "--iters=1", "--json")
        self.assertIsNone(json.loads(done.stdout)["results"][0]["idle_percent"])

    def test_float32_in_two_bytes(self):
        for wire, name in (("bf16", "bfloat16"), ("fp16", "float16")):
            for op in ("sum", "avg"):  # thirds are rounded
                done = self.perf("--local=3", "--local-servers=2", f"--op={op}", f"--wire={wire}", "--sizes=4,100000,1M",
                                 "--iters=3", "--json")
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual(json.loads(done.stdout)["wire"], name)
        for dtype in "int32", "bfloat16":
            done = self.perf("--local=2", f"--dtype={dtype}", "--wire=bf16")
            self.assert_usage_error(done, f"--wire: must be left out with --dtype={dtype}: it is what float32 is sent as")
        done = self.perf("--local=2", "--wire=bf17")
        self.assert_usage_error(done, "summand-perf: ")
        self.assertEqual(done.stderr, 'summand-perf: --wire: must be float32, bf16 or fp16, got "bf17"\n')

    def test_the_table_says_what_float32_is_sent_as(self):
        """SUMMAND_WIRE is for the whole job: other types are as they are. So are a few float32."""
        options = ("--local=2", "--local-servers=1", "--sizes=512,4K", "--iters=1")
        for arguments, variables, types in [
                (("--wire=bf16",), {}, ["float32", "float32 as bf16"]),
                ((), {"SUMMAND_WIRE": "fp16"}, ["float32", "float32 as fp16"]),
                (("--wire=float32",), {"SUMMAND_WIRE": "fp16"}, ["float32", "float32"]),
                (("--dtype=float64",), {"SUMMAND_WIRE": "fp16"}, ["float64", "float64"])]:
            with self.subTest(arguments=arguments, variables=variables):
                done = self.run_program("summand-perf", "allreduce", *options, *arguments, **variables)
                self.assertEqual(done.returncode, 0, done)
                rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
                self.assertEqual([" ".join(row[2:-5]) for row in rows], types)
                halved = f"# {types[1]}: in half the bytes; size, algbw and busbw are of float32\n"
                self.assertEqual(halved in done.stdout, " as " in types[1], done)

    def test_range_of_sizes(self):
        done = self.perf("--local=2", "--local-servers=1", "--min=1K", "--max=20K", "--factor=4", "--iters=1", "--json")
        self.assertEqual([result["bytes"] for result in json.loads(done.stdout)["results"]], [1024, 4096, 16384])

    def test_sizes_that_are_no_whole_elements_are_rounded_down(self):
        done = self.perf("--local=2", "--local-servers=1", "--sizes=7,4099", "--iters=1", "--json")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual([(result["bytes"], result["count"]) for result in json.loads(done.stdout)["results"]],
                         [(4, 1), (4096, 1024)])

    def test_usage_errors(self):
        for options, text in [
                ((), "either --local=N, or --group, --nranks and --rank below it must be given"),
                (("--group=g", "--nranks=2", "--rank=2"), "--nranks and --rank below it must be given"),
                (("--group=g", "--nranks=2"), "--nranks and --rank below it must be given"),
                (("--local=2", "--iters=0"), "--iters: must be at least 1, got 0"),
                (("--local=4097",), "--local and --local-servers: must be at most 4096 and 64"),
                (("--local=2", "--sizes=4K,,8K"), '--sizes: must be sizes such as 4K,1M,64M, got "4K,,8K"'),
                (("--local=2", "--sizes=0"), '--sizes: must be sizes such as 4K,1M,64M, got "0"'),
                (("--local=2", "--sizes=3"), "sizes: each must hold an element of 4 bytes, got 3"),
                (("--local=2", "--dtype=int9"), '--dtype: must be int8, uint8'),
                (("--local=2", "--op=sub"), '--op: must be sum, prod, max, min or avg, got "sub"'),
                (("--local=2", "--factor=1"), "--factor at least 2, got 4096, 16777216 and 1"),
                (("--local=2", "--min=2K", "--max=1K"), "--min must be at least 1 and at most --max"),
                (("--local=two",), "--local"),
                (("--local=2", "--item=3"), "--item: unknown option"),
                (("--local=2", "extra"), 'there must be no operand, got "extra"')]:
            with self.subTest(options=options):
                self.assert_usage_error(self.perf(*options), text)

    def test_unknown_command(self):
        self.assert_usage_error(self.run_program("summand-perf", "allreduc"), "did you mean `summand-perf allreduce`?")
        self.assert_usage_error(self.run_program("summand-perf"), "Usage: summand-perf COMMAND")

    def test_help_and_version(self):
        for arguments in [("--help",), ("allreduce", "--help"), ("--version",)]:
            done = self.run_program("summand-perf", *arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("summand-perf", done.stdout)


unittest.main()
