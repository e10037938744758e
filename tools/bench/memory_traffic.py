#!/usr/bin/env python3
"""How much a reduction server's memory moves for each byte that its link does, by a simulated last-level cache.

    tools/bench/memory_traffic.py [--ranks=8] [--cache=32M] [--queue=256K]

Prints a table over the size of chunks and the window, for TCP and RDMA, a line of a worker whose tensors are not in the
cache, path by path, and one of such a worker whose operations go from rank to rank (specs/design/fast-networks.md). The
cache is whole, keeps what was used last, and takes what the network card writes.
"""

import collections
import sys

BLOCK = 4096
UNITS = {"K": 1 << 10, "M": 1 << 20}
CHUNKS = [64 << 10, 128 << 10, 256 << 10, 512 << 10]
WINDOWS = [1, 2, 4, 8]
WORKER_PATHS = ["tcp", "narrow", "rdma"]
PIECE = 256 << 10          # of an exchange (worker/libsummand/exchange_piece.h)
ROUNDS = 3     # through all slots before it counts, and as many that count


def size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


class Cache:
    """Blocks by when they were used, and whether memory has another copy."""

    def __init__(self, bytes_):
        self.most = bytes_ // BLOCK
        self.blocks = collections.OrderedDict()
        self.moved = 0     # blocks between memory and cache, or card

    def use(self, block, dirty):
        self.blocks[block] = dirty or self.blocks.pop(block, False)
        if len(self.blocks) > self.most:
            self.moved += self.blocks.popitem(last=False)[1]

    def read(self, block):
        self.moved += block not in self.blocks
        self.use(block, False)

    def write(self, block):
        """A processor's: a line is read before it is written."""
        self.moved += block not in self.blocks
        self.use(block, True)

    def card_writes(self, block):
        self.use(block, True)

    def card_reads(self, block):
        self.moved += block not in self.blocks


class Server:
    """One shard with one communicator. Buffers are taken as reduction_server/engine/buffer_pool.c does it: the last one given
    back is the next one taken."""

    def __init__(self, ranks, chunk, window, cache, queue):
        self.ranks, self.window, self.cache = ranks, window, Cache(cache)
        self.blocks = chunk // BLOCK
        self.queue = queue // BLOCK
        self.at = collections.Counter()
        self.free = list(range(2 * window * (ranks + 1)))
        self.parts = {}

    def socket_block(self, way, rank):
        self.at[way, rank] += 1
        return way, rank, self.at[way, rank] % self.queue

    def part_comes(self, rdma, ordinal, rank, block):
        if (ordinal, rank) not in self.parts:
            self.parts[ordinal, rank] = self.free.pop()
        part = self.parts[ordinal, rank], block
        if rdma:
            self.cache.card_writes(part)
            return
        socket = self.socket_block("in", rank)
        self.cache.card_writes(socket)
        self.cache.read(socket)
        self.cache.write(part)

    def reduce(self, ordinal):
        """In place of the first rank's part."""
        parts = [self.parts.pop((ordinal, rank)) for rank in range(self.ranks)]
        for block in range(self.blocks):
            for part in parts:
                self.cache.read((part, block))
            self.cache.write((parts[0], block))
        self.free += parts[1:]
        return parts[0]

    def result_leaves(self, rdma, result, rank, block):
        if rdma:
            self.cache.card_reads((result, block))
            return
        socket = self.socket_block("out", rank)
        self.cache.read((result, block))
        self.cache.write(socket)
        self.cache.card_reads(socket)

    def turn(self, rdma, ordinal):
        """All ranks send a chunk, the last of them one of a window before; what that completes is reduced and leaves."""
        done = max(0, ordinal - (self.window - 1))
        late = ordinal >= self.window - 1
        for block in range(self.blocks):
            for rank in range(self.ranks):
                if rank < self.ranks - 1 or late:
                    self.part_comes(rdma, ordinal if rank < self.ranks - 1 else done, rank, block)
        if not late:
            return
        result = self.reduce(done)
        for block in range(self.blocks):
            for rank in range(self.ranks):
                self.result_leaves(rdma, result, rank, block)
        self.free.append(result)

    def traffic(self, rdma):
        """Bytes of memory for each byte in or out."""
        turns = ROUNDS * 2 * self.window
        for ordinal in range(2 * turns):
            if ordinal == turns:
                self.cache.moved = 0
            self.turn(rdma, ordinal)
        return self.cache.moved / (turns * 2 * self.ranks * self.blocks)


