"""summand-reduction-server: what it may do once it listens, and that it does its work all the same."""

import os
import pwd
import re
import signal
import socket
import unittest

from programs import PATIENCE_S, ProgramTest

SANITIZED = bool(os.environ.get("SUMMAND_SANITIZE"))
IS_ROOT = os.geteuid() == 0


def threads(pid):
    """What the kernel says of each thread of a process."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as file:
            found.append(dict(re.findall(r"^(\w+):\t(.*)$", file.read(), re.M)))
    return found


class SandboxTest(ProgramTest):
    def assert_no_rights(self, server, limited=not SANITIZED):
        found = threads(server.pid)
        self.assertGreater(len(found), 1, "shards are threads")
        for status in found:
            for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb", *(["CapBnd"] if IS_ROOT else [])):
                self.assertEqual(int(status[kind], 16), 0, (kind, status))
            self.assertEqual(status["NoNewPrivs"], "1", status)
            if limited:
                self.assertEqual(status["Seccomp"], "2", status)

    def start_limited(self, *options):
        """A server, unless this build or kernel has no filters."""
        server, address = self.start_server("--threads=2", *options)
        if threads(server.pid)[0]["Seccomp"] == "0" and not SANITIZED:
            self.terminate(server)
            self.assert_ended(server, 0, "system calls are not limited: ")
            self.skipTest("system calls are not limited here")
        return server, address

    def start_ranks(self, address, *options):
        return [self.start_rank(rank, 2, [address], "--min=4", "--max=4M", "--factor=32", *options) for rank in range(2)]

    def start_working(self, address):
        ranks = self.start_ranks(address, "--iters=1000000", "--warmup=0")
        ranks[0].stdout.readline()  # it has something to say when all have joined
        return ranks

    def test_work_goes_on_without_rights(self):
        server, address = self.start_limited()
        self.assert_no_rights(server)
        ranks = self.start_ranks(address, "--iters=5", "--warmup=1")
        self.assert_no_rights(server)
        for rank in ranks:
            self.assert_ended(rank, 0)
        self.assert_no_rights(server)
        self.terminate(server)
        _, log = self.assert_ended(server, 0, "draining")
        self.assertNotIn("error ", log)

    def test_lost_lanes_strangers_and_an_end_at_once(self):
        server, address = self.start_limited()
        ranks = self.start_working(address)
        ranks[0].send_signal(signal.SIGKILL)
        self.finish(ranks[0])
        self.finish(ranks[1])
        self.assertNotEqual(ranks[1].returncode, 0)
        self.be_a_stranger(address)
        for rank in self.start_ranks(address, "--iters=1", "--warmup=0"):
            self.assert_ended(rank, 0)
        self.start_working(address)  # a server without a group drains at once
        self.terminate(server)
        self.wait_until_it_says(server, "draining")  # two signals at once are one
        self.terminate(server)
        self.assert_ended(server, 0, "ending at once")

    def be_a_stranger(self, address):
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
            try:
                while connection.recv(4096):
                    pass
            except ConnectionResetError:
                pass

    def test_filter_is_switched_off(self):
        server, address = self.start_server("--seccomp=off")
        for status in threads(server.pid):
            self.assertEqual(status["Seccomp"], "0", status)
        self.assert_no_rights(server, limited=False)
        self.terminate(server)
        self.assert_ended(server, 0, "system calls are not limited: --seccomp=off")

    @unittest.skipUnless(IS_ROOT and not SANITIZED, "only root becomes someone else")
    def test_another_user(self):
        nobody = pwd.getpwnam("nobody")
        server, address = self.start_limited("--user=nobody")
        for status in threads(server.pid):
            self.assertEqual(status["Uid"].split(), [str(nobody.pw_uid)] * 4)
            self.assertEqual(status["Gid"].split(), [str(nobody.pw_gid)] * 4)
            self.assertIn(status["Groups"].split(), [[], [str(nobody.pw_gid)]])
        self.assert_no_rights(server)
        for rank in self.start_ranks(address, "--iters=1", "--warmup=0"):
            self.assert_ended(rank, 0)
        self.terminate(server)
        self.assert_ended(server, 0)

    def test_usage_errors(self):
        for option, text in [("--seccomp=perhaps", '--seccomp: must be on or off, got "perhaps"'),
                             ("--user=no such user", '--user: must be a user of this system, got "no such user"')]:
            with self.subTest(option=option):
                self.assert_usage_error(self.run_program("summand-reduction-server", option), text)


unittest.main()
