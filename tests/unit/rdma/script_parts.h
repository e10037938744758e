/* What script.c (the device), script_queue.c, script_memory.c and script_cm.c (the connection
 * manager) know of each other. */
#ifndef SMD_TESTS_RDMA_SCRIPT_PARTS_H
#define SMD_TESTS_RDMA_SCRIPT_PARTS_H

#include <sys/queue.h>

#include "tests/unit/rdma/script.h"

struct script_pair;
struct script_queue;

struct script_id {
	struct rdma_cm_id id; /* first: they are the same address */
	struct script_id *peer;
	struct script_pair *pair;
	bool joined;  /* without the connection manager: it may be written to */
	bool by_hand; /* so is it made */
	uint32_t number; /* of its pair then */
	bool listens;
	bool bound;
	bool connected;
	uint8_t said[SMD_VERBS_PRIVATE_MAX];
	size_t said_length;
	LIST_ENTRY(script_id) link;
};

static inline struct script_id *script_id_of(const struct rdma_cm_id *id)
{
	return (struct script_id *)id;
}

/* What must not happen has: says so and ends the program. */
_Noreturn void script_stop(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* For what makers and the loop's thread share: queue pairs, and the connection manager's ids. */
void script_lock(void);
void script_unlock(void);
/* Whether this call is the one that fails. */
int script_fault(enum script_call_name name);
/* Keys begin anew. */
void script_memory_reset(void);
/* Whether the key lets these bytes be used so; `access` is IBV_ACCESS_*. */
bool script_key_allows(uint32_t key, uint64_t address, uint32_t length, int access);
/* A window's key is bound on the queue pair of that number, and taken back there. Whether it could
 * be: its next key must be another one, and a key that is not open there is none. */
bool script_window_bind(struct ibv_mw *window, uint32_t key, const struct ibv_mw_bind_info *to,
	const struct ibv_qp *pair);
bool script_window_close(uint32_t key, const struct ibv_qp *pair);
/* Whether the key lets these bytes be written on that queue pair. */
bool script_window_allows(
	uint32_t key, uint64_t address, uint32_t length, const struct ibv_qp *pair);
/* Whether any window is open there, on whatever queue pair. */
bool script_window_covers(const void *address);
/* All that was posted there is flushed. */
void script_pair_flush(struct script_pair *pair);
/* Completions of so many of its sends have been taken: these have left its queue. */
void script_pair_retire(struct script_pair *pair, unsigned sends);
/* The connection manager knows nothing of it any more. */
void script_pair_lose_id(struct script_pair *pair);

struct script_queue *script_queue_of(const struct smd_verbs_queue *queue);
/* A pair more; one less, whose completions are forgotten where script.forgets. */
void script_queue_join(struct script_queue *queue);
void script_queue_leave(struct script_queue *queue, const struct script_pair *pair);
/* `retires` of the pair's sends have left its queue when it is taken; NULL: of no pair. */
void script_queue_push(struct script_queue *queue, struct script_pair *pair, unsigned retires,
	const struct ibv_wc *completion);

/* Ids of pairs that are made without the connection manager (script_port.c). */
struct script_id *script_by_hand_create(uint32_t number);
void script_by_hand_destroy(struct script_id *id);

/* The connection manager knows the first alone. */
#define SCRIPT_DEVICES 2
extern struct ibv_context script_devices[SCRIPT_DEVICES];

#endif
