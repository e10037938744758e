"""Where the ranks of a recipe's job meet: each adds its part, and writes down what it got."""

import json
import os


def report(rank, world, local_rank, total):
    with open(f"rank-{rank}.json", "x", encoding="utf-8") as file:
        json.dump({"world": world, "local_rank": local_rank, "sum": total,
                   "replica": os.environ["SUMMAND_REPLICA"]}, file)


def meet(rank, world, local_rank, address, port):
    """All-reduces with PyTorch over Gloo."""
    import torch
    import torch.distributed

    torch.distributed.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=rank, world_size=world)
    part = torch.tensor([rank + 1])
    torch.distributed.all_reduce(part)
    report(rank, world, local_rank, int(part))
    torch.distributed.destroy_process_group()
