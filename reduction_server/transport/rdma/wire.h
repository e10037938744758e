/*
 * What two ends of an RDMA lane say to each other beneath the frames (specs/design/rdma.md).
 *
 * A *greeting* goes with the connection request and with its acceptance: where the sender of the
 * greeting takes messages. A *message* is what is written into one of these receive buffers: a
 * frame or a part of one, the remote buffers that come with it, and how many receive buffers its
 * sender has emptied.
 */
#ifndef SMD_TRANSPORT_RDMA_WIRE_H
#define SMD_TRANSPORT_RDMA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "reduction_server/transport/transport.h"

#define SMD_RDMA_VERSION            4
#define SMD_RDMA_GREETING_SIZE      32
#define SMD_RDMA_PREFIX_SIZE        16
#define SMD_RDMA_REMOTE_BUFFER_SIZE 16
#define SMD_RDMA_BUFFERS_MAX        256
/* A frame of so many bytes of payload fits into one receive buffer, whatever comes with it. */
#define SMD_RDMA_EAGER SMD_DIRECT_ABOVE
#define SMD_RDMA_BUFFER_SIZE                                                                       \
	(SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE +                                                   \
		SMD_REMOTE_BUFFERS_MAX * SMD_RDMA_REMOTE_BUFFER_SIZE + SMD_RDMA_EAGER)

struct smd_rdma_greeting {
	uint16_t shard;           /* that is asked for; 0 in the acceptance */
	uint16_t receive_buffers; /* 4 to SMD_RDMA_BUFFERS_MAX, a power of 2 */
	bool windows; /* what it advertises is opened by memory windows, whose keys go back */
	uint32_t key;
	uint64_t address; /* of the first; they are SMD_RDMA_BUFFER_SIZE bytes each */
};

void smd_rdma_greeting_encode(
	const struct smd_rdma_greeting *greeting, uint8_t bytes[SMD_RDMA_GREETING_SIZE]);
/* -EPROTO with a text when the bytes are no greeting of this version. More bytes may follow. */
int smd_rdma_greeting_decode(const uint8_t *bytes, size_t length, struct smd_rdma_greeting *out,
	struct smd_error *error);

/* Why a request is refused: a text, and whether to ask again may help. So long at most is what is
 * cut to fit. */
#define SMD_RDMA_REJECTION_MAX 148
size_t smd_rdma_rejection_encode(
	const char *text, bool again, uint8_t bytes[SMD_RDMA_REJECTION_MAX]);
/* False: there is no text, which the connection manager leaves out where it refuses by itself. */
bool smd_rdma_rejection_decode(
	const uint8_t *bytes, size_t length, char text[SMD_ERROR_TEXT_MAX], bool *again);

/*
 * What an end of a lane says over its carrier, where that takes the connection manager's place: a
 * greeting, and where its queue pair is.
 */
struct smd_rdma_offer {
	struct smd_rdma_greeting greeting;
	uint32_t number;       /* of the queue pair, 24 bits */
	uint32_t first_packet; /* that it will send, 24 bits */
	uint16_t lid;
	uint8_t mtu;   /* 1 to 5: 256 to 4096 bytes */
	bool ethernet; /* RoCE v2, else InfiniBand */
	uint8_t gid[16];
};
#define SMD_RDMA_OFFER_SIZE (SMD_RDMA_GREETING_SIZE + 28)

void smd_rdma_offer_encode(
	const struct smd_rdma_offer *offer, uint8_t bytes[SMD_RDMA_OFFER_SIZE]);
/* -EPROTO with a text. */
int smd_rdma_offer_decode(const uint8_t *bytes, size_t length, struct smd_rdma_offer *out,
	struct smd_error *error);

/* The first bytes of a receive buffer that has been filled. */
struct smd_rdma_prefix {
	uint32_t length; /* of the message, this included */
	uint32_t taken;  /* receive buffers that its sender has emptied, since the beginning, mod
			    2^32 */
	uint8_t remote_buffers; /* that follow the frame's header */
	bool begins;            /* a frame, whose header follows; else it goes on with one */
	bool trial; /* nothing but itself: it shows that so long a message crosses the fabric */
	bool direct; /* the frame's payload is not in receive buffers, but in its place */
};

void smd_rdma_prefix_encode(
	const struct smd_rdma_prefix *prefix, uint8_t bytes[SMD_RDMA_PREFIX_SIZE]);
/* -EPROTO with a text; else the lengths fit each other and the receive buffer. */
int smd_rdma_prefix_decode(const uint8_t bytes[SMD_RDMA_PREFIX_SIZE], struct smd_rdma_prefix *out,
	struct smd_error *error);

void smd_rdma_remote_buffer_encode(
	const struct smd_remote_buffer *remote_buffer, uint8_t bytes[SMD_RDMA_REMOTE_BUFFER_SIZE]);
void smd_rdma_remote_buffer_decode(
	const uint8_t bytes[SMD_RDMA_REMOTE_BUFFER_SIZE], struct smd_remote_buffer *out);

/*
 * The 32 bits that arrive with a write: the message's number, or (with the highest bit) only how
 * many receive buffers have been emptied. Both count from 0, mod 2^31.
 */
#define SMD_RDMA_TAKEN_ONLY 0x80000000u
#define SMD_RDMA_COUNT_MASK 0x7fffffffu

#endif
