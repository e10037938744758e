"""Ranks that reduce the same numbers again and again in a lab, whose links and servers change meanwhile."""

import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import lab

HERE = os.path.dirname(os.path.realpath(__file__))
PORT = 2222
PATIENCE_S = 300    # only what hangs takes longer
SEGMENT = 16 << 20  # larger operations are done in parts of no more: worker/libsummand/segment.h
TURN_S = 0.02       # of a server whose processor is taken for most of the time
SEEN = re.compile(r"rates: (shard|operations) (\d+): (\d+) bytes in (\d+) us")
TABLE = re.compile(r"epoch \d+, from operation (\d+) on, with (\d+) shards.* shares, %: ([\d. ]+); a shard has (\d+) Mbit/s; chunks of (\d+)/(\d+)")

Table = collections.namedtuple("Table", "first shards shares mbps chunks")  # from that segment on, in use, percent, of one, times as large


class Failed(Exception):
    """A rank or a server has ended, or does nothing."""


class Steady:
    """Ranks on the first nodes and a server on each other one, for the length of a with statement inside of lab.enter()."""

    def __init__(self, build, ranks, rates, elements, burst=lab.BURST, server_args=(), log="info", strangers=0, spare=None):
        self.build, self.rates, self.elements, self.burst, self.server_args, self.log = build, rates, elements, burst, server_args, log
        self.segments = -(-4 * (elements + 1) // SEGMENT)   # of an operation: tables begin with one of them
        self.ranks = range(ranks)
        self.servers = range(ranks, len(rates) - strangers)
        self.spare = spare      # the share of spare reducers, on all ranks' nodes, such as 1/2; None: there are none
        self.strangers = range(len(rates) - strangers, len(rates))  # nodes with nothing of this job
        self.lab = lab.Lab(rates)
        self.processes = {}
        self.folder = tempfile.TemporaryDirectory()
        self.stop = os.path.join(self.folder.name, "stop")
        self.ends = []      # of rank 0's operations: the clock, and how many us it took
        self.lines = []     # of all ranks' logs
        self.taken = [0]    # bytes of another job, so far
        self.readers = []

    def __enter__(self):
        self.lab.__enter__()
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *failure):
        self.lab.__exit__(*failure)
        for process in self.processes.values():
            for stream in (process.stdout, process.stderr):
                if stream and process.poll() is not None and not self.is_read(stream):
                    stream.close()
        for reader, _ in self.readers:
            reader.join()
        self.folder.cleanup()

    def is_read(self, stream):
        return any(stream is other for _, other in self.readers)

    def start(self):
        for node, rate in enumerate(self.rates):
            if rate:
                self.shape(node, rate)
        servers = {node: (node, self.server_args) for node in self.servers}
        if self.spare:
            servers.update({("beside", node): (node, [f"--share={self.spare}", "--spare"]) for node in self.ranks})
        for name, (node, words) in servers.items():
            self.processes[name] = self.lab.start(node, [
                os.path.join(self.build, "bin", "summand-reduction-server"), f"--listen={lab.address_of(node)}:{PORT}", "--insecure",
                "--memory-limit=512M", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for name in servers:
            if not self.processes[name].stdout.readline().startswith("ready"):
                raise Failed("a reduction server does not start")
        variables = {**os.environ, "SUMMAND_LOG": self.log,
                     "SUMMAND_EXCHANGE": "off",  # what is measured is the table of servers
                     "SUMMAND_REDUCTION_SERVERS": ",".join(f"{lab.address_of(node)}:{PORT}" for node, _ in servers.values())}
        for rank in self.ranks:
            self.processes[rank] = self.lab.start(rank, self.command(rank), env=variables, stdin=subprocess.DEVNULL,
                                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.read(self.processes[rank].stdout, self.count)
            self.read(self.processes[rank].stderr, self.lines.append)

    def command(self, rank):
        """What a rank runs."""
        return [sys.executable, os.path.join(HERE, "steady_rank.py"), os.path.join(self.build, "lib", "libsummand.so"),
                str(len(self.ranks)), str(rank), str(self.elements), self.stop]

    def read(self, stream, take):
        def each_line():
            with stream:
                for line in stream:
                    take(line)

        self.readers.append((threading.Thread(target=each_line), stream))
        self.readers[-1][0].start()

    def count(self, line):
        self.ends.append((time.monotonic(), float(line.split()[2])))

    @property
    def operations(self):
        """How many have ended."""
        return len(self.ends)

    def shape(self, node, rate):
        """From now on a node's link carries as much."""
        shaper = ["root", "tbf", "rate", rate, "burst", self.burst, "latency", lab.QUEUE]
        lab.run("tc", "-n", lab.name_of(node), "qdisc", "change", "dev", "eth0", *shaper)
        lab.run("tc", "qdisc", "change", "dev", f"port{node}", *shaper)

    def share_link(self, node, bits):
        """From now on another job sends as much over a node's link, from a stranger's, or as much as it gets."""
        neighbour = [sys.executable, os.path.join(HERE, "neighbour.py")]
        place = [lab.address_of(node), str(PORT + 1)]
        taker = self.lab.start(node, [*neighbour, "take", *place], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        taker.stdout.readline()
        self.read(taker.stdout, lambda line: self.taken.append(int(line)))
        self.processes["taker"] = taker     # ends with the sender
        self.processes["sender"] = self.lab.start(self.strangers[0], [*neighbour, "send", *place, str(bits)], stdin=subprocess.DEVNULL)

    def take_processor(self, node, part):
        """From now on a node's server does not run for that part of the time."""
        server = self.processes[node]

        def alternate():
            while server.poll() is None:
                for number, seconds in ((signal.SIGSTOP, TURN_S * part), (signal.SIGCONT, TURN_S * (1 - part))):
                    server.send_signal(number)
                    time.sleep(seconds)

        threading.Thread(target=alternate, daemon=True).start()

    def wait(self, done):
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > deadline or any(self.processes[rank].poll() is not None for rank in self.ranks):
                raise Failed("ranks must go on: " + "".join(self.lines))
            time.sleep(0.005)

    def tables(self):
        """Each as often as there are ranks, which all say it."""
        found = [TABLE.search(line) for line in list(self.lines)]
        return [Table(int(table[1]), int(table[2]), [float(share) for share in table[3].split()], int(table[4]), int(table[5]) / int(table[6]))
                for table in found if table]

    def trace(self):
        """What rank 0 has seen, in words for tests/unit/rates/test_traces.c: of a shard, or of all that was in flight together."""
        return [f"{'s ' + seen[2] if seen[1] == 'shard' else 'o'} {seen[3]} {seen[4]}"
                for seen in map(SEEN.search, list(self.lines)) if seen]

    def end(self):
        """Ends all ranks, which have compared all bits; fails if some have differed."""
        with open(self.stop, "w", encoding="ascii"):
            pass
        codes = [self.processes[rank].wait(PATIENCE_S) for rank in self.ranks]
        if "sender" in self.processes:
            self.processes["sender"].kill()
        for reader, _ in self.readers:
            reader.join()
        if any(codes):
            raise Failed("a rank has failed: " + "".join(self.lines))
