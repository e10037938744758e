"""Jobs inside what Slurm has granted already: the nodes of an salloc, a batch script or a heterogeneous job are theirs."""

import os
import unittest
from unittest import mock

import cluster
from engine_case import ENGINE, EngineCase
from job import SUMMAND, bash, wait_until


class InsideTest(EngineCase):
    def run_inside(self, options, pools, **spec_options):
        spec = self.write_spec(pools, **spec_options)
        return self.slurm.run("salloc", *options, SUMMAND, "custom-jobs", "local-run", spec, "--quiet", ENGINE,
                              f"--job-dir={self.path('job')}", check=False, env=dict(os.environ))

    def inside_log(self, name):
        with open(f"{self.path('job')}/logs/{name}.log", encoding="utf-8") as file:
            return file.read()

    def test_inside(self):
        done = self.run_inside(["--nodes=3"], [bash("echo $SLURM_JOB_ID $SLURMD_NODENAME"), bash("echo $SLURM_JOB_ID $SLURMD_NODENAME", 2)])
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [self.inside_log(name).split() for name in ("workerpool0-0", "workerpool1-0", "workerpool1-1")]
        self.assertEqual(len({number for number, _ in said}), 1, "no other job may be submitted")
        self.assertEqual(len({node for _, node in said}), 3)

    def test_inside_a_heterogeneous_job(self):
        done = self.run_inside(["--nodes=2", ":", "--nodes=1"], [bash("echo $SLURMD_NODENAME", 1), bash("echo $SLURMD_NODENAME", 1)])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(self.inside_log("workerpool0-0"), self.inside_log("workerpool1-0"))

    def test_inside_with_tasks(self):
        done = self.run_inside(["--nodes=2", "--ntasks=4"], [bash("exit 0"), bash("exit 0", 3)])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_inside_a_batch_script(self):
        """The job's nodes are used, and summand's exit code is the script's."""
        script = bash("echo $SLURM_JOB_ID $SLURMD_NODENAME")
        spec = self.write_spec([script, script])
        with open(self.path("script"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\nexec {SUMMAND} custom-jobs local-run {spec} --quiet {ENGINE} --job-dir={self.path('job')}\n")
        number = self.slurm.run("sbatch", "--parsable", "--nodes=2", f"--output={self.path('output')}", self.path("script"),
                                env=dict(os.environ)).stdout.strip()
        self.assertTrue(wait_until(lambda: not self.queue()), self.slurm.logs())
        with open(self.path("output"), encoding="utf-8") as file:
            self.assertEqual(self.states(number), ["COMPLETED"], file.read())
        said = [self.inside_log(name).split() for name in ("workerpool0-0", "workerpool1-0")]
        self.assertEqual([each[0] for each in said], [number, number], "no other job may be submitted")
        self.assertEqual(len({node for _, node in said}), 2)

    def test_inside_too_small(self):
        done = self.run_inside(["--nodes=2"], [bash("echo never"), bash("echo never", 2)])
        self.assertEqual(done.returncode, 1)
        self.assertIn("workerpool1-1 must find a host with 1 free slot, got none: 2 hosts with 2 slots in all", done.stderr)

    def test_inside_with_options(self):
        done = self.run_inside(["--nodes=1"], [bash("echo never")])
        self.assertEqual(done.returncode, 0)
        spec = self.write_spec([bash("echo never")])
        done = self.slurm.run("salloc", "--nodes=1", SUMMAND, "custom-jobs", "local-run", spec, ENGINE, "--slurm-partition=debug",
                              check=False, env=dict(os.environ))
        self.assertIn("--slurm-option: must not be there inside Slurm job", done.stderr)

    def test_inside_what_has_ended(self):
        number = self.slurm.run("sbatch", "--parsable", "--wait", "--output=/dev/null", "--wrap=exit 0").stdout.strip()
        for stale in (number, "4000000"):  # Slurm remembers the first, and not the other
            with mock.patch.dict(os.environ, {"SLURM_JOB_ID": stale}):
                self.assert_refused(f"SLURM_JOB_ID names job {stale}, which has ended: unset it")


if __name__ == "__main__":
    cluster.require()
    unittest.main()
