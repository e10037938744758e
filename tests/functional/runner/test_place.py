"""Where a job's processes run and what they find there: GPUs, several processes of a replica."""

import os
import unittest
from unittest import mock

from job import JobTest, bash, reduction_servers


def with_gpus(pool, count):
    return {**pool, "accelerators": count}


class PlaceTest(JobTest):
    def test_several_processes_of_a_replica(self):
        said = bash("echo $SUMMAND_REPLICA rank $RANK of $WORLD_SIZE local $LOCAL_RANK")
        run = self.run_job([said, {**said, "replicaCount": 2}, reduction_servers()],
                           "--grace=20", labels={"processes-per-replica": "3",
                                                 "success-policy": "all-workers"})
        self.assert_code(run, 0)
        for rank in range(9):
            name = f"workerpool{int(rank > 2)}-{rank // 3 - (rank > 2)}"
            self.assertEqual(self.read(run, f"logs/{name}.{rank % 3}.log"),
                             f"{name} rank {rank} of 9 local {rank % 3}\n")
        names = [r["name"] for r in self.read_json(run, "state.json")["replicas"]]
        self.assertEqual(len(names), 10)
        self.assertEqual(names[-1], "workerpool2-0")

    def test_one_process_of_a_replica_fails(self):
        run = self.run_job([bash("[ $LOCAL_RANK != 2 ] || exit 3; sleep 1000")],
                           labels={"processes-per-replica": "4"})
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool0-0.2 exited with a non-zero status of 3.", run.err)

    def test_gpus_are_dealt_out(self):
        show = bash("echo \"[$CUDA_VISIBLE_DEVICES]\"")
        pools = [with_gpus(show, 2), with_gpus({**show, "replicaCount": 2}, 1), {}, show]
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "3,5,6,7"}):
            run = self.run_job(pools, "--grace=20")
            self.assert_code(run, 0)
            self.assertEqual([self.read(run, f"logs/workerpool{name}.log")
                              for name in ("0-0", "1-0", "1-1", "3-0")],
                             ["[3,5]\n", "[6]\n", "[7]\n", "[]\n"])
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "3"}):
            run = self.run_job(pools)
            self.assert_code(run, 1)
            self.assertIn("GPUs: there must be 4 for this job, got 1", run.err)
            run = self.run_job(pools, "--oversubscribe", "--grace=20")
            self.assert_code(run, 0)
            self.assertEqual(self.read(run, "logs/workerpool1-1.log"), "[3]\n")
            run = self.run_job([show])
            self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "[3]\n")


if __name__ == "__main__":
    unittest.main()
