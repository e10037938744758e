/*
 * How the ranks of a communicator agree that servers are lost and what the next epoch is
 * (specs/design/epochs.md): SEALED, ASK and EPOCH, which shards relay. Rank 0 leads.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_AGREEMENT_H
#define SMD_LIBSUMMAND_EPOCH_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

struct smd_comm;
struct smd_seal;

#define SMD_STREAMS_MAX 240 /* of lost servers, that one message can tell of */

struct smd_epoch_agreement {
	uint64_t closed;   /* targets that this process has closed its lanes to */
	bool sealed;       /* so no operation begins */
	uint64_t promised; /* from this one on */
	/* Rank 0's: */
	uint64_t asked;         /* targets that all have been asked to close their lanes to */
	struct smd_seal *seals; /* [nranks]; NULL: none has come */
};

/* The process has closed its lanes to these targets, and others are left: says so, if the
 * communicator is ACTIVE. */
void smd_epoch_agreement_lose(struct smd_comm *comm, uint64_t targets);

/* The communicator is ACTIVE: says what it has not been able to. */
void smd_epoch_agreement_begin(struct smd_comm *comm);

/* AGREE has come. -EPROTO with a text. */
int smd_epoch_agreement_take(
	struct smd_comm *comm, const uint8_t *payload, size_t length, struct smd_error *error);

void smd_epoch_agreement_destroy(struct smd_epoch_agreement *agreement);

#endif
