/* The connections of a block of a kernel: what it receives, reduces and sends, by the protocols
 * that NCCL's proxies and transports expect at the other side of their buffers. */
#ifndef SMD_NCCL_SIM_PRIMITIVES_H
#define SMD_NCCL_SIM_PRIMITIVES_H

#include "arithmetic.h"
#include "device.h" /* NCCL's */

#include <sys/types.h>
#include <vector>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
typedef ncclDevComm ncclKernelComm;
typedef ncclDevCommAndChannels ncclKernelCommAndChannels;
#endif

/* Thrown where the communicator is aborted while a block waits. */
struct smd_aborted {
};

struct smd_block {
	ncclKernelComm *comm;
	ncclDevChannel *channel;
	int id;
};

/* What an operation does besides taking its source and filling its target. */
enum {
	SMD_RECEIVE = 1 << 0,
	SMD_SEND = 1 << 1,
	SMD_END = 1 << 2, /* the result is whole */
};

class smd_primitives
{
      public:
	/* Ranks that are -1 are not there. In protocol Simple an operation has so many slices, of
	 * so many steps each; index is that of the connections to a rank, and step_bytes 0 is the
	 * usual size. */
	smd_primitives(const smd_block &block, const smd_function &function, int slices, int steps,
		const std::vector<int> &receive, const std::vector<int> &send, int index = 0,
		size_t step_bytes = 0);

	/* Of memory that the network reads and writes itself: that it may, and then until it has. */
	static void let_network(const smd_block &block, int rank, int send_index, int receive_index);

	/* Source and target may be null. */
	void operate(const char *source, char *target, ssize_t n, unsigned what);

      private:
	const smd_block &block;
	const smd_function &function;
	const bool simple;
	const int slices, steps;
	const size_t step_bytes;
	std::vector<ncclConnInfo *> from, to;
	std::vector<char> sum, received;

	template <typename Condition>
	static void wait(const smd_block &block, Condition condition);
	template <typename Condition> void wait(Condition condition) const;
	char *place(const ncclConnInfo *connection) const;
	size_t wire_bytes(size_t bytes) const;
	void slice(const char *source, char *target, size_t n, unsigned what);
	void wait_for_turn(size_t bytes, unsigned what);
	void combine(const char *source, size_t n, unsigned what);
	void end_turn(unsigned what);
	void take(const ncclConnInfo *connection, char *out, size_t bytes) const;
	void take_ll(const ncclConnInfo *connection, char *out, size_t bytes) const;
	void take_ll128(const ncclConnInfo *connection, char *out, size_t bytes) const;
	void give(const ncclConnInfo *connection, const char *in, size_t bytes) const;
	void give_ll(const ncclConnInfo *connection, const char *in, size_t bytes) const;
	void give_ll128(const ncclConnInfo *connection, const char *in, size_t bytes) const;
};

#endif
