/*
 * The handshake of a lane: HELLO, which says who is there and which shard it wants, and where the
 * server has tokens CHALLENGE and PROOF.
 *
 * A greeter keeps the lanes of one loop that are not through with it, or were refused and have not
 * gone, for a few seconds and no longer. It is used on that loop's thread. WELCOME, which ends the
 * handshake, is said by who takes the lane.
 */
#ifndef SMD_ENGINE_GREETING_H
#define SMD_ENGINE_GREETING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/base/token.h"
#include "reduction_server/transport/transport.h"
#include "reduction_server/wire/handshake.h"

struct event_base;

#define SMD_GREETINGS_DEFAULT 1024

struct smd_greeter {
	struct event_base *base;
	const char *name;                /* "shard 0", for messages */
	const struct smd_tokens *tokens; /* what workers must have; NULL: nothing */
	unsigned nshards;                /* that there are */
	int shard;                       /* whose loop this is; SMD_SHARD_UNKNOWN: none's */
	unsigned patience_s;             /* a lane that is not through so long after it has
					    opened is closed */
	unsigned most;                   /* lanes that are not through, a quarter of them of one
					    address; 0: SMD_GREETINGS_DEFAULT */
	/* Takes the lane, detached, from inside its on_frame(); on -errno it is closed. */
	int (*on_greeted)(
		void *owner, struct smd_lane *lane, const struct smd_handshake *handshake);
	void *owner;
	/* The greeter's own, zeros at first: */
	LIST_HEAD(, smd_greeting) greetings;
};

/* Attaches the lane and waits for HELLO. What cannot be is logged, and the lane closed. */
void smd_greeter_take(struct smd_greeter *greeter, struct smd_lane *lane);

/* Closes those that have been silent for too long. To be called about once a second. */
void smd_greeter_check(struct smd_greeter *greeter);

/* Closes all. */
void smd_greeter_close(struct smd_greeter *greeter);

#endif
