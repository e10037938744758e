"""Reduction servers that end without a word, while ranks work: stopped, cut off, unreachable. The others take over."""

import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

from programs import ProgramTest

CLONE_NEWNET = 0x40000000
LIMIT = "0.5"


def enter_namespace():
    """This process and its children get a network of their own. False: it may not."""
    if os.geteuid() or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        return False
    return subprocess.run(["ip", "link", "set", "lo", "up"], check=False).returncode == 0


class Proxy:
    """A way to a server that ends one day, and nobody is told: it takes what is sent, if it swallows, or does not."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.target = (host, int(port))
        self.cut = threading.Event()
        self.swallows = True
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(self.target)
            self.sockets += [near, far]  # which are not closed, so that no end is told
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                if not self.cut.is_set():
                    sink.sendall(data)
                elif not self.swallows:
                    return
        except OSError:
            pass


NAMESPACE = enter_namespace()


class SilentServerTest(ProgramTest):
    def start_ranks(self, addresses, *options, limit=LIMIT, transport="auto"):
        variables = {"SUMMAND_HEARTBEAT_LIMIT": limit} if limit else {}
        ranks = [self.start_rank(r, 3, addresses, *options, "--each", SUMMAND_TRANSPORT=transport, **variables) for r in range(3)]
        ranks[0].stdout.readline()  # rank 0 has something to say when all have joined
        time.sleep(0.3)
        return ranks

    def assert_taken_over(self, ranks, address, limit="0.5 s"):
        """Every result is checked by the program itself."""
        for rank in ranks:
            _, err = self.assert_ended(rank, 0)
            self.assertIn(f"reduction server {address} was lost: ", err)
            self.assertIn("1 of 2 reduction servers go on", err)
        self.assertTrue(limit in err or "another rank has lost it" in err, err)

    def test_stopped(self):
        servers = [self.start_server() for _ in range(2)]
        ranks = self.start_ranks([address for _, address in servers], "--sizes=4,256K", "--iters=1500", transport="tcp")
        servers[0][0].send_signal(signal.SIGSTOP)
        self.assert_taken_over(ranks, servers[0][1])

    def test_stopped_for_the_default_of_five_seconds(self):
        servers = [self.start_server() for _ in range(2)]
        ranks = self.start_ranks([address for _, address in servers], "--sizes=4,256K", "--iters=1500", limit=None)
        servers[0][0].send_signal(signal.SIGSTOP)
        self.assert_taken_over(ranks, servers[0][1], limit="it has been silent for 5 s")

    def test_it_goes_on_when_it_is_no_longer_wanted(self):
        """A stopped server that goes on finds its lanes closed, and serves others."""
        servers = [self.start_server() for _ in range(2)]
        ranks = self.start_ranks([address for _, address in servers], "--sizes=256K", "--iters=1500")
        servers[1][0].send_signal(signal.SIGSTOP)
        self.assert_taken_over(ranks, servers[1][1])
        servers[1][0].send_signal(signal.SIGCONT)
        self.assert_ended(self.start_rank(0, 1, [servers[1][1]], "--sizes=4K", "--iters=2"), 0)

    def test_cut_link_is_half_open(self):
        for swallows in (True, False):
            with self.subTest(swallows=swallows):
                near, far = self.start_server(), self.start_server()
                proxy = Proxy(far[1])
                proxy.swallows = swallows
                ranks = self.start_ranks([near[1], proxy.address], "--sizes=4,512K", "--iters=800", transport="tcp")
                proxy.cut.set()
                self.assert_taken_over(ranks, proxy.address)

    @unittest.skipUnless(NAMESPACE, "must be root to have a network of its own")
    def test_dropped_packets(self):
        near = self.start_server()[1]
        far = self.start_program("summand-reduction-server", "--listen=127.0.0.2:0", "--memory-limit=64M")
        address = far.stdout.readline().split()[1]
        ranks = self.start_ranks([near, address], "--sizes=4,256K", "--iters=1500", transport="tcp")
        subprocess.run(["ip", "route", "add", "blackhole", "127.0.0.2/32", "table", "local"], check=True)
        self.addCleanup(subprocess.run, ["ip", "route", "del", "blackhole", "127.0.0.2/32", "table", "local"])
        self.assert_taken_over(ranks, address)


if __name__ == "__main__":
    unittest.main()
