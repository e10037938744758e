"""summand-reduction-server: its ready line, its report, and what it refuses."""

import os
import subprocess
import unittest

from programs import BIN, ProgramTest


class ServerTest(ProgramTest):
    def server(self, *options):
        return self.run_program("summand-reduction-server", *options)

    def test_idle_server_drains_at_once(self):
        server, address = self.start_server()
        self.assertRegex(address, r"^127\.0\.0\.1:\d+$")
        self.terminate(server)
        self.assert_ended(server, 0, "draining", "ended: 0 chunks reduced, 0 bytes received, 0 bytes sent, 0 lanes")

    def test_report_to_whoever_started_it(self):
        ours, its = os.pipe()
        os.set_inheritable(its, True)
        server = self.start_program_with(its)
        address = server.stdout.readline().split()[1]
        rank = self.start_rank(0, 1, [address], "--sizes=4K", "--iters=1", "--warmup=0")
        self.assert_ended(rank, 0)
        self.terminate(server)
        self.assert_ended(server, 0)
        with os.fdopen(ours) as notify:
            lines = notify.read().splitlines()
        self.assertEqual(lines[0], "ready " + address)
        results = dict(line.removeprefix("result ").split() for line in lines if line.startswith("result "))
        self.assertGreater(int(results["bytes_received"]), 4096)
        self.assertGreater(int(results["bytes_sent"]), 4096)
        self.assertGreaterEqual(int(results["chunks"]), 1)

    def start_program_with(self, descriptor):
        server = subprocess.Popen([BIN + "/summand-reduction-server", "--listen=127.0.0.1:0", "--memory-limit=64M",
                                   f"--ready-fd={descriptor}"], env=self.environment(), pass_fds=[descriptor],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.close(descriptor)
        self.addCleanup(self.end, server)
        return server

    def test_what_one_job_may_have(self):
        for size, text in ("65M", "at most the 64.0 MiB that all jobs have, got 65.0 MiB"), \
                          ("3", "at least 6.0 MiB for a slot of two ranks in each of 4 threads, got 0.0 MiB"), \
                          ("6M", "at least 6.0 MiB for a slot of two ranks in each of 4 threads, got 6.0 MiB"):
            done = self.server("--listen=127.0.0.1:0", "--threads=4", "--memory-limit=64M", "--job-memory-limit=" + size)
            self.assert_usage_error(done, "job memory limit: must be " + text)
        for size in "7M", "64M":
            server, _ = self.start_server("--threads=4", "--job-memory-limit=" + size)
            self.terminate(server)
            self.assert_ended(server, 0)

    def test_too_little_memory(self):
        done = self.server("--listen=127.0.0.1:0", "--threads=4", "--memory-limit=2M")
        self.assert_usage_error(done, "memory limit: must be at least 6.0 MiB for a slot of two ranks in each of 4 "
                                      "threads, got 2.0 MiB")

    def test_too_much_memory(self):
        done = self.server("--listen=127.0.0.1:0", "--memory-limit=1000000G")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"memory limit: must be at most the \d+ MiB that are available, got 1024000000 MiB")

    def test_memory_is_printed(self):
        server, _ = self.start_server("--threads=2")
        self.terminate(server)
        self.assert_ended(server, 0, "memory: at most 64 MiB, 2 threads with 63 buffers of 512 KiB each")
        server, _ = self.start_server("--threads=1")
        self.terminate(server)
        self.assert_ended(server, 0, "memory: at most 64 MiB, 1 thread with 126 buffers of 512 KiB each")

    def test_bandwidth_is_printed_with_its_source(self):
        server, _ = self.start_server()
        self.terminate(server)
        self.assert_ended(server, 0, "bandwidth: 10000 Mbit/s, the default: lo does not say how fast it is")
        server, _ = self.start_server("--bandwidth=25gbps")
        self.terminate(server)
        self.assert_ended(server, 0, "bandwidth: 25000 Mbit/s, as given")
        server, _ = self.start_server("--bandwidth=1/4")
        self.terminate(server)
        self.assert_ended(server, 0, "bandwidth: 1/4 of that, 2500 Mbit/s")

    def test_a_share_of_the_bandwidth_is_declared(self):
        server, _ = self.start_server("--bandwidth=400mbps", "--share=5/14")
        self.terminate(server)
        self.assert_ended(server, 0, "share of chunks: 5/14 of that, as for 143 Mbit/s, with a window of 2")
        server, _ = self.start_server("--bandwidth=400mbps", "--share=2/3")
        self.terminate(server)
        self.assert_ended(server, 0, "share of chunks: 2/3 of that, as for 267 Mbit/s, with a window of 8")

    def test_port_in_use(self):
        _, address = self.start_server()
        done = self.server("--listen=" + address, "--memory-limit=64M")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"summand-reduction-server: {address}: cannot listen: Address already in use", done.stderr)

    def test_usage_errors(self):
        for option, text in [("--threads=0", '--threads: must be 1 to 64, got "0"'),
                             ("--threads=65", '--threads: must be 1 to 64, got "65"'),
                             ("--transport=pigeon", '--transport: must be auto, shm, rdma or tcp, got "pigeon"'),
                             ("--bandwidth=fast", "--bandwidth"),
                             ("--bandwidth=3/2", "--bandwidth: must be a bandwidth such as 25gbps, or a part of the link's such as 1/2"),
                             ("--memory-limit=much", "--memory-limit"),
                             ("--share=0.5", '--share: must be two numbers from 1 to 1000000 such as 5/14, got "0.5"'),
                             ("--listen=nowhere", '--listen: must be ADDR:PORT, got "nowhere"'),
                             ("--ready-fd=x", '--ready-fd: must be an open descriptor, got "x"'),
                             ("--ready-fd=77", '--ready-fd: must be an open descriptor, got "77"'),
                             ("--no-such", "--no-such: unknown option"),
                             ("operand", 'there must be no operand, got "operand"')]:
            with self.subTest(option=option):
                self.assert_usage_error(self.server(option), text)

    def test_help_and_version(self):
        for option in ("--help", "--version"):
            done = self.server(option)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("summand-reduction-server", done.stdout)


unittest.main()
