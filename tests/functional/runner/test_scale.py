"""More and fewer reduction servers while the job runs."""

import json
import os
import re
import signal
import subprocess

from job import ADDRESS, LONG, OVER_HOSTS, SUMMAND, at_once, bash, command_of, processes_with, reduction_servers, wait_until
from servers import READY, ServersBase

PERF = "SUMMAND_LOG=info exec summand-perf allreduce --group=scaled --nranks=3 --rank=$RANK --sizes=128K --each --warmup=0 --iters="
LEFT = r"from operation (\d+) on, with \d+ shards of servers that stay"


def replica_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return next(word[16:].decode() for word in file.read().split(b"\0") if word.startswith(b"SUMMAND_REPLICA="))


class ScaleTest(ServersBase):
    def summand(self, *words, code=0):
        done = subprocess.run([SUMMAND, "custom-jobs", *words], capture_output=True, text=True, check=False, timeout=LONG)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def scale(self, run, replicas, *flags, code=0):
        return self.summand("scale", self.read_json(run, "state.json")["name"], f"--replicas={replicas}", *flags, code=code)

    def described(self, run):
        servers = json.loads(self.summand("describe", self.read_json(run, "state.json")["name"], "--format=json"))["reductionServers"]
        return servers["replicaCount"], servers["runningCount"]

    def start_running(self, *args, **labels):
        run = self.start_with(*args, **labels)
        self.wait_until_said(run, "Job is running.")
        return run

    def test_more_and_fewer_and_more(self):
        run = self.start_running(2)
        self.assertEqual(self.described(run), (2, 2))
        said = self.scale(run, 3, "--pool=2")
        self.assertIn("has 3 reduction servers now.", said)
        self.assertIn("Ranks that run take in those that all of them reach, within seconds; the job's next attempt uses all.", said)
        self.wait_until_said(run, "workerpool2-2 serves: ranks take it in where they can")
        addresses = {re.search(r"--listen=(\S+)", self.started(index)[1])[1] for index in range(3)}
        self.assertEqual(len(addresses), 3)
        said = self.scale(run, 1)
        self.assertIn("has 1 reduction server now.", said)
        self.assertIn("Processes that begin from now on wait for those taken away, 3 s if ranks that began before are at work, else 30 s, and begin without them.", said)
        for index in 1, 2:
            path = f"exits/workerpool2-{index}.json"
            self.wait_for_file(os.path.join(run.job_dir, path))
            self.assertEqual(self.read_json(run, path)["signal"], signal.SIGTERM)
        self.assertEqual(self.described(run)[0], 1)
        self.wait_until_state(run, "workerpool2-1", "STOPPED")
        self.scale(run, 2)
        self.wait_until_said(run, "workerpool2-1 serves again: ranks take it in where they can")
        first, again = self.started(1)[1].split()[0], self.started(1, 1)[1].split()[0]
        self.assertEqual(first, again, "the same address; it may have another share of its host's bandwidth")
        self.lose(1, 1)  # one that came back is cared for as any other
        self.wait_until_said(run, "training goes on with the other 1 of 2 reduction servers; it is started again in 1 s (1 of 5)")
        self.lose(0)
        self.assert_code(self.finish(run), 1)
        self.assertIn("workerpool2-0 was killed", run.err)
        self.assertEqual(self.read(run, "logs/job.log").count("training goes on with"), 1, "whoever is asked to end is not lost")
        self.assertEqual(run.err.count("workerpool2-2"), 0)

    def test_the_next_attempt_has_all(self):
        first = f"echo $SUMMAND_REDUCTION_SERVERS; [ $SUMMAND_RESTARTS = 1 ] && exit 0; until [ -e {self.done} ]; do sleep 0.05; done; exit 3"
        self.work = bash(first)
        run = self.start_running(1, restart_policy="on-failure")
        self.scale(run, 3)
        self.wait_until_said(run, "serves: ranks take it in where they can", 2)
        self.end_well(run)
        lists = self.read(run, "logs/workerpool0-0.log").split()
        self.assertEqual([len(each.split(",")) for each in lists], [1, 3])
        self.assertEqual(lists[1].split(",")[0], lists[0], "the first one stays where it is")
        again = [re.search(r"--listen=(\S+)", self.started(index, 1)[1])[1] for index in range(3)]
        self.assertEqual(lists[1].split(","), again)

    def test_the_next_attempt_has_fewer(self):
        self.work = bash(f"echo $SUMMAND_REDUCTION_SERVERS; [ $SUMMAND_RESTARTS = 1 ] && exit 0; until [ -e {self.done} ]; do sleep 0.05; done; exit 3")
        run = self.start_running(2, restart_policy="on-failure")
        self.scale(run, 1)
        self.end_well(run)
        self.assertEqual([len(each.split(",")) for each in self.read(run, "logs/workerpool0-0.log").split()], [2, 1])
        self.assertFalse(os.path.exists(self.path("workerpool2-1.1")))

    def test_ranks_can_read_which_servers_serve(self):
        """Replaced as a whole: a reader at any moment sees a line of those that serve, and one of all that ever did."""
        read = f"until [ -e {self.done} ]; do read -r line <$SUMMAND_SERVERS_FILE && echo $line; sleep 0.01; done; head -n 1 $SUMMAND_SERVERS_FILE"
        self.work = bash(read)
        run = self.start_running(2)

        def addresses(indices):
            return ",".join(re.search(r"--listen=(\S+)", self.started(index)[1])[1] for index in indices) + "\n"

        def wait_for_list(*indices):
            text = addresses(indices)
            wanted = text if OVER_HOSTS else text + addresses(range(ever_there))
            self.assertTrue(wait_until(lambda: listed() == wanted, 30), listed())
            return text

        def listed():
            """On hosts the list is in the folder of each agent, where the replica reads its first line. Its log comes a moment after it."""
            if not OVER_HOSTS:
                return self.read(run, "servers")
            if not os.path.exists(os.path.join(run.job_dir, "logs/workerpool0-0.log")):
                return ""
            return self.read(run, "logs/workerpool0-0.log").rpartition("\n")[0].rpartition("\n")[2] + "\n"

        ever_there = 2
        seen = {wait_for_list(0, 1)}
        self.scale(run, 3)
        ever_there = 3
        seen.add(wait_for_list(0, 1, 2))
        self.lose(0)
        seen.add(wait_for_list(1, 2))
        wait_for_list(0, 1, 2)
        self.scale(run, 1)
        last = wait_for_list(0)
        self.end_well(run)
        whole = re.compile(rf"({ADDRESS}:\d+)(,{ADDRESS}:\d+){{0,2}}\n")
        lines = self.read(run, "logs/workerpool0-0.log").splitlines(True)
        self.assertEqual([line for line in lines if not whole.fullmatch(line)], [])
        self.assertEqual(lines[-1], last)
        self.assertTrue(seen & set(lines))
        self.assertFalse(os.path.exists(os.path.join(run.job_dir, "servers")))

    def test_what_is_refused(self):
        hangs = "[ $SUMMAND_REPLICA.$SUMMAND_RESTARTS != workerpool2-0.1 ] || sleep 1000; "
        run = self.start_running(2, script=hangs + READY)
        self.assertIn("--pool: must be 2", self.scale(run, 2, "--pool=1", code=2))
        self.assertIn("--replicas: must be given", self.summand("scale", self.read_json(run, "state.json")["name"], code=2))
        self.assertIn("2 reduction servers stay: one must stay where no reducers run on the workers' hosts", self.scale(run, 0, code=1))
        self.assertIn("2 reduction servers stay: there may be 64 at most: a rank can use 64, of which 0 are reducers on the workers' hosts",
                      self.scale(run, 65, code=1))
        self.lose(0)
        self.started(0, 1)
        self.assertIn("2 reduction servers stay: none of those that would stay serves", self.scale(run, 1, code=1))
        self.end_well(run)
        self.assertIn("must not have ended, and has", self.scale(run, 1, code=1))
        run = self.start([bash(f"until [ -e {self.path('go')} ]; do sleep 0.05; done")])
        self.wait_until_said(run, "Job is running.")
        self.assertIn("must have reduction servers of its own in worker pool 2, and has none", self.scale(run, 1, code=1))
        open(self.path("go"), "w", encoding="ascii").close()
        self.assert_code(self.finish(run), 0)

    def test_one_that_ends_slowly(self):
        ends = f"until [ -e {self.path('end')} ]; do sleep 0.05; done; exit"
        run = self.start_running(2, "--grace=60", script=f"trap '{ends}' TERM; echo ready >&$SUMMAND_NOTIFY_FD; sleep 1000 & wait")
        self.scale(run, 1)
        self.assertIn("workerpool2-1: has been asked to end and has not yet", self.scale(run, 2, code=1))
        open(self.path("end"), "w", encoding="ascii").close()
        self.wait_until_state(run, "workerpool2-1", "STOPPED")
        self.scale(run, 2)
        self.wait_until_said(run, "workerpool2-1 serves again")
        self.end_well(run)
        self.assertEqual(self.read_json(run, "summary.json")["restarts"], 0, "nothing has failed")

    def test_what_is_no_request(self):
        """A replica may write it: it asks for nothing that the job may not have, and the runner goes on."""
        run = self.start_running(1)
        path = os.path.join(run.job_dir, "scale.json")
        for text in '{"request": 5}', '{"request": "' + "x" * 99 + '", "replicas": 3}', '{"request": "a", "replicas": -3}', "[]", "{", "":
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertIn("has 1 reduction server now", self.scale(run, 1))
        os.mkfifo(path)
        self.assertIn("has 1 reduction server now", self.scale(run, 1))
        self.end_well(run)

    def test_real_ranks_take_in_one_more(self):
        run = self.start([bash(PERF + "20000"), bash(PERF + "20000", 2), reduction_servers(1)])
        self.wait_until_said(run, "# summand-perf")
        self.scale(run, 2)
        self.wait_until_said(run, "was added and serves; 2 of 2 reduction servers go on", 2)
        self.assert_code(self.finish(run), 0)
        self.assertIn("# wrong elements: 0 OK", self.read(run, "logs/workerpool0-0.log"))
        results = {each["name"]: each["results"] for each in self.read_json(run, "summary.json")["replicas"]}
        self.assertGreater(int(results["workerpool2-1"]["chunks"]), 0)

    def drain_two_of_three(self, iterations):
        """The first operation without them; none: the ranks had ended."""
        run = self.start([bash(f"{PERF}{iterations}"), bash(f"{PERF}{iterations}", 2), reduction_servers(3)], "--grace=10")
        self.wait_until_said(run, "# summand-perf")
        self.scale(run, 1)
        for pid in processes_with(self.mark):
            if command_of(pid).startswith("summand-reduction-server") and replica_of(pid) != "workerpool2-0":
                os.kill(pid, signal.SIGTERM)
        self.wait_until_said(run, "server: ended: ", 2)
        self.assert_code(self.finish(run), 0)
        self.assertIn("# wrong elements: 0 OK", self.read(run, "logs/workerpool0-0.log"))
        states = [each["state"] for each in self.read_json(run, "state.json")["replicas"]]
        self.assertEqual(states, ["SUCCEEDED"] * 3 + ["STOPPED"] * 3)
        left = re.findall(LEFT, self.read(run, "logs/workerpool0-0.log"))
        return int(left[-1]) if left else iterations

    def test_real_ranks_go_on_with_fewer(self):
        """Two of three servers are asked to end, and asked again: they leave at an operation of the ranks, and others follow."""
        iterations = 6000
        while self.drain_two_of_three(iterations) >= iterations:
            iterations *= 4
            self.assertLess(iterations, 100000, "ranks have always ended before the servers")


if __name__ == "__main__":
    at_once.main()
