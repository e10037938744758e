"""A way to a server that has the network's faults, when it is told to."""

import socket
import struct
import threading
import time

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close that is a reset
DELAY_S = 0.2
SHORT = 7
PIECE = 1 << 16


class Proxy:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.target = host, int(port)
        self.fault = None
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def begin(self, fault):
        self.fault = fault
        if fault == "reset":
            for each in list(self.sockets):
                self.reset(each)

    def end(self):
        self.fault = None

    @staticmethod
    def reset(each):
        try:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            each.shutdown(socket.SHUT_RD)  # wakes whoever reads from it
            each.close()
        except OSError:
            pass

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            self.sockets.append(near)
            if self.fault == "reset":
                self.reset(near)
                continue
            try:
                far = socket.create_connection(self.target)
            except OSError:  # the server has ended
                self.reset(near)
                continue
            self.sockets.append(far)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        """What is late is late by as much for all that follows: pieces keep their order."""
        try:
            while data := source.recv(SHORT if self.fault == "short" else PIECE):
                if self.fault == "half-open":
                    continue
                if self.fault == "delay":
                    time.sleep(DELAY_S)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.reset(source)
            self.reset(sink)
