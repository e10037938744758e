/*
 * A device and a connection manager that do what a test says, in the place of verbs.c.
 *
 * Work requests are recorded when they are posted, *carried* (done in memory, as a device does it:
 * bytes are read then, keys and bounds are checked) and *acknowledged* (their completion is there).
 * Unless a test takes this into its own hands it all happens at once, and the connection manager
 * connects ids to the one that listens. What a correct transport never does ends the program: to
 * write where no receive is ready, to let a queue overflow, to destroy what is in use.
 *
 * One thread uses it; makers beside it register memory, create queue pairs, join, accept and
 * destroy them.
 */
#ifndef SMD_TESTS_RDMA_SCRIPT_H
#define SMD_TESTS_RDMA_SCRIPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/transport/rdma/verbs.h"

/* Every call that can fail, and three that may only take long: to destroy. */
#define SCRIPT_CALLS(X)                                                                            \
	X(check)                                                                                   \
	X(channel_create)                                                                          \
	X(event_take)                                                                              \
	X(id_create)                                                                               \
	X(listen)                                                                                  \
	X(bind)                                                                                    \
	X(migrate)                                                                                 \
	X(resolve_address)                                                                         \
	X(resolve_route)                                                                           \
	X(connect)                                                                                 \
	X(confirm)                                                                                 \
	X(accept)                                                                                  \
	X(reject)                                                                                  \
	X(query)                                                                                   \
	X(domain_create)                                                                           \
	X(queue_create)                                                                            \
	X(queue_resize)                                                                            \
	X(queue_arm)                                                                               \
	X(queue_poll)                                                                              \
	X(pair_create)                                                                             \
	X(pair_init)                                                                               \
	X(pair_join)                                                                               \
	X(device_open)                                                                             \
	X(ports)                                                                                   \
	X(post_send)                                                                               \
	X(post_receive)                                                                            \
	X(region_create)                                                                           \
	X(region_create_dmabuf)                                                                    \
	X(window_create)                                                                           \
	X(pair_destroy)                                                                            \
	X(region_destroy)                                                                          \
	X(id_destroy)

enum script_call_name {
#define X(name) SCRIPT_##name,
	SCRIPT_CALLS(X)
#undef X
		SCRIPT_CALLS_END
};

struct script_call {
	const char *name;
	unsigned count;   /* of calls so far */
	unsigned fail_at; /* the call that fails, from 1 on; 0: none */
	int err;          /* with this, */
	bool always;      /* and all after it */
	atomic_bool slow; /* it takes until this is taken back, or for SCRIPT_SLOW_MS at most, */
	atomic_bool held; /* and somebody is in it */
};
#define SCRIPT_SLOW_MS 2000

#define SCRIPT_PORTS_MOST 4
#define SCRIPT_VECTORS    4

struct script {
	/* The device. */
	int node; /* NUMA's */
	struct smd_verbs_limits limits;
	uint32_t inline_most;
	/* What happens by itself. */
	bool connects;     /* the connection manager goes on */
	bool carries;      /* what is posted is carried, */
	bool acknowledges; /* and what was carried acknowledged */
	bool forgets;      /* a pair that is destroyed takes its completions out of the queue */
	bool unwatched;    /* memory cannot be watched, so it is copied or registered for one use */

	/* After each doorbell, when not NULL. */
	void (*then)(struct rdma_cm_id *id, void *owner);
	void *owner;

	struct script_call calls[SCRIPT_CALLS_END];
	struct smd_verbs_port ports[SCRIPT_PORTS_MOST]; /* of "script0" and "script1", `nports` */
	int nports;
	uint8_t source[16]; /* of the address that was last resolved; zeros: none was told */
	struct smd_verbs_path path; /* by which a pair was last joined */
	uint16_t pkey; /* of the last pair that was made ready */
	struct smd_verbs_patience patience; /* of the last pair that was connected or accepted */
	int last_access;                    /* of the last registration */
	atomic_uint live;                   /* objects that there are, */
	atomic_uint regions; /* and registrations among them */
	unsigned resizes;
	unsigned vectors; /* a bit for each whose processor a queue wakes */
	unsigned rejections;
	uint32_t completions_most; /* at once in a queue */
	char last_rejection[SMD_VERBS_PRIVATE_MAX + 1];
};
extern struct script script;

/* Whether the last rejection says that to ask again may help. */
bool script_says_again(void);

/* A connecting machine, before each test. */
void script_reset(void);

/* ---- connections ---- */

/* Puts an event into the id's channel. */
void script_tell(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status, const void *data,
	size_t length);
/* Somebody asks the id that listens; the new id. */
struct rdma_cm_id *script_request(const void *data, size_t length);
/* The id that listens; NULL: none does. */
struct rdma_cm_id *script_listening(void);
/* An id that is bound to the device; NULL: none is. */
struct rdma_cm_id *script_bound(void);
/* What went with connect or accept. */
const uint8_t *script_said(const struct rdma_cm_id *id, size_t *length);

/* ---- the device itself ---- */

/* "script0" tells that; `pair`: of which queue pair. */
void script_device_tell(enum ibv_event_type type, struct ibv_qp *pair);
/* What tests know a queue pair by that has no id of the connection manager's. */
struct rdma_cm_id *script_id_of_pair(const struct ibv_qp *pair);

/* ---- work requests ---- */

struct script_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint64_t local;
	uint32_t length;
	uint32_t lkey;
	uint64_t remote;
	uint32_t rkey;      /* or that is bound, or taken back */
	uint32_t immediate; /* in host order */
	struct ibv_mw *window;        /* that is bound, */
	struct ibv_mw_bind_info bind; /* to this */
	unsigned doorbell;  /* the how-manieth it came with, from 0 on */
	bool last;          /* of it */
	uint8_t *bytes;     /* inline */
};

/* All that were posted on the id; the array is good until the next is. */
const struct script_send *script_sends(const struct rdma_cm_id *id, unsigned *n);
/* All of those are done, and their completions were taken: as if nothing had been posted. */
void script_forget_sends(const struct rdma_cm_id *id);
/* Receives that are ready. */
unsigned script_receives(const struct rdma_cm_id *id);
/* Carries up to n more, or puts the completions of up to n more into the queue; how many. */
unsigned script_carry(struct rdma_cm_id *id, unsigned n);
unsigned script_acknowledge(struct rdma_cm_id *id, unsigned n);

/* ---- the other end as a script ---- */

/* A write with immediate data has come: takes a receive and completes it. */
void script_arrive(struct rdma_cm_id *id, uint32_t immediate, uint32_t bytes);
/* A key has been given back by a message of no bytes. */
void script_return(struct rdma_cm_id *id, uint32_t key);
/* A completion of any kind. */
void script_complete(struct rdma_cm_id *id, const struct ibv_wc *completion);
/* The wr_id of a receive. */
uint64_t script_receive_id(const struct rdma_cm_id *id);
/* The pair fails as a device's does: one request with the status, the others are flushed. */
void script_break(struct rdma_cm_id *id, enum ibv_wc_status status);

/* Memory of the test's that may be written remotely; its key. */
uint32_t script_expose(void *memory, size_t length);
/* All of it is gone. */
void script_hide_all(void);

#endif
