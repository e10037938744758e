/* The connections of a block, in NCCL's three protocols. Simple counts steps in head and tail
 * beside a buffer; LL has a flag beside each 4 bytes, and LL128 one at the end of each line of 128.
 */
#include "primitives.h"

#include "collectives.h" /* NCCL's */

#include <algorithm>
#include <cstring>
#include <thread>

/* Lines of LL128: 120 bytes of data and the flag. A warp writes 16 of them, whole, at a time. */
constexpr size_t LINE = 128, LINE_DATA = 120, WARP = 16;

static uint64_t load(const volatile void *place)
{
	return __atomic_load_n((const volatile uint64_t *)place, __ATOMIC_ACQUIRE);
}

static void store(volatile void *place, uint64_t value)
{
	__atomic_store_n((volatile uint64_t *)place, value, __ATOMIC_RELEASE);
}

static size_t ceiling(size_t value, size_t unit)
{
	return (value + unit - 1) / unit;
}

/* Where a proxy wants the data of a step, if it has said so. Up to 2.19 this and the size are arrays
 * of their own, up to 2.20 a connection does not know its step. */
static const volatile int *proxy_offset(const ncclConnInfo *connection, size_t at)
{
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 20, 0)
	return connection->offsFifo ? &connection->offsFifo[at] : nullptr;
#else
	bool said = connection->connFifo && connection->connFifo[at].mode == NCCL_MODE_OFFSET;

	return said ? &connection->connFifo[at].offset : nullptr;
#endif
}

/* How much there is to send in the present step. */
static void tell_proxy(const ncclConnInfo *connection, size_t bytes)
{
	size_t at = connection->step % NCCL_STEPS;

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 20, 0)
	if (connection->sizesFifo) {
		*(volatile int *)&connection->sizesFifo[at] = (int)bytes;
	}
#else
	if (connection->connFifo) {
		*(volatile ssize_t *)&connection->connFifo[at].size = (ssize_t)bytes;
	}
#endif
}

static size_t simple_step(const ncclConnInfo *connection, size_t usual)
{
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 21, 0)
	(void)connection;
	return usual;
#else
	(void)usual;
	return connection->stepSize;
#endif
}

template <typename Condition>
void smd_primitives::wait(const smd_block &block, Condition condition)
{
	enum { SPINS = 100 }; /* then others may have the processor */

	for (unsigned turn = 0; !condition(); turn++) {
		if (*(volatile uint32_t *)block.comm->abortFlag) {
			throw smd_aborted();
		}
		if (turn > SPINS) {
			std::this_thread::yield();
		}
	}
}

template <typename Condition> void smd_primitives::wait(Condition condition) const
{
	wait(block, condition);
}

void smd_primitives::let_network(
	const smd_block &block, int rank, int send_index, int receive_index)
{
	ncclConnInfo *send = &block.channel->peers[rank]->send[send_index];
	ncclConnInfo *receive = &block.channel->peers[rank]->recv[receive_index];

	store(send->tail, ++send->step);
	store(receive->head, ++receive->step);
	wait(block, [=] { return load(receive->tail) >= receive->step; });
}

/* Both sides begin an operation at a step that is a whole number of turns; one that receives in
 * protocol Simple says so. */
smd_primitives::smd_primitives(const smd_block &block, const smd_function &function, int slices,
	int steps, const std::vector<int> &receive, const std::vector<int> &send, int index,
	size_t step_bytes)
    : block(block), function(function), simple(function.protocol == NCCL_PROTO_SIMPLE),
      slices(simple ? slices : 1), steps(simple ? steps : 1),
      step_bytes(step_bytes ? step_bytes : block.comm->buffSizes[function.protocol] / NCCL_STEPS)
{
	uint64_t turn = this->slices * this->steps;

	for (int rank : receive) {
		if (rank != -1) {
			from.push_back(&block.channel->peers[rank]->recv[index]);
		}
	}
	for (int rank : send) {
		if (rank != -1) {
			to.push_back(&block.channel->peers[rank]->send[index]);
		}
	}
	for (auto *connection : from) {
		connection->step = ceiling(connection->step, turn) * turn;
		if (simple) {
			store(connection->head, connection->step);
		}
	}
	for (auto *connection : to) {
		connection->step = ceiling(connection->step, turn) * turn;
	}
}

/* Where the present step's data is in the buffer; a proxy may have said where it wants it. */
char *smd_primitives::place(const ncclConnInfo *connection) const
{
	size_t at = connection->step % NCCL_STEPS;
	char *buffer = connection->buffs[function.protocol];
	const volatile int *offset = simple ? proxy_offset(connection, at) : nullptr;

	if (offset) {
		return buffer + *offset;
	}
	return buffer + at * (simple ? simple_step(connection, step_bytes)
				     : block.comm->buffSizes[function.protocol] / NCCL_STEPS);
}

/* What a proxy has to send of so many bytes of data. */
size_t smd_primitives::wire_bytes(size_t bytes) const
{
	switch (function.protocol) {
	case NCCL_PROTO_LL:
		return ceiling(bytes, sizeof(uint64_t)) * sizeof(ncclLLFifoLine);
	case NCCL_PROTO_LL128:
		return ceiling(bytes, WARP * LINE_DATA) * WARP * LINE;
	default:
		return bytes;
	}
}

