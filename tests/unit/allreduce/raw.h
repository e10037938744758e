/*
 * A worker that says whatever a test wants it to say: a socket, and frames put on it by hand.
 *
 * May be used on any thread; what does not go as expected ends the test (CHECK).
 */
#ifndef SMD_TESTS_RAW_H
#define SMD_TESTS_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/wire/frame.h"
#include "reduction_server/wire/handshake.h"
#include "tests/unit/allreduce/fixture.h"

struct raw {
	int fd;
	struct smd_frame frame;         /* the last one received */
	uint8_t *payload;               /* its payload, with a NUL after it */
	uint8_t *pieces;                /* of a result that is not whole yet, */
	uint32_t pieces_bytes;          /* so many bytes */
	struct smd_handshake handshake; /* what has been said */
	bool deaf; /* PING is received like any other frame, and not answered */
};

/* Connects to a server of a tcp pool, and says nothing. */
void raw_open(struct raw *raw, const struct pool *pool, unsigned server);
void raw_close(struct raw *raw);

void raw_write(struct raw *raw, const void *bytes, size_t length);
/* The frame's length is set to the payload's. */
void raw_send(struct raw *raw, struct smd_frame frame, const void *payload, size_t length);

/* The next frame, within a few seconds: whether there was one, or the end. A PING is answered, and
 * is not it. */
bool raw_receive(struct raw *raw);
/* The next frame must be of that kind; LATE is passed over. */
void raw_expect(struct raw *raw, enum smd_frame_kind kind);
/* The next frame must be an ABORT (or REFUSE, IDLE, LEAVE) that has the text in it. */
void raw_expect_text(struct raw *raw, enum smd_frame_kind kind, const char *text);
/* The server must close the connection, within a few seconds; frames before that are passed over.
 */
void raw_expect_end(struct raw *raw);

/* HELLO as `replica` of job "raw", or of that one, and WELCOME. */
void raw_greet(struct raw *raw, const char *replica);
void raw_greet_job(struct raw *raw, const char *replica, const char *job);
void raw_say_hello(struct raw *raw, const char *replica, unsigned shard, const char *token);
void raw_join(struct raw *raw, uint32_t number, const char *group, unsigned nranks, unsigned rank);
void raw_leave(struct raw *raw, uint32_t number, unsigned rank);

/* The INPUT of one whole operation of int32: the chunk is the operation. */
struct smd_frame raw_input(uint32_t number, unsigned rank, uint64_t ordinal, uint64_t count);

#endif
