/*
 * This process's place in the pool: the lanes to all shards, and the table that chunks are dealt
 * by.
 *
 * Fields marked "published" are under the progress's lock; everything else belongs to the owner
 * (progress.h).
 */
#ifndef SMD_LIBSUMMAND_CONTEXT_H
#define SMD_LIBSUMMAND_CONTEXT_H

#include <stdbool.h>
#include <sys/queue.h>

#include "worker/libsummand/config.h"
#include "worker/libsummand/deal.h"
#include "worker/libsummand/progress.h"
#include "worker/libsummand/registration.h"
#include "worker/libsummand/remote.h"
#include "worker/libsummand/staging.h"

struct event;
struct event_base;

/* One server of the list, and its shards' lanes once it has told how many there are. */
struct smd_target {
	struct smd_context *context;
	const char *address;
	unsigned nremotes; /* 1 until shard 0 has said WELCOME */
	struct smd_remote *remotes[SMD_SHARDS_MAX];
};

struct smd_context {
	struct smd_config config;
	struct smd_progress progress;
	struct smd_task connect;
	uint64_t deadline_ns;   /* to connect */
	struct event *deadline; /* it is over */

	unsigned ntargets;
	struct smd_target targets[SMD_SERVERS_MAX];
	unsigned nwelcomed;          /* remotes that have said WELCOME */
	unsigned nremotes;           /* all, once every server has told its shards */
	struct smd_remote **remotes; /* [nremotes] in the order of the deal */
	struct smd_deal deal;
	uint64_t deal_hash;
	struct smd_staging staging;
	struct smd_registration_list registrations; /* changed under the progress's lock too */
	uint64_t generation;                        /* operations begun */
	struct smd_comm *comms[SMD_COMMS_MAX];      /* by SMD_COMM_INDEX(number) */
	struct smd_lane_counts ended;               /* of lanes that are closed */
	uint32_t uses[SMD_COMMS_MAX]; /* under the lock: how often an index was used; odd: it is in
					use */
	bool ready;                   /* published: every shard has said WELCOME */
	int err;                      /* published: -errno once the context is of no use */
	struct smd_error error;       /* published with it */
	struct smd_stats stats;       /* published */
	double busy_since;            /* under the lock: when in_flight was last 0 */
};

/* On the owner: a shard has said WELCOME. */
void smd_context_welcomed(struct smd_context *context, struct smd_remote *remote);

/*
 * On the owner: a lane cannot be had or was lost. The context is of no further use, its
 * communicators fail, and the first such text is what every later call says.
 */
void smd_context_fail(struct smd_context *context, int err, const char *text);

/* On the owner: a lane is about to be closed; its counts are added to the context's. */
void smd_context_add_counts(struct smd_context *context, const struct smd_lane *lane);

/* A server's name in messages: "reduction server 127.0.0.1:4000". */
void smd_target_name(const struct smd_target *target, char out[160]);

/* Keeps the text for smd_error_message() of the calling thread, and returns ret. */
int smd_error_remember(int ret, const struct smd_error *error);

#endif
