#!/usr/bin/env python3
"""MPI jobs whose replicas are containers of a real podman: images that have MPI and Summand, and one that has neither."""

import os
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "runner"), HERE]
import job  # noqa: E402
import test_container  # noqa: E402
import test_jobs  # noqa: E402
from test_container import CONFIGURATION, IMAGE, podman  # noqa: E402
from test_jobs import HAS_MPI4PY, HAS_OPENMPI, LABELS, MPI4PY  # noqa: E402

BUILT = os.path.abspath(os.path.dirname(job.BIN))
# This machine's programs stand for those of an image.
PROGRAMS = """volumes = [{}]
"""


class MpiInContainers(job.JobTest):
    compiled = test_jobs.Mpi.compiled
    ranks_of = test_jobs.Mpi.ranks_of

    @classmethod
    def setUpClass(cls):
        if not shutil.which("podman") or not shutil.which("runc"):
            raise unittest.SkipTest("podman and runc are not installed")
        folder = tempfile.mkdtemp(prefix="summand-test-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.configuration = os.environ["CONTAINERS_CONF"] = os.path.join(folder, "containers.conf")
        cls.configure([])
        problem = test_container.make_image(folder)
        cls.addClassCleanup(podman, "rmi", "--force", IMAGE, test_container.NOBODYS_IMAGE)
        if problem:
            raise unittest.SkipTest(f"podman runs no containers here: {problem}")

    @classmethod
    def configure(cls, folders):
        with open(cls.configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION + PROGRAMS.format(", ".join(f'"{each}:{each}"' for each in folders)))

    def run_mpi(self, command, *folders, **labels):
        self.configure(folders)
        pool = {**job.pool(command), "imageUri": IMAGE, "env": [{"name": "PATH", "value": f"{BUILT}/bin:/usr/bin:/bin"}]}
        return self.run_job([pool, dict(pool)], "--container-runtime=podman", labels={**LABELS, **labels})

    def assert_world(self, run):
        self.assert_code(run, 0)
        self.assertEqual({rank: (said["size"], said["sum"], said["neighbours"], said["replica"])
                          for rank, said in self.ranks_of(run).items()},
                         {rank: (4, 10, 3 if rank < 2 else 7, test_jobs.REPLICAS[rank // 2]) for rank in range(4)})

    def image_folders(self):
        return ["/usr", "/lib", "/lib64", "/bin", "/etc", BUILT, self.dir]

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_open_mpi(self):
        self.assert_world(self.run_mpi([self.compiled("mpicc.openmpi")], *self.image_folders()))

    @unittest.skipUnless(HAS_MPI4PY, "needs openmpi-bin and python3-mpi4py")
    def test_mpi4py(self):
        self.assert_world(self.run_mpi(["/usr/bin/python3", "-c", MPI4PY], *self.image_folders()))

    def test_an_image_without_summand(self):
        run = self.run_mpi(["/bin/sh", "-c", "echo never"])
        self.assert_code(run, 1)
        self.assertRegex(run.err, "summand-mpi.*not found")


if __name__ == "__main__":
    unittest.main()
