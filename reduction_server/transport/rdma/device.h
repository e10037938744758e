/*
 * One RDMA device as one event loop uses it: a protection domain, a completion queue with its
 * poller, the registered memory (device.c; several of these where one queue cannot hold all), the
 * table of its queue pairs (pair_table.c); and the loop with its connection manager (loop.c,
 * channel.c).
 *
 * The poller knows queue pairs by their numbers and calls their operations; what is behind a pair
 * (a lane) is no business of it. Everything of a loop is touched by the loop's thread only; the
 * list of loops alone has a lock.
 */
#ifndef SMD_TRANSPORT_RDMA_DEVICE_H
#define SMD_TRANSPORT_RDMA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/base/error.h"
#include "reduction_server/transport/rdma/buffers.h"
#include "reduction_server/transport/rdma/registration.h"
#include "reduction_server/transport/rdma/settings.h"
#include "reduction_server/transport/rdma/verbs.h"

struct event;
struct event_base;
struct rdma_maker;

/* ---- queue pairs ---- */

struct rdma_pair;

struct rdma_pair_ops {
	/* A work request of the pair is complete, or has failed. */
	void (*completed)(struct rdma_pair *pair, const struct ibv_wc *completion);
	/* It was woken: posts and reports what there is. */
	void (*flush)(struct rdma_pair *pair);
	/* Asks whether the other end's machine is there, if nothing else does. */
	void (*probe)(struct rdma_pair *pair);
	/* The device cannot be used any more. */
	void (*fail)(struct rdma_pair *pair, int err, const char *reason);
};

/*
 * A queue pair as the poller knows it: what the wr_id of each of its work requests leads to. A
 * number is not used again soon, so that late completions of a pair that has gone lead nowhere.
 */
struct rdma_pair {
	const struct rdma_pair_ops *ops;
	struct ibv_qp *qp; /* NULL: there is none yet */
	uint32_t number;
	bool dirty;
	TAILQ_ENTRY(rdma_pair) dirty_link;
};

/* What a work request is known by: its pair, and its place among the pair's. */
static inline uint64_t smd_rdma_wr_id(const struct rdma_pair *pair, uint32_t request)
{
	return (uint64_t)pair->number << 32 | request;
}

/* ---- loops and devices ---- */

/* Whoever an id's events are for: what its context points to. */
struct rdma_endpoint {
	void (*on_event)(struct rdma_endpoint *endpoint, const struct smd_verbs_event *event);
};

/* What is closed and still at work on the loop: end() is called before the loop is freed, and takes
 * it out of its list, unless the maker's driver does not return: then it stays as it is. */
struct rdma_drain {
	void (*end)(struct rdma_drain *drain);
	LIST_ENTRY(rdma_drain) link;
};

struct rdma_loop {
	struct event_base *base;
	struct rdma_event_channel *channel; /* NULL: nobody has needed the connection manager */
	struct event *readable;
	struct smd_rdma_settings settings;
	unsigned users; /* lanes and listeners, and: */
	bool serves;    /* it is a shard's, */
	bool prepared;  /* and stays until its base ends (prepare.c) */
	struct rdma_preparation *preparation; /* its memory is being registered; NULL: it is not */
	LIST_HEAD(, rdma_device) devices;
	LIST_HEAD(, rdma_drain) drains;
	LIST_HEAD(, rdma_drain) stuck; /* of them, at the loop's end: with the maker for good */
	struct rdma_maker *maker; /* NULL: nobody has needed it */
	LIST_HEAD(, rdma_card) cards; /* opened here (card.h), */
	unsigned turn;  /* of the next lane that answers here, among ports that are as good; */
	uint32_t first; /* a server's: where turns begin, and that it listens anywhere, */
	bool anywhere;  /* as in a wish (port.h) */
	struct smd_verbs_port *ports; /* [nports], of them */
	unsigned nports;
	uint64_t ports_ns; /* when that was known; 0: it is not, or has changed */
	struct rdma_listing *listing; /* they are read anew by the maker; NULL: they are not */
	LIST_ENTRY(rdma_loop) link;
};

