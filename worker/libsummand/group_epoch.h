/* How a communicator goes on by the next epoch. On the owner. */
#ifndef SMD_LIBSUMMAND_GROUP_EPOCH_H
#define SMD_LIBSUMMAND_GROUP_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

struct smd_comm;
struct smd_epoch_record;
struct smd_epoch_table;
struct smd_request;

/* Gives the operation's chunks their numbers; false: it is kept back until the next epoch, or the
 * communicator has failed. */
bool smd_group_lay(struct smd_request *operation);

/* Rank 0's table begins to follow what it sees, unless it is told otherwise or has no memory for
 * that. From a table to the next it begins anew when a server is lost. */
void smd_group_begin_tuning(struct smd_comm *comm);
void smd_group_stop_tuning(struct smd_comm *comm);
/* An operation is about to begin: maybe another table would be better. */
void smd_group_tune(struct smd_comm *comm);

/* One more of the communicator's `rescues`, whose streams it joins. 0 or -errno. */
int smd_group_join_rescue(struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table);

/* Of smd_comm's `stand` and `drop`: what was kept back begins. */
int smd_group_stand(struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table);
void smd_group_drop(struct smd_comm *comm);

/* Of smd_comm's `adopt`: its streams are joined, and what was kept back begins. */
void smd_group_adopt(struct smd_comm *comm, const struct smd_epoch_record *record);

#endif
