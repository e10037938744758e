"""Stands in for Lightning: reads what its LightningEnvironment reads, and starts processes as its launcher does."""

import argparse
import os
import subprocess
import sys

import meeting

parser = argparse.ArgumentParser()
parser.add_argument("--num_nodes", type=int)
parser.add_argument("--devices", type=int)
args = parser.parse_args()

# LightningEnvironment.creates_processes_externally: LOCAL_RANK means that others start the processes, and
# TorchElasticEnvironment.detect: TORCHELASTIC_RUN_ID that torchrun does.
is_first = "LOCAL_RANK" not in os.environ
assert "TORCHELASTIC_RUN_ID" not in os.environ
children = []
if is_first:
    for local_rank in range(1, args.devices):
        children.append(subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, LOCAL_RANK=str(local_rank))))
local_rank = int(os.environ.get("LOCAL_RANK", 0))
node_rank = int(os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", 0)))
meeting.meet(node_rank * args.devices + local_rank, args.num_nodes * args.devices, local_rank,
             os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
sys.exit(max([child.wait() for child in children], default=0))
