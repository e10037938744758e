"""Ranks and servers that are started one by one, as on several machines; and what is said when one of them ends."""

import signal
import time
import unittest

from programs import ProgramTest

FOR_LONG = ("--sizes=256K", "--iters=1000000")


class SeparateTest(ProgramTest):
    def start_long_run(self, nservers):
        """Three ranks that are in the middle of a run that would take an hour."""
        servers = [self.start_server() for _ in range(nservers)]
        addresses = [address for _, address in servers]
        ranks = [self.start_rank(rank, 3, addresses, *FOR_LONG) for rank in range(3)]
        self.assertIn("all-reduce of 3 ranks", ranks[0].stdout.readline())
        time.sleep(0.3)
        return servers, ranks

    def test_ranks_meet_at_the_servers(self):
        addresses = [self.start_server("--threads=2")[1], self.start_server("--threads=1", "--bandwidth=20gbps")[1]]
        ranks = [self.start_rank(rank, 3, addresses, "--sizes=4,1M", "--iters=3") for rank in (2, 0, 1)]
        self.assert_ended(ranks[1], 0, "# wrong elements: 0 OK")
        for rank in (ranks[0], ranks[2]):
            self.assertEqual(self.assert_ended(rank, 0), ("", ""))  # rank 0 speaks for all

    def test_ranks_that_do_not_send_float32_as_the_same(self):
        """Where that makes a difference they are told so; a few elements are sent as they are, and right."""
        for size in "512", "4K":
            address = self.start_server()[1]
            ranks = [self.start_rank(0, 3, [address], "--wire=bf16", f"--sizes={size}", "--iters=3")]
            ranks += [self.start_rank(rank, 3, [address], f"--sizes={size}", "--iters=3") for rank in (1, 2)]
            if size == "512":
                self.assert_ended(ranks[0], 0, "# wrong elements: 0 OK")
                continue
            for rank in ranks:
                out, err = self.assert_ended(rank, 1, "(one may have another SUMMAND_WIRE)")
                self.assertRegex(out + err, r"rank 0 \(rank-0\)( asks)? for all-reduce, bfloat16 sum of 1024")
                self.assertRegex(out + err, r"rank [12] \(rank-[12]\)( asks)? for all-reduce, float32 sum of 1024")

    def test_servers_from_the_environment(self):
        address = self.start_server()[1]
        for variables in [{"SUMMAND_REDUCTION_SERVERS": address},
                          {"CLUSTER_SPEC": '{"cluster": {"workerpool2": ["%s"]}, '
                                           '"task": {"type": "workerpool0", "index": 0}}' % address}]:
            done = self.run_program("summand-perf", "allreduce", "--group=g", "--nranks=1", "--rank=0", "--sizes=4K",
                                    "--iters=1", **variables)
            self.assertEqual(done.returncode, 0, done)

    def test_no_servers(self):
        done = self.run_program("summand-perf", "allreduce", "--group=g", "--nranks=1", "--rank=0")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("no reduction servers: set SUMMAND_REDUCTION_SERVERS=host:port,...", done.stderr)

    def test_all_lost_servers_are_named_by_every_rank(self):
        servers, ranks = self.start_long_run(2)
        servers[1][0].kill()
        time.sleep(0.5)
        self.assertEqual([rank.poll() for rank in ranks], [None] * 3)  # the other one goes on
        servers[0][0].kill()
        for rank in ranks:
            out, err = self.assert_ended(rank, 1)
            for _, address in servers:
                self.assertIn(f"reduction server {address} was lost: ", out + err)

    def test_servers_that_are_killed_at_once_are_all_named_by_every_rank(self):
        servers, ranks = self.start_long_run(3)
        for process, _ in servers:
            process.kill()
        for rank in ranks:
            out, err = self.assert_ended(rank, 1)
            for _, address in servers:
                self.assertIn(f"reduction server {address} was lost: ", out + err)

    def test_a_killed_rank_is_named_by_every_other(self):
        _, ranks = self.start_long_run(2)
        ranks[1].kill()
        for rank in (ranks[0], ranks[2]):
            self.assert_ended(rank, 1, "rank 1 (rank-1) was lost: ")

    def test_a_rank_that_does_not_come_is_named(self):
        address = self.start_server()[1]
        rank = self.start_rank(0, 2, [address], SUMMAND_CONNECT_TIMEOUT="2")
        self.assert_ended(rank, 1, "group test: all 2 ranks must join within 2 s, but group test: rank 1 of 2 not "
                                   "joined yet")

    def test_a_drained_server_does_not_wait_for_ever(self):
        server, address = self.start_server("--drain-timeout=1")
        ranks = [self.start_rank(rank, 2, [address], "--sizes=64K", "--iters=100000000") for rank in range(2)]
        self.assertIn("all-reduce of 2 ranks", ranks[0].stdout.readline())
        self.terminate(server)
        for rank in ranks:
            self.assert_ended(rank, 1, "group test: the reduction server was asked to end, and the group did not within "
                                       "1 s (--drain-timeout)")
        self.assert_ended(server, 0, "draining", "ended: ")

    def test_times_are_checked(self):
        for option in "--drain-timeout", "--forming-timeout", "--idle-timeout":
            for value in "0", "-1", "soon", "604801":
                done = self.run_program("summand-reduction-server", f"{option}={value}")
                self.assert_usage_error(done, f'{option}: must be 1 to 604800 seconds, got "{value}"')

    def test_a_group_that_does_not_become_complete_is_ended(self):
        _, address = self.start_server("--forming-timeout=1")
        rank = self.start_rank(0, 2, [address], SUMMAND_CONNECT_TIMEOUT="30")
        self.assert_ended(rank, 1, "group test: rank 1 of 2 not joined within 1 s")

    def test_a_drained_server_waits_for_its_communicators(self):
        server, address = self.start_server("--drain-timeout=600")
        ranks = [self.start_rank(rank, 2, [address], "--sizes=64K", "--iters=500") for rank in range(2)]
        self.assertIn("all-reduce of 2 ranks", ranks[0].stdout.readline())
        self.terminate(server)
        for rank in ranks:
            self.assert_ended(rank, 0)
        self.assert_ended(server, 0, "draining", "ended: ")

    def test_a_drained_server_takes_no_new_ranks(self):
        server, address = self.start_server()
        rank = self.start_rank(0, 1, [address], *FOR_LONG)
        self.assertIn("all-reduce of 1 ranks", rank.stdout.readline())
        self.terminate(server)
        time.sleep(0.2)
        late = self.start_rank(0, 1, [address], SUMMAND_CONNECT_TIMEOUT="1")
        self.assert_ended(late, 1, f"reduction server {address} could not be reached within 1 s: Connection refused")

    def test_a_second_sigterm_ends_a_server_at_once(self):
        servers, ranks = self.start_long_run(1)
        process, address = servers[0]
        self.terminate(process)
        self.wait_until_it_says(process, "Terminated: draining")  # two signals at once are one
        self.assertIsNone(process.poll())
        self.terminate(process)
        self.assert_ended(process, 0, "Terminated: ending at once")
        for rank in ranks:
            self.assert_ended(rank, 1, f"reduction server {address}: group test: the reduction server was stopped")

    def test_a_stopped_rank_is_late_and_then_goes_on(self):
        _, ranks = self.start_long_run(1)
        ranks[1].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        self.assertIsNone(ranks[0].poll())
        ranks[1].send_signal(signal.SIGCONT)
        time.sleep(0.2)
        self.assertEqual([rank.poll() for rank in ranks], [None] * 3)


unittest.main()
