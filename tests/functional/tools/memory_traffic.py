"""tools/bench/memory_traffic.py against what can be computed: with hardly any cache, and with room for everything."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["SUMMAND_SOURCE"], "tools", "bench"))
import memory_traffic

CHUNK, QUEUE = 128 << 10, 64 << 10


class MemoryTrafficTest(unittest.TestCase):
    def traffic(self, ranks, window, cache, rdma):
        return memory_traffic.Server(ranks, CHUNK, window, cache, QUEUE).traffic(rdma)

    def test_without_a_cache(self):
        for ranks in (2, 4):
            cache = 4 * memory_traffic.BLOCK  # what is being copied stays, and no more
            self.assertAlmostEqual(self.traffic(ranks, 2, cache, rdma=False), 3 + 1 / ranks, delta=0.15)
            self.assertAlmostEqual(self.traffic(ranks, 2, cache, rdma=True), (3 + 1 / ranks) / 2, delta=0.15)

    def test_with_room_for_all_that_is_under_way(self):
        for ranks, window in ((2, 1), (4, 4)):
            needed = ranks * window * CHUNK + 2 * CHUNK
            self.assertEqual(self.traffic(ranks, window, needed + 2 * ranks * QUEUE, rdma=False), 0)
            self.assertEqual(self.traffic(ranks, window, needed, rdma=True), 0)

    def test_half_of_what_is_needed_is_too_little(self):
        self.assertGreater(self.traffic(4, 4, 4 * 4 * CHUNK // 2, rdma=True), 0.3)

    def test_a_worker(self):
        worker = memory_traffic.Worker(CHUNK, 2, 4 << 20, QUEUE)
        for path, moved in (("tcp", 1.5), ("narrow", 2.0), ("rdma", 1.0)):
            self.assertAlmostEqual(worker.traffic(path), moved, delta=0.15)

    def test_a_worker_that_is_a_hub_in_turns(self):
        room = 2 * 8 * memory_traffic.PIECE * 8   # inputs and sockets stay, and the tensor does not
        for ranks in (2, 4):
            moved = memory_traffic.Exchanger(ranks, 8, room, QUEUE).traffic("tcp")
            self.assertAlmostEqual(moved, 1.5, delta=0.15)
            none = memory_traffic.Exchanger(ranks, 8, 4 * memory_traffic.BLOCK, QUEUE).traffic("tcp")
            self.assertAlmostEqual(none, (13 * ranks - 9) / ranks / 2, delta=0.5)


if __name__ == "__main__":
    unittest.main()
