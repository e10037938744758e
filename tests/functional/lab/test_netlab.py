"""tools/netlab: nodes that reach each other, exit codes, links with their rates, and nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
import uuid
from unittest import mock

import nodes

TALK = """
import os, socket
if os.environ["NETLAB_NODE"] == "0":
    listener = socket.create_server((os.environ["NETLAB_ADDRESS"], 7000))
    for _ in range(int(os.environ["NETLAB_NODES"]) - 1):
        peer, address = listener.accept()
        print(peer.recv(100).decode(), "from", address[0], flush=True)
        peer.sendall(b"!")
else:
    while True:
        try:
            peer = socket.create_connection(("node0", 7000))
            break
        except ConnectionRefusedError:
            pass
    peer.sendall(socket.gethostname().encode())
    assert peer.recv(1) == b"!"
"""

SHAPERS = """
import subprocess, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import lab
def show():
    with lab.Lab(["300mbit", None]) as made:
        print(subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True).stdout)
        for node in range(2):
            shower = made.start(node, ["tc", "qdisc", "show", "dev", "eth0"], stdout=subprocess.PIPE, text=True)
            print(f"node {node}:", shower.communicate()[0])
    print("left:", subprocess.run(["ip", "link", "show", "switch"], capture_output=True).returncode != 0)
sys.exit(lab.enter(show))
"""


def interfaces():
    with open("/proc/net/dev", encoding="ascii") as file:
        return sorted(line.partition(":")[0].strip() for line in file if ":" in line)


def mounts():
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return [line for line in file if " nsfs " in line or " /run" in line or " /etc/hosts" in line]


def processes_with(mark):
    """Processes that have the mark in their environment, zombies aside."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                if mark.encode() in environ.read():
                    found.append(int(pid))
        except OSError:
            pass  # it has ended
    return found


