"""Jobs over several hosts by OpenSSH, in namespaces."""

import datetime
import getpass
import json
import math
import os
import re
import subprocess
import sys
import time

from job import at_once, bash, command_of, pool, processes_with, reduction_servers
import pressure
from ssh_hosts import BUILT, CLIENT, NAMES, PORT, SshHosts, why_not

MARGIN = 2  # seconds, for processes to be run


class SshTest(SshHosts):
    def refuse(self, line, *flags):
        """A job that cannot begin, what is said of it, and how long that takes."""
        begin = time.monotonic()
        run = self.run_job([bash("true")] * 2, *self.hosts("one", line), *flags)
        self.assert_code(run, 1)
        self.assert_nothing_left()
        return run.err, time.monotonic() - begin

    def test_digits(self):
        """Two workers and a reduction server on two hosts."""
        digits = pool(["summand-digits", "--epochs=2"])
        server = reduction_servers()
        for each in digits, server:
            each["env"] = [{"name": "PATH", "value": f"{BUILT}:/usr/bin:/bin"}]
        run = self.run_job([digits, digits, server], *self.hosts("one", "two slots=2"))
        self.assert_code(run, 0)
        self.assertRegex(self.read(run, "logs/workerpool0-0.log"), "accuracy")
        self.assert_nothing_left()

    def test_a_host_is_silent(self):
        """Its packets go nowhere. ssh's own time limit ends that."""
        self.inside(self.head, ["neighbour", "add", "10.78.0.99", "lladdr", "02:00:00:00:00:99", "dev", "switch"])
        text, seconds = self.refuse("silent")
        self.assertRegex(text, r"host silent: ssh ended with status 255: .*timed out")
        self.assertLess(seconds, 20)

    def test_a_host_key_has_changed(self):
        text, _ = self.refuse("changed")
        self.assertRegex(text, r"host changed: ssh ended with status 255: Offending .*"
                         "Host key for .* has changed and you have requested strict checking. *Host key verification failed")

    def test_a_host_is_not_known(self):
        self.write("known", "")
        text, _ = self.refuse("two")
        self.assertRegex(text, r"host (one|two): ssh ended with status 255: .*Host key verification failed")

    def test_no_password_is_asked_for(self):
        self.write("client", CLIENT.format(folder=self.dir, port=PORT, user=getpass.getuser()).replace("user.key", "other.key"))
        text, _ = self.refuse("two")
        self.assertRegex(text, r"host (one|two): ssh ended with status 255: .*Permission denied \(publickey,password")

    def test_a_name_does_not_exist(self):
        text, _ = self.refuse("nowhere.invalid")
        self.assertRegex(text, r"host nowhere.invalid: ssh ended with status 255: .*Could not resolve hostname nowhere.invalid")

    def test_the_agent_is_missing(self):
        self.mount("two", "-t", "tmpfs", "tmpfs", BUILT)
        text, _ = self.refuse("two")
        self.assertRegex(text, r"host two: ssh ended with status 127: .*/summand-agent: (not found|No such file or directory); summand-agent must be at that path on every host")

    def copies(self, name):
        """Paths in the host's cache, and when each file was made."""
        return {os.path.join(folder, file): os.stat(os.path.join(folder, file)).st_mtime_ns
                for folder, _, files in os.walk(self.path(f"cache.{name}")) for file in files}

    def test_an_agent_is_copied(self):
        """Once, whole, beside those of other versions; where it is there already, it is used."""
        self.mount("two", "-t", "tmpfs", "tmpfs", BUILT)
        os.makedirs(self.path("cache.two/summand/agent-0.0.9-0123456789abcdef/bin"))
        self.write("cache.two/summand/agent-0.0.9-0123456789abcdef/bin/summand-agent", "#!/bin/sh\nexit 9\n", 0o755)
        jobs = [bash("true")] * 2, *self.hosts("one", "two"), "--copy"
        self.assert_code(self.run_job(*jobs), 0)
        first = {name: self.copies(name) for name in NAMES}
        with open(os.path.join(BUILT, "summand-agent"), "rb") as file:
            built = file.read()
        for name, count in ("one", 1), ("two", 2):
            self.assertEqual(len(first[name]), count)
            path = max(first[name])
            self.assertRegex(path, r"/cache\..../summand/agent-\d+\.\d+\.\d+-[0-9a-f]{16}/bin/summand-agent$")
            with open(path, "rb") as file:
                self.assertTrue(file.read() == built)
        self.assert_code(self.run_job(*jobs), 0)
        self.assertEqual({name: self.copies(name) for name in NAMES}, first)
        self.assert_nothing_left()

    def test_a_copy_that_cannot_run(self):
        """What it lacks there is said, and no copy stays."""
        needs = subprocess.run(["ldd", os.path.join(BUILT, "summand-agent")], capture_output=True, text=True, check=True).stdout
        library = re.search(r"libjansson\S* => (\S+)", needs)[1]
        self.mount("two", "--bind", "/dev/null", os.path.realpath(library))
        text, _ = self.refuse("two", "--copy")
        self.assertRegex(text, r"host two: ssh ended with status 3: summand-agent cannot run there: \S*libjansson\S*: .*; it needs what "
                         r"Debian calls .*libjansson4")
        self.assertEqual(self.copies("two"), {})

    def test_a_copy_that_cannot_be_written(self):
        """The disk there is full: the host and the folder are named, and no part of a copy stays."""
        os.mkdir(self.path("cache.two"))
        self.mount("two", "-t", "tmpfs", "-o", "size=64k", "tmpfs", self.path("cache.two"))
        text, _ = self.refuse("two", "--copy")
        self.assertRegex(text, rf"host two: ssh ended with status 1: tar: .*the copy cannot be written to {self.path('cache.two')}/summand/agent-")
        left = subprocess.run(["nsenter", "--mount", "--target", str(self.hosts_at["two"]), "find", self.path("cache.two"), "-name", "agent-*"],
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(left, "")

    def test_a_server_and_its_libraries_are_copied(self):
        """Fresh hosts need nothing of Summand: what the job's pools need comes along, and the workers' plugin is found."""
        for name in NAMES:
            self.mount(name, "-t", "tmpfs", "tmpfs", BUILT)
        words = "ls ${LD_LIBRARY_PATH%%:*}; type summand-reduction-server"
        env = [{"name": "NCCL_NET_PLUGIN", "value": "libnccl-net-summand.so"}]
        run = self.run_job([{**bash(words), "env": env}, bash("true"), reduction_servers()],
                           *self.hosts("one", "two slots=2"), "--copy")
        self.assert_code(run, 0)
        log = self.read(run, "logs/workerpool0-0.log")
        self.assertRegex(log, r"summand-reduction-server is .*/cache\.one/summand/agent-[^/]*/bin/summand-reduction-server")
        for library in ("libsummand.so.0", "libnccl-net-summand.so", "librccl-net-summand.so"):
            self.assertIn(library, log)
        self.assertRegex(self.read(run, "logs/workerpool2-0.log"), "ended: ")
        self.assert_nothing_left()

    def test_a_server_that_cannot_run(self):
        needs = subprocess.run(["ldd", os.path.join(BUILT, "summand-reduction-server")], capture_output=True, text=True, check=True).stdout
        library = re.search(r"libevent_pthreads\S* => (\S+)", needs)[1]
        self.mount("two", "--bind", "/dev/null", os.path.realpath(library))
        run = self.run_job([bash("true")] * 2 + [reduction_servers()], *self.hosts("one", "two slots=2"), "--copy")
        self.assert_code(run, 1)
        self.assertRegex(run.err, r"host two: ssh ended with status 3: summand-reduction-server cannot run there: \S*libevent_pthreads\S*: .*; "
                         r"it needs what Debian calls .*libevent-pthreads-2.1-7")
        self.assertEqual(self.copies("two"), {})
        self.assert_nothing_left()

    def start_without_job_directory_on_two(self, pools):
        """The job has an output folder, which is in the job directory; host two does not see that."""
        spec = self.write_spec(pools, labels={"max-restarts": "0"})
        with open(spec, encoding="utf-8") as file:
            job = json.load(file)
        job["jobSpec"]["baseOutputDirectory"] = {"outputUriPrefix": "gs://bucket/output"}
        with open(spec, "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.mount("two", "-t", "tmpfs", "tmpfs", os.path.dirname(spec))
        return self.finish(self.start_spec(spec, *self.hosts("one slots=2", "two")))

    def test_a_server_needs_no_folder_of_the_job(self):
        server = reduction_servers()
        server["env"] = [{"name": "PATH", "value": f"{BUILT}:/usr/bin:/bin"}]
        run = self.start_without_job_directory_on_two([bash("touch $SUMMAND_OUTPUT_DIR/made"), bash("true"), server])
        self.assert_code(run, 0)
        self.assertTrue(os.path.exists(os.path.join(run.job_dir, "output/made")))
        self.assertRegex(self.read(run, "logs/workerpool2-0.log"), "ended: ")
        self.assert_nothing_left()

    def test_a_worker_needs_the_folders_of_the_job(self):
        run = self.start_without_job_directory_on_two([bash("sleep 1000"), bash("true", 2)])
        self.assert_code(run, 1)
        self.assertIn(f"The replica workerpool1-1 could not be started: host two: {run.job_dir}/output: must be there on every host", run.err)
        self.assert_nothing_left()

    def noticed(self, run):
        """When each end did, by its own word: the runner's, in its log, to the second; the agent's, which asked the replica to end."""
        line = next(each for each in self.read(run, "logs/job.log").splitlines() if "\thost two: " in each)
        return {"the runner": datetime.datetime.strptime(line.split("\t")[1], "%Y-%m-%d %H:%M:%S %z").timestamp(),
                "the agent": float(self.read(run, "../asked-1"))}

    def test_a_link_is_cut(self):
        """Nobody says anything then. Runner and agent each notice within 15 s, and what ran on the host ends there."""
        ready = self.path("ready")
        asked = "$TEST_JOB_DIR/../asked-$RANK"
        script = f"trap 'date +%s.%N >{asked}; exit 1' TERM; touch {ready}-$RANK; sleep 1000 & wait"
        run = self.start([bash(script)] * 2, *self.hosts("one", "two"), "--grace=1", labels={"max-restarts": "0"})
        for rank in 0, 1:
            self.wait_for_file(f"{ready}-{rank}")
        limits = [re.search(r"ServerAliveInterval=(\d+)\0.*ServerAliveCountMax=(\d+)\0", command_of(pid)) for pid in processes_with(self.mark)]
        limits = {int(each[1]) * int(each[2]) for each in limits if each}
        self.assertTrue(limits and max(limits) < 15, f"ssh must give a silent host up within 15 s, got {limits}")
        cut, waits = time.time(), pressure.waited()
        self.inside(self.head, ["link", "set", "two", "down"])
        self.assert_code(self.finish(run), 1)
        self.assertRegex(run.err, r"The replica workerpool1-0 was lost with its host: host two: ssh ended with status 255: .*not responding\.\n")
        self.assertRegex(run.out, r"workerpool1-0 +worker +lost ")
        self.assert_nothing_left()
        quiet = pressure.was_quiet(waits, time.time() - cut)
        for end, when in self.noticed(run).items():
            self.assertGreaterEqual(when, math.floor(cut), end)
            if quiet:
                self.assertLess(when, cut + 15 + MARGIN, f"{end} must notice within 15 s")

    def test_a_host_that_is_lost_for_good(self):
        """Its link stays cut: the job goes on with the third host."""
        ready = self.path("ready")
        run = self.start([bash(f"[ $SUMMAND_RESTARTS != 0 ] || {{ touch {ready}-$RANK; sleep 1000; }}; hostname -I")] * 2,
                         *self.hosts("one", "two", "three"), "--grace=1", labels={"max-restarts": "1", "restart-backoff": "0"})
        for rank in 0, 1:
            self.wait_for_file(f"{ready}-{rank}")
        self.inside(self.head, ["link", "set", "two", "down"])
        self.assert_code(self.finish(run), 0)
        self.assertRegex(run.out, r"left out, because the other hosts suffice: host two: ssh ended with status 255: ssh: connect to host 10\.78\.0\.2 port \d+: ")
        self.assertIn("10.78.0.3", self.read(run, "logs/workerpool1-0.log"))
        self.assert_nothing_left()


if __name__ == "__main__":
    REASON = why_not()
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(77)
    at_once.main()
