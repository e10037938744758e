"""The systems that are compared: how each is started in the lab at its best, and what it says of itself."""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time

import lab
import watch

HERE = os.path.dirname(os.path.realpath(__file__))
SCRATCH = "/run/scratch"
SERVER_PORT = 2222
PLAIN_PORT = 2223
PATIENCE_S = 120
FIRST_WARMUPS = 5       # of a program that begins, as summand-perf has with --iters
NEAR = 1.25              # a round's times differ by so much
LARGE = 32 << 20        # from here one warm-up is enough: nothing is on trial but chunks
MPI_ALGORITHMS = {4: "ring", 3: "recursive_doubling", 6: "rabenseifner", 5: "segmented_ring",
                  1: "basic_linear", 2: "nonoverlapping"}
MPI_EAGER = {"": [], "+eager": ["btl_tcp_eager_limit=1048576", "btl_tcp_rndv_eager_limit=1048576"]}
MPI_TOGETHER = {4: "recursive_doubling", 2: "binomial", 1: "ring", 3: "rabenseifner"}     # of MPI_Iallreduce


class Failed(Exception):
    """A system could not be built, started, or got a sum wrong."""


def scratch():
    return tempfile.mkdtemp(dir=SCRATCH)


def last_lines(path, count=6):
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-count:]).strip()


def run_together(nodes, commands, what, patience_s=PATIENCE_S, env=None):
    """Runs commands, (node, words) each, until all have ended; what the first has printed."""
    folder = scratch()
    running = []
    try:
        for i, (node, words) in enumerate(commands):
            with open(f"{folder}/{i}.out", "w", encoding="utf-8") as out, \
                    open(f"{folder}/{i}.err", "w", encoding="utf-8") as err:
                running.append(nodes.start(node, words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env))
        wait_together(running, folder, what, time.monotonic() + patience_s)
        with open(f"{folder}/0.out", encoding="utf-8") as out:
            return out.read()
    finally:
        nodes.end(running)
        shutil.rmtree(folder, ignore_errors=True)


def wait_together(running, folder, what, deadline):
    while any(process.poll() is None for process in running):
        for i, process in enumerate(running):
            if process.returncode:
                raise Failed(f"{what}: process {i} ended with {process.returncode}: {last_lines(f'{folder}/{i}.err')}")
        if time.monotonic() > deadline:
            raise Failed(f"{what}: must end in time, still runs: {last_lines(f'{folder}/0.err')}")
        time.sleep(0.02)
    for i, process in enumerate(running):
        if process.returncode:
            raise Failed(f"{what}: process {i} ended with {process.returncode}: {last_lines(f'{folder}/{i}.err')}")


def compile_driver(output, compiler, source, *libraries):
    """Compiles a driver of tools/bench unless a newer one is there."""
    sources = [os.path.join(HERE, name) for name in (source, "driver.c", "driver.h", "plain.h")]
    if os.path.exists(output) and os.path.getmtime(output) > max(map(os.path.getmtime, sources)):
        return output
    os.makedirs(os.path.dirname(output), exist_ok=True)
    common = output + ".driver.o"
    for words in (["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-c", sources[1], "-o", common],
                  [compiler, "-O2", "-D_GNU_SOURCE", sources[0], common, "-o", output, *libraries]):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stderr.strip()}")
    return output


