"""Replicas in containers of Pyxis on a Slurm cluster; a plugin of the test's stands in for it (pyxis.c)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "functional", "runner"))
from job import BIN, JobTest, bash, children_of, command_of, processes_with, reduction_servers, wait_until  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.environ["SUMMAND_SOURCE"]
FLAGS = ("--engine=slurm", "--container-runtime=pyxis")
UNABLE = 77


def require_plugin():
    """Its path, in a folder that the caller removes; or the test ends as skipped."""
    if os.geteuid() != 0:
        print("skipped: the plugin that stands in for Pyxis mounts and changes the root, as root alone may")
        sys.exit(UNABLE)
    if not shutil.which("gcc") or not os.path.exists("/usr/include/slurm/spank.h"):
        print("skipped: gcc and slurm/spank.h are not installed")
        sys.exit(UNABLE)
    folder = tempfile.mkdtemp(prefix="summand-test-")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-o", f"{folder}/pyxis.so", f"{HERE}/pyxis.c"], check=True)
    return folder


def make_image(folder, programs):
    """A root of some of this machine's programs, with the libraries that they need."""
    wanted = {}
    for program in programs:
        path = os.path.realpath(shutil.which(program))
        wanted[f"bin/{os.path.basename(program)}"] = path
        listing = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
        wanted.update({library.lstrip("/"): library for library in re.findall(r"(/\S+) \(", listing)})
    for library in [library for library in wanted.values() if "libsummand" in library]:
        wanted[f"lib/{os.path.basename(library)}"] = library  # beside its program's folder, as a build has it
    for name, path in wanted.items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        shutil.copy(path, f"{folder}/{name}")


