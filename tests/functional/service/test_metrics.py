"""The service's metrics are what the page says."""

import os
import re
import sys
import unittest

from served import ServiceTest, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../metrics"))
import prometheus  # noqa: E402

SOURCE = os.environ.get("SUMMAND_SOURCE", os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../.."))


class Metrics(ServiceTest):
    def test_they_are_what_the_page_says(self):
        self.serve(*self.FLAGS, "--metrics=0.0.0.0:0", "--host=jobs.example")
        self.assertTrue(wait_until(lambda: "needs no token" in self.service.said()))
        port = re.search(r"metrics: http://0\.0\.0\.0(:\d+)/metrics", self.service.said())
        where = "127.0.0.1" + port[1]
        for host, status in (("evil.example", 421), ("jobs.example:80", 200), ("localhost", 200)):
            self.assertEqual(prometheus.request(where, Host=host)[0], status, host)
        running = self.create("echo progress 1 4 >&$SUMMAND_NOTIFY_FD; sleep 300", machine="n1-standard-64")
        self.await_state(running, "JOB_STATE_RUNNING")
        self.create("true")
        self.fails("GET", "/nowhere", None, 404, "NOT_FOUND")
        metrics = wait_until(lambda: (lambda read: read if [
            read.value(f"summand_service_jobs_{state}") for state in ("begun", "waiting")] == [1, 1] else None)(
                prometheus.read(where)))
        self.assertTrue(metrics, "one job must have begun, and one must wait")
        self.assertEqual(metrics.types, {name: kind for heading in ("The service", "The jobs of a service", "Every process")
                                         for name, kind in prometheus.of_page(SOURCE, heading).items()})
        self.assertEqual(metrics.value("summand_service_cpus_taken"), 64)
        self.assertTrue(wait_until(lambda: prometheus.read(where).value("summand_job_progress_ratio", job=running) == 0.25))
        self.assertGreaterEqual(metrics.value("summand_service_answers_total", **{"class": "2xx"}), 3)
        self.assertEqual(metrics.value("summand_service_answers_total", **{"class": "4xx"}), 1)


if __name__ == "__main__":
    unittest.main()
