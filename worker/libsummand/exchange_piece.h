/*
 * The *pieces* of exchanges (exchange.h): what is under way of each, the memory that it takes, and
 * who is waited for. All on the owner.
 *
 *     kept back -> begun -> has its result -> its operation has returned, and it is kept, until all
 *     ranks have it
 */
#ifndef SMD_LIBSUMMAND_EXCHANGE_PIECE_H
#define SMD_LIBSUMMAND_EXCHANGE_PIECE_H

#include "worker/libsummand/comm.h"
#include "worker/libsummand/mesh.h"
#include "worker/libsummand/operation.h"

#define SMD_MESH_RANKS_MAX     16u
#define SMD_EXCHANGE_BYTES_MAX (16u << 20) /* of an operation, */
#define SMD_PIECE_BYTES_MIN    (64u << 10)  /* and of a piece that is not the only one, */
#define SMD_PIECE_BYTES_MAX    (256u << 10) /* and at most: what is summed at once is in the caches \
					     */
/* A rank begins none that is so many after one whose result it lacks, and has at most so many bytes
 * under way. */
#define SMD_PIECES_AT_ONCE      16u
#define SMD_PIECE_BYTES_AT_ONCE (2u << 20)

/* What another rank contributes to a piece, at the hub. */
struct smd_exchange_input {
	TAILQ_ENTRY(smd_exchange_input) link; /* of those without a piece, or that are free */
	struct smd_frame shape;
	bool whole;
	unsigned log2; /* of the bytes that it has room for */
	uint8_t *bytes;
};
TAILQ_HEAD(smd_exchange_inputs, smd_exchange_input);

/* One piece. */
struct smd_exchange_piece {
	TAILQ_ENTRY(smd_exchange_piece) link; /* of the communicator's, in order */
	uint64_t number;                      /* in the communicator: the same for all ranks */
	struct smd_request *operation;        /* NULL: it has returned, */
	struct smd_frame shape;               /* and was of this, */
	uint8_t *result; /* the hub's, in the memory of an input; NULL: this rank is not the hub, or
			    all have it */
	uint64_t chunk;                       /* of its operation (operation.h) */
	uint64_t first; /* element of it, */
	uint64_t count; /* and so many */
	size_t bytes;
	unsigned hub; /* rank */
	bool begun;
	uint64_t begun_ns;
	bool has_result;
	bool receives;    /* the result is coming in */
	unsigned missing; /* the hub: inputs */
	bool asked;       /* others what they have begun (exchange_watch.h); */
	unsigned told;    /* how often who is late was named */
	struct smd_exchange_input *inputs[SMD_MESH_RANKS_MAX];
	struct smd_send sends[SMD_MESH_RANKS_MAX]; /* by whom they are for */
};
TAILQ_HEAD(smd_exchange_pieces, smd_exchange_piece);

#define SMD_EXCHANGE_LOG2S 19 /* of bytes, up to a piece */

/* How far ranks are with having a mesh (meeting.h). */
struct smd_meeting {
	uint64_t id; /* 0: rank 0 has not asked */
	bool listed; /* where all listen */
	bool made;   /* this rank has all lanes; */
	bool ready;  /* rank 0: so have all; */
	bool failed; /* some rank cannot, or has a lane no more, so none does */
	bool told;   /* what this rank has begun needs a lane that has ended: the log has it */
	/* Rank 0's: */
	uint64_t asked_ns; /* then it has asked, */
	uint32_t placed;   /* ranks that have said where they listen, by number, */
	uint32_t meets;    /* and that have all lanes */
	struct smd_mesh_place places[SMD_MESH_RANKS_MAX];
};

