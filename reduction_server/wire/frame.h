/*
 * The 64 bytes in front of everything that is said on a lane (specs/design/wire.md).
 *
 * A decoded frame is in host order and has passed the checks that need no context: magic, version,
 * kind, collective, and a length that the kind allows. What it refers to is checked by whoever
 * knows it.
 */
#ifndef SMD_WIRE_FRAME_H
#define SMD_WIRE_FRAME_H

#include <stdint.h>

#include "reduction_server/base/error.h"
#include "reduction_server/wire/collective.h"

#define SMD_WIRE_VERSION  6
#define SMD_FRAME_KIND_AT 4 /* in a header */
#define SMD_FRAME_SIZE    64
#define SMD_CONTROL_MAX   2048 /* bytes of payload of a frame that carries no elements */
#define SMD_CHUNK_LIMIT                                                                            \
	(16u << 20) /* bytes of payload of INPUT, RESULT and DATA, whatever a server offers */
#define SMD_NRANKS_MAX       4096
#define SMD_LATE_MOST_S      10 /* a shard that waits for a rank says so at least this often */
#define SMD_OPEN_MOST        255
#define SMD_WINDOW_MAX       16 /* slots that a communicator is granted on a shard */
#define SMD_COMM_INDEX_BITS  12
#define SMD_COMMS_MAX        (1u << SMD_COMM_INDEX_BITS) /* open at once on a lane */
#define SMD_COMM_INDEX(comm) ((comm) & (SMD_COMMS_MAX - 1))

/* X(constant, number, name) */
#define SMD_FRAME_KINDS(X)                                                                         \
	X(SMD_FRAME_HELLO, 1, "HELLO")                                                             \
	X(SMD_FRAME_WELCOME, 2, "WELCOME")                                                         \
	X(SMD_FRAME_REFUSE, 3, "REFUSE")                                                           \
	X(SMD_FRAME_JOIN, 4, "JOIN")                                                               \
	X(SMD_FRAME_JOINED, 5, "JOINED")                                                           \
	X(SMD_FRAME_LEAVE, 6, "LEAVE")                                                             \
	X(SMD_FRAME_INPUT, 7, "INPUT")                                                             \
	X(SMD_FRAME_RESULT, 8, "RESULT")                                                           \
	X(SMD_FRAME_ABORT, 9, "ABORT")                                                             \
	X(SMD_FRAME_LATE, 10, "LATE")                                                              \
	X(SMD_FRAME_PING, 11, "PING")                                                              \
	X(SMD_FRAME_PONG, 12, "PONG")                                                              \
	X(SMD_FRAME_GONE, 13, "GONE")                                                              \
	X(SMD_FRAME_AGREE, 14, "AGREE")                                                            \
	X(SMD_FRAME_LEFT, 15, "LEFT")                                                              \
	X(SMD_FRAME_GREET, 16, "GREET") /* to DATA: specs/design/nccl-net.md */                    \
	X(SMD_FRAME_ACCEPT, 17, "ACCEPT")                                                          \
	X(SMD_FRAME_BUFFERS, 18, "BUFFERS")                                                        \
	X(SMD_FRAME_POST, 19, "POST")                                                              \
	X(SMD_FRAME_DATA, 20, "DATA")                                                              \
	X(SMD_FRAME_CHALLENGE, 21, "CHALLENGE") /* between HELLO and WELCOME */                    \
	X(SMD_FRAME_PROOF, 22, "PROOF")                                                            \
	X(SMD_FRAME_IDLE, 23, "IDLE")                                                              \
	X(SMD_FRAME_SHRINK, 24, "SHRINK")                                                          \
	X(SMD_FRAME_SHRUNK, 25, "SHRUNK")                                                          \
	X(SMD_FRAME_HELD, 26, "HELD")                                                              \
	X(SMD_FRAME_DRAINS, 27, "DRAINS")                                                          \
	X(SMD_FRAME_PAIR, 28, "PAIR") /* before WELCOME */                                         \
	X(SMD_FRAME_ZEROS, 29, "ZEROS")                                                            \
	X(SMD_FRAME_OTHERS, 30, "OTHERS")                                                          \
	X(SMD_FRAME_LOST, 31, "LOST")                                                              \
	X(SMD_FRAME_MESH, 32, "MESH") /* between ranks: specs/design/exchange.md */

enum smd_frame_kind {
#define X(constant, number, name) constant = (number),
	SMD_FRAME_KINDS(X)
#undef X
		SMD_FRAME_KIND_END
};

/* `window` of AGREE, for the shard, which does not look into it: ranks begin to agree on the epoch
 * `ordinal`, which they need; have agreed on it; or say anything else. */
enum { SMD_AGREE_BEGINS, SMD_AGREE_CONCLUDES, SMD_AGREE_OTHER };

/* `window` of HELD: a rank waits until all have the results before `ordinal`, and so will all
 * others; or the others may not, and are asked; a rank that was asked has them. */
enum { SMD_HELD_ASKS, SMD_HELD_ASKS_ALONE, SMD_HELD_ANSWERS };

struct smd_frame {
	uint8_t kind; /* enum smd_frame_kind */
	uint8_t dtype;
	uint8_t op;
	uint8_t collective; /* enum smd_collective */
	uint32_t length;
	uint32_t comm;
	uint8_t lag;  /* results before `ordinal` that somebody lacks */
	uint8_t open; /* operations up to this one, from the first before it that somebody lacks
			 results of; 0: more than SMD_OPEN_MOST */
	uint16_t root;
	uint16_t rank;
	uint16_t window; /* INPUT: 1 when it carries the result, which is then had already */
	uint64_t chunk;
	uint64_t operation;
	uint64_t count;
	uint64_t offset;
	uint64_t ordinal;
};

void smd_frame_encode(const struct smd_frame *frame, uint8_t bytes[SMD_FRAME_SIZE]);

/* -EPROTO with the field that is wrong when the bytes are no frame of this version. */
int smd_frame_decode(
	const uint8_t bytes[SMD_FRAME_SIZE], struct smd_frame *out, struct smd_error *error);

/* "INPUT", or "kind 99". The text may be static or belong to the calling thread. */
const char *smd_frame_kind_name(unsigned kind);

#endif
