#!/usr/bin/env python3
"""Times PyTorch's all-reduce of float32 on a GPU, one process per rank, by NCCL (with the plugin or without it, as the environment
says), by gloo, or by Summand's backend, and looks at every result. Rank 0 prints a line for each size: bytes, the median and the
95th percentile in microseconds, and the processor time of this rank in microseconds for each operation."""

import argparse
import os
import time

import torch
import torch.distributed as dist

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
SECONDS = 2.0  # of each size, at most
MOST = 200


def read_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--nranks", type=int, required=True)
    parser.add_argument("--meet", required=True, metavar="FILE", help="by which the ranks find each other")
    parser.add_argument("--by", choices=["nccl", "gloo", "backend"], default="nccl", help="what sums")
    return parser.parse_args()


def measure(tensor, calls):
    """Seconds of each call, and the processor's of one."""
    times = []
    busy = time.process_time()
    for _ in range(calls):
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return sorted(times), (time.process_time() - busy) / calls


def agree_on_calls(tensor):
    """How many calls fit into the time, by the rank that took longest."""
    times, _ = measure(tensor, 3)
    slowest = torch.tensor([times[1]], device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return max(5, min(MOST, int(SECONDS / float(slowest))))


def check(size, options):
    tensor = torch.arange(size // 4, device="cuda", dtype=torch.float32).remainder_(8191).add_(options.rank)
    dist.all_reduce(tensor)
    wanted = torch.arange(size // 4, device="cuda", dtype=torch.float32).remainder_(8191).mul_(options.nranks)
    assert torch.equal(tensor, wanted.add_(options.nranks * (options.nranks - 1) / 2)), f"a sum of {size} bytes is wrong"


def main():
    options = read_options()
    torch.cuda.set_device(0)
    if options.by == "backend":
        import summand.backend  # noqa: F401 (registers it)
    dist.init_process_group({"backend": "summand"}.get(options.by, options.by),
                            init_method=f"file://{os.path.abspath(options.meet)}", rank=options.rank, world_size=options.nranks)
    for size in SIZES:
        check(size, options)
        tensor = torch.zeros(size // 4, device="cuda").add_(options.rank / 1024)
        times, busy = measure(tensor, agree_on_calls(tensor))
        if options.rank == 0:
            print(f"{size} {times[len(times) // 2] * 1e6:.1f} {times[len(times) * 95 // 100] * 1e6:.1f} {busy * 1e6:.1f}", flush=True)
    dist.destroy_process_group()


main()
