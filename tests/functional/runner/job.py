"""Jobs for the runner's tests: specs, runs, and what a run has left behind."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
import at_once  # noqa: E402,F401
import hosts  # noqa: E402
from hosts import ADDRESS, OVER_HOSTS, only_here  # noqa: E402,F401

BIN = os.path.join(os.environ.get("SUMMAND_BUILD", "build"), "bin")
SUMMAND = os.path.join(BIN, "summand")
AGENT = os.path.join(BIN, "summand-agent")
REDUCTION_SERVER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
LONG = 120  # seconds: nothing here takes that long unless it hangs


def parent_of(pid):
    """For a script of bash."""
    return f"$(cut -d' ' -f4 /proc/{pid}/stat)"


# What a replica's script has above it: $PPID keeps it. What carries agents to hosts is between the runner and them.
HOST_AGENT = parent_of("$PPID")
RUNNER = parent_of(parent_of(HOST_AGENT)) if OVER_HOSTS else parent_of(HOST_AGENT)


def bash(script, count=1):
    """A pool whose replicas run a bash script."""
    return pool(["bash", "-c", script], count)


def pool(command, count=1):
    return {"replicaCount": count, "command": command, "imageUri": "local"}


def reduction_servers(count=1, script=None):
    """A pool of reduction servers; with a script, programs of that name stand in for them."""
    return {"replicaCount": count, "imageUri": REDUCTION_SERVER, "script": script}


def processes_with(mark):
    """Ids of the processes that have the mark in their environment, zombies aside."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                if mark.encode() in environ.read():
                    found.append(int(pid))
        except OSError:
            pass  # it has ended, or is somebody else's
    return found


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return "(it has ended)"


def processes_of(replica, program, mark):
    """Those of a replica that run that program; what starts and keeps them is called otherwise."""
    found = []
    for pid in processes_with(mark):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                words = environ.read().split(b"\0")
        except OSError:
            continue  # it has ended
        if f"SUMMAND_REPLICA={replica}".encode() in words and os.path.basename(command_of(pid).split("\0")[0]) == program:
            found.append(pid)
    return found


def children_of(pid):
    """Ids of its children, in the order in which they came."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []  # it has ended


def wait_until(condition, seconds=LONG):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class JobTest(unittest.TestCase):
    """Runs jobs; after each test no process of its jobs may be left."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="summand-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.mark = uuid.uuid4().hex
        if OVER_HOSTS:
            os.environ["TEST_MARK"] = self.mark  # agents have it, too

    def tearDown(self):
        left = wait_until(lambda: not processes_with(self.mark), 20)
        names = [command_of(pid) for pid in processes_with(self.mark)]
        for pid in processes_with(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assertTrue(left, f"left behind: {names}")

    def make_hosts(self):
        """For jobs over them, until the test's end."""
        os.environ["TEST_MARK"] = self.mark  # agents have it, too
        os.environ["XDG_RUNTIME_DIR"] = self.path("run")
        os.mkdir(self.path("run"), 0o700)
        made = hosts.Hosts(self.dir)
        self.addCleanup(made.end)
        return made

    def fake_program(self, script):
        """A directory in which summand-reduction-server is the script."""
        folder = tempfile.mkdtemp(dir=self.dir)
        path = os.path.join(folder, "summand-reduction-server")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + script)
        os.chmod(path, 0o755)
        return folder

    def write_spec(self, pools, timeout=None, scheduling=None, labels=None):
        folder = tempfile.mkdtemp(dir=self.dir)
        specs = []
        for each in pools:
            if not each:
                specs.append({})
                continue
            container = {"imageUri": each["imageUri"],
                         "env": [{"name": "TEST_MARK", "value": self.mark},
                                 {"name": "TEST_JOB_DIR", "value": os.path.join(folder, "job")}]}
            container["env"] += each.get("env", [])
            if each.get("args"):
                container["args"] = each["args"]
            if each.get("command"):
                container["command"] = each["command"]
            if each.get("script"):
                path = self.fake_program(each["script"]) + ":/usr/bin:/bin"
                container["env"].append({"name": "PATH", "value": path})
            elif each["imageUri"] == REDUCTION_SERVER:
                container["args"] = ["--memory-limit=64M", *each.get("args", [])]
            machine = {"machineType": "n1-standard-8"}
            if each.get("accelerators"):
                machine.update(acceleratorType="NVIDIA_TESLA_V100",
                               acceleratorCount=each["accelerators"])
            specs.append({"machineSpec": machine,
                          "replicaCount": each["replicaCount"], "containerSpec": container})
        job = {"workerPoolSpecs": specs}
        if timeout or scheduling:
            job["scheduling"] = scheduling or {"timeout": timeout}
        path = os.path.join(folder, "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"displayName": "runner test", "jobSpec": job,
                       "labels": {f"summand-{k}": v for k, v in (labels or {}).items()}}, file)
        return path

    VIEW = ("--quiet",)  # the runner's own words on standard output; most tests look at these

    def start(self, pools, *flags, **spec_options):
        """Starts a job; its directory is run.job_dir."""
        return self.start_spec(self.write_spec(pools, **spec_options), *flags)

    def start_spec(self, spec, *flags):
        job_dir = os.path.join(os.path.dirname(spec), "job")
        view = () if "--stream-logs" in flags else self.VIEW
        run = subprocess.Popen(
            [SUMMAND, "custom-jobs", "local-run", spec, f"--job-dir={job_dir}", *view, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        run.job_dir = job_dir
        self.addCleanup(self.end, run)
        return run

    def runner_of(self, run):
        """The process below the one that was started, which runs the job."""
        self.assertTrue(wait_until(lambda: children_of(run.pid)))
        return children_of(run.pid)[0]

    def agent_of(self, run):
        """The agent of the first host, which has a child for each process of a replica."""
        above = self.runner_of(run)
        for _ in range(2 if OVER_HOSTS else 1):  # what carries the first host's agent there is between them
            self.assertTrue(wait_until(lambda: children_of(above)))
            above = children_of(above)[0]
        return above

    @staticmethod
    def end(run):
        if run.poll() is None:
            run.kill()
        run.communicate()

    def finish(self, run, seconds=LONG):
        run.out, run.err = run.communicate(timeout=seconds)
        return run

    def run_job(self, pools, *flags, **spec_options):
        return self.finish(self.start(pools, *flags, **spec_options))

    def wait_for_file(self, path):
        self.assertTrue(wait_until(lambda: os.path.exists(path)), f"{path} never came")

    def path(self, name):
        return os.path.join(self.dir, name)

    def assert_code(self, run, code):
        self.assertEqual(run.returncode, code, f"\n{run.out}\n{run.err}")

    @staticmethod
    def read(run, name):
        with open(os.path.join(run.job_dir, name), encoding="utf-8") as file:
            return file.read()

    def read_json(self, run, name):
        return json.loads(self.read(run, name))
