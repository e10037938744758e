"""Stands in for deepspeed.init_distributed() below DeepSpeed's launcher, which passes --local_rank too."""

import argparse
import os

import meeting

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
args = parser.parse_args()
assert args.local_rank == int(os.environ["LOCAL_RANK"])
meeting.meet(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args.local_rank,
             os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
