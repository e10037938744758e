"""Stands in for DeepSpeed's launcher on each node: --world_info says which node has which GPUs."""

import argparse
import base64
import json
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--world_info", required=True)
parser.add_argument("--node_rank", type=int, required=True)
parser.add_argument("--master_addr", required=True)
parser.add_argument("--master_port", type=int, required=True)
parser.add_argument("script")
parser.add_argument("args", nargs=argparse.REMAINDER)
args = parser.parse_args()
nodes = list(json.loads(base64.urlsafe_b64decode(args.world_info)).values())
first = sum(map(len, nodes[:args.node_rank]))
children = []
for local_rank in range(len(nodes[args.node_rank])):
    env = dict(os.environ, MASTER_ADDR=args.master_addr, MASTER_PORT=str(args.master_port),
               WORLD_SIZE=str(sum(map(len, nodes))), CROSS_RANK=str(args.node_rank), CROSS_SIZE=str(len(nodes)),
               LOCAL_SIZE=str(len(nodes[args.node_rank])), RANK=str(first + local_rank), LOCAL_RANK=str(local_rank))
    children.append(subprocess.Popen([sys.executable, "-u", args.script, f"--local_rank={local_rank}", *args.args], env=env))
sys.exit(max(child.wait() for child in children))
