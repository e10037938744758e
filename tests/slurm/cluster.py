"""A Slurm cluster on this machine for a test: slurmctld and a slurmd for each node, as ordinary processes.

    import cluster

    cluster.require()                      # ends the test as skipped where Slurm is not installed
    with cluster.Cluster(nodes=4) as slurm:
        slurm.run("sbatch", "--wait", "job.sh")
        slurm.nodes["node2"].kill()        # a node that dies; slurm.start_node("node2") brings it back

It needs no configuration of the machine, no munge and no root: everything lies in a folder of its own, every port is a free
one of loopback, and nodes have made-up CPUs, memory and GPUs. Slurm finds a step's processes by their parents, or with
Cluster(tracks="cgroup") by control groups as real clusters do (can_track_by_cgroup() says where that can be had). `slurm.environment` has SLURM_CONF for programs
that the test starts itself. Leaving the block ends all that was started by the cluster, jobs and their steps included: this
process adopts what they leave behind (it is a child subreaper), so nothing escapes by a new session or a double fork.

By hand: tests/slurm/cluster.py [--nodes=N] COMMAND [ARGUMENT...] runs a command in a cluster and takes that down again.
"""

import argparse
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

UNABLE = 77
LONG = 60  # seconds: nothing takes that long unless it hangs
PR_SET_CHILD_SUBREAPER = 36
DEFAULTS = ("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SCONTROL_", "SCANCEL_", "SINFO_", "SACCT_")  # variables that change commands
PROGRAMS = ("slurmctld", "slurmd", "slurmstepd", "sbatch", "srun", "scontrol", "scancel", "squeue")

CONFIGURATION = """\
ClusterName=summand
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/{tracks}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp.txt
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,bf_hetjob_immediate
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmdTimeout=10
KillWait={kill_wait}
UnkillableStepTimeout=20
GresTypes=gpu
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=4
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""
FREEZER = "/sys/fs/cgroup/freezer"  # version 1: groups for processes without more ado
CGROUPS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN"


def require():
    """Ends the test as skipped where Slurm is not installed."""
    absent = [program for program in PROGRAMS if not find(program)]
    if absent:
        print(f"skipped: Slurm is not installed: no {', '.join(absent)}")
        sys.exit(UNABLE)


def can_track_by_cgroup():
    return os.path.ismount(FREEZER) and os.access(FREEZER, os.W_OK)


def find(program):
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def free_ports(count):
    """Held together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def parents():
    """The parent of each process."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def descendants(pid):
    found, known = [pid], parents()
    for each in found:
        found += [child for child, parent in known.items() if parent == each]
    return found[1:]


class Cluster:
    def __init__(self, nodes=4, cpus=16, memory=400000, gpus=8, plugin=None, tracks="linuxproc", kill_wait=5):
        """A plugin is a line of plugstack.conf."""
        self.folder = tempfile.mkdtemp(prefix="summand-slurm-")
        self.tracks = tracks
        self.kill_wait = kill_wait
        # Control groups of the machine's other clusters have their nodes' names.
        prefix = f"node{os.getpid()}x" if tracks == "cgroup" else "node"
        self.names = [f"{prefix}{number}" for number in range(nodes)]
        self.nodes = {}
        self.controller = None
        self.others = set(descendants(os.getpid()))
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith(DEFAULTS)},
                            "SLURM_CONF": f"{self.folder}/slurm.conf", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        self.write_configuration(cpus, memory, gpus)
        if plugin:
            with open(f"{self.folder}/plugstack.conf", "w", encoding="utf-8") as file:
                file.write(f"required {plugin}\n")

    def write_configuration(self, cpus, memory, gpus):
        host = socket.gethostname().partition(".")[0]
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        ports = free_ports(len(self.names) + 1)
        rows = [NODE.format(name=name, host=host, port=port, cpus=cpus, memory=memory, gpus=gpus)
                for name, port in zip(self.names, ports[1:])]
        for name in ("state", "log", *(f"spool/{node}" for node in self.names)):
            os.makedirs(f"{self.folder}/{name}")
        with open(f"{self.folder}/slurm.conf", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(host=host, user=user, port=ports[0], folder=self.folder, tracks=self.tracks, kill_wait=self.kill_wait,
                                            nodes="\n".join(rows)))
        if self.tracks == "cgroup":
            with open(f"{self.folder}/cgroup.conf", "w", encoding="utf-8") as file:
                file.write(CGROUPS)
        with open(f"{self.folder}/gres.conf", "w", encoding="utf-8") as file:
            file.write(f"Name=gpu File={self.folder}/gpu[0-{gpus - 1}]\n")
        for number in range(gpus):
            os.symlink("/dev/null", f"{self.folder}/gpu{number}")  # Slurm gives out devices only, and tells programs their numbers

    def __enter__(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self.controller = self.start("slurmctld", "-D", "-c", "-i")
            for name in self.names:
                self.start_node(name)
            self.await_idle()
        except BaseException:
            self.take_down()
            raise
        return self

    def __exit__(self, *_):
        self.take_down()

    def start(self, program, *arguments):
        with open(f"{self.folder}/log/output", "ab") as output:
            return subprocess.Popen([find(program), *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                                    stderr=output, start_new_session=True)

    def start_node(self, name):
        self.nodes[name] = self.start("slurmd", "-D", "-N", name)

    def run(self, *command, timeout=LONG, check=True, **options):
        """The completed process, with its output as text."""
        done = subprocess.run(command, env={**self.environment, **options.pop("env", {})}, capture_output=True, text=True,
                              timeout=timeout, check=False, **options)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def states(self):
        return self.run("sinfo", "--noheader", "--partition=debug", "--Node", "--format=%T", check=False).stdout.split()

    def await_idle(self):
        """All nodes are up, and nothing runs."""
        deadline = time.monotonic() + LONG
        while self.states() != ["idle"] * len(self.names):
            if time.monotonic() > deadline or self.controller.poll() is not None:
                raise AssertionError(f"nodes must be idle, got {self.states()}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self, lines=20):
        text = ""
        for name in sorted(os.listdir(f"{self.folder}/log")):
            with open(f"{self.folder}/log/{name}", encoding="utf-8", errors="replace") as file:
                text += f"--- {name}\n" + "".join(file.readlines()[-lines:])
        return text

    def started(self):
        """Processes that are there because of the cluster."""
        return [pid for pid in descendants(os.getpid()) if pid not in self.others]

    def take_down(self):
        """By process ids alone: daemons are asked to end, what is left is killed."""
        for process in [*self.nodes.values(), self.controller]:
            if process and process.poll() is None:
                process.terminate()
        for process in [*self.nodes.values(), self.controller]:
            try:
                if process:
                    process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                pass
        deadline = time.monotonic() + LONG
        while self.started() and time.monotonic() < deadline:
            for pid in self.started():
                self.end(pid)
            time.sleep(0.05)
        self.remove_groups()
        shutil.rmtree(self.folder)

    def remove_groups(self):
        """Empty ones, from the inside out."""
        for name in self.names if self.tracks == "cgroup" else []:
            for folder, _, _ in os.walk(f"{FREEZER}/slurm_{name}", topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass  # a process that was killed is still there

    @staticmethod
    def end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)  # ours, or will be when its parent has ended
        except (ProcessLookupError, ChildProcessError):
            pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    require()
    with Cluster(arguments.nodes) as slurm:
        return subprocess.run(arguments.command, env=slurm.environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
