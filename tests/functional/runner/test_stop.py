"""A job that is interrupted stops as a whole, whatever its replicas do against it."""

import os
import pty
import signal
import termios
import time

from job import LONG, SUMMAND, JobTest, at_once, bash, pool, processes_with, reduction_servers

STUBBORN = "trap '' TERM INT HUP; touch {}; while :; do sleep 0.2; done"


class StopTest(JobTest):
    def start_until_ready(self, script, *flags):
        """A job with a chief that runs the script, which makes the file `ready`."""
        ready = self.path("ready")
        run = self.start([bash(script.format(ready)), pool(["sleep", "1000"], 2),
                          reduction_servers()], *flags)
        self.wait_for_file(ready)
        return run

    def stop(self, run, signo):
        run.send_signal(signo)
        return self.finish(run)

    def test_sigint(self):
        run = self.start_until_ready("touch {}; sleep 1000", "--grace=60")
        self.assert_code(self.stop(run, signal.SIGINT), 130)
        self.assertEqual(self.read_json(run, "state.json")["state"], "JOB_STATE_CANCELLED")

    def test_an_interrupted_job_says_how_long_that_takes(self):
        for flags in [], ["--stream-logs"]:
            if os.path.exists(self.path("ready")):
                os.unlink(self.path("ready"))
            run = self.stop(self.start_until_ready("touch {}; sleep 1000", "--grace=61", *flags), signal.SIGINT)
            self.assertIn("replicas have up to 61 s to end; Ctrl-C once more ends them at once\n", run.out)

    def test_sigterm(self):
        run = self.start_until_ready("touch {}; sleep 1000", "--grace=60")
        self.assert_code(self.stop(run, signal.SIGTERM), 143)

    def test_sighup(self):
        run = self.start_until_ready("touch {}; sleep 1000", "--grace=60")
        self.assert_code(self.stop(run, signal.SIGHUP), 143)

    def test_replicas_may_clean_up(self):
        saved = self.path("saved")
        run = self.start_until_ready(
            "trap 'touch " + saved + "; exit 0' TERM; touch {}; sleep 1000 & wait", "--grace=60")
        self.assert_code(self.stop(run, signal.SIGINT), 130)
        self.assertTrue(os.path.exists(saved))

    def test_a_stubborn_replica_is_killed(self):
        run = self.start_until_ready(STUBBORN, "--grace=1")
        self.assert_code(self.stop(run, signal.SIGINT), 130)
        self.assertEqual(self.read_json(run, "exits/workerpool0-0.json")["signal"], 9)

    def test_a_second_sigint_kills_at_once(self):
        run = self.start_until_ready(STUBBORN, "--grace=10000")
        run.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assert_code(self.stop(run, signal.SIGINT), 130)

    def test_interrupted_while_the_servers_start(self):
        ready = self.path("ready")
        run = self.start([pool(["true"]), {}, reduction_servers(2, f"touch {ready}; sleep 1000")],
                         "--ready-timeout=1000")
        self.wait_for_file(ready)
        self.assert_code(self.stop(run, signal.SIGINT), 130)

    def test_interrupted_while_the_evaluator_finishes(self):
        ready = self.path("ready")
        run = self.start([bash(f"while [ ! -e {ready} ]; do sleep 0.05; done"), {}, {},
                          bash(f"touch {ready}; sleep 1000")], "--grace=10")
        self.wait_for_file(ready)
        self.wait_for_file(os.path.join(run.job_dir, "exits/workerpool0-0.json"))
        time.sleep(0.5)
        self.assert_code(self.stop(run, signal.SIGINT), 130)

    def test_a_daemon_does_not_get_away(self):
        ready = self.path("ready")
        script = f"(setsid bash -c 'touch {ready}; sleep 1000; true' &); sleep 1000"
        run = self.start([bash(script)], "--grace=60")
        self.wait_for_file(ready)
        self.assert_code(self.stop(run, signal.SIGINT), 130)
        self.assertEqual(processes_with(self.mark), [])

    def test_the_runner_is_killed(self):
        run = self.start_until_ready("(setsid sleep 1000 &); " + STUBBORN, "--grace=10000")
        self.assertNotEqual(processes_with(self.mark), [])
        run.kill()
        run.communicate(timeout=LONG)
        # tearDown waits until nothing of the job is left

    def at_a_terminal(self, script, *flags):
        """A job in the foreground of a terminal, that stops what writes from the background."""
        ready = self.path("ready")
        spec = self.write_spec([bash(script.format(ready))])
        pid, terminal = pty.fork()
        if pid == 0:
            settings = termios.tcgetattr(0)
            settings[3] |= termios.TOSTOP
            termios.tcsetattr(0, termios.TCSANOW, settings)
            os.execv(SUMMAND, [SUMMAND, "custom-jobs", "local-run", spec,
                               f"--job-dir={self.path('job')}", *flags])
        self.wait_for_file(ready)
        return pid, terminal

    def end_at_a_terminal(self, pid, terminal):
        try:
            while os.read(terminal, 65536):
                pass
        except OSError:
            pass  # nobody has the terminal open any more
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_keys_of_a_terminal(self):
        saved = self.path("saved")
        for keys, script, flags, code in (
                ((b"\x03",), "trap 'touch " + saved + "; exit 0' TERM; touch {}; sleep 1000 & wait",
                 (), 130),
                ((b"\x03", b"\x03"), STUBBORN, ("--grace=10000",), 130),
                ((b"\x1a", signal.SIGCONT), "touch {}; sleep 1.5", (), 0)):
            with self.subTest(keys=keys):
                pid, terminal = self.at_a_terminal(script, *flags)
                for key in keys:
                    if isinstance(key, bytes):
                        os.write(terminal, key)
                    else:
                        os.kill(pid, key)
                    time.sleep(0.5)
                self.assertEqual(self.end_at_a_terminal(pid, terminal), code)
                os.remove(self.path("ready"))
        self.assertTrue(os.path.exists(saved))

    def test_a_terminal_goes_away(self):
        pid, terminal = self.at_a_terminal("touch {}; sleep 1000")
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 143)

    def test_nobody_reads_the_progress(self):
        ready = self.path("ready")
        run = self.start([bash(f"touch {ready}; sleep 1")])
        self.wait_for_file(ready)
        run.stdout.close()
        run.stdout = None
        self.assertEqual(run.wait(LONG), 0)
        self.assertEqual(self.read_json(run, "state.json")["state"], "JOB_STATE_SUCCEEDED")


if __name__ == "__main__":
    at_once.main()
