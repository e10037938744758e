"""Many replicas, and several jobs at once on one machine."""

import unittest

from job import LONG, JobTest, bash, pool, reduction_servers

LISTEN = """
import os, socket, time
with socket.socket() as listener:
    host, port = os.environ["ENDPOINT"].split(":")
    listener.bind((host, int(port)))
    listener.listen()
    time.sleep(1.5)
"""


class ManyTest(JobTest):
    def endpoints(self, run):
        """Every endpoint of a job, from what its chief was given."""
        for line in self.read(run, "logs/workerpool0-0.log").splitlines():
            if line.startswith("endpoints "):
                return set(line.split()[1:])
        self.fail("the chief said nothing")

    def test_jobs_do_not_collide(self):
        chief = bash("""
            endpoints=$(grep -Eo '[0-9.]+:[0-9]+' <<<"${CLUSTER_SPEC%%\\"environment*}")
            echo endpoints $endpoints $MASTER_ADDR:$MASTER_PORT
            ENDPOINT=$MASTER_ADDR:$MASTER_PORT python3 -c '""" + LISTEN + "'")
        pools = [chief, bash("sleep 0.5", 3), reduction_servers(2)]
        runs = [self.start(pools) for _ in range(3)]
        seen = set()
        for run in runs:
            self.assert_code(self.finish(run), 0)
            mine = self.endpoints(run)
            self.assertEqual(len(mine), 7)
            self.assertEqual(mine & seen, set())
            seen |= mine

    def test_two_hundred_replicas(self):
        run = self.finish(self.start([bash("sleep 1"), pool(["/bin/true"], 200)]), LONG)
        self.assert_code(run, 0)
        states = [r["state"] for r in self.read_json(run, "state.json")["replicas"]]
        self.assertEqual(states, ["SUCCEEDED"] * 201)

    def test_much_output(self):
        run = self.run_job([bash("seq 300000; seq 300000 >&2")])
        self.assert_code(run, 0)
        self.assertEqual(self.read(run, "logs/workerpool0-0.log").count("\n"), 600000)

    def test_statuses_are_no_spam(self):
        run = self.run_job([bash(
            "for i in $(seq 2000); do echo status step $i >&$SUMMAND_NOTIFY_FD; done; sleep 1")])
        self.assert_code(run, 0)
        self.assertIn("step 2000", run.out)
        self.assertLess(run.out.count("  step "), 100)


if __name__ == "__main__":
    unittest.main()
