"""Where a job's processes run and what they find there: GPUs, several processes of a replica."""

import json
import os
import subprocess
import zipfile
from unittest import mock

from job import SUMMAND, JobTest, at_once, bash, only_here, reduction_servers


METADATA = "Metadata-Version: 2.1\nName: trainer\nVersion: 1\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def with_gpus(pool, count):
    return {**pool, "accelerators": count}


class PlaceTest(JobTest):
    def test_several_processes_of_a_replica(self):
        said = bash("echo $SUMMAND_REPLICA rank $RANK of $WORLD_SIZE local $LOCAL_RANK")
        run = self.run_job([said, {**said, "replicaCount": 2}, reduction_servers()],
                           "--grace=20", labels={"processes-per-replica": "3",
                                                 "success-policy": "all-workers"})
        self.assert_code(run, 0)
        for rank in range(9):
            name = f"workerpool{int(rank > 2)}-{rank // 3 - (rank > 2)}"
            self.assertEqual(self.read(run, f"logs/{name}.{rank % 3}.log"),
                             f"{name} rank {rank} of 9 local {rank % 3}\n")
        names = [r["name"] for r in self.read_json(run, "state.json")["replicas"]]
        self.assertEqual(len(names), 10)
        self.assertEqual(names[-1], "workerpool2-0")

    @only_here("a host has an LD_LIBRARY_PATH of its own")
    def test_nccl_finds_its_plugin(self):
        show = bash("ls ${LD_LIBRARY_PATH%%:*}; echo $NCCL_NET_PLUGIN $NCCL_COLLNET_ENABLE; "
                    "echo [${LD_LIBRARY_PATH#*:}]")
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": "/outer"}):
            run = self.run_job([show, {}, reduction_servers()], "--grace=20")
            self.assert_code(run, 0)
            lines = self.read(run, "logs/workerpool0-0.log").splitlines()
            self.assertIn("libnccl-net-summand.so", lines)
            self.assertEqual(lines[-2:], ["summand 1", "[/outer]"])
            run = self.run_job([bash("echo [$LD_LIBRARY_PATH] $NCCL_NET_PLUGIN")])
            self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "[/outer]\n")

    def test_one_process_of_a_replica_fails(self):
        run = self.run_job([bash("[ $LOCAL_RANK != 2 ] || exit 3; sleep 1000")],
                           labels={"processes-per-replica": "4"})
        self.assert_code(run, 1)
        self.assertIn("The replica workerpool0-0.2 exited with a non-zero status of 3.", run.err)

    @only_here("CUDA_VISIBLE_DEVICES of the caller says nothing of other hosts")
    def test_gpus_are_dealt_out(self):
        show = bash("echo \"[$CUDA_VISIBLE_DEVICES]\"")
        pools = [with_gpus(show, 2), with_gpus({**show, "replicaCount": 2}, 1), {}, show]
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "3,5,6,7"}):
            run = self.run_job(pools, "--grace=20")
            self.assert_code(run, 0)
            self.assertEqual([self.read(run, f"logs/workerpool{name}.log")
                              for name in ("0-0", "1-0", "1-1", "3-0")],
                             ["[3,5]\n", "[6]\n", "[7]\n", "[]\n"])
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "3"}):
            run = self.run_job(pools)
            self.assert_code(run, 1)
            self.assertIn("GPUs: there must be 4 for this job, got 1", run.err)
            run = self.run_job(pools, "--oversubscribe", "--grace=20")
            self.assert_code(run, 0)
            self.assertEqual(self.read(run, "logs/workerpool1-1.log"), "[3]\n")
            run = self.run_job([show])
            self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "[3]\n")


    @only_here("CUDA_VISIBLE_DEVICES of the caller says nothing of other hosts")
    def test_instances_of_azure_share_no_gpus(self):
        """The size says how many GPUs an instance has; no field of the job does."""
        spec = self.path("azure.yaml")
        with open(spec, "w", encoding="utf-8") as file:
            file.write("""
command: 'echo "[$CUDA_VISIBLE_DEVICES] $LOCAL_RANK $AZ_BATCHAI_GPU_COUNT"'
environment: {image: none}
distribution: {type: pytorch, process_count_per_instance: 4}
resources: {instance_count: 2, instance_type: Standard_NC24s_v3}
""")
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}):
            run = self.finish(self.start_spec(spec, "--success-policy=all-workers"))
        self.assert_code(run, 0)
        self.assertEqual(self.read(run, "logs/workerpool0-0.3.log"), "[0,1,2,3] 3 4\n")
        self.assertEqual(self.read(run, "logs/workerpool1-0.0.log"), "[4,5,6,7] 0 4\n")

    def test_arguments_of_azures_version_1(self):
        """Its scripts were started by a shell, so $NAME in their arguments is a variable."""
        spec = self.write_spec([{**bash("echo \"$@\""), "args": [
            "me", "--local_rank=$LOCAL_RANK", "${RANK}/$WORLD_SIZE", "$NOT_THERE", "$$", "$(NODE_RANK)"]}])
        run = self.finish(self.start_spec(spec, "--pytorch-configuration=process_count=2,node_count=1"))
        self.assert_code(run, 0)
        self.assertEqual(self.read(run, "logs/workerpool0-0.1.log"), "--local_rank=1 1/2 $NOT_THERE $ 0\n")
        run = self.finish(self.start_spec(spec))
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"),
                         "--local_rank=$LOCAL_RANK ${RANK}/$WORLD_SIZE $NOT_THERE $ $(NODE_RANK)\n")

    def test_a_foreign_directory_is_left_alone(self):
        spec = self.write_spec([bash("true")])
        folder = os.path.join(os.path.dirname(spec), "job")
        os.makedirs(os.path.join(folder, "code"))
        for name in ("spec.json", "code/mine.py"):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write("mine")
        run = self.finish(self.start_spec(spec))
        self.assert_code(run, 2)
        self.assertIn("must be empty or the directory of an earlier job, got one with", run.err)
        self.assertEqual(sorted(os.listdir(folder)), ["code", "spec.json"])
        with open(os.path.join(folder, "spec.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_the_job_directory_is_its_owners_alone(self):
        """Whatever the umask is, and whoever made its folders before."""
        before = os.umask(0)
        try:
            run = self.run_job([bash("echo '{\"message\": \"x\"}' > $TORCHELASTIC_ERROR_FILE; exit 3")],
                               labels={"restart-policy": "on-failure", "max-restarts": "1",
                                       "restart-backoff": "0"})
        finally:
            os.umask(before)
        self.assert_code(run, 1)
        modes = {}
        for folder, folders, files in os.walk(run.job_dir):
            modes.update({os.path.join(folder, name): 0o700 for name in folders})
            modes.update({os.path.join(folder, name): 0o600 for name in files})
        modes[run.job_dir] = 0o700
        self.assertIn(run.job_dir + "/exits/workerpool0-0.1.json", modes)
        del modes[run.job_dir + "/errors/workerpool0-0.json"]  # the replica's own
        for path, mode in modes.items():
            self.assertEqual(oct(os.stat(path).st_mode & 0o777), oct(mode), path)

    def test_secrets_are_masked_where_they_are_shown(self):
        secret = "it's \"5ecret\""
        env = [{"name": "DB_PASSWORD", "value": secret}, {"name": "URL", "value": "u:$(DB_PASSWORD)@h"},
               {"name": "api_token", "value": secret}, {"name": "TOKEN_FILE", "value": "/etc/token"},
               {"name": "PLAIN", "value": "plain"}, {"name": "EMPTY_KEY", "value": ""}]
        chief = {**bash('echo "[$DB_PASSWORD] [$URL] [$api_token] $CLUSTER_SPEC"'), "env": env}
        run = self.run_job([chief])
        self.assert_code(run, 0)
        log = self.read(run, "logs/workerpool0-0.log")
        self.assertTrue(log.startswith(f"[{secret}] [u:{secret}@h] [{secret}] "), log)
        self.assertIn("5ecret", log.split("] ", 3)[-1])  # the spec in CLUSTER_SPEC is the spec
        for name in "env/workerpool0-0.env", "resolved.json", "state.json", "summary.json", "plan.txt":
            self.assertNotIn("5ecret", self.read(run, name), name)
        lines = self.read(run, "env/workerpool0-0.env").splitlines()
        self.assertEqual(lines[0], "# values of secrets are shown as (masked); --show-secrets shows them")
        for line in ("# export DB_PASSWORD='(masked)'", "# export api_token='(masked)'",
                     "export URL='u:(masked)@h'", "export TOKEN_FILE='/etc/token'",
                     "export PLAIN='plain'", "export EMPTY_KEY=''"):
            self.assertIn(line, lines)
        spec = os.path.join(os.path.dirname(run.job_dir), "spec.json")
        shown = []
        for words in (["env", spec], ["env", spec, "--format=json"],
                      ["env", spec, "--replica=workerpool0-0"], ["local-run", spec, "--dry-run"],
                      ["local-run", spec, "--dry-run", "--format=json"],
                      ["local-run", spec, "--job-dir=" + self.path("again"), "--format=json"]):
            for flags in [], ["--show-secrets"]:
                with self.subTest(words=words, flags=flags):
                    said = subprocess.run([SUMMAND, "custom-jobs", *words, *flags], check=False,
                                          capture_output=True, text=True)
                    self.assertEqual(said.returncode, 0, said.stderr)
                    self.assertEqual("5ecret" in said.stdout, bool(flags), said.stdout)
                    self.assertEqual("--show-secrets shows them" in said.stderr, not flags)
                    shown.append(said.stdout)
        self.assertEqual(json.loads(shown[2])["workerpool0-0"]["DB_PASSWORD"], "(masked)")
        self.assertEqual(json.loads(shown[3])["workerpool0-0"]["DB_PASSWORD"], secret)
        with open(self.path("again/env/workerpool0-0.env"), encoding="utf-8") as file:
            self.assertIn("5ecret", file.read())

    def test_no_link_is_followed(self):
        elsewhere = self.path("elsewhere")
        os.mkdir(elsewhere)
        for folder in "logs", "exits":
            with self.subTest(folder=folder):
                spec = self.write_spec([bash("echo planted")])
                job = os.path.join(os.path.dirname(spec), "job")
                os.mkdir(job)
                os.symlink(elsewhere, f"{job}/{folder}")
                run = self.finish(self.start_spec(spec))
                self.assert_code(run, 2)
                self.assertIn(f"{folder} must be a folder, got a symbolic link", run.err)
        # A replica plants it while the job runs.
        script = (f"cd $TEST_JOB_DIR || exit; rm -r exits logs; ln -s {elsewhere} exits; "
                  f"ln -s {elsewhere} logs; exit 3")
        run = self.run_job([bash(script)], labels={"restart-policy": "on-failure", "restart-backoff": "0"})
        self.assert_code(run, 1)
        self.assertIn("logs: must be a folder, got a symbolic link", run.err)
        self.assertEqual(os.listdir(elsewhere), [])

    def make_wheel(self):
        path = self.path("trainer-1-py3-none-any.whl")
        with zipfile.ZipFile(path, "w") as wheel:
            for name, text in (("trainer/__init__.py", ""),
                               ("trainer/task.py", "import sys; print('trained', *sys.argv[1:])"),
                               ("trainer-1.dist-info/METADATA", METADATA),
                               ("trainer-1.dist-info/WHEEL", WHEEL),
                               ("trainer-1.dist-info/RECORD", "")):
                wheel.writestr(name, text)
        return path

    def run_package(self, uri):
        pool = {"replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4"},
                "pythonPackageSpec": {"executorImageUri": "local", "packageUris": [uri],
                                      "pythonModule": "trainer.task", "args": ["hard"]}}
        spec = self.path("package.json")
        with open(spec, "w", encoding="utf-8") as file:
            json.dump({"workerPoolSpecs": [pool]}, file)
        run = subprocess.run([SUMMAND, "custom-jobs", "local-run", spec,
                              "--job-dir=" + self.path("job")], check=False,
                             capture_output=True, text=True)
        run.job_dir = self.path("job")
        return run

    def test_python_packages(self):
        if subprocess.run(["python3", "-m", "pip", "--version"], check=False,
                          capture_output=True).returncode:
            self.skipTest("python3 has no pip here")
        run = self.run_package(self.make_wheel())
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "trained hard\n")
        self.assertIn("installing 1 package with pip\n", run.stderr)
        with open(self.path("trainer-2-py3-none-any.whl"), "w", encoding="utf-8") as file:
            file.write("no wheel")
        run = self.run_package(file.name)
        self.assertEqual(run.returncode, 1)
        lines = self.read(run, "logs/setup.log").splitlines()
        self.assertIn("The last lines of logs/setup.log:\n", run.stderr)
        self.assertIn("    " + lines[-1] + "\n", run.stderr)
        self.assertNotIn("trainer-1", run.stderr, "that was an earlier job's")
        self.assert_not_begun(run, f"pip: failed with status 1: {lines[-1]}; output in")

    def assert_not_begun(self, run, reason):
        self.assertEqual(run.stderr.splitlines()[-1][:len(reason) + 9], f"summand: {reason}")
        self.assertRegex(run.stderr, f"\ncustom-job: failed in [0-9.]+ s\n  job directory   {run.job_dir}\n")
        self.assertIn(reason, self.read_json(run, "state.json")["error"]["message"])
        self.assertEqual(self.read_json(run, "summary.json")["state"], "JOB_STATE_FAILED")

    def test_what_pip_says_of_a_failure(self):
        stand_in = self.path("bin/python3")
        os.makedirs(os.path.dirname(stand_in))
        for said, told in (("tarfile.ReadError: not a gzip file\n", "tarfile.ReadError: not a gzip file"),
                           ("ERROR: No matching distribution found for a==9\nWARNING: old\n\n[notice] new\n",
                            "ERROR: No matching distribution found for a==9"),
                           ("Traceback\n   RuntimeError: boom\n   [end of output]\nnote: not pip\nerror: metadata-generation-failed\n"
                            "× Encountered error\n╰─> See above for output.\nhint: See above\n", "RuntimeError: boom"),
                           ("ERROR: \033[31m\\xff\n", "ERROR: ?[31m?")):
            with open(stand_in, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/bash\nprintf '{said}'; exit 2\n")
            os.chmod(stand_in, 0o755)
            with mock.patch.dict(os.environ, {"PATH": f"{self.path('bin')}:{os.environ['PATH']}"}):
                self.assert_not_begun(self.run_package(self.make_wheel()), f"pip: failed with status 2: {told}; output in ")
        with open(stand_in, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\nexit 2\n")
        with mock.patch.dict(os.environ, {"PATH": f"{self.path('bin')}:{os.environ['PATH']}"}):
            self.assert_not_begun(self.run_package(self.make_wheel()), "pip: failed with status 2; output in ")

    def test_a_missing_package(self):
        """It is told of before anything is made or started."""
        missing = self.path("trainer.whl")
        run = self.run_package(missing)
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn(f"packageUris of worker pool 0: must be on this machine for local-run, got {missing}: No such file", run.stderr)
        self.assertFalse(os.path.exists(run.job_dir))
        self.assertIn("nothing here fetches it", self.run_package("gs://bucket/trainer.whl").stderr)

    def test_an_image_alone(self):
        """Is told of what runs it, and without a warning where that is given."""
        spec = self.write_spec([{"replicaCount": 1, "imageUri": "an-image"}])
        run = self.finish(self.start_spec(spec))
        self.assert_code(run, 2)
        self.assertIn("--container-runtime=podman runs them; else say what to start, by --command or as", run.err)
        for flags in (["--container-runtime=podman", "--dry-run"], ["--dry-run", "--container-runtime=podman"],
                      ["--command=true"], ["--command=true", "--dry-run"]):
            run = self.finish(self.start_spec(spec, *flags))
            self.assert_code(run, 0)
            self.assertNotIn("warning", run.err)
        self.assertIn("warning", self.finish(self.start_spec(spec, "--dry-run")).err)

    def test_code_is_copied(self):
        code = self.path("code of mine")
        os.makedirs(code + "/sub")
        for name in "train.sh", "sub/data":
            with open(os.path.join(code, name), "w", encoding="utf-8") as file:
                file.write("pwd; cat sub/data; echo new > sub/data\n")
        spec = self.path("command.yaml")
        with open(spec, "w", encoding="utf-8") as file:
            file.write("type: command\ncommand: bash train.sh\n"
                       f"code: {code}\nenvironment: azureml:any:1\ncompute: local\n")
        run = subprocess.run([SUMMAND, "custom-jobs", "local-run", spec,
                              "--job-dir=" + self.path("job")], check=False,
                             capture_output=True, text=True)
        run.job_dir = self.path("job")
        self.assertEqual(run.returncode, 0, run.stderr)
        log = self.read(run, "logs/workerpool0-0.log").splitlines()
        self.assertEqual(log[0], os.path.realpath(self.path("job/code")))
        with open(code + "/sub/data", encoding="utf-8") as file:
            self.assertNotEqual(file.read(), "new\n")


if __name__ == "__main__":
    at_once.main()
