"""No file includes a header of a room that stands above its own, or of one beside it.

ROOMS has every room once, the lowest first: what its paths begin with (the longest that fits counts), and which rooms
below it may include. It may also include what these may include. It is the table of specs/design/architecture.md,
with the rooms inside rooms.
"""

import os
import re
import sys

ROOMS = [
    ("reduction_server/base", []),
    ("reduction_server/wire", ["reduction_server/base"]),
    ("reduction_server/kernels", ["reduction_server/base"]),
    ("reduction_server/transport", ["reduction_server/wire"]),
    ("reduction_server/transport/tcp", ["reduction_server/transport"]),
    ("reduction_server/transport/rdma", ["reduction_server/transport"]),
    ("reduction_server/transport/shm", ["reduction_server/transport"]),
    ("reduction_server/transport/testing", ["reduction_server/transport"]),
    ("reduction_server/engine", ["reduction_server/transport", "reduction_server/kernels"]),
    ("reduction_server/metrics", ["reduction_server/transport"]),
    ("reduction_server/sandbox", ["reduction_server/base"]),
    ("reduction_server", ["reduction_server/engine", "reduction_server/metrics", "reduction_server/sandbox"]),
    ("worker/summand.h", ["reduction_server/base"]),
    ("worker/libsummand", ["worker/summand.h", "reduction_server/transport", "reduction_server/kernels"]),
    ("worker/nccl_plugin/abi", ["reduction_server/base"]),
    # It opens libibverbs late, so it defines what the RDMA transport calls.
    ("worker/nccl_plugin/device", ["worker/nccl_plugin/abi", "worker/libsummand", "reduction_server/transport/rdma"]),
    ("worker/nccl_plugin/net", ["worker/nccl_plugin/device"]),
    ("worker/nccl_plugin/collnet", ["worker/nccl_plugin/device"]),
    ("worker/nccl_plugin", ["worker/nccl_plugin/net", "worker/nccl_plugin/collnet"]),
    # It lists what it moved, so it knows the largest chunk of the wire.
    ("worker/perf", ["worker/summand.h", "reduction_server/kernels", "reduction_server/wire"]),
    ("worker/nccl_perf", ["worker/perf"]),
    ("worker/examples", ["worker/summand.h"]),
    ("orchestrator/job", ["reduction_server/base"]),
    ("orchestrator/document", ["orchestrator/job"]),
    ("orchestrator/frontend", ["orchestrator/document"]),
    ("orchestrator/frontend/azureml", ["orchestrator/frontend"]),
    ("orchestrator/frontend/gcloud", ["orchestrator/frontend"]),
    ("orchestrator/frontend/torch", ["orchestrator/frontend"]),
    ("orchestrator/frontend/vertex", ["orchestrator/frontend"]),
    # The one table of front ends.
    ("orchestrator/frontend/frontends.c", ["orchestrator/frontend/azureml", "orchestrator/frontend/gcloud",
                                           "orchestrator/frontend/vertex"]),
    ("orchestrator/plan", ["orchestrator/job"]),
    ("orchestrator/contract", ["orchestrator/job"]),
    ("orchestrator/intake", ["orchestrator/frontend", "orchestrator/plan", "orchestrator/contract"]),
    ("orchestrator/export", ["orchestrator/contract", "orchestrator/plan"]),
    # The keeper of a replica's command, and what all that deal with its end share.
    ("worker/agent", ["reduction_server/base"]),
    # Its proofs are HMACs, as those of lanes are.
    ("worker/mpi", ["reduction_server/wire", "worker/agent"]),
    # What crosses the connection of a host's agent: both ends use it.
    ("worker/agent/wire", ["worker/agent", "orchestrator/contract"]),
    ("worker/agent/host", ["worker/agent/wire"]),
    ("worker/agent/agent.c", ["worker/agent/host"]),
    ("orchestrator/engine", ["orchestrator/contract", "worker/agent"]),
    ("orchestrator/engine/local", ["orchestrator/engine"]),
    ("orchestrator/engine/slurm", ["orchestrator/engine"]),
    ("orchestrator/engine/ssh", ["orchestrator/engine"]),
    # Times are written as the agent writes them.
    ("orchestrator/store", ["orchestrator/job", "worker/agent"]),
    # It says which GPUs of a host are whose, and what its own host's addresses are.
    ("orchestrator/runner", ["orchestrator/engine", "orchestrator/store", "worker/agent/host", "reduction_server/metrics"]),
    # Which trial comes next is computed from the study alone.
    ("orchestrator/tuning/search", ["orchestrator/job"]),
    ("orchestrator/tuning", ["orchestrator/tuning/search", "worker/agent/host", "orchestrator/runner"]),
    # It finds addresses as servers do, and speaks to a job's runner as that does to agents.
    ("orchestrator/client", ["reduction_server/transport", "orchestrator/store", "worker/agent/wire"]),
    # It says where it listens as servers do, signs as they do, and what this machine has as its agent does.
    ("orchestrator/service", ["orchestrator/intake", "orchestrator/frontend/vertex", "orchestrator/tuning", "orchestrator/store",
                              "worker/agent/host", "reduction_server/metrics", "orchestrator/client"]),
    ("orchestrator/cli", ["orchestrator/intake", "orchestrator/service", "orchestrator/client", "orchestrator/frontend/frontends.c", "orchestrator/frontend/torch", "orchestrator/plan", "orchestrator/export",
                          "worker/agent/host", "orchestrator/tuning"]),
]

