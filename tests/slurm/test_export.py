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
from unittest import mock

import cluster

BUILD = os.environ["SUMMAND_BUILD"]
SOURCE = os.environ["SUMMAND_SOURCE"]
LONG = 60
PATIENCE = 240  # nothing here takes that long, but what a job is told to sleep for takes longer
NODES = 7  # as many as the example has replicas
REPORT = ("import json, os, sys; n = os.environ; "
          "print(json.dumps([n.get(k) for k in ('SUMMAND_REPLICA', 'RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'SLURM_GPUS_ON_NODE')]))")
SAVE = """
from signal import SIGTERM, SIG_BLOCK, pthread_sigmask, sigtimedwait
pthread_sigmask(SIG_BLOCK, [SIGTERM])
print("started", flush=True)
patience = 3600
while sigtimedwait([SIGTERM], patience):
    print("asked", flush=True)
    patience = 1
print("saved", flush=True)
"""


def pool(script, count=1, machine="n1-standard-4", **machine_spec):
    return {"machineSpec": {"machineType": machine, **machine_spec}, "replicaCount": count,
            "containerSpec": {"imageUri": "trainer", "command": ["sh", "-c", script]}}


def servers(count, *args):
    return {"machineSpec": {"machineType": "n1-highcpu-16"}, "replicaCount": count,
            "containerSpec": {"imageUri": "reductionserver", "args": list(args)}}


