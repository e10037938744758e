"""Jobs of a few ranks: what each does is drawn from the soak's seed and the job's number."""

import os
import random
import shutil
import signal
import subprocess
import time

RIGHT, WRONG, FAILED = 0, 1, 3     # exit codes of soak_rank
HANG_S = 180                       # a job that still runs then will not end
FOR_EVER = 1000000000              # operations of a job that ends by a death
STOP_MOST_S = 3                    # well below what servers take for silence
PLANS = ["good"] * 6 + ["stopped"] * 2 + ["killed"] * 3


class Plan:
    """What is to happen in one job."""

    def __init__(self, seed, number, most_bytes):
        draw = random.Random(f"{seed} {number}")
        self.kind = draw.choice(PLANS)
        self.nranks = draw.choice([1, 2, 2, 3, 4, 5])
        if self.kind != "good":
            self.nranks = max(2, self.nranks)
        self.seed = draw.getrandbits(63)
        self.groups = draw.choice([1, 1, 2, 3, 8])
        self.operations = draw.choice([1, 10, 40, 40, 150])
        # Few jobs have the largest sizes, so that many jobs run.
        self.most_bytes = min(most_bytes, draw.choice([1, 4096, 1 << 20, 1 << 20, 8 << 20, 64 << 20]))
        self.endings = [draw.choice(["destroy", "destroy", "exit", "abrupt"]) for _ in range(self.nranks)]
        self.victim = draw.randrange(self.nranks)
        self.after_s = draw.uniform(0, 3)
        self.stopped_s = draw.uniform(0.05, STOP_MOST_S)
        self.apart_s = [draw.choice([0, 0, 0, draw.uniform(0, 1)]) for _ in range(self.nranks)]
        if self.kind == "killed":
            self.operations = FOR_EVER
            self.most_bytes = min(self.most_bytes, 8 << 20)
        self.tls = draw.randrange(3) == 0


class Job:
    """One that runs; poll() until it says how it ended."""

    def __init__(self, number, plan, program, folder, environment):
        self.number, self.plan = number, plan
        self.folder = os.path.join(folder, f"job-{number}")
        os.mkdir(self.folder)
        self.words = [program, "work", str(plan.seed), str(plan.nranks)]
        self.environment = {**environment, "SUMMAND_JOB_ID": f"soak-{number}"}
        self.began = time.monotonic()
        self.joined_at = None     # when the victim was in all groups: who dies before is not known to anybody
        self.acted_at = None      # when the victim was stopped or killed
        self.continued = False
        self.worst_s = 0          # from the death to the last rank that said so
        self.ranks = [None] * plan.nranks
        self.ended = [None] * plan.nranks
        self.operations = self.bytes = 0

    def name(self, rank):
        return f"soak-{self.number}-rank-{rank}"

    def start_rank(self, rank):
        plan = self.plan
        with open(f"{self.folder}/{rank}.out", "wb") as out, open(f"{self.folder}/{rank}.err", "wb") as err:
            self.ranks[rank] = subprocess.Popen(
                [*self.words, str(rank), str(plan.groups), str(plan.operations), str(plan.most_bytes), plan.endings[rank]],
                env={**self.environment, "SUMMAND_REPLICA": self.name(rank)}, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def poll(self):
        """None while it runs, then what was wrong with it: an empty list when nothing was."""
        now = time.monotonic()
        for rank, apart_s in enumerate(self.plan.apart_s):
            if self.ranks[rank] is None and now >= self.began + apart_s:
                self.start_rank(rank)
        self.act(now)
        for rank, process in enumerate(self.ranks):
            if process and self.ended[rank] is None and process.poll() is not None:
                self.ended[rank] = now
        if now - self.began > HANG_S:
            return [f"{self.title()}: must end within {HANG_S} s; still there: "
                    + ", ".join(str(rank) for rank, ended in enumerate(self.ended) if ended is None)]
        return None if None in self.ended else self.verdict()

    def act(self, now):
        plan = self.plan
        if plan.kind == "good" or None in self.ranks:
            return
        victim = self.ranks[plan.victim]
        if self.joined_at is None and self.printed(plan.victim):
            self.joined_at = now
        if self.acted_at is None and self.joined_at and now >= self.joined_at + plan.after_s:
            victim.send_signal(signal.SIGKILL if plan.kind == "killed" else signal.SIGSTOP)
            self.acted_at = now
        if plan.kind == "stopped" and self.acted_at and not self.continued and now >= self.acted_at + plan.stopped_s:
            victim.send_signal(signal.SIGCONT)
            self.continued = True

    def title(self):
        plan = self.plan
        return f"job {self.number} ({plan.kind}{', over TLS' if plan.tls else ''}, {plan.nranks} ranks, {plan.groups} groups, up to {plan.most_bytes} bytes)"

    def said(self, rank):
        with open(f"{self.folder}/{rank}.err", encoding="utf-8", errors="replace") as file:
            return file.read().strip()

    def printed(self, rank):
        with open(f"{self.folder}/{rank}.out", encoding="utf-8") as file:
            return file.read().split()

    def count(self, rank):
        words = self.printed(rank)
        if len(words) == 3:
            self.operations += int(words[1])
            self.bytes += int(words[2])

    def verdict(self):
        wrong = []
        for rank, process in enumerate(self.ranks):
            where = f"{self.title()}, rank {rank}"
            self.count(rank)
            if self.plan.kind != "killed":
                if process.returncode != RIGHT:
                    wrong.append(f"{where}: must end with 0, got {process.returncode}: {self.said(rank)}")
            elif rank != self.plan.victim:
                wrong += self.judge_survivor(rank, process.returncode, where)
        return wrong

    def judge_survivor(self, rank, code, where):
        """It must have failed, in time, with the name of the one that died."""
        if code != FAILED or self.name(self.plan.victim) not in self.said(rank):
            return [f"{where}: must fail and name {self.name(self.plan.victim)}, got {code}: {self.said(rank)}"]
        self.worst_s = max(self.worst_s, self.ended[rank] - self.acted_at)
        return []

    def end(self, keep=False):
        for process in self.ranks:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
