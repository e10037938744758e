"""Secrets that jobs refer to by name: their programs have them, and nothing else does."""

import json
import os
import subprocess
import unittest

from served import JOBS, LONG, SUMMAND, ServiceTest, pool, wait_until

VALUE = "hunter2$(PATH)$$ \u00fcber"  # it is taken as it is
KEY = "-----BEGIN KEY-----\nAAAAB3NzaC1yc2E\n-----END KEY-----"
REFERENCE = "$(secret:db.password)"


class SecretsTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.dir, "secrets")
        os.mkdir(self.folder, 0o700)
        self.keep("db.password", VALUE + "\n")
        self.keep("key", KEY)

    def keep(self, name, value, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(value)
        os.chmod(path, mode)

    def serve(self, *flags):
        return super().serve(*self.FLAGS, f"--secrets={self.folder}", *flags)

    def body(self, script, env=None, name="secrets", **container):
        one = pool(script)
        one["containerSpec"].update(env=[{"name": key, "value": value} for key, value in (env or {}).items()], **container)
        return {"displayName": name, "jobSpec": {"workerPoolSpecs": [one]}}

    def make(self, *args, **options):
        return self.ask("POST", JOBS, self.body(*args, **options))["name"].rsplit("/", 1)[1]

    def lines(self, number):
        answer = self.ask("POST", "/v2/entries:list", {"resourceNames": ["projects/demo"], "orderBy": "timestamp asc", "pageSize": 1000,
                                                       "filter": f'resource.type="ml_job" AND resource.labels.job_id="{number}"'})
        return [entry["textPayload"] for entry in answer["entries"]]

    def assert_nowhere(self, *values):
        """In no file of the state directory, and in nothing that the service has said."""
        for value in values:
            for path, _, names in os.walk(self.state):
                for name in names:
                    with open(os.path.join(path, name), "rb") as file:
                        self.assertFalse(value.encode() in file.read(), os.path.join(path, name))
            self.assertNotIn(value, self.service.said())

    def test_the_program_has_it_and_nobody_else(self):
        self.serve()
        out = os.path.join(self.dir, "out")
        script = (f"printf %s \"$PASSWORD\" >{out}; printf %s \"$URL\" >{out}.url; printf %s \"$PLAIN\" >{out}.plain;"
                  f" cat /proc/$PPID/cmdline /proc/$PPID/environ >{out}.parent; sleep 1")
        number = self.make(script,
                           {"PASSWORD": REFERENCE, "URL": f"db://u:{REFERENCE}@h?$(PASSWORD)", "PLAIN": "$" + REFERENCE})
        self.await_state(number, "JOB_STATE_RUNNING")
        self.assertTrue(wait_until(lambda: os.path.exists(f"{out}.parent")))
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    self.assertNotIn(b"hunter2", file.read())
            except OSError:
                continue
        described = self.await_state(number, "JOB_STATE_SUCCEEDED")
        for name, wanted in ("", VALUE), (".url", f"db://u:{VALUE}@h?{VALUE}"), (".plain", REFERENCE):
            with open(out + name, encoding="utf-8") as file:
                self.assertEqual(file.read(), wanted)
        # The reference is shown, whatever the variable is called.
        self.assertIn({"name": "PASSWORD", "value": REFERENCE},
                      described["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"])
        self.assert_nowhere("hunter2")

    def test_a_file_for_a_program_that_wants_one(self):
        """As the refusal and the guide say: nobody's command line has the secret, the file is its owner's and goes with the program."""
        self.serve()
        seen, go = os.path.join(self.dir, "seen"), os.path.join(self.dir, "go")
        program = f'stat -c "%a %n" "$1" >{seen}; cat "$1" >>{seen}; until [ -e {go} ]; do sleep 0.1; done'
        number = self.make("umask 077; f=$(mktemp); trap 'rm -f $f' EXIT; printf %s \"$TOKEN\" >\"$f\"; " f"bash -c '{program}' program \"$f\"",
                           {"TOKEN": REFERENCE})
        self.assertTrue(wait_until(lambda: os.path.exists(seen) and VALUE in open(seen, encoding="utf-8").read()))
        with open(seen, encoding="utf-8") as file:
            mode, path = file.readline().split()
        self.assertEqual(mode, "600")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    self.assertNotIn(b"hunter2", file.read())
            except OSError:
                continue
        open(go, "w", encoding="ascii").close()
        self.await_state(number, "JOB_STATE_SUCCEEDED")
        self.assertFalse(os.path.exists(path))
        self.assert_nowhere("hunter2")

    def test_lines_are_redacted(self):
        """Whole, in pieces, on both streams, in statuses and errors, by line of a value that has several."""
        self.serve()
        error = json.dumps({"message": {"message": f"bad password {REFERENCE}!"}})
        script = ("echo \"it is $PASSWORD!\"; printf hunt; sleep 0.3; printf \"%s\\n\" \"${PASSWORD#hunt}.\"; printf hunter; sleep 0.3; echo ; "
                  "echo \"$KEY\" >&2; echo \"status with $PASSWORD\" >&$SUMMAND_NOTIFY_FD; printf \"%s\" \"$ERROR\" >$TORCHELASTIC_ERROR_FILE;"
                  " echo \"last $PASSWORD\" >&2; printf \"%s\" \"$PASSWORD\"; exit 3")
        number = self.make(script, {"PASSWORD": REFERENCE, "KEY": "$(secret:key)", "ERROR": error})
        message = self.await_state(number, "JOB_STATE_FAILED")["error"]["message"]
        self.assertIn("bad password (masked)!", message)
        lines = self.lines(number)
        for wanted in ("it is (masked)!", "(masked).", "hunter", "last (masked)", "(masked)"):
            self.assertIn(wanted, lines)
        self.assert_nowhere("hunter2", "AAAAB3NzaC1yc2E")

    def test_what_is_refused(self):
        self.serve()
        for env, container, wanted in (
                ({"A": "$(secret:nothing)"}, {}, 'there is no secret "nothing"'),
                ({"A": "$(secret:../key)"}, {}, "must have a name of letters"),
                ({}, {"args": ["--password=" + REFERENCE]}, "must be in the value of a variable"),
                ({"A": REFERENCE}, {"args": ["$(A)"]}, "A has a secret, and must not be on a command line"),
                ({"A": "x" + REFERENCE, "B": "$(A)"}, {"args": ["y$(B)"]}, "B has a secret")):
            error = self.fails("POST", JOBS, self.body("true", env, **container), 400, "INVALID_ARGUMENT")
            self.assertIn(wanted, json.dumps(error, ensure_ascii=False).replace('\\"', '"'))
        self.keep("open", "for all to see", 0o644)
        os.symlink("key", os.path.join(self.folder, "link"))
        self.keep("tiny", "abc\n")
        for name in "open", "link", "tiny":
            error = self.fails("POST", JOBS, self.body("true", {"A": f"$(secret:{name})"}), 400, "INVALID_ARGUMENT")
            self.assertIn("the service's log says why", json.dumps(error))
            self.assertNotIn(self.folder, json.dumps(error))
            self.assertIn(f"{self.folder}/{name}: must be", self.service.said())

    def test_it_is_gone_when_the_job_begins(self):
        self.serve()
        first = self.create("sleep 300", machine="n1-standard-64")
        self.await_state(first, "JOB_STATE_RUNNING")
        number = self.make("echo never", {"A": REFERENCE})
        os.unlink(os.path.join(self.folder, "db.password"))
        self.ask("POST", f"{JOBS}/{first}:cancel", {})
        self.assertIn('there is no secret "db.password"', self.await_state(number, "JOB_STATE_FAILED")["error"]["message"])

    def refused(self, *flags):
        return subprocess.run([SUMMAND, "serve", "--listen=127.0.0.1:0", *flags], env=self.env, capture_output=True, text=True,
                              timeout=LONG, check=False)

    def test_the_folder_is_its_owners_alone(self):
        os.chmod(self.folder, 0o750)
        run = self.refused(f"--secrets={self.folder}")
        self.assertEqual(run.returncode, 2)
        self.assertIn(f"--secrets: {self.folder}: must be for its owner alone, got mode 0750", run.stderr)
        self.assertEqual(self.refused(f"--secrets={self.dir}/none").returncode, 2)

    def test_a_service_without_secrets(self):
        super().serve()
        error = self.fails("POST", JOBS, self.body("true", {"A": REFERENCE}), 400, "INVALID_ARGUMENT")
        self.assertIn("--secrets=DIR", json.dumps(error))

    def test_the_command_line(self):
        spec = os.path.join(self.dir, "spec.json")
        with open(spec, "w", encoding="utf-8") as file:
            json.dump(self.body("echo on $PASSWORD", {"PASSWORD": REFERENCE})["jobSpec"], file)
        job_dir = os.path.join(self.state, "jobs", "here")

        def run(*words):
            return subprocess.run([SUMMAND, "custom-jobs", *words], env=self.env, capture_output=True, text=True, timeout=LONG, check=False)

        for more in (), ("--show-secrets",):
            ran = run("local-run", spec, f"--job-dir={job_dir}", f"--secrets={self.folder}", *more)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("workerpool0-0 | on (masked)", ran.stdout)
            for path, _, names in os.walk(self.state):
                for name in names:
                    with open(os.path.join(path, name), "rb") as file:
                        self.assertFalse(b"hunter2" in file.read(), name)
        ran = run("local-run", spec)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("--secrets=DIR", ran.stderr)
        ran = run("export", spec, "--to=compose")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("$(secret:NAME)", ran.stderr)


if __name__ == "__main__":
    unittest.main()
