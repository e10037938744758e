/*
 * How the ranks of a communicator agree that servers are lost and what the next epoch is
 * (specs/design/epochs.md): SEALED, ASK and EPOCH, which shards relay. Rank 0 leads. Other tables
 * are epoch_change.h's.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_AGREEMENT_H
#define SMD_LIBSUMMAND_EPOCH_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "worker/libsummand/epoch_parts.h"
#include "worker/libsummand/epoch_reach.h"

struct smd_comm;
struct smd_epoch_message;
struct smd_flow;
struct smd_promise;
struct smd_seal;

struct smd_epoch_agreement {
	uint64_t closed;   /* targets that this process has closed its lanes to */
	bool sealed;       /* so no operation begins, */
	bool ahead;        /* or because rank 0 has asked for it, with all servers there, */
	bool soon;         /* the candidate begins with the next operation (epoch_message.h) */
	bool waits;        /* or will promise that when it needs no server that is to leave, */
	uint64_t promised; /* from this one on */
	uint64_t answered; /* targets of this epoch's ASKs, each of which comes through every server
			    */
	uint64_t asks;     /* candidates that rank 0 has asked all to join */
	struct smd_reach_told reach;
	struct smd_epoch_parts parts; /* of messages that have not come whole */
	/* Rank 0's: */
	uint64_t asked;               /* targets that all have been asked to close their lanes to */
	struct smd_seal *seals;       /* [nranks]; NULL: none has come */
	struct smd_promise *promises; /* [nranks]; NULL: none has come */
	bool changes;                 /* all have been asked whether they can join the candidate */
	struct smd_epoch_message *last; /* the record of this epoch; NULL: it is the first */
	uint64_t drain_ns;            /* not before then a table without servers that are drained */
};

/* The process has closed its lanes to these targets, and others are left: says so, if the
 * communicator is ACTIVE. */
void smd_epoch_agreement_lose(struct smd_comm *comm, uint64_t targets);

/* Streams of a rescue have all ranks (group_rescue.h): rank 0 says its last record again, which was
 * maybe said through a server that was lost then; and all say what is sealed. */
void smd_epoch_agreement_rescued(struct smd_comm *comm);

/* One more shard has all ranks, others have not: what this rank has lost, and says to nobody else,
 * others may be waiting for. */
void smd_epoch_agreement_joined(struct smd_comm *comm);

/* The communicator is ACTIVE: says what it has not been able to. */
void smd_epoch_agreement_begin(struct smd_comm *comm);

/* Rank 0: says EPOCH to all, this rank too. */
void smd_epoch_agreement_record(struct smd_comm *comm, struct smd_epoch_message *message);

/* AGREE has come through a stream. -EPROTO with a text. */
int smd_epoch_agreement_take(
	struct smd_flow *flow, const uint8_t *payload, size_t length, struct smd_error *error);

/* What ranks have said of the epoch before is so large that it is not kept. */
void smd_epoch_agreement_forget_seals(struct smd_comm *comm);

/* What has been allocated for what ranks have said. */
size_t smd_epoch_agreement_bytes(const struct smd_comm *comm);

void smd_epoch_agreement_destroy(struct smd_epoch_agreement *agreement);

#endif
