/*
 * A lane that somebody asks for by the connection manager, beside two that are connected: a shard's
 * maker makes it.
 */
#ifndef SMD_TESTS_RDMA_ASKED_H
#define SMD_TESTS_RDMA_ASKED_H

#include "tests/unit/rdma/later.h"

struct asked {
	struct end end;
	struct smd_listener *listener;
	uint8_t *receive_buffers; /* of who asks */
	struct smd_extent pool;   /* the shard's, which nobody touches */
};
extern struct asked asked;

/* Of each test, whose state is the link. */
int managed_set_up(void **state);
int managed_tear_down(void **state);

/* The new id; it is up to the maker what becomes of it. */
struct rdma_cm_id *ask(struct link *link);
/* Who has asked, when the lane has a queue pair. */
struct peer who_asked(void);
/* Its trial comes, and is answered. */
void try_asked(struct peer *peer, struct link *link);

void close_asked(struct link *link);
/* The same while that call is under way. */
void close_asked_before(struct link *link, enum script_call_name name);

#endif
