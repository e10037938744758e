/*
 * *Exchanges*: all-reduces that the ranks of a communicator do among themselves, over a mesh
 * (specs/design/exchange.md). Each is cut into pieces. One rank, the *hub* of a piece, takes the
 * elements of all others, sums them in rank order, and sends all the result.
 *
 * Which operations are exchanges the table of their epoch says, so all ranks know it alike. All on
 * the owner (progress.h).
 */
#ifndef SMD_LIBSUMMAND_EXCHANGE_H
#define SMD_LIBSUMMAND_EXCHANGE_H

#include "worker/libsummand/exchange_piece.h"

struct smd_epoch;

/* The mesh's lanes are closed; servers do again what is under way (repair.h), */
void smd_exchanges_end(struct smd_comm *comm);
/* or it must be given up with the communicator. */
void smd_exchanges_close(struct smd_comm *comm);

/* Whether the operation is one by some table; by that of its epoch. */
bool smd_exchange_may_take(const struct smd_request *operation);
bool smd_exchange_takes(const struct smd_request *operation, const struct smd_epoch *home);

/* Cuts the operation into pieces, which others may begin before. 0 or -ENOMEM. */
int smd_exchange_lay(struct smd_request *operation);
/* The operation is none: a rank that takes it for one asks for something else. */
void smd_exchange_refuse(const struct smd_request *operation);
/* Begins pieces that may. */
void smd_exchanges_go(struct smd_comm *comm);
/* The operation ends, however far it has come. */
void smd_exchange_end(struct smd_request *operation);

/* Takes what has come of ranks that owe it something; how many could be asked. */
unsigned smd_exchanges_poll(struct smd_comm *comm);

extern const struct smd_mesh_user smd_exchange_mesh_user;

#endif
