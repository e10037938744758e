"""Ranks of two runs of a spec never meet, nor do those of two attempts of a run, whatever servers they have in common."""

import os
import re
import shutil
import signal
import subprocess
from unittest import mock

from job import BIN, JobTest, at_once, bash, command_of, processes_with, reduction_servers, wait_until

RANK = "exec summand-perf allreduce --group=g --nranks=2 --rank=$RANK --sizes=4K --iters={}"
ALONE = r"all 2 ranks must join within 3 s"


class MeetingTest(JobTest):
    def serve(self, *before, listen="127.0.0.1"):
        """A server that is no job's."""
        unmarked = {name: value for name, value in os.environ.items() if name != "TEST_MARK"}
        words = [*before, os.path.join(BIN, "summand-reduction-server"), f"--listen={listen}:0", "--memory-limit=64M", "--insecure"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=unmarked)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(server.stdout.close)
        return [{"name": "SUMMAND_REDUCTION_SERVERS", "value": server.stdout.readline().split()[1]},
                {"name": "SUMMAND_CONNECT_TIMEOUT", "value": "3"}]


class RunsTest(MeetingTest):
    def start_copy(self, spec, name):
        """The very same spec in a directory of its own."""
        os.mkdir(self.path(name))
        with mock.patch.dict(os.environ, {"RUN": name}):
            return self.start_spec(shutil.copy(spec, self.path(name)), "--grace=1", "--success-policy=all-workers")

    def test_runs_of_one_spec(self):
        """Of each one rank comes: those two must not take each other for their own."""
        script = f"echo id $SUMMAND_JOB_ID; case $RUN$RANK in first1 | second0) exec sleep 1000 ;; esac; {RANK.format(100)}"
        rank = {**bash(script), "env": self.serve()}
        spec = self.write_spec([rank, rank], labels={"max-restarts": "0"})
        runs = [self.start_copy(spec, name) for name in ("first", "second")]
        ids = []
        for run, comes in zip(runs, ("workerpool0-0", "workerpool1-0")):
            self.assert_code(self.finish(run), 1)
            self.assertRegex(self.read(run, f"logs/{comes}.log"), ALONE)
            ids += [set(re.findall(r"^id (.*)$", self.read(run, f"logs/{name}.log"), re.MULTILINE))
                    for name in ("workerpool0-0", "workerpool1-0")]
        self.assertEqual((ids[0], ids[2]), (ids[1], ids[3]), "all replicas of a run have one id")
        ids = [*ids[0], *ids[2]]
        self.assertEqual([re.sub("-[0-9a-f]{10}$", "", name) for name in ids],
                         [self.read_json(run, "summary.json")["id"] for run in runs], "the spec's own id begins each")
        self.assertNotEqual(*ids)

    def test_an_attempt_keeps_the_id(self):
        """Programs may name files by it, of which the next attempt begins."""
        run = self.run_job([bash("echo $SUMMAND_JOB_ID of $SUMMAND_ATTEMPT; exit $((1 - SUMMAND_ATTEMPT))")], "--restart-policy=on-failure",
                           labels={"restart-backoff": "0"})
        self.assert_code(run, 0)
        self.assertRegex(self.read(run, "logs/workerpool0-0.log"), r"^(\S+) of 0\n\1 of 1\n$")


class LostHostTest(MeetingTest):
    """A host whose agent is stopped is lost to the runner, and its replica works on."""

    def setUp(self):
        super().setUp()
        self.made = self.make_hosts()
        self.made.make_star("one", "two", "three")

    @staticmethod
    def wake(pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def network_of(self, name):
        with open(self.path(name), encoding="ascii") as file:
            return os.readlink(f"/proc/{file.read()}/ns/net")

    def on_two(self, command):
        return [pid for pid in processes_with(self.mark)
                if os.path.basename(command_of(pid).split("\0")[0]) == command
                and os.readlink(f"/proc/{pid}/ns/net") == self.network_of("two")]

    def begin_twice(self, pools):
        """Rank 1 of the first attempt comes at last, and rank 0 of the second, whose own rank 1 does not."""
        run = self.start(pools, *self.made.flags("one", "two", "three"), "--grace=1", "--host-timeout=5", "--hybrid=off",
                         "--success-policy=all-workers", labels={"max-restarts": "1", "restart-backoff": "0"})
        self.wait_for_file(self.path("begun"))
        agents = self.on_two("summand-agent")
        self.assertTrue(agents)
        for pid in agents:
            os.kill(pid, signal.SIGSTOP)
            self.addCleanup(self.wake, pid)
        self.wait_for_file(self.path("again"))
        self.assertTrue(wait_until(lambda: self.on_two("summand-perf") or self.what_was_told(), 20), "rank 1 of the first attempt comes")
        self.assert_code(self.finish(run), 1)
        self.assertIn("was lost with its host: host two: nothing has come", run.out)
        return run

    def rank(self, env):
        script = f"""echo servers $SUMMAND_REDUCTION_SERVERS; case $SUMMAND_RESTARTS$RANK in
00 | 11) exec sleep 1000 ;;
01) touch {self.path("begun")}; until [ -e {self.path("again")} ]; do sleep 0.1; done; export SUMMAND_CONNECT_TIMEOUT=300; {RANK.format(10**8)} 2>{self.path("told")} ;;
10) touch {self.path("again")}; sleep 2; {RANK.format(100)} ;;
esac"""
        return {**bash(script), "env": env}

    def assert_alone(self, run):
        log = self.read(run, "logs/workerpool0-0.log")
        self.assertRegex(log, ALONE, run.out + self.read(run, "logs/workerpool1-0.log"))
        return re.findall(r"^servers (.*)$", log, re.MULTILINE)

    def what_was_told(self):
        if not os.path.exists(self.path("told")):
            return ""
        with open(self.path("told"), encoding="utf-8") as file:
            return file.read()

    def test_servers_of_others(self):
        with open(self.path("one"), encoding="ascii") as file:
            env = self.serve("nsenter", "--net", "--target", file.read(), listen="10.77.0.1")
        self.assert_alone(self.begin_twice([self.rank(env), self.rank(env)]))
        self.assertEqual(self.what_was_told(), "", "the first attempt's rank 1 waits for its own rank 0")

    def test_servers_of_the_job(self):
        """The second attempt's have the addresses of the first one's, and let its ranks in no more."""
        env = [{"name": "SUMMAND_CONNECT_TIMEOUT", "value": "3"}]
        servers = self.assert_alone(self.begin_twice([self.rank(env), self.rank(env), reduction_servers()]))
        self.assertEqual(servers[0], servers[1], "so nothing else keeps the attempts apart")
        self.assertIn("token", self.what_was_told())


if __name__ == "__main__":
    at_once.main()
