/*
 * The calls into librdmacm and libibverbs, and nothing else: each returns 0 or -errno.
 *
 * The two libraries say what went wrong in three ways (a NULL, -1 and errno, an errno); callers of
 * this file see one. Events of the connection manager are copied and acknowledged at once, so that
 * an id may be destroyed inside whatever its event causes. Nothing here blocks but what says so.
 *
 * A test puts a script in the place of verbs.c (tests/unit/rdma).
 */
#ifndef SMD_TRANSPORT_RDMA_VERBS_H
#define SMD_TRANSPORT_RDMA_VERBS_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "reduction_server/transport/rdma/verbs_check.h"

/* The most that any event carries: a refusal's. */
#define SMD_VERBS_PRIVATE_MAX 148

struct smd_verbs_event {
	enum rdma_cm_event_type type;
	int status;            /* of a refusal the reason, else 0 or -errno */
	struct rdma_cm_id *id; /* of a request: the new one */
	void *context;         /* its, or of a request that of the listening one */
	uint8_t private_data[SMD_VERBS_PRIVATE_MAX];
	uint8_t private_length; /* may count padding */
};

/* What a device can do, as far as we ask for it. */
struct smd_verbs_limits {
	uint32_t queue_depth;   /* work requests of a queue pair */
	uint32_t completions;   /* of a completion queue */
	uint32_t message_bytes; /* of one write */
	enum ibv_mtu mtu;       /* of the port as it is now */
	bool immediate;         /* writes carry immediate data: not those of iWARP, nor of EFA */
	bool routed;            /* each packet of the port must have a global route header */
	bool resizes_slowly;    /* a completion queue waits for the card when it is made larger */
	bool windows;           /* memory windows of type 2B: a key that holds for one queue pair */
	bool invalidates;       /* sends give keys back */
};

#define SMD_VERBS_TIMEOUT_NS 4096ull
/* How long a write is sent again that is not acknowledged. */
struct smd_verbs_patience {
	uint8_t timeout; /* each time SMD_VERBS_TIMEOUT_NS * 2^timeout, */
	uint8_t retries; /* so many times more; 7 is for ever for Soft-RoCE */
};

struct smd_verbs_queue {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool soft; /* Soft-RoCE's */
};

/* Whether there is any device: 0, or -ENODEV with a text that says what is missing. */
int smd_verbs_check(struct smd_error *error);

/* Lets go of devices that have been removed and that nothing here uses any more: their removal
 * waits for that. */
void smd_verbs_forget_removed(void);

/* -ENODEV: the kernel's connection manager (module rdma_ucm) is not there. */
int smd_verbs_channel_create(struct rdma_event_channel **out);
void smd_verbs_channel_destroy(struct rdma_event_channel *channel);
/* The next event, copied; -EAGAIN when there is none. */
int smd_verbs_event_take(struct rdma_event_channel *channel, struct smd_verbs_event *out);

int smd_verbs_id_create(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **out);
/* The other end is told. Waits for events that are being handled. Any thread. */
void smd_verbs_id_destroy(struct rdma_cm_id *id);
/* Ties the id to the device that has this address, of whose removal it is then told. */
int smd_verbs_bind(struct rdma_cm_id *id, const struct sockaddr *address);
int smd_verbs_listen(struct rdma_cm_id *id, const struct sockaddr *address, int backlog);
/* The id's further events come on that channel. Waits for those that are being handled. */
int smd_verbs_migrate(struct rdma_cm_id *id, struct rdma_event_channel *channel);
/* The source, unless it is NULL, says which device. */
int smd_verbs_resolve_address(struct rdma_cm_id *id, const struct sockaddr *source,
	const struct sockaddr *address, int ms);
int smd_verbs_resolve_route(struct rdma_cm_id *id, int ms);
/* For the queue pair of that number, which is none of the id's: the id only finds the other end's.
 * Who connects is told of the answer (CONNECT_RESPONSE), joins the pair, and then confirms. Who is
 * asked may accept on any thread. */
int smd_verbs_connect(struct rdma_cm_id *id, uint32_t pair, const void *private_data,
	uint8_t length, struct smd_verbs_patience patience);
int smd_verbs_accept(struct rdma_cm_id *id, uint32_t pair, const void *private_data, uint8_t length,
	struct smd_verbs_patience patience);
int smd_verbs_confirm(struct rdma_cm_id *id);
int smd_verbs_reject(struct rdma_cm_id *id, const void *private_data, uint8_t length);

/* ---- devices and ports ---- */

/* One address of a port that is up: where a queue pair can be, and by which it is reached. */
struct smd_verbs_port {
	char name[IBV_SYSFS_NAME_MAX]; /* the device's */
	uint8_t number;
	bool ethernet; /* RoCE v2: the gid alone is its address; else InfiniBand */
	uint8_t gid_index;
	uint8_t gid[16];
	uint8_t address[16]; /* InfiniBand: one of its network interface's; zeros: it has none */
	char interface[IF_NAMESIZE]; /* the network interface that has the gid; empty: not known */
	uint8_t network_bits; /* so many bits of the gid, its first, are its network's; 0: not known
			       */
	uint8_t address_bits; /* the same of the address */
	uint16_t lid;
	uint32_t mbps;              /* width times speed */
	struct ibv_context *device; /* NULL: it has not been opened */
	enum ibv_mtu mtu;           /* of a device that has been, */
	bool routed;                /* and whether each packet must have a global route header */
};

