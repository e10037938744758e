#!/usr/bin/env python3
"""Jobs with summand-distribution: mpi over two replicas of two ranks: one world, whose end is the job's."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "runner"))
import job  # noqa: E402

LABELS = {"distribution": "mpi", "processes-per-replica": "2"}
REPLICAS = ("workerpool0-0", "workerpool1-0")
HAS_OPENMPI = shutil.which("orterun") and shutil.which("mpicc.openmpi")
HAS_MPI4PY = HAS_OPENMPI and subprocess.run(["/usr/bin/python3", "-c", "import mpi4py"], check=False, capture_output=True).returncode == 0
HAS_MPICH = shutil.which("mpiexec.hydra") and shutil.which("mpicc.mpich")
MPI4PY = """
import json, os
from mpi4py import MPI
world = MPI.COMM_WORLD
print(json.dumps({"rank": world.rank, "size": world.size, "sum": world.allreduce(world.rank + 1),
                  "neighbours": world.Split_type(MPI.COMM_TYPE_SHARED).allreduce(world.rank + 1),
                  "replica": os.environ["SUMMAND_REPLICA"], "directory": os.getcwd(),
                  "torch": f"{os.environ['RANK']} of {os.environ['WORLD_SIZE']}, local {os.environ['LOCAL_RANK']}"}), flush=True)
