/*
 * Streams through which ranks agree when no server of their table is left, and others are there
 * that it has not taken in yet: started again, or added. Each has a server of its own for the next
 * table (group_rescue.h joins them). On the owner.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_RESCUE_H
#define SMD_LIBSUMMAND_EPOCH_RESCUE_H

#include "worker/libsummand/epoch.h"

struct smd_epoch_record;

/* Of such streams at the target: of the communicator and the server alone, since some ranks may not
 * have heard the last record. Never 0. */
uint64_t smd_rescue_id(const struct smd_comm *comm, unsigned target);

/* Whether the epoch is of streams that were joined so: all ranks had come to its server. */
bool smd_rescue_made(const struct smd_epoch *epoch);

/* The servers that this rank has asked for such streams. */
uint64_t smd_rescue_asked(const struct smd_comm *comm);

/* The last table's, where this rank has lost all of them, or all that are left have lost some rank;
 * else none. */
uint64_t smd_rescue_lost_table(const struct smd_comm *comm);

/* One of which all shards have all ranks, the first by its server's number; or NULL. */
const struct smd_epoch *smd_rescue_whole(const struct smd_comm *comm);

/* Those that this rank has lost since, and those that have ended the streams otherwise, too. */
uint64_t smd_rescue_lost(const struct smd_comm *comm);
uint64_t smd_rescue_over(const struct smd_comm *comm);

/* Those that it has lost before they had all ranks. */
uint64_t smd_rescue_lost_early(const struct smd_comm *comm);

/* The one of that id; NULL: it is none of them. */
const struct smd_epoch *smd_rescue_find(const struct smd_comm *comm, uint64_t id);

/* What servers a record is without that the table before has: all, in a rescue, by what has become
 * of their streams. */
uint64_t smd_rescue_newly_lost(const struct smd_comm *comm, const struct smd_epoch_record *record);

/* Which it has that have come back. */
uint64_t smd_rescue_back(const struct smd_comm *comm, const struct smd_epoch_record *record);

/* Takes it out of the communicator's: it is to be the next epoch. */
struct smd_epoch *smd_rescue_take(struct smd_comm *comm, uint64_t id);

#endif
