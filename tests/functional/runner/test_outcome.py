"""Which outcome a job has, and what is said about it."""

import os
import signal
import subprocess

from job import SUMMAND, JobTest, at_once, bash, pool, reduction_servers


class OutcomeTest(JobTest):
    def test_success(self):
        chief = bash("""
            echo "status step 1 of 1" >&$SUMMAND_NOTIFY_FD
            echo "result weights 3fa9" >&$SUMMAND_NOTIFY_FD
            echo "result steps 12" >&$SUMMAND_NOTIFY_FD
            echo "what is this" >&$SUMMAND_NOTIFY_FD
            echo to-stdout; echo to-stderr >&2""")
        worker = bash("sleep 0.2; echo 'result weights 3fa9' >&$SUMMAND_NOTIFY_FD", 2)
        run = self.run_job([chief, worker, reduction_servers(2)], "--grace=10")
        self.assert_code(run, 0)
        self.assertEqual(run.err, "")
        self.assertIn("workerpool0-0  step 1 of 1", run.out)
        self.assertIn("3fa9, equal on all workers", run.out)
        log = self.read(run, "logs/workerpool0-0.log")
        for line in ("to-stdout", "to-stderr", "what is this"):
            self.assertIn(line + "\n", log)
        state = self.read_json(run, "state.json")
        self.assertEqual(state["state"], "JOB_STATE_SUCCEEDED")
        self.assertNotIn("error", state)
        self.assertEqual([r["state"] for r in state["replicas"]],
                         ["SUCCEEDED"] * 3 + ["STOPPED"] * 2)
        self.assertEqual(self.read_json(run, "summary.json")["steps"], 12)
        self.assertEqual(self.read_json(run, "exits/workerpool2-1.json")["exit_code"], 0)
        self.assertIn("export SUMMAND_REPLICA='workerpool1-1'",
                      self.read(run, "env/workerpool1-1.env"))
        self.assertIn("runner test", self.read(run, "spec.json"))

    def test_unequal_weights_are_told(self):
        run = self.run_job([bash("echo 'result weights a' >&$SUMMAND_NOTIFY_FD; sleep 0.5"),
                            bash("echo 'result weights b' >&$SUMMAND_NOTIFY_FD")])
        self.assert_code(run, 0)
        self.assertIn("NOT equal", run.out)

    def test_a_worker_fails(self):
        worker = bash("""
            if [ $SUMMAND_REPLICA = workerpool1-1 ]; then
                for i in $(seq 100); do echo line $i >&2; done; exit 3
            fi
            trap 'exit 5' TERM; sleep 1000 & wait""", 3)
        run = self.run_job([pool(["sleep", "1000"]), worker, reduction_servers()], "--grace=5")
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool1-1 exited with a non-zero status of 3.", run.err)
        self.assertIn("    line 81\n", run.err)
        self.assertIn("    line 100\n", run.err)
        self.assertNotIn("line 80\n", run.err)
        self.assertNotIn("workerpool1-0", run.err)
        state = self.read_json(run, "state.json")
        self.assertEqual(state["state"], "JOB_STATE_FAILED")
        self.assertIn("workerpool1-1", state["error"]["message"])

    def test_a_command_is_not_found(self):
        run = self.run_job([pool(["sleep", "1000"]), pool(["no-such-command-anywhere"])])
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool1-0 could not be started: "
                      "no-such-command-anywhere: No such file or directory.", run.err)
        self.assertRegex(run.out, r"workerpool1-0  could not be started: [^\n]*directory\n")

    def test_a_replica_is_killed(self):
        run = self.run_job([pool(["sleep", "1000"]), bash("kill -9 $BASHPID")])
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool1-0 was killed by signal 9 (Killed).", run.err)

    def test_an_agent_is_killed(self):
        worker = bash("setsid sleep 1000 & kill -9 $PPID; sleep 1000")
        run = self.run_job([pool(["sleep", "1000"]), worker], labels={"restart-backoff": "0"})
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool1-0 was killed by signal 9 (Killed).", run.err)

    def test_a_server_is_never_ready(self):
        servers = reduction_servers(3, """
            if [ $SUMMAND_REPLICA = workerpool2-1 ]; then
                echo ready 127.0.0.1:1 >&$SUMMAND_NOTIFY_FD
            else
                echo cannot find the NIC >&2
            fi
            sleep 1000""")
        marker = self.path("started")
        run = self.run_job([bash(f"touch {marker}"), {}, servers], "--ready-timeout=2",
                           "--grace=5")
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool2-0 was not ready within 2 seconds.", run.err)
        self.assertIn("The replica workerpool2-2 was not ready within 2 seconds.", run.err)
        self.assertNotIn("workerpool2-1", run.err)
        self.assertIn("    cannot find the NIC\n", run.err)
        self.assertNotIn("workerpool0-0  started", run.out)

    def test_no_time_to_get_ready(self):
        """What there is to wait for is given none; without servers there is nothing."""
        self.assert_code(self.run_job([pool(["true"])], "--ready-timeout=0"), 0)
        run = self.run_job([pool(["true"]), {}, reduction_servers()], "--ready-timeout=0")
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool2-0 was not ready within 0 seconds.", run.err)

    def test_a_server_ends_before_the_job(self):
        servers = reduction_servers(1, "echo ready >&$SUMMAND_NOTIFY_FD; sleep 0.5")
        run = self.run_job([pool(["sleep", "1000"]), {}, servers])
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool2-0 exited with status 0 before the job ended.",
                      run.err)

    def test_parameter_servers_that_end_well_at_once(self):
        """Before the last of them has been started, even: nobody waits for those until the others begin."""
        run = self.run_job([bash("exit 0"), None, {**bash("exit 0"), "replicaCount": 12}])
        self.assert_code(run, 0)

    def test_the_evaluator_finishes_after_the_chief(self):
        evaluator = bash("sleep 1; echo result accuracy 0.9731 >&$SUMMAND_NOTIFY_FD")
        run = self.run_job([pool(["true"]), {}, reduction_servers(), evaluator], "--grace=60")
        self.assert_code(run, 0)
        self.assertIn("0.9731", run.out)

    def test_an_evaluator_fails_after_the_chief(self):
        run = self.run_job([pool(["true"]), {}, {}, bash("sleep 1; exit 4")], "--grace=60")
        self.assert_code(run, 0)
        self.assertIn("warning: workerpool3-0 exited with a non-zero status of 4", run.out)

    def test_an_evaluator_fails_before_the_chief(self):
        run = self.run_job([pool(["sleep", "1000"]), {}, {}, bash("exit 4")])
        self.assert_code(run, 1)
        self.assertIn("workerpool3-0 exited with a non-zero status of 4", run.err)

    def test_a_worker_outlives_the_chief(self):
        run = self.run_job([pool(["true"]), pool(["sleep", "1000"])], "--grace=1")
        self.assert_code(run, 0)
        self.assertEqual(self.read_json(run, "state.json")["replicas"][1]["state"], "STOPPED")

    def test_the_job_takes_too_long(self):
        run = self.run_job([pool(["sleep", "1000"])], timeout="1s")
        self.assert_code(run, 1)
        self.assertIn("The job did not end within its timeout of 1 second.", run.err)

    def test_the_job_directory_cannot_be_used(self):
        """Before anything is printed or started."""
        script = self.path("script.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("pass\n")
        spec = self.write_spec([pool(["touch", self.path("started")])])
        for command in ["custom-jobs", "local-run", spec], ["torch-run", "--use-gpu=false"]:
            for folder, reason in ((script, "must be a directory: Not a directory"),
                                   (script + "/job", "must be a directory: Not a directory"),
                                   ("/dev/null", "must be a directory: Not a directory"),
                                   ("/proc/job", "must be a directory: No such file"),
                                   ("x" * 300, "must be a directory: File name too long")):
                with self.subTest(command=command[0], folder=folder):
                    operands = ["--", script] if command[0] == "torch-run" else []
                    run = subprocess.run([SUMMAND, *command, f"--job-dir={folder}", *operands],
                                         check=False, capture_output=True, text=True)
                    self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
                    self.assertIn(f"summand: --job-dir={folder}: {reason}", run.stderr)
        self.assertFalse(os.path.exists(self.path("started")))

    def test_the_job_directory_may_not_be_written(self):
        folder = self.path("folder")
        os.mkdir(folder, 0o555)
        os.chmod(self.dir, 0o755)
        spec = self.write_spec([pool(["true"])])
        subprocess.run(["chmod", "-R", "a+rX", self.dir], check=True)
        os.chmod(folder, 0o555)
        program = [SUMMAND, "custom-jobs", "local-run", spec, f"--job-dir={folder}"]
        if os.getuid() == 0:
            program = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *program]
        run = subprocess.run(program, check=False, capture_output=True, text=True)
        if "setpriv" in run.stderr:
            self.skipTest(run.stderr)
        self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
        self.assertIn(f"summand: --job-dir={folder}: must be writable: Permission denied", run.stderr)

    def test_the_job_directory_is_taken(self):
        run = self.start([pool(["sleep", "1000"])])
        self.wait_for_file(os.path.join(run.job_dir, "logs/workerpool0-0.log"))
        second = subprocess.run([SUMMAND, "custom-jobs", "local-run", self.write_spec([pool(["true"])]),
                                 f"--job-dir={run.job_dir}"], check=False, capture_output=True,
                                text=True)
        self.assertEqual((second.returncode, second.stdout), (2, ""), second.stderr)
        self.assertIn("must be of one job at a time", second.stderr)
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)

    def test_what_a_replica_inherits(self):
        script = "ls /proc/self/fd | tr '\\n' ' '; echo; ulimit -n; trap; " \
                 "grep -E 'SigBlk|SigIgn' /proc/self/status; command -v summand"
        run = self.run_job([bash(script)])
        self.assert_code(run, 0)
        log = self.read(run, "logs/workerpool0-0.log")
        self.assertTrue(log.startswith("0 1 2 3 4 \n"), log)  # 4: ls reading the folder
        self.assertEqual(log.count("0" * 16), 2, log)
        self.assertIn("/summand\n", log)


if __name__ == "__main__":
    at_once.main()