struct smd_exchanges {
	struct smd_comm *comm;
	struct smd_mesh *mesh; /* NULL: this rank cannot have one */
	struct smd_meeting meeting;
	bool has_lanes; /* or makes them: the mesh is not closed, and counts for the context's */
	void (*lost)(struct smd_comm *comm);           /* one of its lanes has ended */
	void (*made)(struct smd_comm *comm, bool all); /* it has all lanes, or never will */
	/* What has been begun needs the lane to that rank, which has ended. */
	void (*needed)(struct smd_comm *comm, unsigned rank);
	struct smd_error why; /* it has ended; */
	uint64_t needed_ns; /* some rank has found so: servers shall do again what is left; 0: none
			     */
	bool over;          /* there is no mesh any more: pieces are left to servers */
	bool handed_on;     /* and these have them */
	uint64_t next_number;            /* of a piece */
	uint64_t done;                   /* the last number with a result, and one more */
	uint64_t lacks[SMD_MESH_RANKS_MAX]; /* each rank has said that it has all before this one */
	struct smd_exchange_pieces kept; /* of operations that have returned, in order */
	uint8_t *nothing; /* zeros, as many as a piece has: what is said of one that is not here */
	struct smd_exchange_pieces list;
	struct smd_exchange_piece *next;       /* the first that is kept back; NULL: none is */
	unsigned begun;                        /* of these, */
	size_t begun_bytes;                    /* with so many bytes */
	struct smd_exchange_inputs waiting;    /* of operations that this rank has not begun */
	unsigned nwaiting[SMD_MESH_RANKS_MAX]; /* of each rank, */
	size_t waiting_bytes[SMD_MESH_RANKS_MAX];
	struct smd_exchange_input *rx[SMD_MESH_RANKS_MAX]; /* what is coming in of each */
	struct smd_exchange_piece *rx_result[SMD_MESH_RANKS_MAX];
	struct smd_exchange_pieces spare; /* memory to be used again */
	struct smd_exchange_inputs free[SMD_EXCHANGE_LOG2S]; /* to be used again, */
	unsigned nfree[SMD_EXCHANGE_LOG2S];                  /* so many */
	struct event *watch; /* while some are under way (exchange_watch.h) */
	bool watches;
	uint64_t ended_ns; /* since then a server has said that the communicator ends */
	char late[SMD_ERROR_TEXT_MAX / 2]; /* ranks that the hub waits for, as it has said last, */
	unsigned nlate;                    /* so many */
};

/* The communicator's, made if there are none. NULL: out of memory. */
struct smd_exchanges *smd_exchanges_get(struct smd_comm *comm);
/* What its lanes have moved. */
void smd_exchanges_count(const struct smd_comm *comm, struct smd_lane_counts *sum);
/* Closes the mesh, if that has not been done. */
void smd_exchanges_close_mesh(struct smd_exchanges *exchanges);
/* The mesh is closed, or there is none. */
void smd_exchanges_free(struct smd_comm *comm);

static inline struct smd_exchanges *smd_exchanges_of(const struct smd_mesh_peer *peer)
{
	return (struct smd_exchanges *)peer->mesh->owner;
}

/* What ranks have contributed to a piece is needed no more, but for the memory that its result is
 * in. */
void smd_exchange_inputs_give_back(
	struct smd_exchanges *exchanges, struct smd_exchange_piece *piece);

/* Adds a piece behind the others; NULL: out of memory. Ends it with its operation, however far it
 * has come. */
struct smd_exchange_piece *smd_exchange_piece_add(struct smd_exchanges *exchanges);
void smd_exchange_piece_end(struct smd_exchanges *exchanges, struct smd_exchange_piece *piece);

/* The first piece that this rank has no result of, or the next one that it will have. */
uint64_t smd_exchanges_missing(const struct smd_exchanges *exchanges);
/* The rank has said that it has all before that one. */
void smd_exchanges_heard(struct smd_exchanges *exchanges, unsigned rank, uint64_t lacks);

/* Room for what a rank contributes; NULL: out of memory. */
struct smd_exchange_input *smd_exchange_input_take(struct smd_exchanges *exchanges, size_t bytes);

/* The piece of an operation that this rank has begun; NULL: it has not, or it is over. */
struct smd_exchange_piece *smd_exchange_find(
	const struct smd_exchanges *exchanges, uint64_t sequence, uint64_t first);

/* Whether the piece needs something more of that rank. */
bool smd_exchange_needs(const struct smd_exchange_piece *piece, unsigned rank);

/* The first operation that cannot be done, because a rank's lane has ended; or SMD_COMM_NO_END. */
uint64_t smd_exchanges_lost(const struct smd_comm *comm);

/* What this rank has come to as that operation; NULL: it has not, or it is over. */
const struct smd_request *smd_exchange_operation(const struct smd_comm *comm, uint64_t sequence);

/* Ranks have asked for different things in an operation: fails the communicator. */
void smd_exchange_disagrees(struct smd_comm *comm, const struct smd_mesh_peer *peer,
	const struct smd_frame *theirs, const struct smd_request *ours);

#endif
