"""The whole over six hosts: one command, by OpenSSH and links of 1 Gbit/s, trains what one machine trains, bit for bit."""

import json
import os
import re
import subprocess
import sys

from job import BIN, LONG, SUMMAND, JobTest, at_once

SOURCE = os.environ["SUMMAND_SOURCE"]
NETLAB = os.path.join(SOURCE, "tools", "netlab")
WORKERS = ["workerpool0-0", "workerpool1-0", "workerpool1-1", "workerpool1-2"]
SERVERS = ["workerpool2-0", "workerpool2-1"]
REDUCERS = [f"workerpool2-{index}" for index in range(2, 6)]    # with four workers, two servers are few
NODES = 6
UNABLE = 77
os.environ["PATH"] = f"{os.path.abspath(BIN)}:{os.environ['PATH']}"


def netlab(*command):
    """A command beside six nodes, each with sshd."""
    return [NETLAB, f"--nodes={NODES}", "--rate=1gbit", "--ssh", "--", *command]


def has_torch():
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run(["/usr/bin/python3", "-c", look], capture_output=True, check=False).returncode == 0


class SixHostsTest(JobTest):
    """A worker or a server on each host; whatever more a job has is on the last one."""

    def spec_of(self, name):
        """The recipe, with four workers."""
        with open(os.path.join(SOURCE, "specs", "jobs", name), encoding="utf-8") as file:
            job = json.load(file)
        pools = job["jobSpec"]["workerPoolSpecs"]
        pools[1]["replicaCount"] = 3
        for pool in pools:
            pool["containerSpec"]["env"] = [{"name": "TEST_MARK", "value": self.mark}]
        path = self.path("spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def train(self, spec, name, make_words=lambda *words: words, *flags):
        """The job's directory, what each replica reported, and the job's workers' weights, which must be the same."""
        folder = self.path(name)
        done = subprocess.run(make_words(SUMMAND, "custom-jobs", "local-run", spec, f"--job-dir={folder}", *flags),
                              capture_output=True, text=True, timeout=LONG, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(f"{folder}/summary.json", encoding="utf-8") as file:
            found = {each["name"]: each["results"] for each in json.load(file)["replicas"]}
        weights = {found[worker]["weights"] for worker in WORKERS}
        self.assertEqual(len(weights), 1, found)
        for server in SERVERS:
            self.assertGreater(int(found[server]["bytes_received"]), 0)
        return folder, found, weights.pop()

    def train_both(self, name):
        """The same spec on six hosts and on this machine."""
        spec, hosts = self.spec_of(name), self.path("hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.writelines(f"node{node}\n" for node in range(NODES - 1))
            file.write(f"node{NODES - 1} slots=2\n")
        six = self.train(spec, "six", netlab, "--engine=ssh", f"--hostfile={hosts}")
        addresses = self.addresses(six[0])
        for node, reducer in enumerate(REDUCERS):
            self.assertEqual(addresses[reducer].partition(":")[0], f"10.77.0.{node + 1}")
            self.assertGreater(int(six[1][reducer]["bytes_received"]), 0)
        self.assertEqual([addresses[name].partition(":")[0] for name in WORKERS + SERVERS],
                         [f"10.77.0.{node + 1}" for node in range(NODES)])
        return six, self.train(spec, "one")

    @staticmethod
    def addresses(folder):
        """Of each replica, as CLUSTER_SPEC has it."""
        with open(f"{folder}/env/workerpool0-0.env", encoding="utf-8") as file:
            cluster = re.search(r"^export CLUSTER_SPEC='(.*)'$", file.read(), re.MULTILINE)[1]
        return {f"{pool}-{index}": address for pool, addresses in json.loads(cluster)["cluster"].items()
                for index, address in enumerate(addresses)}

    @staticmethod
    def losses(folder):
        with open(f"{folder}/output/model/loss.txt", encoding="ascii") as file:
            return [float(line) for line in file]

    def test_digits(self):
        (_, six, weights), (_, one, same) = self.train_both("digits.json")
        self.assertEqual(weights, same)
        self.assertEqual(six["workerpool3-0"], one["workerpool3-0"], "the evaluator has read the same checkpoints")

    def test_ddp(self):
        if not has_torch():
            self.skipTest("/usr/bin/python3 has no torch; python3-torch brings it")
        (six, _, weights), (one, _, same) = self.train_both("ddp.json")
        self.assertEqual(weights, same)
        losses, same = (self.losses(folder) for folder in (six, one))
        self.assertEqual(losses, same)
        self.assertLess(losses[-1], losses[0] / 2, "it learns, so that the steps depend on each other")


if __name__ == "__main__":
    lab = subprocess.run(netlab("true"), capture_output=True, text=True, timeout=LONG, check=False)
    if lab.returncode == UNABLE:
        print(f"skipped: {lab.stderr.strip()}")
        sys.exit(UNABLE)
    at_once.main()