class Summand:
    """Ranks of summand-perf, and servers with their defaults, which believe interfaces that say 10 Gbit/s."""
    name = "summand"
    ranks_environment = {}

    def __init__(self, setup, nodes):
        self.setup, self.nodes = setup, nodes
        self.servers = []

    @staticmethod
    def missing(setup):
        programs = [setup.perf, setup.server]
        absent = [path for path in programs if not os.access(path, os.X_OK)]
        return f"must be built: {', '.join(absent)}" if absent else None

    def server_flags(self, _):
        return []

    def make_token(self):
        """The nodes are a network of their own; the job has a token all the same, as jobs of several machines have."""
        path = os.path.join(SCRATCH, "token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
        os.environ["SUMMAND_TOKEN_FILE"] = path     # for the ranks
        return path

    def start_servers(self):
        token = self.make_token()
        share = self.setup.reducer_share
        rates = [*self.setup.server_rates, *([self.setup.worker_rate] * self.setup.workers if share else [])]
        for i, rate in enumerate(rates):
            node = (self.setup.workers + i) % len(self.setup.rates)
            beside = [f"--share={share.numerator}/{share.denominator}"] if node < self.setup.workers else []
            words = [self.setup.server, f"--listen={lab.address_of(node)}:{SERVER_PORT}", f"--token-file={token}",
                     *self.server_flags(rate), *beside]
            server = self.nodes.start(node, words + self.setup.server_args, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.servers.append(server)
        for server in self.servers:
            line = server.stdout.readline()
            if not line.startswith("ready"):
                raise Failed(f"summand-reduction-server: must be ready, got {line!r}")

    def measure(self, sizes, say, algorithms=None):
        """By size: time, algorithm and processor time. What was measured before makes no difference."""
        results = {}
        try:
            self.start_servers()
            for size in sizes:
                results[size], results[size]["lost"] = watch.undisturbed(
                    lambda: self.measure_size(size), self.setup.tries, lambda text: say(f"{self.name} {size}: {text}"))
        finally:
            self.nodes.end(self.servers)
        return results

    def run_ranks(self, words, what, patience_s):
        """What the first of them prints."""
        servers = ",".join(f"{lab.address_of((self.setup.workers + i) % len(self.setup.rates))}:{SERVER_PORT}"
                           for i in range(len(self.servers)))
        words = [*words, f"--nranks={self.setup.workers}", f"--servers={servers}"]
        return run_together(self.nodes, [(rank, [*words, f"--rank={rank}", *self.setup.summand_args])
                                         for rank in range(self.setup.workers)], what, patience_s,
                            {**os.environ, **self.ranks_environment})

    def measure_size(self, size):
        warmup = 2 if size >= LARGE else 10
        us = (size / self.setup.expected * 1e6 + 200) * self.setup.together
        iters = int(max(5, min(2000, self.setup.budget_s * 1e6 / us)))
        if self.setup.first:
            warmup, iters = FIRST_WARMUPS, self.setup.first
        words = [self.setup.perf, "allreduce", "--group=bench", f"--sizes={size}", f"--iters={iters}", f"--warmup={warmup}", "--json",
                 f"--inflight={self.setup.together}"]
        before = [watch.process_s(server.pid) for server in self.servers]
        out = self.run_ranks(words, f"summand-perf, {size} bytes", PATIENCE_S + 20 * us * iters / 1e6)
        spent = sum(watch.process_s(server.pid) for server in self.servers) - sum(before)
        report = json.loads(out)
        row = report["results"][0]
        if row["wrong"]:
            raise Failed(f"summand-perf, {size} bytes: {row['wrong']} elements are wrong")
        most = "rank to rank" if 2 * report["exchanges"] > (iters + warmup) * self.setup.together else "servers"
        found = {"us": row["time_us"]["median"], "p95_us": row["time_us"]["p95"], "algorithm": most, "iters": iters,
                 "mean_us": row["time_us"].get("mean", row["time_us"]["median"]),
                 "verified": True, "rank_s_per_gb": row["cpu_us"] / size * 1e3}
        if self.servers:
            found["server_s_per_gb"] = spent / (size * self.setup.workers * (iters + warmup) * self.setup.together / 1e9)
        return found


class SummandTold(Summand):
    """The same with servers that are told what their links carry, to see beside it what finding that out costs."""
    name = "summand-told"

    def server_flags(self, rate):
        # A link without a shaper has the speed that it is found to have.
        bits = lab.parse_bits(rate) if rate else self.setup.link * 8
        return ["--threads=1", *([f"--bandwidth={round(bits / 1e6)}mbps"] if bits else [])]


class SummandTls(Summand):
    """The same with all that crosses encrypted, to see beside it what that costs."""
    name = "summand-tls"
    ranks_environment = {"SUMMAND_TLS": "1"}

    def start_servers(self):
        plain, self.setup.server_args = self.setup.server_args, [*self.setup.server_args, "--tls"]
        try:
            super().start_servers()
        finally:
            self.setup.server_args = plain


class SummandBf16(Summand):
    """The same sent in two bytes an element (SUMMAND_WIRE), to see beside it what half the bytes bring."""
    name = "summand-bf16"
    ranks_environment = {"SUMMAND_WIRE": "bf16"}


class SummandFp16(Summand):
    name = "summand-fp16"
    ranks_environment = {"SUMMAND_WIRE": "fp16"}


class Peer:
    """A library with several algorithms, of which the best for each size counts."""

    def __init__(self, setup, nodes):
        self.setup, self.nodes = setup, nodes

    def measure(self, sizes, say, algorithms=None):
        """By size: time, algorithm and processor time, and which algorithms were nearly as fast: a first round runs all, and
        others those that were for some size in any round before."""
        best, times, notes = {}, {}, []
        for variant in self.variants() if algorithms is None else sorted(algorithms):
            plan = self.plan(sizes, best)
            try:
                rows, share = watch.undisturbed(
                    lambda: self.read_rows(self.run_plans(variant, plan), variant), self.setup.tries,
                    lambda text: say(f"{self.name} {variant}: {text}"))
            except Failed as error:
                notes.append(str(error))
                say(f"{self.name} {variant} is left out: {error}")
                continue
            for row in rows:
                size, us = row["bytes"], row.get("median_us")
                times.setdefault(size, {})[variant] = us or row["given_up_us"]
                if us and us < best.get(size, {"us": us + 1})["us"]:
                    best[size] = {"us": us, "p95_us": row["p95_us"], "algorithm": variant, "iters": row["iters"],
                                  "verified": True, "rank_s_per_gb": row["cpu_us"] / size * 1e3, "lost": share,
                                  "server_s_per_gb": row.get("server_s_per_gb", 0)}
        if len(best) < len(sizes):
            raise Failed(f"{self.name}: must measure {len(sizes)} sizes, got {len(best)}: {'; '.join(notes)}")
        for size, row in best.items():
            row["near"] = sorted(variant for variant, us in times[size].items() if us <= NEAR * row["us"])
        return best

    def run_plans(self, variant, plan):
        """Programs that have just begun have done no other size before."""
        return "\n".join(self.run_variant(variant, one) for one in (plan.split(",") if self.setup.first else [plan]))

    def plan(self, sizes, best):
        """What the driver is to do: a variant that is much slower than the best so far is not measured, as
        short runs differ more from each other for small sizes than for large ones."""
        warmups = FIRST_WARMUPS if self.setup.first else None
        return ",".join("{}:{}:{}:{:.0f}".format(
            size, warmups or (1 if size >= LARGE else 3 if size >= 1 << 20 else 20), self.setup.first,
            best[size]["us"] * (1.2 if size >= LARGE else 2) if size in best else 1e12) for size in sizes)

    def read_rows(self, out, variant):
        rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        for row in rows:
            if row["wrong"]:
                raise Failed(f"{self.name} {variant}, {row['bytes']} bytes: {row['wrong']} elements are wrong")
        return rows


class Gloo(Peer):
    """Debian's libgloo."""
    name = "gloo"

    @staticmethod
    def missing(_):
        if not os.path.exists("/usr/include/gloo/allreduce.h") or not shutil.which("c++"):
            return "needs libgloo-dev and g++"
        return None

    def variants(self):
        power = self.setup.workers & (self.setup.workers - 1) == 0
        return ["new_ring", "ring_chunked", "halving_doubling"] + (["bcube", "new_bcube"] if power else [])

    def run_variant(self, variant, plan):
        driver = compile_driver(os.path.join(self.setup.output, "gloo_allreduce"), "c++", "gloo_allreduce.cc", "-lgloo")
        store = scratch()
        n = self.setup.workers
        return run_together(self.nodes, [
            (rank, [driver, str(rank), str(n), lab.address_of(rank), store, variant, plan, str(self.setup.budget_s)])
            for rank in range(n)], f"gloo {variant}")


class OpenMpi(Peer):
    """Debian's Open MPI, a host name of its own for every rank."""
    name = "openmpi"

    @staticmethod
    def missing(_):
        return None if shutil.which("mpirun") and shutil.which("mpicc") else "needs openmpi-bin and libopenmpi-dev"

    def variants(self):
        one_by_one = [f"{number}:{name}{eager}" for number, name in MPI_ALGORITHMS.items() for eager in MPI_EAGER]
        together = [f"{number}:{name}+together" for number, name in MPI_TOGETHER.items()]
        return one_by_one + (together if self.setup.together > 1 else [])

    def run_variant(self, variant, plan):
        driver = compile_driver(os.path.join(self.setup.output, "openmpi_allreduce"), "mpicc", "openmpi_allreduce.c")
        number, _, name = variant.partition(":")
        eager = "+eager" if name.endswith("+eager") else ""
        together = [str(self.setup.together)] if name.endswith("+together") else []
        algorithm = "libnbc_iallreduce" if together else "tuned_allreduce"
        settings = ["pml=ob1", "btl=tcp,self", "btl_tcp_if_include=eth0", "oob_tcp_if_include=eth0",
                    f"plm_rsh_agent={HERE}/rsh", "plm_rsh_no_tree_spawn=1", "mpi_yield_when_idle=1",
                    "coll_tuned_use_dynamic_rules=1", f"coll_{algorithm}_algorithm={number}", *MPI_EAGER[eager]]
        n = self.setup.workers
        words = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", str(n),
                 "--host", ",".join(f"{lab.name_of(node)}:1" for node in range(n))]
        for setting in settings:
            words += ["--mca", *setting.split("=", 1)]
        return run_together(self.nodes, [(0, words + [driver, plan, str(self.setup.budget_s), *together])], f"openmpi {variant}",
                            env={**os.environ, "TMPDIR": SCRATCH})


class Plain(Peer):
    """A reduction server of 150 lines with blocking sockets and a thread for each worker: what Summand's must not be
    behind for all that it does more (tools/bench/plain_server.c)."""
    name = "plain"

    @staticmethod
    def missing(setup):
        if setup.hybrid:
            return "it has no reducers beside workers"
        return None if shutil.which("cc") else "needs a C compiler"

    def variants(self):
        return ["servers"]

    def start_servers(self):
        program = compile_driver(os.path.join(self.setup.output, "plain_server"), "cc", "plain_server.c", "-lpthread")
        nodes = range(self.setup.workers, self.setup.workers + len(self.setup.server_rates))
        servers = [self.nodes.start(node, [program, lab.address_of(node), str(PLAIN_PORT)], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for node in nodes]
        for server in servers:
            if server.stdout.readline() != "ready\n":
                raise Failed("plain_server: must be ready")
        return servers

    def run_variant(self, variant, plan):
        """One size at a time, so that the servers' processor time belongs to a size."""
        driver = compile_driver(os.path.join(self.setup.output, "plain_allreduce"), "cc", "plain_allreduce.c", "-lpthread")
        servers = self.start_servers()
        try:
            return "\n".join(self.run_size(driver, servers, one) for one in plan.split(","))
        finally:
            self.nodes.end(servers)

    def run_size(self, driver, servers, one):
        n, k = self.setup.workers, len(servers)
        addresses = ",".join(lab.address_of(n + i) for i in range(k))
        before = sum(watch.process_s(server.pid) for server in servers)
        out = run_together(self.nodes, [
            (rank, [driver, str(rank), str(n), str(PLAIN_PORT), addresses, one, str(self.setup.budget_s)])
            for rank in range(n)], "plain")
        row = json.loads(out)
        warmups = int(one.split(":")[1])
        spent = sum(watch.process_s(server.pid) for server in servers) - before
        row["server_s_per_gb"] = spent / (row["bytes"] * n * (row["iters"] + warmups) / 1e9)
        return json.dumps(row)


class Direct(Peer):
    """Ranks that exchange parts with each other and say nothing else (tools/bench/direct_allreduce.c): what a library
    without servers, failures and frames could reach where processors decide."""
    name = "direct"

    @staticmethod
    def missing(_):
        return None if shutil.which("cc") else "needs a C compiler"

    def variants(self):
        return ["parts", "first", "all"]

    def run_variant(self, variant, plan):
        driver = compile_driver(os.path.join(self.setup.output, "direct_allreduce"), "cc", "direct_allreduce.c")
        n = self.setup.workers
        addresses = ",".join(lab.address_of(rank) for rank in range(n))
        return run_together(self.nodes, [
            (rank, [driver, str(rank), str(n), str(PLAIN_PORT), addresses, variant, plan, str(self.setup.budget_s)])
            for rank in range(n)], f"direct {variant}")


PEERS = [Gloo, OpenMpi]     # which reduce without servers: the best of these counts
YARDSTICKS = [Plain, Direct]
