"""A job's tests on a Slurm cluster of their own: what its queue says, and that nothing stays."""

import os
import re
import subprocess
import sys

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "functional", "runner"))
from job import AGENT, BIN, LONG, SUMMAND, JobTest, bash, wait_until  # noqa: E402

NODES = 4
ENGINE = "--engine=slurm"


class EngineCase(JobTest):
    TRACKS = "linuxproc"

    @classmethod
    def setUpClass(cls):
        cls.slurm = cls.enterClassContext(cluster.Cluster(NODES, tracks=cls.TRACKS))
        os.environ.update({name: cls.slurm.environment[name] for name in ("SLURM_CONF", "PATH")})
        os.environ["XDG_RUNTIME_DIR"] = f"{cls.slurm.folder}/run"
        os.mkdir(f"{cls.slurm.folder}/run", 0o700)

    def setUp(self):
        super().setUp()
        os.environ["TEST_MARK"] = self.mark  # agents and the job's holder have it, too

    def tearDown(self):
        super().tearDown()
        self.slurm.await_idle()
        self.assertEqual(self.queue(), [])
        self.assertEqual(os.listdir(os.environ["XDG_RUNTIME_DIR"]), [], "agents must remove their folders")

    def queue(self):
        return self.slurm.run("squeue", "--noheader", "--format=%i %T").stdout.splitlines()

    def job_number(self):
        """Of the job that has been asked for, or its first component."""
        self.assertTrue(wait_until(self.queue))
        return re.match(r"\d+", self.queue()[0]).group()

    def states(self, number):
        return re.findall(r"JobState=(\w+)", self.slurm.run("scontrol", "--oneliner", "show", "job", number).stdout)

    def assert_completed(self, number, components):
        """Once Slurm has taken its nodes back: the runner does not wait for that."""
        wait_until(lambda: "COMPLETING" not in self.states(number))
        self.assertEqual(self.states(number), ["COMPLETED"] * components)

    def log(self, run, name):
        try:
            return self.read(run, f"logs/{name}.log")
        except FileNotFoundError:
            return ""

    def wait_for_line(self, run, name, line):
        self.assertTrue(wait_until(lambda: line in self.log(run, name) or run.poll() is not None))
        self.assertIn(line, self.log(run, name))

    def fill(self):
        """A job of somebody else's that has all nodes."""
        number = self.slurm.run("sbatch", "--parsable", f"--nodes={NODES}", "--exclusive", "--output=/dev/null", "--wrap=sleep 600",
                                env={"TEST_MARK": ""}).stdout.strip()
        self.assertTrue(wait_until(lambda: self.states(number) == ["RUNNING"]))
        self.addCleanup(self.slurm.run, "scancel", number, check=False)
        return number

    def with_agent(self, script):
        """Programs in a folder of their own, with a script in the agent's place."""
        folder = self.path("programs/bin")
        os.makedirs(folder)
        for name in os.listdir(BIN):
            if name != "summand-agent":
                os.symlink(os.path.join(BIN, name), os.path.join(folder, name))
        os.unlink(f"{folder}/summand")
        subprocess.run(["cp", SUMMAND, folder], check=True)
        with open(f"{folder}/summand-agent", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{script}\nexec {AGENT} \"$@\"\n")
        os.chmod(f"{folder}/summand-agent", 0o755)
        for name in ("lib", "share"):
            if os.path.exists(os.path.join(BIN, "..", name)):
                os.symlink(os.path.realpath(os.path.join(BIN, "..", name)), self.path(f"programs/{name}"))
        spec = self.write_spec([bash("echo never"), bash("echo never")])
        return self.slurm.run(f"{folder}/summand", "custom-jobs", "local-run", spec, "--quiet", ENGINE, f"--job-dir={self.path('job')}",
                              check=False, env=dict(os.environ), timeout=2 * LONG)

    def assert_refused(self, text, *flags, pools=None, **spec_options):
        run = self.run_job(pools or [bash("echo never"), bash("echo never")], ENGINE, *flags, **spec_options)
        self.assert_code(run, 1)
        self.assertIn(text, run.err)
        return run
