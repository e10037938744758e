/*
 * What nodes say to each other while they agree: votes and verdicts, all of one form and length, so
 * that a reader of foreign bytes has one bound.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_BALLOT_H
#define SMD_NCCL_PLUGIN_COLLNET_BALLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_BALLOT_BYTES      512
#define SMD_BALLOT_NONCE      16
#define SMD_BALLOT_NAME_BYTES 128
#define SMD_BALLOT_TEXT_BYTES 332

struct smd_ballot {
	uint8_t nonce[SMD_BALLOT_NONCE];
	unsigned phase; /* 1 or 2 */
	unsigned node;
	int err;       /* 0: yes; else -errno */
	unsigned loops; /* a vote: of that node; a verdict: the least of all */
	uint64_t pool;  /* of a vote */
	uint32_t server_mbps; /* what servers carry together, of a vote: as that node knows; of a
				 verdict: as any does; 0: it is not known */
	char name[SMD_BALLOT_NAME_BYTES];
	char text[SMD_BALLOT_TEXT_BYTES]; /* the reason of a no; the servers of a yes */
};

void smd_ballot_encode(const struct smd_ballot *ballot, uint8_t bytes[SMD_BALLOT_BYTES]);

/* -EPROTO with what is wrong; texts are cut at the first byte that is not printable. */
int smd_ballot_decode(
	const uint8_t bytes[SMD_BALLOT_BYTES], struct smd_ballot *out, struct smd_error *error);

#endif
