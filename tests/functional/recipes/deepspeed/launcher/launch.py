"""Stands in for DeepSpeed's launcher on each node: --world_info says which node has which GPUs."""

import argparse
import base64
import json
import os
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--node_rank", type=int, default=0)
parser.add_argument("--master_addr", default="127.0.0.1")
parser.add_argument("--master_port", type=int, default=29500)
parser.add_argument("--world_info", default="None")
parser.add_argument("training_script")
parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
args = parser.parse_args()
nodes = list(json.loads(base64.urlsafe_b64decode(args.world_info)).values())
gpus = nodes[args.node_rank]
first = sum(map(len, nodes[:args.node_rank]))
children = []
for place in range(len(gpus)):
    rank = first + place
    # The GPUs are those of --world_info, whichever the launcher was given itself.
    env = dict(os.environ, CUDA_VISIBLE_DEVICES=",".join(map(str, gpus)), MASTER_ADDR=args.master_addr,
               MASTER_PORT=str(args.master_port), WORLD_SIZE=str(sum(map(len, nodes))), CROSS_RANK=str(args.node_rank),
               CROSS_SIZE=str(len(nodes)), LOCAL_SIZE=str(len(gpus)), RANK=str(rank), LOCAL_RANK=str(rank % len(gpus)))
    words = [sys.executable, "-u", args.training_script, f"--local_rank={rank % len(gpus)}", *args.training_script_args]
    children.append(subprocess.Popen(words, env=env))
while any(child.poll() is None for child in children) and not any(child.poll() for child in children):
    time.sleep(0.1)
for child in children:  # those that are left when one fails
    if child.poll() is None:
        child.terminate()
sys.exit(max(abs(child.wait()) for child in children))
