"""Servers and ranks that are started by hand, a fault in some of them, and what came of it, and when."""

import json
import re
import signal
import subprocess
import time

from cells import CONNECTING, CONTINUES, EITHER, LONG, OF_PROCESSES, RANKS_DIE, SHORT, outcome, transport_of
from proxy import Proxy
from stage import PATIENCE_S, STOP_S, TURN_S, Broken, Stage

RANKS = 3
SERVER, REDUCER = ("--memory-limit=64M",), ("--memory-limit=64M", "--share=1/4")
PATIENT = (*SERVER, "--drain-timeout=120")  # all are drained together: ranks shall come to their end
POOLS = {"reducer": (SERVER, SERVER, REDUCER, REDUCER, REDUCER), "servers": (PATIENT,) * 3}  # each rank's host has a reducer
POOL = (SERVER, SERVER, SERVER)
FEW, FEW_BY_WAYS = 500, 200  # a second's work at least; over ways that a proxy makes each takes ten times as long,
FEW_EXCHANGES = 2000         # and from rank to rank, which no proxy is on, half as long
AFTER_RETURN = 4             # times as many: with so little memory a server that comes back is taken in after 3 s
VARIABLES = {"SUMMAND_CONNECT_TIMEOUT": "20", "SUMMAND_LOG": "info"}  # else the defaults
JOINED = f": {RANKS} ranks, "
LANE = ": goes over "
TAKEN_IN = "of servers that are there again too"
ERROR = "summand-perf: "
ABSENT = 2             # comes last where others wait for a rank; 1 where it is the victim


