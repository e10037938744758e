"""Stands in for Hugging Face's TrainingArguments, which want the local rank as an argument or a variable."""

import argparse
import os

import meeting

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
assert args.local_rank == int(os.environ["LOCAL_RANK"])
meeting.meet(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args.local_rank,
             os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
