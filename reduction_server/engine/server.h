/*
 * A reduction server: a listener for each transport, and shards that the lanes are given to.
 *
 * The listeners' loop belongs to the caller. A new lane stays on it for the handshake, whose HELLO
 * says to which shard it goes, unless its transport knows that before. All calls are made on that
 * loop's thread.
 */
#ifndef SMD_ENGINE_SERVER_H
#define SMD_ENGINE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "reduction_server/engine/greeting.h"
#include "reduction_server/engine/shard.h"
#include "reduction_server/transport/bandwidth.h"
#include "reduction_server/transport/transport.h"

struct smd_server;

struct smd_server_transport {
	const struct smd_transport_ops *ops; /* NULL: no more */
	bool needed; /* it must be there; else it is used where it is to be had */
};

struct smd_server_config {
	struct smd_server_transport transports[SMD_TRANSPORTS_MAX]; /* the first is needed */
	const char *listen; /* "host:port", or one on each of its networks: "host:port+host:port" */
	unsigned shards;         /* threads: 1 to SMD_SHARDS_MAX */
	size_t memory_bytes;     /* of all slot pools together */
	size_t job_memory_bytes; /* of it, what one job may have; 0: SMD_JOB_MOST() */
	uint32_t chunk_bytes;    /* largest chunk; 0: SMD_CHUNK_DEFAULT */
	uint32_t bandwidth_mbps; /* of the server; 0: SMD_BANDWIDTH_DEFAULT_MBPS */
	bool guessed;            /* nothing says what that is */
	bool spare; /* nothing is dealt to it until operations gain by it */
	unsigned job_lanes;      /* of a job, in groups, on a shard; 0: SMD_JOB_MOST() */
	unsigned window;         /* 0: SMD_WINDOW_DEFAULT */
	uint32_t piece_bytes;    /* shortest piece of a result; 0: SMD_PIECE_BYTES */
	unsigned late_s;         /* 0: SMD_LATE_DEFAULT_S */
	unsigned forming_s;      /* 0: SMD_FORMING_DEFAULT_S */
	unsigned heartbeat_ms;   /* 0: SMD_HEARTBEAT_LIMIT_DEFAULT_MS */
	unsigned idle_s;         /* 0: SMD_IDLE_DEFAULT_S */
	unsigned drain_s;        /* 0: SMD_DRAIN_DEFAULT_S */
	unsigned idle_lanes;     /* 0: three quarters of the descriptors */
	unsigned greeting_s;     /* a lane that is not greeted by then is closed; 0:
				    SMD_GREETING_DEFAULT_S */
	/* What workers must have, as long as the server lives; NULL: nothing. */
	const struct smd_tokens *tokens;
	bool encrypt; /* lanes, by keys of the tokens; all transports can */
	/*
	 * When it listens over all transports that need no device, before it opens a device or
	 * starts a thread: to give up what only that needed. Or NULL.
	 */
	int (*on_listening)(void *owner, struct smd_error *error);
	void (*on_ended)(void *owner); /* on the loop, when the last shard has ended; or NULL */
	void *owner;
};
#define SMD_CHUNK_DEFAULT      (512u << 10)
#define SMD_GREETING_DEFAULT_S 5

/* Starts listening and all shards. 0 or -errno with a text. */
int smd_server_start(struct event_base *base, const struct smd_server_config *config,
	struct smd_server **out, struct smd_error *error);

/* Whether workers may come over a transport that needs devices, such as RDMA. */
bool smd_server_has_devices(const struct smd_server *server);

/* Where it listens: "127.0.0.1:41873"; at several addresses "10.0.0.5:2222+10.1.0.5:2222". */
const char *smd_server_address(const struct smd_server *server);

/* From any thread, as long as it is not freed: its shards, and what each of them shows. */
unsigned smd_server_shards(const struct smd_server *server);
void smd_server_read_figures(
	const struct smd_server *server, unsigned shard, struct smd_shard_figures *out);

/*
 * Takes no new lanes, and asks every shard to end: when its communicators have ended, at the latest
 * when they have been told, after drain_s, that there is no more time, or (now) at once.
 */
void smd_server_drain(struct smd_server *server, bool now);

/* Waits until all shards have ended, after a drain. Gives what they have done, added up. */
void smd_server_join(struct smd_server *server, struct smd_shard_stats *stats);

/* Frees a server that has been joined. Turn the loop once more before it is freed. */
void smd_server_free(struct smd_server *server);

#endif