class Worker:
    """A rank that all-reduces a tensor of four bytes an element in the processor's memory, out of place, chunk by chunk, of which `window` are
    under way; the next operation uses the same memory."""

    def __init__(self, chunk, window, cache, queue):
        self.cache = Cache(cache)
        self.blocks, self.window, self.queue = chunk // BLOCK, window, queue // BLOCK
        self.chunks = 4 * self.cache.most // self.blocks   # a tensor that the cache does not hold
        self.at = collections.Counter()

    def socket_block(self, way):
        self.at[way] += 1
        return way, self.at[way] % self.queue

    def through_socket(self, block, out):
        """What the processor copies into a socket, or out of it."""
        socket = self.socket_block("out" if out else "in")
        if out:
            self.cache.read(block)
            self.cache.write(socket)
            self.cache.card_reads(socket)
        else:
            self.cache.card_writes(socket)
            self.cache.read(socket)
            self.cache.write(block)

    def leaves(self, path, chunk, block):
        if path == "rdma":
            self.cache.card_reads(("send", chunk, block))
        elif path == "narrow":     # half a block of the result's memory, of a block of the input
            self.cache.read(("send", chunk, block))
            half = "recv", (chunk * self.blocks + block) // 2
            self.cache.write(half)
            if block % 2:
                self.through_socket(half, True)
        else:
            self.through_socket(("send", chunk, block), True)

    def comes(self, path, chunk, block):
        place = "recv", chunk * self.blocks + block
        if path == "rdma":
            self.cache.card_writes(place)
        elif path == "narrow":
            if block % 2:
                self.through_socket(("recv", (chunk * self.blocks + block) // 2), False)
        else:
            self.through_socket(place, False)

    def widen(self):
        """From the end, what lies in the first half of the result's memory."""
        for block in reversed(range(self.chunks * self.blocks)):
            self.cache.read(("recv", block // 2))
            self.cache.write(("recv", block))

    def operation(self, path):
        for chunk in range(self.chunks + self.window):
            for block in range(self.blocks):
                if chunk < self.chunks:
                    self.leaves(path, chunk, block)
                if chunk >= self.window:
                    self.comes(path, chunk - self.window, block)
        if path == "narrow":
            self.widen()

    def traffic(self, path):
        """Bytes of memory for each byte of the tensor, out and in."""
        self.operation(path)
        self.cache.moved = 0
        self.operation(path)
        return self.cache.moved / (2 * self.chunks * self.blocks)


class Exchanger(Worker):
    """A rank that all-reduces such a tensor with others, piece by piece: it is the hub of every n-th (worker/libsummand/exchange.c). What
    it keeps of inputs it uses again and again, as many pieces as are under way."""

    def __init__(self, ranks, under_way, cache, queue):
        super().__init__(PIECE, under_way, cache, queue)
        self.ranks = ranks
        self.chunks = max(self.chunks, 2 * under_way) // ranks * ranks

    def socket_block(self, way):
        """There are lanes to all others, and bytes take turns."""
        self.at[way] += 1
        return way, self.at[way] % (self.queue * (self.ranks - 1))

    def hub_sums(self, piece):
        others, kept = range(1, self.ranks), piece % self.window
        for other in others:
            for block in range(self.blocks):
                self.through_socket(("input", kept, other, block), False)
        for block in range(self.blocks):
            for other in others:
                self.cache.read(("input", kept, other, block))
            self.cache.read(("send", piece, block))
            self.cache.write(("input", kept, 1, block))
            self.cache.write(("recv", piece * self.blocks + block))
        for _ in others:
            for block in range(self.blocks):
                self.through_socket(("recv", piece * self.blocks + block), True)

    def operation(self, path):
        for piece in range(self.chunks):
            if piece % self.ranks == 0:
                self.hub_sums(piece)
                continue
            for block in range(self.blocks):
                self.leaves(path, piece, block)
            for block in range(self.blocks):
                self.comes(path, piece, block)


def main():
    options = {"ranks": "8", "cache": "32M", "queue": "256K"}
    for word in sys.argv[1:]:
        name, equals, value = word.removeprefix("--").partition("=")
        if name not in options or not equals or not word.startswith("--"):
            print(__doc__, file=sys.stdout if word == "--help" else sys.stderr)
            return 0 if word == "--help" else 2
        options[name] = value
    ranks, cache, queue = int(options["ranks"]), size(options["cache"]), size(options["queue"])
    print("chunk     " + "".join(f"  window {window}: TCP RDMA" for window in WINDOWS))
    for chunk in CHUNKS:
        cells = [[Server(ranks, chunk, window, cache, queue).traffic(rdma) for rdma in (False, True)] for window in WINDOWS]
        print(f"{chunk >> 10:4} KiB  " + "".join(f"       {tcp:7.2f} {rdma:5.2f}" for tcp, rdma in cells), flush=True)
    print("worker    " + "".join(f"{path:>8}" for path in WORKER_PATHS))
    print("          " + "".join(f"{Worker(512 << 10, 2, cache, queue).traffic(path):8.2f}" for path in WORKER_PATHS))
    print("rank to rank, 8 pieces under way" + "".join(
        f"   {ranks} ranks {Exchanger(ranks, 8, cache, queue).traffic('tcp'):.2f}" for ranks in (2, 4, 8)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
