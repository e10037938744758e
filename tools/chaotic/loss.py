"""Packets that are lost on their way to a socket: a filter at it drops one in so many, and who sent it finds that out as in any network.

Other connections of the same host lose nothing, and it needs no right and no module of the kernel.
"""

import ctypes
import socket
import struct

SO_ATTACH_FILTER = 26
SO_DETACH_FILTER = 27
SO_MEMINFO = 55
DROPS_AT = 32                        # in what SO_MEMINFO gives: the last of nine numbers
LOAD, IF_AT_LEAST, RETURN = 0x20, 0x35, 0x06
RANDOM = 0xfffff000 + 56             # SKF_AD_OFF + SKF_AD_RANDOM: 32 bits
ALL, NOTHING = 0xffffffff, 0         # of a packet


def begin(sock, share):
    """From now on it gets all but this share of the packets; so do those that it accepts."""
    steps = ((LOAD, 0, 0, RANDOM), (IF_AT_LEAST, 0, 1, int(share * 2**32)), (RETURN, 0, 0, ALL), (RETURN, 0, 0, NOTHING))
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(steps), ctypes.addressof(program)))


def end(sock):
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
    except FileNotFoundError:
        pass  # it has none


def lost(sock):
    """How many it did not get, so far."""
    return struct.unpack_from("I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, DROPS_AT + 4), DROPS_AT)[0]
