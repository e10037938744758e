"""Metrics of a reduction server: what they say while ranks work, and that no client of theirs does harm."""

import json
import os
import pathlib
import re
import signal
import socket
import sys
import time
import unittest

import prometheus

SOURCE = os.environ["SUMMAND_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "functional", "perf"))
from programs import PATIENCE_S, ProgramTest  # noqa: E402


class MetricsServerTest(ProgramTest):
    def start(self, *options):
        """A server, where workers reach it, and where its metrics are."""
        server, address = self.start_server("--metrics=0", "--threads=2", *options)
        while not (said := re.search(r"metrics: http://(\S+)/metrics", line := server.stderr.readline())):
            self.assertNotEqual(line, "", "must say where its metrics are")
        return server, address, said[1]

    def wait_for(self, where, holds):
        deadline = time.monotonic() + PATIENCE_S
        while not holds(metrics := prometheus.read(where)):
            self.assertLess(time.monotonic(), deadline, metrics.samples)
            time.sleep(0.1)
        return metrics

    def test_says_what_the_page_says(self):
        where = self.start()[2]
        metrics = prometheus.read(where)
        page = {**prometheus.of_page(SOURCE, "Reduction servers"), **prometheus.of_page(SOURCE, "Every process")}
        self.assertEqual(metrics.types, page)
        self.assertEqual([labels for labels, _ in metrics.samples["summand_server_weight"]], [{"shard": "0"}, {"shard": "1"}])
        self.assertGreater(metrics.value("process_resident_memory_bytes"), 1 << 20)
        self.assertLess(abs(metrics.value("process_start_time_seconds") - time.time()), 3600)

    def test_counts_what_ranks_do(self):
        _, address, where = self.start()
        ranks = [self.start_rank(rank, 2, [address], "--sizes=1M", "--iters=3", "--warmup=0") for rank in range(2)]
        for rank in ranks:
            self.assert_ended(rank, 0)
        quiet = ("lanes", "groups_forming", "groups_active", "slots_busy", "window_slots", "memory_used_bytes", "jobs", "late_ranks")
        metrics = self.wait_for(where, lambda now: now.value("summand_server_lanes_attached_total") >= 4 and  # both shards
                                all(now.value("summand_server_" + name) == 0 for name in quiet))
        moved = 2 * 3 << 20  # by ranks and operations
        self.assertGreaterEqual(metrics.value("summand_server_received_bytes_total"), moved)
        self.assertGreaterEqual(metrics.value("summand_server_sent_bytes_total"), moved)
        self.assertGreaterEqual(metrics.value("summand_server_operations_total"), 3)
        self.assertGreater(metrics.value("summand_server_chunks_reduced_total"), 0)

    def test_counts_zeros_that_did_not_cross(self):
        _, address, where = self.start()
        options = ["--sizes=1M", "--zeros=90", "--iters=3", "--warmup=0", "--json"]
        ranks = [self.start_rank(rank, 2, [address], *options, SUMMAND_TRANSPORT="tcp") for rank in range(2)]
        ended = [self.assert_ended(rank, 0) for rank in ranks]
        skipped = json.loads(ended[0][0])["bytes_skipped"]
        self.assertGreater(skipped, 2 * 3 * (1 << 20) * 0.8)    # of both directions
        self.wait_for(where, lambda now: now.value("summand_server_skipped_bytes_total") >= 2 * skipped * 0.99)

    def test_names_who_is_late(self):
        _, address, where = self.start("--heartbeat-limit=3600")
        ranks = [self.start_rank(rank, 2, [address], "--sizes=4K", "--iters=100000000", SUMMAND_JOB_ID='a"b\\c')
                 for rank in range(2)]
        self.wait_for(where, lambda now: now.value("summand_server_operations_total") > 0)
        ranks[1].send_signal(signal.SIGSTOP)
        expected = [('a"b\\c', "1", "rank-1")]  # where the machine stood still, rank 0 may have been late before
        metrics = self.wait_for(where, lambda now: expected == [
            (labels["group"].split("/")[0], labels["rank"], labels["replica"])
            for labels, _ in now.samples["summand_server_late_rank_seconds"]])
        self.assertEqual(metrics.value("summand_server_late_ranks"), 1)
        self.assertGreaterEqual(metrics.value("summand_server_late_rank_seconds", replica="rank-1"), 1)
        self.assertGreater(metrics.value("summand_server_groups_active"), 0)
        ranks[1].send_signal(signal.SIGCONT)
        self.wait_for(where, lambda now: now.value("summand_server_late_ranks") == 0)

    def test_names_who_has_not_joined(self):
        _, address, where = self.start()
        first = self.start_rank(0, 2, [address], "--sizes=4K", "--iters=3", SUMMAND_JOB_ID="job")
        self.wait_for(where, lambda now: {("job", "1", "")} == {  # at each shard
            (labels["group"].split("/")[0], labels["rank"], labels["replica"])
            for labels, _ in now.samples["summand_server_late_rank_seconds"]})
        second = self.start_rank(1, 2, [address], "--sizes=4K", "--iters=3", SUMMAND_JOB_ID="job")
        for process in (first, second):
            self.assertEqual(process.wait(60), 0)
        self.wait_for(where, lambda now: now.value("summand_server_late_ranks") == 0)

    def test_requests(self):
        where = self.start()[2]
        for method, path, status in [("GET", "/metrics?x=1", 200), ("HEAD", "/metrics", 200), ("GET", "/", 404),
                                     ("GET", "/metrics/../x", 404), ("POST", "/metrics", 405), ("DELETE", "/", 405)]:
            self.assertEqual(prometheus.request(where, method, path)[0], status, (method, path))
        self.assertEqual(prometheus.request(where, "HEAD")[1], "")
        for host, status in (("evil.example", 421), ("localhost.evil.example:80", 421), ("", 421), ("[::1", 421), ("localhost", 200),
                             ("[::1]:9400", 200), ("127.0.0.1:1", 200)):
            self.assertEqual(prometheus.request(where, Host=host)[0], status, host)
        self.assertEqual(prometheus.request(where, Large="x" * 10000)[0], 431)

    def connect(self, where):
        host, port = where.rsplit(":", 1)
        client = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.addCleanup(client.close)
        return client

    def test_bad_clients_do_no_harm(self):
        server, address, where = self.start()
        for bad in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics\r\n\r\n", b"\x16\x03\x01\x02\x00\n\n",
                    b"GET /metrics HTTP/1.1 x\r\n\r\n", b"GET /metrics SPDY/3\r\n\r\n", b"\x00" * 9000):
            client = self.connect(where)
            client.sendall(bad)
            self.assertNotIn(b" 200 ", client.recv(64), bad)
        for _ in range(3):
            self.connect(where).close()
        # More than are served at once, and none of them says anything: they are ended, and the next one is answered.
        idle = [self.connect(where) for _ in range(40)]
        ranks = [self.start_rank(rank, 2, [address], "--sizes=64K", "--iters=2") for rank in range(2)]
        for rank in ranks:
            self.assert_ended(rank, 0)
        self.assertEqual(idle[0].recv(1), b"")
        self.assertEqual(prometheus.request(where)[0], 200)
        self.terminate(server)
        self.assert_ended(server, 0)

    def test_an_address_that_is_taken(self):
        where = self.start()[2]
        done = self.run_program("summand-reduction-server", "--listen=127.0.0.1:0", "--memory-limit=64M", f"--metrics={where}")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(f"--metrics: cannot listen on {where}: Address already in use", done.stderr)

    def test_options(self):
        for value in ("", "localhost", "127.0.0.1:65536", "1:2:3"):
            done = self.run_program("summand-reduction-server", f"--metrics={value}")
            self.assert_usage_error(done, "--metrics: must be ADDR:PORT, or PORT of 127.0.0.1")

    def test_the_dashboard_asks_for_what_there_is(self):
        dashboard = pathlib.Path(SOURCE, "specs/guide/metrics-dashboard.json").read_text(encoding="utf-8")
        page = {name for heading in ("Reduction servers", "Runners", "Tuning jobs", "The service", "The jobs of a service",
                                              "Every process") for name in prometheus.of_page(SOURCE, heading)}
        asked = {name for panel in json.loads(dashboard)["panels"] for target in panel["targets"]
                 for name in re.findall(r"\b(?:summand|process)_[a-z_]+", target["expr"])}
        self.assertLessEqual(asked, page)
        for room in "summand_server_", "summand_runner_", "summand_tuning_", "summand_service_", "summand_job_", "process_":
            self.assertTrue([name for name in asked if name.startswith(room)], f"{room}*: must have a panel")


if __name__ == "__main__":
    unittest.main()
