"""Nothing of a job outlives it or its runner, whatever its replicas do to what supervises them."""

import json
import os
import signal
import subprocess
import tempfile
from unittest import mock

from job import HOST_AGENT, LONG, OVER_HOSTS, RUNNER, JobTest, at_once, bash, children_of, processes_with, wait_until

DAEMON = "setsid bash -c 'echo $BASHPID > {0}.tmp; mv {0}.tmp {0}; exec sleep 1000' & " \
         "while [ ! -e {0} ]; do sleep 0.01; done; "
# Ends what it is told to in a session of its own, from where no signal to a group reaches it.
STOPPER = "setsid bash -c 'trap \"\" TERM; while :; do kill -STOP $0; sleep 0.01; done' $PPID & "

# Holds the agent by ptrace, as a debugger does: it takes no signal then but SIGKILL.
TRACER = """
import ctypes, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), None, None) == 0  # PTRACE_ATTACH
open(sys.argv[2] + ("" if held else ".refused"), "w").close()
time.sleep(1000)
"""


class OrphansTest(JobTest):
    def setUp(self):
        super().setUp()
        self.daemon = self.path("daemon")
        self.ready = self.path("ready")

    def kill(self, run, pid):
        os.kill(pid, signal.SIGKILL)
        return self.finish(run)

    def assert_nothing_left(self):
        self.assertTrue(wait_until(lambda: not processes_with(self.mark), 30),
                        f"left: {processes_with(self.mark)}")

    def start_until_ready(self, script, *flags, then="", **options):
        run = self.start([bash(f"{script} touch {self.ready}; {then} sleep 1000")], *flags,
                         **options)
        self.wait_for_file(self.ready)
        return run

    def test_a_killed_agents_daemon_ends_before_the_next_attempt(self):
        for scope in "job", "replica":
            with self.subTest(scope=scope):
                seen = self.path(f"seen-{scope}")
                daemon = self.path(f"daemon-{scope}")
                first = DAEMON.format(daemon) + "kill -9 $PPID; sleep 1000"
                script = f"if [ $SUMMAND_RESTARTS = 0 ]; then {first}; fi; " \
                         f"if kill -0 $(cat {daemon}); then echo alive; else echo gone; fi > {seen}"
                run = self.run_job([bash(script)], labels={"restart-backoff": "0",
                                                           "restart-scope": scope})
                self.assert_code(run, 0)
                with open(seen, encoding="utf-8") as file:
                    self.assertEqual(file.read(), "gone\n")

    def test_a_killed_agents_daemon_ends_while_the_job_goes_on(self):
        script = DAEMON.format(self.daemon) + "kill -9 $PPID"
        run = self.start([bash("sleep 1000"), bash(script)],
                         labels={"restart-backoff": "1000", "restart-scope": "replica"})
        self.wait_for_file(self.daemon)
        with open(self.daemon, encoding="utf-8") as file:
            daemon = int(file.read())
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{daemon}"), 20))
        self.assertEqual(len(children_of(self.agent_of(run))), 1)
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)

    def test_the_runner_is_killed_after_the_agent(self):
        for victim in "started", "runner":
            with self.subTest(victim=victim):
                run = self.start_until_ready(
                    DAEMON.format(self.daemon), then="kill -9 $PPID;",
                    labels={"restart-backoff": "1000"})
                self.kill(run, run.pid if victim == "started" else self.runner_of(run))
                self.assert_nothing_left()
                os.remove(self.daemon)
                os.remove(self.ready)

    def test_a_stopped_agent_is_continued(self):
        run = self.run_job([bash("kill -STOP $PPID; exit 3")])
        self.assert_code(run, 1)
        self.assertIn("exited with a non-zero status of 3", run.err)

    def test_a_stopped_agents_job_can_be_interrupted(self):
        run = self.start_until_ready(STOPPER, "--grace=1")
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)
        self.assertEqual(processes_with(self.mark), [])

    def test_an_agent_that_never_ends_is_killed(self):
        script = f"setsid python3 -c '{TRACER}' $PPID {self.daemon} & sleep 1000"
        run = self.start([bash(script)], "--grace=1")
        self.assertTrue(wait_until(lambda: any(map(os.path.exists, [
            self.daemon, self.daemon + ".refused"]))))
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)
        self.assertEqual(processes_with(self.mark), [])
        if not os.path.exists(self.daemon):
            self.skipTest("an agent may not be traced here")
        if not OVER_HOSTS:  # what agents of other hosts say is shown when these are lost
            self.assertIn("its agent does not end; it is killed", run.err)

    def test_a_stopped_agents_runner_is_killed(self):
        for victim in "started", "runner":
            with self.subTest(victim=victim):
                run = self.start_until_ready(DAEMON.format(self.daemon) + STOPPER)
                self.kill(run, run.pid if victim == "started" else self.runner_of(run))
                self.assert_nothing_left()
                os.remove(self.daemon)
                os.remove(self.ready)

    def test_a_stopped_runner_is_continued(self):
        for stopped in (RUNNER,) if OVER_HOSTS else (HOST_AGENT, RUNNER):  # on another host nobody continues an agent
            run = self.start([bash(f"kill -STOP {stopped}")])
            self.assert_code(self.finish(run), 0)

    def test_a_killed_hosts_agent_ends_its_replicas(self):
        """The job goes on with another agent, when nothing of the first one is left."""
        seen = self.path("seen")
        # The killed agent's own folder on another host would stay for a minute, until a next agent finds it.
        forget = 'rm -r "${TORCHELASTIC_ERROR_FILE%/errors/*}"; ' if OVER_HOSTS else ""
        first = f"{DAEMON.format(self.daemon)}{forget}kill -9 {HOST_AGENT}; sleep 1000"
        script = f"if [ $SUMMAND_RESTARTS = 0 ]; then {first}; fi; " \
                 f"if kill -0 $(cat {self.daemon}); then echo alive; else echo gone; fi > {seen}"
        for scope in "job", "replica":
            with self.subTest(scope=scope):
                run = self.run_job([bash(script)], labels={"restart-backoff": "0", "restart-scope": scope})
                self.assert_code(run, 0)
                with open(seen, encoding="utf-8") as file:
                    self.assertEqual(file.read(), "gone\n")
                reason = "host one: " if OVER_HOSTS else "host localhost: its agent was killed by signal 9"
                self.assertIn(f"was lost with its host: {reason}", run.out)
                os.remove(self.daemon)

    def test_the_end_of_the_runner_is_told_and_recorded(self):
        run = self.start_until_ready("")
        self.assertTrue(wait_until(lambda: '"RUNNING"' in self.read(run, "state.json")))
        self.kill(run, self.runner_of(run))
        self.assert_code(run, 1)
        self.assertIn("the job's runner was killed by signal 9 (Killed)", run.err)
        state = self.read_json(run, "state.json")
        self.assertEqual(state["state"], "JOB_STATE_FAILED")
        self.assertIn("runner was killed", state["error"]["message"])
        self.assertIn("endTime", state)
        self.assertEqual([r["state"] for r in state["replicas"]], ["STOPPED"])

    def test_a_killed_program_is_recorded(self):
        run = self.start_until_ready("trap '' TERM;", "--grace=10000")
        self.kill(run, run.pid)
        self.assertTrue(wait_until(
            lambda: self.read_json(run, "state.json")["state"] == "JOB_STATE_FAILED"))
        self.assertIn(f"guard, process {run.pid}, was killed", self.read_json(run, "state.json")["error"]["message"])

    def test_the_lock_tells_whether_a_state_is_of_a_running_job(self):
        """Guard and runner together leave nobody who could write it down."""
        run = self.start_until_ready("")
        is_free = ["flock", "--nonblock", run.job_dir, "true"]
        self.assertEqual(subprocess.run(is_free, check=False).returncode, 1)
        runner = self.runner_of(run)
        os.kill(run.pid, signal.SIGSTOP)
        os.kill(runner, signal.SIGKILL)
        self.kill(run, run.pid)
        self.assertIn(self.read_json(run, "state.json")["state"],
                      ("JOB_STATE_PENDING", "JOB_STATE_RUNNING"))
        self.assertTrue(wait_until(lambda: subprocess.run(is_free, check=False).returncode == 0))

    def start_installing(self):
        """A job whose packages are being installed, by what stands in for pip."""
        folder = self.path("bin")
        os.makedirs(folder, exist_ok=True)
        pip = os.path.join(folder, "python3")
        with open(pip, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + DAEMON.format(self.daemon)
                       + f"touch {self.ready}; sleep 1000")
        os.chmod(pip, 0o755)
        wheel = self.path("a.whl")
        with open(wheel, "w", encoding="utf-8"):
            pass
        spec = os.path.join(tempfile.mkdtemp(dir=self.dir), "spec.json")
        with open(spec, "w", encoding="utf-8") as file:
            json.dump({"workerPoolSpecs": [{
                "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
                "pythonPackageSpec": {"executorImageUri": "local", "packageUris": [wheel],
                                      "pythonModule": "a.b"}}]}, file)
        with mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ['PATH']}",
                                          "TEST_MARK": self.mark}):
            run = self.start_spec(spec)
        self.wait_for_file(self.ready)
        return run

    def test_interrupted_while_packages_are_installed(self):
        run = self.start_installing()
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)
        self.assertEqual(self.read_json(run, "state.json")["state"], "JOB_STATE_CANCELLED")
        self.assertEqual(processes_with(self.mark), [])

    def test_killed_while_packages_are_installed(self):
        for victim in "started", "runner":
            with self.subTest(victim=victim):
                run = self.start_installing()
                self.kill(run, run.pid if victim == "started" else self.runner_of(run))
                self.assert_nothing_left()
                os.remove(self.daemon)
                os.remove(self.ready)

    def test_a_directory_is_free_when_nothing_is_left(self):
        run = self.start_until_ready(DAEMON.format(self.daemon))
        self.kill(run, run.pid)
        spec = self.write_spec([bash("true")])
        os.rename(run.job_dir, os.path.join(os.path.dirname(spec), "job"))
        self.assert_code(self.finish(self.start_spec(spec)), 0)
        self.assertEqual(processes_with(self.mark), [])


if __name__ == "__main__":
    at_once.main()
