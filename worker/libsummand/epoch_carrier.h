/*
 * Which streams carry what ranks agree on (specs/design/epochs.md, what is said): those to every
 * server that this rank has streams to, since one of them may die on the way.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_CARRIER_H
#define SMD_LIBSUMMAND_EPOCH_CARRIER_H

#include <stdint.h>

struct smd_comm;
struct smd_epoch_message;

/* Its rank is set here. Nothing ends by it: what cannot be said ends a lane later. */
void smd_epoch_say(struct smd_comm *comm, struct smd_epoch_message *message);

/* An id for new streams; not 0. -ENOMEM, and the communicator has failed. */
int smd_epoch_draw_id(struct smd_comm *comm, uint64_t *out);

#endif
