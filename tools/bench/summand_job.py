"""Summand as users have it: ranks and servers are one job, which one command starts on all nodes by ssh."""

import json
import os
import subprocess
import tempfile

import lab
import sshd
import systems

REDUCTION_SERVER = "reductionserver"


class SummandJob(systems.Summand):
    """Servers are told what the agents of their hosts have found."""
    name = "summand-job"

    @staticmethod
    def missing(setup):
        if not setup.server_rates:
            return "a job of reducers alone has no pool that takes --server-args"
        return systems.Summand.missing(setup) or sshd.missing()

    def start_servers(self):
        """The job does."""

    def pool(self, count, image, **container):
        return {"replicaCount": count, "machineSpec": {"machineType": "n1-standard-4"},
                "containerSpec": {"imageUri": image, **container}}

    def write_job(self, folder, words):
        rank = {"command": words, "args": ["--rank=$(RANK)", "--nranks=$(WORLD_SIZE)", *self.setup.summand_args]}
        pools = [self.pool(1, "none", **rank), self.pool(self.setup.workers - 1, "none", **rank),
                 self.pool(len(self.setup.server_rates), REDUCTION_SERVER, args=self.setup.server_args)]
        with open(f"{folder}/job.json", "w", encoding="utf-8") as file:
            json.dump({"displayName": "bench", "jobSpec": {"workerPoolSpecs": pools}}, file)
        with open(f"{folder}/hosts", "w", encoding="ascii") as file:
            file.writelines(f"{lab.name_of(node)}\n" for node in range(self.nodes.nodes))

    def run_ranks(self, words, what, patience_s):
        folder = tempfile.mkdtemp(dir=systems.SCRATCH)
        self.write_job(folder, words)
        summand = os.path.join(os.path.dirname(self.setup.perf), "summand")
        done = self.nodes.start_beside(
            [summand, "custom-jobs", "local-run", f"{folder}/job.json", "--engine=ssh", f"--hostfile={folder}/hosts",
             f"--job-dir={folder}/job", "--success-policy=all-workers", f"--hybrid={'auto' if self.setup.hybrid else 'off'}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            said = done.communicate(timeout=patience_s)[1]
        except subprocess.TimeoutExpired as error:
            raise systems.Failed(f"{what}: must end in time, still runs") from error
        finally:
            self.nodes.end([done])
        if done.returncode:
            raise systems.Failed(f"{what}: {said.strip()}")
        with open(f"{folder}/job/logs/workerpool0-0.log", encoding="utf-8") as file:
            return file.read()
