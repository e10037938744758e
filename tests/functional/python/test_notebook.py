"""TorchDistributor in a notebook: functions of cells, output while they run, exceptions, and the interrupt."""

import debian_torch

debian_torch.require()

import os
import unittest

from programs import ProgramTest

try:
    import cloudpickle  # noqa: F401
    import ipykernel  # noqa: F401
    from jupyter_client.manager import KernelManager
except ImportError as missing:
    debian_torch.skip(f"{missing}; python3-jupyter-client, python3-ipykernel and python3-cloudpickle bring them")

PATIENCE_S = 300
TRAIN = """
import os, time
class Mine(Exception):
    pass
FACTOR = 2
def train(path, fails=False):
    print("begun", os.environ["RANK"])
    while not os.path.exists(path):
        time.sleep(0.05)
    if fails:
        raise Mine("of a cell")
    return FACTOR * int(os.environ["WORLD_SIZE"])
"""


class NotebookTest(ProgramTest):
    def setUp(self):
        super().setUp()
        path = os.path.join(debian_torch.BUILD, "share", "summand", "python")
        self.kernel = KernelManager(kernel_name="python3")
        self.kernel.start_kernel(env=self.environment(PYTHONPATH=path, SUMMAND_STATE_DIR=self.folder, MARK=self.folder,
                                                      IPYTHONDIR=os.path.join(self.folder, "ipython")), cwd=self.folder)
        self.addCleanup(self.kernel.shutdown_kernel, now=True)
        self.client = self.kernel.blocking_client()
        self.client.start_channels()
        self.addCleanup(self.client.stop_channels)
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def commands(self):
        """Of the processes that come from the kernel."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/cmdline", "rb") as command:
                    if f"MARK={self.folder}\0".encode() in environ.read():
                        found.append(command.read().replace(b"\0", b" ").decode())
            except OSError:
                pass
        return found

    def messages(self, cell, kinds=("stream", "execute_result", "error", "status")):
        """Those of the cell until it has ended."""
        number = self.client.execute(cell)
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != number or message["msg_type"] not in kinds:
                continue
            content = message["content"]
            if content.get("execution_state") == "idle":
                return
            yield message["msg_type"], content

    def run_cell(self, cell):
        """What it printed, its value, its exception."""
        said, value, error = "", None, None
        for kind, content in self.messages(cell):
            if kind == "stream":
                said += content["text"]
            elif kind == "execute_result":
                value = content["data"]["text/plain"]
            elif kind == "error":
                error = content
        return said, value, error

    def begun(self, cell, do):
        """Runs the cell, and do() once both ranks have been seen to begin: while it runs."""
        said, value, error = "", None, None
        for kind, content in self.messages(cell):
            if kind == "stream":
                before, said = said, said + content["text"]
                if before.count("begun") < 2 <= said.count("begun"):
                    do()
            elif kind == "execute_result":
                value = content["data"]["text/plain"]
            elif kind == "error":
                error = content
        return said, value, error

    def test_cells(self):
        go = os.path.join(self.folder, "go")
        self.assertIsNone(self.run_cell(TRAIN)[2])
        cell = f"from summand import TorchDistributor\nTorchDistributor(2, use_gpu=False).run(train, {go!r})"
        said, value, error = self.begun(cell, lambda: open(go, "w", encoding="utf-8").close())
        self.assertEqual((value, error), ("4", None), said)
        said, value, error = self.run_cell(
            f"try:\n    TorchDistributor(2, use_gpu=False).run(train, {go!r}, fails=True)\nexcept Mine as error:\n    print('caught', error)")
        self.assertIsNone(error)
        self.assertIn("caught of a cell", said)
        os.unlink(go)
        said, value, error = self.begun(cell, self.kernel.interrupt_kernel)
        self.assertEqual(error["ename"], "KeyboardInterrupt", said)
        # The kernel itself, and what it may have started besides, is all that is left.
        self.assertEqual([line for line in self.commands() if "summand" in line], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