class ExportCase(unittest.TestCase):
    TRACKS = "linuxproc"

    @classmethod
    def setUpClass(cls):
        cls.slurm = cls.enterClassContext(cluster.Cluster(NODES, tracks=cls.TRACKS, kill_wait=30))

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="summand-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(f"{self.folder}/tmp")

    def submit(self, spec, *options, export=(), wait=False, grace=3):
        path = f"{self.folder}/job.sh"
        done = subprocess.run([f"{BUILD}/bin/summand", "custom-jobs", "export", "-", "--to=slurm", f"--output={path}", *export],
                              input=json.dumps({"displayName": "job", **spec}), capture_output=True, text=True, timeout=LONG,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        variables = {"PATH": f"{BUILD}/bin:{self.slurm.environment['PATH']}", "LD_LIBRARY_PATH": f"{BUILD}/lib",
                     "TMPDIR": f"{self.folder}/tmp", "SUMMAND_GRACE": str(grace)}
        done = self.slurm.run("sbatch", "--parsable", "--output=job.out", *options, path, cwd=self.folder, env=variables, check=False)
        if wait and done.returncode == 0:
            done.returncode = self.end_of(done.stdout.strip())
        return done

    def end_of(self, number):
        """Its exit code. sbatch's own --wait looks after 2, 10 and 42 seconds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            told = self.slurm.run("squeue", "--noheader", f"--jobs={number}", check=False)
            if not told.stdout and (told.returncode == 0 or "Invalid job id" in told.stderr):
                break
            self.assertLess(time.monotonic(), deadline, self.slurm.logs())
            time.sleep(0.1)
        told = self.slurm.run("scontrol", "--oneliner", "show", "job", number).stdout.splitlines()[0]
        code, signal = re.search(r" ExitCode=(\d+):(\d+) ", told).groups()
        return int(code) or (128 + int(signal) if int(signal) else 0)

    def output(self, name="job.out"):
        with open(f"{self.folder}/{name}", encoding="utf-8") as file:
            return file.read()

    def outputs(self, number):
        return {name: self.output(name) for name in os.listdir(self.folder) if f"workerpool{number}" in name}

    def assert_nothing_left(self):
        self.slurm.await_idle()
        self.assertEqual(os.listdir(f"{self.folder}/tmp"), [], "files of tokens must be removed")

    def start_that_saves(self):
        """A job whose workers need a second to end when they are asked, and say how often; they have half a minute."""
        with open(f"{self.folder}/save.py", "w", encoding="ascii") as file:
            file.write(SAVE)
        script = f"exec {sys.executable} {self.folder}/save.py"
        job = self.submit({"jobSpec": {"workerPoolSpecs": [pool("sleep 600"), pool(script, 2), servers(1)]}}, grace=30).stdout.strip()
        deadline = time.monotonic() + LONG
        while sum("started" in text for text in self.outputs(1).values()) < 2:
            self.assertLess(time.monotonic(), deadline, self.slurm.logs())
            time.sleep(0.1)
        return job

    def check_grace(self):
        self.assert_nothing_left()
        self.assertEqual([text.count("asked\n") for text in self.outputs(1).values()], [1, 1], self.outputs(1))
        self.assertEqual([text.count("saved\n") for text in self.outputs(1).values()], [1, 1], self.outputs(1))
        self.assertIn("ended: ", "".join(self.outputs(2).values()))

    def check_digits(self):
        with open(f"{SOURCE}/specs/jobs/digits.json", encoding="utf-8") as file:
            spec = json.load(file)
        for index in (0, 1):
            spec["jobSpec"]["workerPoolSpecs"][index]["containerSpec"]["args"][0] = "--epochs=20"
        done = self.submit(spec, wait=True)
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        weights = set(re.findall(r"weights (\w+)", "".join([self.output(), *self.outputs(1).values()])))
        self.assertEqual(len(weights), 1, f"all ranks must have the same weights, got {weights}")
        self.assertEqual(len(self.outputs(1)), 3)
        for text in self.outputs(2).values():
            self.assertIn("ended: ", text, "servers must be asked to end, and not be killed")
        self.assertRegex("".join(self.outputs(3).values()), r"accuracy 0\.\d+ on held-out examples")
        self.assertTrue(os.listdir(f"{self.folder}/digits-{done.stdout.strip()}/checkpoints"))
        self.assert_nothing_left()


class SlurmTest(ExportCase):
    def test_digits(self):
        self.check_digits()

    def test_processes_and_gpus(self):
        report = f"{sys.executable} -c \"{REPORT}\""
        spec = {"displayName": "several", "labels": {"summand-processes-per-replica": "2"}, "jobSpec": {"workerPoolSpecs": [
            pool(report, machine="a2-highgpu-1g"), pool(report, 3, machine="a2-highgpu-1g")]}}
        done = self.submit(spec, wait=True)
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        lines = self.output() + "".join(self.outputs(1).values())
        found = sorted((json.loads(line) for line in lines.splitlines() if line.startswith("[")), key=lambda each: int(each[1]))
        self.assertEqual([each[:4] for each in found],
                         [[f"workerpool{int(rank > 1)}-{max(rank // 2 - 1, 0)}", str(rank), str(rank % 2), "8"] for rank in range(8)])
        self.assertEqual({each[4] for each in found}, {"1"}, "each node must give its GPU")

    def test_one_pool_is_no_heterogeneous_job(self):
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("echo $CLUSTER_SPEC; exit 0")]}}, wait=True)
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        [address] = json.loads(self.output())["cluster"]["workerpool0"]
        self.assertRegex(address, r"127\.0\.0\.1:2\d{4}")

    def test_a_chief_that_fails(self):
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("sleep 1; exit 7"), pool("sleep 600", 2), servers(1)]}}, wait=True)
        self.assertEqual(done.returncode, 7, done.stderr + self.output())
        self.assert_nothing_left()

    def test_a_worker_that_fails(self):
        """Its code is told, though it is less than that of the other worker, which is asked to end then."""
        script = "[ $SUMMAND_REPLICA != workerpool1-1 ] || { sleep 1; exit 9; }; sleep 600"
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("sleep 600"), pool(script, 2)]}}, wait=True)
        self.assertEqual(done.returncode, 9, self.output())
        self.assertIn("workerpool1: its step has ended with 9", self.output())
        self.assert_nothing_left()

    def test_a_server_that_does_not_start(self):
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("echo never"), {}, servers(2, "--threads=0")]}}, wait=True)
        self.assertEqual(done.returncode, 1, done.stderr + self.output())
        # srun tells the highest code of a step's tasks: that of one that it ended is 143.
        self.assertRegex(self.output(), "workerpool2: must serve until the job ends, ended with (2|143)\n")
        self.assertNotIn("never", self.output())
        self.assert_nothing_left()

    def test_a_cancelled_job(self):
        """Without control groups srun hears of it, too, and ends its step."""
        job = self.start_that_saves()
        self.slurm.run("scancel", job)
        self.assert_nothing_left()
        self.assertTrue(all("asked" in text for text in self.outputs(1).values()), self.outputs(1))

    def test_a_script_that_is_asked_to_end(self):
        """As sbatch's --signal=B:TERM@SECONDS does."""
        self.slurm.run("scancel", "--batch", "--signal=TERM", self.start_that_saves())
        self.check_grace()
        self.assertIn("Slurm ends the job: replicas have 30 s at most", self.output())

    def test_variables_of_a_profile(self):
        """Defaults of Slurm's commands in the shell that calls sbatch, some of another job, select and ask for nothing."""
        hostile = {"SQUEUE_PARTITION": "urgent", "SQUEUE_STATES": "COMPLETED", "SQUEUE_SORT": "x", "SCANCEL_STATE": "PENDING",
                   "SCANCEL_PARTITION": "urgent", "SRUN_CPUS_PER_TASK": "64", "SLURM_MEM_PER_CPU": "1", "SLURM_EXCLUSIVE": "1", "SLURM_GPUS": "4",
                   "SLURM_GRES": "gpu:9", "SLURM_NNODES": "9", "SLURM_OPEN_MODE": "x", "SLURM_WORKING_DIR": "/none"}
        with mock.patch.dict(self.slurm.environment, hostile):
            job = self.start_that_saves()
        self.slurm.run("scancel", "--batch", "--signal=TERM", job)
        self.check_grace()

    def test_a_partition_that_is_not_there(self):
        done = self.submit({"jobSpec": {"workerPoolSpecs": [pool("echo never")]}}, export=["--slurm-option=--partition=nowhere"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("invalid partition", done.stderr)


@unittest.skipUnless(cluster.can_track_by_cgroup(), "control groups cannot be made here")
class ControlGroupsTest(ExportCase):
    """Where Slurm tells a step's tasks alone to end, and not what they have started."""

    TRACKS = "cgroup"

    def test_digits(self):
        self.check_digits()

    def test_a_cancelled_job(self):
        self.slurm.run("scancel", self.start_that_saves())
        self.check_grace()

    def test_out_of_slurms_time(self):
        self.slurm.run("scontrol", "update", f"jobid={self.start_that_saves()}", "EndTime=now+2")
        self.check_grace()

    def test_a_script_that_is_asked_to_end(self):
        self.slurm.run("scancel", "--batch", "--signal=TERM", self.start_that_saves())
        self.check_grace()


if __name__ == "__main__":
    cluster.require()
    unittest.main()
