"""How late this host lets anybody be: a thread that sleeps a little, works a little, and notes by how much both took too long.

A busy host, or this tool itself, makes everything slower, and bounds are not to judge that. What goes on in a cell waits for a
processor several times, one after the other, so a bound grows by several times the longest wait that the witness had meanwhile. It goes
from processor to processor: a virtual machine may be without one of them for seconds, and who is there waits, while others work.
"""

import itertools
import os
import threading
import time

SLEEP_S = 0.01
WORK_S = 0.0005
WAITS = 5  # one after the other
AWAY_S = 1.5  # limits of silence are 2 s and more, and nobody can be blamed for them then


class Witness:
    def __init__(self):
        self.waits = []  # when they ended, and for how long they were
        self.began = time.monotonic()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        for processor in itertools.cycle(sorted(os.sched_getaffinity(0))):
            os.sched_setaffinity(0, {processor})  # of this thread alone
            time.sleep(SLEEP_S)
            work_until = time.thread_time() + WORK_S
            while time.thread_time() < work_until:
                pass
            now = time.monotonic()
            self.waits.append((now, now - self.began - SLEEP_S - WORK_S))
            self.began = now

    def away(self):
        """The longest wait, if a processor was away for so long that processes had to be taken for dead; else 0."""
        longest = max((wait for _, wait in self.waits), default=0)
        return longest if longest > AWAY_S else 0

    def slack(self, begin, end):
        """What a bound may be exceeded by for the sake of what there was between these moments, also what goes on."""
        now = time.monotonic()
        waits = self.waits + [(now, now - self.began - SLEEP_S - WORK_S)]
        return WAITS * max((wait for when, wait in waits if wait > 0 and begin <= when and when - wait <= end), default=0)
