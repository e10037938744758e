"""A rank that reduces the same numbers again and again, and compares the bits of all results with those of the first.

    steady_rank.py LIBRARY NRANKS RANK ELEMENTS STOP

Rank 0 says `operation N MICROSECONDS` after each; when the file STOP is there it has all ranks end. The sums are of numbers that
have no exact ones, so another order of ranks, or a chunk of another operation, would change them. Exit code 1: bits have changed.
"""

import array
import ctypes
import os
import random
import sys
import time

FLOAT32, SUM = 7, 0  # of summand.h
STALE = 0xa5


class Failed(Exception):
    """A call of the library returned an error."""


def must(library, result):
    if result:
        library.smd_error_message.restype = ctypes.c_char_p
        raise Failed(library.smd_error_message().decode())


def join(library, nranks, rank):
    context, comm = ctypes.c_void_p(), ctypes.c_void_p()
    must(library, library.smd_context_create(None, ctypes.byref(context)))
    must(library, library.smd_comm_create(context, b"steady", nranks, rank, ctypes.byref(comm)))
    return context, comm


def main(path, nranks, rank, elements, stop):
    library = ctypes.CDLL(path)
    context, comm = join(library, nranks, rank)
    numbers = random.Random(rank)
    mine = array.array("f", (numbers.uniform(-1, 1) for _ in range(elements)))
    mine.append(0)  # the last one is not compared: it is where rank 0 says that it ends
    send = (ctypes.c_float * len(mine)).from_buffer(mine)
    recv = (ctypes.c_float * len(mine))()
    first, operation = None, 0
    while recv[elements] == 0 or operation == 0:
        mine[elements] = rank == 0 and os.path.exists(stop)
        ctypes.memset(recv, STALE, ctypes.sizeof(recv))
        begin = time.monotonic()
        must(library, library.smd_allreduce(comm, send, recv, ctypes.c_size_t(len(mine)), FLOAT32, SUM))
        us = (time.monotonic() - begin) * 1e6
        bits = ctypes.string_at(recv, 4 * elements)
        first = first or bits
        if bits != first:
            print(f"steady_rank: the bits of operation {operation} differ from those of the first", file=sys.stderr)
            return 1
        if rank == 0:
            print(f"operation {operation} {us:.0f}", flush=True)
        operation += 1
    library.smd_comm_destroy(comm)
    library.smd_context_destroy(context)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]))
