"""What any program of PyTorch does: the process group by its variables (env://)."""

import os

import torch
import torch.distributed

import meeting

torch.distributed.init_process_group("gloo")
part = torch.tensor([torch.distributed.get_rank() + 1])
torch.distributed.all_reduce(part)
meeting.report(torch.distributed.get_rank(), torch.distributed.get_world_size(), int(os.environ["LOCAL_RANK"]), int(part))
