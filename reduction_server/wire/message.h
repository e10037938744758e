/*
 * The payloads of control frames (specs/design/wire.md), as structs.
 *
 * Encoders write at most SMD_CONTROL_MAX bytes and return how many. Decoders read through a bounded
 * reader and check every field: -EPROTO with a text says which one is wrong; *out is then
 * untouched.
 */
#ifndef SMD_WIRE_MESSAGE_H
#define SMD_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "reduction_server/wire/frame.h"

#define SMD_STRING_MAX 255
#define SMD_NONCE_SIZE 32
#define SMD_PROOF_SIZE 32

#define SMD_HELLO_CALLED 1u /* the worker answers PING only when its program calls the library */
#define SMD_HELLO_TOKEN                                                                            \
	2u /* the worker has the job's token, and wants the server to prove so too */
#define SMD_HELLO_PAIR 4u /* the lane is to carry another one's making: PAIR is awaited */
#define SMD_HELLO_ZEROS 8u /* blocks of zeros are not sent (zeros.h), in either direction */
#define SMD_HELLO_MEMORY 16u /* PAIR is awaited, of shared memory */
#define SMD_HELLO_INFINIBAND 32u /* of SMD_HELLO_PAIR: the worker has ports of that kind, */
#define SMD_HELLO_ROCE       64u /* or of this one; neither: it does not say */
#define SMD_HELLO_KINDS      (SMD_HELLO_INFINIBAND | SMD_HELLO_ROCE)
#define SMD_HELLO_FLAGS                                                                            \
	(SMD_HELLO_CALLED | SMD_HELLO_TOKEN | SMD_HELLO_PAIR | SMD_HELLO_ZEROS |                   \
		SMD_HELLO_MEMORY | SMD_HELLO_KINDS)

struct smd_hello {
	uint8_t nonce[SMD_NONCE_SIZE];
	uint16_t shard;
	uint16_t flags;
	char replica[SMD_STRING_MAX + 1]; /* not empty */
	char job[SMD_STRING_MAX + 1];
};

struct smd_challenge {
	uint8_t nonce[SMD_NONCE_SIZE];
};

struct smd_proof { /* wire/handshake.h */
	uint8_t bytes[SMD_PROOF_SIZE];
};

/* What the ends of a lane that is made over this one must know of each other: bytes of its
 * transport's (transport.h). */
#define SMD_OFFER_MAX 128
struct smd_offer {
	size_t length; /* 1 to SMD_OFFER_MAX */
	uint8_t bytes[SMD_OFFER_MAX];
};

struct smd_pair {
	struct smd_offer offer;
	bool proved; /* who offers shows that it has the job's token: */
	struct smd_proof proof;
};

struct smd_welcome {
	uint64_t server_id;
	uint32_t shard;
	uint32_t shards;      /* 1 to SMD_SHARDS_MAX */
	uint32_t chunk_bytes; /* largest chunk: a multiple of 64, at most SMD_CHUNK_LIMIT */
	uint32_t weight;      /* Mbit/s of this shard, at least 1 */
	bool spare; /* said by the frame's `window`: nothing is dealt to it at first (SMD_WELCOME_SPARE) */
	bool guessed; /* so is this: nothing says how fast its link is (SMD_WELCOME_GUESSED) */
	bool proved;          /* the server shows that it has the job's token: */
	struct smd_proof proof;
};
#define SMD_SHARDS_MAX 64

/* Of WELCOME's `window`: */
#define SMD_WELCOME_OTHERS 1u /* a rank of the job that has reached all servers is in a communicator */
#define SMD_WELCOME_SPARE  2u /* others serve, until operations gain by this one */
#define SMD_WELCOME_GUESSED 4u /* its weight is the default */

struct smd_join {
	uint16_t nranks;                /* 1 to SMD_NRANKS_MAX */
	char group[SMD_STRING_MAX + 1]; /* not empty */
	uint64_t table_hash;            /* 0: the rank could not reach all of its servers; its upper
					   half is of what is dealt by, the lower one of which
					   processes the servers are */
	uint64_t attempt; /* of this rank to join: another number each time */
	uint64_t id;      /* of an epoch's streams; 0: of the first */
	bool optional;    /* said by the frame's `window`: it may be refused */
};

/* ABORT and GONE, and a LEAVE that gives a reason. */
struct smd_abort {
	uint32_t err; /* an errno of Linux, from 1 to 4095 */
	char text[SMD_ERROR_TEXT_MAX];
};

#define SMD_RANK_SET_BYTES (SMD_NRANKS_MAX / 8)

/* A bit for each rank of a group, in order, from the lowest one of the first byte on. */
struct smd_rank_set {
	uint8_t bytes[SMD_RANK_SET_BYTES];
};

static inline void smd_rank_set_add(struct smd_rank_set *set, unsigned rank)
{
	set->bytes[rank / 8] |= (uint8_t)(1u << rank % 8);
}

/* Whether it has all that the other has. */
static inline bool smd_rank_set_holds(
	const struct smd_rank_set *set, const struct smd_rank_set *other)
{
	for (unsigned i = 0; i < SMD_RANK_SET_BYTES; i++) {
		if (other->bytes[i] & ~set->bytes[i]) {
			return false;
		}
	}
	return true;
}

struct smd_late {
	uint16_t nranks; /* of a group that forms; 0: of one that works, and the set is empty */
	struct smd_rank_set there; /* who has joined */
	char text[SMD_ERROR_TEXT_MAX];
};

size_t smd_hello_encode(const struct smd_hello *hello, uint8_t payload[SMD_CONTROL_MAX]);
int smd_hello_decode(
	const uint8_t *payload, size_t length, struct smd_hello *out, struct smd_error *error);

size_t smd_challenge_encode(
	const struct smd_challenge *challenge, uint8_t payload[SMD_CONTROL_MAX]);
int smd_challenge_decode(
	const uint8_t *payload, size_t length, struct smd_challenge *out, struct smd_error *error);

size_t smd_proof_encode(const struct smd_proof *proof, uint8_t payload[SMD_CONTROL_MAX]);
int smd_proof_decode(
	const uint8_t *payload, size_t length, struct smd_proof *out, struct smd_error *error);

size_t smd_pair_encode(const struct smd_pair *pair, uint8_t payload[SMD_CONTROL_MAX]);
int smd_pair_decode(
	const uint8_t *payload, size_t length, struct smd_pair *out, struct smd_error *error);

size_t smd_welcome_encode(const struct smd_welcome *welcome, uint8_t payload[SMD_CONTROL_MAX]);
int smd_welcome_decode(
	const uint8_t *payload, size_t length, struct smd_welcome *out, struct smd_error *error);

size_t smd_join_encode(const struct smd_join *join, uint8_t payload[SMD_CONTROL_MAX]);
int smd_join_decode(
	const uint8_t *payload, size_t length, struct smd_join *out, struct smd_error *error);

size_t smd_abort_encode(const struct smd_abort *abort, uint8_t payload[SMD_CONTROL_MAX]);
int smd_abort_decode(
	const uint8_t *payload, size_t length, struct smd_abort *out, struct smd_error *error);

size_t smd_late_encode(const struct smd_late *late, uint8_t payload[SMD_CONTROL_MAX]);
int smd_late_decode(
	const uint8_t *payload, size_t length, struct smd_late *out, struct smd_error *error);

/* REFUSE and IDLE: a text alone. Control characters become '?', because it will be printed. */
size_t smd_text_encode(const char *text, uint8_t *payload);
void smd_text_decode(const uint8_t *payload, size_t length, char out[SMD_ERROR_TEXT_MAX]);

#endif
