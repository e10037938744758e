"""Whose success is the job's, and what is started again after which end."""

import os
import signal
import subprocess

from job import SUMMAND, JobTest, at_once, bash, only_here, pool, reduction_servers

COUNT = "echo $SUMMAND_REPLICA >> {}; "
FAIL_ONCE = "[ $SUMMAND_RESTARTS != 0 ] || exit {}"


class PolicyTest(JobTest):
    def setUp(self):
        super().setUp()
        self.starts_file = self.path("starts")

    def counted(self, script, count=1):
        """A pool whose replicas note each start."""
        return bash(COUNT.format(self.starts_file) + script, count)

    def starts(self):
        with open(self.starts_file, encoding="utf-8") as file:
            return sorted(file.read().split())

    def run_with(self, pools, scheduling=None, flags=("--grace=20",), **labels):
        labels = {"restart-backoff": "0", **{k.replace("_", "-"): v for k, v in labels.items()}}
        return self.run_job(pools, *flags, labels=labels, scheduling=scheduling)

    def test_all_workers_must_succeed(self):
        run = self.run_with([pool(["true"]), bash("sleep 1")], flags=["--grace=0"],
                            success_policy="all-workers")
        self.assert_code(run, 0)
        self.assertEqual(self.read_json(run, "state.json")["replicas"][1]["state"], "SUCCEEDED")

    def test_a_worker_fails_after_the_chief(self):
        run = self.run_with([pool(["true"]), bash("sleep 0.5; exit 3")],
                            success_policy="all-workers")
        self.assert_code(run, 1)
        self.assertIn("workerpool1-0 exited with a non-zero status of 3", run.err)

    def test_any_success_will_do(self):
        run = self.run_with([pool(["sleep", "1000"]), bash("sleep 0.2")], flags=["--grace=1"],
                            success_policy="any")
        self.assert_code(run, 0)

    def test_the_job_starts_again(self):
        run = self.run_with(
            [self.counted("echo attempt $SUMMAND_RESTARTS; [ $SUMMAND_RESTARTS = 2 ] || exit 3"),
             self.counted("sleep 1000"), reduction_servers()],
            restart_policy="on-failure", max_restarts="2", flags=["--grace=1"])
        self.assert_code(run, 0)
        self.assertEqual(self.starts(), ["workerpool0-0"] * 3 + ["workerpool1-0"] * 3)
        log = self.read(run, "logs/workerpool0-0.log").split("\n")
        self.assertEqual(log[:3], ["attempt 0", "attempt 1", "attempt 2"])
        self.assertEqual(self.read_json(run, "exits/workerpool0-0.1.json")["exit_code"], 3)
        self.assertEqual(self.read_json(run, "exits/workerpool0-0.2.json")["exit_code"], 3)
        self.assertEqual(self.read_json(run, "exits/workerpool0-0.json")["exit_code"], 0)
        self.assertIn("workerpool0-0 exited with a non-zero status of 3: restart 2 of 2", run.out)
        self.assertEqual(self.read_json(run, "summary.json")["restarts"], 2)
        self.assertEqual(self.read_json(run, "state.json")["replicas"][2]["restarts"], 2)

    def test_restarts_are_limited(self):
        run = self.run_with([self.counted("exit 3")], restart_policy="on-failure",
                            max_restarts="2")
        self.assert_code(run, 1)
        self.assertEqual(self.starts(), ["workerpool0-0"] * 3)
        self.assertIn("The replica workerpool0-0 exited with a non-zero status of 3.", run.err)

    def test_an_exit_code_has_a_budget_of_its_own(self):
        run = self.run_with([self.counted("case $SUMMAND_RESTARTS in 0 | 1) exit 75 ;; 2) kill -9 $$$$ ;; esac; exit 4")],
                            exit_code_restarts="75-2_137-1", restart_policy="on-failure", max_restarts="1")
        self.assert_code(run, 1)
        self.assertEqual(self.starts(), ["workerpool0-0"] * 5)
        for sentence in ("status of 75: restart 1 of 2", "status of 75: restart 2 of 2", "restart 1 of 1 in 0 s",
                         "status of 4: restart 1 of 1"):
            self.assertIn(sentence, run.out)

    def test_an_exit_code_without_a_budget_ends_the_job(self):
        run = self.run_with([self.counted("exit 3")], exit_code_restarts="3-0_75-9", restart_policy="on-failure")
        self.assert_code(run, 1)
        self.assertEqual(self.starts(), ["workerpool0-0"])

    def test_one_replica_starts_again(self):
        run = self.run_with([self.counted("sleep 1.5"),
                             self.counted("[ $SUMMAND_REPLICA = workerpool1-0 ] || "
                                          "[ $SUMMAND_RESTARTS = 2 ] || exit 3", 2)],
                            restart_policy="on-failure", restart_scope="replica",
                            success_policy="all-workers")
        self.assert_code(run, 0)
        self.assertEqual(self.starts(),
                         ["workerpool0-0", "workerpool1-0"] + ["workerpool1-1"] * 3)

    def test_one_replica_fails_too_often(self):
        run = self.run_with([pool(["sleep", "1000"]), self.counted("exit 3")],
                            restart_policy="on-failure", restart_scope="replica",
                            max_restarts="1")
        self.assert_code(run, 1)
        self.assertEqual(self.starts(), ["workerpool1-0"] * 2)

    def test_exit_codes_tell_bugs_from_accidents(self):
        for code, again in (1, False), (75, True), (143, True):
            with self.subTest(code=code):
                run = self.run_with([bash(FAIL_ONCE.format(code))], restart_policy="exit-code",
                                    retryable_exit_codes="75_76")
                self.assert_code(run, 0 if again else 1)

    def test_retries_are_disabled(self):
        run = self.run_with([self.counted("exit 143")], {"disableRetries": True},
                            restart_policy="on-failure")
        self.assert_code(run, 1)
        self.assertEqual(self.starts(), ["workerpool0-0"])

    def test_a_lost_agent_is_no_fault_of_the_job(self):
        script = "[ $SUMMAND_RESTARTS = 1 ] || { kill -9 $PPID; sleep 1000; }"
        self.assert_code(self.run_with([bash(script)]), 0)
        self.assert_code(self.run_with([bash(script)], {"disableRetries": True}), 1)

    def test_a_program_that_cannot_be_given_its_variables_is_not_started_again(self):
        """Each of them fits, and all together do not: more than the kernel takes with any stack."""
        env = [{"name": f"V{i}", "value": "x" * 120000} for i in range(90)]
        run = self.run_with([{**self.counted("exit 0"), "env": env}])
        self.assert_code(run, 1)
        self.assertFalse(os.path.exists(self.starts_file))
        self.assertIn("workerpool0-0 could not be started: bash: Argument list too long", run.err)
        self.assertNotIn("restart 1", run.out)
        pools = [self.counted("[ $SUMMAND_RESTARTS = 1 ] || sleep 1000"),
                 self.counted("[ $SUMMAND_RESTARTS = 1 ] || kill -9 $BASHPID")]
        run = self.run_with(pools, {"restartJobOnWorkerRestart": True}, restart_scope="replica",
                            flags=["--grace=1"])
        self.assert_code(run, 0)
        self.assertEqual(self.starts(), ["workerpool0-0"] * 2 + ["workerpool1-0"] * 2)

    def run_without_room(self, script, **labels):
        """The job's directory is a file system of its own, which the replica fills."""
        spec = self.write_spec([self.counted(
            'cat /dev/zero > $(dirname $TORCHELASTIC_ERROR_FILE)/zero 2>&1; ' + script)],
            labels={"restart-backoff": "0", **labels})
        folder = os.path.join(os.path.dirname(spec), "job")
        os.mkdir(folder)
        mounted = """
            mount -t tmpfs -o size=200k tmpfs "$1" || exit
            folder=$1; shift; "$@"; code=$?
            ls -A "$folder" >"$folder.list"
            cp "$folder"/*.json "${folder%/*}"
            exit $code"""
        run = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", mounted, "sh", folder,
             SUMMAND, "custom-jobs", "local-run", spec, f"--job-dir={folder}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        run.job_dir = os.path.dirname(spec)
        self.addCleanup(self.end, run)
        return self.finish(run)

    def assert_final(self, run, state):
        """The job's last records are there all the same, and what kept room for them is not."""
        self.assertEqual(self.read_json(run, "state.json")["state"], "JOB_STATE_" + state)
        self.assertEqual(self.read_json(run, "summary.json")["state"], "JOB_STATE_" + state)
        self.assertNotIn(".reserve", self.read(run, "job.list").split())

    @only_here("the file system is mounted for the runner alone, so replicas on hosts do not fill it")
    def test_there_is_no_room_for_records(self):
        if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", self.dir], check=False,
                          capture_output=True).returncode:
            self.skipTest("a file system cannot be mounted here")
        for policy, code, starts in (("on-failure", 3, 2), ("exit-code", 3, 1),
                                     ("exit-code", 143, 2), ("never", 3, 1)):
            with self.subTest(policy=policy, code=code):
                run = self.run_without_room(f"[ $SUMMAND_RESTARTS != 0 ] || exit {code}",
                                            **{"restart-policy": policy})
                self.assert_code(run, 0 if starts == 2 else 1)
                self.assertEqual(len(self.starts()), starts)
                self.assertIn("state.json: cannot be written: No space left on device", run.err)
                self.assert_final(run, "SUCCEEDED" if starts == 2 else "FAILED")
                os.remove(self.starts_file)
        run = self.run_without_room("kill -9 $BASHPID")
        self.assertIn("The replica workerpool0-0 was killed by signal 9 (Killed).", run.err)
        self.assert_final(run, "FAILED")
        runner = "$(cut -d ' ' -f 4 /proc/$(cut -d ' ' -f 4 /proc/$PPID/stat)/stat)"
        run = self.run_without_room(f"kill -9 {runner}; sleep 1000")
        self.assertIn("the job's runner was killed", run.err)
        self.assertEqual(self.read_json(run, "state.json")["state"], "JOB_STATE_FAILED")

    def test_interrupted_between_attempts(self):
        run = self.start([bash("exit 3")], labels={"restart-policy": "on-failure", "restart-backoff": "1000"})
        self.wait_for_file(os.path.join(run.job_dir, "exits/workerpool0-0.json"))
        while "restart 1 of 3 in 1000 s" not in run.stdout.readline():
            pass
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)

    def test_the_timeout_counts_all_attempts(self):
        run = self.run_with([bash("exit 3")], {"timeout": "2s"}, restart_policy="on-failure",
                            restart_backoff="1000")
        self.assert_code(run, 1)
        self.assertIn("The job did not end within its timeout of 2 seconds.", run.err)

    def test_the_job_waits_too_long(self):
        run = self.run_with([pool(["true"]), {}, reduction_servers(1, "sleep 1000")],
                            {"maxWaitDuration": "1s"}, flags=["--ready-timeout=1000"])
        self.assert_code(run, 1)
        self.assertIn("The job was not running within its maxWaitDuration of 1 second.", run.err)


if __name__ == "__main__":
    at_once.main()
