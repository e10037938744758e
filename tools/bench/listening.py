"""When a process of a node listens at a port."""

import time

PATIENCE_S = 60     # on a busy machine that may be seconds after its start; only one that hangs takes longer
LISTEN = "0A"       # a state in /proc/PID/net/tcp


def listens(server, port):
    """Whether somebody listens at the port in the network of the server's process."""
    with open(f"/proc/{server.pid}/net/tcp", encoding="ascii") as file:
        sockets = [line.split() for line in file.readlines()[1:]]
    return any(fields[1].endswith(f":{port:04X}") and fields[3] == LISTEN for fields in sockets)


def wait_for(server, port):
    """False if it ends before, or does not listen for a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while not listens(server, port):
        if server.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
