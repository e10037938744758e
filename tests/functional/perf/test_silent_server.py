"""Reduction servers that end without a word, while ranks work: stopped, cut off, unreachable. The others take over, in time."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from programs import BIN, ProgramTest

SOURCE = os.environ["SUMMAND_SOURCE"]
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, "tests", "functional"), os.path.join(SOURCE, "tools", "bench")]
import pressure  # noqa: E402
import steady_rank  # noqa: E402

CLONE_NEWNET = 0x40000000
LIMIT_S = 0.5
DEFAULT_S = 5
LOOK = 14 / 12      # of the limit: it is found at the second look (specs/design/wire.md)
SLACK_S = 1         # for the others to agree, and for processes to get their turn
# With its header and six questions it comes to what counts as taken (SENT_LEAST of heartbeat.c). There are six before the limit.
NEARLY_TAKEN = 920


class Moment:
    """When something begins, and what tasks had waited for processors then."""

    def __init__(self):
        self.begin, self.waits = time.monotonic(), pressure.waited()

    def judge(self, test, limit_s):
        """That a server which has been silent since then was found by now: at the limit, where nothing else had the processors."""
        took = time.monotonic() - self.begin
        if pressure.was_quiet(self.waits, took):
            test.assertLess(took, limit_s * LOOK + SLACK_S)


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

    def end_lanes(self):
        """Of the worker: the server hears it when it looks."""
        for end in self.sockets:
            end.shutdown(socket.SHUT_RDWR)

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
    def start_ranks(self, addresses, *options, limit_s=LIMIT_S, transport="auto"):
        variables = {} if limit_s == DEFAULT_S else {"SUMMAND_HEARTBEAT_LIMIT": str(limit_s)}
        ranks = [self.start_rank(r, 3, addresses, *options, "--each", SUMMAND_TRANSPORT=transport, **variables) for r in range(3)]
        ranks[0].stdout.readline()  # rank 0 has something to say when all have joined
        time.sleep(0.3)
        return ranks

    def assert_taken_over(self, ranks, address, moment, limit_s=LIMIT_S):
        """Every result is checked by the program itself."""
        said = [self.wait_until_it_says(rank, "1 of 2 reduction servers go on") for rank in ranks]
        moment.judge(self, limit_s)
        for rank, text in zip(ranks, said):
            err = text + self.assert_ended(rank, 0)[1]
            self.assertIn(f"reduction server {address} was lost: ", err)
            self.assertRegex(err, f"it has been silent for {limit_s} s|another rank has lost it")

    def test_stopped(self):
        servers = [self.start_server() for _ in range(2)]
        ranks = self.start_ranks([address for _, address in servers], "--sizes=4,256K", "--iters=6000", transport="tcp")
        moment = Moment()
        servers[0][0].send_signal(signal.SIGSTOP)
        self.assert_taken_over(ranks, servers[0][1], moment)

    def test_stopped_for_the_default_of_five_seconds(self):
        servers = [self.start_server() for _ in range(2)]
        ranks = self.start_ranks([address for _, address in servers], "--sizes=4,256K", "--iters=6000", limit_s=DEFAULT_S)
        moment = Moment()
        servers[0][0].send_signal(signal.SIGSTOP)
        self.assert_taken_over(ranks, servers[0][1], moment, DEFAULT_S)

    def test_what_it_took_just_before_is_no_sign_of_life(self):
        """A rank that works now and then, on a server that has stopped meanwhile: what is sent to it does not count with the questions."""
        servers, limit_s = [self.start_server("--threads=1") for _ in range(2)], 2  # a lane each
        os.environ.update(SUMMAND_REDUCTION_SERVERS=",".join(address for _, address in servers),
                          SUMMAND_HEARTBEAT_LIMIT=str(limit_s), SUMMAND_TRANSPORT="tcp")
        library = ctypes.CDLL(os.path.join(BIN, "..", "lib", "libsummand.so"))
        context, comm = steady_rank.join(library, 1, 0)
        numbers = (ctypes.c_float * NEARLY_TAKEN)()

        def reduce_at_each():
            for _ in servers:
                steady_rank.must(library, library.smd_allreduce(comm, numbers, numbers, ctypes.c_size_t(NEARLY_TAKEN),
                                                                steady_rank.FLOAT32, steady_rank.SUM))

        reduce_at_each()
        time.sleep(limit_s / 4)  # some looks
        moment = Moment()
        servers[0][0].send_signal(signal.SIGSTOP)
        reduce_at_each()
        moment.judge(self, limit_s)
        library.smd_comm_destroy(comm)
        library.smd_context_destroy(context)

    def test_it_goes_on_when_it_is_no_longer_wanted(self):
        """A stopped server that goes on finds its lanes closed, and serves others."""
        servers = [self.start_server() for _ in range(2)]
        ranks = self.start_ranks([address for _, address in servers], "--sizes=256K", "--iters=6000")
        moment = Moment()
        servers[1][0].send_signal(signal.SIGSTOP)
        self.assert_taken_over(ranks, servers[1][1], moment)
        servers[1][0].send_signal(signal.SIGCONT)
        self.assert_ended(self.start_rank(0, 1, [servers[1][1]], "--sizes=4K", "--iters=2"), 0)

    def test_the_last_one_dies_while_another_is_back(self):
        """While one is silent nothing is agreed on, so one that is there again is in no table when the silent one ends."""
        servers = [self.start_server() for _ in range(2)]
        addresses = [address for _, address in servers]
        ranks = self.start_ranks(addresses, "--sizes=4,256K", "--iters=6000", limit_s=20, transport="tcp")
        self.end(servers[0][0])
        for rank in ranks:
            self.wait_until_it_says(rank, "1 of 2 reduction servers go on")
        time.sleep(0.2)  # and ranks have agreed on that
        servers[1][0].send_signal(signal.SIGSTOP)
        again = self.start_program("summand-reduction-server", f"--listen={addresses[0]}", "--memory-limit=64M")
        again.stdout.readline()
        time.sleep(1)  # some ranks have found it by now, the others try it then
        self.end(servers[1][0])
        for rank in ranks:
            err = self.wait_until_it_says(rank, f"{addresses[0]} is there and serves again; 1 of 2 reduction servers go on")
            err += self.assert_ended(rank, 0)[1]
            self.assertIn(f"reduction server {addresses[1]} was lost: ", err)

    def test_a_rank_loses_the_last_one_which_stands_still(self):
        """It cannot tell others that it has lost a rank, so the one that is there again, and in no table, tells them (LOST)."""
        servers = [self.start_server() for _ in range(2)]
        addresses = [address for _, address in servers]
        proxy = Proxy(addresses[1])
        ranks = [self.start_rank(r, 3, [addresses[0], proxy.address if r == 1 else addresses[1]], "--sizes=4,256K", "--iters=6000", "--each",
                                 SUMMAND_TRANSPORT="tcp", SUMMAND_HEARTBEAT_LIMIT="60", SUMMAND_LOG="info") for r in range(3)]
        ranks[0].stdout.readline()
        self.end(servers[0][0])
        for rank in ranks:
            self.wait_until_it_says(rank, "epoch 1, ")
        servers[1][0].send_signal(signal.SIGSTOP)
        again = self.start_program("summand-reduction-server", f"--listen={addresses[0]}", "--memory-limit=64M")
        again.stdout.readline()
        for rank in ranks:
            self.wait_until_it_says(rank, f"{addresses[0]} is there again")
        proxy.end_lanes()
        said = [self.wait_until_it_says(rank, f"{addresses[0]} is there and serves again; 1 of 2 reduction servers go on") for rank in ranks]
        self.assertIn(f"reduction server {proxy.address} was lost: the other end closed", said[1])
        for rank in (0, 2):
            self.assertIn(f"reduction server {addresses[1]} was lost: it has lost a rank that lives", said[rank])
        for rank in ranks:
            self.assert_ended(rank, 0)

    def test_cut_link_is_half_open(self):
        for swallows in (True, False):
            with self.subTest(swallows=swallows):
                near, far = self.start_server(), self.start_server()
                proxy = Proxy(far[1])
                proxy.swallows = swallows
                ranks = self.start_ranks([near[1], proxy.address], "--sizes=4,512K", "--iters=3000", transport="tcp")
                moment = Moment()
                proxy.cut.set()
                self.assert_taken_over(ranks, proxy.address, moment)

    @unittest.skipUnless(NAMESPACE, "must be root to have a network of its own")
    def test_dropped_packets(self):
        near = self.start_server()[1]
        far = self.start_program("summand-reduction-server", "--listen=127.0.0.2:0", "--memory-limit=64M")
        address = far.stdout.readline().split()[1]
        ranks = self.start_ranks([near, address], "--sizes=4,256K", "--iters=6000", transport="tcp")
        moment = Moment()
        subprocess.run(["ip", "route", "add", "blackhole", "127.0.0.2/32", "table", "local"], check=True)
        self.addCleanup(subprocess.run, ["ip", "route", "del", "blackhole", "127.0.0.2/32", "table", "local"])
        self.assert_taken_over(ranks, address, moment)


if __name__ == "__main__":
    unittest.main()
