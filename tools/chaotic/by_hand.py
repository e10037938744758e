"""Servers and ranks that are started by hand: three of each, a fault in one of them, and what came of it."""

import signal
import subprocess
import time

from cells import CONTINUES, outcome
from proxy import Proxy
from stage import PATIENCE_S, Broken, Stage

SERVERS = RANKS = 3
VICTIM = 1           # of servers, and of ranks
OTHER = 0            # the server that is lost, or drained, before it
ITERATIONS = 500
VARIABLES = {"SUMMAND_CONNECT_TIMEOUT": "20"}  # else the defaults
SERVER_OPTIONS = ("--memory-limit=64M",)


class ByHand(Stage):
    def __init__(self, *words):
        super().__init__(*words)
        self.servers, self.proxies, self.ranks = [], [], [None] * RANKS

    # ---- processes ----

    def start_servers(self):
        for k in range(SERVERS):
            server = self.start(f"server-{k}", "summand-reduction-server", "--listen=127.0.0.1:0", *SERVER_OPTIONS)
            words = server.stdout.readline().split()
            if len(words) < 2 or words[0] != "ready":
                raise Broken(f"server {k}: must be ready, said {words} {self.said(f'server-{k}')}")
            self.servers.append(server)
            self.proxies.append(Proxy(words[1]))
        # The victim among ranks has ways of its own, so that its network's faults are its alone.
        self.rank_proxies = [Proxy("%s:%d" % proxy.target) for proxy in self.proxies] if self.process == "rank" else []

    def start_rank(self, rank):
        ways = self.rank_proxies if self.rank_proxies and rank == VICTIM else self.proxies
        self.ranks[rank] = self.start(
            f"rank-{rank}", "summand-perf", "allreduce", "--group=chaos", f"--nranks={RANKS}", f"--rank={rank}",
            "--servers=" + ",".join(way.address for way in ways), "--sizes=4K,100K,1M", f"--iters={ITERATIONS}",
            SUMMAND_REPLICA=f"rank-{rank}", **VARIABLES)

    # ---- the fault ----

    def victims(self):
        """The ways whose network has the fault."""
        return self.rank_proxies if self.process == "rank" else [self.proxies[VICTIM]]

    def signal_victim(self, number):
        process = self.ranks[VICTIM] if self.process == "rank" else self.servers[VICTIM]
        if process.poll() is None:
            process.send_signal(number)

    def strike(self):
        if any(rank is not None and rank.poll() is not None for rank in self.ranks):
            raise Broken("the ranks must not have ended before the fault")
        super().strike()

    # ---- the moments ----

    def start_all(self, but=()):
        for rank in range(RANKS):
            if rank not in but and self.ranks[rank] is None:
                self.start_rank(rank)

    def wait_until_joined(self):
        if not self.ranks[0].stdout.readline().startswith("#"):
            raise Broken("rank 0: must say that all have joined: " + self.said("rank-0"))

    def play(self):
        self.start_servers()
        pause = self.random.random()
        if self.moment == "connect":
            if self.process == "rank":
                self.start_all()
                time.sleep(pause * 0.02)
                self.strike()
            else:
                self.strike()
                self.start_all()
            return
        if self.moment == "join":
            absent = 2  # rank 1 may be the victim
            self.start_all(but=(absent,))
            time.sleep(0.3 + pause * 0.3)
            self.strike()
            time.sleep(pause * 0.1)
            self.start_all()
            return
        self.start_all()
        self.wait_until_joined()
        if self.moment == "steady":
            time.sleep(0.5)
        elif self.moment == "recovery":
            time.sleep(pause * 0.2)
            self.servers[OTHER].kill()
            time.sleep(pause * 0.05)
        elif self.moment == "drain":
            time.sleep(pause * 0.2)
            self.servers[OTHER].send_signal(signal.SIGTERM)
            time.sleep(pause * 0.05)
        self.strike()

    # ---- what came of it ----

    def wait_for_ranks(self):
        """Reads what they print, so that none waits for that."""
        end = time.monotonic() + PATIENCE_S
        for rank, process in enumerate(self.ranks):
            try:
                process.communicate(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Broken(f"rank {rank}: must have ended within {PATIENCE_S} s") from None

    def lost_one(self):
        """How the ones that live may call who was lost: the process, or one that was lost for its sake."""
        if self.process == "rank":
            return [f"rank {VICTIM}", f"(rank-{VICTIM})", f"ranks {VICTIM}"]
        return [self.proxies[VICTIM].address]

    def judge(self):
        self.wait_for_ranks()
        expected = outcome(*self.cell)
        struck = VICTIM if self.process == "rank" else None
        named = 0
        for rank, process in enumerate(self.ranks):
            code, text = process.returncode, self.said(f"rank-{rank}")
            if rank == struck and expected != CONTINUES:
                continue  # its own end is the fault
            if expected == CONTINUES:
                if code:
                    raise Broken(f"rank {rank}: must go on, ended with {code}: {text[-600:]}")
            elif code != 1:
                raise Broken(f"rank {rank}: must end with 1, got {code}: {text[-600:]}")
            elif any(name in text for name in self.lost_one()):
                named += 1
            elif self.process == "rank" or "not joined yet" not in text:
                raise Broken(f"rank {rank}: must name {self.lost_one()[0]}: {text[-600:]}")
        if expected != CONTINUES and named == 0:
            raise Broken(f"one rank at least must name {self.lost_one()[0]}")
        for k, server in enumerate(self.servers):
            code = server.poll()
            told = (k == VICTIM and self.process == "server" and self.fault in ("kill", "term")) or \
                (k == OTHER and self.moment in ("recovery", "drain"))
            if code is not None and not told:
                raise Broken(f"server {k}: must live, ended with {code}: {self.said(f'server-{k}')[-600:]}")
        self.drain_servers()

    def drain_servers(self):
        """Those that live end when they are told to."""
        for server in self.servers:
            if server.poll() is None:
                server.send_signal(signal.SIGCONT)
                server.send_signal(signal.SIGTERM)
        for k, server in enumerate(self.servers):
            try:
                code = server.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                raise Broken(f"server {k}: must end when it is told to") from None
            if code not in (0, -signal.SIGKILL):
                raise Broken(f"server {k}: must end with 0, got {code}: {self.said(f'server-{k}')[-600:]}")
