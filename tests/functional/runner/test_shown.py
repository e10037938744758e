"""What summand shows steers no terminal, and stays what it is for programs that read it."""

import json
import os
import re
import subprocess
import unittest

from job import JobTest, SUMMAND, at_once, bash

# Orders to a terminal (U+009B is one by itself), other directions of writing, ends of lines that are none.
ODD = "a\u009b2Jb\u202edrow\u2028c\u2066\x7f\u061c'\\ü"
NAME = "name" + ODD.replace("\x7f", "")      # a display name has no control characters of ASCII
SHOWN_NAME = "namea??2Jb???drow???c"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class ShownTest(JobTest):
    def write_odd_spec(self, **changes):
        """With odd texts wherever a spec takes any text."""
        chief = {**bash("true"), "env": [{"name": "ODD", "value": ODD + "\x1b[31m\n\ttwo\n"}, {"name": "PLAIN", "value": "it's"}],
                 "args": [ODD]}
        plain = self.write_spec([chief])
        with open(plain, encoding="utf-8") as file:
            job = json.load(file)
        job.update({"displayName": NAME, **changes})
        job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"] = "image" + ODD
        path = os.path.join(os.path.dirname(plain), ODD.replace("/", "") + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def said(self, *words, code=0):
        done = subprocess.run([SUMMAND, "custom-jobs", *words], check=False, capture_output=True)
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, code, out + err)
        for text in out, err:
            self.assertEqual(STEERING.findall(text), [], f"{words}: {text!r}")
        return out, err

    def test_for_people(self):
        spec = self.write_odd_spec()
        out, _ = self.said("validate", spec)
        self.assertIn("is valid", out)
        out, _ = self.said("plan", spec)
        self.assertIn(SHOWN_NAME, out)
        self.said("plan", spec, "--reduction-machine-type=" + ODD, code=2)
        self.said("env", spec, "--replica=" + ODD, code=2)
        self.said("validate", ODD, code=2)
        self.said("--" + ODD, code=2)
        for form in "table(displayName,jobId)", "value(displayName)":
            out, _ = self.said("plan", spec, "--format=" + form)
            self.assertIn(SHOWN_NAME, out)

    def test_errors_in_a_spec(self):
        spec = self.write_odd_spec(labels={"summand-" + ODD: ODD}, **{"key" + ODD: ODD})
        _, err = self.said("validate", spec, code=2)
        self.assertIn("key", err)

    def test_json(self):
        spec = self.write_odd_spec()
        out, _ = self.said("plan", spec, "--format=json")
        self.assertIn("\\u202e", out)
        self.assertEqual(json.loads(out)["displayName"], NAME)
        out, _ = self.said("env", spec, "--format=json")
        self.assertEqual(json.loads(out)["workerpool0-0"]["ODD"], ODD + "\x1b[31m\n\ttwo\n")
        out, _ = self.said("local-run", spec, "--dry-run", "--format=json")
        self.assertEqual(json.loads(out)["displayName"], NAME)

    def test_yaml(self):
        """It is read again by the same words."""
        spec = self.write_odd_spec()
        for words in (["plan", spec, "--format=yaml"], ["local-run", spec, "--dry-run"]):
            out, _ = self.said(*words)
            self.assertIn("\\u202e", out)
        again = self.path("again.yaml")
        with open(again, "w", encoding="utf-8") as file:
            file.write(out)
        self.assertEqual(json.loads(self.said("local-run", again, "--dry-run", "--format=json")[0]),
                         json.loads(self.said("local-run", spec, "--dry-run", "--format=json")[0]))

    def test_shell(self):
        out, _ = self.said("env", self.write_odd_spec(), "--replica=workerpool0-0")
        self.assertIn("export PLAIN='it'\\''s'\n", out)
        for locale in "C", "C.UTF-8":
            shown = subprocess.run(["bash", "-c", out + '\nprintf %s "$ODD"'], check=True, capture_output=True,
                                   env={"LC_ALL": locale, "PATH": os.environ["PATH"]})
            self.assertEqual(shown.stdout.decode(), ODD + "\x1b[31m\n\ttwo\n")

    def test_a_job(self):
        spec = self.write_odd_spec()
        for code, script in (0, "true"), (1, "exit 3"):
            with open(spec, encoding="utf-8") as file:
                job = json.load(file)
            job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["command"] = ["bash", "-c", script]
            with open(spec, "w", encoding="utf-8") as file:
                json.dump(job, file)
            job_dir = self.path("job" + ODD)
            out, _ = self.said("local-run", spec, "--quiet", "--job-dir=" + job_dir, code=code)
            self.assertIn(SHOWN_NAME, out)
            _, err = self.said("local-run", spec, "--job-dir=" + job_dir, code=code)
            self.assertIn(SHOWN_NAME, err)
            self.said("local-run", spec, "--job-dir=" + job_dir, "--stream-logs", code=code)
            for name in "state.json", "summary.json", "resolved.json", "plan.txt", "env/workerpool0-0.env", "logs/job.log":
                with open(os.path.join(job_dir, name), encoding="utf-8") as file:
                    self.assertEqual(STEERING.findall(file.read()), [], name)
            with open(os.path.join(job_dir, "summary.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["displayName"], NAME)


if __name__ == "__main__":
    at_once.main()
