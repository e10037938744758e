"""`summand serve` on a Slurm cluster: its jobs wait in Slurm's queue and not in its own, run on nodes, and leave nothing there."""

import json
import os
import re
import signal
import sys
import unittest

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "functional", "service"))
from served import JOBS, ServiceTest, pool, processes_of, wait_until  # noqa: E402

NODES = 2
SECRET = "over the wire alone"


class SlurmServiceTest(ServiceTest):
    @classmethod
    def setUpClass(cls):
        cls.slurm = cls.enterClassContext(cluster.Cluster(NODES))
        os.environ.update({name: cls.slurm.environment[name] for name in ("SLURM_CONF", "PATH")})
        os.environ["XDG_RUNTIME_DIR"] = f"{cls.slurm.folder}/run"
        os.mkdir(f"{cls.slurm.folder}/run", 0o700)

    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.dir, "secrets"), 0o700)
        path = os.path.join(self.dir, "secrets", "password")
        with open(path, "w", encoding="ascii") as file:
            file.write(SECRET + "\n")
        os.chmod(path, 0o600)

    def tearDown(self):
        self.end_all()
        self.services.clear()
        self.slurm.await_idle()
        self.assertEqual(os.listdir(os.environ["XDG_RUNTIME_DIR"]), [], "agents must remove their folders")

    def serve(self, *flags):
        return super().serve("--engine=slurm", "--grace=5", f"--secrets={self.dir}/secrets", *flags)

    def both(self, script, name="slurm"):
        """A job that needs all processors of both nodes: another one must wait."""
        pools = [pool(script, "n1-standard-16"), pool(script, "n1-standard-16")]
        for one in pools:
            one["containerSpec"]["env"] = [{"name": "PASSWORD", "value": "$(secret:password)"}]
        made = self.ask("POST", JOBS, {"displayName": name, "jobSpec": {"workerPoolSpecs": pools}})
        return made["name"].rsplit("/", 1)[1]

    def until(self, name):
        return f"echo ready on $SLURMD_NODENAME; until [ -e {self.dir}/{name} ]; do sleep 0.1; done; echo over"

    def go(self, name):
        with open(os.path.join(self.dir, name), "w", encoding="ascii"):
            pass

    def lines(self, number):
        answer = self.ask("POST", "/v2/entries:list", {"resourceNames": ["projects/demo"], "orderBy": "timestamp asc", "pageSize": 1000,
                                                       "filter": f'resource.type="ml_job" AND resource.labels.job_id="{number}"'})
        return [(entry["resource"]["labels"]["task_name"], entry["textPayload"]) for entry in answer.get("entries", ())]

    def await_line(self, number, pattern):
        found = wait_until(lambda: [text for _, text in self.lines(number) if re.search(pattern, text)])
        self.assertTrue(found, (pattern, self.lines(number)))

    def queue(self):
        return self.slurm.run("squeue", "--noheader", "--format=%i %T").stdout.splitlines()

    def test_jobs_wait_in_slurms_queue(self):
        self.serve()
        first = self.both(self.until("first"))
        self.await_state(first, "JOB_STATE_RUNNING")
        second = self.both('echo "second has $PASSWORD on $SLURMD_NODENAME"')
        self.await_line(second, r"waiting for hosts: Slurm job \d+ is PENDING")
        self.assertEqual(self.state_of(second), "JOB_STATE_PENDING")
        self.assertTrue(any("PENDING" in line for line in self.queue()))
        for line in self.queue():
            shown = self.slurm.run("scontrol", "--oneliner", "show", "job", line.split()[0]).stdout
            self.assertNotIn(SECRET, shown)
        self.go("first")
        for number in first, second:
            self.await_state(number, "JOB_STATE_SUCCEEDED")
        lines = self.lines(second)
        for task in "workerpool0-0", "workerpool1-0":
            self.assertTrue(any(who == task and re.fullmatch(r"second has \(masked\) on node\d", text) for who, text in lines), lines)

    def test_one_that_waits_there_is_cancelled(self):
        self.serve()
        first = self.both(self.until("first"))
        self.await_state(first, "JOB_STATE_RUNNING")
        second = self.both("echo never")
        self.await_line(second, "waiting for hosts")
        self.ask("POST", f"{JOBS}/{second}:cancel", {})
        self.await_state(second, "JOB_STATE_CANCELLED")
        self.assertTrue(wait_until(lambda: not any("PENDING" in line for line in self.queue())))
        self.assertEqual(self.state_of(first), "JOB_STATE_RUNNING")
        self.ask("POST", f"{JOBS}/{first}:cancel", {})
        self.await_state(first, "JOB_STATE_CANCELLED")

    def test_the_service_is_killed(self):
        self.serve()
        first = self.both(self.until("first"))
        self.await_state(first, "JOB_STATE_RUNNING")
        second = self.both("echo second")
        self.await_line(second, "waiting for hosts")
        self.service.end(signal.SIGKILL)
        self.serve()
        self.assertEqual((self.state_of(first), self.state_of(second)), ("JOB_STATE_RUNNING", "JOB_STATE_PENDING"))
        self.go("first")
        for number in first, second:
            self.await_state(number, "JOB_STATE_SUCCEEDED")
        self.assertEqual(len(self.ask("GET", JOBS)["customJobs"]), 2)

    def test_a_job_whose_runner_is_killed_leaves_no_nodes(self):
        self.serve()
        number = self.both("sleep 300")
        self.await_state(number, "JOB_STATE_RUNNING")
        for pid in wait_until(lambda: processes_of(number)):
            os.kill(pid, signal.SIGKILL)
        self.assertIn("runner", json.dumps(self.await_state(number, "JOB_STATE_FAILED")["error"]))


if __name__ == "__main__":
    cluster.require()
    unittest.main()
