"""torch-run as torchrun's users know it: its options, its variables, restarts, timeouts, @record's error files."""

import debian_torch

debian_torch.require()

import json
import os
import re
import subprocess
import unittest

from programs import ProgramTest

FLAGS = os.path.join(os.environ["SUMMAND_SOURCE"], "specs", "guide", "flags.md")
REPORT = """
import json, os, sys
told = {{name: os.environ.get(name) for name in {names!r}}}
told.update(argv=sys.argv[1:])
open("{folder}/rank-" + os.environ["RANK"] + ".json", "w").write(json.dumps(told))
"""
MEET = """
import torch, torch.distributed as dist
assert dist.is_torchelastic_launched()
dist.init_process_group("gloo")
part = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(part)
print("all", int(part), dist.get_world_size())
"""
NAMES = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
         "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
         "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE", "OMP_NUM_THREADS",
         "CUDA_VISIBLE_DEVICES", "MINE"]
RECORDED = """
import os, time
from torch.distributed.elastic.multiprocessing.errors import record

def deeper():
    raise ValueError("the loss is not a number")

@record
def main():
    if os.environ["RANK"] == "1":
        deeper()
    time.sleep(60)

main()
"""


class TorchRun(ProgramTest):
    def write(self, text, name="train.py"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def torch_run(self, *words, code=0, **variables):
        # Debian's python3, whatever else is on PATH.
        self.count = getattr(self, "count", 0) + 1
        self.job_dir = os.path.join(self.folder, f"job{self.count}")
        variables = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "", **variables}
        done = self.run_program("summand", "torch-run", f"--job-dir={self.job_dir}", *words, **variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def report(self, *options, script=None, arguments=(), **variables):
        """What each rank says of itself."""
        path = self.write(REPORT.format(names=NAMES, folder=self.folder))
        self.said = self.torch_run(*options, *(script or [path]), *arguments, **variables).stderr
        ranks = []
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("rank-"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    ranks.append(json.load(file))
                os.unlink(file.name)
        return ranks

    def test_variables_of_torchrun(self):
        ranks = self.report("--standalone", "--nnodes=1", "--nproc_per_node", "2", "--rdzv_backend=c10d",
                            "--rdzv_endpoint=localhost:0", "--max-restarts=3", "--rdzv-id=mine$(RANK)", "--role=trainer",
                            arguments=["--lr", "0.1"])
        for rank, told in enumerate(ranks):
            self.assertEqual(told["argv"], ["--lr", "0.1"])
            self.assertEqual({name: told[name] for name in NAMES if name not in ("MASTER_PORT", "TORCHELASTIC_ERROR_FILE")}, {
                "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "0",
                "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": "2",
                "ROLE_NAME": "trainer", "TORCHELASTIC_RUN_ID": "mine$(RANK)", "TORCHELASTIC_RESTART_COUNT": "0",
                "TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_USE_AGENT_STORE": "False", "OMP_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "", "MINE": None})
            self.assertTrue(told["TORCHELASTIC_ERROR_FILE"].startswith(self.job_dir))
        self.assertEqual(len(ranks), 2)
        self.assertIn("OMP_NUM_THREADS is set to 1 for each process, so that 2 of them do not overload", self.said)

    def test_beside_torchrun(self):
        """The same script below both: its environment differs in what the page says, and in nothing else."""
        torchrun = "/usr/bin/torchrun"
        if not os.path.exists(torchrun):
            self.skipTest(f"{torchrun} is not here")
        script = self.write("import json, os, sys\njson.dump([dict(os.environ), sys.argv, os.getcwd()], open(sys.argv[1] + os.environ['RANK'], 'w'))\n")
        words = ["--standalone", "--nnodes=1", "--nproc_per_node=2", "--max_restarts=2", "--role=trainer"]
        variables = self.environment(PATH="/usr/bin:/bin", CUDA_VISIBLE_DEVICES="", MINE="as it was")
        del variables["GLOO_SOCKET_IFNAME"]  # debian_torch sets it for others
        # torchrun 1.13 fails on Python 3.11 when nothing is redirected; there is no rank 9.
        done = subprocess.run([torchrun, *words, script, os.path.join(self.folder, "theirs-")], capture_output=True, text=True,
                              env={**variables, "PET_REDIRECTS": "9:1", "PET_TEE": "9:1"}, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.torch_run(*words, script, os.path.join(self.folder, "ours-"), MINE="as it was")
        with open(FLAGS, encoding="utf-8") as file:
            table = file.read().split("| variable | torchrun | torch-run |")[1].split("\n\n")[0]
        told = {name for line in table.splitlines() for name in re.findall(r"`(\w+\*?)`", line.split("|")[1] if line else "")}
        different = set()
        for rank in "01":
            (theirs, *words), (ours, *our_words) = [self.read_json(name + rank) for name in ("theirs-", "ours-")]
            self.assertEqual(words[0][2:], our_words[0][2:])
            self.assertEqual(words[1], our_words[1])
            different |= {name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name)}
            self.assertEqual(ours["MINE"], "as it was")
        different -= {"PET_REDIRECTS", "PET_TEE"}
        # A static rendezvous has an agent's store, and --standalone has none.
        self.assertEqual({"SUMMAND_*" if name.startswith("SUMMAND_") else name for name in different},
                         told - {"TORCHELASTIC_USE_AGENT_STORE"})

    def test_every_option_of_torchrun(self):
        """Debian's torchrun knows none that is not taken, or refused with what to do instead."""
        from torch.distributed.run import get_args_parser
        options = [option for action in get_args_parser()._actions for option in action.option_strings if option.startswith("--")]
        self.assertIn("--nproc_per_node", options)
        known = self.torch_run("--help").stdout
        for option in options:
            self.assertRegex(known, rf"{option.replace('_', '-')}\b")

    def read_json(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return json.load(file)

    def test_processes_meet(self):
        self.assertIn("all 3 2", self.torch_run("--nproc_per_node=2", self.write(MEET)).stdout)

    def test_apart(self):
        told = self.report("--num-processes=2", "--no-local-mode", "--no-use-gpu")[1]
        self.assertEqual([told[name] for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                                                  "ROLE_RANK", "TORCHELASTIC_MAX_RESTARTS")], ["0", "1", "1", "2", "1", "0"])
        self.assertRegex(told["TORCHELASTIC_RUN_ID"], "^[0-9a-f]{10}-[0-9a-f]{10}$")

    def test_threads_and_variables(self):
        told = self.report("--num-processes=2", "--use-gpu=False", "--env=MINE=a $(RANK) b", "--env", "OMP_NUM_THREADS=3")[0]
        self.assertEqual((told["MINE"], told["OMP_NUM_THREADS"]), ("a $(RANK) b", "3"))
        self.assertNotIn("OMP_NUM_THREADS", self.said)
        self.assertEqual(self.report("--num-processes=2", "--no-use-gpu", OMP_NUM_THREADS="2")[0]["OMP_NUM_THREADS"], "2")
        self.assertNotIn("OMP_NUM_THREADS", self.said)
        # What is set is not set again.
        told = self.torch_run("--num-processes=1", "--no-use-gpu", "--dry-run", "x.py", TORCH_NCCL_ASYNC_ERROR_HANDLING="3").stdout
        self.assertNotIn("TORCH_NCCL_ASYNC_ERROR_HANDLING", told)
        told = self.torch_run("--no-use-gpu", "--dry-run", "--env=TORCH_NCCL_ASYNC_ERROR_HANDLING=3", "x.py").stdout
        self.assertEqual(told.count("TORCH_NCCL_ASYNC_ERROR_HANDLING"), 1)
        self.assertIsNone(self.report("--no-use-gpu")[0]["OMP_NUM_THREADS"])  # one process may use all of the machine

    def test_gpus_are_counted_or_left(self):
        self.assertEqual(len(self.report("--nproc-per-node=cpu")), os.sysconf("SC_NPROCESSORS_ONLN"))
        self.assertEqual(len(self.report("--nproc-per-node=auto")), os.sysconf("SC_NPROCESSORS_ONLN"))
        ranks = self.report("--nproc-per-node=gpu", CUDA_VISIBLE_DEVICES="4,6")
        self.assertEqual([told["CUDA_VISIBLE_DEVICES"] for told in ranks], ["4,6"] * 2)
        ranks = self.report("--nproc-per-node=3", CUDA_VISIBLE_DEVICES="4,6")  # torchrun takes none away
        self.assertEqual([told["CUDA_VISIBLE_DEVICES"] for told in ranks], ["4,6"] * 3)
        ranks = self.report("--nproc-per-node=3", "--use-gpu", CUDA_VISIBLE_DEVICES="4,6")  # they are dealt
        self.assertEqual([told["CUDA_VISIBLE_DEVICES"] for told in ranks], ["4,6"] * 2)
        self.assertIn("number of available GPUs, which is 2; it was reset to that", self.said)
        said = self.torch_run("--nproc-per-node=gpu", "x.py", code=2).stderr
        self.assertIn("--nproc-per-node: GPUs were unable to be found on this machine", said)

    def test_modules_and_programs(self):
        self.write(REPORT.format(names=NAMES, folder=self.folder), "trainer.py")
        for option in "-m", "--module":
            ranks = self.report("--no-use-gpu", script=[option, "trainer"], arguments=["-m", "x"], PYTHONPATH=self.folder)
            self.assertEqual(ranks[0]["argv"], ["-m", "x"])
        program = self.write("#!/bin/sh\necho I am rank $RANK: $1\n", "a program")
        os.chmod(program, 0o755)
        done = self.torch_run("--no-use-gpu", "--no-python", program, "a b")
        self.assertIn("I am rank 0: a b", done.stdout)

    def test_master_port(self):
        told = self.report("--num-processes=2", "--no-use-gpu", "--master_port=29517", "--master-addr=127.0.0.1")[0]
        self.assertEqual(told["MASTER_PORT"], "29517")

    def test_restarts(self):
        script = self.write("import os, sys\n"
                            "print('attempt', os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True)\n"
                            "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] != '2')\n")
        done = self.torch_run("--no-use-gpu", "--num-processes=2", "--max-restarts=2", script)
        self.assertIn("attempt 2", done.stdout)
        done = self.torch_run("--no-use-gpu", "--max-restarts=1", script, code=1)
        self.assertIn("attempt 1", done.stdout)
        self.assertNotIn("attempt 2", done.stdout)
        done = self.torch_run("--no-use-gpu", script, code=1)
        self.assertNotIn("attempt 1", done.stdout)

    def test_timeout(self):
        script = self.write("import time\ntime.sleep(60)\n")
        done = self.torch_run("--no-use-gpu", "--timeout=1s", script, code=1)
        self.assertIn("The job did not end within its timeout of 1 second", done.stdout + done.stderr)

    def test_record(self):
        said = self.torch_run("--no-use-gpu", "--num-processes=2", self.write(RECORDED), code=1)
        text = said.stdout + said.stderr
        self.assertIn("Its error: ValueError: the loss is not a number", text)
        self.assertRegex(text, r"(?s)Its traceback ends with:\n    +File .*train.py\", line \d+, in deeper\n"
                                r" +raise ValueError[^\n]*\n  Its log: ")

    def test_output_is_not_kept_back(self):
        """Python's own buffer would be lost with a process that is killed."""
        script = self.write("import os, signal\nprint('before')\nos.kill(os.getpid(), signal.SIGKILL)\n")
        self.assertIn("before", self.torch_run("--no-use-gpu", script, code=1).stdout)

    def test_reduction_servers(self):
        script = self.write("""
import torch, torch.distributed as dist, summand.ddp
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
with summand.ddp.register(model):
    model(torch.ones(3, 4)).sum().backward()
print("reduced", dist.get_rank())
""")
        path = os.path.join(os.environ["SUMMAND_BUILD"], "share", "summand", "python")
        done = self.torch_run("--no-use-gpu", "--num-processes=2", "--reduction-servers=1", script, PYTHONPATH=path)
        self.assertIn("reduced 1", done.stdout)
        with open(os.path.join(self.job_dir, "summary.json"), encoding="utf-8") as file:
            servers = [each for each in json.load(file)["replicas"] if each["name"] == "workerpool2-0"]
        self.assertGreater(int(servers[0]["results"]["bytes_received"]), 0)
        self.torch_run("--no-use-gpu", "--reduction-servers=1", self.write("print('alone')"))

    def test_refused(self):
        for option, sentence in {
                "--nnodes=2": "--nnodes: must be 1, got \"2\"; torch-run starts processes of this machine: for several",
                "--node_rank=1": "--node-rank: must be 0",
                "--rdzv-endpoint=node1:29400": "--rdzv-endpoint: must be localhost, got \"node1:29400\"",
                "--master-addr=10.0.0.1": "--master-addr: must be localhost",
                "--rdzv-backend=etcd-v2": "--rdzv-backend: must be static or c10d",
                "--rdzv-conf=timeout=3": "--rdzv-conf: must be left out",
                "--logs-specs=x": "--logs-specs: must be left out, got \"x\"; --job-dir=DIR keeps all output",
                "--local-ranks-filter=0": "--local-ranks-filter: must be left out, got \"0\"; each line has its process's name",
                "--numa-binding=node": "--numa-binding: must be left out, got \"node\"; a program of one's own binds: --no-python",
                "--virtual-local-rank=True": "--virtual-local-rank: must be left out, got \"True\"; --no-local-mode gives",
                "--local-addr=10.0.0.1": "--local-addr: must be localhost",
                "--log-dir=/tmp": "--log-dir: must be left out, got \"/tmp\"; --job-dir=DIR keeps all output",
                "--redirects=3": "--redirects: must be 0, got \"3\"; all output is shown",
                "--nproc-per-node=two": "--nproc-per-node: must be auto, cpu, gpu or a whole number from 1 to 1024",
                "--env=RANK=3": "--env: must be a variable that torch-run does not set itself, got \"RANK=3\"",
                "--env=TORCHELASTIC_RUN_ID=3": "--env: must be a variable that torch-run does not set itself",
                "--env=A": "--env: must be NAME=VALUE", "--env=1A=2": "--env: must be NAME=VALUE",
                "--timeout=soon": "--timeout: must be a duration such as 90s",
                "--max-restarts=-1": "--max-restarts: must be a whole number from 0",
                "-r": "-r: unknown option"}.items():
            with self.subTest(option=option):
                self.assertIn(sentence, self.torch_run(option, "--no-use-gpu", "x.py", code=2).stderr)
        self.assertIn("must not be given together", self.torch_run("--num-processes=2", "--nproc-per-node=2", "x", code=2).stderr)
        self.assertIn("a module is run by Python", self.torch_run("--no-python", "-m", "x", code=2).stderr)
        for words in (["-m"], [""], ["--no-python", ""], []):
            self.assertIn("a script is needed", self.torch_run(*words, code=2).stderr)
        for option in ("--tee=3", "--redirects=0", "--start-method=spawn", "--monitor-interval=5", "--run-path",
                       "--local-addr=localhost", "--event-log-handler=null", "--signals-to-handle=SIGTERM", "--rdzv-endpoint=[::1]:0"):
            self.torch_run(option, "--no-use-gpu", "--dry-run", "x.py")


if __name__ == "__main__":
    unittest.main(verbosity=2)
