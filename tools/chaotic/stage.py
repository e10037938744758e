"""What every cell has: a network of its own, processes in it that end with it, and faults that end after a while."""

import ctypes
import os
import random
import signal
import subprocess
import threading
import time

from cells import GENTLE, MET, OF_PROCESSES, bound, may_end
from witness import WAITS, Witness

PATIENCE_S = 300     # in which all that is to end does so; a machine with other work takes part of it
TURN_S = 0.005
SOFT_S = 3
STOP_S = 5
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def enter_network():
    """This process gets a network of its own. False: it may not."""
    if os.geteuid() or libc.unshare(CLONE_NEWNET):
        return False
    return subprocess.run(["ip", "link", "set", "lo", "up"], check=False).returncode == 0


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Broken(Exception):
    """Something did not happen as it must."""


class Stage:
    def __init__(self, cell, seed, build, folder):
        self.process, self.moment, self.fault = self.cell = cell
        self.random = random.Random(f"{cell} {seed}")
        self.expected = self.random.choice(may_end(self.cell))
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.folder = folder
        self.processes = []
        self.timers = []
        self.struck = None
        self.swallows = self.random.random() < 0.5  # what is sent to who is half-open; else it finds the way full
        self.witness = Witness()
        self.times = []

    def start(self, name, *words, piped=False, **variables):
        """What it says is said(name), and said(name, "out") unless it is piped."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SUMMAND_")}
        with open(self.path(name, "err"), "ab") as err, open(self.path(name, "out"), "ab") as out:
            process = subprocess.Popen([os.path.join(self.bin, words[0]), *words[1:]], env={**environment, **variables},
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if piped else out, stderr=err, text=True,
                                       preexec_fn=die_with_parent)
        self.processes.append(process)
        return process

    def path(self, name, stream):
        return os.path.join(self.folder, f"{name}.{stream}")

    def said(self, name, stream="err"):
        with open(self.path(name, stream), encoding="utf-8", errors="replace") as file:
            return file.read()

    @staticmethod
    def wait_until(condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                raise Broken(f"must come within {PATIENCE_S} s: {what}")
            time.sleep(TURN_S)

    # ---- the fault ----

    def later(self, seconds, work):
        timer = threading.Timer(seconds, work)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)

    def strike(self):
        self.struck = time.monotonic()
        if self.fault in ("kill", "term"):
            self.signal_victim(signal.SIGKILL if self.fault == "kill" else signal.SIGTERM)
        elif self.fault == "stop":
            self.signal_victim(signal.SIGSTOP)
            self.later(STOP_S, lambda: self.signal_victim(signal.SIGCONT))
        else:
            for way in self.victims():
                way.begin(self.fault)
                if self.fault in GENTLE:
                    self.later(SOFT_S, way.end)

    # ---- what came of it ----

    def judge_felt(self):
        """A network's fault that met nothing would have shown nothing."""
        if self.fault in OF_PROCESSES:
            return
        for way in self.victims():
            if self.fault in GENTLE:
                way.end()
        felt = sum(way.felt for way in self.victims())
        if not felt:
            raise Broken(f"something must have met the fault, {self.fault}: nothing did")
        self.times.append(f"{felt} {MET[self.fault]}")

    def judge_stall(self, rows, begin, end):
        """The longest operation beyond the median one, of what rank 0 has measured. A busy host makes that longer, too."""
        longest, median = max(((row["time_us"]["max"] - row["time_us"]["median"]) / 1e6, row["time_us"]["median"] / 1e6) for row in rows)
        self.judge_time("beyond an operation's median", longest, begin, end, more=WAITS * median)

    def judge_time(self, what, took, begin, end, limit=None, more=0):
        """Against the cell's bound, or another one, and what the host took meanwhile."""
        limit, slack = limit or bound(*self.cell, self.expected), self.witness.slack(begin, end) + more
        self.times.append(f"{took:.2f} s {what} (bound {limit:g} s, and {slack:.2f} s for the host)")
        if took > limit + slack:
            raise Broken("took too long: " + self.times[-1])

    # ---- the whole ----

    def run(self):
        try:
            self.play()
            self.judge()
            self.judge_felt()
        finally:
            self.end_all()

    def end_all(self):
        for timer in self.timers:
            timer.cancel()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
