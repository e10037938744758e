"""Reducers on the workers' hosts: where they run, with which shares, and what does not cross a worker's link."""

import json
import os
import re
import signal
import subprocess
import sys
import time

from job import BIN, LONG, SUMMAND, JobTest, at_once, bash, hosts, pool, processes_of, reduction_servers, wait_until

# Stands in for a reduction server: it notes its command line.
SERVE = 'echo "$*" >{folder}/$SUMMAND_REPLICA; echo ready >&$SUMMAND_NOTIFY_FD; exec sleep 1000'
MIB = 1 << 20
ITERATIONS = 8
VERDICT_S = 5   # in which ranks see that a trial of servers is lost


class HybridTest(JobTest):
    def setUp(self):
        super().setUp()
        self.made = self.make_hosts()
        self.work = bash('echo "$SUMMAND_REDUCTION_SERVERS"')

    def run_over(self, lines, pools, *flags, **options):
        """A job on hosts one, two and three, of which the first line's has the chief."""
        if not self.made.holders:
            self.made.make_star("one", "two", "three")
        return self.run_job(pools, *self.made.flags(*lines), "--grace=2", *flags, **options)

    def servers(self, count=1):
        return reduction_servers(count, SERVE.format(folder=self.dir))

    def words_of(self, index):
        """The address and the rest of its command line; None: it has never run."""
        path = self.path(f"workerpool2-{index}")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            words = file.read().split()
        os.remove(path)
        host = re.fullmatch(r"--listen=10.77.0.(\d):\d+", words[0])[1]
        return int(host), [word for word in words[1:] if not word.startswith("--token-file=")]

    def test_fewer_servers_than_workers_hosts(self):
        """Each worker's host has a reducer, with (n-k)/(2(n-1)) of a server's share, and ranks know of all."""
        run = self.run_over(["one", "two", "three"], [self.work, self.work, self.servers()])
        self.assert_code(run, 0)
        self.assertEqual(self.words_of(0), (3, ["--bandwidth=10000mbps"]))
        self.assertEqual(self.words_of(1), (1, ["--bandwidth=10000mbps", "--share=1/2"]))
        self.assertEqual(self.words_of(2), (2, ["--bandwidth=10000mbps", "--share=1/2"]))
        known = self.read(run, "logs/workerpool0-0.log").strip().split(",")
        self.assertEqual([address.partition(":")[0] for address in known], ["10.77.0.3", "10.77.0.1", "10.77.0.2"])
        self.assertIn("1 reduction server for 2 workers' hosts: a reducer on each of these, with 1/2 of a server's share", run.out)
        replicas = {each["name"]: each["role"] for each in self.read_json(run, "state.json")["replicas"]}
        self.assertEqual(replicas["workerpool2-2"], "reduction server")
        for index in range(3):
            self.assertTrue(os.path.exists(os.path.join(run.job_dir, f"logs/workerpool2-{index}.log")))

    def test_not_wanted(self):
        """By the job, or because servers are enough, or because a server's link is a worker's too."""
        run = self.run_over(["one", "two", "three"], [self.work, self.work, self.servers()], "--hybrid=off")
        self.assert_code(run, 0)
        self.assertEqual([self.words_of(index) is not None for index in range(2)], [True, False])
        self.assert_code(self.run_over(["one", "two", "three"], [self.work, {}, self.servers(2)]), 0)
        self.assertEqual([self.words_of(index) is not None for index in range(3)], [True, True, False])
        self.assert_code(self.run_over(["one", "two slots=2"], [self.work, self.work, self.servers()]), 0)
        self.assertEqual([self.words_of(index) is not None for index in range(2)], [True, False])
        run = self.run_over(["one", "two slots=2"], [self.work, self.work, self.servers()], "--hybrid=on")
        self.assert_code(run, 1)
        self.assertIn("summand-hybrid: on: reduction servers must have hosts without workers, got host two with both", run.err)

    def test_more_than_a_rank_can_use(self):
        """By default ranks get the servers alone, and say no more."""
        lines, pools = ["one", "two", "three slots=63"], [self.work, self.work, self.servers(63)]
        run = self.run_over(lines, pools)
        self.assert_code(run, 0)
        self.assertIn("63 reduction servers for 2 workers' hosts: no reducers on these, since a rank can use 64 servers at most; have more", run.out)
        self.assertEqual(len(self.read(run, "logs/workerpool0-0.log").split(",")), 63)
        run = self.run_over(lines, pools, "--hybrid=on")
        self.assert_code(run, 1)
        self.assertIn("summand-hybrid: on: reduction servers and reducers on the workers' hosts must be at most 64 together, "
                      "as many as a rank can use, got 63 and 2", run.err)

    def make_star_with_fast_server(self, *workers):
        """One more host has a server alone, and its interface reports ten times what the others do, though all are alike."""
        self.made.make_star(*workers, "server")
        for name in workers:
            self.made.report(name, "eth1", 1000)

    def test_servers_are_enough_by_their_interfaces(self):
        """And too few if all links are equal: reducers have the share of that case, and are spare. What NCCL is told is of the servers."""
        self.make_star_with_fast_server("one", "two")
        work = bash('echo "$SUMMAND_REDUCTION_SERVERS $SUMMAND_NCCL_SERVER_LINKS"')
        for flag in "auto", "on":
            run = self.run_over(["one", "two", "server"], [work, work, self.servers()], f"--hybrid={flag}")
            self.assert_code(run, 0)
            self.assertEqual(self.words_of(0), (3, ["--bandwidth=10000mbps"]))
            self.assertEqual(self.words_of(1), (1, ["--bandwidth=10000mbps", "--share=1/2", "--spare"]))
            self.assertEqual(self.words_of(2), (2, ["--bandwidth=10000mbps", "--share=1/2", "--spare"]))
            known, links = self.read(run, "logs/workerpool0-0.log").split()
            self.assertEqual([address.partition(":")[0] for address in known.split(",")], ["10.77.0.3", "10.77.0.1", "10.77.0.2"])
            self.assertEqual(links, "10000/1000")
            self.assertIn("1 reduction server for 2 workers' hosts, enough by what interfaces report: a spare reducer on each of these, "
                          "used where operations gain by it", run.out)
            self.assertEqual(self.read_json(run, "state.json")["reductionServers"]["reducerCount"], 2)
        self.assert_code(self.run_over(["one", "two", "server"], [work, work, self.servers()], "--hybrid=off"), 0)
        self.assertEqual([self.words_of(index) is not None for index in range(2)], [True, False])

    def test_more_than_a_rank_can_use_with_spare_ones(self):
        """By default nobody hears of it: interfaces say that nothing is missed."""
        self.make_star_with_fast_server("one", "two")
        lines, pools = ["one", "two", "server slots=63"], [self.work, self.work, self.servers(63)]
        run = self.run_over(lines, pools)
        self.assert_code(run, 0)
        self.assertNotIn("reducer", run.out)
        self.assertEqual(len(self.read(run, "logs/workerpool0-0.log").split(",")), 63)
        run = self.run_over(lines, pools, "--hybrid=on")
        self.assert_code(run, 1)
        self.assertIn("must be at most 64 together, as many as a rank can use, got 63 and 2", run.err)

    def test_no_servers_at_all(self):
        """Only where it is asked for, by the label or by a pool of none; the reducers are real ones then, and results are right."""
        perf = pool([os.path.abspath(f"{BIN}/summand-perf"), "allreduce", "--group=test", "--rank=$(RANK)", "--nranks=$(WORLD_SIZE)", "--sizes=1M",
                     "--iters=3", "--json"])
        run = self.run_over(["one", "two"], [perf, perf], "--hybrid=on", labels={"success-policy": "all-workers"})
        self.assert_code(run, 0)
        self.assertEqual(json.loads(self.read(run, "logs/workerpool0-0.log"))["results"][0]["wrong"], 0)
        self.assertIn("0 reduction servers for 2 workers' hosts: a reducer on each of these, of equal shares", run.out)
        self.assertIn("ended: ", self.read(run, "logs/workerpool2-1.log"))
        run = self.run_over(["one", "two"], [self.work, self.work])
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "\n")
        self.assert_code(self.run_over(["one", "two"], [self.work, self.work, self.servers(0)]), 0)
        self.assertEqual([self.words_of(index)[0] for index in range(2)], [1, 2])
        run = self.run_over(["one", "two"], [self.work, self.work, self.servers(0)], "--hybrid=off")
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "\n")

    def test_a_single_machine_has_one_where_asked(self):
        for pools, flags in (([], ["--hybrid=on"]), ([self.servers(0)], [])):
            run = self.run_job([bash('echo "$SUMMAND_REDUCTION_SERVERS"', 1), self.work, *pools], *flags)
            self.assert_code(run, 0)
            self.assertRegex(self.read(run, "logs/workerpool0-0.log"), r"^127.0.0.1:\d+\n$")

    def test_the_hosts_own_part_does_not_cross_its_link(self):
        """With two workers and a server the reducers have a quarter each: of 1 MiB three quarters cross a worker's link, and
        the other's quarter, which is 1 MiB in all, each way. The own quarter is in memory that rank and reducer share, and crosses nothing."""
        count = "cat /sys/class/net/{}/statistics/tx_bytes"
        perf = f"{os.path.abspath(BIN)}/summand-perf allreduce --group=test --rank=$RANK --nranks=$WORLD_SIZE --sizes=1M --iters={ITERATIONS} --warmup=0 " \
               f"--json >/dev/null"
        worker = bash(f"{count.format('eth1')}; {count.format('lo')}; {perf} || exit; {count.format('eth1')}; {count.format('lo')}")
        run = self.run_over(["one", "two", "three"], [worker, worker, reduction_servers(1)], labels={"success-policy": "all-workers"})
        self.assert_code(run, 0)
        for name in "workerpool0-0", "workerpool1-0":
            link, own, link_then, own_then = map(int, self.read(run, f"logs/{name}.log").split())
            sent, local = (link_then - link) / MIB / ITERATIONS, (own_then - own) / MIB / ITERATIONS
            self.assertTrue(1.0 <= sent < 1.2, f"{name}: {sent} MiB for each operation")
            self.assertLess(local, 0.01, f"{name}: MiB for each operation on loopback")

    def wait_until_running(self, run):
        log = os.path.join(run.job_dir, "logs/job.log")
        self.assertTrue(wait_until(lambda: os.path.exists(log) and "Job is running." in self.read(run, "logs/job.log"), 30))

    def scale(self, run, replicas):
        name = self.read_json(run, "state.json")["name"]
        scaled = subprocess.run([SUMMAND, "custom-jobs", "scale", name, f"--replicas={replicas}"], capture_output=True, text=True, check=False,
                                timeout=LONG)
        self.assertEqual(scaled.returncode, 0, scaled.stderr)
        self.assertIn(f"has {replicas} reduction server{'s' if replicas != 1 else ''} now", scaled.stderr)

    def test_more_servers_and_fewer_than_in_the_job_file(self):
        """Those that are added have a whole share, and the reducers keep theirs, and stay. The next attempt's ranks are told of those that there
        are then, and find in their file of servers first these, and then the one that comes back."""
        self.made.make_star("one", "two", "three", "four")
        goes = [self.path("goes.0"), self.path("goes.1")]
        script = f"echo $SUMMAND_REDUCTION_SERVERS; until [ -e {self.path('goes')}.$SUMMAND_RESTARTS ]; do sleep 0.05; done; " \
                 "tail -n 1 $SUMMAND_SERVERS_FILE; [ $SUMMAND_RESTARTS = 1 ] || exit 3"
        run = self.start([bash(script), bash(script), self.servers()], *self.made.flags("one", "two", "three", "four"), "--grace=2",
                         labels={"restart-policy": "on-failure", "restart-backoff": "0"})
        self.wait_until_running(run)
        self.assertEqual([self.words_of(index)[0] for index in range(3)], [3, 1, 2])
        for count in 2, 1, 0:
            self.scale(run, count)
        self.assertEqual(self.words_of(3), (4, ["--bandwidth=10000mbps"]))
        open(goes[0], "w", encoding="ascii").close()
        self.assertTrue(wait_until(lambda: self.read(run, "logs/job.log").count("Job is running.") == 2, 30))
        self.assertEqual(self.words_of(2), (2, ["--bandwidth=10000mbps", "--share=1/2"]))
        self.assertEqual([self.words_of(index) for index in (0, 3)], [None, None])
        self.scale(run, 1)
        self.assertTrue(wait_until(lambda: "workerpool2-0 serves: ranks take it in" in self.read(run, "logs/job.log"), 30))
        self.assertEqual(self.words_of(0), (3, ["--bandwidth=10000mbps"]))
        open(goes[1], "w", encoding="ascii").close()
        self.assert_code(self.finish(run), 0)
        lines = [line.split(",") for line in self.read(run, "logs/workerpool0-0.log").split()]
        first, ever, told, then = ([address.split(":")[0][-1] for address in line] for line in lines)
        self.assertEqual((first, ever, told, then), (["3", "1", "2"], ["3", "1", "2", "4"], ["1", "2"], ["1", "2", "3", "4"]))

    def test_fewer_and_more_servers_under_real_ranks(self):
        """Of two servers beside reducers one leaves, and both, and both come back: no operation fails, and every result is right."""
        self.made.make_star("one", "two", "three", "four", "five")
        run = self.start([*self.paced(), reduction_servers(2)], *self.made.flags("one", "two", "three", "four", "five"), "--grace=5",
                         labels={"success-policy": "all-workers"})
        self.wait_for_log(run, "workerpool0-0", "3 ranks, 5 shards")
        for count, said in ((1, "with 4 shards of servers that stay"), (0, "with 3 shards of servers that stay")):
            self.scale(run, count)
            self.wait_for_log(run, "workerpool0-0", said)
        self.scale(run, 2)
        for rank in "workerpool0-0", "workerpool1-0", "workerpool1-1":
            self.wait_for_log(run, rank, "5 of 5 reduction servers go on")
        self.end_well(run)
        self.assertNotIn("training goes on with", self.read(run, "logs/job.log"), "whoever is asked to end is not lost")

    def test_another_attempt_has_them_too(self):
        """On the same hosts, with the same shares; a reducer that is lost comes back at its address."""
        fail = bash("[ $SUMMAND_RESTARTS = 1 ] || exit 3")
        run = self.run_over(["one", "two", "three"], [fail, bash("sleep 1000"), self.servers()],
                            labels={"restart-policy": "on-failure", "restart-backoff": "0"})
        self.assert_code(run, 0)
        self.assertEqual(self.words_of(2), (2, ["--bandwidth=10000mbps", "--share=1/2"]))
        state = self.read_json(run, "state.json")
        self.assertEqual([each["name"] for each in state["replicas"]],
                         ["workerpool0-0", "workerpool1-0", "workerpool2-0", "workerpool2-1", "workerpool2-2"])

    def test_a_host_is_lost(self):
        """The next attempt begins on all hosts anew, and its reducers, too."""
        first = "[ $SUMMAND_RESTARTS = 1 ] || [ $RANK = 0 ] && sleep 1; [ $SUMMAND_RESTARTS = 1 ] && exit 0; " \
                "[ $RANK = 0 ] && sleep 1000; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 1000"
        run = self.run_over(["one", "two", "three"], [bash(first), bash(first), self.servers()], "--hybrid=auto",
                            labels={"restart-backoff": "0"})
        self.assert_code(run, 0)
        self.assertIn("was lost with its host: host two", run.out)
        self.assertEqual(run.out.count("a reducer on each of these, with 1/2 of a server's share"), 2)
        self.assertEqual(self.words_of(2), (2, ["--bandwidth=10000mbps", "--share=1/2"]))
        self.assertEqual(len(self.read_json(run, "state.json")["replicas"]), 5)

    def test_a_lost_reducer_comes_back(self):
        """As a server does, at its address, and the job goes on."""
        self.made.make_star("one", "two", "three")
        done = self.path("done")
        work = bash(f"until [ -e {done} ]; do sleep 0.05; done")
        script = 'at={0}/$SUMMAND_REPLICA.$SUMMAND_RESTARTS; echo "$$ $*" >$at.new; mv $at.new $at; ' \
                 'echo ready >&$SUMMAND_NOTIFY_FD; exec sleep 1000'.format(self.dir)
        run = self.start([work, work, reduction_servers(1, script)], *self.made.flags("one", "two", "three"), "--grace=2")
        log = os.path.join(run.job_dir, "logs/job.log")
        self.assertTrue(wait_until(lambda: os.path.exists(log) and "Job is running." in self.read(run, "logs/job.log"), 30))
        words = []
        for attempt in range(2):
            self.wait_for_file(self.path(f"workerpool2-2.{attempt}"))
            with open(self.path(f"workerpool2-2.{attempt}"), encoding="utf-8") as file:
                pid, text = file.read().split(" ", 1)
            words.append(text)
            if attempt == 0:
                os.kill(int(pid), signal.SIGKILL)
        self.assertEqual(words[0], words[1])
        self.assertIn("training goes on with the other 2 of 3", self.read(run, "logs/job.log"))
        open(done, "w", encoding="ascii").close()
        self.assert_code(self.finish(run), 0)

    def kill(self, replica):
        pid, = processes_of(replica, "summand-reduction-server", self.mark)
        os.kill(pid, signal.SIGKILL)

    def wait_for_log(self, run, replica, text, count=1):
        log = f"logs/{replica}.log"
        self.assertTrue(wait_until(lambda: os.path.exists(os.path.join(run.job_dir, log)) and self.read(run, log).count(text) >= count, 60),
                        f"{replica} must say {count} times: {text}")

    def paced(self):
        """Three ranks, which work until end_well()."""
        words = ["python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "paced_rank.py"),
                 os.path.abspath(f"{BIN}/../lib/libsummand.so"), "3", self.path("done")]
        pools = [pool(words, count) for count in (1, 2)]
        for each in pools:
            each["env"] = [{"name": "SUMMAND_LOG", "value": "info"}]
        return pools

    def end_well(self, run):
        open(self.path("done"), "w", encoding="ascii").close()
        self.assert_code(self.finish(run), 0)
        for rank in "workerpool0-0", "workerpool1-0", "workerpool1-1":
            self.assertIn("operations, all right", self.read(run, f"logs/{rank}.log"))

    def test_reducers_and_the_server_are_killed_under_real_ranks(self):
        """A host's reducer, then the server, then another host's reducer: ranks go on with the others, every result of every operation is
        right, and each is taken in again when the runner has started it again, a reducer with its share."""
        self.made.make_star("one", "two", "three", "four")
        run = self.start([*self.paced(), reduction_servers(1)], *self.made.flags("one", "two", "three", "four"), "--grace=5", "--hybrid=auto",
                         labels={"success-policy": "all-workers"})
        self.wait_for_log(run, "workerpool0-0", "3 ranks, 4 shards")
        for times, replica in enumerate(("workerpool2-2", "workerpool2-0", "workerpool2-1"), 1):
            self.kill(replica)
            for rank in "workerpool0-0", "workerpool1-0", "workerpool1-1":
                self.wait_for_log(run, rank, "3 of 4 reduction servers go on", times)
                self.wait_for_log(run, rank, "of servers that are there again too", times)
        self.end_well(run)
        log = self.read(run, "logs/job.log")
        for replica in "workerpool2-0", "workerpool2-1", "workerpool2-2":
            self.assertIn(f"{replica} was killed by signal 9 (Killed): training goes on with the other 3 of 4", log)

    def start_with_spare_reducers(self, rate=None):
        """Three real ranks, a server, whose link has that rate, and three spare reducers; the ranks have reached all."""
        self.make_star_with_fast_server("one", "two", "three")
        if rate:
            self.made.limit("server", "eth1", rate)
        run = self.start([*self.paced(), reduction_servers(1)], *self.made.flags("one", "two", "three", "server"), "--grace=5",
                         labels={"success-policy": "all-workers"})
        self.wait_for_log(run, "workerpool0-0", "3 ranks, 4 shards")
        return run

    def test_the_server_is_killed_beside_spare_reducers(self):
        """These serve then, every result is right, and the server is taken in again when it is back."""
        run = self.start_with_spare_reducers()
        self.kill("workerpool2-0")
        for rank in "workerpool0-0", "workerpool1-0", "workerpool1-1":
            self.wait_for_log(run, rank, "3 of 4 reduction servers go on")
            self.wait_for_log(run, rank, "of servers that are there again too")
        self.end_well(run)
        log = self.read(run, "logs/job.log")
        self.assertIn("workerpool2-0 was killed by signal 9 (Killed): training goes on with the other 3 of 4", log)
        self.assertIn("a spare reducer on each of these", log)

    def test_spare_reducers_are_used_where_the_server_is_slow(self):
        """Its interface reports 10 Gbit/s, and its link carries 20 Mbit/s: reducers are tried, and stay."""
        run = self.start_with_spare_reducers("20mbit")
        self.wait_for_log(run, "workerpool0-0", "is tried with a share", 3)
        time.sleep(VERDICT_S)
        self.end_well(run)
        shares = re.findall(r"servers' shares, %: ([\d. ]+);", self.read(run, "logs/workerpool0-0.log"))
        self.assertEqual(shares[0].split()[1:], ["0.0"] * 3)
        self.assertNotEqual(shares[-1].split()[1:], ["0.0"] * 3)

    def test_no_server_is_left_beside_spare_reducers(self):
        """Scaled down to none, and up again."""
        run = self.start_with_spare_reducers()
        self.scale(run, 0)
        self.wait_for_log(run, "workerpool0-0", "with 3 shards of servers that stay")
        self.scale(run, 1)
        for rank in "workerpool0-0", "workerpool1-0", "workerpool1-1":
            self.wait_for_log(run, rank, "4 of 4 reduction servers go on")
        self.end_well(run)

    def test_parameter_servers_are_in_the_way(self):
        run = self.run_job([self.work, self.work, pool(["true"])], "--hybrid=on")
        self.assert_code(run, 2)
        self.assertIn("must be without parameter servers in worker pool 2, got on", run.err)


if __name__ == "__main__":
    if not hosts.can_be_made():
        print("skipped: no network namespaces can be made here")
        sys.exit(77)
    at_once.main()
