"""How late this host lets anybody be: a thread that sleeps a little, works a little, and notes by how much both took too long.

A busy host, or this tool itself, makes everything slower, and bounds are not to judge that. What goes on in a cell waits for a
processor several times, one after the other, so a bound grows by several times the longest wait that the witness had meanwhile.
"""

import threading
import time

SLEEP_S = 0.01
WORK_S = 0.0005
WAITS = 5  # one after the other


class Witness:
    def __init__(self):
        self.waits = []  # when, and for how long
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            began = time.monotonic()
            time.sleep(SLEEP_S)
            work_until = time.thread_time() + WORK_S
            while time.thread_time() < work_until:
                pass
            now = time.monotonic()
            self.waits.append((now, now - began - SLEEP_S - WORK_S))

    def slack(self, begin, end):
        """What a bound may be exceeded by for the sake of what there was between these moments."""
        return WAITS * max((wait for when, wait in self.waits if begin <= when <= end + SLEEP_S), default=0)
