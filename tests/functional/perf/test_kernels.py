"""summand-perf kernels, summand-perf allreduce in every type and reduction, and which kernels a server takes."""

import json
import os
import unittest

from programs import ProgramTest

DTYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16",
          "float8e4m3", "float8e5m2"]
OPS = ["sum", "prod", "max", "min", "avg"]
COLUMNS = {"dtype", "op", "variant", "kernel_GBps", "memcpy_GBps", "ratio"}


class KernelsTest(ProgramTest):
    def perf(self, *options):
        return self.run_program("summand-perf", "kernels", "--bytes=4K", "--milliseconds=0", *options)

    def test_table_has_every_kernel(self):
        done = self.perf("--variant=scalar")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual([tuple(row[:3]) for row in rows], [(dtype, op, "scalar") for dtype in DTYPES for op in OPS])
        self.assertTrue(all(float(row[4]) > 0 for row in rows))

    def test_json(self):
        done = self.perf("--dtype=bfloat16", "--op=avg", "--inputs=3", "--json")
        self.assertEqual(done.returncode, 0, done)
        report = json.loads(done.stdout)
        self.assertEqual((report["inputs"], report["bytes"]), (3, 4096))
        self.assertIn("scalar", [result["variant"] for result in report["results"]])
        for result in report["results"]:
            self.assertEqual(set(result), COLUMNS)
            self.assertEqual((result["dtype"], result["op"]), ("bfloat16", "avg"))
            self.assertGreater(result["kernel_GBps"], 0)
            self.assertAlmostEqual(result["ratio"], result["kernel_GBps"] / result["memcpy_GBps"], delta=1e-3)

    def test_a_server_tells_an_unknown_variant_before_it_is_ready(self):
        server = self.start_program("summand-reduction-server", "--listen=127.0.0.1:0", "--memory-limit=64M", SUMMAND_CPU="mmx")
        self.assertRegex(server.stdout.readline(), "^ready ")
        self.terminate(server)
        _, err = self.assert_ended(server, 0)
        self.assertIn('SUMMAND_CPU: must be scalar, avx2, avx512 or neon, got "mmx"', err)

    def test_usage_errors(self):
        for option, text in [("--dtype=float9", "must be int8, uint8"), ("--op=sub", "must be sum, prod, max, min or avg"),
                             ("--variant=mmx", "must be scalar, avx2, avx512 or neon"), ("--inputs=0", "must be 1 to 4096"),
                             ("--bytes=1", "must be 64 to"), ("--milliseconds=-1", "must be a whole number"),
                             ("more", "there must be no operand")]:
            with self.subTest(option=option):
                done = self.run_program("summand-perf", "kernels", option)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(text, done.stderr)


class TypesTest(ProgramTest):
    def test_every_type_and_reduction(self):
        """With a sanitizer each type once: kernels.native has all of them there."""
        for number, dtype in enumerate(DTYPES):
            for op in [OPS[number % len(OPS)]] if os.environ.get("SUMMAND_SANITIZE") else OPS:
                with self.subTest(dtype=dtype, op=op):
                    done = self.run_program("summand-perf", "allreduce", "--local=3", "--local-servers=2",
                                            "--sizes=8,40000", "--iters=1", "--warmup=0", f"--dtype={dtype}",
                                            f"--op={op}", "--json")
                    self.assertEqual(done.returncode, 0, done)
                    self.assertEqual([(result["dtype"], result["op"], result["wrong"])
                                      for result in json.loads(done.stdout)["results"]], [(dtype, op, 0)] * 2)


if __name__ == "__main__":
    unittest.main()
