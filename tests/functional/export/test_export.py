"""`summand custom-jobs export`: what each process gets is what `env` says, and the files are valid where they are read.

Slurm's programs are played by scripts of this test; tests/slurm has real ones. What Kubernetes does with a pod's values and
command is done here.
"""

import copy
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing.name} is not here (python3-jsonschema, python3-yaml)")
    sys.exit(77)

SUMMAND = os.environ["SUMMAND_BUILD"] + "/bin/summand"
SOURCE = os.environ["SUMMAND_SOURCE"]
HERE = os.path.dirname(os.path.abspath(__file__))
CLEAN = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **{name: value for name, value in os.environ.items() if "SAN_OPTIONS" in name}}
LONG = 60
VERTEX = r"cmle-training-workerpool(\d)-[0-9a-f]{10}-(\d+)"
REPORT = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"
SERVERS = "reductionserver"

# One process of a pool says what it got.
POOL = {"machineSpec": {"machineType": "n1-standard-8"}, "replicaCount": 1, "containerSpec": {
    "imageUri": "trainer", "command": [sys.executable, "-c", REPORT], "args": ["--rank=$(RANK)", "a 'b' \"c\" $$d $(NONE)", "é"],
    "env": [{"name": "ME", "value": "$(SUMMAND_REPLICA) of $(WORLD_SIZE)"}, {"name": "ODD", "value": "x\n  $HOME `y` \\ 'z' me@b.c @@ @"}]}}


def job(workers=12, servers=3, labels=(), **fields):
    pools = [copy.deepcopy(POOL), {**copy.deepcopy(POOL), "replicaCount": workers} if workers else {},
             {"machineSpec": {"machineType": "n1-highcpu-16"}, "replicaCount": servers, "containerSpec": {"imageUri": SERVERS}}
             if servers else {}, copy.deepcopy(POOL)]
    return {"displayName": "A job_1", "labels": dict(labels),
            "jobSpec": {"workerPoolSpecs": pools, "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"}, **fields}}


