"""Ranks of a test that are programs of Python beside it: torch finds them by MASTER_ADDR, Summand its servers by the environment."""

import os
import socket
import sys

from programs import ProgramTest

PACKAGE = os.path.join(os.environ["SUMMAND_BUILD"], "share", "summand", "python")
RANKS = 3


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RanksTest(ProgramTest):
    def start_ranks(self, program, servers, *words):
        """As many as RANKS run a program of this folder."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), program)
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS), "USE_LIBUV": "0",
                 "SUMMAND_REDUCTION_SERVERS": ",".join(servers), "PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1"}
        # start_program() joins a folder and a name; an absolute name stands for itself.
        return [self.start_program(sys.executable, path, *words, RANK=str(rank), SUMMAND_REPLICA=f"rank-{rank}", **place)
                for rank in range(RANKS)]
