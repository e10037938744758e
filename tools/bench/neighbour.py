"""Another job's bytes over a link: one end sends as many a second as it is told, the other takes them.

    neighbour.py take ADDRESS PORT              says how many bytes it has taken, a line each 0.1 s
    neighbour.py send ADDRESS PORT BITS         so many a second
"""

import socket
import sys
import time

PACING = 47         # SO_MAX_PACING_RATE of Linux
BLOCK = 1 << 16
TOLD_S = 0.1


def take(address, port):
    taken, told = 0, 0.0
    with socket.create_server((address, port)) as listener:
        print("ready", flush=True)
        with listener.accept()[0] as stream:
            while received := stream.recv(BLOCK):
                taken += len(received)
                if time.monotonic() > told + TOLD_S:
                    told = time.monotonic()
                    print(taken, flush=True)


def send(address, port, bits):
    with socket.create_connection((address, port)) as stream:
        stream.setsockopt(socket.SOL_SOCKET, PACING, bits // 8)
        while True:
            stream.sendall(bytes(BLOCK))


if __name__ == "__main__":
    if sys.argv[1] == "take":
        take(sys.argv[2], int(sys.argv[3]))
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
