/* What a communicator's shards say, and what becomes of their lanes: its receivers' tables. */
#ifndef SMD_LIBSUMMAND_GROUP_RECEIVER_H
#define SMD_LIBSUMMAND_GROUP_RECEIVER_H

#include "worker/libsummand/remote.h"

/* Of the first epoch, which cares for the communicator, and of later ones. */
extern const struct smd_receiver_ops smd_group_receiver;
extern const struct smd_receiver_ops smd_group_epoch_receiver;

#endif
