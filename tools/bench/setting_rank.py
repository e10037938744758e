"""A rank of bench-setting: two contexts with different settings, and pairs of blocks of all-reduces, one block in each.

    setting_rank.py LIBRARY NRANKS RANK ELEMENTS FOLDER

SETTING, in the environment, is the tool's options. Rank 0 writes FOLDER/report and ends the lab by failing, since servers go on.
"""

import array
import ctypes
import json
import os
import random
import sys
import time

import steady_rank

LIBC = ctypes.CDLL(None)
WARM_S = 2      # of each context
BLOCK_US = 20000
PERIOD = 65521  # of the input, in elements: no chunk's
MAX = 2         # of summand.h
PATIENCE_S = 60 # for rank 0 to write its report
DONE = 99       # rank 0 ends with it, and the others with it


class Half:
    """A context with one of the two settings, and its communicator."""

    def __init__(self, library, variable, value, nranks, rank, elements):
        os.environ[variable] = value    # and so libc's
        self.library, self.elements, self.first = library, elements, None
        context, self.comm = ctypes.c_void_p(), ctypes.c_void_p()
        steady_rank.must(library, library.smd_context_create(None, ctypes.byref(context)))
        steady_rank.must(library, library.smd_comm_create(
            context, f"{variable}={value}".encode(), nranks, rank, ctypes.byref(self.comm)))
        numbers = random.Random(rank)
        some = array.array("f", (numbers.uniform(0.5, 1) for _ in range(min(elements, PERIOD))))
        mine = (some * (elements // len(some) + 1))[:elements]
        self.send = (ctypes.c_float * elements).from_buffer(mine)
        self.recv = (ctypes.c_float * elements)()
        self.flag = (ctypes.c_float * 1)()

    def reduce(self, count):
        """So many operations; microseconds for each."""
        ctypes.memset(self.recv, steady_rank.STALE, ctypes.sizeof(self.recv))
        begin = time.monotonic()
        for _ in range(count):
            steady_rank.must(self.library, self.library.smd_allreduce(
                self.comm, self.send, self.recv, ctypes.c_size_t(self.elements), steady_rank.FLOAT32, steady_rank.SUM))
        us = (time.monotonic() - begin) * 1e6 / count
        self.first = self.first or ctypes.string_at(self.recv, 4 * self.elements)
        if LIBC.memcmp(self.recv, self.first, ctypes.c_size_t(4 * self.elements)):
            raise steady_rank.Failed("a sum differs from the first")
        return us

    def agree(self, value):
        """The largest value of all ranks."""
        self.flag[0] = value
        steady_rank.must(self.library, self.library.smd_allreduce(
            self.comm, self.flag, self.flag, ctypes.c_size_t(1), steady_rank.FLOAT32, MAX))
        return self.flag[0]


def warm(half):
    """Until some rank has worked for so long; microseconds for an operation at the end."""
    begin = time.monotonic()
    us = half.reduce(2)
    while half.agree(0.0 if time.monotonic() - begin < WARM_S else 1.0) == 0:
        us = half.reduce(4)
    return us


def main(path, nranks, rank, elements, folder):
    options = json.loads(os.environ["SETTING"])
    library = ctypes.CDLL(path)
    halves = [Half(library, options["variable"], value, nranks, rank, elements) for value in options["values"]]
    us = max(half.agree(warm(half)) for half in halves)
    block = options["block"] or max(2, int(BLOCK_US / us))
    pairs = []
    for pair in range(options["pairs"]):
        times = [0.0, 0.0]
        for i in ((0, 1), (1, 0))[pair % 2]:
            times[i] = halves[i].reduce(block)
        pairs.append(times)
    halves[0].agree(0.0)
    if rank == 0:
        with open(os.path.join(folder, "report.part"), "w", encoding="ascii") as file:
            json.dump({"block": block, "pairs": pairs}, file)
        os.rename(os.path.join(folder, "report.part"), os.path.join(folder, "report"))
    else:
        time.sleep(PATIENCE_S)  # rank 0 ends it
    return DONE


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]))
    except steady_rank.Failed as error:
        sys.exit(f"setting_rank: {error}")
