/*
 * What lost servers have left undone, and the next epoch that does it (specs/design/epochs.md): of
 * each operation before the epoch's first the chunks that not all ranks have the results of, as
 * this rank has them still, in the caller's buffers or in the history.
 */
#ifndef SMD_LIBSUMMAND_REPAIR_H
#define SMD_LIBSUMMAND_REPAIR_H

#include "worker/libsummand/epoch.h"

/* What rank 0 says of the next epoch: EPOCH. */
struct smd_epoch_record {
	uint32_t index;
	uint64_t dead; /* targets, by number */
	uint64_t id;
	uint64_t first;
	uint32_t oldest; /* earlier epochs than this one are over, but for the first */
	unsigned nlost;
	uint64_t *lost; /* [nlost]: of each stream of the newly dead, where it is cut */
};

/*
 * The next epoch, whose streams have not been joined: what was lost is dealt to them. 0, -ENOMEM,
 * or -ECONNRESET where this rank cannot contribute to a chunk any more; with a text.
 */
int smd_repair_add(struct smd_comm *comm, const struct smd_epoch_record *record,
	struct smd_epoch **out, struct smd_error *error);

/*
 * The epoch is the next one, and ranks have no mesh any more: deals it what not all ranks have of
 * exchanges, from piece `from` on. 0, or -ENOMEM with a text.
 */
int smd_repair_exchanges(struct smd_epoch *epoch, uint64_t from, struct smd_error *error);

/* Gives an operation's chunks their numbers, in the epoch that it begins in and in later ones. 0 or
 * -errno, as above. */
int smd_repair_lay(struct smd_request *operation, struct smd_error *error);

#endif
