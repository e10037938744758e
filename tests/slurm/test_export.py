"""Batch scripts that `summand custom-jobs export --to=slurm` writes, in a cluster: how jobs end there, and that nothing stays."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import cluster

BUILD = os.environ["SUMMAND_BUILD"]
SOURCE = os.environ["SUMMAND_SOURCE"]
LONG = 60
NODES = 7  # as many as the example has replicas
REPORT = ("import json, os, sys; n = os.environ; "
          "print(json.dumps([n.get(k) for k in ('SUMMAND_REPLICA', 'RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'SLURM_GPUS_ON_NODE')]))")


def pool(script, count=1, machine="n1-standard-4", **machine_spec):
    return {"machineSpec": {"machineType": machine, **machine_spec}, "replicaCount": count,
            "containerSpec": {"imageUri": "trainer", "command": ["sh", "-c", script]}}


def servers(count, *args):
    return {"machineSpec": {"machineType": "n1-highcpu-16"}, "replicaCount": count,
            "containerSpec": {"imageUri": "reductionserver", "args": list(args)}}


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = cls.enterClassContext(cluster.Cluster(NODES))

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="summand-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(f"{self.folder}/tmp")

    def submit(self, spec, *options, export=()):
        path = f"{self.folder}/job.sh"
        done = subprocess.run([f"{BUILD}/bin/summand", "custom-jobs", "export", "-", "--to=slurm", f"--output={path}", *export],
                              input=json.dumps({"displayName": "job", **spec}), capture_output=True, text=True, timeout=LONG,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        variables = {"PATH": f"{BUILD}/bin:{self.slurm.environment['PATH']}", "LD_LIBRARY_PATH": f"{BUILD}/lib",
                     "TMPDIR": f"{self.folder}/tmp", "SUMMAND_GRACE": "3"}
        return self.slurm.run("sbatch", "--parsable", "--output=job.out", *options, path, cwd=self.folder, env=variables, check=False)

    def output(self, name="job.out"):
        with open(f"{self.folder}/{name}", encoding="utf-8") as file:
            return file.read()

    def outputs(self, number):
        return {name: self.output(name) for name in os.listdir(self.folder) if f"workerpool{number}" in name}

    def assert_nothing_left(self):
        self.slurm.await_idle()
        self.assertEqual(os.listdir(f"{self.folder}/tmp"), [], "files of tokens must be removed")

    def test_digits(self):
        with open(f"{SOURCE}/specs/jobs/digits.json", encoding="utf-8") as file:
            spec = json.load(file)
        for index in (0, 1):
            spec["jobSpec"]["workerPoolSpecs"][index]["containerSpec"]["args"][0] = "--epochs=20"
        done = self.submit(spec, "--wait")
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        weights = set(re.findall(r"weights (\w+)", "".join([self.output(), *self.outputs(1).values()])))
        self.assertEqual(len(weights), 1, f"all ranks must have the same weights, got {weights}")
        self.assertEqual(len(self.outputs(1)), 3)
        for text in self.outputs(2).values():
            self.assertIn("ended: ", text, "servers must be asked to end, and not be killed")
        self.assertRegex("".join(self.outputs(3).values()), r"accuracy 0\.\d+ on held-out examples")
        self.assertTrue(os.listdir(f"{self.folder}/digits-{done.stdout.strip()}/checkpoints"))
        self.assert_nothing_left()

    def test_processes_and_gpus(self):
        report = f"{sys.executable} -c \"{REPORT}\""
        spec = {"displayName": "several", "labels": {"summand-processes-per-replica": "2"}, "jobSpec": {"workerPoolSpecs": [
            pool(report, machine="a2-highgpu-1g"), pool(report, 3, machine="a2-highgpu-1g")]}}
        done = self.submit(spec, "--wait")
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        lines = self.output() + "".join(self.outputs(1).values())
        found = sorted((json.loads(line) for line in lines.splitlines() if line.startswith("[")), key=lambda each: int(each[1]))
        self.assertEqual([each[:4] for each in found],
                         [[f"workerpool{int(rank > 1)}-{max(rank // 2 - 1, 0)}", str(rank), str(rank % 2), "8"] for rank in range(8)])
        self.assertEqual({each[4] for each in found}, {"1"}, "each node must give its GPU")

    def test_one_pool_is_no_heterogeneous_job(self):
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("echo $CLUSTER_SPEC; exit 0")]}}, "--wait")
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        [address] = json.loads(self.output())["cluster"]["workerpool0"]
        self.assertRegex(address, r"127\.0\.0\.1:2\d{4}")

    def test_a_chief_that_fails(self):
        begin = time.monotonic()
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("sleep 1; exit 7"), pool("sleep 600", 2), servers(1)]}}, "--wait")
        self.assertEqual(done.returncode, 7, done.stderr + self.output())
        self.assertLess(time.monotonic() - begin, 30)
        self.assert_nothing_left()

    def test_a_worker_that_fails(self):
        script = "[ $SUMMAND_REPLICA != workerpool1-1 ] || exit 9; sleep 600"
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("sleep 600"), pool(script, 2)]}}, "--wait")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("workerpool1: its step has ended with", self.output())
        self.assert_nothing_left()

    def test_a_server_that_does_not_start(self):
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("echo never"), {}, servers(2, "--threads=0")]}}, "--wait")
        self.assertEqual(done.returncode, 1, done.stderr + self.output())
        self.assertIn("workerpool2: must serve until the job ends, ended with 2", self.output())
        self.assertNotIn("never", self.output())
        self.assert_nothing_left()

    def test_a_cancelled_job(self):
        script = "trap 'echo asked; exit 0' TERM; echo started; while :; do sleep 0.1; done"
        job = self.submit({"jobSpec": {"workerPoolSpecs": [pool("sleep 600"), pool(script, 2), servers(1)]}}).stdout.strip()
        deadline = time.monotonic() + LONG
        while sum("started" in text for text in self.outputs(1).values()) < 2:
            self.assertLess(time.monotonic(), deadline, self.slurm.logs())
            time.sleep(0.1)
        self.slurm.run("scancel", job)
        self.assert_nothing_left()
        self.assertTrue(all("asked" in text for text in self.outputs(1).values()), self.outputs(1))

    def test_a_partition_that_is_not_there(self):
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("echo never")]}}, export=["--slurm-option=--partition=nowhere"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("invalid partition", done.stderr)


if __name__ == "__main__":
    cluster.require()
    unittest.main()
