"""Those that no server has invited: they say nothing, nonsense or half of something, or too much."""

import os
import random
import socket
import struct
import subprocess

KINDS = ["silent", "nonsense", "half_frame", "huge_frame", "rush", "wrong_token", "wrong_tls", "half_group", "flood"]
HELLO = 1
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def connect(draw, address):
    """From an address of its own: strangers are not on the machines of good jobs."""
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 5, source_address=(f"127.0.{draw.randrange(1, 255)}.{draw.randrange(1, 255)}", 0))


def header(version, kind, length):
    return b"SMD" + bytes([version, kind, 0, 0, 0]) + struct.pack("<I", length) + bytes(52)


class Stranger:
    """One that bothers a server until poll() says that its time is over."""

    def __init__(self, seed, number, server, program, environment, now):
        self.draw = random.Random(f"{seed} stranger {number}")
        self.kind = self.draw.choice(KINDS)
        self.until = now + self.draw.uniform(0.1, 8)
        self.sockets = []
        self.process = None
        self.address = server.address
        self.program = program
        self.environment = {**environment, "SUMMAND_JOB_ID": f"stranger-{number}", "SUMMAND_CONNECT_TIMEOUT": "4"}
        getattr(self, self.kind)()

    def open(self, count, text=b""):
        for _ in range(count):
            try:
                end = connect(self.draw, self.address)
                self.sockets.append(end)
                end.sendall(text)
            except OSError:
                pass  # servers may refuse strangers as they like

    def silent(self):
        self.open(self.draw.randrange(1, 8))

    def nonsense(self):
        self.open(2, self.draw.choice([b"GET / HTTP/1.1\r\n\r\n", self.draw.randbytes(5000), bytes(64), CLIENT_HELLO[:6]]))

    def half_frame(self):
        whole = self.draw.choice([header(self.draw.choice([1, 5]), HELLO, 100), CLIENT_HELLO]) + bytes(100)
        self.open(3, whole[:self.draw.randrange(1, len(whole))])

    def huge_frame(self):
        self.open(2, header(self.draw.choice([1, 5]), self.draw.randrange(256), self.draw.getrandbits(32)) + self.draw.randbytes(2000))

    def rush(self):
        """Many come at once and go."""
        self.open(100)
        self.close_sockets()

    def start(self, *words, **variables):
        self.process = subprocess.Popen([self.program, *words], env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wrong_token(self):
        self.start("half", "none", SUMMAND_TOKEN_FILE=os.path.join(os.path.dirname(self.environment["SUMMAND_TOKEN_FILE"]), "wrong-token"))

    def wrong_tls(self):
        """It has the token, but comes without TLS where it is spoken, or with it where it is not."""
        self.start("half", "none", SUMMAND_TLS="0" if self.environment["SUMMAND_TLS"] == "1" else "1")

    def half_group(self):
        """It has the token, and joins a group of which nobody else comes."""
        self.start("half", f"group-{self.draw.randrange(3)}")

    def flood(self):
        """It has the token, and joins what refuses it, thousands of times a second."""
        self.start("flood", str(self.draw.randrange(1, 5)))

    def close_sockets(self):
        for end in self.sockets:
            end.close()
        self.sockets = []

    def poll(self, now):
        """Whether it is gone."""
        if now < self.until:
            return False
        self.end()
        return True

    def end(self):
        self.close_sockets()
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