struct rdma_device {
	struct rdma_loop *loop;
	struct ibv_context *context;
	struct smd_verbs_limits limits;
	bool windows; /* what is registered can be written to by memory windows alone */
	struct ibv_pd *domain;
	struct smd_verbs_queue queue;
	uint32_t queue_depth;
	uint32_t queue_used; /* completions that there can be at once */
	struct smd_rdma_memory *memory;
	struct rdma_buffers buffers; /* of its lanes */
	uint64_t generation;    /* for which unmapped memory was last dropped from it */
	struct event *readable; /* of the completion channel */
	struct event *again;    /* the queue is looked at without sleeping */
	struct event *flush;    /* at the end of this turn */
	struct event *beat;     /* looks whether silent machines are there */
	uint64_t busy_ns;       /* when there was last a completion */
	struct ibv_wc *polled;  /* [polled_room], completions taken out of the queue */
	unsigned polled_begin;  /* the first that has not been handled */
	unsigned polled_end;    /* one past the last */
	unsigned polled_room;
	TAILQ_HEAD(, rdma_pair) dirty; /* pairs with something to post or to report */
	struct rdma_pair **pairs;      /* by the low half of their numbers; NULL: free */
	uint32_t *uses;                /* of each of these: how often, for the high half */
	uint32_t npairs;               /* size of the tables */
	bool removed;                  /* the device is no more, */
	bool failed;                   /* or its queue: it is for no other lane */
	bool prepared;                 /* it stays without a lane, until the loop ends */
	bool refused;                  /* a buffer could not be registered, which has been said */
	unsigned users;
	LIST_ENTRY(rdma_device) link;
};

/* Finds or makes the loop's part; on the loop's thread. 0 or -errno with a text. */
int smd_rdma_loop_get(struct event_base *base, struct rdma_loop **out, struct smd_error *error);
/* channel.c: the connection manager, from now on. 0 or -errno with a text. */
int smd_rdma_loop_open_channel(struct rdma_loop *loop, struct smd_error *error);
/* Not inside a callback of the loop's: it may free it. */
void smd_rdma_loop_put(struct rdma_loop *loop);
/* What makes its queue pairs (maker.h), from now on. 0 or -errno. */
int smd_rdma_loop_open_maker(struct rdma_loop *loop);
/* Waits until the maker is through with all that it has, or its driver does not return. */
void smd_rdma_loop_finish_maker(struct rdma_loop *loop);
/* The loop is about to be freed: ends all of its drains. */
void smd_rdma_loop_end(struct event_base *base);

/* Why something cannot be had; names the limit of locked memory when that is it. Returns -err. */
int smd_rdma_explain(struct smd_error *error, int err, const char *what);

/* The loop's, with room for so many completions more: where a queue is full and cannot be made
 * larger, another with one of its own. 0 or -errno with a text. */
int smd_rdma_device_get(struct rdma_loop *loop, struct ibv_context *context, uint8_t port,
	bool windows, uint32_t completions, struct rdma_device **out, struct smd_error *error);
/* How memory is registered that the other end may write to (IBV_ACCESS_*): by the registration's
 * key, or only by those of memory windows. */
int smd_rdma_device_access(const struct rdma_device *device);
void smd_rdma_device_put(struct rdma_device *device);
/* It stays without a lane. */
void smd_rdma_device_keep(struct rdma_device *device);
/* It stays no longer than its lanes, and goes now if there are none. */
void smd_rdma_device_unprepare(struct rdma_device *device);

/* pair_table.c: its queue has room for so many completions more, or -ENOSPC, or -errno. */
int smd_rdma_device_make_room(struct rdma_device *device, uint32_t completions);
/* Makes room for the pair's completions and gives it a number. 0 or -errno. */
int smd_rdma_device_add(struct rdma_device *device, struct rdma_pair *pair, uint32_t completions);
void smd_rdma_device_remove(
	struct rdma_device *device, struct rdma_pair *pair, uint32_t completions);

/* NULL: it has gone. */
struct rdma_pair *smd_rdma_device_find(const struct rdma_device *device, uint32_t number);

/* The pair has something to post or to report: its flush() is called before the turn ends. */
void smd_rdma_device_wake(struct rdma_device *device, struct rdma_pair *pair);

/* All its pairs fail: they send nothing from now on, and are told before the turn ends. */
void smd_rdma_device_fail(struct rdma_device *device, int err, const char *reason);

/* The same, for its queue has failed: no other lane comes to it, and it is not kept for any. */
void smd_rdma_device_fail_queue(struct rdma_device *device);

/* The same of the one pair that this is, if it is there. */
void smd_rdma_device_fail_pair(
	struct rdma_device *device, const struct ibv_qp *qp, int err, const char *reason);

/* Takes completions and posts what they lead to, without sleeping; how many there were. */
unsigned smd_rdma_device_poll(struct rdma_device *device);

/*
 * Takes all completions that there are: those of this pair, which is being closed, go to `count`,
 * others' are kept until they are handled.
 */
void smd_rdma_device_sort(struct rdma_device *device, struct rdma_pair *pair,
	void (*count)(struct rdma_pair *pair, const struct ibv_wc *completion));

#endif
