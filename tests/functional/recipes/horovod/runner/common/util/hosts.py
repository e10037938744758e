"""Stands in for Horovod's module of this name: which rank is which process of which host."""

import collections

SlotInfo = collections.namedtuple("SlotInfo", "hostname rank local_rank cross_rank size local_size cross_size")


def parse_hosts(hosts_string):
    return [(name, int(slots)) for name, slots in (each.strip().split(":") for each in hosts_string.split(","))]


def get_host_assignments(hosts, min_num_proc, max_num_proc=None):
    size = sum(slots for _, slots in hosts)
    if size < min_num_proc:
        raise ValueError(f"Requested more processes ({min_num_proc}) than there are available slots ({size})")
    assert max_num_proc is None
    plan = []
    for name, slots in hosts:
        for local_rank in range(slots):
            same = [host for host, count in hosts if count > local_rank]
            plan.append(SlotInfo(name, len(plan), local_rank, same.index(name), size, slots, len(same)))
    return plan
