/*
 * One thread of a reduction server: an event loop with its own lanes, communicators and memory.
 *
 * Shards share nothing. What comes from outside (a new lane, a request to drain) is put into the
 * inbox, under its lock, and taken out on the shard's loop. Figures leave it by a copy that its
 * janitor makes. Everything else is touched by the shard's thread alone, or before it starts and
 * after it has ended.
 */
#ifndef SMD_ENGINE_SHARD_H
#define SMD_ENGINE_SHARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/engine/figures.h"
#include "reduction_server/engine/greeting.h"
#include "reduction_server/engine/pairing.h"
#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/resources.h"
#include "reduction_server/transport/loop.h"

struct event;
struct event_base;

struct smd_shard_config {
	struct smd_welcome
		welcome; /* what workers are told: server id, shard, shards, chunk size, weight */
	size_t memory_bytes;     /* of the slot pool */
	size_t job_memory_bytes; /* of it, what one job may have; 0: SMD_JOB_MOST() */
	unsigned job_lanes;      /* lanes of one job that may be in groups */
	unsigned window;         /* slots that a communicator gets while there are enough */
	uint32_t piece_bytes;    /* shortest piece of a result (piece.h) */
	unsigned late_s;         /* a rank that the others wait for so long is named */
	unsigned forming_s;      /* a communicator that is not complete by then is over */
	unsigned heartbeat_ms;   /* a worker that says nothing for so long is lost */
	unsigned idle_s;         /* a lane that is in no communicator for so long is ended */
	unsigned idle_lanes;     /* and sooner where there are so many of them */
	unsigned drain_s;        /* communicators have so long to end when it drains */
	unsigned greeting_s;     /* and one that does not say HELLO for so long */
	const char *addresses; /* at which workers come, as long as there is the shard */
	const struct smd_transport_ops *const *transports; /* of workers; ends with NULL */
	const struct smd_transport_ops *const *pairs; /* lanes made over workers' (pairing.h) */
	bool pairs_only;                       /* and workers are let in by such lanes only */
	const struct smd_tokens *tokens; /* what workers must have; NULL: nothing */
	void (*on_ended)(void *owner); /* called on the shard's thread, as the last thing it does */
	void *owner;
};
#define SMD_WINDOW_DEFAULT    8
#define SMD_SMALL_ELEMENTS    16384 /* an operation of so many is worth polling for */
#define SMD_LATE_DEFAULT_S    SMD_LATE_MOST_S
#define SMD_IDLE_DEFAULT_S    3600
#define SMD_DRAIN_DEFAULT_S   25  /* Kubernetes kills after 30 s, and then nobody is told why */
#define SMD_FORMING_DEFAULT_S 600 /* far more than workers wait, so that it is strangers' limit */

struct smd_shard_stats {
	struct smd_lane_counts moved; /* by lanes that have ended */
	uint64_t chunks;              /* reduced; complete when the shard has ended */
	uint64_t lanes;               /* ever attached */
};

struct smd_arrival {
	struct smd_lane *lane;
	bool greeted; /* it is through with the handshake */
	struct smd_handshake handshake;
	STAILQ_ENTRY(smd_arrival) link;
};

struct smd_shard {
	struct smd_shard_config config;
	char name[32]; /* "shard 0", for messages */
	struct event_base *base;
	struct event *janitor; /* once a second or more often: late ranks, silent workers */
	struct event *reaper;  /* some communicators are gone */
	struct event *retry;   /* some wait for memory */
	struct event *end;     /* the time to drain is over; then the time to leave */
	pthread_t thread;
	struct smd_resources resources;
	uint8_t *sink; /* where discarded payloads go */
	struct smd_greeter greeter;
	struct smd_pairer pairer; /* after it */
	TAILQ_HEAD(, smd_peer) peers;
	unsigned npeers;
	struct smd_comms comms;
	struct smd_server_comm_list gone; /* to be freed by the reaper */
	struct smd_shard_stats stats;
	uint64_t small_frames; /* received parts of small operations */
	bool ended;            /* the loop is not to be turned any more */
	bool tells_end;        /* workers have been told that the time to drain is over */

	struct smd_published_figures published;
	struct {
		struct smd_wakeup wakeup; /* there is something in it */
		pthread_mutex_t lock;
		STAILQ_HEAD(, smd_arrival) arrivals;
		bool drain;
		bool stop;
	} inbox;
};

/* Makes the shard and starts its thread. 0 or -errno with a text. */
int smd_shard_start(
	const struct smd_shard_config *config, struct smd_shard **out, struct smd_error *error);

/* From any thread: gives a lane that is on no loop to the shard; handshake: what was said, or NULL
 * when it has said nothing yet. -ENOMEM. */
int smd_shard_give(
	struct smd_shard *shard, struct smd_lane *lane, const struct smd_handshake *handshake);

/*
 * From any thread: let communicators end in their own time, up to config.drain_s, but no new ones
 * begin, then end the thread; or (now) end it at once.
 */
void smd_shard_drain(struct smd_shard *shard, bool now);

/* From any thread: how the shard was when its janitor last looked, at most about a second ago. */
void smd_shard_read_figures(struct smd_shard *shard, struct smd_shard_figures *out);

/* Waits for the thread. The statistics are complete afterwards. */
void smd_shard_join(struct smd_shard *shard);
void smd_shard_free(struct smd_shard *shard);

/* On the shard's thread: ends the loop if it drains and nothing is left to wait for. */
void smd_shard_check_drained(struct smd_shard *shard);

#endif
