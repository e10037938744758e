"""What must happen: for each process, moment and fault one outcome and the seconds that it may take. specs/design/chaos.md has the same table."""

# The process that has the fault.
JOB_PROCESSES = ("runner", "agent")  # of a job on three hosts; the others are started by hand
RANKS_DIE = ("leader", "rank")
PROCESSES = {
    "server": "one of three reduction servers",
    "reducer": "the reducer on a worker's host, of three beside two servers",
    "servers": "all reduction servers at once",
    "leader": "rank 0, which leads epochs",
    "rank": "rank 1 or 2",
    "runner": "of a job",
    "agent": "of one of a job's hosts",
}

# When it has it.
MOMENTS = {
    "connect": "before ranks connect (others: as they start)",
    "join": "ranks wait for another one",
    "first": "all have joined, and the first operation is on its way",
    "steady": "half a second later",
    "recovery": "another server was killed a moment ago",
    "drain": "another server was told to end a moment ago",
    "return": "a server that was killed has been started again a moment ago",
}

# What it has.
FAULTS = {
    "kill": "SIGKILL",
    "stop": "SIGSTOP, and SIGCONT 5 s later",
    "term": "SIGTERM",
    "reset": "its connections are reset, and new ones too",
    "half-open": "nothing arrives any more, and nobody is told",
    "delay": "for 3 s everything arrives 200 ms late",
    "loss": "for 3 s a tenth of its packets are lost, of a runner's or agent's few a third",
    "short": "for 3 s each read gets 1 to 1000 bytes",
}

CONTINUES = "continues"  # every rank ends with 0 and has all results
ENDS = "ends"            # every rank that lives ends with 1, and names the rank or server that was lost
EITHER = "either"        # with a limit of silence that is longer than the fault all goes on, with a shorter one all ends

GENTLE = {"stop", "delay", "loss", "short"}
OF_PROCESSES = {"kill", "stop", "term"}  # the others are the network's, which memory that rank and server share does without
MET = {"reset": "connections reset", "half-open": "pieces held back", "delay": "pieces late", "loss": "packets lost",
       "short": "short reads"}


def transport_of(fault):
    """What ranks are told to use, all being on one host."""
    return "auto" if fault in OF_PROCESSES else "tcp"


def outcome(process, moment, fault):
    if process == "servers" and fault == "stop" and moment != "connect":
        return EITHER
    if fault in GENTLE:
        return CONTINUES
    if process in ("leader", "rank", "runner"):
        return ENDS
    if process == "servers":  # those that are told to end do so when the ranks have
        return CONTINUES if fault == "term" and moment not in ("connect", "join") else ENDS
    if process == "agent":  # another one comes, and the job begins again; not before its hosts are there, nor without a network
        return CONTINUES if fault in ("kill", "term") and moment != "connect" else ENDS
    return CONTINUES


# Seconds.
STALL = 0.2           # of a loss: agreement and repair
SILENT_SERVER = 5.9   # until it is found: the limit of 5 s, and two looks, of which there are twelve in it
LONG, SHORT = 10, 2   # the limits that there are where the one or the other happens
SILENT_SOON = 2.4     # until it is found with the short one
TAKEN = 2             # more, where no server is left and something takes connections to one: it may stand still for a moment
SILENT_RANK = SILENT_HOST = 17.5
CONNECTING = 20       # what ranks are told to wait for whom they cannot reach, and then they begin without, or end where nobody is left
LATE = 3.5            # until a late rank has begun without a server that others have lost
BEGIN = 10            # until a job's ranks have begun, or begun again
RESTARTS = 25         # until a job has begun again three times, and fails
NO_AGENT = 10         # that a job is told to wait for an agent
# An operation's wait for what ends by itself: where a loss is agreed on and mended meanwhile, more than ten late messages follow each other.
SOFT = {"stop": 5.5, "delay": 3, "loss": 6, "short": 3.5}


def may_end(cell):
    """What may happen, one of which is drawn."""
    return (CONTINUES, ENDS) if outcome(*cell) == EITHER else (outcome(*cell),)


def bound(process, moment, fault, expected=None):
    """Within which it happens. Of what continues: until all have joined, if they had not, and how much longer than others any
    operation may take. Of what ends: until all that live have."""
    expected = expected or outcome(process, moment, fault)
    if process in JOB_PROCESSES:
        if expected == CONTINUES:
            return SOFT.get(fault, 0) + BEGIN
        if fault == "half-open":  # a host is lost, as at `connect` where its agent was faster; then its agent does not come, again and again
            return RESTARTS + SILENT_HOST + 3 * NO_AGENT
        return RESTARTS
    losses = 2 if moment in ("recovery", "drain", "return") else 1
    if expected == CONTINUES:
        late = 0 if fault in GENTLE else {"join": LATE, "connect": CONNECTING + 1}.get(moment, 0)
        return late + SOFT.get(fault, SILENT_SERVER if fault == "half-open" else 0) + losses * STALL
    if moment == "connect":
        return CONNECTING + 1
    taken = TAKEN if process == "servers" else 0
    if fault == "stop":
        return SILENT_SOON + taken + 1
    if fault == "half-open":
        return (SILENT_SERVER if process == "servers" else SILENT_RANK) + taken + 1
    return 1


def all_cells():
    return [(process, moment, fault) for process in PROCESSES for moment in MOMENTS for fault in FAULTS]


def name_of(cell):
    return "/".join(cell)


def words_of(cell):
    """Its place in the table."""
    return " or ".join(f"{each} {bound(*cell, each):g}" for each in may_end(cell))
