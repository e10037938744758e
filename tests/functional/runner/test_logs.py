"""What replicas say, as one stream."""

import contextlib
import json
import os
import pty
import re
import subprocess

from job import SUMMAND, JobTest, at_once, bash, pool

LINE = re.compile(r"^([A-Z]+)\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}\t([a-z0-9.-]+)\t(.*)$")


class LogsTest(JobTest):
    def messages(self, text):
        """(severity, task, message) of each line; all must have the stream's form."""
        lines = [LINE.match(line) for line in text.splitlines()]
        self.assertTrue(all(lines), text)
        return [line.groups() for line in lines]

    def test_the_stream(self):
        chief = bash(r"""
            echo 'to	stdout'; echo to stderr >&2; printf 'no newline'
            """)
        run = self.run_job([chief, bash("echo hello", 2)], "--stream-logs", "--grace=20",
                           labels={"success-policy": "all-workers"})
        self.assert_code(run, 0)
        said = self.messages(run.out)
        self.assertEqual(run.out, self.read(run, "logs/job.log"))
        self.assertIn(("INFO", "workerpool0-0", "to\tstdout"), said)
        self.assertIn(("ERROR", "workerpool0-0", "to stderr"), said)
        self.assertIn(("INFO", "workerpool0-0", "no newline"), said)
        for name in "workerpool1-0", "workerpool1-1":
            self.assertEqual([m for s, t, m in said if t == name], ["hello"])
        self.assertEqual([m for s, t, m in said if t == "service"],
                         ["Job is preparing.", "Job is running.", "Job completed successfully."])

    def test_lines_that_are_json(self):
        lines = ['{"severity": "WARNING", "message": "two\\nlines", "step": 3}',
                 '{"message": "no severity"}', '{"severity": "BAD WORD", "message": "x"}',
                 '{"severity": "DEBUG", "message": 5}', "{broken"]
        severities = {"info": "INFO", "Notice": "NOTICE", "warn": "WARNING", "fatal": "CRITICAL",
                      "EMERGENCY": "EMERGENCY", "default": "DEFAULT", "loud": "ERROR", "": "ERROR"}
        lines += [json.dumps({"severity": word, "message": word}) for word in severities]
        run = self.run_job([bash("cat >&2 <<'END'\n" + "\n".join(lines) + "\nEND")])
        self.assert_code(run, 0)
        said = [(s, m) for s, t, m in self.messages(self.read(run, "logs/job.log"))
                if t == "workerpool0-0"]
        self.assertEqual(said, [("WARNING", "two"), ("WARNING", "lines"), ("ERROR", lines[1]),
                                ("ERROR", "x"), ("ERROR", lines[3]), ("ERROR", lines[4])]
                         + [(severity, word) for word, severity in severities.items()])
        self.assertEqual(self.read(run, "logs/workerpool0-0.log").splitlines(), lines)
        self.assertNotIn("\tservice\t", run.out)

    def test_a_long_line_that_is_json(self):
        """As large as entries of Cloud Logging may be; a longer one is a line like any other."""
        script = ("import json\n"
                  "for n in 5000, 100000, 300000:\n"
                  "    print(json.dumps({'severity': 'WARNING', 'message': 'x' * n + 'end'}), flush=True)\n"
                  "print('after')")
        run = self.run_job([pool(["python3", "-c", script])])
        self.assert_code(run, 0)
        said = [(s, m) for s, t, m in self.messages(self.read(run, "logs/job.log"))
                if t == "workerpool0-0"]
        self.assertEqual(said[:2], [("WARNING", "x" * n + "end") for n in (5000, 100000)])
        self.assertEqual({s for s, _ in said[2:]}, {"INFO"})
        self.assertEqual(said[-1], ("INFO", "after"))
        log = self.read(run, "logs/workerpool0-0.log").splitlines()
        self.assertEqual([len(line) for line in log], [5041, 100041, 300041, 5])

    def test_a_failure(self):
        run = self.run_job([bash("echo the reason >&2; exit 3")], "--stream-logs")
        self.assert_code(run, 1)
        said = self.messages(run.out)
        self.assertEqual([m for s, t, m in said if t == "service" and s == "ERROR"],
                         ["The replica workerpool0-0 exited with a non-zero status of 3."])
        self.assertIn("exited with a non-zero status of 3.", run.err)
        self.assertIn("    the reason\n", run.err)

    def test_what_is_no_text(self):
        run = self.run_job([bash("head -c 100000 /dev/urandom; head -c 3000 /dev/urandom >&2; "
                                 "printf '\\nthe \\xff\\xc2\\x9bend' >&2; exit 3")])
        self.assert_code(run, 1)
        self.assertIn("the ???end\n", run.err)
        self.assertIn("the ???end", self.read_json(run, "state.json")["error"]["message"])

    def test_a_terminal_takes_no_orders(self):
        """What a file gets unchanged, a terminal gets as text."""
        script = ("printf '{\"severity\": \"INFO\", \"message\": \"a\\\\u001b]0;b\\\\u009bc\"}\\n';"
                  r"printf 'd\033[31;1me\0f\033[\n10%%\r20%%\r\n'")
        spec = self.write_spec([bash(script)])
        for kind in "pipe", "terminal":
            folder = self.path(kind)
            words = [SUMMAND, "custom-jobs", "local-run", spec, f"--job-dir={folder}", "--stream-logs"]
            master, slave = pty.openpty() if kind == "terminal" else os.pipe()
            with subprocess.Popen(words, stdout=slave) as run:
                os.close(slave)
                out = b""
                with contextlib.suppress(OSError):  # nobody has the terminal open any more
                    while part := os.read(master, 65536):
                        out += part
                os.close(master)
            self.assertEqual(run.returncode, 0)
            with open(f"{folder}/logs/job.log", "rb") as file:
                said = file.read()
            for text in "a\x1b]0;b\x9bc\n".encode(), b"d\x1b[31;1me\0f\x1b[\n", b"10%\r20%\r\n":
                self.assertIn(b"\tworkerpool0-0\t" + text, said)
            if kind == "pipe":
                self.assertEqual(out, said)
                continue
            for text in b"a?]0;b??c\r\n", b"de?f?[\r\n", b"20%\r\n":
                self.assertIn(b"\tworkerpool0-0\t" + text, out)

    def lines_of_log(self, run, name):
        """The bytes of the older file and the newer one, each at most half the limit; lines; remarks."""
        sizes, lines = [], []
        for suffix in ".1", "":
            path = os.path.join(run.job_dir, "logs", name + suffix)
            if os.path.exists(path):
                sizes.append(os.path.getsize(path))
                with open(path, encoding="utf-8") as file:
                    lines += file.read().splitlines()
        return sizes, [line for line in lines if "--log-limit" not in line], \
            [line for line in lines if "--log-limit" in line]

    def test_logs_are_bounded(self):
        """Two files of half the limit each; what is dropped is told, in the log and once beside it."""
        script = "for i in $(seq 100001 120000); do echo \"line $i of many that are as long as this one\"; done"
        for limit, keeps_all in ("64K", False), ("16M", True), ("none", True):
            with self.subTest(limit=limit):
                run = self.run_job([bash(script)], f"--log-limit={limit}")
                self.assert_code(run, 0)
                for name in "workerpool0-0.log", "job.log":
                    sizes, lines, remarks = self.lines_of_log(run, name)
                    mine = [line for line in lines if "of many" in line]
                    numbers = [int(line.split("line ")[1].split()[0]) for line in mine]
                    self.assertEqual(numbers, list(range(numbers[0], 120001)))
                    self.assertEqual(numbers[0] == 100001, keeps_all)
                    self.assertEqual(len(remarks), 0 if keeps_all else 2, remarks)
                    if not keeps_all:
                        self.assertLessEqual(max(sizes), 32768)
                        self.assertIn(f"bytes before this line are in logs/{name}.1", remarks[1])
                        self.assertIn(" bytes before them are dropped (--log-limit=65536)", remarks[1])
                    self.assertEqual(run.err.count(f"logs/{name}: has reached its limit"), int(not keeps_all))
                self.assertEqual(len(self.messages(self.read(run, "logs/job.log"))) > 0, True)

    def test_a_rotated_log_loses_nothing(self):
        """Up to the limit, also over a restart; and a line without an end is bounded too."""
        script = ("[ $SUMMAND_RESTARTS = 1 ] && exec seq 20001 25000; seq 10001 15000; exit 3")
        run = self.run_job([bash(script)], "--log-limit=96K",
                           labels={"restart-policy": "on-failure", "restart-backoff": "0"})
        self.assert_code(run, 0)
        sizes, lines, remarks = self.lines_of_log(run, "workerpool0-0.log")
        self.assertEqual(len(sizes), 2)
        self.assertEqual([int(line) for line in lines], [*range(10001, 15001), *range(20001, 25001)])
        self.assertEqual(len(remarks), 1)
        self.assertNotIn("dropped", remarks[0])
        run = self.run_job([bash("head -c 1000000 /dev/zero | tr '\\0' x")], "--log-limit=64K")
        self.assert_code(run, 0)
        self.assertLessEqual(max(self.lines_of_log(run, "workerpool0-0.log")[0]), 32768)

    def test_a_failure_is_told_once(self):
        """Where all that is said goes to one place, such as a terminal."""
        script = self.path("script.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import sys; sys.exit('the reason')")
        spec = self.write_spec([bash("echo the reason >&2; exit 3")])
        for told, reasons, words in (
                ("The replica workerpool0-0 exited", 1, ["custom-jobs", "local-run", spec, "--stream-logs"]),
                ("The replica workerpool0-0 exited", 2, ["custom-jobs", "local-run", spec]),
                ("Command [python3 ", 2, ["torch-run", "--use-gpu=false"])):
            operands = ["--", script] if words[0] == "torch-run" else []
            run = subprocess.run(
                [SUMMAND, *words, f"--job-dir={self.path(words[0])}", *operands], check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(run.returncode, 1, run.stdout)
            self.assertEqual(run.stdout.count(told), 1, run.stdout)
            self.assertEqual(run.stdout.count("the reason"), reasons, run.stdout)


if __name__ == "__main__":
    at_once.main()
