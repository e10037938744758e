/*
 * A communicator as one shard sees it: its members, its window of slots, and how far it has come.
 *
 * FORMING until every rank has joined, then ACTIVE. It is ABORTED when a rank is lost, ranks
 * disagree, or it does not become complete in time: every member is told once, is cut off from it,
 * and has only LEAVE left to say. It is gone when no member is attached and no lane uses its
 * buffers any longer. While it forms it has no buffers and no slots, and costs a few KiB.
 *
 * Credits. `limit` is the first ordinal that has not been granted to any rank; each rank's own is
 * what it has been told, so a rank that does not take its results cannot use up the others'
 * buffers. A grant reserves buffers: a window of W needs W * (nranks + 1) reserved ones
 * (specs/design/wire.md says why). One such set is reserved from when the communicator is complete
 * until it is gone, and an idle one has no more; the others come with its first result, while the
 * shard has plenty.
 */
#ifndef SMD_ENGINE_COMM_H
#define SMD_ENGINE_COMM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/base/log.h"
#include "reduction_server/engine/buffer_pool.h"
#include "reduction_server/engine/job.h"
#include "reduction_server/engine/slot.h"
#include "reduction_server/wire/message.h"

struct smd_lane;
struct smd_peer;
struct smd_resources;

enum smd_server_comm_state {
	SMD_SERVER_COMM_FORMING,
	SMD_SERVER_COMM_ACTIVE,
	SMD_SERVER_COMM_ABORTED
};

/* One rank's place in a communicator. It belongs to its peer, and lives from JOIN to LEAVE. */
struct smd_member {
	struct smd_turn turn; /* first: on the peer's lane, for the next result */
	struct smd_peer *peer;
	struct smd_lane *lane;           /* the peer's */
	struct smd_turns *turns;         /* the lane's */
	struct smd_resources *resources; /* the shard's */
	struct smd_server_comm *comm;    /* NULL: aborted, or never let in */
	uint32_t number;                 /* the worker's number for the communicator */
	uint16_t rank;
	uint64_t attempt;  /* as JOIN said */
	uint64_t next;     /* the ordinal that it must send next */
	uint64_t answered; /* of ordinals before this one the lane has been given the result */
	uint32_t given;    /* bytes of the next result that it has been given (piece.h) */
	uint64_t limit; /* the first ordinal that it has not been granted: what it was told, as far
			   as that has left for it */
	struct smd_receive_buffer *receive_buffers; /* NULL: its lane has no remote buffers */
	bool shrinks;                               /* it has been asked what it will not use, */
	uint64_t kept;       /* and has been granted what is before this one since */
	uint64_t held;       /* it has all results before this ordinal, */
	uint64_t asked;      /* and wants to hear when all have those before this one; 0: no */
	uint64_t questioned; /* it was asked whether it has those before this one, and will say */
	uint64_t advertised; /* ordinals from `next` to before this one have theirs; */
	uint64_t advertised_then; /* the same when it was last asked for its window (SHRINK) */
};

struct smd_server_comm {
	struct smd_comms *comms;         /* that it is one of */
	struct smd_resources *resources; /* the shard's */
	enum smd_server_comm_state state;
	struct smd_server_job *job; /* its name is, with `group`, which communicator this is */
	char *group;                /* points into `name` */
	char *name; /* "job/group", for messages: no key, since either may have a slash */
	unsigned nranks;
	uint64_t table_hash;
	bool differs; /* two ranks do not have the same processes for servers: */
	unsigned one; /* this one */
	unsigned other;
	uint64_t id;                 /* of an epoch's streams; 0: of the first */
	bool optional;               /* it may be refused: its ranks then go on without */
	uint64_t lost;       /* while it forms: the table that ranks have lost who have come */
	uint64_t lost_epoch; /* (losses.h), and its epoch: the latest that one has named */
	unsigned asking;             /* members that wait for HELD */
	uint64_t sought;             /* the last epoch that ranks have begun to agree on, */
	uint64_t agreed;             /* and have agreed on: in between none may leave */
	bool retires;                /* a rank has left it that stays in the communicator */
	bool deserted;               /* one has that does not */
	struct smd_member **members; /* [nranks]; NULL: not joined, or left */
	unsigned attached;           /* members that are not NULL */
	bool retired;                /* waits for the reaper */
	uint64_t since_ns;           /* when it began to form, and then to work */
	uint64_t lacks_ns; /* all ranks have joined, and windows are to give way: since then */
	uint64_t told_ns;            /* when a late rank was last named */
	uint64_t warned_ns;          /* and while it forms, the log at the level of warnings */
	bool told_twice;             /* that a rank wanted to join again */

