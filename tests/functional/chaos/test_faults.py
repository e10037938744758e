"""The faults that tools/chaos gives really happen: what arrives, in which pieces, when, and what nobody is told."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE = os.environ["SUMMAND_SOURCE"]
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, "tools", "chaotic"), os.path.join(SOURCE, "tests", "functional")]
import loss  # noqa: E402
import pressure  # noqa: E402
import proxy  # noqa: E402
import stage  # noqa: E402
import witness  # noqa: E402

CARRY = os.path.join(SOURCE, "tools", "chaotic", "carry.py")
BYTES = bytes(range(256)) * 80
MANY = 300            # in hundreds of packets, of which some are lost
PATIENCE_S = 60
TWO_AT_ONCE = 0.05   # of all reads: one that is still at the end of a piece may get the next one too


def start(work, *words):
    thread = threading.Thread(target=work, args=words, daemon=True)
    thread.start()
    return thread


class PiecesTest(unittest.TestCase):
    def assert_short(self, lengths):
        self.assertLessEqual(sum(length > proxy.SHORT for length in lengths), TWO_AT_ONCE * len(lengths), lengths)
        self.assertLessEqual(max(lengths), 3 * proxy.SHORT)


class WayTest(PiecesTest):
    """A connection over a proxy: `near` has connected, `far` was accepted."""

    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        self.way = proxy.Proxy("127.0.0.1:%d" % self.listener.getsockname()[1])
        self.near, self.far = self.connect()

    def connect(self):
        host, port = self.way.address.split(":")
        near = socket.create_connection((host, int(port)), PATIENCE_S)
        self.addCleanup(near.close)
        far, _ = self.listener.accept()
        self.addCleanup(far.close)
        far.settimeout(PATIENCE_S)
        return near, far

    def receive(self, end, count, pause_s=0):
        """All that comes, and the length of each piece."""
        pieces = []
        while sum(map(len, pieces)) < count:
            piece = end.recv(1 << 16)
            self.assertTrue(piece, "must not end")
            pieces.append(piece)
            time.sleep(pause_s)
        return b"".join(pieces), [len(piece) for piece in pieces]

    def test_nothing(self):
        self.near.sendall(BYTES)
        self.assertEqual(self.receive(self.far, len(BYTES))[0], BYTES)
        self.near.close()
        self.assertEqual(self.far.recv(1), b"")
        self.assertEqual(self.way.felt, 0)

    def test_short(self):
        """Each read gets one piece of 1 to 1000 bytes, small ones and large ones, also where it reads slowly, and both ways."""
        self.way.begin("short")
        for source, sink, pause_s in ((self.near, self.far, 0), (self.far, self.near, 0.002)):
            start(source.sendall, BYTES)
            data, lengths = self.receive(sink, len(BYTES), pause_s)
            self.assertEqual(data, BYTES)
            self.assert_short(lengths)
            self.assertTrue(any(length < 8 for length in lengths) and any(length > 64 for length in lengths), lengths)
            self.assertGreater(len(lengths), 40)
        self.assertGreater(self.way.felt, 80)
        self.way.end()
        self.near.sendall(BYTES)
        self.assertLess(len(self.receive(self.far, len(BYTES))[1]), 20, "it has ended")

    def test_short_begins_in_the_middle(self):
        """What is under way is cut too: a read that waited when it began gets no more than others."""
        time.sleep(0.1)
        self.way.begin("short")
        self.near.sendall(BYTES)
        self.assertLessEqual(len(self.far.recv(1 << 16)), proxy.SHORT)

    def test_delay(self):
        """Everything arrives 200 ms after it was sent, however much is under way, and in its order when that has ended."""
        self.way.begin("delay")
        sent = []

        def send():
            for _ in range(20):
                sent.append(time.monotonic())
                self.near.sendall(b"x")
                time.sleep(0.03)

        waits, began = pressure.waited(), time.monotonic()
        start(send)
        late = []
        for k in range(20):
            self.assertEqual(self.far.recv(1), b"x")
            late.append(time.monotonic() - sent[k])
        took = time.monotonic() - began
        self.assertGreaterEqual(min(late), proxy.DELAY_S - 0.001)
        self.assertLess(max(late), proxy.DELAY_S + 0.1 if pressure.was_quiet(waits, took) else 5)
        self.near.sendall(b"1")
        self.way.end()
        self.near.sendall(b"2")
        self.assertEqual(self.receive(self.far, 2)[0], b"12")

    def test_half_open(self):
        """Nothing arrives, either way, nor an end; what is sent vanishes, or finds the way full."""
        for swallows in (True, False):
            near, far = self.connect()
            self.way.swallows = swallows
            self.way.begin("half-open")
            for end in (near, far):
                end.settimeout(1)
                try:
                    for _ in range(1000 if swallows else 10000):
                        end.sendall(BYTES)
                    self.assertTrue(swallows, "must find the way full")
                except TimeoutError:
                    self.assertFalse(swallows, "must vanish")
            near.close()
            with self.assertRaises(TimeoutError):
                far.recv(1)
            self.way.end()

    def test_reset(self):
        """Both ends find that out, and new connections are reset too."""
        ends = []

        def wait(end):
            try:
                ends.append(end.recv(1))
            except ConnectionResetError:
                ends.append("reset")

        threads = [start(wait, end) for end in (self.near, self.far)]
        self.way.begin("reset")
        for thread in threads:
            thread.join(PATIENCE_S)
        self.assertEqual(ends, ["reset"] * 2)
        host, port = self.way.address.split(":")
        with self.assertRaises(ConnectionResetError), socket.create_connection((host, int(port)), PATIENCE_S) as another:
            another.recv(1)

    def test_another_process_in_its_place(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            self.way.aim("127.0.0.1:%d" % other.getsockname()[1])
            host, port = self.way.address.split(":")
            with socket.create_connection((host, int(port)), PATIENCE_S) as near:
                far, _ = other.accept()
                with far:
                    near.sendall(b"x")
                    self.assertEqual(far.recv(1), b"x")

    def test_loss(self):
        """Packets are lost both ways, and all arrives nevertheless; another way loses nothing, nor does this one afterwards."""
        other = proxy.Proxy("%s:%d" % self.way.target)
        self.way.begin("loss")
        ends = [self.connect(), (self.near, self.far)]  # one that begins meanwhile, too
        for source, sink in [pair for near, far in ends for pair in ((near, far), (far, near))]:
            start(lambda end=source: [end.sendall(BYTES) for _ in range(MANY)])
            self.assertEqual(self.receive(sink, MANY * len(BYTES))[0], BYTES * MANY)
        self.assertTrue(all(map(loss.lost, self.way.sockets)), "in each direction of each")
        self.way.end()
        felt = self.way.felt
        self.assertGreater(felt, 3)
        self.way, way = other, self.way
        near, far = self.connect()
        for source, sink in ((near, far), (self.near, self.far)):
            source.sendall(BYTES)
            self.assertEqual(self.receive(sink, len(BYTES))[0], BYTES)
        self.assertEqual((sum(map(loss.lost, other.sockets)), sum(map(loss.lost, [way.listener, *way.sockets]))), (0, felt))


class CarryTest(PiecesTest):
    """What stands in for ssh passes pieces on as they come."""

    def test_short(self):
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as host:
            way = proxy.Proxy("127.0.0.1:%d" % host.getsockname()[1])
            with open(os.path.join(folder, "one.address"), "w", encoding="ascii") as file:
                file.write(way.address)
            own, its = socket.socketpair()
            carry = subprocess.Popen([sys.executable, CARRY, folder, "one", "command"], stdin=its, stdout=its)
            self.addCleanup(carry.wait)
            self.addCleanup(carry.kill)
            its.close()
            connection, _ = host.accept()
            with connection, own:
                self.assertEqual(connection.recv(15, socket.MSG_WAITALL), b"       7command")
                way.begin("short")
                for source, sink in ((own, connection), (connection, own)):
                    start(source.sendall, BYTES)
                    pieces = []
                    while sum(map(len, pieces)) < len(BYTES):
                        pieces.append(sink.recv(1 << 16))
                        time.sleep(0.001)
                    self.assertEqual(b"".join(pieces), BYTES)
                    self.assert_short([len(piece) for piece in pieces])


class Victim(stage.Stage):
    """A program that sleeps, and can have signals."""

    def __init__(self):
        self.place = tempfile.TemporaryDirectory()
        super().__init__(("server", "steady", "kill"), "1", os.environ["SUMMAND_BUILD"], self.place.name)

    def begin(self, fault):
        self.fault = fault
        self.sleeper = subprocess.Popen(["sleep", "1000"], preexec_fn=stage.die_with_parent)
        self.processes.append(self.sleeper)

    def signal_victim(self, number):
        self.sleeper.send_signal(number)

    def state(self):
        with open(f"/proc/{self.sleeper.pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0]


class SignalTest(unittest.TestCase):
    def setUp(self):
        self.play = Victim()
        self.addCleanup(self.play.place.cleanup)
        self.addCleanup(self.play.end_all)

    def test_kill_and_term(self):
        for fault, number in (("kill", signal.SIGKILL), ("term", signal.SIGTERM)):
            self.play.begin(fault)
            self.play.strike()
            self.assertEqual(self.play.sleeper.wait(PATIENCE_S), -number)

    def test_stop(self):
        """For five seconds."""
        self.play.begin("stop")
        began = time.monotonic()
        self.play.strike()
        time.sleep(stage.STOP_S - 1)
        self.assertEqual(self.play.state(), "T")
        while self.play.state() == "T":
            self.assertLess(time.monotonic() - began, PATIENCE_S)
            time.sleep(0.01)
        self.assertGreaterEqual(time.monotonic() - began, stage.STOP_S)


class WitnessTest(unittest.TestCase):
    def test_waits_between_two_moments(self):
        """Those that had begun before, or had not ended, too."""
        seen = witness.Witness()
        time.sleep(0.3)  # on every processor of most hosts
        self.assertGreater(len(seen.waits), 1)
        seen.waits = [(10, 1), (20, 4)]
        for begin, end, wait in ((9.5, 11, 1), (8, 9.5, 1), (8, 8.5, 0), (10.5, 15, 0), (10.5, 17, 4), (5, 30, 4)):
            self.assertEqual(seen.slack(begin, end), witness.WAITS * wait, (begin, end))


if __name__ == "__main__":
    unittest.main(verbosity=2)
