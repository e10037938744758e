"""What of the caller's environment reaches a replica: nothing that another launcher or job has set."""

import glob
import json
import os
import subprocess
from unittest import mock

from job import SUMMAND, JobTest, at_once, OVER_HOSTS, bash, only_here, reduction_servers

CORPORA = os.path.join(os.environ["SUMMAND_SOURCE"], "tests", "corpora", "valid")
# Others' launchers, beside what Summand's contracts set themselves.
LAUNCHERS = """RANK WORLD_SIZE TF_CONFIG CLUSTER_SPEC LOCAL_RANK NODE_RANK ROLE_RANK PET_NNODES PET_RDZV_ENDPOINT
    TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT OMPI_COMM_WORLD_RANK OMPI_MCA_orte_hnp_uri OMPI_MCA_ess
    PMIX_RANK PMIX_NAMESPACE PMI_RANK PMI_FD MPI_LOCALRANKID MV2_COMM_WORLD_RANK SLURM_PROCID SLURM_LOCALID SLURM_NTASKS
    SLURM_STEP_NUM_TASKS JSM_NAMESPACE_RANK JSM_NAMESPACE_SIZE JSM_NAMESPACE_LOCAL_RANK PALS_RANKID PALS_LOCAL_RANKID PALS_NODEID
    ALPS_APP_PE FLUX_TASK_RANK FLUX_TASK_LOCAL_ID FLUX_JOB_SIZE FLUX_JOB_NNODES PMI_SIZE PMI2_RANK PMI2_SIZE HYDI_CONTROL_FD
    MVP_COMM_WORLD_LOCAL_RANK MPIRUN_RANK MPT_LRANK PRTE_LAUNCHED CROSS_RANK CROSS_SIZE LOCAL_SIZE GROUP_RANK
    SM_TRAINING_ENV DLTS_JOB_ID HOROVOD_ELASTIC HOROVOD_LOCAL_RANK JAX_COORDINATOR_ADDRESS JAX_COORDINATOR_BIND_ADDRESS
    JAX_PROCESS_ID JAX_LOCAL_DEVICE_IDS JOB_COMPLETION_INDEX PJRT_LOCAL_PROCESS_RANK HOROVOD_RANK HOROVOD_GLOO_RENDEZVOUS_ADDR AIP_MODEL_DIR CLOUD_ML_TRIAL_ID AZUREML_RUN_ID
    AZ_BATCH_MASTER_NODE AZ_BATCHAI_TASK_INDEX NCCL_SOCKET_IFNAME SUMMAND_REPLICA SUMMAND_RESTARTS SUMMAND_ATTEMPT""".split()
# Settings of the user's, which pass.
SETTINGS = """NCCL_DEBUG SUMMAND_CPU SUMMAND_TRANSPORT OMPI_MCA_btl OMPI_ALLOW_RUN_AS_ROOT PMIX_MCA_gds PET_TEE
    ACCELERATE_MIXED_PRECISION ACCELERATE_USE_CPU PJRT_DEVICE JAX_PLATFORMS LSB_JOBID FLUX_URI FLUX_JOB_ID PALS_CPU_BIND I_MPI_DEBUG
    HOROVOD_FUSION_THRESHOLD SLURM_JOB_ID AZURE_CLIENT_ID TORCH_LOGS CUDA_LAUNCH_BLOCKING RANKS""".split()
# Set where a job has servers of its own, and a user's setting elsewhere.
PLUGIN = {"NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_COLLNET_ENABLE"}
SHOW = "env"


def stale(*names):
    return mock.patch.dict(os.environ, {name: "stale" for name in names})


def contract_variables():
    """All that the contracts set for the specs of the corpora, but for the specs' own."""
    names = set()
    for file in glob.glob(os.path.join(CORPORA, "*.env.json")):
        with open(file[:-len(".env.json")], encoding="utf-8") as spec:
            text = spec.read()
        with open(file, encoding="utf-8") as variables:
            for process in json.load(variables).values():
                names.update(name for name in process if name not in text)
    return names - PLUGIN


