"""What must happen: for each process, moment and fault one outcome. specs/design/chaos.md has the same table."""

# The process that has the fault.
JOB_PROCESSES = ("runner", "agent")  # of a job on three hosts; the others are started by hand
PROCESSES = ("server", "rank", *JOB_PROCESSES)

# When it has it.
MOMENTS = {
    "connect": "before ranks connect (others: as they start)",
    "join": "rank 0 waits for the others",
    "first": "all have joined, and the first operation is on its way",
    "steady": "half a second later",
    "recovery": "another server was killed a moment ago",
    "drain": "another server was told to end a moment ago",
}

# What it has.
FAULTS = {
    "kill": "SIGKILL",
    "stop": "SIGSTOP, and SIGCONT 5 s later",
    "term": "SIGTERM",
    "reset": "its connections are reset, and new ones too",
    "half-open": "nothing arrives any more, and nobody is told",
    "delay": "for 3 s everything arrives 200 ms late",
    "loss": "for 3 s packets are lost, where a queue of 20 KB at 20 Mbit/s overflows",
    "short": "for 3 s at most 7 bytes arrive at once",
}

CONTINUES = "continues"  # every rank ends with 0 and has all results
ENDS = "ends"            # every rank that lives ends with 1 within some time, and who was lost is named: a rank by every
                         # other, a server by those that cannot reach it, and these by the others

GENTLE = {"stop", "delay", "loss", "short"}


def outcome(process, moment, fault):
    if fault in GENTLE:
        return CONTINUES
    if process in ("rank", "runner"):
        return ENDS
    if process == "agent":  # another one comes, and the job begins again; not before its hosts are there, nor without a network
        return CONTINUES if fault in ("kill", "term") and moment != "connect" else ENDS
    # Nobody begins without a server that no rank has ever reached.
    return ENDS if moment == "connect" else CONTINUES


def all_cells():
    return [(process, moment, fault) for process in PROCESSES for moment in MOMENTS for fault in FAULTS]


def name_of(cell):
    return "/".join(cell)