/*
 * The addresses of all devices' ports, to be freed (NULL: none): how many; or -errno, -ENODEV where
 * there is no device, -EPROTONOSUPPORT where all are of kinds that RDMA lanes cannot take (iWARP,
 * EFA), -EACCES where this process may open none. Those that it may not open are left out. No
 * device is opened for that: a process would hold all of a host's for the one that it uses, and
 * opening takes milliseconds. `root` is where /sys and /dev are: "" but in tests.
 */
int smd_verbs_ports(const char *root, struct smd_verbs_port **out);
/* The NUMA node that the device is on; -1: not known, as where there is only one. */
int smd_verbs_node(const char *root, const char *name);
int smd_verbs_device_open(const char *name, struct ibv_context **out);
void smd_verbs_device_close(struct ibv_context *device);
/* The next event of the device itself, acknowledged; -EAGAIN when there is none. */
int smd_verbs_device_event_take(struct ibv_context *device, struct ibv_async_event *out);

int smd_verbs_query(struct ibv_context *device, uint8_t port, struct smd_verbs_limits *out);

int smd_verbs_domain_create(struct ibv_context *device, struct ibv_pd **out);
void smd_verbs_domain_destroy(struct ibv_pd *domain);

/* Its completions wake the processor of that vector, of the device's num_comp_vectors. */
int smd_verbs_queue_create(
	struct ibv_context *device, uint32_t depth, int vector, struct smd_verbs_queue *out);
void smd_verbs_queue_destroy(struct smd_verbs_queue *queue);
int smd_verbs_queue_resize(struct smd_verbs_queue *queue, uint32_t depth);
/* From now on a completion makes the channel readable, once. */
int smd_verbs_queue_arm(struct smd_verbs_queue *queue);
/* Takes what has made the channel readable. */
void smd_verbs_queue_quiet(struct smd_verbs_queue *queue);
/* How many completions there were, at most n; or -errno. */
int smd_verbs_queue_poll(struct smd_verbs_queue *queue, struct ibv_wc *completions, int n);

/*
 * A queue pair for `sends` and `receives` work requests (receives without memory). *inline_bytes is
 * what is wanted, and what there is; an error where that is less. Remote writes into its domain are
 * let in.
 */
int smd_verbs_pair_create(struct ibv_pd *domain, struct smd_verbs_queue *queue, uint32_t sends,
	uint32_t receives, uint32_t *inline_bytes, struct ibv_qp **out);
/* It sends and takes nothing from now on, but for what is on its way. */
void smd_verbs_pair_fail(struct ibv_qp *pair);
/* When this returns nothing is read or written on the pair's behalf any more; or a card that takes
 * no orders may still do so, which an error tells. */
void smd_verbs_pair_destroy(struct ibv_qp *pair);
/* Lets receives be posted to a pair, of the partition at that place of the port's table. */
int smd_verbs_pair_init(struct ibv_qp *pair, uint8_t port, uint16_t pkey);
/* The same of a pair that will be joined as the id says; pkey 0: of the id's partition. Any thread.
 */
int smd_verbs_pair_init_as(struct ibv_qp *pair, struct rdma_cm_id *id, uint16_t pkey);

/* What the two ends of a queue pair must know of each other, and how it travels. */
struct smd_verbs_path {
	struct smd_verbs_port port; /* here */
	uint32_t number;            /* there: the queue pair's, */
	uint32_t first_packet;      /* of those that it sends, */
	uint16_t lid;
	uint8_t gid[16];
	enum ibv_mtu mtu;          /* of both */
	uint32_t own_first_packet; /* 24 bits, as first_packet */
	uint8_t service_level;
	uint8_t traffic_class;
	struct smd_verbs_patience patience;
};
/* From then on it receives and sends. */
int smd_verbs_pair_join(struct ibv_qp *pair, const struct smd_verbs_path *path);
/* The same, to the other end of the id, which knows the way: of `path` hold the patience, and level
 * and class where they are not 0; its MTU is what the id says. Any thread. */
int smd_verbs_pair_join_as(struct ibv_qp *pair, struct rdma_cm_id *id, struct smd_verbs_path *path);
int smd_verbs_post_send(struct ibv_qp *pair, struct ibv_send_wr *chain);
int smd_verbs_post_receive(struct ibv_qp *pair, struct ibv_recv_wr *chain);

/* `access` is IBV_ACCESS_*. */
int smd_verbs_region_create(
	struct ibv_pd *domain, void *memory, size_t length, int access, struct ibv_mr **out);
/* Memory of a device, which a dma-buf stands for; -EOPNOTSUPP where the card does not take it. */
int smd_verbs_region_create_dmabuf(struct ibv_pd *domain, int fd, uint64_t offset, uint64_t address,
	size_t length, int access, struct ibv_mr **out);
void smd_verbs_region_destroy(struct ibv_mr *region);

/* A memory window of type 2, which opens nothing until it is bound; its key's lowest 8 bits are who
 * binds it to choose. Any thread. */
int smd_verbs_window_create(struct ibv_pd *domain, struct ibv_mw **out);
/* Bound or not: nobody writes by it any more when this returns. */
void smd_verbs_window_destroy(struct ibv_mw *window);

#endif
