"""The recipes, run: every rank of a job is there once, knows its place, and meets all others.

PyTorch (train_torch.py), Open MPI and mpi4py are real; of TensorFlow, Lightning, Hugging Face, accelerate, DeepSpeed and Horovod, which
Debian does not have, programs stand in that read what these read.
"""

import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "python")]
import at_once  # noqa: E402
import debian_torch  # noqa: E402

SUMMAND = os.path.join(debian_torch.BUILD, "bin", "summand")
RECIPES = os.path.join(os.environ["SUMMAND_SOURCE"], "specs", "jobs", "recipes")


def ranks_of(folder):
    """rank -> what it wrote down."""
    ranks = {}
    for path in glob.glob(os.path.join(folder, "rank-*.json")):
        with open(path, encoding="utf-8") as file:
            ranks[int(path.rpartition("-")[2].partition(".")[0])] = json.load(file)
    return ranks


class Recipes(unittest.TestCase):
    def run_recipe(self, recipe, program, *flags, launchers=(), code=0):
        """Runs the recipe where `program` is train.py: its ranks, or what was said where it must fail."""
        folder = tempfile.mkdtemp(prefix="summand-recipe-")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(os.path.join(HERE, "meeting.py"), folder)
        shutil.copy(os.path.join(HERE, program), os.path.join(folder, "train.py"))
        for launcher in launchers:
            place = os.path.join(folder, launcher)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            shutil.copy(os.path.join(HERE, launcher), place)
        # torchrun 1.13 fails on Python 3.11 when nothing is redirected; there is no rank 9.
        variables = dict(os.environ, PATH=f"{folder}:/usr/bin:{os.environ['PATH']}", PET_REDIRECTS="9:1", PET_TEE="9:1")
        done = subprocess.run(
            [SUMMAND, "custom-jobs", "local-run", os.path.join(RECIPES, recipe), "--job-dir=job",
             "--success-policy=all-workers", *flags],
            cwd=folder, env=variables, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, f"\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr if code else ranks_of(folder)

    def assert_world(self, ranks, nodes, processes):
        world = nodes * processes
        self.assertEqual(sorted(ranks), list(range(world)))
        for rank, report in ranks.items():
            replica = "workerpool0-0" if rank < processes else f"workerpool1-{rank // processes - 1}"
            self.assertEqual(report, {"world": world, "local_rank": rank % processes, "replica": replica,
                                      "sum": world * (world + 1) // 2})

    def test_pytorch(self):
        self.assert_world(self.run_recipe("pytorch.yaml", "train_torch.py"), 2, 2)

    def test_torchrun(self):
        self.assert_world(self.run_recipe("torchrun.yaml", "train_torch.py"), 2, 2)

    def test_torch_distributed_launch(self):
        self.assert_world(self.run_recipe("torch_distributed_launch.yaml", "train_torch.py"), 2, 2)

    def test_lightning(self):
        self.assert_world(self.run_recipe("lightning.yaml", "train_lightning.py"), 2, 2)

    def test_lightning_on_azure(self):
        self.assert_world(self.run_recipe("lightning.yaml", "train_lightning.py", "--platform=azureml"), 2, 2)

    def test_tensorflow(self):
        self.assert_world(self.run_recipe("tensorflow.yaml", "train_tensorflow.py"), 3, 1)

    def test_tensorflow_with_parameter_servers(self):
        ranks = self.run_recipe("tensorflow_ps.yaml", "train_tensorflow_ps.py", "--success-policy=chief", "--grace=2")
        self.assertEqual(ranks, {0: {"world": 5, "local_rank": 0, "replica": "workerpool0-0", "sum": 4}})

    def test_accelerate(self):
        self.assert_world(self.run_recipe("accelerate.yaml", "train_torch.py", launchers=["accelerate"]), 2, 2)

    def test_deepspeeds_launcher(self):
        self.assert_world(self.run_recipe("deepspeed_launcher.yaml", "train_deepspeed_launched.py",
                                          launchers=["deepspeed/launcher/launch.py"]), 2, 2)

    def test_hugging_face(self):
        self.assert_world(self.run_recipe("huggingface.yaml", "train_huggingface.py"), 2, 2)

    @unittest.skipUnless(shutil.which("orterun"), "needs openmpi-bin")
    def test_deepspeed(self):
        self.assert_world(self.run_recipe("deepspeed.yaml", "train_deepspeed.py"), 2, 2)

    @unittest.skipUnless(shutil.which("orterun"), "needs openmpi-bin")
    def test_deepspeed_on_azure(self):
        self.assert_world(self.run_recipe("deepspeed.yaml", "train_deepspeed.py", "--platform=azureml"), 2, 2)

    def test_deepspeed_without_mpi(self):
        self.assert_world(self.run_recipe("deepspeed.yaml", "train_deepspeed.py", "--launch=process"), 2, 2)

    @unittest.skipUnless(importlib.util.find_spec("mpi4py") and shutil.which("mpirun"), "needs openmpi-bin, python3-mpi4py")
    def test_mpi(self):
        self.assert_world(self.run_recipe("mpi.yaml", "train_mpi.py"), 2, 2)

    @unittest.skipUnless(importlib.util.find_spec("mpi4py") and shutil.which("mpirun"), "needs openmpi-bin, python3-mpi4py")
    def test_horovod(self):
        self.assert_world(self.run_recipe("horovod.yaml", "train_horovod.py"), 2, 2)

    def test_horovod_over_replicas(self):
        self.assert_world(self.run_recipe("horovod_gloo.yaml", "train_horovod_gloo.py", launchers=[
            "horovod/runner/common/util/hosts.py", "horovod/runner/http/http_server.py"]), 2, 2)

    def test_horovod_without_its_rendezvous(self):
        """Nobody waits for what will never be."""
        said = self.run_recipe("horovod_gloo.yaml", "train_horovod_gloo.py", code=1)
        self.assertIn("No module named 'horovod'", said)

    def test_every_recipe_is_run(self):
        with open(__file__, encoding="utf-8") as file:
            text = file.read()
        for path in glob.glob(os.path.join(RECIPES, "*.yaml")):
            self.assertIn(f'run_recipe("{os.path.basename(path)}"', text)


if __name__ == "__main__":
    debian_torch.require()
    at_once.main()
