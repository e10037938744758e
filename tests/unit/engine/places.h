/*
 * A shard, and workers whose lanes are played: their other ends, and their cards, which write to
 * places whenever a test says so. After each frame it is looked whether a place that a card may
 * write to is anybody else's.
 */
#ifndef SMD_TESTS_ENGINE_PLACES_H
#define SMD_TESTS_ENGINE_PLACES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>

#include "tests/unit/engine/bare_shard.h"

enum { CHUNK = 4096, ELEMENTS = CHUNK / 4, PLACES_MOST = 64, LANES_MOST = 12, KINDS = 64 };

struct place {
	struct smd_advertisement advertisement; /* first */
	void *memory;
	bool live;           /* the card may write there */
	smd_withdrawn *gone; /* it was withdrawn, and that is to be called; NULL: it was not */
	void *gone_owner;
};

struct played_lane {
	struct smd_lane lane; /* first */
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	struct place places[PLACES_MOST]; /* all that it was ever told of */
	unsigned nplaces;
	unsigned said[KINDS]; /* frames to the worker, by kind */
	int32_t result[ELEMENTS];
	bool closed;
	bool later; /* its card may write for some time after that, until this is called: */
	void (*released)(void *owner);
	void *released_owner;
};

/* By a card that writes until it is told; by memory windows, whose keys it has to take back. */
extern const struct smd_transport_ops played_transport;
extern const struct smd_transport_ops windowed_transport;
/* By none, as over TCP. */
extern const struct smd_transport_ops plain_transport;

extern struct smd_shard places_shard;
/* Of which job workers are that join; "job" in a new shard. */
extern const char *places_job;
void places_shard_make(size_t buffers, unsigned window);

/* The pool has it, for whoever asks. */
bool place_is_free(const void *memory);
unsigned lane_live_places(const struct played_lane *lane);
struct place *lane_first_live(struct played_lane *lane);
/* The card has taken back the keys of all that was withdrawn. */
void lane_take_back(struct played_lane *lane);
/* Its card is through with a lane that is closed later. */
void lane_release(struct played_lane *lane);
void lane_assert_result(const struct played_lane *lane, int32_t value);
void elements_fill(int32_t *values, int32_t value);

/* The worker says that; `direct`: its card has written the payload to the place that is next. */
void worker_say(struct played_lane *lane, struct smd_frame frame, const void *payload,
	size_t length, bool direct);
struct played_lane *worker_join_over(const struct smd_transport_ops *transport, unsigned index,
	const char *group, unsigned rank);
struct played_lane *worker_join(unsigned index, const char *group, unsigned rank);
/* That there is no going on with the group: what every rank then hears. */
void worker_fail(struct played_lane *lane, unsigned rank);
void worker_leave(struct played_lane *lane, unsigned rank);
/* A part of `value`s, which its card writes to its place; the key of a window comes back with it.
 */
void worker_input(struct played_lane *lane, unsigned rank, uint64_t ordinal, int32_t value);
/* Without a place, in a message. */
void worker_input_plain(struct played_lane *lane, unsigned rank, uint64_t ordinal, int32_t value);
/* Somebody wants memory, and the communicator rests. */
void places_ask_for_windows(void);

#endif