"""


class Mpi(job.JobTest):
    def compiled(self, compiler):
        program = self.path("world")
        subprocess.run([compiler, "-o", program, os.path.join(HERE, "world.c")], check=True, timeout=60)
        return program

    def pools(self, command, **more):
        return [dict(job.pool(command), **more), dict(job.pool(command), **more)]

    def ranks_of(self, run):
        """What the ranks said, by rank, each in the log of its own replica. Python writes an end of line by itself, so
        what two ranks say may stand in one line."""
        ranks = {}
        for replica in REPLICAS:
            log = self.read(run, f"logs/{replica}.log")
            for found in re.finditer(r'{"rank"', log):
                said = json.JSONDecoder().raw_decode(log, found.start())[0]
                self.assertEqual(said["replica"], replica)
                ranks[said["rank"]] = said
        return ranks

    def scratch_directories(self):
        """Those of the job's replicas, which its processes name."""
        found = set()
        for pid in job.processes_with(self.mark):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    found.update(re.findall(rb"SUMMAND_MPI_SCRATCH=([^\0]+)", environ.read()))
            except OSError:
                pass  # it has ended
        return [each.decode() for each in found]

    def assert_world(self, run):
        self.assert_code(run, 0)
        self.assertEqual(self.ranks_of(run), {
            rank: {"rank": rank, "size": 4, "sum": 10, "neighbours": 3 if rank < 2 else 7, "replica": REPLICAS[rank // 2], "directory": os.getcwd(),
                   "torch": f"{rank} of 4, local {rank % 2}"} for rank in range(4)})

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_open_mpi(self):
        program = self.compiled("mpicc.openmpi")
        self.assert_world(self.run_job(self.pools([program]), "--success-policy=all-workers",
                                       labels=dict(LABELS, **{"mpi-launcher": "openmpi"})))

    @unittest.skipUnless(HAS_OPENMPI and len(os.sched_getaffinity(0)) > 1, "needs Open MPI and two cores")
    def test_bound_ranks(self):
        """Those of one replica have a core each; replicas that share a host are not bound, and that is told."""
        program = ["grep", "-h", "Cpus_allowed_list", "/proc/self/status"]
        labels = dict(LABELS, launch="mpirun", **{"mpi-binding": "core", "mpi-launcher": "openmpi"})
        run = self.run_job(self.pools(program)[:1], labels=labels)
        self.assert_code(run, 0)
        cores = re.findall(r"Cpus_allowed_list:\s+(\S+)", self.read(run, "logs/workerpool0-0.log"))
        self.assertEqual(len(set(cores)), 2, cores)
        self.assertTrue(all("-" not in each for each in cores), cores)
        run = self.run_job(self.pools(program), "--success-policy=all-workers", labels=labels)
        self.assert_code(run, 0)
        log = self.read(run, "logs/workerpool0-0.log")
        self.assertIn("ranks are not bound (--binding=core): workerpool0-0 and workerpool1-0 share a host", log)
        self.assertEqual(len(set(re.findall(r"Cpus_allowed_list:\s+(\S+)", log))), 1, log)

    @unittest.skipUnless(HAS_MPICH, "needs mpich and libmpich-dev")
    def test_mpich(self):
        program = self.compiled("mpicc.mpich")
        self.assert_world(self.run_job(self.pools([program]), "--success-policy=all-workers",
                                       labels=dict(LABELS, **{"mpi-launcher": "mpich"})))

    @unittest.skipUnless(HAS_MPI4PY, "needs openmpi-bin and python3-mpi4py")
    def test_mpi4py(self):
        self.assert_world(self.run_job(self.pools(["/usr/bin/python3", "-c", MPI4PY]), labels=LABELS))

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_azure_mpi(self):
        """A command job of Azure ML with `type: mpi`."""
        program = self.compiled("mpicc.openmpi")
        os.mkdir(self.path("azure"))
        spec = self.path("azure/job.yaml")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(f"command: {program}\ndistribution: {{type: mpi, process_count_per_instance: 2}}\nresources: {{instance_count: 2}}\n"
                       f"environment: azureml:horovod:1\nenvironment_variables: {{TEST_MARK: {self.mark}}}\n")
        run = self.finish(self.start_spec(spec, "--success-policy=all-workers"))
        self.assert_code(run, 0)
        self.assertEqual({rank: (said["size"], said["sum"], said["replica"]) for rank, said in self.ranks_of(run).items()},
                         {rank: (4, 10, REPLICAS[rank // 2]) for rank in range(4)})

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_mpi_configuration(self):
        """The SDK's MpiConfiguration, as flags and as a saved run configuration: two nodes of two processes."""
        os.mkdir(self.path("source"))
        with open(self.path("source/train.py"), "w", encoding="ascii") as file:
            file.write(MPI4PY.partition('"torch"')[0] + "}), flush=True)\n")  # Azure sets no RANK for MPI
        saved = {"script": "train.py", "communicator": "OpenMpi", "nodeCount": 2, "mpi": {"processCountPerNode": 2},
                 "environment": {"docker": {"baseImage": "local"}, "environmentVariables": {"PATH": "/usr/bin:/bin"}}}
        with open(self.path("source/mpi.runconfig"), "w", encoding="utf-8") as file:
            json.dump(saved, file)
        program = self.compiled("mpicc.openmpi")
        flags = ["--worker-pool-spec=machine-type=Standard_NC6,container-image-uri=local", f"--command={program}",
                 "--mpi-configuration=process_count_per_node=2,node_count=2"]
        for name, words in {"flags": flags, "file": [self.path("source/mpi.runconfig")] if HAS_MPI4PY else None}.items():
            with self.subTest(name), mock.patch.dict(os.environ, {"TEST_MARK": self.mark}):
                if not words:
                    self.skipTest("needs python3-mpi4py")
                done = subprocess.run([job.SUMMAND, "custom-jobs", "local-run", *words, "--quiet", f"--job-dir={self.path(name)}",
                                       "--success-policy=all-workers"], capture_output=True, text=True, check=False, timeout=job.LONG)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                done.job_dir = self.path(name)
                self.assertEqual({rank: (said["size"], said["sum"], said["replica"]) for rank, said in self.ranks_of(done).items()},
                                 {rank: (4, 10, REPLICAS[rank // 2]) for rank in range(4)})

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_an_mpirun_of_the_users_own(self):
        program = self.compiled("mpicc.openmpi")
        run = self.run_job(self.pools(["sh", "-c", f"orterun -n 4 {program}"]), labels=LABELS)
        self.assert_code(run, 0)
        said = [json.loads(each) for each in re.findall(r'\{"rank".*?\}', self.read(run, "logs/workerpool0-0.log"))]
        self.assertEqual(sorted((each["rank"], each["sum"], each["replica"]) for each in said),
                         [(0, 10, REPLICAS[0]), (1, 10, REPLICAS[0]), (2, 10, REPLICAS[1]), (3, 10, REPLICAS[1])])

    def assert_refused(self, run, program, label):
        """No rank that is alone in a world of its own counts as one of the job."""
        self.assert_code(run, 1)
        said = "".join(self.read(run, f"logs/{replica}.log") for replica in REPLICAS)
        self.assertIn(f"of 4: the launcher must be of the MPI that the program was built with, got a program of {program} under", said)
        self.assertIn(f"set summand-mpi-launcher: {label} in the job's labels", said)
        self.assertNotIn('"size": 1', said)

    @unittest.skipUnless(HAS_OPENMPI and HAS_MPICH, "needs Open MPI and MPICH")
    def test_mpich_under_open_mpi(self):
        program = self.compiled("mpicc.mpich")
        self.assert_refused(self.run_job(self.pools([program]), labels=LABELS), "MPICH", "mpich")
        # Whatever the program makes of its failure: what it says by exit code 0 is wrong.
        self.assert_refused(self.run_job(self.pools(["sh", "-c", f"{program} || exit 0"]), labels=LABELS), "MPICH", "mpich")

    @unittest.skipUnless(HAS_OPENMPI and HAS_MPICH, "needs Open MPI and MPICH")
    def test_open_mpi_under_mpich(self):
        program = self.compiled("mpicc.openmpi")
        labels = dict(LABELS, **{"mpi-launcher": "mpich"})
        self.assert_refused(self.run_job(self.pools([program]), labels=labels), "Open MPI", "openmpi")
        self.assert_refused(self.run_job(self.pools(["sh", "-c", f"{program} || exit 0"]), labels=labels), "Open MPI", "openmpi")

    @unittest.skipUnless(HAS_MPI4PY and HAS_MPICH, "needs python3-mpi4py and MPICH")
    def test_mpi4py_under_mpich(self):
        run = self.run_job(self.pools(["/usr/bin/python3", "-c", MPI4PY]), labels=dict(LABELS, **{"mpi-launcher": "mpich"}))
        self.assert_refused(run, "Open MPI", "openmpi")

    @unittest.skipUnless(HAS_OPENMPI and HAS_MPICH, "needs Open MPI and MPICH")
    def test_an_mpirun_of_the_users_own_and_another_program(self):
        for launcher, compiler, said in (("orterun", "mpicc.mpich", "Unable to write to PMI_fd"),
                                         ("mpiexec.hydra", "mpicc.openmpi", "the-launcher-must-be-of-Open-MPI-as-this-program-is")):
            with self.subTest(launcher):
                run = self.run_job(self.pools([launcher, "-n", "4", self.compiled(compiler)]), labels=LABELS)
                self.assert_code(run, 1)
                self.assertIn(said, self.read(run, "logs/workerpool0-0.log"))

    def assert_nested(self, script, launcher, **labels):
        """A script of the user's own starts a launcher in each rank, which the job file does not show: no world begins."""
        with open(self.path("run.sh"), "w", encoding="utf-8") as file:
            file.write(script + "\ntrue\n")
        run = self.run_job(self.pools(["bash", self.path("run.sh")]), labels=dict(LABELS, **labels))
        self.assert_code(run, 1)
        said = "".join(self.read(run, f"logs/{replica}.log") for replica in REPLICAS)
        self.assertRegex(said, rf"rank \d of 4: each rank would start a world of its own, got a command that runs {re.escape(launcher)}; have the program "
                         "alone as the job's command")
        self.assertNotIn('"size"', said)

    @unittest.skipUnless(HAS_MPICH, "needs mpich and libmpich-dev")
    def test_a_script_that_runs_mpich(self):
        program = self.compiled("mpicc.mpich")
        for launcher in "mpiexec.hydra", "mpiexec", "srun":
            with self.subTest(launcher):
                self.assert_nested(f"cd /tmp && {launcher} -n 4 {program}", launcher, **{"mpi-launcher": "mpich"})

    @unittest.skipUnless(HAS_MPICH, "needs mpich and libmpich-dev")
    def test_a_script_that_runs_mpich_by_its_path(self):
        """It finds no hosts, in whose name it says why."""
        program = self.compiled("mpicc.mpich")
        with open(self.path("run.sh"), "w", encoding="utf-8") as file:
            file.write(f"exec {shutil.which('mpiexec.hydra')} -n 4 {program}\n")
        run = self.run_job(self.pools(["bash", self.path("run.sh")]), labels=dict(LABELS, **{"mpi-launcher": "mpich"}))
        self.assert_code(run, 1)
        said = "".join(self.read(run, f"logs/{replica}.log") for replica in REPLICAS)
        self.assertIn("each-rank-of-the-job-would-start-a-world-of-its-own", said)
        self.assertNotIn('"size"', said)

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_a_script_that_runs_open_mpi(self):
        self.assert_nested(f"mpirun -n 4 {self.compiled('mpicc.openmpi')}", "mpirun", **{"mpi-launcher": "openmpi"})

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_a_rank_that_dies(self):
        """The job fails by the replica of the rank, not by the chief, whose mpirun says so too."""
        program = self.compiled("mpicc.openmpi")
        run = self.run_job(self.pools([program, "exit", "2", "3"]), labels=LABELS)
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool1-0 exited with a non-zero status of 3", run.out + run.err)
        self.assertIn("rank 2 of 4 failed with exit code 3", self.read(run, "logs/workerpool1-0.log"))

    @unittest.skipUnless(HAS_MPICH, "needs mpich and libmpich-dev")
    def test_a_rank_that_aborts(self):
        program = self.compiled("mpicc.mpich")
        run = self.run_job(self.pools([program, "abort", "3", "5"]), labels=dict(LABELS, **{"mpi-launcher": "mpich"}))
        self.assert_code(run, 1)
        self.assertIn("exited with a non-zero status of 5", run.out + run.err)

    def test_no_launcher(self):
        folder = self.path("empty")
        os.mkdir(folder)
        path = [{"name": "PATH", "value": folder}]
        run = self.run_job(self.pools(["/bin/true"], env=path), labels=LABELS)
        self.assert_code(run, 1)
        said = self.read(run, "logs/workerpool0-0.log")
        self.assertIn(f"no launcher of MPI is in PATH on host {os.uname().nodename}", said)
        self.assertIn("Debian: openmpi-bin", said)
        self.assertIn("Debian: mpich", said)
        self.assertIn("The replica workerpool0-0 exited with a non-zero status of 127", run.out + run.err)

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_cancelled(self):
        """tearDown() finds any daemon that is left."""
        program = self.compiled("mpicc.openmpi")
        here = self.path("here")
        run = self.start(self.pools([program, "sleep", here]), "--grace=10", labels=LABELS)
        for rank in range(4):
            self.wait_for_file(f"{here}.{rank}")
        self.assertTrue(any("orted" in job.command_of(pid) for pid in job.processes_with(self.mark)))
        made = self.scratch_directories()
        self.assertEqual([os.path.isdir(each) for each in made], [True, True])
        run.send_signal(signal.SIGTERM)
        self.finish(run)
        self.assert_code(run, 143)
        self.assertEqual([each for each in made if os.path.exists(each)], [])

    @unittest.skipUnless(HAS_OPENMPI, "needs openmpi-bin and libopenmpi-dev")
    def test_a_killed_summand_mpi(self):
        """Who is killed removes nothing: its folder in shared memory goes all the same."""
        program = self.compiled("mpicc.openmpi")
        for name in ("launch", "node"):
            with self.subTest(name):
                here = self.path(f"here.{name}")
                run = self.start(self.pools([program, "sleep", here]), "--grace=1", labels=dict(LABELS, **{"max-restarts": "0"}))
                for rank in range(4):
                    self.wait_for_file(f"{here}.{rank}")
                made = self.scratch_directories()
                self.assertEqual([os.path.isdir(each) for each in made], [True, True])
                ours = [pid for pid in job.processes_with(self.mark) if f"\0{name}\0" in job.command_of(pid)]
                os.kill(min(ours), signal.SIGKILL)
                self.finish(run)
                self.assert_code(run, 1)
                self.assertEqual([each for each in made if os.path.exists(each)], [])

    def test_processes_that_may_be_worlds(self):
        """Whether a program calls MPI_Init nobody knows before, so that is a warning."""
        labels = dict(LABELS, launch="process")
        said = subprocess.run([job.SUMMAND, "custom-jobs", "validate", self.write_spec(self.pools(["true"]), labels=labels)],
                              capture_output=True, text=True, check=True)
        self.assertIn("distribution mpi on 4 processes: where each calls MPI_Init, each is rank 0 of 1", said.stdout + said.stderr)

    def test_other_commands_in_worker_pool_1(self):
        run = self.run_job([job.pool(["/bin/true"]), job.pool(["/bin/false"])], labels=LABELS)
        self.assert_code(run, 2)
        self.assertIn("worker pool 1 must have the command and args of worker pool 0", run.err)


if __name__ == "__main__":
    job.at_once.main()
