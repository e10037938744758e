"""Hosts for tests: network namespaces, each of which a command enters as ssh would."""

import os
import subprocess
import unittest

OVER_HOSTS = "SUMMAND_TEST_HOSTS" in os.environ  # over_hosts.py runs the tests, with the folder of its hosts there
# By which replicas reach a replica: a pattern.
ADDRESS = r"10\.77\.0\.[12]" if OVER_HOSTS else r"127\.0\.0\.1"

HOLD = """mount --rbind /sys/fs/cgroup /mnt; mount -t sysfs sysfs /sys || exit; mount --move /mnt /sys/fs/cgroup
ip link set lo up && {} echo ready && exec sleep 10000"""
# What stands in for ssh: the host's name is a process that has its namespaces. It is not replaced by the agent, which
# is alone with the end of its standard input when this is killed. Of the caller's variables a host has these alone.
CARRY = """#!/bin/bash
nsenter --target "$(cat "{folder}/$1")" --net --mount --wd="$PWD" -- \\
	env -i PATH="$PATH" HOME="$HOME" XDG_RUNTIME_DIR="$XDG_RUNTIME_DIR" TEST_MARK="$TEST_MARK" \
	${{CONTAINERS_CONF:+CONTAINERS_CONF="$CONTAINERS_CONF"}} setsid sh -c "$2" <&0 &
wait
"""


def only_here(reason):
    """Of a test that says something of this machine alone."""
    return unittest.skipIf(OVER_HOSTS, reason)


def on_second(*words):
    """The command on the second of two hosts, or here, and the address at which replicas reach it."""
    if not OVER_HOSTS:
        return list(words), "127.0.0.1"
    with open(os.path.join(os.environ["SUMMAND_TEST_HOSTS"], "two"), encoding="ascii") as file:
        return ["nsenter", "--net", "--target", file.read(), *words], "10.77.0.2"


def can_be_made():
    return subprocess.run(["unshare", "-nm", "mount", "-t", "sysfs", "sysfs", "/sys"], capture_output=True,
                          check=False).returncode == 0


def write_script(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


class Hosts:
    """Those in a folder, until end()."""

    def __init__(self, folder):
        self.folder, self.holders = folder, []
        self.carry = write_script(os.path.join(folder, "carry"), CARRY.format(folder=folder))

    def make(self, name, prepare=""):
        """`prepare` is the beginning of a shell's list of commands, which is run there."""
        unmarked = {name: value for name, value in os.environ.items() if name != "TEST_MARK"}
        holder = subprocess.Popen(["unshare", "-nm", "sh", "-c", HOLD.format(prepare)], stdout=subprocess.PIPE, text=True, env=unmarked)
        self.holders.append(holder)
        if holder.stdout.readline() != "ready\n":
            raise OSError(f"host {name}: cannot be made here")
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(str(holder.pid))
        return holder.pid

    def make_pair(self, prepare=""):
        """Two hosts with a link between them; its ends are called differently. `prepare` is for the second."""
        one, two = self.make("one"), self.make("two", prepare)
        inside = ["nsenter", "--net", "--target"]
        for words in (["link", "add", "eth1", "type", "veth", "peer", "name", "net5", "netns", str(two)],
                      ["address", "add", "10.77.0.1/24", "dev", "eth1"], ["link", "set", "eth1", "up"]):
            subprocess.run([*inside, str(one), "ip", *words], check=True)
        for words in (["address", "add", "10.77.0.2/24", "dev", "net5"], ["link", "set", "net5", "up"]):
            subprocess.run([*inside, str(two), "ip", *words], check=True)

    def link_pair(self, number):
        """Another link between the two: 10.77.NUMBER.1 at ethNUMBER of one, 10.77.NUMBER.2 at netNUMBER of two."""
        self.inside("one", "ip", "link", "add", f"eth{number}", "type", "veth", "peer", "name", f"net{number}", "netns", self.holder_of("two"))
        for name, interface, host in ("one", f"eth{number}", 1), ("two", f"net{number}", 2):
            self.inside(name, "ip", "address", "add", f"10.77.{number}.{host}/24", "dev", interface)
            self.inside(name, "ip", "link", "set", interface, "up")

    def holder_of(self, name):
        with open(os.path.join(self.folder, name), encoding="ascii") as file:
            return file.read()

    def inside(self, name, *words):
        """Runs a command in the host's network."""
        return subprocess.run(["nsenter", "--net", "--target", self.holder_of(name), *words], check=True, capture_output=True, text=True).stdout

    def make_star(self, *names):
        """Hosts on one switch, which is another one's bridge: 10.77.0.1, 10.77.0.2 and so on, at eth1."""
        switch = self.make("switch")
        inside = ["nsenter", "--net", "--target"]
        subprocess.run([*inside, str(switch), "ip", "link", "add", "bridge", "up", "type", "bridge"], check=True)
        for i, name in enumerate(names, 1):
            host = self.make(name)
            for at, words in ((switch, ["link", "add", f"port{i}", "up", "master", "bridge", "type", "veth", "peer", "name", "eth1",
                                        "netns", str(host)]),
                              (host, ["address", "add", f"10.77.0.{i}/24", "dev", "eth1"]), (host, ["link", "set", "eth1", "up"])):
                subprocess.run([*inside, str(at), "ip", *words], check=True)

    def report(self, name, interface, mbps):
        """From now on the host's interface says that it is so fast."""
        path = os.path.join(self.folder, f"{name}.{interface}.speed")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{mbps}\n")
        with open(os.path.join(self.folder, name), encoding="ascii") as file:
            subprocess.run(["nsenter", "--net", "--mount", "--target", file.read(), "mount", "--bind", path, f"/sys/class/net/{interface}/speed"],
                           check=True)

    def limit(self, name, interface, rate):
        """What the host sends there has that rate, in tc's words."""
        with open(os.path.join(self.folder, name), encoding="ascii") as file:
            subprocess.run(["nsenter", "--net", "--target", file.read(), "tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", rate,
                            "burst", "64k", "latency", "400ms"], check=True)

    def end(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
            holder.stdout.close()

    def flags(self, *lines):
        """The options of a job on these hosts; the file of hosts has these lines."""
        path = os.path.join(self.folder, "hosts")
        with open(path, "w", encoding="utf-8") as file:
            file.write("# the test's\n" + "".join(line + "\n" for line in lines))
        return ["--engine=ssh", f"--hostfile={path}", f"--ssh-command={self.carry}"]
