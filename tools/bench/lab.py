"""The lab: nodes with addresses of their own on links of a given rate, in namespaces that die with their maker."""

import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import time

SUBNET = "10.77.0"
MAX_NODES = 200
HEAD = f"{SUBNET}.254"  # whoever is beside the nodes, at the switch
BURST = "256kb"     # smaller ones wake the shaper so often that it eats the processors
QUEUE = "50ms"      # what a switch's port might hold
GSO_BYTES = 65536
SETTINGS = {        # under /proc/sys/net
    "ipv4/tcp_slow_start_after_idle": "0",  # operations pause; the link stays what it was
    "ipv6/conf/all/disable_ipv6": "1",      # no neighbour discovery between the measured packets
}
SWITCH_SETTINGS = {     # a switch does not show its packets to a firewall
    f"bridge/bridge-nf-call-{tables}": "0" for tables in ("iptables", "ip6tables", "arptables")}
GRACE_S = 2         # between SIGTERM and SIGKILL
UNABLE = 77         # exit code: this machine cannot do it

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000)
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

libc = ctypes.CDLL(None, use_errno=True)
host_proc = None    # /proc as it is outside of the lab, open


class Unable(Exception):
    """Namespaces, links or shapers cannot be made here."""


class Stopped(Exception):
    """A signal asked for the end."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def must(result, what):
    if result != 0:
        raise Unable(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags=0):
    must(libc.mount(source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), None),
         f"mount {target}")


def enter(main):
    """Runs main() as the first process of new namespaces and returns its exit code. When this process or
    that one ends, in whatever way, the kernel ends all that was started in them."""
    must(libc.unshare(CLONE_NEWPID), "unshare (needs root)")
    alive, hold = os.pipe()
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPERS)
    child = os.fork()
    if child == 0:
        os.close(hold)
        os._exit(first_process(main, alive) or 0)
    os.close(alive)
    for number in STOPPERS:
        signal.signal(number, lambda number, frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPERS)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(hold)
    return code if code >= 0 else 128 - code


def first_process(main, alive):
    """Nothing may leave this function but an exit code: the caller's stack belongs to its parent."""
    def stop(number, frame):
        for other in STOPPERS:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(number)

    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if select.select([alive], [], [], 0)[0]:
            return 1    # the parent was gone before it could have a say
        for number in STOPPERS:
            signal.signal(number, stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPERS)
        separate()
        return main()
    except Stopped as stopped:
        return stopped.code
    except Unable as reason:
        print(f"lab: cannot be made here: {reason}", file=sys.stderr)
        return UNABLE
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def separate():
    """Network, mounts and names of our own. All files of the lab are in memory that vanishes with it."""
    global host_proc
    must(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    host_proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mount("proc", "/proc", "proc")
    mount("tmpfs", "/run", "tmpfs")
    mount("tmpfs", "/dev/shm", "tmpfs")
    os.mkdir("/run/netns")
    os.mkdir("/run/scratch")


def name_of(node):
    return f"node{node}"


def address_of(node):
    return f"{SUBNET}.{node + 1}"


def parse_bits(rate):
    """Bits per second of a rate as tc writes it, such as 750mbit; None if it is not one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgt]?)bit", rate)
    bits = float(match[1]) * 1000 ** " kmgt".index(match[2] or " ") if match else 0
    return bits if bits >= 1e5 else None


def parse_rates(text, nodes):
    """The rate of each node: '1gbit', or '1gbit,4:750mbit,5:250mbit' where nodes differ; None is unshaped."""
    rates = [None] * nodes
    for item in sorted(text.split(",") if text else [], key=lambda item: ":" in item):
        node, _, rate = item.rpartition(":")
        if parse_bits(rate) is None or (node and not (node.isdecimal() and int(node) < nodes)):
            raise ValueError(f"must be RATE or NODE:RATE of nodes below {nodes}, "
                             f"such as 1gbit or 0:750mbit (100kbit or more), got {item!r}")
        for at in [int(node)] if node else range(nodes):
            rates[at] = rate
    return rates


def run(*words, lines=None):
    try:
        done = subprocess.run(words, input=lines, capture_output=True, text=True)
    except OSError as error:
        raise Unable(f"{words[0]}: {error.strerror} (Debian package iproute2)") from error
    if done.returncode:
        raise Unable(f"{' '.join(words)}: {done.stderr.strip()}")


class Lab:
    """Nodes on a bridge, for the length of a with statement. Inside of enter() only."""

    def __init__(self, rates):
        self.rates = rates
        self.nodes = len(rates)
        self.started = []

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.unmake()
            raise
        return self

    def __exit__(self, *_):
        self.end(self.started)
        self.unmake()

    def make(self):
        apply(SWITCH_SETTINGS)
        run("ip", "-batch", "-", lines="\n".join(self.switch_lines()))
        for node, rate in enumerate(self.rates):
            name = name_of(node)
            tune(node)
            run("ip", "-n", name, "-batch", "-", lines="\n".join([
                f"link set eth0 gso_max_size {GSO_BYTES}", "link set eth0 up", "link set lo up",
                f"address add {address_of(node)}/24 dev eth0 noprefixroute",
                # Only the host may choose a namespace's default; a route's choice is its own.
                f"route add {SUBNET}.0/24 dev eth0 src {address_of(node)} congctl cubic"]))
            if rate:
                shaper = ["root", "tbf", "rate", rate, "burst", BURST, "latency", QUEUE]
                run("tc", "-n", name, "qdisc", "add", "dev", "eth0", *shaper)
                run("tc", "qdisc", "add", "dev", f"port{node}", *shaper)
        with open("/run/hosts", "w", encoding="ascii") as hosts:
            hosts.write("127.0.0.1 localhost\n")
            hosts.writelines(f"{address_of(node)} {name_of(node)}\n" for node in range(self.nodes))
        mount("/run/hosts", "/etc/hosts", None, MS_BIND)

    def switch_lines(self):
        yield "link add switch type bridge stp_state 0 mcast_snooping 0"
        yield "link set switch up"
        yield f"address add {HEAD}/24 dev switch"
        for node in range(self.nodes):
            name, port = name_of(node), f"port{node}"
            yield f"netns add {name}"
            yield f"link add {port} type veth peer name eth0 netns {name}"
            yield f"link set {port} gso_max_size {GSO_BYTES} master switch"
            yield f"link set {port} up"

    def unmake(self):
        libc.umount2(b"/etc/hosts", 2)
        lines = ["link del switch"]
        # With a namespace its end of a link goes, but only some time later.
        lines += [f"link del port{node}" for node in range(self.nodes)]
        lines += [f"netns del {name_of(node)}" for node in range(self.nodes)]
        subprocess.run(["ip", "-force", "-batch", "-"], input="\n".join(lines), text=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def start_beside(self, words, **options):
        """Starts a command that is in no node, and reaches all of them."""
        process = subprocess.Popen(words, env={**os.environ, "NETLAB_NODES": str(self.nodes)}, preexec_fn=be_stoppable, **options)
        self.started.append(process)
        return process

    def start(self, node, words, env=None, **options):
        """Starts a command in a node, which is also its host name."""
        variables = {**(os.environ if env is None else env), "NETLAB_NODE": str(node),
                     "NETLAB_NODES": str(self.nodes), "NETLAB_ADDRESS": address_of(node)}
        with open(f"/run/netns/{name_of(node)}", "rb") as netns:
            process = subprocess.Popen(words, env=variables, preexec_fn=lambda: settle(node, netns.fileno()),
                                       **options)
        self.started.append(process)
        return process

    def end(self, processes):
        """Ends those of the processes that run: first kindly."""
        processes = list(processes)
        for process in processes:
            if process.returncode is None:
                process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in processes:
            try:
                process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.started = [process for process in self.started if process not in processes]


def settle(node, netns):
    """What a command's process does before it becomes the command."""
    must(libc.setns(netns, CLONE_NEWNET), "setns")
    must(libc.unshare(CLONE_NEWUTS), "unshare")
    name = name_of(node).encode()
    must(libc.sethostname(name, len(name)), "sethostname")
    be_stoppable()


def be_stoppable():
    for number in STOPPERS:
        signal.signal(number, signal.SIG_DFL)


def apply(settings):
    for name, value in settings.items():
        if not os.path.exists(f"/proc/sys/net/{name}"):
            continue    # a kernel without IPv6, or without a firewall
        try:
            with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
                file.write(value)
        except OSError as error:
            raise Unable(f"/proc/sys/net/{name}: {error.strerror}") from error


def tune(node):
    """Settings of a node, which the kernel keeps per network namespace and shows to who is in it."""
    with open("/proc/self/ns/net", "rb") as own, open(f"/run/netns/{name_of(node)}", "rb") as netns:
        must(libc.setns(netns.fileno(), CLONE_NEWNET), "setns")
        try:
            apply(SETTINGS)
        finally:
            must(libc.setns(own.fileno(), CLONE_NEWNET), "setns")
