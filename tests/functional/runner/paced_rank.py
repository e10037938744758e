"""A rank that all-reduces 4 KiB, 64 KiB and 512 KiB in turn with pauses, so that it takes little of the processors however long a test
needs it, and checks every element:

    paced_rank.py LIBRARY RANKS FILE

All end with the operation in which rank 0 finds that FILE is there.
"""

import array
import ctypes
import os
import sys
import time

SIZES = [512, 8192, 65536]
PAUSE_S = 0.003
INT64, SUM = 4, 0  # enum smd_dtype, enum smd_op

library, ranks, file = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
library.smd_error_message.restype = ctypes.c_char_p
rank = int(os.environ["RANK"])


def check(result):
    if result < 0:
        sys.exit(f"rank {rank}: {library.smd_error_message().decode()}")


def values(count, factor):
    """The first element says whether this is the last operation."""
    return array.array("q", [0] + [(i % 7 + 1) * factor for i in range(1, count)])


def place(values):
    return ctypes.c_void_p(values.buffer_info()[0])


context, communicator = ctypes.c_void_p(), ctypes.c_void_p()
check(library.smd_context_create(None, ctypes.byref(context)))
check(library.smd_comm_create(context, b"paced", ranks, rank, ctypes.byref(communicator)))
inputs = [values(count, rank + 1) for count in SIZES]
sums = [values(count, ranks * (ranks + 1) // 2) for count in SIZES]
results = [values(count, 0) for count in SIZES]
number = 0
while not results[(number - 1) % len(SIZES)][0]:
    size = number % len(SIZES)
    inputs[size][0] = rank == 0 and os.path.exists(file)
    check(library.smd_allreduce(communicator, place(inputs[size]), place(results[size]), ctypes.c_size_t(SIZES[size]), INT64, SUM))
    if results[size][1:] != sums[size][1:]:
        sys.exit(f"rank {rank}: operation {number} has a wrong element")
    number += 1
    time.sleep(PAUSE_S)
library.smd_comm_destroy(communicator)
library.smd_context_destroy(context)
print(f"{number} operations, all right")
