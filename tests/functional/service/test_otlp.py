"""Traces of jobs, read by OpenTelemetry's own protocol buffers from npm (tests/clients/otlp)."""

import os
import subprocess
import unittest

import npm
from served import LONG, ServiceTest, wait_until


class Otlp(ServiceTest):
    def test_a_trace_is_what_opentelemetry_reads(self):
        traces = os.path.join(self.dir, "traces")
        self.serve("--traces=" + traces, *self.FLAGS)
        jobs = [self.create("true", "näme"), self.create("echo no such file >&2; exit 3", "fails")]
        for number, state in zip(jobs, ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED")):
            self.await_state(number, state)
            path = os.path.join(traces, number + ".json")
            self.assertTrue(wait_until(lambda path=path: os.path.exists(path) and os.path.getsize(path)))
            run = subprocess.run(["node", "read.js", path], cwd=FOLDER, capture_output=True, text=True, timeout=LONG, check=False)
            self.assertEqual((run.returncode, run.stdout), (0, "6\n"), run.stderr)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for wrong in ('"startTimeUnixNano"', "startTime"), ('"kind":1', '"kind":"one"'), ('"code":', '"codes":'):
                with open(path + ".wrong", "w", encoding="utf-8") as file:
                    file.write(text.replace(*wrong))
                run = subprocess.run(["node", "read.js", path + ".wrong"], cwd=FOLDER, capture_output=True, timeout=LONG, check=False)
                self.assertNotEqual(run.returncode, 0, f"{wrong}: the reader must see it")


if __name__ == "__main__":
    FOLDER = npm.install("otlp", 18)
    unittest.main()
