/*
 * This process's place in the pool: the lanes to all shards, and the progress thread that serves
 * them.
 *
 * Callers' threads and the progress thread meet at two places only: callers post *tasks*, which
 * the progress thread runs in order; and the progress thread publishes what callers wait for (the
 * fields marked "published") under `lock` and broadcasts `changed`. Everything else belongs to the
 * progress thread.
 */
#ifndef SMD_LIBSUMMAND_CONTEXT_H
#define SMD_LIBSUMMAND_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "worker/libsummand/config.h"
#include "worker/libsummand/deal.h"
#include "worker/libsummand/remote.h"

struct event;
struct event_base;

/* Something for the progress thread to do. It belongs to whoever posted it. */
struct smd_task {
	void (*run)(struct smd_task *task);
	STAILQ_ENTRY(smd_task) link;
};
STAILQ_HEAD(smd_task_queue, smd_task);

/* One server of the list, and its shards' lanes once it has told how many there are. */
struct smd_target {
	struct smd_context *context;
	const char *address;
	unsigned nremotes; /* 1 until shard 0 has said WELCOME */
	struct smd_remote *remotes[SMD_SHARDS_MAX];
};

struct smd_context {
	struct smd_config config;
	struct event_base *base;
	struct event *wake;
	pthread_t thread;
	uint64_t deadline_ns;   /* to connect */
	struct event *deadline; /* it is over */
	struct smd_task stop;

	unsigned ntargets;
	struct smd_target targets[SMD_SERVERS_MAX];
	unsigned nwelcomed;          /* remotes that have said WELCOME */
	unsigned nremotes;           /* all, once every server has told its shards */
	struct smd_remote **remotes; /* [nremotes] in the order of the deal */
	struct smd_deal deal;
	uint64_t deal_hash;
	struct smd_comm *comms[SMD_COMMS_MAX]; /* by SMD_COMM_INDEX(number) */
	unsigned in_flight;                    /* operations */
	struct smd_lane_counts ended;          /* of lanes that are closed */
	double busy_since;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct smd_task_queue tasks;
	uint32_t uses[SMD_COMMS_MAX]; /* how often an index was used; odd: it is in use */
	bool ready;                   /* published: every shard has said WELCOME */
	int err;                      /* published: -errno once the context is of no use */
	struct smd_error error;       /* published with it */
	struct smd_stats stats;       /* published */
};

void smd_context_post(struct smd_context *context, struct smd_task *task);

/* On the progress thread: a shard has said WELCOME. */
void smd_context_welcomed(struct smd_context *context, struct smd_remote *remote);

/*
 * On the progress thread: a lane cannot be had or was lost. The context is of no further use, its
 * communicators fail, and the first such text is what every later call says.
 */
void smd_context_fail(struct smd_context *context, int err, const char *text);

/* On the progress thread: a lane is about to be closed; what it has moved is kept. */
void smd_context_add_counts(struct smd_context *context, const struct smd_lane *lane);

/* A server's name in messages: "reduction server 127.0.0.1:4000". */
void smd_target_name(const struct smd_target *target, char out[160]);

/* Keeps the text for smd_error_message() of the calling thread, and returns ret. */
int smd_error_remember(int ret, const struct smd_error *error);

#endif