class PyxisTest(JobTest):
    @classmethod
    def setUpClass(cls):
        cls.image = f"{FOLDER}/image"
        make_image(cls.image, ["sh", "sleep", "setsid", "cat", os.path.join(BIN, "summand-digits")])
        shutil.copy(f"{SOURCE}/worker/examples/digits/digits.txt", cls.image)
        cls.told = f"{FOLDER}/told"
        cls.slurm = cls.enterClassContext(cluster.Cluster(3, plugin=f"{FOLDER}/pyxis.so {cls.told}"))
        os.environ.update({name: cls.slurm.environment[name] for name in ("SLURM_CONF", "PATH")})
        os.environ["XDG_RUNTIME_DIR"] = f"{cls.slurm.folder}/run"
        os.mkdir(f"{cls.slurm.folder}/run", 0o700)

    def setUp(self):
        super().setUp()
        os.environ["TEST_MARK"] = self.mark
        if os.path.exists(self.told):
            os.unlink(self.told)

    def tearDown(self):
        super().tearDown()
        self.slurm.await_idle()
        self.assertEqual(os.listdir(os.environ["XDG_RUNTIME_DIR"]), [], "agents must remove their folders")

    def shell(self, script, count=1, **more):
        return {"replicaCount": count, "command": ["/bin/sh", "-c", script], "imageUri": self.image, **more}

    def log(self, run, name="workerpool0-0"):
        try:
            return self.read(run, f"logs/{name}.log")
        except FileNotFoundError:
            return ""

    def wait_for_line(self, run, line):
        self.assertTrue(wait_until(lambda: line in self.log(run) or run.poll() is not None))
        self.assertIn(line, self.log(run))

    def containers(self):
        with open(self.told, encoding="utf-8") as file:
            return file.readlines()

    # ---- jobs that go well ----

    def test_a_job(self):
        odd = "a=b 'c' \"d\"\nnext"
        script = ("echo $SUMMAND_REPLICA of $WORLD_SIZE; echo \"$ODD\"; echo oops >&2; echo $OF_THE_IMAGE; "
                  "echo result steps 3 >&$SUMMAND_NOTIFY_FD; read -r token <$SUMMAND_TOKEN_FILE; echo ${#token}; "
                  "echo more 2>&- >>$SUMMAND_TOKEN_FILE || echo read only; [ -e /bin/setsid ] && ! [ -e /etc/passwd ]")
        env = [{"name": "ODD", "value": odd}, {"name": "OF_THE_IMAGE", "value": "spec"}]
        run = self.run_job([self.shell(script, env=env), self.shell(":", 2), reduction_servers()],
                           *FLAGS, "--slurm-option=workerpool1:--nodes=1")
        self.assert_code(run, 0)
        log = self.log(run)
        self.assertIn(f"workerpool0-0 of 3\n{odd}\n", log)
        self.assertRegex(log, r"(?m)^spec$")
        self.assertIn("64\nread only\n", log)
        self.assertIn("oops\n", log)
        self.assertEqual(self.read_json(run, "summary.json")["steps"], 3)
        self.assertIn("ended: ", self.log(run, "workerpool2-0"), "the reduction server is Summand's own program")
        self.assertEqual(len(self.containers()), 3)

    def test_digits_with_a_server(self):
        """Workers in containers find the server and use it."""
        with open(f"{SOURCE}/specs/jobs/digits.json", encoding="utf-8") as file:
            spec = json.load(file)
        pools = spec["jobSpec"]["workerPoolSpecs"]
        del pools[3:]
        for index in (0, 1):
            pools[index]["replicaCount"] = 1
            container = pools[index]["containerSpec"]
            container["imageUri"] = self.image
            container["args"] = ["--epochs=3", "--data=/digits.txt", *container["args"][1:]]
            container["command"] = ["/bin/summand-digits"]
        pools[2]["replicaCount"] = 1
        path = self.path("spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        run = self.finish(self.start_spec(path, *FLAGS))
        self.assert_code(run, 0)
        weights = set(re.findall(r"weights (\w+)", self.log(run) + self.log(run, "workerpool1-0")))
        self.assertEqual(len(weights), 1, f"all ranks must have the same weights, got {weights}")
        self.assertEqual(len(self.containers()), 2)

    # ---- ends ----

    def test_a_failure(self):
        run = self.run_job([self.shell("echo why >&2; echo '{\"message\": \"in the file\"}' >$TORCHELASTIC_ERROR_FILE; exit 7")], *FLAGS)
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool0-0 exited with a non-zero status of 7.", run.err)
        self.assertIn("    why\n", run.err)
        self.assertIn("in the file", run.err)

    def test_a_signal(self):
        run = self.run_job([self.shell("kill -9 $$$$")], *FLAGS)
        self.assert_code(run, 1)
        self.assertIn("exited with a non-zero status of 137", run.err)

    def test_asked_to_end(self):
        run = self.start([self.shell("trap 'echo asked; sleep 0.5; echo over; exit 0' TERM; echo started; while :; do sleep 0.1; done")],
                         *FLAGS)
        self.wait_for_line(run, "started")
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)
        self.assertRegex(self.log(run), r"(?s)asked\n.*over\n")

    def test_a_stubborn_one_is_killed(self):
        run = self.start([self.shell("trap '' TERM; echo started; while :; do sleep 0.1; done")], *FLAGS, "--grace=1")
        self.wait_for_line(run, "started")
        run.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(run), 143)

    def test_a_killed_keeper(self):
        """Its container goes with it, and the next attempt has one of its own."""
        run = self.start([self.shell("echo started $SUMMAND_RESTARTS; [ $SUMMAND_RESTARTS = 1 ] || sleep 1000")], *FLAGS,
                         labels={"restart-backoff": "0"})
        self.wait_for_line(run, "started 0")
        [step] = [pid for pid in processes_with(self.mark) if "--container-step=" in command_of(pid)]
        with open(f"/proc/{step}/stat", encoding="ascii") as file:
            keeper = int(file.read().rpartition(")")[2].split()[1])
        self.assertIn(step, children_of(keeper))
        os.kill(keeper, signal.SIGKILL)
        self.assert_code(self.finish(run), 0)
        self.assertIn("started 1", self.log(run))
        self.assertEqual(len(self.containers()), 2)

    # ---- what cannot be ----

    def test_the_image_is_missing(self):
        run = self.run_job([{**self.shell(":"), "imageUri": "nvcr.io/no/image:1"}], *FLAGS)
        self.assert_code(run, 1)
        self.assertIn("failed to import docker image nvcr.io#no/image:1", run.err)

    def test_an_image_alone(self):
        run = self.run_job([{"replicaCount": 1, "imageUri": self.image}], *FLAGS)
        self.assert_code(run, 2)
        self.assertIn("workerpool0 must have a command: Pyxis does not run an image's own entry point", run.err)

    def test_no_pyxis(self):
        """A cluster whose configuration has no plugin."""
        shutil.copy(os.environ["SLURM_CONF"], self.path("slurm.conf"))
        right, os.environ["SLURM_CONF"] = os.environ["SLURM_CONF"], self.path("slurm.conf")
        try:
            run = self.run_job([self.shell("echo never")], *FLAGS)
        finally:
            os.environ["SLURM_CONF"] = right
        self.assert_code(run, 2)
        self.assertIn("--container-runtime=pyxis: srun must know --container-image", run.err)

    def test_another_engine(self):
        run = self.run_job([bash("echo never")], "--container-runtime=pyxis")
        self.assert_code(run, 2)
        self.assertIn("--container-runtime=pyxis: must come with --engine=slurm", run.err)


if __name__ == "__main__":
    cluster.require()
    FOLDER = require_plugin()
    try:
        unittest.main()
    finally:
        shutil.rmtree(FOLDER)
