/*
 * A lane whose queue pair is made, joined and destroyed beside the loop, as a shard's are, while
 * those calls take as long as the test likes.
 */
#ifndef SMD_TESTS_RDMA_LATER_H
#define SMD_TESTS_RDMA_LATER_H

#include "tests/unit/rdma/halves.h"

/* A half that is made later, beside two that are joined. */
struct later {
	struct end end; /* first: its owner's address is its own */
	struct half half;
	struct rdma_loop *loop;
	unsigned offered;
};
extern struct later later;

int offer_one(struct later *one, struct link *link, struct smd_error *error);
/* And when all of it is gone. */
void close_one(struct later *one, struct link *link);

/* The same of `later`; and until it is made. */
int later_offer(struct link *link, struct smd_error *error);
void later_make(struct link *link);
void later_close(struct link *link);

/* It is made, and its other end answers at once, as a worker does; and until both are open. */
void later_answer(struct link *link, struct half *answer, struct end *answering);
void later_open(struct link *link, struct half *answer, struct end *answering);

/* That call takes until it may end; somebody is in it. */
void slow_begin(enum script_call_name name);
void slow_end(enum script_call_name name);
bool is_held(enum script_call_name name);

/* A chunk crosses the lane that is there, both ways, while that call is not through. */
void chunks_cross(struct link *link, enum script_call_name name);

/* What is known of ports is as old as can be; there is a maker, as a shard has one from the start.
 */
struct rdma_loop *loop_age(const struct halves *halves);

#endif
