"""What any program of mpi4py does; and Open MPI's variables say the same as MPI."""

import os

from mpi4py import MPI

import meeting

world = MPI.COMM_WORLD
assert int(os.environ["OMPI_COMM_WORLD_RANK"]) == world.Get_rank()
assert int(os.environ["OMPI_COMM_WORLD_SIZE"]) == world.Get_size()
meeting.report(world.Get_rank(), world.Get_size(), int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]),
               world.allreduce(world.Get_rank() + 1))
