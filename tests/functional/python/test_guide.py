"""The lines of specs/guide/python.md, run as they stand: the installation, and then each block of Python with what it made."""

import debian_torch

debian_torch.require()

import importlib.util
import os
import re
import subprocess
import textwrap
import unittest

from programs import ProgramTest

if importlib.util.find_spec("cloudpickle") is None or importlib.util.find_spec("ensurepip") is None:
    debian_torch.skip("no cloudpickle or no venv; python3-cloudpickle and python3-venv bring them")

GUIDE = os.path.join(os.environ["SUMMAND_SOURCE"], "specs", "guide", "python.md")
PATIENCE_S = 300  # of all of it together, on a machine that does much else

# What the page leaves to its reader.
JOB = """
displayName: of the guide
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      containerSpec: {imageUri: my-image, command: [echo, hello]}
"""
TRAIN = "print('trained')\n"
# The blocks one after another, as cells of a notebook; and what they must have made.
CELLS = """
{blocks}
assert tuple(model.weight.shape) == (1, 8), model
TorchDistributor(use_gpu=False).run("train.py", "--lr=0.1")
assert not CustomJob.list("displayName=mine")
print("all of the guide")
"""


class GuideTest(ProgramTest):
    def run_lines(self, *words):
        variables = self.environment(HOME=self.folder, PIP_NO_INDEX="1", PATH="/usr/bin:/bin", PYTHONUNBUFFERED="1",
                                     SUMMAND_STATE_DIR=os.path.join(self.folder, "state"))
        variables.pop("PYTHONPATH", None)
        done = subprocess.run(words, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_the_lines_run(self):
        with open(GUIDE, encoding="utf-8") as file:
            page = file.read()
        fences = re.findall(r"^```(.*)$", page, re.MULTILINE)
        blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        self.assertEqual(len(fences), 2 * len(blocks), "every block must be one of Python, which is run here")
        self.assertGreaterEqual(len(blocks), 3)
        install = "".join(re.findall(r"^    \S.*\n", re.sub(r"(?ms)^```.*?^```$", "", page), re.MULTILINE))
        self.assertIn("pip install", install)
        os.symlink(debian_torch.BUILD, os.path.join(self.folder, "build"))
        self.write("job.yaml", JOB)
        self.write("train.py", TRAIN)
        self.run_lines("bash", "-e", self.write("install.sh", textwrap.dedent(install)))
        python = os.path.join(self.folder, "training", "bin", "python")
        done = self.run_lines(python, self.write("cells.py", CELLS.format(blocks="\n".join(blocks))))
        self.assertEqual(done.stdout.count("trained\n"), 2, done.stdout)
        for sentence in "hello", "JOB_STATE_SUCCEEDED None", "all of the guide":
            self.assertIn(sentence, done.stdout)
        self.assertNotIn("warning", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
