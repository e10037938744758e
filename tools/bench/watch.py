"""Watches for other work: processor time that went to processes outside of the lab, or was stolen by the host."""

import os
import time

import lab

TICKS = os.sysconf("SC_CLK_TCK")
PROCESSORS = len(os.sched_getaffinity(0))
KERNEL_THREAD = 0x00200000  # in the flags of /proc/PID/stat
TOLERATED = 0.04            # of all processors' time: what an idle system's own chores stay below


def stolen_s():
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) / TICKS


def is_inside(pid):
    """Whether a process of the host's list is one of the lab. Those of the lab may always be looked at."""
    try:
        return os.readlink(f"{pid}/ns/pid", dir_fd=lab.host_proc) == os.readlink("/proc/self/ns/pid")
    except PermissionError:
        return False


def read_stat(pid):
    """Fields of a process outside of the lab after its name, or None if it is inside, or gone."""
    try:
        if is_inside(pid):
            return None
        with open(os.open(f"{pid}/stat", os.O_RDONLY, dir_fd=lab.host_proc), encoding="utf-8",
                  errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def others_s():
    """Processor time of all processes outside and of their children that have ended. Kernel threads are left
    out: what they do here is the lab's own network."""
    ticks = 0
    for pid in filter(str.isdecimal, os.listdir(lab.host_proc)):
        stat = read_stat(pid)
        if stat and not int(stat[6]) & KERNEL_THREAD:
            ticks += sum(map(int, stat[11:15]))
    return ticks / TICKS


class Watch:
    """From its making to share(): which part of the processors was not to be had."""

    def __init__(self):
        self.begin = time.monotonic()
        self.before = stolen_s() + others_s()

    def share(self):
        span = max(time.monotonic() - self.begin, 0.01)
        return max(0.0, stolen_s() + others_s() - self.before) / (span * PROCESSORS)


def undisturbed(measure, tries, say):
    """The result of measure() and the share that was lost during it; repeated while that is too much. The
    least disturbed one counts."""
    best = None
    for attempt in range(1, tries + 1):
        watch = Watch()
        result = measure()
        share = watch.share()
        if best is None or share < best[1]:
            best = result, share
        if share <= TOLERATED:
            break
        say(f"other work took {share:.0%} of the processors"
            + (", measuring again" if attempt < tries else f", after {tries} tries: disturbed"))
    return best


def process_s(pid):
    """Processor time of a process in the lab so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        stat = file.read().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / TICKS
