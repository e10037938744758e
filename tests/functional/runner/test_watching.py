"""What a job is watched by: metrics of its runner, and the trace of its life."""

import json
import os
import re
import signal
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../metrics"))
import prometheus  # noqa: E402
from job import JobTest, at_once, bash, only_here, wait_until  # noqa: E402

SOURCE = os.environ["SUMMAND_SOURCE"]


def attributes(of):
    return {each["key"]: next(iter(each["value"].values())) for each in of["attributes"]}


class WatchingTest(JobTest):
    def spans(self, path):
        """The spans of a trace that is as it must be, by name."""
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 1)
        [resource] = json.loads(lines[0])["resourceSpans"]
        self.assertEqual(attributes(resource["resource"])["service.name"], "summand")
        [scope] = resource["scopeSpans"]
        found = scope["spans"]
        self.assertEqual(len({span["traceId"] for span in found}), 1)
        self.assertEqual(len({span["spanId"] for span in found}), len(found))
        [root] = [span for span in found if "parentSpanId" not in span]
        for span in found:
            self.assertRegex(span["traceId"], "^[0-9a-f]{32}$")
            self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
            self.assertLessEqual(int(root["startTimeUnixNano"]), int(span["startTimeUnixNano"]))
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
            self.assertLessEqual(int(span["endTimeUnixNano"]), int(root["endTimeUnixNano"]))
            self.assertEqual(span.get("parentSpanId", root["spanId"]), root["spanId"])
        names = {}
        for span in sorted(found, key=lambda span: int(span["startTimeUnixNano"])):
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
        self.assertEqual(attributes(root)["summand.state"], "JOB_STATE_SUCCEEDED")
        self.assertEqual(attributes(root)["summand.restarts"], "1")
        self.assertEqual(root["status"], {"code": 1})
        self.assertEqual({name: len(spans) for name, spans in names.items()},
                         {"runner test": 1, "queued": 1, "pending": 2, "running": 2, "ending": 2, "restarting": 1, "workerpool0-0": 2, "workerpool1-0": 2})
        first, second = names["workerpool0-0"]
        self.assertEqual(first["status"]["code"], 2)
        self.assertIn("status of 3", first["status"]["message"])
        self.assertEqual((attributes(first)["summand.restarts"], attributes(second)["summand.restarts"]), ("0", "1"))
        self.assertEqual(attributes(second)["summand.state"], "SUCCEEDED")
        self.assertEqual(attributes(names["workerpool1-0"][0])["summand.state"], "STOPPED")
        self.assertEqual([attributes(span)["summand.attempt"] for span in names["running"]], ["0", "1"])
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
        prometheus.judge(prometheus.request(where)[1])
        run.send_signal(signal.SIGINT)
        self.finish(run)

    @only_here
    def test_refusals(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            run = self.run_job([bash("echo begun")], "--metrics=" + address)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(address, run.err)
            self.assertNotIn("begun", run.out)
        run = self.run_job([bash("echo begun")], "--trace=/no/such/folder/trace.json")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("/no/such/folder/trace.json: No such file or directory", run.err)
        self.assert_code(self.run_job([bash("exit 0")], "--metrics=here"), 2)


if __name__ == "__main__":
    at_once.main()
