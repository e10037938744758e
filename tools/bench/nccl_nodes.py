"""Nodes of the NCCL plugin on this machine: what many processes of tests/vertex_worker say of themselves."""

import os
import re
import socket
import subprocess
import tempfile
import time

SAYS = {"agreed_ms": r"^connected: ([\d.]+) ms", "busy_ms": r"busy ([\d.]+) ms$", "sum_us": r"^median: ([\d.]+) us", "kib": r"^memory: (\d+) KiB"}
LOOK_S = 0.2
NAP_US = 100  # for each node, between looks for results: as NCCL's threads look, a thousand would leave nothing of two processors


class Failure(Exception):
    """A node has failed."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def words_of(file):
    file.seek(0)
    return file.read().strip()


def read(file):
    """What a node has said, by the names of SAYS, and that all of its sums were right."""
    said = words_of(file)
    found = {name: re.search(pattern, said, re.MULTILINE) for name, pattern in SAYS.items()}
    if not all(found.values()) or ", 0 wrong elements" not in said:
        raise Failure(f"a node has failed: {said[-600:]}")
    return {name: float(match[1]) for name, match in found.items()}


def await_all(nodes, files, deadline):
    """The first that fails is told of: what the others say is of that."""
    while any(node.poll() is None for node in nodes):
        for rank, node in enumerate(nodes):
            if node.returncode:
                raise Failure(f"node {rank} has failed: {words_of(files[rank])[-600:]}")
        if time.monotonic() > deadline:
            raise Failure(f"{sum(node.poll() is None for node in nodes)} of {len(nodes)} nodes have not ended in time")
        time.sleep(LOOK_S)


def run(build, addresses, nnodes, size, times, patience):
    """Each does `times` all-reduces of `size` bytes; what each has said, node 0 first."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    variables.update(LD_LIBRARY_PATH=os.path.join(build, "lib"), NCCL_NET_PLUGIN="summand", NCCL_COLLNET_ENABLE="1", NCCL_SOCKET_IFNAME="lo",
                     SUMMAND_REDUCTION_SERVERS=addresses, SUMMAND_CONNECT_TIMEOUT=str(patience), MASTER_ADDR="127.0.0.1",
                     MASTER_PORT=str(free_port()), WORLD_SIZE=str(nnodes), WORKER_BYTES=str(size), WORKER_TIMES=str(times),
                     WORKER_NAP=str(NAP_US * nnodes))
    files = [tempfile.TemporaryFile("w+") for _ in range(nnodes)]  # pipes would be full before all have been read
    nodes = []
    try:
        for rank, file in enumerate(files):
            nodes.append(subprocess.Popen([os.path.join(build, "tests", "vertex_worker")], env=variables | {"RANK": str(rank)}, stdout=file,
                                          stderr=subprocess.STDOUT))
        await_all(nodes, files, time.monotonic() + patience)
        return [read(file) for file in files]
    finally:
        for node in nodes:
            node.kill()  # one that has ended has been waited for
            node.wait()
        for file in files:
            file.close()
