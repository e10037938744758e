"""Stands in for hvd.init() with Gloo: its variables and their defaults, its three contexts, and its store over HTTP."""

import os
import socket
import time
import urllib.error
import urllib.request

import meeting

TIMEOUT_S = 30  # HOROVOD_GLOO_TIMEOUT_SECONDS


def number(name, default):
    return int(os.environ.get(name) or default)


class Store:
    """HTTPStore: a request is tried three times, half a second apart; 404 means that nobody has said it yet."""

    def __init__(self, scope, rank):
        address = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"]
        self.prefix = f"http://{address}:{number('HOROVOD_GLOO_RENDEZVOUS_PORT', -1)}/{scope}/"
        self.rank = rank

    def ask(self, method, key, body=None):
        for _ in range(3):
            try:
                request = urllib.request.Request(self.prefix + key, data=body, method=method)
                with urllib.request.urlopen(request) as answer:
                    return answer.read()
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
            except OSError:
                pass
            time.sleep(0.5)
        raise RuntimeError("HTTP request failed.")

    def wait(self, key):
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            value = self.ask("GET", key)
            if value is not None:
                return value.decode()
            time.sleep(0.01)
        raise TimeoutError(f"Wait timeout after {TIMEOUT_S} seconds for key(s): {key}")


def connect(scope, rank, size, mine):
    """What each rank of the context says of itself, by rank."""
    store = Store(scope, rank)
    store.ask("PUT", str(rank), mine.encode())
    others = [store.wait(str(each)) for each in range(size)]
    store.ask("DELETE", str(rank))  # Finalize(); once all of the scope have, the server forgets it
    return others


assert (os.environ["HOROVOD_CONTROLLER"], os.environ["HOROVOD_CPU_OPERATIONS"]) == ("gloo", "gloo")
rank, size = number("HOROVOD_RANK", 0), number("HOROVOD_SIZE", 1)
local_rank, local_size = number("HOROVOD_LOCAL_RANK", 0), number("HOROVOD_LOCAL_SIZE", 1)
cross_rank, cross_size = number("HOROVOD_CROSS_RANK", 0), number("HOROVOD_CROSS_SIZE", 1)
hostname = os.environ.get("HOROVOD_HOSTNAME", "localhost")
# Empty: the one that this host's name leads to.
assert os.environ["HOROVOD_GLOO_IFACE"] in ("", *(name for _, name in socket.if_nameindex()))

with socket.create_server(("127.0.0.1", 0)) as server:
    mesh = connect("global", rank, size, f"{rank} {server.getsockname()[1]}")
    local = connect("local_" + hostname, local_rank, local_size, str(rank))
    cross = connect(f"cross_{local_rank}", cross_rank, cross_size, str(rank))
    # Ranks go host by host.
    first = rank - local_rank
    assert local == [str(first + each) for each in range(local_size)], local
    assert cross == [str(each * local_size + local_rank) for each in range(cross_size)], cross
    assert [each.split()[0] for each in mesh] == [str(each) for each in range(size)], mesh
    # An all-reduce over the mesh: everyone tells everyone.
    for each in mesh:
        with socket.create_connection(("127.0.0.1", int(each.split()[1]))) as peer:
            peer.sendall((rank + 1).to_bytes(4, "big"))
    total = 0
    for _ in mesh:
        with server.accept()[0] as peer:
            total += int.from_bytes(peer.recv(4, socket.MSG_WAITALL), "big")
meeting.report(rank, size, local_rank, total)