def strict(schema):
    """The schema, in which an object has no fields but those that are listed: Kubernetes drops others."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and "additionalProperties" not in schema:
        if schema["properties"] and not schema.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
    return made


class Discovery(BaseHTTPRequestHandler):
    """What a cluster with JobSet says of its kinds; nothing is made there."""

    GROUP, VERSION = "jobset.x-k8s.io", "v1alpha2"
    ANSWERS = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": GROUP, "versions": [{"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}],
             "preferredVersion": {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}}]},
        f"/apis/{GROUP}/{VERSION}": {"kind": "APIResourceList", "groupVersion": f"{GROUP}/{VERSION}", "resources": [
            {"name": "jobsets", "singularName": "jobset", "namespaced": True, "kind": "JobSet", "verbs": ["create"]}]},
    }

    def do_GET(self):
        answer = self.ANSWERS.get(self.path.partition("?")[0])
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer or {}).encode())

    def log_message(self, *_):
        pass


def schema_of(name):
    with open(f"{HERE}/{name}.schema.json", encoding="utf-8") as file:
        return json.load(file)


def expand(text, values):
    """As the kubelet does."""
    return re.sub(r"\$(\$|\(([^)]*)\))", lambda found: "$" if found[1] == "$" else values.get(found[2], found[0]), text)


class ExportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="summand-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_summand(self, *arguments, spec=None, code=0):
        done = subprocess.run([SUMMAND, "custom-jobs", *arguments], input=json.dumps(spec), env=CLEAN, capture_output=True,
                              text=True, timeout=LONG, check=False)
        self.assertEqual(done.returncode, code, done.stdout[-2000:] + done.stderr)
        return done

    def export(self, spec, *arguments):
        return self.run_summand("export", "-", *arguments, spec=spec).stdout

    def contract(self, spec):
        """What `env` says of each process."""
        return json.loads(self.run_summand("env", "-", "--format=json", "--show-secrets", spec=spec).stdout)

    def must_get(self, name, got, contract, host, changes=()):
        """The variables of a process, which runs with addresses of its target."""
        expected = {key: re.sub(VERTEX, lambda found: host(int(found[1]), int(found[2])), value)
                    for key, value in contract[name].items()}
        expected.update(changes)
        self.assertEqual({key: got.get(key) for key in expected}, expected, name)

    # Kubernetes

    def pods(self, jobset):
        """Each replica's container, with the variables that it is started with."""
        for entry in jobset["spec"]["replicatedJobs"]:
            template = entry["template"]["spec"]
            for index in range(template["completions"]):
                [container] = template["template"]["spec"]["containers"]
                values = {}
                pod = {"metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index),
                       "metadata.labels['jobset.sigs.k8s.io/restart-attempt']": "2"}
                for variable in container["env"]:
                    if "value" in variable:
                        values[variable["name"]] = expand(variable["value"], values)
                    else:
                        values[variable["name"]] = pod[variable["valueFrom"]["fieldRef"]["fieldPath"]]
                yield f"{entry['name']}-{index}", container, values

    def test_jobset_gives_what_env_says(self):
        spec = job()
        jobset = yaml.safe_load(self.export(spec, "--to=jobset", "--volume-claim=claim"))
        contract = self.contract(spec)
        servers = 0
        for name, container, values in self.pods(jobset):
            words = [expand(word, values) for word in container["command"] + container.get("args", [])]
            token = {} if name.startswith(("workerpool2", "workerpool3")) else {"SUMMAND_TOKEN_FILE": "/run/summand/token"}
            output = {key: value.replace("gs://bucket/out", "/output") for key, value in contract[name].items()
                      if value.startswith("gs://")}
            if name.startswith("workerpool2"):
                servers += 1
                self.assertEqual(words, ["summand-reduction-server", "--listen=0.0.0.0:2222", "--token-file=/run/summand/token"])
                got = values
            else:
                done = subprocess.run(words, env={**values, "HOME": "/nowhere"}, capture_output=True, text=True, check=True)
                got, arguments = json.loads(done.stdout)
                rank = contract[name].get("RANK", "$(RANK)")
                self.assertEqual(arguments, [f"--rank={rank}", "a 'b' \"c\" $d $(NONE)", "é"])
            self.must_get(name, got, contract, lambda pool, index: f"a-job-1-workerpool{pool}-0-{index}.a-job-1",
                          {**output, **token, "SUMMAND_ATTEMPT": "2"})
        self.assertEqual(servers, 3)
        self.assertEqual(len(contract), 17)

    def test_jobset_is_valid(self):
        validator = jsonschema.Draft7Validator(strict(schema_of("jobset")))
        for path in ("digits", "ddp"):
            with open(f"{SOURCE}/specs/jobs/{path}.json", encoding="utf-8") as file:
                spec = json.load(file)
            for options in ([], ["--rdma-resource=rdma/hca", "--volume-claim=claim"]):
                jobset = yaml.safe_load(self.export(spec, "--to=jobset", *options))
                self.assertEqual([error.message for error in validator.iter_errors(jobset)], [])
        jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["completion"] = 1
        self.assertNotEqual(list(validator.iter_errors(jobset)), [], "the schema must refuse unknown fields")

    def test_jobset_order_success_restarts_and_resources(self):
        spec = job(labels=[("summand-restart-policy", "exit-code"), ("summand-max-restarts", "2"),
                           ("summand-success-policy", "all-workers"), ("summand-retryable-exit-codes", "3")])
        spec["jobSpec"]["workerPoolSpecs"][1]["machineSpec"] = {"machineType": "a2-highgpu-8g"}
        made = yaml.safe_load(self.export(spec, "--to=jobset", "--rdma-resource=rdma/hca", "--server-image=registry/server:1"))["spec"]
        first, *rest = made["replicatedJobs"]
        self.assertEqual(first["name"], "workerpool2")
        self.assertEqual(first["template"]["spec"]["template"]["spec"]["containers"][0]["image"], "registry/server:1")
        for entry in rest:
            self.assertEqual(entry["dependsOn"], [{"name": "workerpool2", "status": "Ready"}])
        self.assertEqual(made["successPolicy"]["targetReplicatedJobs"], ["workerpool0", "workerpool1"])
        self.assertEqual(made["failurePolicy"]["maxRestarts"], 2)
        [_, final] = rest[0]["template"]["spec"]["podFailurePolicy"]["rules"]
        self.assertEqual(final["onExitCodes"]["values"], [code for code in range(1, 128) if code != 3])
        limits = {entry["name"]: entry["template"]["spec"]["template"]["spec"]["containers"][0]["resources"].get("limits")
                  for entry in made["replicatedJobs"]}
        self.assertEqual(limits, {"workerpool0": {"rdma/hca": 1}, "workerpool1": {"nvidia.com/gpu": 8, "rdma/hca": 1},
                                  "workerpool2": {"rdma/hca": 1}, "workerpool3": None})
        made = yaml.safe_load(self.export(job(), "--to=jobset"))["spec"]
        self.assertEqual(made["successPolicy"], {"operator": "All", "targetReplicatedJobs": ["workerpool0"]}, "the chief's success is the job's")
        spec["jobSpec"]["scheduling"] = {"disableRetries": True}
        made = yaml.safe_load(self.export(spec, "--to=jobset"))["spec"]
        self.assertEqual(made["failurePolicy"], {"maxRestarts": 0})

    def test_kubectl_takes_the_jobset(self):
        """It reads the file and finds the kind, as a cluster with JobSet tells it, and hands back all that is in it."""
        if not shutil.which("kubectl"):
            self.skipTest("kubectl is not here")
        path = f"{self.folder}/jobset.yaml"
        text = self.export(job(), "--to=jobset", "--volume-claim=claim")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        with ThreadingHTTPServer(("127.0.0.1", 0), Discovery) as server:
            Thread(target=server.serve_forever).start()
            done = subprocess.run(["kubectl", f"--server=http://127.0.0.1:{server.server_port}", f"--cache-dir={self.folder}/cache", "create",
                                   "--dry-run=client", "--validate=false", "--output=json", f"--filename={path}"],
                                  env={**CLEAN, "KUBECONFIG": "/nowhere", "HOME": self.folder}, capture_output=True, text=True, timeout=LONG,
                                  check=False)
            server.shutdown()
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        made["metadata"].pop("namespace", None)
        self.assertEqual(made, yaml.safe_load(text))

    def test_an_end_of_a_step_that_comes_in_parts(self):
        """The script's time to wait may be over in the middle of a line."""
        with open(os.path.join(SOURCE, "orchestrator/export/slurm.bash"), encoding="utf-8") as file:
            function = re.search(r"^next_end\(\) \{.*?^\}", file.read(), re.MULTILINE | re.DOTALL)[0]
        script = function + """
            exec {ends}<> <(:)
            begun='' pool='' code=''
            declare -A running
            for part in '1 ' 14 '3\n2 0\n' ''; do
                printf "$part" >&"$ends"
                patience=0.1
                case $part in *3* | '') patience=60 ;; esac
                next_end "$patience"
                echo "$? $pool $code"
            done
            """
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.stdout.splitlines(), ["1  ", "1  ", "0 1 143", "0 2 0"], done.stderr)

    def test_a_full_disk(self):
        for target in ("slurm", "jobset", "compose"):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([SUMMAND, "custom-jobs", "export", "-", f"--to={target}"], input=json.dumps(job()), text=True,
                                      stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("summand: standard output: No space left on device", done.stderr)

    def test_secret_is_made_as_the_head_says(self):
        head = self.export(job(), "--to=jobset")
        [command] = re.findall(r"^#   (kubectl create secret .*)$", head, flags=re.MULTILINE)
        if not shutil.which("kubectl"):
            self.skipTest("kubectl is not here")
        done = subprocess.run(["bash", "-c", f"{command} --dry-run=client -o yaml"], capture_output=True, text=True, timeout=LONG,
                              check=False)
        if done.returncode:
            self.skipTest(f"kubectl makes nothing here: {done.stderr}")
        secret = yaml.safe_load(done.stdout)
        self.assertIn(f"secretName: {secret['metadata']['name']}\n", head)
        self.assertEqual(list(secret["data"]), ["token"])

    # Compose

    def test_compose_gives_what_env_says(self):
        spec = job()
        made = yaml.safe_load(self.export(spec, "--to=compose"))
        contract = self.contract(spec)
        self.assertEqual(set(made["services"]), set(contract))
        for name, service in made["services"].items():
            got = {key: value.replace("$$", "$") for key, value in service["environment"].items()}
            changes = {key: value.replace("gs://bucket/out", "/output") for key, value in contract[name].items()
                       if value.startswith("gs://")}
            if name.startswith(("workerpool0", "workerpool1")):
                changes["SUMMAND_TOKEN_FILE"] = "/run/secrets/token"
                self.assertEqual(set(service["depends_on"]), {"workerpool2-0", "workerpool2-1", "workerpool2-2"})
            self.must_get(name, got, contract, lambda pool, index: f"workerpool{pool}-{index}", changes)
        self.assertEqual(made["services"]["workerpool1-3"]["command"][0], "--rank=4")

    def test_compose_is_valid(self):
        validator = jsonschema.Draft7Validator(schema_of("compose"))
        spec = job(workers=2, servers=1)
        spec["jobSpec"]["workerPoolSpecs"][1]["machineSpec"] = {"machineType": "a2-highgpu-2g"}
        made = yaml.safe_load(self.export(spec, "--to=compose"))
        self.assertEqual([error.message for error in validator.iter_errors(made)], [])
        devices = [made["services"][f"workerpool1-{index}"]["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
                   for index in range(2)]
        self.assertEqual(devices, [["0", "1"], ["2", "3"]])
        made["services"]["workerpool0-0"]["depend_on"] = {}
        self.assertNotEqual(list(validator.iter_errors(made)), [], "the schema must refuse unknown fields")

    # Slurm, whose programs are played: a node of its own for each replica.

    def play_slurm(self, pools):
        programs = {
            "scontrol": """
                if [ "$1" = show ]; then tr ',' '\\n' <<<"$3"; exit; fi
                tr ',' '\\n' <<<"$4" | sed 's/.*/NodeName=& Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=&/'""",
            "srun": """
                for word in "$@"; do case $word in --ntasks=*) n=${word#*=} ;; --output=*) out=${word#*=} ;; esac; done
                script=$(mktemp -p "$PLAYED"); cat >"$script"; code=0; pids=()
                for ((k = 0; k < n; k++)); do
                    SLURM_PROCID=$k SLURM_LOCALID=0 bash -s <"$script" >"$PLAYED/${out:-chief-%t}.$k" & pids+=($!)
                done
                for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
                exit "$code" """,
            "squeue": "cat \"$PLAYED/steps\" 2>/dev/null",
            "scancel": "echo \"$@\" >>\"$PLAYED/cancelled\"",
        }
        os.mkdir(f"{self.folder}/bin")
        for name, text in programs.items():
            path = f"{self.folder}/bin/{name}"
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/bash\n" + text)
            os.chmod(path, 0o755)
        variables = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "PLAYED": self.folder, "SLURM_JOB_ID": "12",
                     "SLURM_SUBMIT_DIR": self.folder, "TMPDIR": self.folder, "RANK": "77", "PET_NNODES": "3", "MINE": "kept"}
        for component, (pool, count) in enumerate(pools):
            variables[f"SLURM_JOB_NODELIST_HET_GROUP_{component}"] = ",".join(f"n{pool}x{index}" for index in range(count))
            variables[f"SLURM_JOB_ID_HET_GROUP_{component}"] = str(12 + component)
        return variables

    def test_slurm_gives_what_env_says(self):
        spec = job(workers=11, servers=0, labels=[("summand-processes-per-replica", "2")])
        path = f"{self.folder}/job.sh"
        self.run_summand("export", "-", "--to=slurm", f"--output={path}", spec=spec)
        contract = self.contract(spec)
        # 24 processes, none of them long: enough for numbers of two digits.
        done = subprocess.run(["bash", path], env=self.play_slurm([(0, 1), (1, 11), (3, 1)]), cwd=self.folder, capture_output=True,
                              text=True, timeout=LONG, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        ports, addresses = set(), {}
        for pool, count in ((0, 2), (1, 22), (3, 1)):
            for task in range(count):
                output = "chief-%t" if pool == 0 else f"a-job-1-12-workerpool{pool}-%t.out"
                with open(f"{self.folder}/{output}.{task}", encoding="utf-8") as file:
                    got, arguments = json.loads(file.read())
                processes = 1 if pool == 3 else 2
                name = f"workerpool{pool}-{task // processes}" + (f".{task % processes}" if processes > 1 else "")
                cluster = json.loads(got["CLUSTER_SPEC"])["cluster"]
                addresses = {(int(key[-1]), index): each for key, list_ in cluster.items() for index, each in enumerate(list_)}
                ports.update(each.rpartition(":")[2] for each in addresses.values())
                changes = {key: value.replace("gs://bucket/out", f"{self.folder}/a-job-1-12") for key, value in contract[name].items()
                           if value.startswith("gs://")}
                contract[name] = {key: re.sub(VERTEX + ":2222", lambda found: addresses[int(found[1]), int(found[2])], value)
                                  for key, value in contract[name].items()}
                changes["SUMMAND_JOB_ID"] = contract[name]["SUMMAND_JOB_ID"] + "-12-0"
                if "MASTER_PORT" in contract[name]:
                    changes["MASTER_PORT"] = "21299"
                self.must_get(name, got, contract, lambda pool, index: "127.0.0.1", changes)
                self.assertEqual(got["MINE"], "kept")
                self.assertEqual(set(got) & {"SLURM_PROCID", "PET_NNODES"}, set(), "it must not look as Slurm's own task")
                self.assertEqual(arguments[0], f"--rank={contract[name].get('RANK', '$(RANK)')}")
        self.assertEqual(len(ports), 13, "replicas that share a host must have ports of their own")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("summand.")], [], "tokens must be removed")

    def test_slurm_chief_s_exit_code(self):
        spec = job(workers=1, servers=0)
        spec["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["command"] = ["sh", "-c", "exit 7"]
        spec["jobSpec"]["workerPoolSpecs"][1]["containerSpec"]["command"] = ["sh", "-c", "sleep 1"]
        spec["jobSpec"]["workerPoolSpecs"][3] = {}
        path = f"{self.folder}/job.sh"
        self.run_summand("export", "-", "--to=slurm", f"--output={path}", spec=spec)
        with open(f"{self.folder}/steps", "w", encoding="utf-8") as file:
            file.write("12.batch\n13.5\n13.extern\n112.0\n")
        done = subprocess.run(["bash", path], env=self.play_slurm([(0, 1), (1, 1)]), cwd=self.folder, capture_output=True, text=True,
                              timeout=LONG, check=False)
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        self.assertIn("workerpool0: its step has ended with 7", done.stderr)
        with open(f"{self.folder}/cancelled", encoding="utf-8") as file:
            self.assertEqual(set(file.read().splitlines()), {"--signal=TERM 13.5"})

    def test_slurm_directives(self):
        spec = job(workers=4, servers=2, labels=[("summand-processes-per-replica", "4")],
                   scheduling={"timeout": "93784s", "disableRetries": True})
        spec["jobSpec"]["workerPoolSpecs"][1]["machineSpec"] = {"machineType": "a2-highgpu-4g"}
        text = self.export(spec, "--to=slurm", "--slurm-option=--account=me", "--slurm-option", "workerpool2:--partition=cpu")
        components = text.split("#SBATCH hetjob\n")
        self.assertEqual(len(components), 4)
        self.assertIn("#SBATCH --no-requeue\n", components[0])
        for component in components:
            self.assertIn("#SBATCH --time=1-02:03:04\n#SBATCH --account=me\n", component)
        self.assertIn("#SBATCH --nodes=4 --ntasks-per-node=4\n#SBATCH --cpus-per-task=12 --mem=348160M\n#SBATCH --gres=gpu:4\n",
                      components[1])
        self.assertEqual([number for number in range(4) if "--partition=cpu" in components[number]], [2])

    def test_a_timeout_that_nobody_set(self):
        """A partition of an hour would never start a job of the default's seven days."""
        self.assertNotIn("--time", self.export(job(), "--to=slurm"))
        self.assertNotIn("activeDeadlineSeconds", self.export(job(), "--to=jobset"))
        self.assertNotIn("the job's timeout", self.export(job(), "--to=compose"))

    def test_slurm_script_has_nothing_that_shellcheck_finds(self):
        if not shutil.which("shellcheck"):
            self.skipTest("shellcheck is not here")
        done = subprocess.run(["shellcheck", "-S", "warning", "-"], input=self.export(job(), "--to=slurm"), capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.stdout, "")

    # All targets

    def test_refusals(self):
        several = job(labels=[("summand-processes-per-replica", "2")])
        bare = job()
        del bare["jobSpec"]["workerPoolSpecs"][1]["containerSpec"]["command"]
        packaged = job()
        del packaged["jobSpec"]["workerPoolSpecs"][1]["containerSpec"]
        packaged["jobSpec"]["workerPoolSpecs"][1]["pythonPackageSpec"] = {
            "executorImageUri": "image", "packageUris": ["gs://bucket/package.tar.gz"], "pythonModule": "trainer"}
        computed = job()
        computed["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"] = ["me@i+1@here"]
        glued = job()
        glued["jobSpec"]["workerPoolSpecs"][1]["containerSpec"]["env"] = [{"name": "GLUED", "value": "1$(RANK)"}]
        tpus = job()
        tpus["jobSpec"]["workerPoolSpecs"][1]["machineSpec"] = {"machineType": "cloud-tpu", "acceleratorType": "TPU_V2",
                                                               "acceleratorCount": 8}
        many = job(workers=300)
        any_one = job(labels=[("summand-success-policy", "any")])
        world = job(labels=[("summand-distribution", "mpi")])
        world["jobSpec"]["workerPoolSpecs"][1]["containerSpec"] = world["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
        for spec, target, text in (
                (several, "jobset", "summand-processes-per-replica: must be 1 in a JobSet"),
                (several, "compose", "summand-launch: node"),
                (bare, "slurm", "workerpool1: containerSpec.command: must be given for slurm"),
                (bare, "jobset", "workerpool1: containerSpec.command: must be given for a JobSet"),
                (packaged, "slurm", "workerpool1: packageUris: must be in the image or on the hosts"),
                (computed, "slurm", "workerpool0: env, command, args: must have no text that the script would compute"),
                (glued, "jobset", "workerpool1: GLUED: must be the same for its 12 replicas"),
                (glued, "slurm", "workerpool1: GLUED: must be the same for its 12 replicas"),
                (tpus, "compose", "workerpool1: acceleratorType: must be of GPUs"),
                (many, "compose", "replicas: must be at most 256 in Compose"),
                (any_one, "slurm", "summand-success-policy: must be chief or all-workers, got any"),
                (world, "slurm", "on a Slurm cluster with --engine=slurm"),
                (world, "jobset", "jobset has none. One replica whose command begins with mpirun needs none; and summand-launch: process is for "
                                  "programs that never call MPI_Init")):
            with self.subTest(target=target, text=text):
                done = self.run_summand("export", "-", f"--to={target}", spec=spec, code=2)
                self.assertIn(text, done.stderr)
                self.assertEqual(done.stdout, "")
        for words, text in ((["--to=nomad"], "--to: must be slurm, jobset or compose"), ([], "--to: must be given"),
                            (["--to=slurm", "--slurm-option=x\ny -"], "--slurm-option: must be an option of sbatch")):
            self.assertIn(text, self.run_summand("export", "-", *words, spec=job(), code=2).stderr)

    def test_what_does_not_fit_is_told(self):
        """A variable that is longer than a program can be given is left out there too."""
        spec = job(workers=3000, servers=0, labels=[("summand-job-encoding", "none")])
        for pool in (0, 1, 3):
            spec["jobSpec"]["workerPoolSpecs"][pool]["containerSpec"]["command"] = ["true"]
        done = self.run_summand("export", "-", "--to=slurm", spec=spec)
        self.assertIn("warning: CLUSTER_SPEC: must be at most 131072 bytes long", done.stderr)
        self.assertIn("\n#   CLUSTER_SPEC: must be at most 131072 bytes long", done.stdout)
        self.assertNotIn("'CLUSTER_SPEC=", done.stdout)

    def test_what_only_engines_start_is_told(self):
        """Reducers on the workers' hosts are none of a file's replicas."""
        for target in "slurm", "jobset", "compose":
            with self.subTest(target=target):
                few = self.run_summand("export", "-", f"--to={target}", spec=job()).stderr
                self.assertIn("reduction servers: 3 for 13 workers: local-run and create also start reducers on the workers' hosts, "
                              f"{target} does not; with too few servers alone an all-reduce is slower than a ring", few)
                none = job()
                none["jobSpec"]["workerPoolSpecs"][2]["replicaCount"] = 0
                self.assertIn(f"reduction servers: none, and no reducers on the workers' hosts in their place: local-run and create start these, "
                              f"{target} does not", self.run_summand("export", "-", f"--to={target}", spec=none).stderr)
                for quiet in job(servers=13), job(servers=0), job(labels=[("summand-hybrid", "off")]):
                    self.assertNotIn("reducers", self.run_summand("export", "-", f"--to={target}", spec=quiet).stderr)

    def test_an_image_s_own_command_is_kept(self):
        spec = job(workers=1)
        for pool in (0, 1):
            del spec["jobSpec"]["workerPoolSpecs"][pool]["containerSpec"]["command"]
        made = yaml.safe_load(self.export(spec, "--to=compose"))["services"]["workerpool1-0"]
        self.assertNotIn("entrypoint", made)
        self.assertEqual(made["command"][0], "--rank=1")
        containers = {name: container for name, container, _ in self.pods(yaml.safe_load(self.export(spec, "--to=jobset")))}
        self.assertNotIn("command", containers["workerpool1-0"])
        self.assertEqual(containers["workerpool1-0"]["args"][0], "--rank=1")

    def test_a_file_of_secrets(self):
        spec = job(workers=0, servers=0)
        spec["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"] = [{"name": "API_KEY", "value": "hunter2"}]
        path = f"{self.folder}/job.yaml"
        done = self.run_summand("export", "-", "--to=compose", f"--output={path}", spec=spec)
        self.assertIn("the file holds the values of the spec's secrets", done.stderr)
        self.assertNotIn("hunter2", done.stderr)
        with open(path, encoding="utf-8") as file:
            self.assertIn("hunter2", file.read())
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        done = self.run_summand("export", "-", "--to=slurm", f"--output={self.folder}/no/folder", spec=spec, code=1)
        self.assertIn("no/folder: No such file or directory", done.stderr)


if __name__ == "__main__":
    unittest.main()
