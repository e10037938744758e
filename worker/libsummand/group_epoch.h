/* How a communicator goes on by the next epoch. On the owner. */
#ifndef SMD_LIBSUMMAND_GROUP_EPOCH_H
#define SMD_LIBSUMMAND_GROUP_EPOCH_H

#include <stdbool.h>

struct smd_comm;
struct smd_epoch_record;
struct smd_request;

/* Gives the operation's chunks their numbers; false: it is kept back until the next epoch, or the
 * communicator has failed. */
bool smd_group_lay(struct smd_request *operation);

/* Of smd_comm's `adopt`: its streams are joined, and what was kept back begins. */
void smd_group_adopt(struct smd_comm *comm, const struct smd_epoch_record *record);

#endif
