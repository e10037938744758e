"""Jobs over hosts that have several network cards each: by default gradients go by all that are as fast."""

import json
import sys

from job import BIN, JobTest, at_once, bash, hosts, reduction_servers

MIB = 1 << 20
TIMES = 20
# By the server: two ranks of one host may be as fast among themselves.
WORK = f"SUMMAND_EXCHANGE=off {BIN}/summand-perf allreduce --group=g --nranks=2 --rank=$RANK --sizes=4M --iters={TIMES} --warmup=0"
SAY = 'echo "$SUMMAND_REDUCTION_SERVERS $CLUSTER_SPEC"; echo "$NCCL_SOCKET_IFNAME $SUMMAND_NCCL_IFNAME $SUMMAND_NCCL_SERVER_LINKS"; '
SERVER = 'echo "ARGS $*"; echo "ready x" >&3; exec sleep 1000'


class RailsTest(JobTest):
    def setUp(self):
        super().setUp()
        self.made = self.make_hosts()
        self.made.make_pair()   # 10.77.0, eth1 and net5
        self.made.link_pair(2)

    def run_over(self, pools, *flags):
        """Its ranks are on one, its reduction server on two."""
        run = self.run_job(pools, *self.made.flags("one slots=2", "two"), *flags)
        self.assert_code(run, 0)
        return run

    def sent(self):
        """By host one, by each of its cards."""
        shown = json.loads(self.made.inside("one", "ip", "-s", "-j", "link"))
        return {link["ifname"]: link["stats64"]["tx"]["bytes"] for link in shown}

    def told(self, *flags):
        """What a rank is told, and the server's words."""
        run = self.run_over([bash(SAY), bash("true"), reduction_servers(1, SERVER)], *flags)
        servers, names = self.read(run, "logs/workerpool0-0.log").splitlines()
        servers, cluster = servers.split(" ", 1)
        port = servers.rpartition(":")[2]
        words = next(line for line in self.read(run, "logs/workerpool2-0.log").splitlines() if line.startswith("ARGS "))
        self.assertEqual(json.loads(cluster)["cluster"]["workerpool2"], [servers.partition("+")[0]])
        self.assertIn(f"--listen={servers} ", words)
        return servers.replace(f":{port}", ""), names, words

    def test_all_carry_gradients(self):
        before = self.sent()
        run = self.run_over([bash(WORK), bash(WORK), reduction_servers()])
        self.assertIn("# wrong elements: 0 OK", self.read(run, "logs/workerpool0-0.log"))
        carried = {name: count - before[name] for name, count in self.sent().items()}
        both = 2 * 4 * MIB * TIMES
        self.assertGreater(carried["eth1"], both / 4, carried)
        self.assertGreater(carried["eth2"], both / 4, carried)

    def test_what_processes_are_told(self):
        """Other programs meet at the first card alone; what the server carries is the sum."""
        servers, names, words = self.told()
        self.assertEqual(servers, "10.77.0.2+10.77.2.2")
        self.assertEqual(names, "eth1 =eth1,eth2 20000/20000")
        self.assertIn(" --bandwidth=20000mbps", words)

    def test_one_is_chosen(self):
        servers, names, words = self.told("--interface=10.77.2.0/24")
        self.assertEqual(servers, "10.77.2.2")
        self.assertEqual(names, "eth2  10000/10000")
        self.assertIn(" --bandwidth=10000mbps", words)

    def test_several_are_chosen(self):
        self.assertEqual(self.told("--interface=10.77.2.0/24,10.77.0.0/24")[0], "10.77.2.2+10.77.0.2")

    def test_two_networks_of_one_card(self):
        """A bridge says the speed of its card, as a VLAN does, and shares its link."""
        for name, card, host in ("one", "eth2", 1), ("two", "net2", 2):
            self.made.inside(name, "ip", "link", "add", "storage", "type", "bridge")
            self.made.inside(name, "ip", "link", "set", card, "master", "storage")
            self.made.inside(name, "ip", "address", "add", f"10.77.20.{host}/24", "dev", "storage")
            self.made.inside(name, "ip", "link", "set", "storage", "up")
        self.assertEqual(self.told()[0], "10.77.0.2+10.77.2.2")

    def test_a_pool_that_chooses_its_cards(self):
        work = {**bash('echo "($SUMMAND_NCCL_IFNAME)"'), "env": [{"name": "NCCL_IB_HCA", "value": "mlx5_0"}]}
        run = self.run_over([work, bash("true"), reduction_servers(1, SERVER)])
        self.assertEqual(self.read(run, "logs/workerpool0-0.log"), "()\n")

    def test_a_slower_card_is_left_alone(self):
        """As one of management is."""
        self.made.report("one", "eth2", 1000)
        self.assertEqual(self.told()[0], "10.77.0.2")

    def test_a_firewall_between_cards(self):
        """What goes by the second card is dropped without a word: a lane goes by the other one soon."""
        self.made.inside("two", "ip", "route", "change", "blackhole", "10.77.2.0/24")
        run = self.run_over([bash(WORK), bash(WORK), reduction_servers()])
        self.assertIn("# wrong elements: 0 OK", self.read(run, "logs/workerpool0-0.log"))


if __name__ == "__main__":
    if not hosts.can_be_made():
        print("skipped: no network namespaces can be made here")
        sys.exit(77)
    at_once.main()
