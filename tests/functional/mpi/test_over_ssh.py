#!/usr/bin/env python3
"""MPI jobs over two hosts that ssh reaches: summand-mpi needs no ssh of MPI's between them, nor a shared directory for ranks."""

import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "runner"), HERE]
import job  # noqa: E402
import ssh_hosts  # noqa: E402
import test_jobs  # noqa: E402
from test_jobs import HAS_MPI4PY, HAS_MPICH, HAS_OPENMPI, LABELS, MPI4PY  # noqa: E402


class MpiOverSsh(ssh_hosts.SshHosts):
    compiled = test_jobs.Mpi.compiled
    pools = test_jobs.Mpi.pools
    ranks_of = test_jobs.Mpi.ranks_of
    assert_world = test_jobs.Mpi.assert_world

    def run_mpi(self, command, *flags, **labels):
        env = [{"name": "PATH", "value": f"{ssh_hosts.BUILT}:/usr/bin:/bin"}]
        return self.run_job(self.pools(command, env=env), *self.hosts("one slots=2", "two slots=2"), *flags,
                            labels={**LABELS, **{name.replace("_", "-"): value for name, value in labels.items()}})

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_open_mpi(self):
        run = self.run_mpi([self.compiled("mpicc.openmpi")], mpi_launcher="openmpi", success_policy="all-workers")
        self.assert_world(run)
        self.assert_nothing_left()

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_without_summand_on_the_hosts(self):
        for name in ssh_hosts.NAMES:
            self.mount(name, "-t", "tmpfs", "tmpfs", ssh_hosts.BUILT)
        self.assert_world(self.run_mpi([self.compiled("mpicc.openmpi")], "--copy", mpi_launcher="openmpi"))
        self.assert_nothing_left()

    @unittest.skipUnless(HAS_MPICH, "needs mpich")
    def test_ranks_of_hydra(self):
        """They only say who they are: Debian's MPICH 4.0 over UCX's TCP hangs in MPI_Finalize now and then, without us too."""
        run = self.run_mpi(["sh", "-c", "echo $PMI_RANK of $PMI_SIZE, local $LOCAL_RANK"], mpi_launcher="mpich")
        self.assert_code(run, 0)
        for index, replica in enumerate(test_jobs.REPLICAS):
            self.assertEqual(sorted(self.read(run, f"logs/{replica}.log").splitlines()),
                             [f"{2 * index + local} of 4, local {local}" for local in (0, 1)])
        self.assert_nothing_left()

    @unittest.skipUnless(HAS_OPENMPI and HAS_MPICH and len(os.sched_getaffinity(0)) > 1, "needs both MPIs and two cores")
    def test_bound_ranks(self):
        """Each host's have a core each."""
        for launcher in "openmpi", "mpich":
            run = self.run_mpi(["grep", "-h", "Cpus_allowed_list", "/proc/self/status"], mpi_launcher=launcher, mpi_binding="core",
                               success_policy="all-workers")
            self.assert_code(run, 0)
            for replica in test_jobs.REPLICAS:
                cores = set(re.findall(r"Cpus_allowed_list:\s+(\d+)\n", self.read(run, f"logs/{replica}.log")))
                self.assertEqual(len(cores), 2, f"{launcher}, {replica}: {cores}")

    @unittest.skipUnless(HAS_MPI4PY, "needs openmpi-bin and python3-mpi4py")
    def test_mpi4py(self):
        self.assert_world(self.run_mpi(["/usr/bin/python3", "-c", MPI4PY]))
        self.assert_nothing_left()

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_a_rank_that_dies(self):
        run = self.run_mpi([self.compiled("mpicc.openmpi"), "exit", "2", "3"])
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool1-0 exited with a non-zero status of 3", run.out + run.err)
        self.assert_nothing_left()

    @unittest.skipUnless(HAS_MPICH, "needs mpich")
    def test_a_rank_of_hydra_that_dies(self):
        """Of the other host: by an exit code, or by a signal. The other ranks end with it."""
        for end, said in (("exit 3", "a non-zero status of 3"), ("kill -9 $$$$", "a non-zero status of 137")):
            run = self.run_mpi(["sh", "-c", f"[ $PMI_RANK != 2 ] || {{ sleep 1; {end}; }}; exec sleep 1000"], mpi_launcher="mpich", max_restarts="0")
            self.assert_code(run, 1)
            self.assertIn(f"The replica workerpool1-0 exited with {said}", run.out + run.err)
            self.assert_nothing_left()

    def test_no_launcher_on_the_chiefs_host(self):
        os.mkdir(self.path("empty"))
        run = self.run_job(self.pools(["/bin/true"], env=[{"name": "PATH", "value": self.path("empty")}]), *self.hosts("one slots=2", "two slots=2"),
                           labels=LABELS)
        self.assert_code(run, 1)
        self.assertIn("no launcher of MPI is in PATH on host", self.read(run, "logs/workerpool0-0.log"))
        self.assertIn("The replica workerpool0-0 exited with a non-zero status of 127", run.out + run.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    REASON = ssh_hosts.why_not()
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(77)
    unittest.main()  # one by one: numbers of processes, by which Open MPI names a job, are the same in each test's namespaces
