"""`summand custom-jobs exec` and `hp-tuning-jobs exec` from another machine, by a service: what they are on the job's own."""

import os
import pwd
import re
import signal
import subprocess
import unittest

from served import JOBS, LONG, PLACE, SUMMAND, ServiceTest, job, wait_until
from at_terminal import Terminal     # served.py says where that is

BYTES = os.urandom(1 << 20)     # more than all that buffers hold
TUNING = PLACE + "/hyperparameterTuningJobs"


def study(script, **spec):
    return {"displayName": "tuned", "maxTrialCount": 2, "parallelTrialCount": 2,
            "studySpec": {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}], "algorithm": "RANDOM_SEARCH",
                          "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]},
            "trialJobSpec": job(script, **spec)["jobSpec"]}


class Exec(ServiceTest):
    def setUp(self):
        super().setUp()
        self.there = dict(os.environ, SUMMAND_STATE_DIR=os.path.join(self.dir, "elsewhere"), CLOUDSDK_CORE_PROJECT="demo",
                          HOME=self.dir)    # shells have no start files

    def begin(self, script="sleep 300", **spec):
        number = self.ask("POST", JOBS, job(script, enableWebAccess=True, **spec))["name"].rsplit("/", 1)[1]
        wait_until(lambda: "webAccessUris" in self.ask("GET", f"{JOBS}/{number}"))
        return number

    def start(self, number, *words, group="custom-jobs", **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        session = subprocess.Popen([SUMMAND, group, "exec", number, *words], env=dict(self.there, SUMMAND_SERVICE=self.service.url), **options)
        self.addCleanup(session.kill)
        return session

    def exec(self, number, *words, given=None, **options):
        stdin = {} if given is None else {"stdin": subprocess.PIPE}
        session = self.start(number, *words, **stdin, **options)
        out, err = session.communicate(given, timeout=LONG)
        return session.returncode, out, err.decode()

    def refused(self, number, *words, **options):
        code, out, err = self.exec(number, *words, **options)
        self.assertEqual((code, out), (125, b""), err)
        return err

    def test_a_command(self):
        """Streams, input and exit code are passed on."""
        self.serve()
        number = self.begin()
        code, out, err = self.exec(number, "--", "sh", "-c", "echo $SUMMAND_REPLICA; echo wrong >&2; exit 7")
        self.assertEqual((code, out, err), (7, b"workerpool0-0\n", "wrong\n"))
        self.assertEqual(self.exec(number, "--", "sh", "-c", "kill -9 $$")[0], 128 + signal.SIGKILL)
        self.assertEqual(self.exec(number, "--", "no-such-program")[0], 127)
        self.assertEqual(self.exec(number, "--", "/etc/passwd")[0], 126)
        self.assertEqual(self.exec(number, given=b"echo in a shell\nexit 3\n")[:2], (3, b"in a shell\n"))
        code, out, err = self.exec(number, "--", "cat", given=BYTES)
        self.assertEqual(code, 0, err)
        self.assertTrue(out == BYTES, "what comes back is not what was given")
        self.assertEqual(self.exec(number, "--", "true", given=BYTES)[0], 0)      # it does not read
        session = self.start(number, "--", "yes")
        self.assertTrue(session.stdout.read(1))
        session.stdout.close()
        self.assertEqual(session.wait(LONG), 128 + signal.SIGPIPE)
        answer = self.ask("POST", "/v2/entries:list", {"resourceNames": ["projects/demo"], "orderBy": "timestamp asc",
                                                       "filter": f'resource.labels.job_id="{number}" AND resource.labels.task_name="service"'})
        said = [entry["textPayload"] for entry in answer["entries"]]
        me = pwd.getpwuid(os.getuid()).pw_name
        self.assertIn(f"workerpool0-0: session 1 begins: sh, for {me} by the service's client 127.0.0.1", said)
        self.assertNotIn("SUMMAND_REPLICA", "".join(said))      # arguments may be secrets
        self.assertTrue(any(re.fullmatch(r"workerpool0-0: session 1 has ended after \d+\.\d s: exit code 7", line) for line in said), said)
        for _ in range(40):     # none of them has kept its place
            self.assertEqual(self.exec(number, "--", "true")[0], 0)

    def test_a_terminal(self):
        self.serve()
        number = self.begin()
        terminal = Terminal([SUMMAND, "custom-jobs", "exec", number, "--", "sh", "-c", "trap 'stty size' WINCH; PS1='go> ' exec sh -i"],
                            **{**self.there, "SUMMAND_SERVICE": self.service.url})
        terminal.wait_for(rb"go> $")
        terminal.resize(33, 101)
        for _ in range(50):     # it comes by a request of its own
            terminal.type(b"stty size\n")
            if terminal.wait_for(rb"(\d+) \d+\r\n(.|\n)*go> $")[1] == b"33":
                break
        terminal.type(b"stty size; echo $TERM; test -t 0 -a -t 1 -a -t 2 && echo yes; tty\n")
        terminal.wait_for(rb"33 101\r\nxterm-256color\r\nyes\r\n/dev/pts/\d+\r\ngo> ")
        terminal.type(b"cat\nread\n")
        terminal.wait_for(rb"read\r\n(.|\n)*read\r\n")  # the terminal's echo, and cat's, which is there then
        terminal.type(b"\x03")
        terminal.wait_for(rb"go> $")
        terminal.type(b"exit 9\n")
        self.assertEqual(terminal.wait(), 9)

    def test_ends(self):
        """Of whoever asked, of the replica and of the service."""
        self.serve()
        go, pid = os.path.join(self.dir, "go"), os.path.join(self.dir, "pid")
        number = self.begin(f"until [ -e {go} ]; do sleep 0.1; done")
        session = self.start(number, "--", "sh", "-c", f"echo $$ >{pid}; echo begun; exec sleep 999")
        self.assertEqual(session.stdout.readline(), b"begun\n")
        with open(pid, encoding="ascii") as file:
            shell = int(file.read())
        session.send_signal(signal.SIGTERM)
        self.assertEqual(session.wait(LONG), 128 + signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{shell}"), 10), "it ends at once")
        session = self.start(number, "--", "sh", "-c", "echo begun; exec sleep 999")
        self.assertEqual(session.stdout.readline(), b"begun\n")
        open(go, "w", encoding="ascii").close()
        self.assertEqual(session.wait(LONG), 128 + signal.SIGKILL)
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        self.assertIn("must run, and its state is JOB_STATE_SUCCEEDED", self.refused(number))
        number = self.begin()
        session = self.start(number, "--", "sh", "-c", "echo begun; exec sleep 999")
        self.assertEqual(session.stdout.readline(), b"begun\n")
        self.service.end()
        self.assertEqual(session.wait(LONG), 125)
        self.assertIn(b"summand: ", session.stderr.read())

    def test_refusals(self):
        self.serve()
        plain = self.create("sleep 300")
        self.await_state(plain, "JOB_STATE_RUNNING")
        self.assertIn("--enable-web-access", self.refused(plain))
        number = self.begin()
        self.assertIn("workerpool0-1: the job has no replica of that name", self.refused(number, "--replica=0-1"))
        self.assertIn("COMMAND must be text in UTF-8", self.refused(number, "--", b"\xff"))
        self.assertIn("at most 1024 words", self.refused(number, "--", *["x"] * 1025))
        self.assertIn("no such job", self.exec("1" * 19)[2])
        path = f"{JOBS}/{number}/terminals"
        for body in ({"replica": "workerpool0-0", "command": "x"}, {"replica": "workerpool0-0", "command": [1]},
                     {"replica": "workerpool0-0", "trial": "1"}, {"replica": "workerpool0-0", "rows": 1}):
            self.fails("POST", path, body, 400, "INVALID_ARGUMENT")
        sessions = [self.start(number, "--", "sh", "-c", "echo begun; sleep 999") for _ in range(32)]
        for session in sessions:
            self.assertEqual(session.stdout.readline(), b"begun\n")
        self.assertIn("32 terminals at most", self.refused(number, "--", "true"))

    def test_a_trial(self):
        self.serve()
        made = self.ask("POST", TUNING, study("echo it is $CLOUD_ML_TRIAL_ID; sleep 300", enableWebAccess=True))
        number = made["name"].rsplit("/", 1)[1]
        trials = lambda: [each for each in self.ask("GET", f"{TUNING}/{number}").get("trials", []) if "webAccessUris" in each]
        wait_until(lambda: len(trials()) == 2)
        self.assertEqual([each["webAccessUris"] for each in trials()],
                         [{"workerpool0-0": f"{self.service.url}/#/{made['name']}/terminal/workerpool0-0/{i}"} for i in (1, 2)])
        for trial in "1", "2":
            code, out, err = self.exec(number, f"--trial={trial}", "--", "sh", "-c", "echo $CLOUD_ML_TRIAL_ID", group="hp-tuning-jobs")
            self.assertEqual((code, out, err), (0, trial.encode() + b"\n", ""))
            here = subprocess.run([SUMMAND, "hp-tuning-jobs", "exec", number, f"--trial={trial}", "--", "sh", "-c", "echo $CLOUD_ML_TRIAL_ID"],
                                  env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG, check=False)
            self.assertEqual((here.returncode, here.stdout), (0, trial + "\n"), here.stderr)
        self.assertIn("trials/3", self.refused(number, "--trial=3", group="hp-tuning-jobs"))
        self.assertEqual(self.exec(number, group="hp-tuning-jobs")[0], 2)
        self.assertEqual(self.exec(number, "--trial=x", group="hp-tuning-jobs")[0], 2)
        self.ask("POST", f"{TUNING}/{number}:cancel", {})
        wait_until(lambda: self.ask("GET", f"{TUNING}/{number}")["state"] == "JOB_STATE_CANCELLED")
        self.assertEqual(trials(), [])

    def test_who_asks_needs_what_the_service_asks_for(self):
        token = os.path.join(self.dir, "token")
        with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("sesame\n")
        path = lambda name: os.path.join(self.dir, name)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-keyout", path("key"), "-out", path("pem"), "-subj", "/CN=ours", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True, timeout=LONG)
        self.serve(f"--token-file={token}", f"--tls-cert={path('pem')}", f"--tls-key={path('key')}", *self.FLAGS)
        self.there.update(SUMMAND_SERVICE_TOKEN_FILE=token, SUMMAND_SERVICE_CA=path("pem"))
        at = dict(self.there, SUMMAND_SERVICE=self.service.url)
        subprocess.run([SUMMAND, "custom-jobs", "create", "--display-name=far", "--enable-web-access", "--command=sleep", "--args=300",
                        "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=local"], env=at, capture_output=True,
                       timeout=LONG, check=True)
        wait_until(lambda: "webAccessUris" in subprocess.run([SUMMAND, "custom-jobs", "describe", "far"], env=at, capture_output=True,
                                                            text=True, timeout=LONG, check=True).stdout)
        self.assertEqual(self.exec("far", "--", "cat", given=b"both ways")[:2], (0, b"both ways"))
        del self.there["SUMMAND_SERVICE_TOKEN_FILE"]
        self.assertIn("token", self.exec("far", "--", "true")[2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
