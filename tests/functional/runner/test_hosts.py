"""Jobs over several hosts: network namespaces, each with an agent that a command brings there as ssh would."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from unittest import mock

from job import LONG, SUMMAND, JobTest, at_once, bash, children_of, command_of, hosts, processes_with, reduction_servers, wait_until

# Between a host's agent and the runner: its clock is said to be so many seconds ahead.
AHEAD = """
import json, shutil, struct, sys
seconds = int(sys.argv[1])
stream = sys.stdin.buffer
length, kind = struct.unpack("<IB", stream.read(5))
hello = json.loads(stream.read(length))
hello["facts"]["clock_ns"] += seconds * 1000000000
body = json.dumps(hello).encode()
sys.stdout.buffer.write(struct.pack("<IB", len(body), kind) + body)
sys.stdout.buffer.flush()
while chunk := stream.read1(65536):
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
"""


class HostsTest(JobTest):
    def setUp(self):
        super().setUp()
        self.made = self.make_hosts()

    def script(self, name, text):
        return hosts.write_script(self.path(name), text)

    def make_pair(self, prepare=""):
        self.made.make_pair(prepare)

    def hosts(self, *lines):
        return self.made.flags(*lines)

    def agents(self):
        """In the order of their hosts. Their children, which keep commands, are called the same."""
        called = [pid for pid in processes_with(self.mark) if command_of(pid).split("\0")[1:2] == ["--host"]]
        kept = {child for pid in called for child in children_of(pid)}
        return [pid for pid in called if pid not in kept]

    def agent_on(self, name):
        """The agent in that host's network namespace."""
        with open(self.path(name), encoding="ascii") as file:
            network = os.readlink(f"/proc/{file.read()}/ns/net")
        return next(pid for pid in self.agents() if os.readlink(f"/proc/{pid}/ns/net") == network)

    def test_two_hosts_meet(self):
        """At addresses that the hosts have said, with the interface's name on each."""
        self.make_pair()
        meet = "import os, socket\n" \
               "at = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n" \
               "if os.environ['RANK'] == '0':\n" \
               "    with socket.create_server(at) as server:\n" \
               "        print('heard', server.accept()[0].recv(9).decode())\n" \
               "else:\n" \
               "    while True:\n" \
               "        try:\n" \
               "            with socket.create_connection(at) as other:\n" \
               "                other.send(b'hello')\n" \
               "                break\n" \
               "        except ConnectionRefusedError:\n" \
               "            pass\n" \
               "print(os.environ['NCCL_SOCKET_IFNAME'], os.environ['GLOO_SOCKET_IFNAME'], os.environ['MASTER_ADDR'])\n"
        python = {"replicaCount": 1, "command": [sys.executable, "-uc", meet], "imageUri": "local"}
        run = self.run_job([python, python], *self.hosts("one slots=1", "two slots=1"))
        self.assert_code(run, 0)
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "heard hello\neth1 eth1 10.77.0.1\n")
        self.assertEqual(self.read(run, "logs/workerpool1-0.log"), "net5 net5 10.77.0.1\n")
        self.assertEqual(self.read_json(run, "exits/workerpool1-0.json")["exit_code"], 0)

    def test_several_replicas_on_a_host(self):
        """They fill the slots in order, with a port each; reduction servers share what their interface is said to do."""
        self.make_pair()
        server = 'echo "ARGS $*"; while [ $# -gt 0 ]; do case $1 in --token-file=*) token=${1#*=};; esac; shift; done; ' \
                 'stat -c "%a" "$token"; wc -c <"$token"; echo "ready x" >&3; exec sleep 1000'
        words = 'echo "$CLUSTER_SPEC"; echo "$SUMMAND_REDUCTION_SERVERS"; cat "$SUMMAND_TOKEN_FILE" | wc -c; dirname "$SUMMAND_TOKEN_FILE"'
        run = self.run_job([bash(words), bash("true", 2), reduction_servers(2, server)],
                           *self.hosts("one slots=3", "two slots=2 max_slots=9"))
        self.assert_code(run, 0)
        log = self.read(run, "logs/workerpool0-0.log").splitlines()
        cluster = json.loads(log[0])["cluster"]
        addresses = [address.split(":")[0] for pool in ("workerpool0", "workerpool1", "workerpool2") for address in cluster[pool]]
        self.assertEqual(addresses, ["10.77.0.1"] * 3 + ["10.77.0.2"] * 2)
        ports = [address for pool in cluster.values() for address in pool]
        self.assertEqual(len(set(ports)), 5)
        self.assertEqual(log[1], ",".join(cluster["workerpool2"]))
        self.assertEqual(log[2], "65")
        self.assertFalse(os.path.exists(log[3]), "the agent's folder")
        server_log = self.read(run, "logs/workerpool2-0.log")
        self.assertIn("--bandwidth=5000mbps", server_log)
        self.assertIn("600\n65\n", server_log)
        self.assertFalse(os.path.exists(os.path.join(run.job_dir, "token")))

    def test_an_interface_is_chosen(self):
        self.make_pair()
        both = [bash("echo $NCCL_SOCKET_IFNAME $MASTER_ADDR"), bash("true")]
        hosts = self.hosts("one", "two")
        run = self.run_job(both, *hosts, "--interface=10.77.0.0/16")
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "eth1 10.77.0.1\n")
        run = self.run_job(both, *hosts, "--interface=eth1")
        self.assert_code(run, 1)
        self.assertIn("host two: must have an interface eth1 (--interface) that is up and has an address, got lo 127.0.0.1, net5 10.77.0.2", run.err)

    def test_too_few_slots(self):
        self.make_pair()
        run = self.run_job([bash("true"), bash("true", 2)], *self.hosts("one", "two"))
        self.assert_code(run, 1)
        self.assertIn("hosts: workerpool1-1 must find a host with 1 free slot, got none: 2 hosts with 2 slots in all", run.err)

    def start_until_ready(self, *flags, script="", **options):
        ready = self.path("ready")
        run = self.start([bash(f"{script} touch {ready}-$RANK; sleep 1000")] * 2, *flags, **options)
        for rank in 0, 1:
            self.wait_for_file(f"{ready}-{rank}")
        return run

    def test_a_killed_agent(self):
        """Its host is lost, and so is the job, which is told with the host's name."""
        self.make_pair()
        run = self.start_until_ready(*self.hosts("one", "two"), "--grace=1", labels={"max-restarts": "0"})
        agents = self.agents()
        self.assertEqual(len(agents), 2)
        os.kill(agents[1], signal.SIGKILL)
        self.assert_code(self.finish(run), 1)
        self.assertRegex(run.err, r"The replica workerpool[01]-0 was lost with its host: host (one|two): ")
        self.assertEqual(processes_with(self.mark), [])

    def test_a_silent_agent(self):
        """A link that is cut says nothing: a host is lost after --host-timeout, and its agent gives the runner up, too."""
        self.make_pair()
        run = self.start_until_ready(*self.hosts("one", "two"), "--grace=1", "--host-timeout=2", labels={"max-restarts": "0"})
        agent = self.agents()[0]
        os.kill(agent, signal.SIGSTOP)
        self.assertTrue(wait_until(lambda: "nothing has come from the other end for 2 s" in self.read(run, "logs/job.log"), 20))
        os.kill(agent, signal.SIGCONT)
        self.assert_code(self.finish(run), 1)
        self.assertIn("was lost with its host", run.err)
        self.assertTrue(wait_until(lambda: not processes_with(self.mark), 20))

    def test_a_replica_fails_while_a_host_is_silent(self):
        """It may have lost a peer there: an agent that gives the runner up ends its replicas, maybe before the host is lost. So the
        cause is not told before that host says something, or is lost."""
        self.make_pair()
        for is_lost in (True, False):
            go = self.path(f"go-{is_lost}")
            script = f"touch {self.path('ready')}-$RANK; until [ $RANK = 0 -a -e {go} ]; do sleep 0.05; done; exit 3"
            run = self.start([bash(script)] * 2, *self.hosts("one", "two"), "--grace=1", "--host-timeout=6", labels={"max-restarts": "0"})
            for rank in 0, 1:
                self.wait_for_file(f"{self.path('ready')}-{rank}")
                os.remove(f"{self.path('ready')}-{rank}")
            agent = self.agent_on("two")
            os.kill(agent, signal.SIGSTOP)
            time.sleep(4.5)
            open(go, "w", encoding="ascii").close()
            if is_lost:
                self.assertTrue(wait_until(lambda: "nothing has come" in self.read(run, "logs/job.log"), 20))
            else:
                time.sleep(0.7)
            os.kill(agent, signal.SIGCONT)
            self.assert_code(self.finish(run), 1)
            said = "The replica workerpool1-0 was lost with its host: host two: nothing has come" if is_lost else \
                "The replica workerpool0-0 exited with a non-zero status of 3."
            self.assertTrue(run.err.startswith(said), run.err)
            self.assertTrue(wait_until(lambda: not processes_with(self.mark), 20))

    def test_a_lost_host_is_followed_by_another_attempt(self):
        self.make_pair()
        first = "[ $SUMMAND_RESTARTS = 1 ] || [ $RANK = 0 ] && sleep 1; " \
                "[ $SUMMAND_RESTARTS = 1 ] && exit 0; [ $RANK = 0 ] && sleep 1000; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 1000"
        run = self.run_job([bash(first)] * 2, *self.hosts("one", "two"), "--grace=1", labels={"restart-backoff": "0"})
        self.assert_code(run, 0)
        self.assertIn("was lost with its host: host two", run.out)

    def lose(self, name):
        """Its agent is killed, and nothing reaches it any more, until the file is back."""
        os.rename(self.path(name), self.path("away"))
        for pid in self.agents():
            if os.readlink(f"/proc/{pid}/ns/net") == self.networks[name]:
                os.kill(pid, signal.SIGKILL)

    def start_and_lose(self, names, *lines, **labels):
        """A job of two replicas on the first two of these hosts, of which the second is lost."""
        self.made.make_star(*names)
        self.networks = {}
        for name in names:
            with open(self.path(name), encoding="ascii") as file:
                self.networks[name] = os.readlink(f"/proc/{file.read()}/ns/net")
        ready = self.path("ready")
        network = "$(readlink /proc/self/ns/net)"
        script = f"echo on {network}; [ $SUMMAND_RESTARTS != 0 ] || {{ touch {ready}-$RANK; sleep 1000; }}"
        run = self.start([bash(script)] * 2, *self.hosts(*lines), "--grace=1", "--success-policy=all-workers",
                         labels={"restart-backoff": "1", **{name.replace("_", "-"): value for name, value in labels.items()}})
        for rank in 0, 1:
            self.wait_for_file(f"{ready}-{rank}")
        self.lose(names[1])
        return run

    def test_a_host_that_is_lost_for_good(self):
        """The spare one takes its place."""
        run = self.finish(self.start_and_lose(("one", "two", "three"), "one", "two", "three", max_restarts="1"))
        self.assert_code(run, 0)
        self.assertIn("restart 1 of 1", run.out)
        self.assertRegex(run.out, r"left out, because the other hosts suffice: host two: .*/carry ended with status 0: .*two: No such file")
        self.assertRegex(self.read_json(run, "state.json")["hostsLeftOut"], r"^host two: ")
        for replica, name in ("workerpool0-0", "one"), ("workerpool1-0", "three"):
            self.assertEqual(self.read(run, f"logs/{replica}.log").splitlines()[-1], f"on {self.networks[name]}")

    def test_a_host_that_comes_back(self):
        """While it is away each attempt that wants it is one of the restarts."""
        run = self.start_and_lose(("one", "two"), "one", "two", max_restarts="9")
        job_log = os.path.join(run.job_dir, "logs/job.log")
        self.assertTrue(wait_until(lambda: "restart 2 of 9" in self.read(run, "logs/job.log")), job_log)
        os.rename(self.path("away"), self.path("two"))
        self.assert_code(self.finish(run), 0)
        self.assertRegex(run.out, r"host two: .*/carry ended with status 0: .*two: No such file or directory.*: restart 2 of 9 in 2 s")
        self.assertNotIn("hostsLeftOut", self.read_json(run, "state.json"))

    def test_a_host_that_does_not_come_back(self):
        run = self.finish(self.start_and_lose(("one", "two"), "one", "two", max_restarts="2"))
        self.assert_code(run, 1)
        self.assertRegex(run.out, r"lost with its host: host two: .*: restart 1 of 2 in 1 s(.|\n)*No such file or directory.*: restart 2 of 2 in 2 s")
        self.assertRegex(run.err, r"host two: .*/carry ended with status 0: .*two: No such file or directory")

    def test_a_host_that_is_not_needed(self):
        """It does not come, or not in time."""
        self.made.make("one")
        self.script("hang", f"#!/bin/sh\nif [ $1 = gone ]; then exec sleep 1000; fi\nexec {self.path('carry')} \"$@\"\n")
        for words, cause in ([], "No such file or directory"), ([f"--ssh-command={self.path('hang')}", "--join-timeout=3"], "has said nothing"):
            with self.subTest(cause):
                run = self.run_job([bash("true"), bash("true", 2)], *self.hosts("one slots=3", "gone"), *words)
                self.assert_code(run, 0)
                self.assertRegex(run.out, rf"left out, because the other hosts suffice: host gone: .*{cause}")
                self.assertRegex(self.read(run, "logs/job.log"), r"left out, because the other hosts suffice: host gone: ")

    def test_a_lost_host_of_a_server_alone(self):
        """The job goes on with the server of the other host; one whose host is gone is not started elsewhere."""
        self.make_pair()
        done = self.path("done")
        run = self.start([bash(f"until [ -e {done} ]; do sleep 0.05; done"), {}, reduction_servers(2, "echo ready >&3; exec sleep 1000")],
                         *self.hosts("one slots=2", "two"), "--grace=1", labels={"max-restarts": "0"})
        log = os.path.join(run.job_dir, "logs/job.log")
        self.assertTrue(wait_until(lambda: os.path.exists(log) and "Job is running." in self.read(run, "logs/job.log"), 30))
        os.kill(self.agent_on("two"), signal.SIGKILL)
        self.assertTrue(wait_until(lambda: "reduction servers; its host is gone, and it is not started on another" in self.read(run, "logs/job.log"), 30))
        self.assertRegex(self.read(run, "logs/job.log"),
                         "workerpool2-1 was lost with its host: host two: .*: training goes on with the other 1 of 2")
        open(done, "w", encoding="ascii").close()
        self.assert_code(self.finish(run), 0)
        self.assertEqual([r["state"] for r in self.read_json(run, "state.json")["replicas"]], ["SUCCEEDED", "STOPPED", "FAILED"])

    def test_servers_are_added_where_there_is_room(self):
        """By the host's own address, with the token and a port of its agent; where no slot is free none is added."""
        self.make_pair()
        done = self.path("done")
        serve = f'echo "$*" >{self.dir}/$SUMMAND_REPLICA; stat -c "%a" "$(expr "$*" : ".*--token-file=\\([^ ]*\\)")"; echo ready >&3; exec sleep 1000'
        run = self.start([bash(f"until [ -e {done} ]; do sleep 0.05; done; cat $SUMMAND_SERVERS_FILE"), {}, reduction_servers(2, serve)],
                         *self.hosts("one slots=2", "two slots=3"), "--grace=1")
        log = os.path.join(run.job_dir, "logs/job.log")
        self.assertTrue(wait_until(lambda: os.path.exists(log) and "Job is running." in self.read(run, "logs/job.log"), 30))
        scale = [SUMMAND, "custom-jobs", "scale", self.read_json(run, "state.json")["name"]]
        wide = subprocess.run([*scale, "--replicas=5"], capture_output=True, text=True, check=False, timeout=LONG)
        self.assertEqual(wide.returncode, 1)
        self.assertIn("4 reduction servers stay: workerpool2-4: must find a host with a free slot, got none: 2 hosts", wide.stderr)
        addresses = []
        for index in range(4):
            self.wait_for_file(self.path(f"workerpool2-{index}"))
            with open(self.path(f"workerpool2-{index}"), encoding="utf-8") as file:
                addresses.append(re.search(r"--listen=(\S+):(\d+)", file.read()).groups())
        self.assertEqual([address for address, _ in addresses], ["10.77.0.1"] + ["10.77.0.2"] * 3)
        self.assertEqual(len(set(addresses)), 4)
        self.assertTrue(wait_until(lambda: self.read(run, "logs/workerpool2-3.log") == "600\n", 30))
        self.assertEqual(subprocess.run([*scale, "--replicas=1"], check=False, timeout=LONG, stderr=subprocess.DEVNULL).returncode, 0)
        open(done, "w", encoding="ascii").close()
        self.assert_code(self.finish(run), 0)
        serves, *ever = self.read(run, "logs/workerpool0-0.log").splitlines()
        self.assertEqual(serves, ":".join(addresses[0]))
        self.assertEqual(ever, [",".join(map(":".join, addresses))])
        self.assertEqual([r["state"] for r in self.read_json(run, "state.json")["replicas"]], ["SUCCEEDED"] + ["STOPPED"] * 4)

    def test_an_agent_that_is_told_to_end_says_so(self):
        self.make_pair()
        run = self.start_until_ready(*self.hosts("one", "two"), "--grace=1", labels={"max-restarts": "0"})
        os.kill(self.agents()[0], signal.SIGTERM)
        self.assert_code(self.finish(run), 1)
        self.assertIn("its agent was told to end by signal 15 (Terminated)", run.err)

    def test_agents_that_lose_their_runner_leave_nothing(self):
        self.make_pair()
        ended = self.path("ended")
        run = self.start_until_ready(*self.hosts("one", "two"), "--grace=2",
                                     script=f"setsid sleep 1000 & trap 'touch {ended}-$RANK; exit' TERM; sleep 1000 & touch {self.path('ready')}-$RANK; wait;")
        self.assertEqual(len(os.listdir(self.path("run"))), 2)
        os.kill(run.pid, signal.SIGSTOP)  # neither runner nor guard ends what they have started
        os.kill(self.runner_of(run), signal.SIGKILL)
        os.kill(run.pid, signal.SIGKILL)
        self.finish(run)
        self.assertTrue(wait_until(lambda: not processes_with(self.mark), 30), processes_with(self.mark))
        for rank in 0, 1:
            self.assertTrue(os.path.exists(f"{ended}-{rank}"), "replicas have their grace period")
        self.assertEqual(os.listdir(self.path("run")), [])

    def test_a_killed_agents_folder_is_removed_by_the_next_agent(self):
        self.make_pair()
        old, young = self.path("run/summand-agent-old"), self.path("run/summand-agent-young")
        for folder in old, young:
            os.mkdir(folder)
        os.utime(old, (1, 1))
        self.assert_code(self.run_job([bash("true")], *self.hosts("one")), 0)
        self.assertEqual(os.listdir(self.path("run")), ["summand-agent-young"])

    def test_a_folder_is_missing_on_a_host(self):
        """It is named with the host, and what to do."""
        self.make_pair(f"mount -t tmpfs tmpfs {self.dir} &&")
        self.script("carry", hosts.CARRY.format(folder=self.dir).replace(' --wd="$PWD"', ""))
        spec = self.write_spec([bash("sleep 1000"), bash("true")])  # the chief's success would be the job's
        run = subprocess.run([os.path.join(os.environ["SUMMAND_BUILD"], "bin/summand"), "custom-jobs", "local-run", spec, "--quiet",
                              f"--job-dir={self.path('job')}", *self.hosts("one", "two")], cwd=os.path.dirname(spec),
                             capture_output=True, text=True, check=False, timeout=LONG)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, rf"workerpool1-0 could not be started: host two: {os.path.dirname(spec)}: must be there on every host")

    def test_a_working_directory_that_is_gone(self):
        spec = self.write_spec([bash("true")])
        words = f"mkdir {self.path('gone')} && cd {self.path('gone')} && rmdir {self.path('gone')} && " \
                f"exec {os.path.abspath(SUMMAND)} custom-jobs local-run {spec} {' '.join(self.hosts('one'))}"
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False, timeout=LONG)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("summand: the working directory: No such file or directory: replicas on other hosts begin in it", done.stderr)

    def run_with_a_clock(self, seconds):
        """Of the second host, which is ahead."""
        self.make_pair()
        self.script("ahead.py", AHEAD)
        plain = self.script("plain", hosts.CARRY.format(folder=self.dir))
        self.script("carry", f'#!/bin/bash\n[ "$1" = two ] || exec {plain} "$@"\n'
                    f'{plain} "$@" | {sys.executable} {self.path("ahead.py")} {seconds}\n')
        return self.run_job([bash("true")] * 2, *self.hosts("one", "two"), labels={"max-restarts": "0"})

    def test_clocks_are_apart(self):
        """A little is told, and five minutes are refused, as munge and Kerberos do."""
        run = self.run_with_a_clock(30)
        self.assert_code(run, 0)
        self.assertRegex(run.out + run.err, r"host two: its clock is \d+ s ahead of this machine's")
        run = self.run_with_a_clock(-400)
        self.assert_code(run, 1)
        self.assertRegex(run.err, r"host two: its clock must be within 300 s of this machine's, got \d+ s behind it: set both by NTP")
        self.assertEqual(os.listdir(self.path("run")), [])

    def test_a_chatty_replica(self):
        """Waits while nobody reads what it prints; neither its agent nor the runner keeps it for it."""
        self.make_pair()
        ready = self.path("ready")
        spec = self.write_spec([bash(f"touch {ready}; exec yes 'a line that nobody reads, over and over again'")] * 2)
        run = subprocess.Popen([os.path.join(os.environ["SUMMAND_BUILD"], "bin/summand"), "custom-jobs", "local-run", spec,
                                f"--job-dir={self.path('job')}", "--log-limit=1M", *self.hosts("one", "two")],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        run.job_dir = self.path("job")
        self.addCleanup(self.end, run)
        self.wait_for_file(ready)
        agents = self.agents()
        most = 0
        for _ in range(20):
            wait_until(lambda: False, 0.1)
            for pid in [self.runner_of(run), *agents]:
                with open(f"/proc/{pid}/status", encoding="ascii") as file:
                    most = max(most, int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]))
        self.assertLess(most, (400 if os.environ.get("SUMMAND_SANITIZE") else 48) * 1024)
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=LONG)
        self.assertEqual(run.returncode, 130)

    def test_waiting_can_be_cancelled(self):
        """Whatever the command has started ends with it."""
        carry = self.script("carry", "#!/bin/sh\nsleep 1000\n")
        run = self.start([bash("true")], *self.hosts("one")[:2], f"--ssh-command={carry}")
        self.assertTrue(wait_until(lambda: os.path.exists(os.path.join(run.job_dir, "state.json"))))
        self.assertTrue(wait_until(lambda: children_of(self.runner_of(run))))
        self.assertEqual(self.read_json(run, "state.json")["state"], "JOB_STATE_PENDING")
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)
        self.assertEqual(self.read_json(run, "state.json")["state"], "JOB_STATE_CANCELLED")

    def test_an_agent_that_never_answers(self):
        """The host is named by the file's name, with what its command has said."""
        self.made.make("one")
        plain = self.script("plain", hosts.CARRY.format(folder=self.dir))
        carry = self.script("carry", f'#!/bin/bash\n[ "$1" = two ] || exec {plain} "$@"\necho Welcome to two >&2; sleep 1000\n')
        begin = time.monotonic()
        run = self.run_job([bash("true")] * 2, *self.hosts("one", "two"), "--join-timeout=2")
        self.assert_code(run, 1)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertIn(f"host two: its agent must have come within 2 s (--join-timeout): {carry} has been started, and has said Welcome to two",
                      run.err)
        self.script("carry", "#!/bin/bash\nsleep 1000\n")
        lines = [f"host{number}" for number in range(9)]
        run = self.run_job([bash("true")], *self.hosts(*lines), "--join-timeout=1")
        self.assertIn(f"host host0: its agent must have come within 1 s (--join-timeout): {carry} has been started, and has said nothing", run.err)
        run = self.run_job([bash("true")], *self.hosts("one"), "--join-timeout=0")
        self.assert_code(run, 2)
        self.assertIn("--join-timeout: must be at least 1, got 0", run.err)

    def test_few_connections_begin_at_once(self):
        begun = self.path("begun")
        carry = self.script("carry", f"#!/bin/sh\necho x >>{begun}\nexec sleep 1000\n")
        run = self.start([bash("true")], *self.hosts(*(f"host{number}" for number in range(20)))[:2], f"--ssh-command={carry}")
        self.wait_for_file(begun)
        self.assertTrue(wait_until(lambda: os.path.getsize(begun) >= 8 * 2))
        wait_until(lambda: False, 1)
        self.assertEqual(os.path.getsize(begun), 8 * 2)
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run), 130)

    def test_a_host_that_cannot_be_reached(self):
        carry = self.script("carry", "#!/bin/sh\necho 'ssh: connect to host one: No route to host' >&2; exit 255\n")
        run = self.run_job([bash("true")], *self.hosts("one")[:2], f"--ssh-command={carry}")
        self.assert_code(run, 1)
        self.assertIn(f"host one: {carry} ended with status 255: ssh: connect to host one: No route to host", run.err)

    def test_a_copy_for_a_user_without_a_home(self):
        carry = self.script("carry", "#!/bin/sh\nexec env -u HOME -u XDG_CACHE_HOME sh -c \"$2\"\n")
        run = self.run_job([bash("true")], *self.hosts("one")[:2], f"--ssh-command={carry}", "--copy")
        self.assert_code(run, 1)
        self.assertRegex(run.err, f"host one: {carry} ended with status 2: .*HOME: must be set")

    def greet(self, hello):
        """A stand-in for an agent, which says this."""
        body = hello if isinstance(hello, bytes) else json.dumps(hello).encode()
        frame = struct.pack("<IB", len(body), 1) + body
        carry = self.script("carry", f"#!{sys.executable}\nimport sys, time\nsys.stdin.readline()\n"
                            f"sys.stdout.buffer.write({frame!r})\nsys.stdout.flush()\ntime.sleep(1000)\n")
        run = self.run_job([bash("true")], *self.hosts("one")[:2], f"--ssh-command={carry}")
        self.assert_code(run, 1)
        return run.err

    def test_an_agent_of_another_version(self):
        facts = {"name": "one", "facts": {}}
        self.assertIn("host one: summand-agent must speak protocol 3 and be of version 0.1.0, as this summand, got protocol 3, version 9.9",
                      self.greet({"protocol": 3, "version": "9.9", "host": 0, **facts}))
        # An agent from before a change of the protocol, built with the same version.
        self.assertIn("got protocol 2, version 0.1.0", self.greet({"protocol": 2, "version": "0.1.0", "host": 0, **facts}))
        self.assertIn("got protocol 4, version 0.2.0", self.greet({"protocol": 4, "version": "0.2.0", "host": 0, **facts}))

    def test_an_agent_that_talks_nonsense(self):
        self.assertIn("host one: a HELLO frame came that is none", self.greet(b"\xff" * 64))
        self.assertIn("host one: the facts of the host: not all of them are there",
                      self.greet({"protocol": 3, "version": "0.1.0", "host": 0, "name": "one", "facts": {}}))

    def test_a_hostfile_that_is_a_pipe(self):
        """It is read before the job is taken, and a wrong one is no job."""
        self.made.make("one")
        spec = self.write_spec([bash("exit 0")])
        words = f"{SUMMAND} custom-jobs create {spec} --job-dir={self.path('job')} --engine=ssh --ssh-command={self.made.carry} --hostfile="
        for line, code, said in ("one slots=0", 2, "line 1: must be HOST [slots=N]"), ("one", 0, "is submitted successfully"):
            done = subprocess.run(["bash", "-c", f"{words}<(echo {line})"], capture_output=True, text=True, check=False, timeout=LONG)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
        name = re.search(r"CustomJob \[(.*)\] is submitted", done.stderr)[1]
        done = subprocess.run([SUMMAND, "custom-jobs", "wait", name], capture_output=True, text=True, check=False, timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_job_of_slurm_that_is_no_number(self):
        """Before anything is made: the environment is wrong, and not the cluster."""
        with mock.patch.dict(os.environ, {"SLURM_JOB_ID": "a1"}):
            run = self.run_job([bash("true")], "--engine=slurm")
            self.assert_code(run, 2)
            self.assertIn("SLURM_JOB_ID: must be a job's number, got a1", run.err)
            self.assertFalse(os.path.exists(run.job_dir))
            self.assert_code(self.run_job([bash("true")]), 0)  # which is nothing to other engines

    def test_a_bad_hostfile(self):
        for line, text in (("one slots=many", "line 2: must be HOST [slots=N]"), ("-oProxyCommand=x", "line 2: must be HOST [slots=N]"),
                           ("", "must name a host")):
            run = self.run_job([bash("true")], *self.hosts(line))
            self.assert_code(run, 2)
            self.assertIn(text, run.err)
        run = self.run_job([bash("true")], *self.hosts("one")[:2], "--ssh-command= ")
        self.assert_code(run, 1)
        self.assertIn("--ssh-command: must name a command, got none", run.err)
        run = self.run_job([bash("true")], "--engine=ssh", "--hostfile=/tmp")
        self.assert_code(run, 2)
        self.assertIn("--hostfile=/tmp: Is a directory", run.err)
        run = self.run_job([bash("true")], "--engine=ssh")
        self.assert_code(run, 2)
        self.assertIn("--engine=ssh: must come with --hostfile=FILE", run.err)


if __name__ == "__main__":
    if not hosts.can_be_made():
        print("skipped: no network namespaces can be made here")
        sys.exit(77)
    at_once.main()
