"""What a job is watched by: metrics of its runner, and the trace of its life."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../metrics"))
import otlp  # noqa: E402
import prometheus  # noqa: E402
from job import SUMMAND, JobTest, at_once, bash, only_here, wait_until  # noqa: E402

SOURCE = os.environ["SUMMAND_SOURCE"]


class WatchingTest(JobTest):
    def spans(self, path):
        """The spans by name."""
        root, spans = otlp.read(self, path)
        names = {}
        for span in spans:
            self.assertEqual(span.get("parentSpanId", root["spanId"]), root["spanId"])
            names.setdefault(span["name"], []).append(span)
        return root, names

    def test_a_trace(self):
        """One that is started again: each start of a replica and each part of the way has its span."""
        path = self.path("trace.json")
        run = self.run_job([bash("[ $SUMMAND_RESTARTS = 1 ] || exit 3"), bash("sleep 1000")], "--trace=" + path, "--grace=1",
                           labels={"restart-policy": "on-failure", "max-restarts": "1"})
        self.assert_code(run, 0)
        root, names = self.spans(path)
        self.assertEqual(root["name"], "runner test")
        self.assertEqual(otlp.attributes(root)["summand.state"], "JOB_STATE_SUCCEEDED")
        self.assertEqual(otlp.attributes(root)["summand.restarts"], "1")
        self.assertEqual(root["status"], {"code": 1})
        self.assertEqual({name: len(spans) for name, spans in names.items()},
                         {"runner test": 1, "queued": 1, "pending": 2, "running": 2, "ending": 2, "restarting": 1, "workerpool0-0": 2, "workerpool1-0": 2})
        first, second = names["workerpool0-0"]
        self.assertEqual(first["status"]["code"], 2)
        self.assertIn("status of 3", first["status"]["message"])
        self.assertEqual((otlp.attributes(first)["summand.restarts"], otlp.attributes(second)["summand.restarts"]), ("0", "1"))
        self.assertEqual(otlp.attributes(second)["summand.state"], "SUCCEEDED")
        self.assertEqual(otlp.attributes(names["workerpool1-0"][0])["summand.state"], "STOPPED")
        self.assertEqual([otlp.attributes(span)["summand.attempt"] for span in names["running"]], ["0", "1"])
        order = [names[name][0] for name in ("queued", "pending", "running", "ending", "restarting")] + [names["pending"][1]]
        for before, after in zip(order, order[1:]):
            self.assertLessEqual(int(before["endTimeUnixNano"]), int(after["startTimeUnixNano"]) + 50_000_000)
        os.chmod(path, 0o600)
        run = self.run_job([bash("exit 4")], "--trace=" + path)
        root, names = self.spans(path)      # in place of the other one
        self.assertEqual(root["status"]["code"], 2)
        self.assertIn("workerpool0-0", root["status"]["message"])

    def test_metrics(self):
        run = self.start([bash("echo progress 3 10 epochs >&$SUMMAND_NOTIFY_FD; exec sleep 1000"), bash("exec sleep 1000", 2)],
                         "--metrics=127.0.0.1:0", "--grace=1")
        log = os.path.join(run.job_dir, "logs/job.log")
        where = None
        while not where:
            line = run.stdout.readline() or run.stderr.readline()
            self.assertNotEqual(line, "", "must say where its metrics are")
            found = re.search(r"metrics: http://(\S+)/metrics", line)
            where = found and found[1]
        self.wait_for_file(log)
        self.assertTrue(wait_until(lambda: prometheus.read(where).value("summand_runner_progress_ratio", replica="workerpool0-0") == 0.3))
        self.assertTrue(wait_until(lambda: prometheus.read(where).value("summand_runner_replicas", state="RUNNING") == 3))
        metrics = prometheus.read(where)
        self.assertEqual(metrics.types, {**prometheus.of_page(SOURCE, "Runners"), **prometheus.of_page(SOURCE, "Every process")})
        self.assertEqual(metrics.value("summand_runner_job_state", state="JOB_STATE_RUNNING"), 1)
        self.assertEqual(metrics.value("summand_runner_replicas"), 3)
        self.assertEqual(metrics.value("summand_runner_info", job=self.read_json(run, "state.json")["name"]), 1)
        run.send_signal(signal.SIGINT)
        self.finish(run)

    @only_here
    def test_a_tuning_job(self):
        """Its runner has metrics of all trials, and each of these adds its line to the trace."""
        go, spec, trace = self.path("go"), self.path("study.json"), self.path("trace.json")
        script = ('mkdir -p ${CLOUD_ML_HP_METRIC_FILE%/*}; echo \'{"timestamp":1,"trial":"\'$CLOUD_ML_TRIAL_ID\'","loss":"0.5",'
                  '"global_step":"1","checkpoint_path":""}\' >$CLOUD_ML_HP_METRIC_FILE; ' f"until [ -e {go} ]; do sleep 0.1; done")
        with open(spec, "w", encoding="utf-8") as file:
            json.dump({"displayName": "tuned", "maxTrialCount": 2, "parallelTrialCount": 2, "trialJobSpec": {"workerPoolSpecs": [bash(script)]},
                       "studySpec": {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}], "algorithm": "RANDOM_SEARCH",
                                     "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]}}, file)
        with subprocess.Popen([SUMMAND, "hp-tuning-jobs", "local-run", spec, "--metrics=0", "--trace=" + trace], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, env=dict(os.environ, SUMMAND_STATE_DIR=self.path("state"))) as run:
            where = next(found[1] for line in run.stdout if (found := re.search(r"metrics: http://(\S+)/metrics", line)))
            value = lambda name, **labels: prometheus.read(where).value(name, **labels)
            self.assertTrue(wait_until(lambda: value("summand_tuning_trials", state="ACTIVE") == 2))
            self.assertTrue(wait_until(lambda: value("summand_tuning_trial_metric", trial="2", metric="loss") == 0.5))
            metrics = prometheus.read(where)
            runners = prometheus.of_page(SOURCE, "Runners")
            self.assertEqual(metrics.types, {**{name: runners[name] for name in ("summand_runner_info", "summand_runner_job_state")},
                                             **prometheus.of_page(SOURCE, "Tuning jobs"), **prometheus.of_page(SOURCE, "Every process")})
            open(go, "w", encoding="ascii").close()
            run.stdout.read()
            self.assertEqual(run.wait(), 0)
        root, spans = otlp.read(self, trace, lines=3)
        self.assertEqual(root["name"], "tuned")
        self.assertEqual([span["parentSpanId"] for span in spans if span["name"] in ("trial 1", "trial 2")], [root["spanId"]] * 2)

    @only_here
    def test_refusals(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            run = self.run_job([bash("echo begun")], "--metrics=" + address)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(address, run.err)
            self.assertNotIn("begun", run.out)
        run = self.run_job([bash("echo begun")], "--trace=/no/such/folder/trace.json")
        self.assert_code(run, 2)
        self.assertIn("--trace: must be a file that can be written (No such file or directory), got \"/no/such/folder/trace.json\"", run.err)
        self.assertNotIn("begun", run.out)
        self.assert_code(self.run_job([bash("exit 0")], "--metrics=here"), 2)


if __name__ == "__main__":
    at_once.main()
