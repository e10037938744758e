/*
 * Which servers that are not in a communicator's table its ranks reach again: each tells rank 0
 * (REACHES, specs/design/epochs.md), which has the next table with those that all reach.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_REACH_H
#define SMD_LIBSUMMAND_EPOCH_REACH_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "worker/libsummand/config.h"
#include "worker/libsummand/refusals.h"

struct smd_comm;
struct smd_epoch_message;

/* What a rank has said last. */
struct smd_reach {
	uint64_t order;                    /* later ones have a higher number */
	uint64_t targets;                  /* by number, */
	uint64_t servers[SMD_SERVERS_MAX]; /* and which server is there */
};

struct smd_reach_told {
	struct smd_reach last; /* a rank's own */
	/* Rank 0's: */
	struct smd_reach *ranks; /* [nranks], what each has said; NULL: none has */
	bool hopes;              /* maybe there are some that all reach */
	struct smd_refusals refusals; /* of candidates with them */
};

/* This rank reaches others than it has said, or the table is another one. */
void smd_reach_tell(struct smd_comm *comm);

/* Whether this rank has all lanes to those. */
bool smd_reach_has(const struct smd_comm *comm, uint64_t targets);

/* Rank 0: a rank has said REACHES. -EPROTO with a text. */
int smd_reach_take(
	struct smd_comm *comm, const struct smd_epoch_message *message, struct smd_error *error);

/* Rank 0, where it hopes: the next table has those that all reach, if it can have now. */
void smd_reach_consider(struct smd_comm *comm);

/* Rank 0: a candidate was cancelled, so the next is not tried at once. */
void smd_reach_wait(struct smd_comm *comm);

/* What has been said was maybe said to nobody: there was no server to say it through. */
void smd_reach_forget(struct smd_comm *comm);

void smd_reach_destroy(struct smd_reach_told *told);

#endif
