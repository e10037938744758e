"""A reduction server that is lost while others serve: the job goes on, is told, and has it back at the same address."""

import os
import re
import signal

from job import ADDRESS, at_once, bash
from servers import READY, ServersBase


class ServersTest(ServersBase):
    def test_the_job_goes_on_and_the_server_comes_back(self):
        run = self.start_with(2)
        self.wait_until_said(run, "Job is running.")
        self.lose(1)
        self.wait_until_said(run, "workerpool2-1 was killed by signal 9 (Killed): training goes on with the other 1 of 2 reduction "
                             "servers; it is started again in 1 s (1 of 5)")
        self.wait_until_said(run, "workerpool2-1 serves again")
        first, second = self.started(1)[1], self.started(1, 1)[1]
        self.assertEqual(first, second, "the same address")
        self.assertRegex(first, rf"--listen={ADDRESS}:\d+")
        self.lose(1, 1, signal.SIGTERM)
        self.wait_until_said(run, "workerpool2-1 was killed by signal 15 (Terminated): training goes on with the other 1 of 2 reduction "
                             "servers; it is started again in 2 s (2 of 5)")
        self.wait_until_said(run, "workerpool2-1 serves again", 2)
        self.lose(0)  # the other one, which was there all the time: the one that came back serves
        self.wait_until_said(run, "workerpool2-0 serves again")
        self.end_well(run)
        state = self.state_of(run, "workerpool2-1")
        self.assertEqual((state["losses"], state["restarts"], state["state"]), (2, 2, "STOPPED"))
        self.assertEqual(state["lastLoss"], "was killed by signal 15 (Terminated)")
        self.assertEqual(self.read_json(run, "exits/workerpool2-1.1.json")["signal"], 9)
        self.assertEqual(self.read_json(run, "exits/workerpool2-1.2.json")["signal"], 15)
        self.assertEqual(self.state_of(run, "workerpool1-0")["restarts"], 0)
        self.assertIn("warning: workerpool2-0 was killed by signal 9 (Killed) while the job ran\n", run.out)
        self.assertIn("warning: workerpool2-1 was killed by signal 15 (Terminated) while the job ran, and not only once\n", run.out)
        self.assertEqual(self.read_json(run, "summary.json")["restarts"], 3)

    def test_one_that_ends_by_itself_is_lost_too(self):
        run = self.start_with(2, script="[ $SUMMAND_REPLICA.$SUMMAND_RESTARTS != workerpool2-0.0 ] || "
                              "{ echo ready >&$SUMMAND_NOTIFY_FD; sleep 1; exit 0; }; " + READY)
        self.wait_until_said(run, "workerpool2-0 exited with status 0: training goes on with the other 1 of 2")
        self.wait_until_said(run, "workerpool2-0 serves again")
        self.end_well(run)

    def test_restarts_are_bounded(self):
        run = self.start_with(3, script="[ $SUMMAND_REPLICA != workerpool2-2 -o $SUMMAND_RESTARTS = 0 ] || exit 7; " + READY,
                              server_restarts="2")
        self.wait_until_said(run, "Job is running.")
        self.lose(2)
        self.wait_until_said(run, "it is started again in 1 s (1 of 2)")
        self.wait_until_said(run, "workerpool2-2 exited with a non-zero status of 7: training goes on with the other 2 of 3 reduction "
                             "servers; it is started again in 2 s (2 of 2)")
        self.wait_until_said(run, "it stays down after 2 restarts within 10 minutes")
        self.end_well(run)
        self.assertEqual(self.state_of(run, "workerpool2-2")["state"], "FAILED")
        self.assertIn("warning: workerpool2-2 exited with a non-zero status of 7 while the job ran", run.out)

    def test_the_last_one_ends_the_job(self):
        run = self.start_with(2)
        self.wait_until_said(run, "Job is running.")
        self.lose(0)
        self.wait_until_said(run, "goes on with the other 1 of 2")
        self.lose(1)
        self.assert_code(self.finish(run), 1)
        self.assertTrue(run.err.startswith("The replica workerpool2-1 was killed by signal 9 (Killed).\n"), run.err)
        self.assertIn("\nBefore that, the reduction server workerpool2-0 was killed by signal 9 (Killed).\n", run.err)
        self.assertIn("workerpool2-0", self.read_json(run, "state.json")["error"]["message"])

    def test_the_last_one_begins_another_attempt(self):
        """With all servers, and with fresh numbers of restarts."""
        run = self.start_with(2, restart_policy="on-failure")
        self.wait_until_said(run, "Job is running.")
        self.lose(0)
        self.wait_until_said(run, "goes on with the other 1 of 2")
        self.lose(1)
        self.wait_until_said(run, "workerpool2-1 was killed by signal 9 (Killed): restart 1 of 3 in 0 s")
        self.wait_until_said(run, "before that, the reduction server workerpool2-0 was killed by signal 9 (Killed)")
        self.wait_until_said(run, "Job is running.", 2)
        self.lose(0, 1)
        self.wait_until_said(run, "it is started again in 1 s (1 of 5)", 2)
        self.end_well(run)

    def test_none_is_started_again(self):
        """As long as a lost server ended each job."""
        run = self.start_with(2, server_restarts="0")
        self.wait_until_said(run, "Job is running.")
        self.lose(1)
        self.assert_code(self.finish(run), 1)
        self.assertTrue(run.err.startswith("The replica workerpool2-1 was killed by signal 9 (Killed).\n"), run.err)

    def test_before_the_job_runs_a_server_must_start(self):
        run = self.start_with(2, script="[ $SUMMAND_REPLICA != workerpool2-1 ] || { echo wrong option >&2; exit 2; }; " + READY)
        self.assert_code(self.finish(run), 1)
        self.assertIn("The replica workerpool2-1 exited with a non-zero status of 2.", run.err)
        self.assertIn("    wrong option\n", run.err)

    def test_ranks_that_cannot_go_on_fail_for_want_of_the_server(self):
        """Their own ends come right after; the policy judges the server's, and another attempt has all of them."""
        self.work = bash(f"[ $SUMMAND_RESTARTS = 1 ] && exit 0; until [ -e {self.dir}/workerpool2-1.0 ]; do sleep 0.05; done; "
                         f"read pid rest <{self.dir}/workerpool2-1.0; while kill -0 $pid 2>&-; do sleep 0.05; done; exit 9")
        run = self.start_with(2, restart_policy="exit-code")
        self.wait_until_said(run, "Job is running.")
        self.lose(1)
        self.assert_code(self.finish(run), 0)
        self.assertIn("workerpool2-1 was killed by signal 9 (Killed): restart 1 of 3", run.out)

    def test_a_rank_that_is_lost_then_is_its_own_cause(self):
        """Its keeper is killed right after the server: nothing that the server could have done, so there is another attempt."""
        self.work = bash(f"[ $SUMMAND_RESTARTS = 1 ] && exit 0; until [ -e {self.dir}/workerpool2-1.0 ]; do sleep 0.05; done; "
                         f"read pid rest <{self.dir}/workerpool2-1.0; while kill -0 $pid 2>&-; do sleep 0.05; done; kill -9 $PPID")
        run = self.start_with(2)
        self.wait_until_said(run, "Job is running.")
        self.lose(1)
        self.assert_code(self.finish(run), 0)
        self.assertNotIn("workerpool2-1 was killed by signal 9 (Killed): restart", run.out)

    def test_one_that_hangs_after_its_restart_is_ended(self):
        run = self.start_with(2, "--ready-timeout=2", script="[ $SUMMAND_REPLICA.$SUMMAND_RESTARTS != workerpool2-1.1 ] || sleep 1000; " + READY)
        self.wait_until_said(run, "Job is running.")
        self.lose(1)
        self.wait_until_said(run, "workerpool2-1 was not ready within 2 s after its restart, and is ended")
        self.wait_until_said(run, "workerpool2-1 serves again")
        self.end_well(run)

    def test_interrupted_while_one_is_down(self):
        run = self.start_with(2)
        self.wait_until_said(run, "Job is running.")
        self.lose(1)
        self.wait_until_said(run, "goes on with")
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)
        self.assertIsNone(re.search("serves again", run.out))


if __name__ == "__main__":
    at_once.main()
