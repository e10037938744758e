"""Replicas in containers of a real podman on a Slurm cluster: each node's agent runs its own, and they go with the job."""

import os
import shutil
import signal
import sys
import tempfile
import unittest

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "functional", "runner"))
from job import JobTest, wait_until  # noqa: E402
import test_container  # noqa: E402
from test_container import CONFIGURATION, IMAGE, NOBODYS_IMAGE, podman  # noqa: E402

FLAGS = ("--engine=slurm", "--container-runtime=podman")
UNABLE = 77


def require_podman(folder):
    """Makes the image, which the caller removes; or the test ends as skipped."""
    if not shutil.which("podman") or not shutil.which("runc"):
        print("skipped: podman and runc are not installed")
        sys.exit(UNABLE)
    os.environ["CONTAINERS_CONF"] = f"{folder}/containers.conf"
    with open(os.environ["CONTAINERS_CONF"], "w", encoding="utf-8") as file:
        file.write(CONFIGURATION)
    problem = test_container.make_image(folder)
    if problem:
        print(f"skipped: podman runs no containers here: {problem}")
        sys.exit(UNABLE)


class PodmanTest(JobTest):
    shell = staticmethod(test_container.ContainerTest.shell)

    @classmethod
    def setUpClass(cls):
        cls.slurm = cls.enterClassContext(cluster.Cluster(2))
        os.environ.update({name: cls.slurm.environment[name] for name in ("SLURM_CONF", "PATH")})
        os.environ["XDG_RUNTIME_DIR"] = f"{cls.slurm.folder}/run"
        os.mkdir(f"{cls.slurm.folder}/run", 0o700)

    def setUp(self):
        super().setUp()
        os.environ["TEST_MARK"] = self.mark

    def tearDown(self):
        super().tearDown()
        self.slurm.await_idle()
        self.assertEqual(podman("ps", "--all", "--quiet", f"--filter=ancestor={IMAGE}").stdout, "", "containers must go with their job")

    def test_a_job(self):
        script = ("echo $SUMMAND_REPLICA of $WORLD_SIZE; echo result steps 3 >&$SUMMAND_NOTIFY_FD; "
                  "[ -e /bin/setsid ] && ! [ -e /etc/passwd ]")
        run = self.run_job([self.shell(script), self.shell(script)], *FLAGS)
        self.assert_code(run, 0)
        for index, name in enumerate(("workerpool0-0", "workerpool1-0")):
            self.assertIn(f"workerpool{index}-0 of 2\n", self.read(run, f"logs/{name}.log"))
        self.assertEqual(self.read_json(run, "summary.json")["steps"], 3)

    def test_asked_to_end(self):
        script = "trap 'echo asked; exit 0' TERM; echo started; while :; do sleep 0.1; done"
        run = self.start([self.shell(script), self.shell(script)], *FLAGS)
        log = os.path.join(run.job_dir, "logs/workerpool1-0.log")
        self.assertTrue(wait_until(lambda: os.path.exists(log) and os.path.getsize(log) > 0))
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)
        # podman may have to say that the container has ended before it was asked to.
        own = [line for line in self.read(run, "logs/workerpool1-0.log").splitlines() if not line.startswith("time=")]
        self.assertEqual(own, ["started", "asked"])


if __name__ == "__main__":
    cluster.require()
    with tempfile.TemporaryDirectory(prefix="summand-test-") as FOLDER:
        require_podman(FOLDER)
        try:
            unittest.main()
        finally:
            podman("rmi", "--force", IMAGE, NOBODYS_IMAGE)