# Headers of the system that belong to some rooms: they are where the rest of the tree is kept from them.
SYSTEM = [
    (r"infiniband/|rdma/", ("reduction_server/transport/rdma", "worker/nccl_plugin/device")),
    (r"sys/socket|sys/un|netinet/|arpa/|netdb|ifaddrs|net/if",
     ("reduction_server/transport", "reduction_server/transport/tcp", "reduction_server/transport/rdma",
      "reduction_server/transport/shm", "worker/mpi", "reduction_server/sandbox",  # names the families that it forbids
      "worker/nccl_plugin/device", "worker/nccl_plugin/net", "worker/nccl_plugin/collnet",
      "worker/agent/wire", "worker/agent/host", "orchestrator/engine", "orchestrator/runner", "orchestrator/store", "orchestrator/client", "orchestrator/service")),
    (r"cuda\.h", ("worker/libsummand",)),
    (r"nccl\.h|cuda_runtime", ("worker/nccl_perf",)),
    (r"seccomp\.h|linux/capability\.h", ("reduction_server/sandbox",)),
    (r"yaml\.h", ("orchestrator/document", "orchestrator/cli")),
    (r"sqlite3\.h", ("orchestrator/store",)),
    (r"microhttpd\.h|gnutls/", ("orchestrator/service",)),
]

failures = 0


def fail(text):
    global failures
    failures += 1
    print(f"FAILED: {text}")


def closures():
    """What each room may include; rooms named by one must stand above it in the table, so there is no circle."""
    result = {}
    for room, uses in ROOMS:
        allowed = {room}
        for use in uses:
            if use not in result:
                fail(f"{room} may include rooms that stand before it in the table, got {use}")
            allowed |= result.get(use, set())
        result[room] = allowed
    return result


def room_of(path):
    fitting = [room for room, _ in ROOMS if path == room or path.startswith((room + "/", room + "."))]
    return max(fitting, key=len) if fitting else None


def check_file(path, allowed, where):
    room = room_of(path)
    if room is None:
        fail(f"{path} must lie in a room of the table")
        return
    folder = os.path.dirname(path)
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        own = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        system = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
        if own:
            header = next((p for p in (own[1], os.path.join(folder, own[1]), where.get(own[1], "")) if os.path.exists(p)), None)
            target = header and room_of(header)
            if target is None:
                fail(f"{path}:{number}: a header must be of a room, got {own[1]}")
            elif target not in allowed[room]:
                fail(f"{path}:{number}: {room} must not include {target}: {own[1]}")
        for pattern, rooms in SYSTEM if system else []:
            if re.match(pattern, system[1]) and room not in rooms:
                fail(f"{path}:{number}: only {' and '.join(rooms)} may include <{system[1]}>")


def main():
    os.chdir(os.environ["SUMMAND_SOURCE"])
    allowed = closures()
    files = [os.path.join(folder, name) for top in ("orchestrator", "reduction_server", "worker")
             for folder, _, names in os.walk(top) for name in names if re.search(r"\.(c|h|inc|cc)$", name)]
    where = {os.path.basename(path): path for path in files if "/include/" in path}  # as they are installed
    for path in sorted(files):
        check_file(path, allowed, where)
    for room, _ in ROOMS:
        if not any(room_of(path) == room for path in files):
            fail(f"{room} is in the table, and must have files")
    print(f"{len(files)} files in {len(ROOMS)} rooms")
    return 1 if failures or not files else 0


sys.exit(main())
