"""Stands in for ssh: carry.py FOLDER HOST COMMAND runs the command at the host, whose address is in FOLDER/HOST.address.

Its standard input and output reach the command over a connection that can have the network's faults; when that ends, this does.
What comes in pieces goes on in these pieces: the next one waits until the one before has been read.
"""

import array
import fcntl
import os
import socket
import stat
import sys
import termios
import threading
import time

TURN_S = 0.0002
PIECE = 1 << 16
LOST = 255


def send(connection):
    while piece := os.read(0, PIECE):
        connection.sendall(piece)
    connection.shutdown(socket.SHUT_WR)


def unread(fd):
    """Bytes of a pipe, or of a local socket, that its reader has not taken yet."""
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD if stat.S_ISFIFO(os.fstat(fd).st_mode) else termios.TIOCOUTQ, count)
    return count[0]


def give(piece):
    while piece:
        piece = piece[os.write(1, piece):]
    while unread(1):
        time.sleep(TURN_S)


def main(folder, host, command):
    with open(os.path.join(folder, host + ".address"), encoding="ascii") as file:
        address, port = file.read().rsplit(":", 1)
    words = command.encode()
    code = 0
    try:
        connection = socket.create_connection((address, int(port)))
        connection.sendall(b"%8d" % len(words) + words)
        threading.Thread(target=send, args=(connection,), daemon=True).start()
        while piece := connection.recv(PIECE):
            give(piece)
    except OSError as error:
        print(f"{host}: {error}", file=sys.stderr, flush=True)
        code = LOST
    os._exit(code)  # its thread may wait for the standard input


main(*sys.argv[1:])
