"""Ranks that share memory with their reduction server: where both are on one host, and where they only seem to be."""

import ctypes
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import unittest

from programs import BIN, ProgramTest

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
SANITIZED = bool(os.environ.get("SUMMAND_SANITIZE"))
SIZES = ("--min=4", "--max=4M", "--factor=32", f"--iters={1 if SANITIZED else 5}", "--warmup=1")
MANY = 1000 if SANITIZED else 3000  # a server is killed meanwhile


def enter_namespace():
    """This process and its children get a network of their own. False: it may not."""
    if os.geteuid() or LIBC.unshare(CLONE_NEWNET):
        return False
    return subprocess.run(["ip", "link", "set", "lo", "up"], check=False).returncode == 0


NAMESPACE = enter_namespace()


class SharedMemoryTest(ProgramTest):
    def start_ranks(self, servers, *options, **variables):
        return [self.start_rank(rank, 2, servers, *options, SUMMAND_LOG="info", **variables) for rank in range(2)]

    def assert_lanes(self, server, ranks, over):
        for rank in ranks:
            _, log = self.assert_ended(rank, 0)
            self.assertEqual(len(re.findall(f"goes over {over}", log)), 2, log)
        self.terminate(server)
        self.assert_ended(server, 0)
        return log

    def test_by_default_every_lane_shares_memory(self):
        server, address = self.start_server("--threads=2")
        self.assert_lanes(server, self.start_ranks([address], *SIZES), "shm")

    def test_by_name_every_lane_shares_memory(self):
        server, address = self.start_server("--transport=shm", "--threads=2")
        self.assert_lanes(server, self.start_ranks([address], *SIZES, SUMMAND_TRANSPORT="shm"), "shm")

    def test_tcp_by_name_at_either_end(self):
        for option, variables in [("auto", {"SUMMAND_TRANSPORT": "tcp"}), ("tcp", {})]:
            with self.subTest(server=option):
                server, address = self.start_server("--transport=" + option, "--threads=2")
                log = self.assert_lanes(server, self.start_ranks([address], *SIZES, **variables), "tcp")
                self.assertEqual("the server makes none over shm" in log, option == "tcp", log)

    def test_a_rank_that_cannot_make_memory_goes_over_tcp(self):
        """Files may not be as long as rings are. To find that out takes no time."""
        _, address = self.start_server("--threads=1")
        rank = self.start_program("/bin/sh", "-c", f"ulimit -f 16 && exec {BIN}/summand-perf allreduce --group=test "
                                                   f"--nranks=1 --rank=0 --servers={address} --sizes=4K --iters=2",
                                  SUMMAND_LOG="info", SUMMAND_CONNECT_TIMEOUT="4")
        self.assert_ended(rank, 0, "tries rdma after shm: shm: the limit of files", "goes over tcp")

    @unittest.skipUnless(NAMESPACE, "must be root to have namespaces")
    def test_containers_that_share_the_network_share_memory(self):
        """As with --network=host: other processes, users, files and IPC."""
        _, address = self.start_server("--threads=1")
        rank = self.start_program(shutil.which("unshare"), "--user", "--map-root-user", "--pid", "--ipc", "--mount", "--uts",
                                  "--fork", f"{BIN}/summand-perf", "allreduce", "--group=test", "--nranks=1", "--rank=0",
                                  "--servers=" + address, "--sizes=4K", "--iters=2", SUMMAND_LOG="info")
        self.assert_ended(rank, 0, "goes over shm")

    def test_a_server_of_shared_memory_refuses_others(self):
        _, address = self.start_server("--transport=shm")
        rank = self.start_rank(0, 1, [address], *SIZES, SUMMAND_TRANSPORT="tcp", SUMMAND_CONNECT_TIMEOUT="2")
        self.assert_ended(rank, 1, "workers are let in over shm only")

    def test_a_killed_rank_is_named_at_once(self):
        _, address = self.start_server("--transport=shm")
        ranks = self.start_ranks([address], "--sizes=4K,1M", "--iters=1000000")
        ranks[0].stdout.readline()
        time.sleep(0.3)
        ranks[1].kill()
        since = time.monotonic()
        self.assert_ended(ranks[0], 1, "rank 1 (rank-1)")
        self.assertLess(time.monotonic() - since, 10)

    def test_a_killed_server_is_taken_over_from(self):
        servers = [self.start_server() for _ in range(2)]
        ranks = self.start_ranks([address for _, address in servers], "--sizes=4,256K", f"--iters={MANY}")
        ranks[0].stdout.readline()
        servers[0][0].kill()
        for rank in ranks:
            self.assert_ended(rank, 0, f"reduction server {servers[0][1]} was lost: ", "1 of 2 reduction servers go on")


@unittest.skipUnless(NAMESPACE, "must be root to have networks of its own")
class OtherNetworkTest(ProgramTest):
    """The server is in another network namespace, behind a cable."""

    def setUp(self):
        super().setUp()
        ours = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            self.assertEqual(LIBC.unshare(CLONE_NEWNET), 0)
            self.run_ip("link", "set", "lo", "up")
            self.run_ip("link", "add", "far", "type", "veth", "peer", "name", "near", "netns", f"/proc/self/fd/{ours}",
                        pass_fds=(ours,))
            self.run_ip("address", "add", "10.99.0.2/24", "dev", "far")
            self.run_ip("link", "set", "far", "up")
            self.server = self.start_program("summand-reduction-server", "--listen=10.99.0.2:0", "--memory-limit=64M",
                                             "--insecure")
            self.address = self.server.stdout.readline().split()[1]
        finally:
            self.assertEqual(LIBC.setns(ours, CLONE_NEWNET), 0)
            os.close(ours)
        self.run_ip("address", "add", "10.99.0.1/24", "dev", "near")
        self.run_ip("link", "set", "near", "up")

    def tearDown(self):
        self.run_ip("link", "delete", "near")

    def run_ip(self, *words, **how):
        subprocess.run(["ip", *words], check=True, **how)

    def start_proxy(self):
        """An address of this host behind which the server is, as where a port is forwarded."""
        host, port = self.address.rsplit(":", 1)
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def carry(source, sink):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.close()

        def accept():
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                far = socket.create_connection((host, int(port)))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=ends, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return "127.0.0.1:%d" % listener.getsockname()[1]

    def test_shared_memory_cannot_be_had(self):
        rank = self.start_rank(0, 1, [self.address], *SIZES, SUMMAND_TRANSPORT="shm", SUMMAND_CONNECT_TIMEOUT="2")
        self.assert_ended(rank, 1, f"{self.address} is not on this host")

    def test_auto_takes_tcp(self):
        rank = self.start_rank(0, 1, [self.address], *SIZES, SUMMAND_LOG="info")
        _, log = self.assert_ended(rank, 0, "goes over tcp")
        self.assertNotIn("shm", log)

    def test_what_only_looks_like_this_host_goes_on_over_tcp(self):
        rank = self.start_rank(0, 1, [self.start_proxy()], *SIZES, SUMMAND_LOG="info")
        self.assert_ended(rank, 0, "goes over tcp")


if __name__ == "__main__":
    unittest.main()
