"""Hosts on which replicas fail are left out for a time, where there are others."""

import os
import time

from job import JobTest, at_once, bash, hosts

# What stands in for ssh: hosts of any name are this machine. `a` and `b` have GPUs, `c` has none.
CARRY = """#!/bin/sh
[ $1 != gone ] || exit 1
case $1 in c) CUDA_VISIBLE_DEVICES= ;; *) CUDA_VISIBLE_DEVICES=0,1 ;; esac
export CUDA_VISIBLE_DEVICES TEST_HOST=$1
exec sh -c "$2"
"""
WHERE = "echo on $TEST_HOST; "
BAD = WHERE + "[ $TEST_HOST != a ] || exit 3"


class CoolDownTest(JobTest):
    def setUp(self):
        super().setUp()
        self.carry = hosts.write_script(self.path("carry"), CARRY)
        self.state = self.path("state")
        self.addCleanup(os.environ.__setitem__, "SUMMAND_STATE_DIR", os.environ["SUMMAND_STATE_DIR"])
        os.environ["SUMMAND_STATE_DIR"] = self.state
        os.environ["TEST_MARK"] = self.mark

    def run_on(self, names, script, *flags, count=1, accelerators=0, **labels):
        path = self.path("hosts")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"{host} slots=1\n" for host in names))
        labels = {"restart-backoff": "0", **{name.replace("_", "-"): value for name, value in labels.items()}}
        pools = [bash(script)] * count
        for pool in pools if accelerators else ():
            pool["accelerators"] = accelerators
        return self.run_job(pools, "--engine=ssh", f"--hostfile={path}", f"--ssh-command={self.carry}", "--host-failures=2", *flags,
                            labels=labels)

    def ran_on(self, run, replica="workerpool0-0"):
        return [line.split()[1] for line in self.read(run, f"logs/{replica}.log").splitlines() if line.startswith("on ")]

    def test_a_job_goes_on_elsewhere(self):
        run = self.run_on("ab", BAD, restart_policy="on-failure", max_restarts="5")
        self.assert_code(run, 0)
        self.assertEqual(self.ran_on(run), ["a", "a", "b"])
        said = r"hosts left out, because replicas have failed there: a \(2 failures in a row, until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)"
        self.assertRegex(self.read(run, "logs/job.log"), said)
        self.assertRegex(run.out, said)
        self.assertRegex(self.read_json(run, "state.json")["hostsLeftOut"], r"^a \(2 failures in a row")

    def test_a_replica_goes_on_elsewhere(self):
        run = self.run_on("ab", BAD, restart_policy="on-failure", max_restarts="5", restart_scope="replica")
        self.assert_code(run, 0)
        self.assertEqual(self.ran_on(run), ["a", "a", "b"])

    def test_other_jobs_leave_it_out(self):
        for _ in range(2):
            self.assert_code(self.run_on("ab", BAD), 1)
        self.assertEqual(self.ran_on(self.run_on("ab", WHERE)), ["b"])
        # Where it is needed it is there.
        run = self.run_on("ab", WHERE, count=2)
        self.assert_code(run, 0)
        self.assertEqual((self.ran_on(run), self.ran_on(run, "workerpool1-0")), (["a"], ["b"]))
        self.assertNotIn("hostsLeftOut", self.read_json(run, "state.json"))
        # All went well there.
        self.assertEqual(self.ran_on(self.run_on("ab", WHERE)), ["a"])

    def test_the_time_is_over(self):
        for _ in range(2):
            self.assert_code(self.run_on("ab", BAD), 1)
        time.sleep(1.1)
        run = self.run_on("ab", BAD, "--host-cool-down=1")
        self.assert_code(run, 1)
        self.assertEqual(self.ran_on(run), ["a"])
        # Once more is enough now.
        self.assertEqual(self.ran_on(self.run_on("ab", WHERE, "--host-cool-down=100")), ["b"])

    def test_the_others_are_too_few(self):
        """Which only their agents say: the file has no GPUs."""
        for _ in range(2):
            self.assert_code(self.run_on("ac", BAD), 1)
        run = self.run_on("ac", WHERE, accelerators=1)
        self.assert_code(run, 0)
        self.assertEqual(self.ran_on(run), ["a"])

    def test_a_failure_between_successes_is_none(self):
        for _ in range(2):
            self.assert_code(self.run_on("ab", BAD), 1)
            self.assert_code(self.run_on("ab", WHERE, "--host-failures=9"), 0)
        self.assertEqual(self.ran_on(self.run_on("ab", WHERE)), ["a"])

    def test_a_host_that_is_lost_is_left_out_at_once(self):
        """Its agent is killed, by which the host is gone: a moment later, when the log has come."""
        script = WHERE + "[ $TEST_HOST != a ] || { sleep 1; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 1000; }"
        run = self.run_on("ab", script, "--host-failures=9")
        self.assert_code(run, 0)
        self.assertEqual(self.ran_on(run), ["a", "b"])
        self.assertRegex(self.read(run, "logs/job.log"), r"left out, .*: a \(9 failures in a row")

    def test_a_host_that_does_not_come_is_left_out(self):
        """By the first job after it has tried, by the next one at once."""
        run = self.run_on(["gone", "b"], WHERE)
        self.assert_code(run, 0)
        self.assertRegex(run.out, r"left out, because the other hosts suffice: host gone: \S*carry ended with status 1")
        run = self.run_on(["gone", "b"], WHERE)
        self.assertEqual(self.ran_on(run), ["b"])
        self.assertRegex(run.out, r"left out, because replicas have failed there: gone \(2 failures in a row")

    def test_it_is_not_asked_for(self):
        for _ in range(4):
            self.assertEqual(self.ran_on(self.run_on("ab", BAD, "--host-failures=0")), ["a"])


if __name__ == "__main__":
    at_once.main()
