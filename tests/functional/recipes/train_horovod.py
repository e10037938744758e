"""Stands in for hvd.init() over MPI: rank and size from the world, the local ones from those who share the memory."""

import os

from mpi4py import MPI

import meeting

world = MPI.COMM_WORLD
local = world.Split_type(MPI.COMM_TYPE_SHARED)
assert int(os.environ["HOROVOD_FUSION_THRESHOLD"]) >= 128 << 20
meeting.report(world.Get_rank(), world.Get_size(), local.Get_rank(), world.allreduce(world.Get_rank() + 1))