class ByHand(Stage):
    def __init__(self, *words):
        super().__init__(*words)
        self.pool = POOLS.get(self.process, POOL)
        self.servers, self.proxies, self.ended = [], [], []
        self.ranks, self.ends = [None] * RANKS, [None] * RANKS
        self.is_rank = self.process in RANKS_DIE
        self.began = self.joined = None
        self.draw()

    def draw(self):
        """Who has the fault, and which server is lost, drained or started again before it."""
        self.other = self.random.choice((0, 2))
        if self.is_rank:
            self.victim = 0 if self.process == "leader" else self.random.choice((1, 2))
        elif self.moment == "return" and self.random.random() < 0.5:
            self.victim = self.other  # the one that has just been started
        else:
            self.victim = 3 if self.process == "reducer" else 1
        self.absent = ABSENT if not self.is_rank or self.victim != ABSENT else 1
        # One that calls instead of having a thread. Never the victim: TCP finds out that it is silent, later than the limit.
        others = [rank for rank in range(RANKS) if not self.is_rank or rank != self.victim]
        self.polling = self.random.choice([*others, *[None] * len(others)])
        self.exchange = self.random.choice(("auto", "off"))  # small operations go from rank to rank, or all by servers

    # ---- processes ----

    def start_server(self, k):
        server = self.start(f"server-{k}", "summand-reduction-server", "--listen=127.0.0.1:0", *self.pool[k], piped=True)
        words = server.stdout.readline().split()
        if len(words) < 2 or words[0] != "ready":
            raise Broken(f"server {k}: must be ready, said {words} {self.said(f'server-{k}')}")
        return server, words[1]

    def start_servers(self):
        for k in range(len(self.pool)):
            server, address = self.start_server(k)
            self.servers.append(server)
            self.proxies.append(Proxy(address))
        # The victim among ranks has ways of its own, so that its network's faults are its alone.
        self.rank_proxies = [Proxy("%s:%d" % proxy.target) for proxy in self.proxies] if self.is_rank else []
        for way in self.proxies + self.rank_proxies:
            way.swallows = self.swallows

    def start_rank(self, rank):
        ways = self.rank_proxies if self.rank_proxies and rank == self.victim else self.proxies
        self.ranks[rank] = self.start(
            f"rank-{rank}", "summand-perf", "allreduce", "--group=chaos", f"--nranks={RANKS}", f"--rank={rank}",
            "--servers=" + ",".join(way.address for way in ways), "--sizes=4K,100K,1M", "--warmup=0", "--each", "--json",
            f"--iters={self.iterations()}", SUMMAND_REPLICA=f"rank-{rank}",
            SUMMAND_TRANSPORT=transport_of(self.fault), SUMMAND_EXCHANGE=self.exchange, **({"SUMMAND_PROGRESS": "poll"} if rank == self.polling else {}),
            **self.limit(), **VARIABLES)
        self.began = time.monotonic()

    def iterations(self):
        if self.exchange == "auto":
            return FEW_EXCHANGES
        return (FEW if self.fault in OF_PROCESSES else FEW_BY_WAYS) * (AFTER_RETURN if self.moment == "return" else 1)

    def limit(self):
        """Of silence, where it says what happens."""
        return {"SUMMAND_HEARTBEAT_LIMIT": str(LONG if self.expected == CONTINUES else SHORT)} if outcome(*self.cell) == EITHER else {}

    def replace_server(self, k):
        self.ended.append(self.servers[k])
        self.servers[k].wait()
        self.servers[k], address = self.start_server(k)
        for ways in (self.proxies, self.rank_proxies):
            if ways:
                ways[k].aim(address)

    # ---- the fault ----

    def victims(self):
        """The ways whose network has the fault."""
        return self.rank_proxies if self.is_rank else self.proxies if self.process == "servers" else [self.proxies[self.victim]]

    def signal_victim(self, number):
        processes = [self.ranks[self.victim]] if self.is_rank else self.servers if self.process == "servers" else \
            [self.servers[self.victim]]
        for process in processes:
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

    def have_lanes(self):
        """Whether those that have begun have reached all servers, which they say before they join."""
        return all(rank is None or self.said(f"rank-{k}").count(LANE) == len(self.pool) for k, rank in enumerate(self.ranks))

    def have_joined(self):
        if self.joined is None and all(rank is not None and JOINED in self.said(f"rank-{k}") for k, rank in enumerate(self.ranks)):
            self.joined = time.monotonic()
        return self.joined is not None

    def wait_until_joined(self):
        self.wait_until(lambda: self.have_joined() or any(rank.poll() is not None for rank in self.ranks), "all that join")
        if not self.joined:
            raise Broken("all must join: " + "".join(self.said(f"rank-{rank}") for rank in range(RANKS)))

    def play(self):
        self.start_servers()
        pause = self.random.random()
        if self.moment == "connect":
            if self.is_rank:
                self.start_all()
                time.sleep(pause * 0.02)
                self.strike()
            else:
                self.strike()
                self.start_all()
            return
        if self.moment == "join":
            self.start_all(but=(self.absent,))
            self.wait_until(self.have_lanes, "ranks that wait")
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
            self.servers[self.other].kill()
            time.sleep(pause * 0.05)
        elif self.moment == "drain":
            time.sleep(pause * 0.2)
            self.servers[self.other].send_signal(signal.SIGTERM)
            time.sleep(pause * 0.05)
        elif self.moment == "return":
            time.sleep(pause * 0.2)
            self.servers[self.other].kill()
            self.replace_server(self.other)
            time.sleep(self.random.random() * 0.5)
        self.strike()

    # ---- what came of it ----

    def wait_for_ranks(self):
        """And sees when all have joined, and when each has ended."""
        end = time.monotonic() + PATIENCE_S
        while None in self.ends:
            if time.monotonic() > end:
                raise Broken(f"rank {self.ends.index(None)}: must have ended within {PATIENCE_S} s")
            self.have_joined()
            for rank, process in enumerate(self.ranks):
                if self.ends[rank] is None and process.poll() is not None:
                    self.ends[rank] = time.monotonic()
            time.sleep(TURN_S)

    def error_of(self, rank):
        """What it ended with; its log names many."""
        return "".join(line for line in self.said(f"rank-{rank}").splitlines(True) if line.startswith(ERROR))

    def names_lost(self, rank):
        """Whether its error says who was lost."""
        text = self.error_of(rank)
        if self.is_rank:
            return re.search(rf"\branks? ([0-9]+(, | and ))*{self.victim}\b", text) or f"(rank-{self.victim})" in text
        if self.is_late(rank) and self.fault == "stop":  # it reaches the servers, and does not find the others there
            return "not joined yet" in text
        lost = [way.address in text for way in self.victims()]
        return any(lost) if self.moment == "connect" or self.is_late(rank) else all(lost)  # who connects ends with the first

    def judge(self):
        self.wait_for_ranks()
        if self.expected == CONTINUES:
            self.judge_results()
        else:
            self.judge_ends([rank for rank in range(RANKS) if not self.is_rank or rank != self.victim])
        self.judge_servers()
        self.drain_servers()

    def judge_results(self):
        for rank, process in enumerate(self.ranks):
            if process.returncode:
                raise Broken(f"rank {rank}: must go on, ended with {process.returncode}: {self.said(f'rank-{rank}')[-600:]}")
        rows = json.loads(self.said("rank-0", "out"))["results"]
        if any(row["wrong"] for row in rows):
            raise Broken("all results must be right")
        if self.moment in ("connect", "join"):
            self.judge_time("to join", self.joined - self.began, self.began, self.joined)
        self.judge_stall(rows, self.began, max(self.ends))
        if self.moment == "return" and not self.may_stay_away() and TAKEN_IN not in self.said("rank-0"):
            raise Broken(f"server {self.other} must be taken in: {self.said('rank-0')[-600:]}")

    def may_stay_away(self):
        """The server that returns may be lost again, or told to end with all others, before it is taken in."""
        return not self.is_rank and (self.victim == self.other if self.process != "servers" else self.fault == "term")

    def judge_ends(self, survivors):
        for rank in survivors:
            code, text = self.ranks[rank].returncode, self.said(f"rank-{rank}")
            if code != 1:
                raise Broken(f"rank {rank}: must end with 1, got {code}: {text[-600:]}")
            if not self.names_lost(rank):
                raise Broken(f"rank {rank}: must name who was lost: {text[-600:]}")
        begin = max(self.began, self.struck)
        end = max(self.ends[rank] for rank in survivors if not self.is_late(rank))
        self.judge_time("until all others had ended", end - begin, begin, end)
        if self.is_late(self.absent):
            end = self.ends[self.absent]
            connected = STOP_S if self.fault == "stop" else 0  # then it waits for the others
            self.judge_time("until the late one had ended", end - begin, begin, end, connected + CONNECTING + 1)

    def is_late(self, rank):
        """One that comes when those have ended who knew what is lost: it waits for all that is not there as long as it is told to."""
        return self.moment == "join" and rank == self.absent

    def judge_servers(self):
        for k, server in enumerate(self.servers):
            code = server.poll()
            hit = not self.is_rank and (self.process == "servers" or k == self.victim) and self.fault in ("kill", "term")
            told = hit or (k == self.other and self.moment in ("recovery", "drain"))
            if code is not None and not told:
                raise Broken(f"server {k}: must live, ended with {code}: {self.said(f'server-{k}')[-600:]}")

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
