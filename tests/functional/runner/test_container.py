"""Replicas in containers of a real podman, with an image made of this machine's shell."""

import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import unittest
import uuid

from job import LONG, OVER_HOSTS, SUMMAND, JobTest, at_once, children_of, command_of, processes_with, reduction_servers, wait_until

IMAGE = "localhost/summand-test-" + uuid.uuid4().hex
NOBODYS_IMAGE = IMAGE + "-nobody"     # the same, whose programs are not root
ENTRYPOINT = '--change=ENTRYPOINT ["/bin/sh", "-c", "echo entry: $0 $1"]'
# What runs wherever podman does, containers within containers included.
CONFIGURATION = """
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
[containers]
default_ulimits = ["nofile=1000:1000", "nproc=1000:1000"]
"""


def libraries(path):
    listing = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(", listing)


def write_image(path, names):
    """A file system of some of this machine's programs, with the libraries that they need."""
    programs = [shutil.which(name) for name in names]
    with tarfile.open(path, "w") as image:
        for name, program in zip(names, programs):
            image.add(os.path.realpath(program), "bin/" + name)
        for library in sorted({one for program in programs for one in libraries(program)}):
            image.add(os.path.realpath(library), library.lstrip("/"))


def podman(*words):
    return subprocess.run(["podman", *words], check=False, capture_output=True, text=True)


def make_image(folder):
    """Imports the image; a text says why it cannot be run."""
    archive = os.path.join(folder, "image.tar")
    write_image(archive, ["sh", "sleep", "setsid"])
    made = podman("import", "--quiet", ENTRYPOINT, archive, IMAGE)
    if made.returncode == 0:
        made = podman("import", "--quiet", "--change=USER 1234:1234", archive, NOBODYS_IMAGE)
    if made.returncode == 0:
        made = podman("run", "--rm", "--network=host", IMAGE)
    return made.stderr if made.returncode else None


class ContainerTest(JobTest):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("podman") or not shutil.which("runc"):
            raise unittest.SkipTest("podman and runc are not installed")
        folder = tempfile.mkdtemp(prefix="summand-test-")
        cls.addClassCleanup(shutil.rmtree, folder)
        os.environ["CONTAINERS_CONF"] = os.path.join(folder, "containers.conf")
        with open(os.environ["CONTAINERS_CONF"], "w", encoding="utf-8") as file:
            file.write(CONFIGURATION)
        problem = make_image(folder)
        cls.addClassCleanup(podman, "rmi", "--force", IMAGE, NOBODYS_IMAGE)
        if problem:
            raise unittest.SkipTest(f"podman runs no containers here: {problem}")

    @staticmethod
    def shell(script, count=1, image=IMAGE):
        return {"replicaCount": count, "command": ["/bin/sh", "-c", script], "imageUri": image}

    @staticmethod
    def containers(run):
        """Names of the job's containers, ended ones too."""
        with open(os.path.join(run.job_dir, "env/workerpool0-0.env"), encoding="utf-8") as file:
            errors = os.path.dirname(re.search(r"^export TORCHELASTIC_ERROR_FILE='(.*)'$", file.read(), re.MULTILINE)[1])
        mounted = ["--filter=volume=" + os.path.realpath(errors)]
        return podman("ps", "--all", "--format={{.Names}}", *mounted).stdout.split()

    def test_a_job(self):
        odd = "a=b 'c' \"d\"\nnext"
        script = ("echo $SUMMAND_REPLICA of $WORLD_SIZE; echo \"$ODD\"; echo oops >&2; "
                  "echo result steps 3 >&$SUMMAND_NOTIFY_FD; echo out > $SUMMAND_OUTPUT_DIR/file; "
                  "[ -e /bin/setsid ] && ! [ -e /etc/passwd ]")
        spec = self.write_spec([self.shell(script), self.shell(":", 2)])
        with open(spec, encoding="utf-8") as file:
            job = json.load(file)
        job["jobSpec"]["baseOutputDirectory"] = {"outputUriPrefix": "gs://bucket/out"}
        job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"].append(
            {"name": "ODD", "value": odd})
        with open(spec, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = self.finish(self.start_spec(spec, "--container-runtime=podman", "--grace=20"))
        self.assert_code(run, 0)
        log = self.read(run, "logs/workerpool0-0.log")
        self.assertIn(f"workerpool0-0 of 3\n{odd}\n", log)
        self.assertIn("oops\n", log)
        self.assertEqual(self.read_json(run, "summary.json")["steps"], 3)
        self.assertEqual(self.read(run, "output/file"), "out\n")
        self.assertEqual(self.containers(run), [])

    def test_a_session(self):
        """In the replica's container; what is left of it there ends with whoever asked."""
        run = self.start([self.shell("echo waits; sleep 1000")], "--container-runtime=podman", "--grace=1")
        self.wait_for_file(os.path.join(run.job_dir, "logs/workerpool0-0.log"))
        self.assertTrue(wait_until(lambda: "waits" in self.read(run, "logs/workerpool0-0.log")))
        begin = [SUMMAND, "custom-jobs", "exec", self.read_json(run, "state.json")["name"]]
        script = "read word; echo $word in $SUMMAND_REPLICA; [ -e /etc/passwd ] || exit 4"
        done = subprocess.run([*begin, "--", "/bin/sh", "-c", script], input="here\n", capture_output=True, text=True, timeout=LONG, check=False)
        self.assertEqual((done.returncode, done.stdout), (4, "here in workerpool0-0\n"), done.stderr)
        session = subprocess.Popen([*begin, "--", "sleep", "999"], stdin=subprocess.DEVNULL)
        sleeps = lambda: [pid for pid in processes_with(self.mark) if command_of(pid) == "sleep\x00999\x00"]  # noqa: E731
        self.assertTrue(wait_until(sleeps))
        session.kill()
        session.wait()
        self.assertTrue(wait_until(lambda: not sleeps()))
        run.send_signal(signal.SIGINT)
        self.finish(run)

    def run_with_output(self, pools):
        spec = self.write_spec(pools)
        with open(spec, encoding="utf-8") as file:
            job = json.load(file)
        job["jobSpec"]["baseOutputDirectory"] = {"outputUriPrefix": "gs://bucket/out"}
        with open(spec, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return self.finish(self.start_spec(spec, "--container-runtime=podman", "--grace=20"))

    def test_what_a_container_sees_of_the_job(self):
        """Its token, its folders, and nothing else, whoever its programs are."""
        script = ("cd ${SUMMAND_TOKEN_FILE%/*}; echo *; read -r token <token; echo ${#token} of $SUMMAND_TOKEN_FILE; "
                  "echo more 2>&- >>token || echo read only; echo out >$SUMMAND_OUTPUT_DIR/file; "
                  "echo '{\"message\": \"as I am not root\"}' >$TORCHELASTIC_ERROR_FILE; exit 3")
        for image in IMAGE, NOBODYS_IMAGE:
            with self.subTest(image=image):
                run = self.run_with_output([self.shell(script, image=image), {}, reduction_servers()])
                self.assert_code(run, 1)
                token = r"/\S*/summand-agent-\w+/token" if OVER_HOSTS else re.escape(os.path.realpath(run.job_dir) + "/token")
                folders = "errors token" if OVER_HOSTS else "errors output token"
                self.assertRegex(self.read(run, "logs/workerpool0-0.log"), rf"^{folders}\n64 of {token}\nread only\n$")
                self.assertEqual(self.read(run, "output/file"), "out\n")
                self.assertIn("as I am not root", run.err)
                self.assertEqual(os.stat(run.job_dir).st_mode & 0o777, 0o700)

    def test_no_value_is_on_a_command_line(self):
        """But for those by which a runtime finds its own things."""
        secrets = {"DB_PASSWORD": "se\ncret-" + self.mark, "PLAIN": "plain-" + self.mark, "EMPTY": "",
                   "DOCKER_TOKEN": "secret-too-" + self.mark}
        settings = {"HOME": "/home-" + self.mark, "PATH": "/bin:/path-" + self.mark}
        chief = {**self.shell("for name in DB_PASSWORD PLAIN EMPTY DOCKER_TOKEN HOME PATH; do "
                              "eval \"echo \\\"$name \\${$name-unset}\\\"\"; done; sleep 1000"),
                 "env": [{"name": name, "value": value} for name, value in {**secrets, **settings}.items()]}
        run = self.start([chief], "--container-runtime=podman", "--grace=1")
        log = os.path.join(run.job_dir, "logs/workerpool0-0.log")
        self.wait_for_file(log)
        self.assertTrue(wait_until(lambda: "PATH " in self.read(run, "logs/workerpool0-0.log")))
        lines = [command_of(pid) for pid in processes_with(self.mark)]
        run.send_signal(signal.SIGINT)
        self.finish(run)
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"),
                         "".join(f"{name} {value}\n" for name, value in {**secrets, **settings}.items()))
        self.assertTrue(any("podman" in line for line in lines))
        for name, value in secrets.items():
            self.assertFalse(value and any(value in line for line in lines), name)

    def test_an_image_alone(self):
        run = self.run_job([{"replicaCount": 1, "imageUri": IMAGE, "args": ["first", "second"]}],
                           "--container-runtime=podman")
        self.assert_code(run, 0)
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "entry: first second\n")

    def test_a_failure(self):
        run = self.run_job([self.shell("echo why >&2; exit 7")], "--container-runtime=podman")
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool0-0 exited with a non-zero status of 7.", run.err)
        self.assertIn("    why\n", run.err)
        self.assertEqual(self.containers(run), [])

    def start_sleeping(self, *flags):
        run = self.start([self.shell("echo ready; setsid sleep 1000 & sleep 1000")],
                         "--container-runtime=podman", *flags)
        self.wait_for_file(os.path.join(run.job_dir, "logs/workerpool0-0.log"))
        self.assertTrue(wait_until(lambda: "ready" in self.read(run, "logs/workerpool0-0.log")))
        self.assertEqual(len(self.containers(run)), 1)
        return run

    def test_an_interrupted_job_leaves_nothing(self):
        run = self.start_sleeping("--grace=1")
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)
        self.assertEqual(self.containers(run), [])
        self.assertEqual(processes_with(self.mark), [])

    def test_a_killed_runner_leaves_nothing(self):
        run = self.start_sleeping()
        run.kill()
        run.communicate(timeout=LONG)
        self.assertTrue(wait_until(lambda: not self.containers(run), 60))

    def test_a_killed_agents_container_is_removed(self):
        """And the next attempt has a container of its own."""
        script = "echo ready; [ $SUMMAND_RESTARTS = 1 ] || sleep 1000"
        run = self.start([self.shell(script)], "--container-runtime=podman", "--grace=1",
                         labels={"restart-backoff": "0"})
        log = os.path.join(run.job_dir, "logs/workerpool0-0.log")
        self.wait_for_file(log)
        self.assertTrue(wait_until(lambda: "ready" in self.read(run, "logs/workerpool0-0.log")))
        os.kill(children_of(self.agent_of(run))[0], signal.SIGKILL)
        self.assert_code(self.finish(run), 0)
        self.assertEqual(self.containers(run), [])

    def test_a_stubborn_container_is_killed(self):
        run = self.start([self.shell("trap '' TERM; echo ready; while :; do sleep 1; done")],
                         "--container-runtime=podman", "--grace=1")
        self.wait_for_file(os.path.join(run.job_dir, "logs/workerpool0-0.log"))
        self.assertTrue(wait_until(lambda: "ready" in self.read(run, "logs/workerpool0-0.log")))
        run.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(run), 143)
        self.assertEqual(self.containers(run), [])
        self.assertEqual(processes_with(self.mark), [])

    def test_the_image_is_missing(self):
        run = self.run_job([{"replicaCount": 1, "imageUri": "localhost/no-such-image:1",
                             "command": ["/bin/sh"]}], "--container-runtime=podman")
        self.assert_code(run, 1)
        self.assertIn("exited with a non-zero status of 125", run.err)
        self.assertIn("no-such-image", run.err)

    def test_the_command_is_missing(self):
        run = self.run_job([{"replicaCount": 1, "imageUri": IMAGE, "command": ["/bin/no-such"]}],
                           "--container-runtime=podman")
        self.assert_code(run, 1)
        self.assertIn("/bin/no-such", run.err)
        self.assertEqual(self.containers(run), [])

    def test_no_such_runtime(self):
        run = self.run_job([self.shell("true")], "--container-runtime=lxc")
        self.assert_code(run, 2)
        self.assertIn('must be podman, docker, apptainer or pyxis, got "lxc"', run.err)


if __name__ == "__main__":
    at_once.main()