class CallerTest(JobTest):
    def said(self, run, replica="workerpool0-0"):
        self.assert_code(run, 0)
        lines = self.read(run, f"logs/{replica}.log").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def assert_none_stale(self, variables):
        self.assertEqual([name for name, value in variables.items() if "stale" in value], [])

    @only_here("the engine is Slurm's, which is not asked")
    def test_tasks_of_a_step(self):
        """srun starts a command once for each task: one of them is enough for Slurm's nodes, and the others are told."""
        with mock.patch.dict(os.environ, {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}):
            run = self.run_job([bash("echo never")], "--engine=slurm")
            self.assert_code(run, 2)
            self.assertIn("--engine=slurm: this is task 1 of a step with 2 tasks, each of which would run the job on all nodes: "
                          "start it once, without srun or with --ntasks=1", run.err)
            run = self.run_job([bash("exit 0")])
            self.assert_code(run, 0)
            self.assertIn("warning: srun: this is task 1 of a step with 2 tasks, each of which runs the whole job", run.err)
        with mock.patch.dict(os.environ, {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}):
            run = self.run_job([bash("exit 0")])
            self.assertEqual((run.returncode, run.err), (0, ""))

    def test_no_variable_of_a_launcher_reaches_a_replica(self):
        names = set(LAUNCHERS) | contract_variables()
        self.assertGreater(len(names), 60)
        with stale(*names):
            for launch in ("process", "node"):
                for platform in ("vertex", "azureml"):
                    run = self.run_job([bash(SHOW)], labels={"launch": launch, "platform": platform})
                    self.assert_none_stale(self.said(run))
            run = self.run_job([bash(SHOW), bash(SHOW)], labels={"launch": "node", "success-policy": "all-workers"})
            for replica in ("workerpool0-0", "workerpool1-0"):
                self.assert_none_stale(self.said(run, replica))
                self.assertNotIn("LOCAL_RANK", self.said(run, replica))

    @only_here("a host has variables of its own")
    def test_settings_pass(self):
        with mock.patch.dict(os.environ, {name: "mine" for name in SETTINGS}):
            said = self.said(self.run_job([bash(SHOW)]))
        self.assertEqual([name for name in SETTINGS if said.get(name) != "mine"], [])

    def test_the_specs_own_variables_stand(self):
        with stale("RANK"):
            said = self.said(self.run_job([{**bash(SHOW), "env": [{"name": "RANK", "value": "5"}]}]))
        self.assertEqual(said["RANK"], "5")

    def torch_run(self, **variables):
        script = self.path("show.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import os, json, sys\njson.dump(dict(os.environ), open(sys.argv[1], 'w'))\n")
        with mock.patch.dict(os.environ, variables):
            subprocess.run([SUMMAND, "torch-run", "--no-use-gpu", f"--job-dir={self.path('torch')}", script,
                            self.path("said")], capture_output=True, text=True, check=True)
        with open(self.path("said"), encoding="utf-8") as file:
            return json.load(file)

    def test_torch_run(self):
        names = set(LAUNCHERS) | contract_variables()
        self.assert_none_stale(self.torch_run(**{name: "stale" for name in names}))

    def test_other_reduction_servers(self):
        """A job without servers of its own uses those that the caller names, unless they are those of the caller's job."""
        servers = {"SUMMAND_REDUCTION_SERVERS": "stale:1", "SUMMAND_TOKEN_FILE": "/stale", "SUMMAND_TLS": "stale"}
        said = self.torch_run(**servers)
        self.assertEqual({name: said.get(name) for name in servers}, servers)
        said = {"env": "reduction servers: from the caller's SUMMAND_REDUCTION_SERVERS, stale:1",
                "local-run": "reduction servers: none: the caller's SUMMAND_REDUCTION_SERVERS stays on this machine"
                             if OVER_HOSTS else "reduction servers: from the caller's SUMMAND_REDUCTION_SERVERS, stale:1"}
        spec = self.write_spec([bash("true")])
        with mock.patch.dict(os.environ, servers):
            for command in (["env"], ["local-run", f"--job-dir={self.path('head')}"]):
                run = subprocess.run([SUMMAND, "custom-jobs", *command, spec], capture_output=True, text=True, check=True)
                self.assertIn(said[command[0]], run.stdout + run.stderr)
        self.assert_none_stale(self.torch_run(SUMMAND_REPLICA="workerpool0-0", **servers))
        with mock.patch.dict(os.environ, servers):
            run = self.run_job([bash(SHOW), {}, reduction_servers(), bash(SHOW)], "--grace=20")
        for replica in ("workerpool0-0", "workerpool3-0"):
            self.assert_none_stale(self.said(run, replica))

    def test_env_shows_what_is_unset(self):
        spec = self.write_spec([bash(SHOW)])
        command = [SUMMAND, "custom-jobs", "env", spec, "--replica=workerpool0-0"]
        with stale("RANK", "LOCAL_RANK", "TF_CONFIG", "HOROVOD_FUSION_THRESHOLD"):
            shell = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            names = json.loads(subprocess.run(command + ["--format=json"], capture_output=True, text=True,
                                              check=True).stdout)
            inner = subprocess.run(["bash", "-c", f"{shell}\n{SHOW}"], capture_output=True, text=True, check=True)
            run = self.run_job([bash(SHOW)])
        first = shell.splitlines()[0].split()
        self.assertEqual((first[0], set(first[1:])), ("unset", {"RANK", "LOCAL_RANK", "TF_CONFIG"}))
        self.assertEqual({name for name, value in names.items() if value is None}, {"RANK", "LOCAL_RANK", "TF_CONFIG"})
        self.assertNotIn("\nTF_CONFIG=", inner.stdout)
        self.assertIn("unset", self.read(run, "env/workerpool0-0.env").splitlines()[0])


if __name__ == "__main__":
    at_once.main()