class NetlabTest(unittest.TestCase):
    def setUp(self):
        self.mark = f"summand-netlab-{uuid.uuid4()}"
        self.before = interfaces(), mounts()
        self.addCleanup(self.assert_nothing_left)

    def assert_nothing_left(self):
        deadline = time.monotonic() + nodes.LONG
        while processes_with(self.mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(processes_with(self.mark), [])
        self.assertEqual((interfaces(), mounts()), self.before)

    def start(self, *words):
        process = subprocess.Popen([nodes.NETLAB, *words], env=dict(os.environ, TEST_MARK=self.mark),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
            process.communicate()

    def run_netlab(self, code, *words):
        process = self.start(*words)
        out, err = process.communicate(timeout=nodes.LONG)
        self.assertEqual(process.returncode, code, out + err)
        return out + err

    def test_nodes_reach_each_other(self):
        out = self.run_netlab(0, "--nodes=3", "--rate=1gbit", "--", sys.executable, "-c", TALK)
        self.assertEqual(sorted(out.splitlines()), ["node1 from 10.77.0.2", "node2 from 10.77.0.3"])

    def test_a_command_for_each_node(self):
        out = self.run_netlab(0, "--nodes=2", "--", "sh", "-c", "echo a $NETLAB_NODE", ":", "sh", "-c", "echo b $(hostname)")
        self.assertEqual(sorted(out.splitlines()), ["a 0", "b node1"])

    def test_ssh_reaches_every_node(self):
        """From beside the nodes, and from one to another; a session sees its node, and has the PATH of here."""
        if not os.path.exists("/usr/sbin/sshd") or not shutil.which("ssh"):
            self.skipTest("ssh and sshd are not both here")
        with mock.patch.dict(os.environ, PATH=f"{os.environ['PATH']}:/of-this-test"):
            command = "for node in 0 1; do ssh node$node 'hostname; ls /sys/class/net; echo $PATH; ssh node0 hostname'; done; exit 5"
            out = self.run_netlab(5, "--nodes=2", "--rate=1gbit", "--ssh", "--", "sh", "-c", command)
        lines = ["" if line.endswith(":/of-this-test") else line for line in out.splitlines()]  # a shell may have added to it
        self.assertEqual(lines, ["node0", "eth0", "lo", "", "node0", "node1", "eth0", "lo", "", "node0"])

    def test_nothing_of_ssh_is_left(self):
        if not os.path.exists("/usr/sbin/sshd") or not shutil.which("ssh"):
            self.skipTest("ssh and sshd are not both here")
        process = self.start("--nodes=2", "--ssh", "--", "ssh", "node1", "echo up; sleep 1000")
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=nodes.LONG)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_the_host_cannot_be_seen(self):
        out = self.run_netlab(0, "--nodes=1", "--", "cat", "/proc/net/dev")
        self.assertEqual(sorted(line.split(":")[0].strip() for line in out.splitlines() if ":" in line), ["eth0", "lo"])

    def test_failure_ends_the_others(self):
        self.run_netlab(3, "--nodes=2", "--", "sh", "-c", "exit 3", ":", "sleep", "1000")

    def test_death_by_signal(self):
        self.run_netlab(128 + 9, "--nodes=2", "--", "sh", "-c", "kill -9 $$", ":", "sleep", "1000")

    def test_one_that_will_not_end(self):
        self.run_netlab(1, "--nodes=2", "--", "sh", "-c", "sleep 0.5; exit 1", ":",
                        "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")

    def test_background_processes_end_too(self):
        self.run_netlab(0, "--nodes=2", "--", "sh", "-c", "setsid sleep 1000 & exit 0")

    def test_command_not_found(self):
        self.assertIn("no-such-command", self.run_netlab(127, "--nodes=2", "--", "no-such-command"))

    def interrupt(self, number):
        process = self.start("--nodes=2", "--rate=1gbit", "--", "sh", "-c", "setsid sleep 1000 & echo up; sleep 1000")
        for _ in range(2):
            self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(number)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process.wait(nodes.LONG)

    def test_interrupted(self):
        self.assertEqual(self.interrupt(signal.SIGINT), 128 + signal.SIGINT)

    def test_terminated(self):
        self.assertEqual(self.interrupt(signal.SIGTERM), 128 + signal.SIGTERM)

    def test_killed(self):
        self.assertEqual(self.interrupt(signal.SIGKILL), -signal.SIGKILL)

    def test_both_ends_are_shaped(self):
        done = subprocess.run([sys.executable, "-c", SHAPERS, os.path.join(nodes.TOOLS, "bench")], timeout=nodes.LONG,
                              env=dict(os.environ, TEST_MARK=self.mark), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done)
        switch, first, second = done.stdout.replace("node 1:", "node 0:").split("node 0:")
        shaped = [line for line in switch.splitlines() if "tbf" in line]
        self.assertEqual(len(shaped), 1, done.stdout)
        self.assertRegex(shaped[0], "dev port0 .*rate 300Mbit burst 2[0-9]{5}b lat 50ms")
        self.assertRegex(first, "tbf .*rate 300Mbit burst 2[0-9]{5}b lat 50ms")
        self.assertNotIn("tbf", second)
        self.assertIn("left: True", second)

    def test_wrong_command_lines(self):
        for text, words in (("--nodes", ["--", "true"]), ("got 0", ["--nodes=0", "--", "true"]),
                            ("got 'fast'", ["--nodes=2", "--rate=fast", "--", "true"]),
                            ("got '2:1gbit'", ["--nodes=2", "--rate=2:1gbit", "--", "true"]),
                            ("'--bogus'", ["--nodes=2", "--bogus=1", "--", "true"]),
                            ("'--ssh'", ["--nodes=2", "--ssh=yes", "--", "true"]), ("got 0", ["--nodes=2", "--ssh", "--"]),
                            ("got 0", ["--nodes=2", "--"]), ("got 2", ["--nodes=3", "--", "true", ":", "true"])):
            self.assertIn(text, self.run_netlab(2, *words))


if __name__ == "__main__":
    nodes.require()
    unittest.main()