void smd_primitives::take_ll(const ncclConnInfo *connection, char *out, size_t bytes) const
{
	auto *line = (ncclLLFifoLine *)place(connection);
	uint32_t flag = NCCL_LL_FLAG(connection->step + 1);

	for (size_t i = 0; i < bytes; i += sizeof(uint64_t), line++) {
		uint64_t one, other, data;

		wait([&] {
			one = load(&line->v[0]);
			other = load(&line->v[1]);
			return one >> 32 == flag && other >> 32 == flag;
		});
		data = (uint32_t)one | other << 32;
		memcpy(out + i, &data, std::min(sizeof(data), bytes - i));
	}
}

void smd_primitives::take_ll128(const ncclConnInfo *connection, char *out, size_t bytes) const
{
	const char *line = place(connection);

	for (size_t i = 0; i < bytes; i += LINE_DATA, line += LINE) {
		wait([&] { return load(line + LINE_DATA) == connection->step + 1; });
		memcpy(out + i, line, std::min(LINE_DATA, bytes - i));
	}
}

void smd_primitives::take(const ncclConnInfo *connection, char *out, size_t bytes) const
{
	if (function.protocol == NCCL_PROTO_LL) {
		take_ll(connection, out, bytes);
	} else if (function.protocol == NCCL_PROTO_LL128) {
		take_ll128(connection, out, bytes);
	} else {
		memcpy(out, place(connection), bytes);
	}
}

void smd_primitives::give_ll(const ncclConnInfo *connection, const char *in, size_t bytes) const
{
	auto *line = (ncclLLFifoLine *)place(connection);
	uint64_t flag = NCCL_LL_FLAG(connection->step + 1);

	for (size_t i = 0; i < bytes; i += sizeof(uint64_t), line++) {
		uint64_t data = 0;

		memcpy(&data, in + i, std::min(sizeof(data), bytes - i));
		store(&line->v[0], (uint32_t)data | flag << 32);
		store(&line->v[1], data >> 32 | flag << 32);
	}
}

void smd_primitives::give_ll128(const ncclConnInfo *connection, const char *in, size_t bytes) const
{
	char *line = place(connection), *end = line + wire_bytes(bytes);

	for (size_t i = 0; line < end; i += LINE_DATA, line += LINE) {
		if (i < bytes) {
			memcpy(line, in + i, std::min(LINE_DATA, bytes - i));
		}
		store(line + LINE_DATA, connection->step + 1);
	}
}

void smd_primitives::give(const ncclConnInfo *connection, const char *in, size_t bytes) const
{
	if (function.protocol == NCCL_PROTO_LL) {
		give_ll(connection, in, bytes);
	} else if (function.protocol == NCCL_PROTO_LL128) {
		give_ll128(connection, in, bytes);
	} else {
		memcpy(place(connection), in, bytes);
	}
}

/* Until there is something to receive, and room for what is sent, whose size a proxy is told. */
void smd_primitives::wait_for_turn(size_t bytes, unsigned what)
{
	if ((what & SMD_RECEIVE) && simple) {
		for (auto *connection : from) {
			wait([&] { return load(connection->tail) >= connection->step + steps; });
		}
	}
	if (!(what & SMD_SEND)) {
		return;
	}
	for (auto *connection : to) {
		wait([&] {
			return load(connection->head) + NCCL_STEPS >= connection->step + steps;
		});
		tell_proxy(connection, wire_bytes(bytes));
	}
}

/* The sum of the rank's own elements and of what it receives. */
void smd_primitives::combine(const char *source, size_t n, unsigned what)
{
	size_t bytes = n * function.size;
	bool first = !source;

	sum.resize(bytes);
	received.resize(bytes);
	if (source) {
		memcpy(sum.data(), source, bytes);
		smd_arithmetic_begin(function, sum.data(), n);
	}
	if (what & SMD_RECEIVE) {
		for (auto *connection : from) {
			take(connection, first ? sum.data() : received.data(), bytes);
			if (!first) {
				smd_arithmetic_reduce(function, sum.data(), received.data(), n);
			}
			first = false;
		}
	}
	if (what & SMD_END) {
		smd_arithmetic_end(function, sum.data(), n);
	}
}

void smd_primitives::end_turn(unsigned what)
{
	if (what & SMD_RECEIVE) {
		for (auto *connection : from) {
			store(connection->head, connection->step += steps);
		}
	}
	if (what & SMD_SEND) {
		for (auto *connection : to) {
			connection->step += steps;
			if (function.protocol != NCCL_PROTO_LL) {
				store(connection->tail, connection->step);
			}
		}
	}
}

void smd_primitives::slice(const char *source, char *target, size_t n, unsigned what)
{
	size_t bytes = n * function.size;

	wait_for_turn(bytes, what);
	if (bytes) {
		combine(source, n, what);
		if (what & SMD_SEND) {
			for (auto *connection : to) {
				give(connection, sum.data(), bytes);
			}
		}
		if (target) {
			memcpy(target, sum.data(), bytes);
		}
	}
	end_turn(what);
}

/* Slices must be cut as NCCL's kernels cut them, for the proxy of the other side counts bytes by
 * them: even, in units of 16 elements, and no smaller than a 32nd of what steps hold. */
void smd_primitives::operate(const char *source, char *target, ssize_t n, unsigned what)
{
	size_t rest = std::max<ssize_t>(n, 0), most = rest;

	if (simple) {
		most = std::max(
			ceiling(rest, 16 * slices) * 16, step_bytes / function.size * steps / 32);
	}
	for (int i = 0; i < slices; i++) {
		size_t now = std::min(most, rest), bytes = now * function.size;

		slice(source, target, now, what);
		rest -= now;
		source = source ? source + bytes : nullptr;
		target = target ? target + bytes : nullptr;
	}
}
