"""A rank that dies is named to all others at once; when all begin again, nothing of the attempt before meets the new one."""

import os
import re
import signal
import subprocess
import time

from job import BIN, JobTest, at_once, bash, hosts, processes_of, reduction_servers, wait_until
import pressure

RANK = "exec summand-perf allreduce --group=ranks --nranks=3 --rank=$RANK --sizes={} --iters={} --warmup=1"
FOR_EVER = 100000000
# With a sanitizer, beside other tests, a rank hears of a lost one, and ends, within a few seconds.
GRACE_S = 10 if os.environ.get("SUMMAND_SANITIZE") else 2
# Long before the heartbeat tells it, after 15 s: by the end of the connection.
NAMED = r"rank {} \(workerpool{}\) was lost: (the other end closed the connection|Connection reset by peer|Broken pipe)"


class RanksTest(JobTest):
    def wait_for_work(self, run, attempts=1):
        log = os.path.join(run.job_dir, "logs/workerpool0-0.log")
        working = wait_until(lambda: os.path.exists(log) and self.read(run, "logs/workerpool0-0.log").count("(elements)") >= attempts, 60)
        self.assertTrue(working)

    def kill(self, replica):
        pids = processes_of(replica, "summand-perf", self.mark)
        self.assertEqual(len(pids), 1)
        os.kill(pids[0], signal.SIGKILL)

    def test_a_killed_rank_is_named_to_all_others(self):
        """The runner asks them to end 0.2 s later, for which they do not end here."""
        ranks = bash('trap "" TERM; ' + RANK.format("64K", FOR_EVER))
        run = self.start([ranks, {**ranks, "replicaCount": 2}, reduction_servers(2)], "--grace=20")
        self.wait_for_work(run)
        waits, killed = pressure.waited(), time.monotonic()
        self.kill("workerpool1-0")
        logs = [f"logs/{other}.log" for other in ("workerpool0-0", "workerpool1-1")]
        named = wait_until(lambda: all(re.search(NAMED.format(1, "1-0"), self.read(run, log)) for log in logs), 20)
        took = time.monotonic() - killed
        self.assertTrue(named)
        if pressure.was_quiet(waits, took):
            self.assertLess(took, 1)
        self.assert_code(self.finish(run), 1)
        self.assertTrue(run.err.startswith("The replica workerpool1-0 was killed by signal 9 (Killed).\n"), run.err)

    def start_server(self):
        """One that stays when a job ends or begins again."""
        words, address = hosts.on_second(os.path.join(BIN, "summand-reduction-server"), "--memory-limit=64M", "--insecure")
        unmarked = {name: value for name, value in os.environ.items() if name != "TEST_MARK"}
        server = subprocess.Popen([*words, f"--listen={address}:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  env=unmarked)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(server.stdout.close)
        return server.stdout.readline().split()[1]

    def test_attempts_never_meet(self):
        """Ranks of the same group, at the same servers: those of the old attempt ignore SIGTERM and have left a process behind."""
        seen = self.path("seen")
        first = 'trap "" TERM; setsid bash -c \'trap "" TERM; sleep 1000\' & '
        old = f"grep -lsz '^TEST_MARK={self.mark}' /proc/[0-9]*/environ | xargs grep -lsz '^SUMMAND_RESTARTS=0' >>{seen}; "
        script = f"if [ $SUMMAND_RESTARTS = 0 ]; then {first}{RANK.format('256K', FOR_EVER)}; fi; {old}{RANK.format('64K', 50)}"
        rank = {**bash(script), "env": [{"name": "SUMMAND_REDUCTION_SERVERS", "value": f"{self.start_server()},{self.start_server()}"}]}
        run = self.start([rank, {**rank, "replicaCount": 2}], f"--grace={GRACE_S}", labels={"restart-policy": "on-failure", "restart-backoff": "0"})
        self.wait_for_work(run)
        self.kill("workerpool1-1")
        self.assert_code(self.finish(run), 0)
        self.assertIn("workerpool1-1 was killed by signal 9 (Killed): restart 1 of 3", run.out)
        with open(seen, encoding="ascii") as file:
            self.assertEqual(file.read(), "", "processes of the old attempt")
        log = self.read(run, "logs/workerpool0-0.log")
        self.assertRegex(log, NAMED.format(2, "1-1"))
        self.assertEqual(re.findall(r"^ +(\d+) .* (\d+)$", log, re.MULTILINE), [("65536", "0")], "one result, of the second attempt")
        self.assertIn("# wrong elements: 0 OK", log)


if __name__ == "__main__":
    at_once.main()
