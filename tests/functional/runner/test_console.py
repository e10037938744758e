"""What `local-run` and `torch-run` show: the programs' output, the runner's words, and a line at the bottom of a terminal."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

from job import LONG, RUNNER, SUMMAND, JobTest, at_once, bash, pool, reduction_servers, wait_until

STATUS = re.compile(r"\d+/\d+ running")
PLAIN = {"NO_COLOR": "", "TERM": "xterm"}


class Screen:
    """A terminal of some width: what stands on its lines once all has been written."""

    def __init__(self, columns):
        self.columns, self.lines, self.column, self.widest = columns, [""], 0, 0

    def write(self, text):
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.", text, flags=re.DOTALL):
            if part == "\x1b[K":
                self.lines[-1] = self.lines[-1][:self.column]
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.lines.append("")
                self.column = 0
            elif not part.startswith("\x1b"):
                self.lines[-1] = self.lines[-1][:self.column] + part + self.lines[-1][self.column + 1:]
                self.column += 1
                if STATUS.match(self.lines[-1]):
                    self.widest = max(self.widest, self.column)


class ConsoleTest(JobTest):
    VIEW = ()

    def at_a_terminal(self, spec, *flags, columns=80, environment=None, out=None, act=None):
        """Runs a job with standard error, and standard output if it goes nowhere else, at a terminal. What came, as text."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        words = [SUMMAND, "custom-jobs", "local-run", spec, f"--job-dir={self.path('job')}", *flags]
        with subprocess.Popen(words, stdin=slave, stdout=out or slave, stderr=slave,
                              env={**os.environ, **PLAIN, **(environment or {})}) as run:
            os.close(slave)
            said = b""
            with contextlib.suppress(OSError):  # nobody has the terminal open any more
                while part := os.read(master, 65536):
                    said += part
                    if act and act(run, master, said):
                        act = None
            os.close(master)
        self.code = run.returncode
        return said.decode()

    def test_two_streams(self):
        """The programs' on standard output and standard error, the runner's words on standard error."""
        script = "echo one; echo two >&2; printf '\\nthree'"
        run = self.run_job([bash(script), bash("echo four", 2)], labels={"success-policy": "all-workers"})
        self.assert_code(run, 0)
        self.assertEqual(sorted(run.out.splitlines()), [
            "workerpool0-0 | ", "workerpool0-0 | one", "workerpool0-0 | three",
            "workerpool1-0 | four", "workerpool1-1 | four"])
        self.assertEqual([line for line in run.err.splitlines() if " | " in line], ["workerpool0-0 | two"])
        self.assertIn(f"runner test: job directory {run.job_dir}\n", run.err)
        self.assertIn("runner test: succeeded in ", run.err)
        self.assertNotIn("\x1b", run.out + run.err)

    def test_a_process_of_several(self):
        run = self.run_job([bash("echo $LOCAL_RANK")], labels={"processes-per-replica": "2"})
        self.assert_code(run, 0)
        self.assertEqual(sorted(run.out.splitlines()), ["workerpool0-0.0 | 0", "workerpool0-0.1 | 1"])

    def test_other_views(self):
        spec = self.write_spec([bash("echo out; echo err >&2")])
        run = self.finish(self.start_spec(spec, "--quiet"))
        self.assert_code(run, 0)
        self.assertIn("workerpool0-0  started\n", run.out)
        self.assertIn("runner test: succeeded in ", run.out)
        self.assertEqual((run.err, " | " in run.out), ("", False))
        run = self.finish(self.start_spec(spec, "--stream-logs"))
        self.assert_code(run, 0)
        self.assertTrue(all(line.count("\t") == 3 for line in run.out.splitlines()), run.out)
        self.assertIn("runner test: job directory", run.err)
        self.assertIn("runner test: succeeded in ", run.err)
        run = self.finish(self.start_spec(spec, "--format=json"))
        self.assert_code(run, 0)
        self.assertEqual(json.loads(run.out)["state"], "JOB_STATE_SUCCEEDED")
        self.assertIn("workerpool0-0 | out\n", run.err)
        self.assertIn("workerpool0-0 | err\n", run.err)
        run = self.finish(self.start_spec(spec, "--quiet", "--stream-logs"))
        self.assert_code(run, 2)
        self.assertIn("--quiet: must be without --stream-logs", run.err)

    def test_torch_run(self):
        script = self.path("script.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("print('hello')")
        for flags, shown in (((), True), (("--quiet",), False)):
            run = subprocess.run([SUMMAND, "torch-run", "--no-use-gpu", "--num-processes=2", *flags,
                                  f"--job-dir={self.path('torch')}", script], check=True, capture_output=True, text=True)
            lines = ["workerpool0-0 | hello", "workerpool1-0 | hello"] if shown else []
            self.assertEqual(sorted(line for line in run.stdout.splitlines() if "|" in line), lines)
            self.assertIn("job directory", run.stderr if shown else run.stdout)

    def test_a_failure(self):
        """One line when it happens, the reason at the end; nothing of those that are stopped."""
        script = "[ $RANK = 2 ] && { echo the reason >&2; exit 3; }; trap 'sleep 0.5; exit 9' TERM; sleep 1000 & wait"
        run = self.run_job([bash(script), bash(script, 3)])
        self.assert_code(run, 1)
        begin, failed, end = run.err.partition("runner test: failed in ")
        self.assertTrue(failed)
        self.assertIn("workerpool1-1 exited with a non-zero status of 3; the others have up to 30 s to end\n", begin)
        self.assertNotIn("stopped", begin)
        self.assertIn("The replica workerpool1-1 exited with a non-zero status of 3.\n", end)
        self.assertIn("    the reason\n", end)
        self.assertIn(f"  Its log: {run.job_dir}/logs/workerpool1-1.log\n", end)

    def test_a_summary_of_many(self):
        """Those of a pool that ended alike are one row; the one that failed has its own, and its last lines."""
        here = self.path("here")  # who obeys SIGTERM already
        os.mkdir(here)
        script = (f"trap 'echo no reason >&2; exit 0' TERM; touch {here}/$RANK; [ $RANK = 7 ] && {{ "
                  f"while [ $(ls {here} | wc -l) -lt 20 ]; do sleep 0.1; done; echo the reason >&2; exit 3; }}; sleep 1000 & wait")
        run = self.run_job([bash(script), bash(script, 19)])
        self.assert_code(run, 1)
        end = run.err.partition("runner test: failed in ")[2]
        rows = [line.split() for line in end.partition("  replica")[2].partition("\n\n")[0].splitlines()[1:]]
        self.assertEqual([row[:-3] + [row[-3]] for row in rows], [
            ["workerpool0-0", "chief", "0"], ["workerpool1", "(18)", "worker", "0"], ["workerpool1-6", "worker", "3"]])
        self.assertEqual(end.count("reason"), 1)
        self.assertIn("    the reason\n", end)
        self.assertEqual(len(self.read_json(run, "summary.json")["replicas"]), 20)

    def test_servers_do_not_drown_the_program(self):
        server = ("echo 'info  server: fine' >&2; echo 'debug server: fine' >&2; echo 'warn  server: short of memory' >&2; "
                  "echo ready 127.0.0.1:1 | tee /dev/fd/$SUMMAND_NOTIFY_FD; trap 'exit 0' TERM; sleep 1000 & wait")
        run = self.run_job([bash("echo hello"), {}, reduction_servers(1, server)])
        self.assert_code(run, 0)
        self.assertEqual(run.out, "workerpool0-0 | hello\n")
        self.assertIn("workerpool2-0 | warn  server: short of memory\n", run.err)
        self.assertNotIn("fine", run.err)

    def test_colors(self):
        spec = self.write_spec([bash("echo hello"), bash("echo hello", 2)], labels={"success-policy": "all-workers"})
        said = self.at_a_terminal(spec)
        prefixes = set(re.findall(r"\x1b\[(\d+)m(workerpool\S+) \|\x1b\[0m hello", said))
        self.assertEqual(len({color for color, _ in prefixes}), 3, said)
        for environment, flags, colored in (({"NO_COLOR": "1"}, (), False), ({"TERM": "dumb"}, (), False),
                                            ({}, ("--color=never",), False), ({"NO_COLOR": "1"}, ("--color=always",), True)):
            said = self.at_a_terminal(spec, *flags, environment=environment)
            self.assertEqual("m hello" in said, colored, f"{environment} {flags} {said}")
            self.assertIn("hello", said)
        self.assertIn("m hello\n", self.finish(self.start_spec(spec, "--color=always")).out)
        run = self.finish(self.start_spec(spec, "--color=often"))
        self.assert_code(run, 2)
        self.assertIn('--color: must be auto, always or never, got "often"', run.err)

    def test_odd_lines(self):
        """A pipe gets the bytes; a terminal text, and of lines that were overwritten the last state."""
        script = ("import sys; out = sys.stdout.buffer; out.write('ü'.encode() * 5000 + b'\\n');"
                  "out.write(b'10%\\r20%\\n\\x1b[31mred\\x1b]0;title\\x07\\xff\\0end\\n' + b'no end')")
        spec = self.write_spec([pool(["python3", "-c", script])])
        words = [SUMMAND, "custom-jobs", "local-run", spec, f"--job-dir={self.path('job')}"]
        lines = subprocess.run(words, check=True, capture_output=True).stdout.split(b"\n")
        self.assertEqual(lines[-4:], [b"workerpool0-0 | 10%\r20%", b"workerpool0-0 | \x1b[31mred\x1b]0;title\x07\xff\0end",
                                      b"workerpool0-0 | no end", b""])
        self.assertEqual("".join(line.decode().removeprefix("workerpool0-0 | ") for line in lines[:-4]), "ü" * 5000)
        said = self.at_a_terminal(spec, "--color=never")
        for line in "20%", "red?]0;title???end", "no end":
            self.assertIn(f"workerpool0-0 | {line}\r\n", said)
        self.assertEqual(said.count("ü"), 5000)
        self.assertNotIn("10%", said)

    def test_a_progress_bar(self):
        """While it has no end it is in the line at the bottom; then the last state is a line."""
        script = "for i in 10 11 12; do printf '\\r%s%%|###    |' $i; sleep 0.3; done; echo; sleep 0.3; seq 3"
        said = self.at_a_terminal(self.write_spec([bash(script)]), "--color=never")
        self.assertRegex(said, r"1/1 running, 00:0\d, Ctrl-C stops, 11%\|###    \|")
        self.assertEqual(re.findall(r"workerpool0-0 \| (.*)\r\n", said), ["12%|###    |", "1", "2", "3"])
        self.assertNotIn("12%", said.rpartition("| 12%")[2].partition("\n")[2])

    def test_the_line_at_the_bottom(self):
        script = "for i in $(seq 20); do echo line $i of $RANK; sleep 0.05; done"
        spec = self.write_spec([bash(script), bash(script, 3)], labels={"success-policy": "all-workers"})
        for columns in 80, 30:
            screen = Screen(columns)
            said = self.at_a_terminal(spec, columns=columns)
            screen.write(said.replace("\r\n", "\n"))
            self.assertRegex(said, "4/4 running, 00:0")
            self.assertLess(screen.widest, columns)
            self.assertEqual([line for line in screen.lines if STATUS.search(line)], [], "it stays nowhere")
            mine = [line for line in screen.lines if re.match(r"workerpool\d-\d \| line \d+ of \d$", line)]
            self.assertEqual(len(mine), 80, said)
        for flags, environment in ((("--quiet",), {}), (("--stream-logs",), {}), ((), {"TERM": "dumb"})):
            self.assertNotRegex(self.at_a_terminal(spec, *flags, environment=environment), STATUS)

    def test_the_line_below_a_pipe(self):
        """With standard output elsewhere, the line is not disturbed by it."""
        with open(self.path("out"), "w+", encoding="utf-8") as out:
            said = self.at_a_terminal(self.write_spec([bash("seq 5; sleep 1.2")]), out=out)
            out.seek(0)
            self.assertEqual(out.read(), "".join(f"workerpool0-0 | {i}\n" for i in range(1, 6)))
        self.assertRegex(said, "1/1 running, 00:0[01], Ctrl-C stops")

    def test_another_width(self):
        """The line fits as soon as the terminal has been made narrower."""
        def narrow(_, master, said):
            if b"Ctrl-C stops" not in said:
                return False
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
            return True
        said = self.at_a_terminal(self.write_spec([bash("sleep 3")]), act=narrow)
        self.assertRegex(said.rpartition("Ctrl-C stops")[2], r"1/1 running, 00:0\d,\r")

    def test_an_interruption(self):
        ready = self.path("ready")

        def interrupt(run, *_):
            if not os.path.exists(ready):
                return False
            run.send_signal(signal.SIGINT)
            return True
        said = self.at_a_terminal(self.write_spec([bash(f"trap 'sleep 1; exit 0' TERM; touch {ready}; sleep 1000 & wait")]),
                                  act=interrupt)
        self.assertEqual(self.code, 130, said)
        self.assertIn("interrupted: replicas have up to 30 s to end; Ctrl-C once more ends them at once\r\n", said)
        self.assertIn("1 stopping, 00:0", said)
        self.assertIn("Ctrl-C once more ends them at once\r\x1b[K", said)

    def test_a_reader_that_goes_away(self):
        """As `head` does; the job goes on, and nothing is said."""
        run = self.start([bash("seq 100000; touch " + self.path("done"))])
        run.stdout.close()
        run.stdout = None
        _, err = run.communicate(timeout=LONG)
        self.assertEqual(run.returncode, 0)
        self.assertTrue(os.path.exists(self.path("done")))
        self.assertNotIn("standard output", err)
        self.assertEqual(self.read(run, "logs/workerpool0-0.log").count("\n"), 100000)

    def test_a_reader_that_does_not_read(self):
        """Replicas wait for it for some seconds at most; then lines are left out, which is told. The logs have all."""
        run = self.start([bash("x=$(head -c 3000 /dev/zero | tr '\\0' x); for i in $(seq 8000); do echo $i $x; done")])
        done = wait_until(lambda: os.path.exists(os.path.join(run.job_dir, "summary.json")))
        self.assertTrue(done)
        self.assertIsNone(run.poll(), "what is not read yet is not lost at the end of the job")
        self.finish(run)
        self.assert_code(run, 0)
        lines = [int(line.split()[2]) for line in run.out.splitlines() if " | " in line]
        remark = re.findall(r"summand: (\d+) lines are left out here, because nothing was read for a while; logs/job.log has them",
                            run.out)
        self.assertEqual(len(remark), 1)
        self.assertIn("left out here", run.out.splitlines()[-1])
        self.assertEqual(lines, list(range(1, len(lines) + 1)))
        self.assertEqual(len(lines) + int(remark[0]), 8000)
        self.assertEqual(self.read(run, "logs/workerpool0-0.log").count("\n"), 8000)

    def test_an_interruption_while_nobody_reads(self):
        run = self.start([bash("yes")], "--grace=20")
        time.sleep(2)
        run.send_signal(signal.SIGINT)
        self.assertTrue(wait_until(lambda: os.path.exists(os.path.join(run.job_dir, "summary.json"))))
        self.assertEqual(self.read_json(run, "summary.json")["state"], "JOB_STATE_CANCELLED")
        run.send_signal(signal.SIGINT)  # it need not be read to the end either
        self.assertEqual(run.wait(LONG), 130)

    def test_no_place_for_output(self):
        """A full disk, or descriptors that are closed: the job's outcome stands, and what it writes is not disturbed."""
        files = self.path("files")
        spec = self.write_spec([bash("echo out; echo err >&2; for fd in 0 1 2; do "
                                     f"readlink /proc/{RUNNER}/fd/$fd; done > {files}")])
        words = f"{SUMMAND} custom-jobs local-run {spec} --job-dir={self.path('job')}"
        for redirection, full, closed in ((">/dev/full", 1, ()), (">&-", 0, (1,)), ("<&-", 0, (0,)), (">&- 2>&-", 0, (1, 2)),
                                          ("<&- >&- 2>&-", 0, (0, 1, 2)), ("2>/dev/full", 0, ())):
            run = subprocess.run(["bash", "-c", f"{words} {redirection}"], check=False, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, f"{redirection} {run.stderr}")
            self.assertEqual(run.stderr.count("standard output: cannot be written: No space left on device"), full)
            self.assertEqual(run.stderr.count("cannot be written"), full, run.stderr)
            with open(files, encoding="utf-8") as file:
                opened = file.read().split()
            self.assertEqual([opened[fd] for fd in closed], ["/dev/null"] * len(closed), "nothing else may be there")
            with open(self.path("job/logs/job.log"), encoding="utf-8") as file:
                log = file.read()
            self.assertEqual([line.split("\t")[3] for line in log.splitlines()],
                             ["Job is preparing.", "Job is running.", "out", "err", "Job completed successfully."])
        os.remove(files)
        run = subprocess.run(["bash", "-c", f"{words} --format=json >&-"], check=False, capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("--format: standard output must be open", run.stderr)
        self.assertFalse(os.path.exists(files), "nothing has been started")

    def test_a_socket(self):
        """Cannot be opened again, as a service's standard output: it is written nevertheless."""
        here, there = socket.socketpair()
        received = []
        reader = threading.Thread(target=lambda: [received.append(part) for part in iter(lambda: here.recv(65536), b"")])
        reader.start()
        spec = self.write_spec([bash("seq 50000")])
        subprocess.run([SUMMAND, "custom-jobs", "local-run", spec, f"--job-dir={self.path('job')}"], check=True,
                       stdout=there, stderr=subprocess.DEVNULL)
        there.close()
        reader.join()
        self.assertEqual(b"".join(received).decode(), "".join(f"workerpool0-0 | {i}\n" for i in range(1, 50001)))


if __name__ == "__main__":
    at_once.main()
