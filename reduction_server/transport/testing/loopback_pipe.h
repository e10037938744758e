/*
 * What the loopback transport's lanes and listeners share: a *pipe* of two ends, each of which is a
 * lane.
 *
 * The lists of pipes and of listeners have one lock; what is under way in a pipe has its own, which
 * is taken after that.
 */
#ifndef SMD_TRANSPORT_TESTING_LOOPBACK_PIPE_H
#define SMD_TRANSPORT_TESTING_LOOPBACK_PIPE_H

#include <pthread.h>
#include <stdbool.h>

#include "reduction_server/transport/loop.h"
#include "reduction_server/transport/transports.h"
#include "reduction_server/wire/zeros.h"

struct pipe;

struct loopback_lane {
	struct smd_lane lane;
	struct pipe *pipe;
	struct loopback_lane *other;
	struct event_base *base;
	unsigned process;
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	bool opened; /* on_open() has been called, or is not due */
	bool ended;  /* on_closed() has been called */
	bool half;   /* this frame's payload is on its way to there: */
	struct smd_frame frame;
	void *payload;

	/* Under the pipe's lock: */
	bool skips_zeros;
	struct smd_zero_search search;
	struct smd_wakeup wakeup; /* all zeros: not attached */
	struct smd_send_queue inbox;
	struct smd_send_queue finished;
	bool closed;
	char peer[128];
};

struct pipe {
	pthread_mutex_t lock;
	int users; /* ends that have not been freed */
	bool cut;  /* from outside (loopback.h) */
	LIST_ENTRY(pipe) link;
	struct loopback_lane ends[2];
};

extern pthread_mutex_t smd_loopback_lock;

/* Which one listens or connects (loopback.h). */
unsigned smd_loopback_this_process(void);

/* Two ends that nobody has attached yet; the first is of this process. NULL: out of memory. */
struct pipe *smd_loopback_pipe_create(const char *name);
void smd_loopback_pipe_free(struct pipe *pipe);

/* As the transport's table has them. */
int smd_loopback_attach(struct smd_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner);
void smd_loopback_close(struct smd_lane *lane);
int smd_loopback_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error);
void smd_loopback_listener_close(struct smd_listener *listener);
int smd_loopback_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error);

/* With the lock: what this process listens at is not found any more. */
void smd_loopback_deafen(unsigned process);

#endif
