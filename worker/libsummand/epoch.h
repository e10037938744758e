/*
 * An *epoch* of a communicator: a table of shards, the streams to them, and what is dealt to these:
 * first what servers that were lost have left undone, as *items*, then whole operations
 * (specs/design/epochs.md).
 *
 * The first epoch has all servers, and carries what ranks agree on for as long as the communicator
 * lives. Chunks of an epoch are numbered from 0: items, then those of operations from `first` on.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_H
#define SMD_LIBSUMMAND_EPOCH_H

#include "worker/libsummand/flow.h"

/* A chunk that a lost server has left undone. */
struct smd_item {
	struct smd_request *operation; /* NULL: it has returned, and */
	struct smd_kept *kept;         /* this is what is left of it */
	uint64_t chunk;                /* in the operation's first numbering */
	bool had;                      /* this rank has the result */
};

/* The flow that a chunk of the epoch is dealt to. */
static inline struct smd_flow *smd_epoch_flow_of(const struct smd_epoch *epoch, uint64_t chunk)
{
	return &epoch->flows[epoch->remotes[smd_deal_shard_of(epoch->deal, chunk)]];
}

struct smd_epoch_table {
	uint64_t dead;           /* targets that it is without, by number */
	const uint32_t *weights; /* of the other shards, in the order of the deal, 0: nothing is
				    dealt to it any more; NULL: those of the last epoch */
	int scale;
	uint32_t exchanged;  /* as in an epoch, */
	bool ends_exchanges; /* and this */
	bool soon; /* a server is to leave: it does not wait for an operation that may never come */
	bool rescues; /* none of the table before is in it: shards have what they declare */
};

/* The remotes of all targets but those, in the order of the deal, on the owner; how many. All ranks
 * have the same. `out` has room for as many as there are, or is NULL. */
unsigned smd_epoch_list_there(const struct smd_comm *comm, uint64_t dead, unsigned *out);

/* The targets of which some shard has a share. */
uint64_t smd_epoch_serving(const struct smd_epoch *epoch);

/* What a shard is worth in a table beside those that serve in `epoch`, by what all of them have
 * declared, whether servers serve by one shard or by all: for rank 0, which tells the others. */
uint32_t smd_epoch_declared_weight(const struct smd_epoch *epoch, const struct smd_remote *remote);

/* Of that remote; NULL: it was not there when the epoch was made. */
static inline struct smd_flow *smd_epoch_flow(
	const struct smd_epoch *epoch, const struct smd_remote *remote)
{
	return remote->index < epoch->nremotes ? &epoch->flows[remote->index] : NULL;
}

/* The one after the last, which it is not added to yet; no flow has begun. NULL: out of memory. */
struct smd_epoch *smd_epoch_create(
	struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table);
void smd_epoch_free(struct smd_epoch *epoch);

/* Which part of all chunks each server gets, by its number, and what their size is by, for the log.
 */
#define SMD_EPOCH_TEXT_MAX 480
void smd_epoch_describe(const struct smd_epoch *epoch, char out[SMD_EPOCH_TEXT_MAX]);

/* From now on it is the communicator's last. */
void smd_epochs_append(struct smd_epoch *epoch);

/* Makes the first epoch of a communicator, or frees all. 0 or -ENOMEM. */
int smd_epochs_create(struct smd_comm *comm);
void smd_epochs_destroy(struct smd_comm *comm);

/* Calls that for each stream of these targets that was not lost before, in the order that all
 * ranks count them in. */
typedef void smd_each_stream(void *arg, struct smd_flow *flow);
void smd_epochs_each_stream(
	const struct smd_comm *comm, uint64_t targets, smd_each_stream *call, void *arg);

/* How many streams of these targets there are, in the epochs that this rank knows. */
unsigned smd_epochs_count_streams(const struct smd_comm *comm, uint64_t targets);
/* How many results each of them has brought. */
void smd_epochs_count_done(const struct smd_comm *comm, uint64_t targets, uint64_t *done);

/* Where operations need so many no other table is asked for, until some are over. */
#define SMD_EPOCHS_NEEDED_MAX 8u

/* The oldest epoch that this rank needs, beside the first one, which stays. */
uint32_t smd_epochs_oldest(const struct smd_comm *comm);

/* The operation ends: nothing is left to do of its repairs. */
void smd_epochs_forget(const struct smd_request *operation);

/* Finds what a chunk of the epoch is of. False: it has not begun. */
bool smd_epoch_find(struct smd_epoch *epoch, uint64_t number, struct smd_request **operation,
	uint64_t *chunk, struct smd_item **item);

#endif
