"""The lines of PyTorch in README.md run as they stand: two ranks train, and end with the same parameters."""

import debian_torch

debian_torch.require()

import os
import re
import socket
import subprocess
import sys
import textwrap
import unittest

from programs import PATIENCE_S, ProgramTest

NRANKS = 2
README = os.path.join(os.environ["SUMMAND_SOURCE"], "README.md")

# What README.md leaves to its reader: the network, and a loop. Each rank has examples of its own.
SCRIPT = """
import sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

network = torch.nn.Linear(8, 1)
torch.manual_seed(int(sys.argv[1]))

def train(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()

{lines}
print("weights", [parameter.tolist() for parameter in model.parameters()])
"""


def lines_of_readme():
    with open(README, encoding="utf-8") as file:
        found = re.findall(r"^```python\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)
    return found[0] if len(found) == 1 else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ReadmeTest(ProgramTest):
    def start(self, path, rank, port, address):
        folder = os.path.join(os.environ["SUMMAND_BUILD"], "share", "summand", "python")
        variables = self.environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                                     WORLD_SIZE=str(NRANKS), SUMMAND_REDUCTION_SERVERS=address, PYTHONPATH=folder)
        process = subprocess.Popen([sys.executable, path, str(rank)], env=variables, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def test_the_lines_run(self):
        lines = lines_of_readme()
        self.assertIsNotNone(lines, "README.md must have one block of Python")
        self.assertIn("summand_ddp.register", lines)
        path = os.path.join(self.folder, "train.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SCRIPT.format(lines=textwrap.dedent(lines)))
        port, address = free_port(), self.start_server()[1]
        ranks = [self.start(path, rank, port, address) for rank in range(NRANKS)]
        said = []
        for rank in ranks:
            out, err = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual(rank.returncode, 0, out + err)
            said.append(out)
        self.assertIn("weights", said[0])
        self.assertEqual(said[0], said[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
