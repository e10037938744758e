#!/usr/bin/env python3
"""Trains a small network with PyTorch's DistributedDataParallel, one process per rank, all on one GPU (on the CPU
where there is none), and tells the loss, a hash of the weights and the time of a step. What averages the gradients is
NCCL (with the plugin or without it, as the environment says), gloo, Summand's hook, or Summand's backend."""

import argparse
import hashlib
import os
import time

# Products of matrices give the same bits every time; must be set before CUDA starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH = 2048


def read_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--nranks", type=int, required=True)
    parser.add_argument("--meet", required=True, metavar="FILE", help="by which the ranks find each other")
    parser.add_argument("--by", choices=["nccl", "gloo", "hook", "backend"], default="nccl", help="what averages the gradients")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--weights", metavar="FILE", help="that rank 0 writes them into, as float32")
    return parser.parse_args()


def register_hook(model):
    import summand.ddp
    return summand.ddp.register(model)


def train(options, device):
    """The last loss of this rank, the weights, and the seconds of a step."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(),
              torch.nn.Linear(WIDTH, 1)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device), bucket_cap_mb=64)
    state = register_hook(model) if options.by == "hook" else None
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    numbers = torch.Generator().manual_seed(2 + options.rank)
    inputs = torch.randn(64, 64, generator=numbers).to(device)
    wanted = inputs.sum(1, keepdim=True).tanh()
    begin = 0.0
    for step in range(options.steps):
        if step == options.steps // 3:
            begin = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        last = loss.item()  # waits for the device
    seconds = (time.perf_counter() - begin) / (options.steps - options.steps // 3)
    weights = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters())
    if state:
        state.close()
    return last, weights, seconds


def main():
    options = read_options()
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda:0" if has_gpu else "cpu")
    torch.use_deterministic_algorithms(True)
    if has_gpu:
        torch.cuda.set_device(device)
    if options.by == "backend":
        import summand.backend  # noqa: F401 (registers it)
    backend = {"nccl": "nccl" if has_gpu else "gloo", "backend": "summand"}.get(options.by, "gloo")
    dist.init_process_group(backend, init_method=f"file://{os.path.abspath(options.meet)}",
                            rank=options.rank, world_size=options.nranks)
    loss, weights, seconds = train(options, device)
    if options.weights and options.rank == 0:
        with open(options.weights, "wb") as file:
            file.write(weights)
    digest = hashlib.sha256(weights).hexdigest()[:16]
    version = ".".join(map(str, torch.cuda.nccl.version())) if has_gpu and dist.is_nccl_available() else "none"
    print(f"loss {loss:.9g} weights {digest} step {seconds * 1e3:.3f} ms, PyTorch {torch.__version__}, NCCL {version}")
    dist.destroy_process_group()


main()
