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

# What detect() of Slurm's, torchrun's, Kubeflow's and LSF's environment looks for, which come before Lightning's own.
for name in "SLURM_NTASKS", "TORCHELASTIC_RUN_ID", "KUBERNETES_PORT", "LSB_JOBID":
    assert name not in os.environ, name
# LightningEnvironment.creates_processes_externally: LOCAL_RANK means that others start the processes.
is_first = "LOCAL_RANK" not in os.environ
children = []
if is_first:
    for local_rank in range(1, args.devices):
        env = dict(os.environ, LOCAL_RANK=str(local_rank), NODE_RANK=os.environ["NODE_RANK"],
                   WORLD_SIZE=str(args.num_nodes * args.devices))
        children.append(subprocess.Popen([sys.executable, *sys.argv], env=env))
local_rank = int(os.environ.get("LOCAL_RANK", 0))
node_rank = int(os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", 0)))
meeting.meet(node_rank * args.devices + local_rank, args.num_nodes * args.devices, local_rank,
             os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
sys.exit(max([child.wait() for child in children], default=0))
