"""Commands and shells in replicas that run: `summand custom-jobs exec`."""

import os
import pwd
import signal
import socket
import subprocess

from job import LONG, SUMMAND, JobTest, at_once, bash, processes_with, wait_until
from at_terminal import Terminal     # job.py says where that is

WAITS = "trap 'exit 0' TERM; echo waits; sleep 1000 & wait"
BYTES = os.urandom(3 << 20)     # more than all that buffers hold


class SessionsTest(JobTest):
    def start_waiting(self, *pools, **options):
        """A job whose replicas say that they wait."""
        pools = pools or (bash(WAITS), bash(WAITS, 2))
        run = self.start(list(pools), "--grace=1", **options)
        for number, each in enumerate(pools):
            for index in range(each["replicaCount"]):
                log = f"logs/workerpool{number}-{index}.log"
                self.wait_for_file(os.path.join(run.job_dir, log))
                self.assertTrue(wait_until(lambda log=log: "waits" in self.read(run, log)))
        return run

    def job(self, run):
        return self.read_json(run, "state.json")["name"]

    def begin(self, run, *words, replica="0-0", **options):
        command = [SUMMAND, "custom-jobs", "exec", self.job(run), f"--replica={replica}", *words]
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        session = subprocess.Popen(command, **options)
        self.addCleanup(session.kill)
        return session

    def exec(self, run, *words, given=None, **options):
        stdin = {} if given is None else {"stdin": subprocess.PIPE}
        session = self.begin(run, *words, **stdin, **options)
        out, err = session.communicate(given, timeout=LONG)
        return session.returncode, out, err.decode()

    def refused(self, run, *words, **options):
        code, out, err = self.exec(run, *words, **options)
        self.assertEqual((code, out), (125, b""), err)
        return err

    def stop(self, run):
        run.send_signal(signal.SIGINT)
        self.finish(run)

    def test_a_command(self):
        """It has the replica's variables and folder; streams, input and exit code are passed on."""
        run = self.start_waiting()
        for replica in "0-0", "1-1", "workerpool1-0":
            name = "workerpool" + replica.removeprefix("workerpool")
            code, out, err = self.exec(run, "--", "sh", "-c", "echo $SUMMAND_REPLICA; echo wrong >&2; exit 7", replica=replica)
            self.assertEqual((code, out.decode(), err), (7, name + "\n", "wrong\n"))
        code, out, err = self.exec(run, "--", "sh", "-c", "pwd; kill -9 $$")
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        own = next(pid for pid in processes_with(self.mark) if "sleep" in open(f"/proc/{pid}/cmdline", encoding="utf-8").read())
        self.assertEqual(out.decode().splitlines()[-1], os.readlink(f"/proc/{own}/cwd"))
        self.assertEqual(self.exec(run, "--", "no-such-program")[0], 127)
        self.assertEqual(self.exec(run, "--", "/etc/passwd")[0], 126)
        self.assertEqual(self.exec(run, given=b"echo in a shell\nexit 3\n")[:2], (3, b"in a shell\n"))
        code, out, err = self.exec(run, "--", "cat", given=BYTES)
        self.assertEqual(code, 0, err)
        self.assertTrue(out == BYTES, "what comes back is not what was given")
        self.assertEqual(self.exec(run, "--", "true", given=BYTES)[0], 0)      # it does not read
        self.stop(run)
        log = self.read(run, "logs/job.log")
        me = pwd.getpwuid(os.getuid()).pw_name
        self.assertRegex(log, rf"workerpool1-1: session \d+ begins: sh, for {me}\n")
        self.assertRegex(log, r"workerpool1-1: session \d+ has ended after \d+\.\d s: exit code 7\n")
        self.assertRegex(log, rf"workerpool0-0: session \d+ begins: a shell, for {me}\n")

    def test_a_file_as_input_and_a_reader_that_goes(self):
        run = self.start_waiting(bash(WAITS))
        with open(__file__, "rb") as file:
            code, out, _ = self.exec(run, "--", "cat", stdin=file)
            self.assertEqual((code, len(out)), (0, os.path.getsize(__file__)))
        session = self.begin(run, "--", "yes")
        self.assertTrue(session.stdout.read(1))
        session.stdout.close()
        self.assertEqual(session.wait(LONG), 128 + signal.SIGPIPE)
        self.stop(run)

    def test_a_terminal(self):
        run = self.start_waiting(bash(WAITS))
        terminal = Terminal([SUMMAND, "custom-jobs", "exec", self.job(run), "--", "sh", "-c", "trap 'stty size' WINCH; PS1='go> ' exec sh -i"])
        terminal.wait_for(rb"go> $")
        terminal.resize(33, 101)
        # Keys may overtake the news of the size.
        terminal.type(b"until [ \"$(stty size)\" = '33 101' ]; do sleep 0.1; done; stty size; echo $TERM; test -t 0 -a -t 1 -a -t 2 && echo yes; tty\n")
        terminal.wait_for(rb"33 101\r\nxterm-256color\r\nyes\r\n/dev/pts/\d+\r\ngo> ")
        terminal.type(b"sleep 777\n")
        terminal.wait_for(rb"sleep 777\r\n")
        self.assertTrue(wait_until(lambda: b"sleep\x00777\0" in self.commands()))
        terminal.type(b"\x03")
        terminal.wait_for(rb"go> $")
        terminal.type(b"exit 9\n")
        self.assertEqual(terminal.wait(), 9)
        self.stop(run)

    def commands(self):
        for pid in processes_with(self.mark):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    yield file.read()
            except OSError:
                pass    # it has ended

    def test_the_end_of_whoever_asked(self):
        """Takes along all that the command has started."""
        run = self.start_waiting(bash(WAITS))
        before = set(processes_with(self.mark))
        session = self.begin(run, "--", "bash", "-c", "trap '' TERM HUP INT; setsid sleep 999 & echo begun; sleep 998 & wait")
        self.assertEqual(session.stdout.readline(), b"begun\n")
        self.assertTrue(wait_until(lambda: len(set(processes_with(self.mark)) - before) > 2))
        session.send_signal(signal.SIGKILL)
        self.assertTrue(wait_until(lambda: set(processes_with(self.mark)) <= before))
        self.assertEqual(self.exec(run, "--", "echo", "still there")[1], b"still there\n")
        self.stop(run)

    def test_the_end_of_the_replica(self):
        """The session ends with it, and before it: nothing of the replica is left when its end is told."""
        run = self.start_waiting(bash("echo waits; read < " + self.fifo()))
        session = self.begin(run, "--", "bash", "-c", "trap '' TERM; echo begun; sleep 999")
        self.assertEqual(session.stdout.readline(), b"begun\n")
        self.go()
        self.finish(run)
        self.assert_code(run, 0)
        self.assertEqual(session.wait(LONG), 128 + signal.SIGKILL)
        self.assertIn("must run, and its state is JOB_STATE_SUCCEEDED", self.refused(run))

    def fifo(self):
        path = self.path("fifo")
        os.mkfifo(path)
        return path

    def go(self):
        with open(self.path("fifo"), "w", encoding="ascii") as file:
            file.write("go\n")

    def test_another_attempt(self):
        """Has none of the sessions of the one before, and takes new ones."""
        run = self.start_waiting(bash(f"echo waits; [ $SUMMAND_RESTARTS = 1 ] && exec sleep 1000; read < {self.fifo()}; exit 3"),
                                 labels={"restart-policy": "on-failure", "max-restarts": "1"})
        session = self.begin(run, "--", "sleep", "999")
        self.assertTrue(wait_until(lambda: b"sleep\x00999\0" in self.commands()))
        self.go()
        self.assertEqual(session.wait(LONG), 128 + signal.SIGKILL)
        self.assertTrue(wait_until(lambda: b"sleep\x001000\0" in self.commands()))
        self.assertEqual(self.exec(run, "--", "sh", "-c", "echo $SUMMAND_RESTARTS")[1], b"1\n")
        self.stop(run)

    def test_refusals(self):
        run = self.start_waiting()
        self.assertIn("workerpool0-1: the job has no replica of that name", self.refused(run, replica="0-1"))
        self.assertIn("chief: the job has no replica of that name", self.refused(run, replica="chief"))
        self.assertIn("COMMAND must be text in UTF-8", self.refused(run, "--", b"\xff"))
        sessions = [self.begin(run, "--", "sh", "-c", "echo begun; sleep 1000") for _ in range(32)]
        for session in sessions:
            self.assertEqual(session.stdout.readline(), b"begun\n")
        self.assertIn("has as many sessions as it takes", self.refused(run, "--", "true"))
        sessions[0].kill()
        self.assertTrue(wait_until(lambda: self.exec(run, "--", "true")[0] == 0))
        self.stop(run)
        for session in sessions[1:]:
            self.assertEqual(session.wait(LONG), 128 + signal.SIGKILL)

    def test_strange_bytes_end_the_connection_alone(self):
        run = self.start_waiting(bash(WAITS))
        here = os.open(run.job_dir, os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, here)
        self.assertEqual(os.stat("sessions", dir_fd=here).st_mode & 0o777, 0o600)
        for strange in b"GET / HTTP/1.1\r\n\r\n", b"\x02\0\0\0\x07{}", b"\x02\0\0\0\x11{}", b"\x04\0\0\0\x12\x01\0\0\0":
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(LONG)
                client.connect(f"/proc/self/fd/{here}/sessions")
                client.sendall(strange)
                client.shutdown(socket.SHUT_WR)
                self.assertEqual(client.recv(100), b"")
        self.assertEqual(self.exec(run, "--", "echo", "well")[1], b"well\n")
        self.stop(run)
        self.assertFalse(os.path.exists(os.path.join(run.job_dir, "sessions")))


if __name__ == "__main__":
    at_once.main()
