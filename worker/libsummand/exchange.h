/*
 * *Exchanges*: all-reduces that the ranks of a communicator do among themselves, over a mesh
 * (specs/design/exchange.md). Each is cut into pieces. One rank, the *hub* of a piece, takes the
 * elements of all others, sums them in rank order, and sends all the result.
 *
 *     kept back -> begun -> has its result -> ended with its operation
 *
 * Which operations are exchanges the table of their epoch says, so all ranks know it alike. All on
 * the owner (progress.h).
 */
#ifndef SMD_LIBSUMMAND_EXCHANGE_H
#define SMD_LIBSUMMAND_EXCHANGE_H

#include "worker/libsummand/meeting.h"
#include "worker/libsummand/mesh.h"
#include "worker/libsummand/operation.h"

struct smd_epoch;

#define SMD_EXCHANGE_BYTES_MAX (4u << 20)   /* of an operation, */
#define SMD_PIECE_BYTES_MAX    (256u << 10) /* and of a piece: what is summed at once is in the caches */
/* Pieces that a rank has under way: so many, and bytes of them together. */
#define SMD_PIECES_AT_ONCE      16u
#define SMD_PIECE_BYTES_AT_ONCE (2u << 20)

/* What another rank contributes to a piece, at the hub. */
struct smd_exchange_input {
	TAILQ_ENTRY(smd_exchange_input) link; /* of those that no exchange has yet, or that are free */
	struct smd_frame shape;
	bool whole;
	unsigned class; /* log2 of the bytes that it has room for */
	uint8_t *bytes;
};
TAILQ_HEAD(smd_exchange_inputs, smd_exchange_input);

/* One piece. */
struct smd_exchange {
	TAILQ_ENTRY(smd_exchange) link; /* of the communicator's, in order */
	struct smd_request *operation;
	uint64_t first; /* element of it, */
	uint64_t count; /* and so many */
	size_t bytes;
	unsigned hub; /* rank */
	bool begun;
	uint64_t begun_ns;
	bool has_result;
	bool receives; /* the result is coming in */
	unsigned missing; /* the hub: inputs */
	unsigned looks;   /* how often it was found to wait (exchange_watch.h) */
	struct smd_exchange_input *inputs[SMD_MESH_RANKS_MAX];
	struct smd_send sends[SMD_MESH_RANKS_MAX]; /* by whom they are for */
};
TAILQ_HEAD(smd_exchange_list, smd_exchange);

#define SMD_EXCHANGE_CLASSES 19 /* up to a piece */

struct smd_exchanges {
	struct smd_comm *comm;
	struct smd_mesh *mesh; /* NULL: this rank cannot have one */
	struct smd_meeting meeting;
	struct smd_exchange_list list;
	unsigned begun;                     /* of these, */
	size_t begun_bytes;                 /* with so many bytes */
	struct smd_exchange_inputs waiting; /* of operations that this rank has not begun */
	unsigned nwaiting[SMD_MESH_RANKS_MAX]; /* of each rank, */
	size_t waiting_bytes[SMD_MESH_RANKS_MAX];
	struct smd_exchange_input *rx[SMD_MESH_RANKS_MAX]; /* what is coming in of each */
	struct smd_exchange *rx_result[SMD_MESH_RANKS_MAX];
	struct smd_exchange_list spare; /* memory to be used again */
	struct smd_exchange_inputs free[SMD_EXCHANGE_CLASSES];
	struct event *watch; /* while some are under way (exchange_watch.h) */
	bool watches;
	uint64_t ended_ns; /* since then a server has said that the communicator ends */
	char late[SMD_ERROR_TEXT_MAX / 2]; /* ranks that the hub waits for, as it has said last, */
	unsigned nlate;                    /* so many */
};

/* The communicator's, made if there are none. NULL: out of memory. */
struct smd_exchanges *smd_exchanges_get(struct smd_comm *comm);
/* Its lanes are closed; what is under way must be given up with the communicator. */
void smd_exchanges_close(struct smd_comm *comm);
void smd_exchanges_free(struct smd_comm *comm);

/* Whether the operation is one, by the table of its epoch. */
bool smd_exchange_takes(const struct smd_request *operation, const struct smd_epoch *home);

/* Cuts the operation into pieces, which others may begin before. 0 or -ENOMEM. */
int smd_exchange_lay(struct smd_request *operation);
/* The operation is none: a rank that takes it for one asks for something else. */
void smd_exchange_refuse(const struct smd_request *operation);
/* Begins those that may. */
void smd_exchanges_go(struct smd_comm *comm);

/* The operation ends, however far it has come. */
void smd_exchange_end(struct smd_request *operation);

/* Takes what has come of ranks that owe it something; how many could be asked. */
unsigned smd_exchanges_poll(struct smd_comm *comm);

/* Whether the exchange needs something more of that rank. */
bool smd_exchange_needs(const struct smd_exchange *exchange, unsigned rank);

/* The first operation that cannot be done, because a rank's lane has ended; or SMD_COMM_NO_END. */
uint64_t smd_exchanges_lost(const struct smd_comm *comm);

/* The piece of an operation that is begun; NULL: there is none, or it is over. */
struct smd_exchange *smd_exchange_find(
	const struct smd_exchanges *exchanges, uint64_t sequence, uint64_t first);

/* What the operation asks for. */
void smd_exchange_shape(const struct smd_request *operation, struct smd_frame *out);
/* Ranks have asked for different things in an operation: fails the communicator. */
void smd_exchange_disagrees(struct smd_comm *comm, const struct smd_mesh_peer *peer,
	const struct smd_frame *theirs, const struct smd_request *ours);

extern const struct smd_mesh_user smd_exchange_mesh_user;

#endif
