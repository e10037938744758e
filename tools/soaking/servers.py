"""Reduction servers that live as long as the soak, and what they use: memory, descriptors, lines of log."""

import os
import re
import secrets
import signal
import statistics
import subprocess
import time

MIB = 1 << 20
POOL_PIECE = 32 * MIB   # a mapping from this size on is a shard's memory for chunks, or part of it
START_S = 60
DRAIN_S = 60


class Lost(Exception):
    """A server has ended before it was told to."""


class Server:
    """One server by its defaults, with a token file and perhaps TLS."""

    def __init__(self, program, folder, number, tls, arguments):
        self.tls = tls
        self.token = os.path.join(folder, "token")
        self.log = os.path.join(folder, f"server-{number}.log")
        if not os.path.exists(self.token):
            with open(os.open(self.token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
                file.write(secrets.token_hex(32) + "\n")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [program, "--listen=127.0.0.1:0", f"--token-file={self.token}", *["--tls"] * tls, *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        self.address = self.read_ready()

    def read_ready(self):
        words = self.process.stdout.readline().split()
        if len(words) < 2 or words[0] != "ready":
            raise Lost(f"reduction server: must be ready, said {words}: {self.last_lines()}")
        return words[1]

    def title(self):
        return f"{self.address} (TLS)" if self.tls else self.address

    def last_lines(self, count=5):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return " | ".join(line.strip() for line in file.readlines()[-count:])

    def check(self):
        if self.process.poll() is not None:
            raise Lost(f"reduction server {self.title()} has ended with {self.process.returncode}: {self.last_lines()}")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        """Bytes of memory for chunks that were ever used, and of all other memory of its own."""
        pool = other = size = 0
        with open(f"/proc/{self.process.pid}/smaps", encoding="utf-8") as file:
            for line in file:
                mapping = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
                if mapping:
                    size = int(mapping[2], 16) - int(mapping[1], 16)
                elif line.startswith("Private_Dirty:"):
                    used = int(line.split()[1]) * 1024
                    pool, other = (pool + used, other) if size >= POOL_PIECE else (pool, other + used)
        return pool, other

    def drain(self):
        """Told once to end; its exit code, or None where it has not ended in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(DRAIN_S)
        except subprocess.TimeoutExpired:
            return None

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Samples:
    """What a server used, again and again."""

    def __init__(self, server):
        self.server = server
        self.first_descriptors = server.descriptors()
        self.rows = []  # (seconds, pool, other, descriptors, log)

    def take(self, seconds):
        self.server.check()
        pool, other = self.server.memory()
        row = (seconds, pool, other, self.server.descriptors(), os.path.getsize(self.server.log))
        self.rows.append(row)
        return row

    def middle(self, column, first, last):
        """The median of a column between two shares of the time; of all of it where it was over too soon."""
        end = self.rows[-1][0]
        rows = [row for row in self.rows if first * end <= row[0] <= last * end]
        return statistics.median(row[column] for row in rows or self.rows)

    def growth(self, column):
        """From the second quarter, when all is warm, to the last."""
        return self.middle(column, 0.75, 1) - self.middle(column, 0.25, 0.5)

    def wait_for_descriptors(self, patience_s):
        """Whether it comes back to the descriptors that it began with, once nobody uses it."""
        deadline = time.monotonic() + patience_s
        while self.server.descriptors() > self.first_descriptors and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.server.descriptors() <= self.first_descriptors
