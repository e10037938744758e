/*
 * This process's place in the pool: the lanes to all shards, and the table that chunks are dealt
 * by. Communicators are built on it; of them it knows only the receivers that frames are for.
 *
 * Fields marked "published" are under the progress's lock; everything else belongs to the owner
 * (progress.h).
 */
#ifndef SMD_LIBSUMMAND_CONTEXT_H
#define SMD_LIBSUMMAND_CONTEXT_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "worker/libsummand/config.h"
#include "worker/libsummand/deal.h"
#include "worker/libsummand/known_memory.h"
#include "worker/libsummand/progress.h"
#include "worker/libsummand/registration.h"
#include "worker/libsummand/remote.h"
#include "worker/libsummand/server_file.h"
#include "worker/libsummand/staging.h"
#include "worker/libsummand/undo.h"

struct event;
struct event_base;

struct smd_history;

/* Copies in case a server is lost, of all communicators that there are; the owner's. */
struct smd_context_histories {
	uint64_t bytes;      /* the most that each has kept at once, together, */
	uint64_t bytes_most; /* and the most that this ever was; */
	unsigned count;      /* of so many that have kept any, */
	unsigned count_most;
};

/* What their tables of servers take (epoch_memory.h), together; the owner's. */
struct smd_context_tables {
	uint64_t bytes;
	uint64_t bytes_most;
	unsigned count_most; /* of one communicator, at once */
};

struct smd_context {
	struct smd_remote_owner remote_owner; /* first */
	struct smd_config config;
	pid_t pid;      /* of the process that made it, */
	unsigned forks; /* which is so many forks away (forks.h) */
	struct smd_progress progress;
	struct smd_task connect;
	struct event *deadline; /* it is over */
	struct event *settle;   /* runs while more may be lost of the same cause */
	struct event *begin;    /* runs while others do, and a server cannot be reached */

	unsigned ntargets; /* those of the configuration, then those that were added */
	struct smd_server_file server_file;
	uint64_t lost;             /* targets, by number, whose lanes have been closed */
	uint64_t drains;           /* targets that are being drained, and not lost yet */
	uint64_t absent;           /* could not be reached when the process began: not in `deal` */
	struct smd_error lost_why; /* of all of them, in the order in which they were lost: */
	int lost_err;              /* of the last one */
	uint8_t losses[SMD_SERVERS_MAX]; /* targets, */
	unsigned nlosses;                /* some of which may be there again */
	struct smd_target targets[SMD_SERVERS_MAX];
	unsigned nwelcomed; /* remotes that have said WELCOME */
	struct smd_remotes remotes;
	struct smd_deal deal;
	unsigned ninitial; /* remotes of that deal; others were added behind them */
	struct smd_deal_shard *shards; /* theirs, with the weights that were declared then */
	struct smd_staging staging;
	struct smd_undos undos;
	struct smd_registrations registrations;
	struct smd_known_memory known;             /* buffers that callers have passed */
	uint64_t generation;                       /* operations begun */
	struct smd_receiver *comms[SMD_COMMS_MAX]; /* by SMD_COMM_INDEX(number) */
	uint32_t uses[SMD_COMMS_MAX]; /* under the lock: how often an index was used; odd: it is in
					use */
	bool ready;                   /* published: every shard has said WELCOME, but of `absent` */
	bool exchanges;               /* its communicators may have some (exchange.h) */
	bool streams;                 /* published with it: a processor moves bytes of some lane */
	uint32_t server_mbps; /* published with it: of `shards`, together; 0: it is not known */
	int err;                      /* published: -errno once the context is of no use */
	struct smd_error error;       /* published with it */
	struct smd_stats stats;       /* published */
	size_t segment_bytes;         /* of operations: set once, before the first */
	unsigned mesh_lanes;          /* to other ranks, that its communicators have or may make */
	struct smd_lane_counts
		mesh_counts;          /* what these have moved, of communicators that are over */
	uint64_t epochs;              /* that communicators have gone on by */
	struct smd_context_histories histories;
	struct smd_context_tables tables;
	double busy_since;            /* under the lock: when in_flight was last 0 */
};

/*
 * smd_context_create(), but of no memory is the driver asked whose it is: a device's is known only
 * where it is registered by a dma-buf, all else is the host's. For callers that must not call the
 * driver, such as NCCL's progress thread, which kernels on the device wait for. Lanes leave by the
 * origin where servers have an address on its network. Who runs the context's loop is said by the mode, unless the
 * options have it polled.
 */
int smd_context_create_without_devices(const struct smd_context_options *options, enum smd_engine_mode mode,
	const struct smd_origin *origin, smd_context **out);

/* Its communicators will have many operations in flight at once, so chunks are larger (deal.h). Before the first one, and
 * by all ranks alike. */
void smd_context_set_pipelined(struct smd_context *context);

/* What its first servers have said that they carry together, but those that are spare; Mbit/s. 0:
 * it has not reached them all. */
uint32_t smd_context_server_mbps(struct smd_context *context);

/* Whether processors move the bytes of some of its first lanes over a network: no card does, nor a host's memory. */
bool smd_context_streams(struct smd_context *context);

/* registration.h, for all lanes of the context. */
int smd_context_register(struct smd_context *context, const void *user, void *base, size_t length,
	const struct smd_dmabuf *dmabuf);
bool smd_context_is_device_registered(
	struct smd_context *context, const void *memory, size_t bytes);
int smd_context_deregister(
	struct smd_context *context, const void *user, void *base, size_t length);

/* Whether a caller's context is one, of this process. 0, or -EINVAL, -EPERM with a text for
 * smd_error_message(). */
int smd_context_check(const struct smd_context *context);

/* In another process than the one that made the context: -EPERM, with a text for
 * smd_error_message(). Its locks and lanes must then not be touched. */
int smd_context_check_process(const struct smd_context *context);

/* The first so many targets, by number. */
static inline uint64_t smd_context_first(unsigned n)
{
	return n < 64 ? (1ull << n) - 1 : UINT64_MAX;
}

/* Those of the configuration: the rest is added while the process runs. */
static inline uint64_t smd_context_initial(const struct smd_context *context)
{
	return smd_context_first(context->config.ninitial);
}

/* On the owner: the targets that have all of their lanes. */
uint64_t smd_context_reach(const struct smd_context *context);

/* A communicator's history has more than before, or ends with it. */
void smd_context_keeps(struct smd_context *context, struct smd_history *history);
void smd_context_forgets(struct smd_context *context, const struct smd_history *history);

/* On the owner: closes the lanes to these, for all communicators, which go on without. The context
 * fails when none is left, and none of those that were lost before is there. */
void smd_context_lose(struct smd_context *context, uint64_t targets, const char *why);

/* On the owner: a group is to be joined, for which lanes that rest are connected again. */
void smd_context_wake(struct smd_context *context);

/* On the owner: a communicator has failed. Its callers wait until on_settled(), so that they hear
 * of all servers that are lost together; false: there is only one, so nothing to wait for. */
bool smd_context_settles(struct smd_context *context);

/* -EINVAL with a text, where a call has nowhere to put what it makes. */
int smd_check_out(const void *out);

/* Keeps the text for smd_error_message() of the calling thread, and returns ret. */
int smd_error_remember(int ret, const struct smd_error *error);

/* As long as it may take to find a silent server, and to agree to go on without it. */
static inline uint64_t smd_context_patience_ns(const struct smd_context *context)
{
	return (2ull * context->config.heartbeat_ms + 1000) * 1000000;
}

#endif
