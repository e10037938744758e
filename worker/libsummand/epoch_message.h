/*
 * What ranks say to agree on the next epoch, as bytes (specs/design/wire.md, AGREE): shards relay
 * it and do not look into it.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_MESSAGE_H
#define SMD_LIBSUMMAND_EPOCH_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "reduction_server/wire/message.h"
#include "worker/libsummand/config.h"

#define SMD_STREAMS_MAX       4096 /* of lost servers, that one message can tell of */
#define SMD_EPOCH_WEIGHTS_MAX (SMD_SERVERS_MAX * SMD_SHARDS_MAX)

#define SMD_EPOCH_ENDS_EXCHANGES UINT32_MAX /* there is no mesh any more */
#define SMD_EPOCH_FORMS UINT32_MAX /* the rank has not begun, and can take no record yet */

enum smd_epoch_message_kind {
	SMD_EPOCH_SEALED = 1,
	SMD_EPOCH_ASK = 2,
	SMD_EPOCH_RECORD = 3,
	SMD_EPOCH_AHEAD = 4,
	SMD_EPOCH_PROMISED = 5,
	SMD_EPOCH_CANCEL = 6,
	SMD_EPOCH_REACHES = 7,
	SMD_EPOCH_MEET = 8, /* these two: meeting.h */
	SMD_EPOCH_MEETS = 9,
};

struct smd_epoch_message {
	uint8_t kind;
	uint16_t rank;
	uint32_t epoch;
	uint64_t dead; /* targets, by number; REACHES: those that the rank has all lanes to again */
	uint64_t id;   /* RECORD, AHEAD: of its streams; MEET, MEETS: of the mesh */
	uint64_t first;  /* RECORD: F; SEALED, PROMISED: N; PROMISED: one more, or 0, its
			    streams cannot be joined; AHEAD, REACHES: which one it is, from 1 */
	uint32_t oldest; /* SEALED, PROMISED, RECORD, CANCEL: no earlier epoch than this one is
			    needed, but the first; SEALED: or SMD_EPOCH_FORMS */
	int8_t scale;    /* AHEAD: of chunks */
	uint32_t exchanged; /* AHEAD: as in an epoch, or SMD_EPOCH_ENDS_EXCHANGES */
	bool soon;       /* AHEAD: from the next operation on, not from the next but one */
	uint16_t nstreams;
	uint16_t nweights;
	/* RECORD: L; SEALED: done; REACHES: the servers' ids; MEET, MEETS: places (meeting.c).
	 * Where exchanges end, RECORD: the first piece that not all ranks have; PROMISED: that this
	 * one has not. */
	uint64_t streams[SMD_STREAMS_MAX];
	uint32_t weights[SMD_EPOCH_WEIGHTS_MAX]; /* AHEAD */
	/* Of a frame of several: these of its streams and weights, counted one after the other. */
	uint16_t begin;
	uint16_t end;
};

/* How many streams and weights it has. */
static inline unsigned smd_epoch_message_count(const struct smd_epoch_message *message)
{
	return (unsigned)message->nstreams + message->nweights;
}

/* One frame of it, from the number `begin` on; its bytes, and *end where the next one begins, which
 * is the count after the last. */
size_t smd_epoch_message_encode(const struct smd_epoch_message *message, unsigned begin,
	unsigned *end, uint8_t payload[SMD_CONTROL_MAX]);

/* One frame. -EPROTO with a text: too short or long, or a number is beyond its limit. */
int smd_epoch_message_decode(const uint8_t *payload, size_t length, struct smd_epoch_message *out,
	struct smd_error *error);

#endif