	unsigned window;          /* granted with each result */
	unsigned reserved_window; /* what buffers are reserved for: at least window */
	uint64_t shrink_at; /* when `done` is here, all that was granted under a larger window is
			       over */
	unsigned
		shrinking; /* members that have been asked what they will not use, and may answer */
	uint64_t looked_at; /* `done`, when it was last looked whether it is idle */
	uint64_t limit;
	uint64_t done;    /* first ordinal that has not been reduced */
	uint64_t counted; /* one after the last operation that was counted */
	size_t lent;      /* of the reserved buffers, those of detached members */
	unsigned nslots;
	unsigned busy_slots;
	struct smd_slot *slots;
	struct smd_piece *pieces; /* [nranks] */
	const void **rest;        /* [nranks]: scratch: where parts go on */

	TAILQ_ENTRY(smd_server_comm) link;
};

/* All communicators of a shard that are not gone. */
struct smd_comms {
	TAILQ_HEAD(smd_server_comm_list, smd_server_comm) list;
	struct smd_resources *resources;
	struct smd_jobs jobs;
	bool draining; /* none is formed any more */
	/* Some communicator waits for memory: smd_server_comms_retry() is to be called soon. */
	void (*lacks)(void *owner);
	/* It has no members and no busy slots any longer: takes it off the list, to be freed when
	 * no caller looks at it any more. */
	void (*retire)(void *owner, struct smd_server_comm *comm);
	void *owner;
};

/* One of that name that forms, and has no members yet. 0 or -errno with a text. */
int smd_server_comm_create(struct smd_comms *comms, const char *name, const char *job,
	const struct smd_join *join, struct smd_server_comm **out, struct smd_error *error);

/* All ranks are there: it gets its memory and begins; or waits for what windows of its job have; or
 * ends because there is none. */
void smd_server_comm_activate(struct smd_server_comm *comm);

/* It waits so. */
static inline bool smd_server_comm_lacks_memory(const struct smd_server_comm *comm)
{
	return comm->state == SMD_SERVER_COMM_FORMING && comm->attached == comm->nranks;
}

/* Whether some do still. */
bool smd_server_comms_retry(struct smd_comms *comms);

/* -ENOSPC, with a text. */
int smd_server_comm_no_slot(const char *name, unsigned nranks, const struct smd_buffer_pool *pool,
	struct smd_error *error);

/* LATE, which is no end of it: to all members, or to those that the slot has a part of. */
void smd_server_comm_tell(struct smd_server_comm *comm, const struct smd_slot *slot,
	enum smd_log_level level, const char *text);

/* The member says LEAVE: `why` the communicator is over for its worker, or NULL; it stays in the
 * communicator (`retires`) if these are streams that it needs no more. */
void smd_server_comm_leave(struct smd_member *member, const struct smd_abort *why, bool retires);

/* The member's lane has ended, or (told) is about to be closed: then its worker gets the reason
 * that the others get. */
void smd_server_comm_lost(struct smd_member *member, const char *reason, bool told);

/* The member has all results before that ordinal, and (SMD_HELD_ASKS) waits until all have. */
void smd_server_comm_held(struct smd_member *member, uint64_t ordinal, unsigned what);
/* Tells those that wait for what all have by now. */
void smd_server_comm_tell_held(struct smd_server_comm *comm);

/* AGREE, what ranks agree on: of rank 0 to all others, of any other to rank 0. */
void smd_server_comm_relay(
	struct smd_member *member, const struct smd_frame *frame, const void *payload);

/* Ends the communicator for everyone, and says why. */
void smd_server_comm_abort(struct smd_server_comm *comm, int err, const char *text);

/* Ends it without a word: the lanes are about to be closed, and workers see that. */
void smd_server_comm_abandon(struct smd_server_comm *comm);

/* Gives it to the reaper when no member is attached and no slot is busy. */
void smd_server_comm_retire_if_gone(struct smd_server_comm *comm);

/* No communicator is formed any more: those that were forming are over. */
void smd_server_comms_drain(struct smd_comms *comms);

/* Ends all others, too, which have not ended within so many seconds, and says so. */
void smd_server_comms_end(struct smd_comms *comms, unsigned after_s);

/* Ends all at once, and tells their ranks that the server was stopped. */
void smd_server_comms_stop(struct smd_comms *comms);

void smd_server_comm_free(struct smd_server_comm *comm);

#endif
