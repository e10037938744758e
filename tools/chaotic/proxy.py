"""A way to a server that has the network's faults, when it is told to."""

import queue
import random
import socket
import struct
import threading
import time

import loss

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close that is a reset
DELAY_S = 0.2
LOST_SHARE = 0.1     # of all packets, in both directions
SHORT = 1000         # bytes at most: half of the pieces have less than 32, so that headers are cut too
PIECE = 1 << 16
QUEUED = 256         # pieces under way in one direction; who sends more waits, as in a network
TURN_S = 0.0002
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
INET_DIAG_INFO = 2
WITH_INFO = 1 << INET_DIAG_INFO - 1
ANY_STATE = NO_COOKIE = 0xffffffff
UNREAD_AT = 72           # in the answer: behind a header, the state, the place and a timer
ATTRIBUTES_AT = 88
BYTES_RECEIVED_AT = 128  # in struct tcp_info


class Reader:
    """The other end of a connection in this network, of which the kernel says how far its owner has read."""

    def __init__(self, sink):
        (own, own_port), (other, other_port) = sink.getsockname(), sink.getpeername()
        place = struct.pack("!HH4s12x4s12x", other_port, own_port, socket.inet_aton(other), socket.inet_aton(own))
        body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, WITH_INFO, 0, ANY_STATE) + place + \
            struct.pack("=III", 0, NO_COOKIE, NO_COOKIE)
        self.request = struct.pack("=IHHII", 16 + len(body), SOCK_DIAG_BY_FAMILY, 1, 1, 0) + body
        self.asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)

    def has_read(self, count):
        """Whether it has taken all of the first `count` bytes; so too where nobody reads any more."""
        self.asked.send(self.request)
        answer = self.asked.recv(4096)
        if struct.unpack_from("=IH", answer)[1] != SOCK_DIAG_BY_FAMILY:
            return True
        unread = struct.unpack_from("=I", answer, UNREAD_AT)[0]
        at = ATTRIBUTES_AT
        while at < len(answer):
            length, kind = struct.unpack_from("=HH", answer, at)
            if kind == INET_DIAG_INFO:  # what is on its way into a socket is in no count of unread bytes yet
                return unread == 0 and struct.unpack_from("=Q", answer, at + 4 + BYTES_RECEIVED_AT)[0] >= count
            at += (length + 3) & ~3
        return unread == 0


class Direction:
    """One direction of a connection. What comes in is stamped, and goes out in its order: what is late keeps nobody from being read."""

    def __init__(self, proxy, source, sink):
        self.proxy, self.source, self.sink = proxy, source, sink
        self.pieces = queue.Queue(QUEUED)
        self.sent = 0
        self.reader = None
        for work in (self.take, self.give):
            threading.Thread(target=work, daemon=True).start()

    def take(self):
        """Its last piece is empty: an end; or None: a reset."""
        data = PIECE
        while data:
            try:
                data = self.source.recv(PIECE)
            except OSError:
                data = None
            while self.proxy.fault == "half-open" and not self.proxy.swallows:
                self.proxy.felt += 1
                time.sleep(DELAY_S)
            self.pieces.put((time.monotonic() + (DELAY_S if self.proxy.fault == "delay" else 0), data))

    def give(self):
        try:
            while True:
                due, data = self.pieces.get()
                if data is None:
                    raise OSError("it was reset")
                if (late := due - time.monotonic()) > 0:
                    self.proxy.felt += 1
                    time.sleep(late)
                if self.proxy.fault == "half-open":  # also of an end nobody is told
                    self.proxy.felt += 1
                elif data:
                    self.send(data)
                else:
                    if self.proxy.fault != "reset":  # which takes the other end, too
                        self.sink.shutdown(socket.SHUT_WR)
                    return
        except OSError:
            self.proxy.end_both(self.source, self.sink)
        finally:
            if self.reader:
                self.reader.asked.close()

    def send(self, data):
        """At once, or so that each read of the other end gets one piece."""
        while data and self.proxy.fault == "short":
            self.reader = self.reader or Reader(self.sink)
            length = min(int(SHORT ** random.random()), len(data))
            self.sink.sendall(data[:length])
            self.sent += length
            data = data[length:]
            self.proxy.felt += 1
            while self.proxy.fault == "short" and not self.reader.has_read(self.sent):
                time.sleep(TURN_S)
        self.sink.sendall(data)
        self.sent += len(data)


class Proxy:
    def __init__(self, address):
        self.aim(address)
        self.fault = None
        self.swallows = True  # half-open: what is sent vanishes; else whoever sends finds a way that is full
        self.lost_share = LOST_SHARE
        self.felt = 0         # how often something was late, cut to pieces, lost or reset
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def aim(self, address):
        """From now on the way leads there: another process in the server's place."""
        host, port = address.rsplit(":", 1)
        self.target = host, int(port)

    def begin(self, fault):
        self.fault = fault
        if fault == "reset":
            for each in list(self.sockets):
                self.reset(each)
        elif fault == "loss":
            for each in [self.listener, *self.sockets]:
                self.lose(each)

    def end(self):
        if self.fault == "loss":
            for each in [self.listener, *self.sockets]:
                self.count_lost(each)
                self.tell(loss.end, each)
        self.fault = None

    @staticmethod
    def tell(do, *words):
        """Of a socket that may have been closed meanwhile."""
        try:
            return do(*words)
        except OSError:
            return 0

    def lose(self, each):
        self.tell(loss.begin, each, self.lost_share)

    def count_lost(self, each):
        self.felt += self.tell(loss.lost, each)

    def reset(self, each):
        if self.fault == "loss":
            self.count_lost(each)
        try:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            each.shutdown(socket.SHUT_RD)  # wakes whoever reads from it
            each.close()
            self.felt += 1
        except OSError:
            pass

    def end_both(self, *ends):
        """What has ended one end ends the other, unless nobody may hear of it."""
        if self.fault != "half-open":
            for each in ends:
                self.reset(each)

    def reach(self):
        far = socket.socket()
        if self.fault == "loss":
            self.lose(far)  # `near` has it of the listener
        try:
            far.connect(self.target)
        except OSError:
            far.close()
            raise
        return far

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            if self.fault == "reset":
                self.reset(near)
                continue
            try:
                far = self.reach()
            except OSError:  # the server has ended
                self.reset(near)
                continue
            self.sockets += [near, far]
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Direction(self, near, far)
            Direction(self, far, near)
