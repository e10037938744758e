"""A state directory of a test's own, and what summand says of the jobs in it."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
import at_once  # noqa: E402,F401
from hosts import only_here  # noqa: E402,F401

SUMMAND = os.path.join(os.environ.get("SUMMAND_BUILD", "build"), "bin", "summand")
SOURCE = os.environ.get("SUMMAND_SOURCE", os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../.."))
LONG = 120  # seconds: nothing here takes that long unless it hangs


def wait_until(condition, seconds=LONG):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def spec(script, name="stored"):
    container = {"imageUri": "local", "command": ["bash", "-c", script]}
    pool = {"replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": container}
    return {"displayName": name, "labels": {"team": "blue"}, "jobSpec": {"workerPoolSpecs": [pool]}}


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="summand-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.state = os.path.join(self.dir, "state")
        self.env = dict(os.environ, SUMMAND_STATE_DIR=self.state)

    def write_spec(self, script, name="stored"):
        path = os.path.join(tempfile.mkdtemp(dir=self.dir), "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec(script, name), file)
        return path

    def summand(self, *words, code=0, env=None, **options):
        """What it prints; its standard error is self.err."""
        run = subprocess.run([SUMMAND, *words], capture_output=True, text=True, env=env or self.env, timeout=LONG, check=False,
                             **options)
        self.err = run.stderr
        self.assertEqual(run.returncode, code, f"{words}\n{run.stdout}\n{run.stderr}")
        return run.stdout

    def jobs(self, verb, *words, **options):
        return self.summand("custom-jobs", verb, *words, **options)

    def local_run(self, script="true", *flags, name="stored", code=0, **options):
        return self.jobs("local-run", self.write_spec(script, name), *flags, code=code, **options)

    def start(self, script, *flags, name="stored"):
        run = subprocess.Popen([SUMMAND, "custom-jobs", "local-run", self.write_spec(script, name), *flags], env=self.env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, run)
        return run

    @staticmethod
    def end(run):
        if run.poll() is None:
            run.kill()
        run.wait()

    def all(self, *words):
        return json.loads(self.jobs("list", "--format=json", *words))

    def only(self):
        found = self.all()
        self.assertEqual(len(found), 1, found)
        return found[0]

    def database(self):
        return sqlite3.connect(os.path.join(self.state, "jobs.db"))
