"""A server that has few descriptors, and strangers who want them all: jobs that run and jobs that come have theirs."""

import selectors
import socket
import threading
import unittest

from programs import BIN, ProgramTest

DESCRIPTORS = 160  # so that strangers could have all of them without the limit of one address


class Strangers:
    """Connections that say nothing, as many as the server's queue takes, and anew when they are ended."""

    def __init__(self, address, most):
        host, _, port = address.rpartition(":")
        self.address = host, int(port)
        self.most = most
        self.ended = 0
        self.stop = threading.Event()
        self.selector = selectors.DefaultSelector()
        self.full = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stop.is_set():
            while len(self.selector.get_map()) < self.most:
                try:
                    self.selector.register(socket.create_connection(self.address, timeout=1), selectors.EVENT_READ)
                except OSError:
                    break
            self.full.set()
            for key, _ in self.selector.select(0.01):
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                self.ended += 1

    def leave(self):
        self.stop.set()
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


class DescriptorsTest(ProgramTest):
    def start_server_with(self, descriptors):
        server = self.start_program("/bin/sh", "-c", f"ulimit -n {descriptors} && exec {BIN}/summand-reduction-server "
                                                     "--listen=127.0.0.1:0 --memory-limit=64M --threads=1")
        return server, server.stdout.readline().split()[1]

    def test_strangers_do_not_get_them_all(self):
        server, address = self.start_server_with(DESCRIPTORS)
        running = [self.start_rank(r, 2, [address], "--sizes=64K", "--iters=100000000", SUMMAND_JOB_ID="runs")
                   for r in range(2)]
        self.assertIn("all-reduce of 2 ranks", running[0].stdout.readline())
        strangers = Strangers(address, 2 * DESCRIPTORS)
        self.addCleanup(strangers.leave)
        strangers.full.wait()
        # Less than the 5 s after which the server ends who has said nothing: that it ends them must not be what helps.
        coming = [self.start_rank(r, 2, [address], "--sizes=64K", "--iters=20", SUMMAND_JOB_ID="comes",
                                  SUMMAND_CONNECT_TIMEOUT="4") for r in range(2)]
        for rank in coming:
            self.assert_ended(rank, 0)
        for rank in running:
            self.assertIsNone(rank.poll())
        for rank in running:
            self.terminate(rank)
            self.finish(rank)
        self.assertGreater(strangers.ended, 0)
        self.terminate(server)
        _, err = self.assert_ended(server, 0)
        self.assertNotIn("cannot accept a connection", err)


if __name__ == "__main__":
    unittest.main()
