"""Hosts for tests of jobs by OpenSSH: an sshd in each of three namespaces, with keys and a configuration of the test's own."""

import getpass
import os
import shutil
import subprocess

from job import BIN, JobTest, children_of, command_of, processes_with, wait_until

SSHD = "/usr/sbin/sshd"
SSH = shutil.which("ssh")
PORT = 2222
BUILT = os.path.abspath(BIN)
NAMES = ("one", "two", "three")
# A session's home is the test's: a shell's start files of this machine may wait for what a killed session has left.
SERVER = """
Port {port}
HostKey {folder}/{name}.key
AuthorizedKeysFile {folder}/user.key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication yes
SetEnv TEST_MARK={mark} HOME={folder}/home.{name} XDG_RUNTIME_DIR={folder}/run.{name} XDG_CACHE_HOME={folder}/cache.{name}
"""
# The test's words come before those of Summand's command line, so they say only what OpenSSH's own files would.
CLIENT = """
Host one stranger
    HostName 10.78.0.1
Host two changed
    HostName 10.78.0.2
Host three
    HostName 10.78.0.3
Host silent
    HostName 10.78.0.99
Host changed
    UserKnownHostsFile {folder}/known.changed
Host *
    Port {port}
    User {user}
    IdentityFile {folder}/user.key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
"""
HOLD = "mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && ip link set lo up && echo ready && {}"


def why_not():
    if not shutil.which("ip"):
        return "ip (iproute2) is not here"
    if not SSH or not os.path.exists(SSHD):
        return "ssh and sshd (openssh-client, openssh-server) are not both here"
    if subprocess.run(["unshare", "-nmp", "--fork", "--mount-proc", "mount", "-t", "sysfs", "sysfs", "/sys"], capture_output=True,
                      check=False).returncode:
        return "no namespaces can be made here"
    return None


class SshHosts(JobTest):
    """The runner's side is a namespace too, `head`; only ssh enters it."""

    def setUp(self):
        super().setUp()
        for name in NAMES:
            os.mkdir(self.path(f"run.{name}"), 0o700)
            os.mkdir(self.path(f"home.{name}"), 0o700)
        self.make_keys()
        self.head = self.make_namespace("exec sleep 1000")
        self.inside(self.head, ["link", "add", "switch", "type", "bridge"], ["address", "add", "10.78.0.254/24", "dev", "switch"],
                    ["link", "set", "switch", "up"])
        self.hosts_at = {name: self.make_host(name, number) for number, name in enumerate(NAMES, 1)}
        os.mkdir(self.path("bin"))
        self.write("bin/ssh", f"#!/bin/sh\nexec nsenter --target {self.head} --net {SSH} -F {self.path('client')} \"$@\"\n", 0o755)
        os.environ.update(PATH=self.path("bin") + ":" + os.environ["PATH"], TEST_MARK=self.mark, DISPLAY=":0",
                          SSH_ASKPASS=self.path("ask"), SSH_ASKPASS_REQUIRE="force")
        os.environ.pop("SSH_AUTH_SOCK", None)
        self.write("ask", f"#!/bin/sh\ntouch {self.path('asked')}\n", 0o755)

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def make_keys(self):
        for name in ("user", "other", *NAMES):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", self.path(f"{name}.key")], check=True)
        public = {}
        for name in ("other", *NAMES):
            with open(self.path(f"{name}.key.pub"), encoding="ascii") as file:
                public[name] = file.read()
        line = "[10.78.0.{}]:" + str(PORT) + " {}"
        self.write("known", "".join(line.format(number, public[name]) for number, name in enumerate(NAMES, 1)))
        self.write("known.changed", line.format(2, public["other"]))
        self.write("client", CLIENT.format(folder=self.dir, port=PORT, user=getpass.getuser()))

    def make_namespace(self, command):
        unmarked = {name: value for name, value in os.environ.items() if name != "TEST_MARK"}
        holder = subprocess.Popen(["unshare", "-nmp", "--fork", "--kill-child", "--mount-proc", "sh", "-c", HOLD.format(command)],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=unmarked)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.addCleanup(holder.stdout.close)
        self.assertEqual(holder.stdout.readline(), "ready\n")
        return children_of(holder.pid)[0]

    @staticmethod
    def inside(pid, *commands):
        for words in commands:
            subprocess.run(["nsenter", "--net", "--target", str(pid), "ip", *words], check=True)

    def make_host(self, name, number):
        self.write(f"{name}.conf", SERVER.format(folder=self.dir, port=PORT, name=name, mark=self.mark))
        pid = self.make_namespace(f"exec {SSHD} -D -e -f {self.path(name)}.conf")
        self.inside(self.head, ["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid)],
                    ["link", "set", name, "master", "switch"], ["link", "set", name, "up"])
        self.inside(pid, ["address", "add", f"10.78.0.{number}/24", "dev", "eth0"], ["link", "set", "eth0", "up"])
        return pid

    def hosts(self, *lines):
        self.write("hosts", "".join(line + "\n" for line in lines))
        return ["--engine=ssh", f"--hostfile={self.path('hosts')}"]

    def assert_nothing_left(self, seconds=60):
        self.assertTrue(wait_until(lambda: not processes_with(self.mark), seconds),
                        [command_of(pid) for pid in processes_with(self.mark)])
        for name in NAMES:
            self.assertEqual(os.listdir(self.path(f"run.{name}")), [])
        self.assertFalse(os.path.exists(self.path("asked")), "a password was asked for")

    def mount(self, name, *words):
        subprocess.run(["nsenter", "--mount", "--target", str(self.hosts_at[name]), "mount", *words], check=True)
