/*
 * Two ends of a lane on one loop, and a record of what happens to each: what the tests of
 * transports look at.
 */
#ifndef SMD_TESTS_LINK_H
#define SMD_TESTS_LINK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdbool.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/transport.h"

#define PATIENCE_NS 20000000000ull
#define ROOM        (1u << 20)

enum moment { NEVER, ON_OPEN, ON_HEADER, ON_FRAME, ON_CLOSED, ON_DONE };

/* One end of a lane, and what has happened to it. */
struct end {
	struct smd_lane *lane; /* NULL: none yet, or closed */
	struct event_base *base;
	enum moment close_at;   /* closes its lane in that callback */
	enum moment refuse_at;  /* returns an error from that callback */
	struct smd_frame frame; /* the last one */
	uint8_t *room;          /* where payloads go */
	unsigned opened;
	unsigned headers;
	unsigned frames;
	unsigned closed; /* calls of on_closed() */
	int err;
	char reason[256];
	void (*then)(struct end *end); /* in on_frame(), when not NULL */
};

/* Sends of one end: payload, how often done() came, and with what. */
struct parcel {
	struct smd_send send;
	struct end *from;
	uint8_t *payload;
	unsigned done;
	int err;
	unsigned place; /* how many were done before */
};

struct link {
	const struct smd_transport_ops *transport;
	struct event_base *base;
	struct smd_listener *listener;
	char address[128];
	struct end near; /* connects */
	struct end far;  /* is accepted */
	/* Both ends' lanes of this transport are made over one of `transport`; NULL: they are not.
	 */
	const struct smd_transport_ops *made;
	bool encrypted;          /* over TLS, */
	struct smd_lane_key key; /* by this one at the near end */
	bool hold;               /* the far lane is accepted, but not attached yet */
	bool deaf;               /* it is attached, but the loop must not turn */
};

/* What both ends do: count, keep the frame, and close or refuse where they are told to. */
extern const struct smd_lane_callbacks link_callbacks;

/* How many parcels of the test done() has come for. */
extern unsigned parcels_done;

/* What a link over TLS has: the near end's key, and all keys of the far end's. */
extern const struct smd_lane_key link_key;
extern const struct smd_lane_keys link_keys;

int link_set_up(void **state); /* *state: "tcp", "tls", "shm", "loopback", "fault" over the latter,
				  "fault over tcp"; then the link */
int link_tear_down(void **state);
void link_connect(struct link *link);

/* Opens the lane to an end that takes nothing of what it is sent, until it is told to listen. */
void link_open_deaf(struct link *link);
void link_listen(struct link *link);
/* Connects, and turns the loop until both ends are there. */
void link_open(struct link *link);
/* Some more turns, in which nothing more must happen. */
void link_run_on(struct link *link);
/* How a link takes a new lane, for listeners of a test's own. */
void link_on_accept(void *owner, struct smd_lane *lane, int shard);

int end_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error);
void end_on_closed(void *owner, int err, const char *reason);
void end_close(struct end *end);
/* Closes the end's lane if it is told to at that moment. */
bool end_closes(struct end *end, enum moment moment);
/* The last frame's payload is what parcel_send() made for its ordinal. */
void end_assert_payload(const struct end *end);

/* Sends a payload that the ordinal decides; the parcel must stay until it is done. */
void parcel_send(
	struct parcel *parcel, struct end *from, uint64_t ordinal, uint32_t length, void *owner);
uint8_t parcel_byte(uint64_t ordinal, size_t i);
void parcels_free(struct parcel *parcels, unsigned n);

#define RUN_UNTIL(link, condition)                                                                 \
	do {                                                                                       \
		uint64_t until_ = smd_clock_ns() + PATIENCE_NS;                                    \
		while (!(condition)) {                                                             \
			assert_true(smd_clock_ns() < until_);                                      \
			event_base_loop((link)->base, EVLOOP_NONBLOCK);                            \
		}                                                                                  \
	} while (0)

#endif
