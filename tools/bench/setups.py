"""Configurations of the lab, and what Summand is to reach in each."""

import dataclasses
import fractions

import lab

KIB, MIB = 1 << 10, 1 << 20
SIZES = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
HYBRID_SIZES = [4 * MIB, 16 * MIB, 64 * MIB]
QUICK_SIZES = [4 * KIB, 64 * KIB, MIB, 16 * MIB]
UNSHAPED = 2e9      # bytes per second to expect where nothing shapes the links
LIMIT = {MIB: 0.90, 4 * MIB: 0.95, 16 * MIB: 0.97, 64 * MIB: 0.97}
HYBRID_LIMIT = {size: 0.95 for size in (4 * MIB, 16 * MIB, 64 * MIB)}
BF16 = {4 * MIB: 1.8, 16 * MIB: 1.8, 64 * MIB: 1.8}
SERVERS_LIMIT = {16 * MIB: 0.95, 64 * MIB: 0.95}


@dataclasses.dataclass
class Setup:
    """One lab and what runs in it."""
    name: str
    workers: int
    worker_rate: str    # None: unshaped
    server_rates: list
    targets: dict = dataclasses.field(default_factory=dict)
    hybrid: bool = False    # workers' nodes have a reducer each, too
    # Of the run, the same for all setups of it:
    sizes: list = None
    systems: list = None
    budget_s: float = 1.0
    first: int = 0      # so many of the first operations of a program for each size; 0: what the budget affords
    together: int = 1   # operations that begin before the first is awaited
    tries: int = 3
    rounds: int = 1
    link: float = 0     # bytes per second, once it is measured
    perf: str = ""
    server: str = ""
    output: str = ""
    summand_args: list = dataclasses.field(default_factory=list)
    server_args: list = dataclasses.field(default_factory=list)

    @property
    def rates(self):
        return [self.worker_rate] * self.workers + self.server_rates

    @property
    def title(self):
        servers = ", ".join(sorted({rate or "unshaped" for rate in self.server_rates}, reverse=True))
        return (f"{self.name}: {self.workers} workers ({self.worker_rate or 'unshaped'}), "
                f"{len(self.server_rates)} servers" + (f" ({servers})" if servers else "")
                + (", reducers beside the workers" if self.hybrid else ""))

    @property
    def reducer_share(self):
        """Of a reducer beside a worker, as part of a server's: (n-k) to 2(n-1) for k servers with a worker's link."""
        n, worker = self.workers, fractions.Fraction(lab.parse_bits(self.worker_rate) if self.worker_rate else 1)
        servers = [fractions.Fraction(lab.parse_bits(rate)) if rate else worker for rate in self.server_rates]
        rest = n * worker - sum(servers) if self.hybrid else fractions.Fraction(0)
        return max(fractions.Fraction(0), rest / (2 * (n - 1)) / (sum(servers) / len(servers) if servers else worker))

    def share(self, link):
        """Algorithm bandwidth that links allow, when those of the workers carry link bytes per second."""
        if not self.worker_rate or not all(self.server_rates):
            return link
        bits = lab.parse_bits(self.worker_rate)
        servers = sum(lab.parse_bits(rate) for rate in self.server_rates) / bits
        n = self.workers
        if self.hybrid and servers < n:
            return link * (n * n + (n - 2) * servers) / (2 * n * (n - 1))
        return link * min(1.0, servers / n)

    @property
    def expected(self):
        return self.share(lab.parse_bits(self.worker_rate) / 8) if self.worker_rate else UNSHAPED / self.workers

    def ring(self, link):
        return link * self.workers / (2 * (self.workers - 1)) if self.workers > 1 else link


def never_slower(floor):
    return {size: floor for size in SIZES if size >= 64 * KIB}


def processors_decide(workers):
    """Links without limit: the processors are what is measured."""
    return equal(workers, None, peer={size: 1.0 for size in SIZES}, plain={size: 1.0 for size in SIZES}, p95=True,
                 rank_cost=True)


def equal(workers, rate, **targets):
    """As many servers as workers, all with the same link."""
    name = f"{workers}x{workers}@{rate or 'unshaped'}"
    floor = 0.97 if workers == 2 else 1.0
    return Setup(name, workers, rate, [rate] * workers, {"peer": never_slower(floor), **targets})


def fewer(workers, servers, rate):
    return Setup(f"{workers}x{servers}@{rate}", workers, rate, [rate] * servers, {"limit": SERVERS_LIMIT, "cost": True})


def hybrids():
    """Every number of servers from none to as many as workers. With 8 there are 24 processes, which 400 Mbit/s keep two cores
    busy with for three quarters of the time."""
    return [Setup(f"{n}x{k}@{rate}+{n}", n, rate, [rate] * k, {"limit": HYBRID_LIMIT}, hybrid=True)
            for n, rate in ((4, "1gbit"), (8, "200mbit")) for k in range(n + 1)]


def suite():
    """What is promised, in the order of the number of workers where it can be. With more than four, slower
    links leave the processors of a small machine out of it."""
    four = {4 * KIB: 1.0, **never_slower(1.0)}
    return [
        equal(4, "1gbit", limit=LIMIT, bf16=BF16, cost=True, half_of_gloo=True, p95=True, plain_cost=True, rank_cost=True, peer={**four, 16 * MIB: 1.4, 64 * MIB: 1.4}),
        equal(8, "400mbit", limit=LIMIT, cost=True, peer={**never_slower(1.0), 16 * MIB: 1.65, 64 * MIB: 1.65}),
        equal(2, "1gbit"),
        equal(3, "1gbit"),
        equal(5, "640mbit"),
        equal(6, "530mbit"),
        equal(7, "450mbit"),
        fewer(4, 2, "1gbit"),
        fewer(8, 4, "400mbit"),
        fewer(8, 6, "400mbit"),
        processors_decide(4),
        processors_decide(8),
        Setup("4x750+250mbit", 4, "1gbit", ["750mbit", "250mbit"], {"limit": SERVERS_LIMIT}),
    ]
