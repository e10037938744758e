"""A DistributedDataParallel job: the loss curve through Summand is the one of gloo, ranks end with the same parameters,
and a rank that is killed is named by the others."""

import debian_torch

debian_torch.require()

import json
import os
import signal
import socket
import subprocess
import unittest

from programs import BIN, ProgramTest

SPEC = os.path.join(os.environ["SUMMAND_SOURCE"], "specs", "jobs", "ddp.json")
RANKS = ["workerpool0-0", "workerpool1-0", "workerpool1-1"]
PATIENCE_S = 300

# Both add the same three float32 gradients and divide by three, in different orders: that may differ by a few units of
# 2**-24, and each step builds on the one before. Within the 87 steps here, with three seeds, it was at most 3e-7. (A
# network with ReLU and momentum does not do: its steps amplify such a difference up to 1e-2.)
TOLERANCE = 1e-5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class DdpTest(ProgramTest):
    def run_job(self, spec, name):
        """The losses, and what each rank reported."""
        job_dir = os.path.join(self.folder, name)
        done = subprocess.run([os.path.join(BIN, "summand"), "custom-jobs", "local-run", spec, f"--job-dir={job_dir}"],
                              env=self.environment(), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(f"{job_dir}/output/model/loss.txt", encoding="ascii") as file:
            losses = [float(line) for line in file]
        with open(f"{job_dir}/summary.json", encoding="utf-8") as file:
            replicas = {each["name"]: each["results"] for each in json.load(file)["replicas"]}
        self.assertEqual(len({replicas[rank]["weights"] for rank in RANKS}), 1, replicas)
        return losses, replicas

    def gloo_spec(self):
        """The same job with gloo, and without reduction servers."""
        with open(SPEC, encoding="utf-8") as file:
            job = json.load(file)
        pools = job["jobSpec"]["workerPoolSpecs"]
        del pools[2]
        for pool in pools:
            pool["containerSpec"]["args"].append("--backend=gloo")
        path = os.path.join(self.folder, "gloo.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def test_the_loss_curve_is_that_of_gloo(self):
        losses, replicas = self.run_job(SPEC, "summand")
        self.assertGreater(int(replicas["workerpool2-1"]["bytes_received"]), 0)
        reference, _ = self.run_job(self.gloo_spec(), "gloo")
        self.assertEqual(len(losses), len(reference))
        self.assertEqual(len(losses), int(replicas["workerpool0-0"]["steps"]))
        for step, (loss, other) in enumerate(zip(losses, reference)):
            self.assertAlmostEqual(loss, other, delta=TOLERANCE * other, msg=f"step {step}")
        print("largest relative difference:", max(abs(a - b) / b for a, b in zip(losses, reference)))
        self.assertLess(losses[-1], losses[0] / 2)  # it learns, so that the steps depend on each other

    def test_a_killed_rank_is_named_by_every_other(self):
        address = self.start_server()[1]
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "3",
                 "SUMMAND_REDUCTION_SERVERS": address}
        ranks = [self.start_program("summand-digits-ddp", "--epochs=100000", RANK=str(rank),
                                    SUMMAND_REPLICA=f"rank-{rank}", **place) for rank in range(3)]
        self.assertIn("epoch 1 of", ranks[0].stdout.readline())
        ranks[2].send_signal(signal.SIGKILL)
        for rank in ranks[:2]:
            self.assert_ended(rank, 1, "SummandError: ", "rank 2 (rank-2) was lost")


if __name__ == "__main__":
    unittest.main(verbosity=2)
