"""Metrics of a service, a runner, a tuning job's runner and a reduction server, as promtool judges them. Without that it is skipped."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

import prometheus

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "service"))
from served import JOBS, LONG, SUMMAND, ServiceTest, job, pool, wait_until  # noqa: E402

SKIPPED = 77
WAITS = "echo progress 1 4 epochs >&$SUMMAND_NOTIFY_FD; exec sleep 300"
SERVER = {"replicaCount": 1, "machineSpec": {"machineType": "n1-highcpu-16"}, "containerSpec": {"imageUri": "gcr.io/x/reductionserver"}}
STUDY = {"displayName": "tuned", "maxTrialCount": 1, "parallelTrialCount": 1, "trialJobSpec": job(WAITS)["jobSpec"],
         "studySpec": {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}], "algorithm": "RANDOM_SEARCH",
                       "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]}}


class Promtool(ServiceTest):
    def judge(self, where):
        text = prometheus.request(where)[1]
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=LONG, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return text

    def start(self, *command):
        """A program that says where its metrics are, and that."""
        run = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait, LONG)
        self.addCleanup(run.send_signal, signal.SIGINT)
        return next(found[1] for line in run.stdout if (found := re.search(r"metrics: http://(\S+)/metrics", line)))

    def write(self, name, document):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return path

    def test_a_service(self):
        self.serve(*self.FLAGS, "--metrics=127.0.0.1:0")
        where = wait_until(lambda: re.search(r"metrics: http://(\S+)/metrics", self.service.said()))[1]
        body = job(WAITS)
        body["jobSpec"]["workerPoolSpecs"] += [pool(WAITS), SERVER]
        self.ask("POST", JOBS, body)
        self.assertTrue(wait_until(lambda: "summand_job_progress_ratio{" in (text := self.judge(where)) and
                                   "summand_job_server_received_bytes_total{" in text))

    def test_runners(self):
        custom, study = self.write("job.json", job(WAITS)), self.write("study.json", STUDY)
        for words in (["custom-jobs", "local-run", custom], ["hp-tuning-jobs", "local-run", study]):
            where = self.start(SUMMAND, *words, "--metrics=0", "--grace=1")
            self.assertIn("summand_runner_info{", self.judge(where))

    def test_a_reduction_server(self):
        where = self.start(os.path.join(os.path.dirname(SUMMAND), "summand-reduction-server"), "--listen=127.0.0.1:0", "--metrics=0")
        self.assertIn("summand_server_weight{", self.judge(where))


if __name__ == "__main__":
    if not shutil.which("promtool"):
        print("skipped: there is no promtool here")
        sys.exit(SKIPPED)
    unittest.main()
