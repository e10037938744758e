/*
 * How the ranks of a communicator change its table where no server is lost
 * (specs/design/epochs.md): AHEAD, PROMISED, and EPOCH or CANCEL, which shards relay. Rank 0 asks,
 * and all join the candidate's streams while the old ones work.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_CHANGE_H
#define SMD_LIBSUMMAND_EPOCH_CHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "reduction_server/base/error.h"

struct smd_comm;
struct smd_epoch_message;
struct smd_epoch_record;
struct smd_epoch_table;

/* Whether this is rank 0, and nothing keeps it from that now. */
bool smd_epoch_change_may_begin(const struct smd_comm *comm);

/*
 * Rank 0: the next epoch has this table, of the last one's servers and maybe others, with a weight
 * for each shard. All join its streams first, so nobody stops but for a moment who comes to the
 * promised operation early; where a shard has no memory for them, the table stays as it is. False:
 * not now.
 */
bool smd_epoch_change_begin(struct smd_comm *comm, const struct smd_epoch_table *table);

/* All of the candidate's streams have been joined, or one cannot be. */
void smd_epoch_change_stands(struct smd_comm *comm, bool joined);

/* Something has been done: maybe this rank needs a server that is to leave no more. */
void smd_epoch_change_progressed(struct smd_comm *comm);

/* Whether the record is of the candidate, as this rank has promised it. */
bool smd_epoch_change_is_right(const struct smd_comm *comm, const struct smd_epoch_record *record);

/* What rank 0 keeps of each rank. */
extern const size_t smd_epoch_promise_bytes;

/* They have come. -EPROTO with a text. */
int smd_epoch_change_take_ahead(
	struct smd_comm *comm, const struct smd_epoch_message *asked, struct smd_error *error);
void smd_epoch_change_take_promise(struct smd_comm *comm, const struct smd_epoch_message *message);
void smd_epoch_change_take_cancel(struct smd_comm *comm, const struct smd_epoch_message *message);

#endif
