"""A job on three hosts, with three ranks and three servers: a fault in its runner or in one host's agent, and what came of it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from cells import CONTINUES
from proxy import Proxy
from stage import PATIENCE_S, TURN_S, Broken, Stage, die_with_parent

HOSTS = ("one", "two", "three")  # each has a slot for a rank and one for a server
VICTIM = "two"
WORK = "summand-perf allreduce --group=chaos --nranks=3 --rank=$RANK --sizes=4K,100K,1M --warmup=0 --iters=1000 --each --json"
JOINED = ": 3 ranks, "   # of a rank's log
SERVER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
OPTIONS = ("--quiet", "--grace=5", "--join-timeout=10", "--engine=ssh")
CHIEF = "workerpool0-0"  # prints what all ranks have found
OTHER = "workerpool2-0"  # the server that is lost; the last one is drained
LOST_SHARE = 1 / 3        # of a few packets
INTERRUPTED = 128 + signal.SIGTERM


class Host:
    """Runs what comes to it, as sshd does, over a way that can have faults."""

    def __init__(self, name, stage):
        self.name, self.stage = name, stage
        self.agents = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.way = Proxy("127.0.0.1:%d" % self.listener.getsockname()[1])
        self.way.swallows, self.way.lost_share = stage.swallows, LOST_SHARE
        with open(os.path.join(stage.folder, name + ".address"), "w", encoding="ascii") as file:
            file.write(self.way.address)
        os.mkdir(self.run_folder(), 0o700)
        threading.Thread(target=self.accept, daemon=True).start()

    def run_folder(self):
        return os.path.join(self.stage.folder, "run." + self.name)

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            with connection:
                length = connection.recv(8, socket.MSG_WAITALL)
                command = connection.recv(int(length), socket.MSG_WAITALL) if len(length) == 8 else b""
                if command:
                    self.begin(connection, command)

    def begin(self, connection, command):
        environment = {"PATH": self.stage.bin + ":/usr/local/bin:/usr/bin:/bin", "HOME": self.stage.folder,
                       "XDG_RUNTIME_DIR": self.run_folder(), "CHAOS_MARK": self.stage.folder}
        with open(os.path.join(self.stage.folder, f"host-{self.name}.err"), "ab") as err:
            agent = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE if self.holds_back() else connection,
                                     stdout=connection, stderr=err, env=environment,
                                     preexec_fn=lambda: (os.setsid(), die_with_parent()))
        self.stage.processes.append(agent)
        self.agents.append(agent)

    def holds_back(self):
        """Whether the agent is not invited: one that ends as it starts must not be there before."""
        return self.name == VICTIM and not self.agents and self.stage.cell[:2] == ("agent", "connect") and \
            self.stage.fault in ("kill", "term")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class InJob(Stage):
    def __init__(self, *words):
        super().__init__(*words)
        self.job = self.runner = None
        self.job_dir = os.path.join(self.folder, "job")
        self.may_come = os.path.join(self.folder, "may-come")  # the last rank waits for this file

    # ---- processes ----

    def pool(self, count, image, command=None):
        container = {"imageUri": image, "env": [{"name": "CHAOS_MARK", "value": self.folder}, {"name": "SUMMAND_LOG", "value": "info"}]}
        if command:
            container["command"] = ["bash", "-c", command]
        else:
            container["args"] = ["--memory-limit=64M"]
        return {"machineSpec": {"machineType": "n1-standard-8"}, "replicaCount": count, "containerSpec": container}

    def write_spec(self):
        held = f"until [ $RANK != 2 -o -e {self.may_come} ]; do sleep 0.05; done; "
        work = f"{os.path.join(self.bin, WORK)} >{self.folder}/results.$RANK"
        # What is silent is found after a while, so that the ranks must not have ended before.
        work = held + (f"exec {work}" if self.expected == CONTINUES else f"while :; do {work} || exit; done")
        pools = [self.pool(1, "local", work), self.pool(2, "local", work), self.pool(3, SERVER)]
        path = os.path.join(self.folder, "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"displayName": "chaos", "jobSpec": {"workerPoolSpecs": pools}}, file)
        return path

    def start_job(self):
        self.hosts = {name: Host(name, self) for name in HOSTS}
        hostfile, carry = os.path.join(self.folder, "hosts"), os.path.join(self.folder, "carry")
        with open(hostfile, "w", encoding="ascii") as file:
            file.write("".join(f"{name} slots=2\n" for name in HOSTS))
        with open(carry, "w", encoding="ascii") as file:
            here = os.path.dirname(os.path.abspath(__file__))
            file.write(f'#!/bin/sh\nexec {sys.executable} {here}/carry.py {self.folder} "$@"\n')
        os.chmod(carry, 0o755)
        self.variables = {"CHAOS_MARK": self.folder, "XDG_STATE_HOME": self.folder, "XDG_RUNTIME_DIR": self.folder}
        self.job = self.start("job", "summand", "custom-jobs", "local-run", self.write_spec(), f"--job-dir={self.job_dir}",
                              f"--hostfile={hostfile}", f"--ssh-command={carry}", *OPTIONS, **self.variables)

    def with_mark(self):
        """Processes of the job, wherever they are."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue  # it has ended
            if f"CHAOS_MARK={self.folder}".encode() in words:
                found.append((int(pid), words))
        return found

    def find_runner(self):
        """The child of the one that was started."""
        children = read(f"/proc/{self.job.pid}/task/{self.job.pid}/children").split()
        self.runner = int(children[0]) if children else None
        return self.runner

    def servers(self):
        """The processes of the server that is lost."""
        return [pid for pid, words in self.with_mark()
                if f"SUMMAND_REPLICA={OTHER}".encode() in words and "summand-reducti" in read(f"/proc/{pid}/comm")]

    def kill_server(self):
        """Which the runner starts again."""
        killed = self.servers()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        if self.moment == "return":
            self.wait_until(lambda: set(self.servers()) - set(killed) or self.job.poll() is not None, "the server that returns")

    def drain_server(self):
        name = json.loads(read(os.path.join(self.job_dir, "state.json")))["name"]
        scale = self.start("scale", "summand", "custom-jobs", "scale", name, "--replicas=2", **self.variables)
        self.wait_until(lambda: "workerpool2-2" in self.job_log() or scale.poll() is not None or self.job.poll() is not None,
                   "the server that is drained")

    def job_log(self):
        return read(os.path.join(self.job_dir, "logs", "job.log"))

    # ---- the fault ----

    def victims(self):
        return [self.hosts[VICTIM].way] if self.process == "agent" else [host.way for host in self.hosts.values()]

    def signal_victim(self, number):
        if self.process == "agent":
            if self.hosts[VICTIM].agents[0].poll() is None:
                self.hosts[VICTIM].agents[0].send_signal(number)
        elif number == signal.SIGTERM:  # as a shell or an operating system that ends a session sends it
            self.job.send_signal(number)
        elif self.job.poll() is None:
            try:
                os.kill(self.runner, number)
            except ProcessLookupError:
                pass

    # ---- the moments ----

    def chief_log(self):
        return read(os.path.join(self.job_dir, "logs", f"{CHIEF}.log"))

    def joined(self):
        """How often the chief has begun with all others."""
        return self.chief_log().count(JOINED)

    def let_last_come(self):
        open(self.may_come, "w", encoding="ascii").close()

    def wait_for_text(self, *texts):
        self.wait_until(lambda: all(text in self.job_log() for text in texts) or self.job.poll() is not None, texts)

    def play(self):
        pause = self.random.random()
        if self.moment != "join":
            self.let_last_come()
        self.start_job()
        self.wait_until(self.find_runner, "the runner")
        if self.moment == "connect":
            if self.process == "agent":
                self.wait_until(lambda: self.hosts[VICTIM].agents, "the agent")
            time.sleep(pause * 0.02)
            self.strike()
            return
        if self.moment == "join":
            self.wait_for_text("Job is running.")
            time.sleep(pause * 0.3)
            self.strike()
            time.sleep(pause * 0.1)
            self.let_last_come()
            return
        self.wait_until(lambda: self.joined() or self.job.poll() is not None, "the ranks' beginning")
        time.sleep(0.5 if self.moment == "steady" else 0 if self.moment == "first" else pause * 0.2)
        if self.moment in ("recovery", "return"):
            self.kill_server()
        elif self.moment == "drain":
            self.drain_server()
        time.sleep(pause * 0.05 if self.moment in ("recovery", "drain", "return") else 0)
        if self.job.poll() is not None:
            raise Broken("the job must not have ended before the fault: " + self.said("job")[-600:])
        self.strike()

    # ---- what came of it ----

    def strike(self):
        self.before = self.joined()
        super().strike()

    def wait_for_job(self):
        """And sees when its ranks work again, or begin to, if they must do that; and when it has ended."""
        begun = []

        def ended():
            if not begun and self.joined() > self.before:
                begun.append(time.monotonic())
            return self.job.poll() is not None

        self.wait_until(ended, "the end of the job")
        return begun[0] if begun else None, time.monotonic()

    def judge(self):
        begun, end = self.wait_for_job()
        code, text = self.job.returncode, self.said("job")
        if self.expected == CONTINUES:
            if code:
                raise Broken(f"the job must succeed, ended with {code}: {text[-600:]}")
            self.judge_results(begun, end)
        else:
            self.judge_end(code, text)
            self.judge_time("until the job had ended", end - self.struck, self.struck, end)
        self.wait_until(lambda: not self.left(), "the end of all that is the job's")
        if any(os.listdir(host.run_folder()) for host in self.hosts.values()) and not self.may_leave():
            raise Broken("agents must leave nothing on their hosts")

    def judge_results(self, begun, end):
        if begun:
            self.judge_time("until ranks had begun", begun - self.struck, self.struck, begun)
        rows = self.results()
        if any(row["wrong"] for row in rows):
            raise Broken(f"{CHIEF}: must have all results right")
        self.judge_stall(rows, begun or self.struck, end)

    def results(self):
        text = read(os.path.join(self.folder, "results.0"))
        try:
            return json.loads(text)["results"]
        except ValueError:
            raise Broken(f"{CHIEF}: must have printed its results, printed {text[-600:]}") from None

    def judge_end(self, code, text):
        interrupted = self.process == "runner" and self.fault == "term"
        if code not in ((INTERRUPTED, -signal.SIGTERM) if interrupted else (1,)):
            raise Broken(f"the job must end with {INTERRUPTED if interrupted else 1}, got {code}: {text[-600:]}")
        names = ["host " + VICTIM] if self.process == "agent" else ["runner was killed"] if self.fault == "kill" else ["host "]
        if not interrupted and not any(name in text for name in names):
            raise Broken(f"the message must have one of {names}: {text[-600:]}")

    def left(self):
        return [pid for pid, _ in self.with_mark() if pid != os.getpid()]

    def may_leave(self):
        """One that is killed leaves its folder to the next one there, or to the host's end."""
        return self.process == "agent" and self.fault == "kill"
