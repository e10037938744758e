"""A rank that reduces little in one communicator, again and again, and much in another one meanwhile.

    mixed_rank.py LIBRARY NRANKS RANK ELEMENTS STOP SMALL_ELEMENTS

Of ELEMENTS and of SMALL_ELEMENTS; with 0 ELEMENTS the small ones are alone, and with 0 SMALL_ELEMENTS the large ones. Rank 0 says
`small N MICROSECONDS` and `large N MICROSECONDS`. When the file STOP is there it has all ranks end both: the last element says so.
"""

import array
import ctypes
import os
import sys
import threading
import time

import steady_rank

LIBC = ctypes.CDLL(None)


class Wrong(Exception):
    """A sum is not what it must be."""


def reduce_again(library, comm, ranks, rank, elements, stop, what):
    mine = array.array("f", (float(k % 1024) for k in range(elements)))
    wanted = (ctypes.c_float * elements).from_buffer(array.array("f", (ranks * number for number in mine)))
    mine.append(0)
    send = (ctypes.c_float * len(mine)).from_buffer(mine)
    recv = (ctypes.c_float * len(mine))()
    operation = 0
    while recv[elements] == 0:
        mine[elements] = rank == 0 and os.path.exists(stop)
        ctypes.memset(recv, steady_rank.STALE, ctypes.sizeof(wanted))
        begin = time.monotonic()
        steady_rank.must(library, library.smd_allreduce(
            comm, send, recv, ctypes.c_size_t(len(mine)), steady_rank.FLOAT32, steady_rank.SUM))
        us = (time.monotonic() - begin) * 1e6
        if LIBC.memcmp(recv, wanted, ctypes.c_size_t(ctypes.sizeof(wanted))):
            raise Wrong(f"the sum of {what} operation {operation} is wrong")
        if rank == 0:
            os.write(sys.stdout.fileno(), f"{what} {operation} {us:.0f}\n".encode())  # whole, whatever the other thread says
        operation += 1


def main(path, ranks, rank, elements, stop, small):
    library = ctypes.CDLL(path)
    context = ctypes.c_void_p()
    steady_rank.must(library, library.smd_context_create(None, ctypes.byref(context)))
    wrong = []

    def run(comm, *work):
        try:
            reduce_again(library, comm, ranks, rank, *work)
        except (Wrong, steady_rank.Failed) as error:
            print(f"mixed_rank: {error}", file=sys.stderr)
            wrong.append(error)
            os._exit(1)  # the other thread waits for ranks that go on

    threads, comms = [], []
    for what, count in (("large", elements), ("small", small)):
        if count:
            comm = ctypes.c_void_p()
            steady_rank.must(library, library.smd_comm_create(context, what.encode(), ranks, rank, ctypes.byref(comm)))
            comms.append(comm)
            threads.append(threading.Thread(target=run, args=(comm, count, stop, what)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for comm in comms:
        library.smd_comm_destroy(comm)
    library.smd_context_destroy(context)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5], int(sys.argv[6])))
